"""A part of the transaction log as a file of lines, which a savepoint keeps whatever becomes of the log."""

from __future__ import annotations

from collections.abc import Sequence

from sleeper_nb.model.checksums import checksum_of
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.integrity import read_checked


def write(storage: Storage, path: str, entries: Sequence[bytes]) -> str:
    """Write entries of the log in their order, each JSON (`sleeper_nb.model.log_entries.to_entry`).

    Returns
    -------
    str
        The file's checksum.
    """
    content = b"".join(entry + b"\n" for entry in entries)
    storage.write(path, content)
    return checksum_of(content)


def read(storage: Storage, path: str, checksum: str | None = None) -> tuple[bytes, ...]:
    """Return what `write` wrote; `StorageError` when it has another checksum than the given one."""
    return tuple(read_checked(storage, path, checksum).splitlines())
