"""Checksums of whole files: the first 128 bits of SHA-256, as 32 hexadecimal digits."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

DIGITS = 32
"""How many digits of SHA-256 are kept: ``sha256sum FILE | cut -c1-32`` prints the same."""


class Checksum:
    """The checksum of bytes that are added in parts."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, part: bytes | memoryview) -> None:
        """Add the next part."""
        self._hash.update(part)

    @property
    def text(self) -> str:
        """The checksum of all parts so far."""
        return self._hash.hexdigest()[:DIGITS]


def checksum_of(*parts: bytes) -> str:
    """Return the checksum of some bytes."""
    return checksum_of_all(parts)


def checksum_of_all(parts: Iterable[bytes]) -> str:
    """Return the checksum of bytes given as an iterable of parts."""
    checksum = Checksum()
    for part in parts:
        checksum.add(part)
    return checksum.text
