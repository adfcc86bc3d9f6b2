"""A part of the transaction log as a file of lines, which a savepoint keeps whatever becomes of the log."""

from __future__ import annotations

from collections.abc import Sequence

from sleeper_nb.storage.filesystem import Storage


def write(storage: Storage, path: str, entries: Sequence[bytes]) -> None:
    """Write entries of the log in their order; each is JSON (`sleeper_nb.model.log_entries.to_entry`)."""
    storage.write(path, b"".join(entry + b"\n" for entry in entries))


def read(storage: Storage, path: str) -> tuple[bytes, ...]:
    """Return what `write` wrote."""
    return tuple(storage.read(path).splitlines())
