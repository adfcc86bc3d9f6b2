"""Checksums of whole files: the first 128 bits of SHA-256, as 32 hexadecimal digits.

Files that a table only refers to have a stamp instead, since reading all of them would take as long as copying them:
when they were last changed, or the ETag that their server gave them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

DIGITS = 32
"""How many digits of SHA-256 are kept: ``sha256sum FILE | cut -c1-32`` prints the same."""


_MODIFIED, _ETAG = "modified:", "etag:"


def modified_stamp(nanoseconds: int) -> str:
    return f"{_MODIFIED}{nanoseconds}"


def etag_stamp(etag: str) -> str:
    return f"{_ETAG}{etag}"


def is_stamp(checksum: str | None) -> bool:
    return checksum is not None and checksum.startswith((_MODIFIED, _ETAG))


class Checksum:
    """The checksum and the number of bytes that are added in parts."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.bytes = 0

    def add(self, part: bytes | memoryview) -> None:
        self._hash.update(part)
        self.bytes += len(part)

    @property
    def text(self) -> str:
        return self._hash.hexdigest()[:DIGITS]


def checksum_of(*parts: bytes) -> str:
    return checksum_of_all(parts)


def checksum_of_all(parts: Iterable[bytes]) -> str:
    checksum = Checksum()
    for part in parts:
        checksum.add(part)
    return checksum.text
