"""Verify that files are unchanged: compute checksums while writing, and compare them when reading."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from sleeper_nb.errors import DEEP_CHECK, NotAFile, StorageError
from sleeper_nb.model.checksums import DIGITS, Checksum, checksum_of, checksum_of_all, is_stamp
from sleeper_nb.storage.filesystem import Storage

PART_BYTES = 1 << 20

HINT = (
    DEEP_CHECK,
    " lists every damaged file; restore the file from a copy, or roll back to a version without it",
)
DAMAGED = "is damaged: it was changed after it was written (its checksum differs)"
CHANGED = "was changed after it was added to the table (its time of change, or its ETag, differs)"

_WRITTEN_TOGETHER = 1 << 16
"""Bytes."""


class _Summing:
    """A writable stream that passes everything to another stream and adds it to a checksum."""

    closed = False

    def __init__(self, stream: pa.NativeFile, checksum: Checksum) -> None:
        self._stream, self._checksum = stream, checksum

    def write(self, part: bytes) -> int:
        self._stream.write(part)
        self._checksum.add(part)
        return len(part)

    def flush(self) -> None:
        """Do nothing: closing the file's stream flushes it."""

    def close(self) -> None:
        """Do nothing: the code that opened the file's stream closes it."""


@contextlib.contextmanager
def checksummed(storage: Storage, path: str) -> Iterator[tuple[pa.NativeFile, Checksum]]:
    """Open a new file for writing, as `Storage.output` does, and return the stream and its checksum.

    The checksum is that of the whole file once the block has ended.
    """
    checksum = Checksum()
    with storage.output(path) as plain:
        # Parquet writes many parts of a few bytes: they are collected before they come to Python
        stream = pa.BufferedOutputStream(pa.PythonFile(_Summing(plain, checksum), "w"), _WRITTEN_TOGETHER)
        try:
            yield stream, checksum
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one to raise
                stream.close()
            raise
        stream.close()


def damaged(storage: Storage, path: str) -> StorageError:
    return StorageError(f"{storage.locate(path)} {DAMAGED}", hint=HINT)


def checked(storage: Storage, path: str, content: bytes, checksum: str | None) -> bytes:
    if checksum is not None and checksum_of(content) != checksum:
        raise damaged(storage, path)
    return content


def read_checked(storage: Storage, path: str, checksum: str | None) -> bytes:
    """Return a file's content, of a bucket from the copy on this machine where there is one.

    `NotFound` when there is no such file. `StorageError` when the content does not match a known checksum.
    """
    if storage.local:
        return checked(storage, path, storage.read(path), checksum)
    address = storage.locate(path)
    content = storage.cache.get(address, checksum)
    if content is None:
        content = checked(storage, path, storage.read(path), checksum)
        storage.cache.put(address, checksum, content)
    return content


def check_is_file(storage: Storage, path: str) -> None:
    """Raise `NotAFile` for a local folder in the place of a file: engines would read the files in it."""
    if os.path.isdir(located := storage.locate(path)):  # noqa: PTH112 - as in `check_once`
        raise NotAFile.at(located)


def check_once(storage: Storage, path: str, checksum: str) -> None:
    """Raise `damaged` if a local file does not match a checksum; it is read again only after it has changed."""
    located = storage.locate(path)
    try:
        status = os.stat(located)  # noqa: PTH116 - a `Path` takes longer to make than the call takes
    except OSError:  # the reader of the file reports this
        return
    if stat.S_ISDIR(status.st_mode):
        raise NotAFile.at(located)
    if _checksum_now(located, status.st_mtime_ns, status.st_size, status.st_ino) != checksum:
        raise damaged(storage, path)


@lru_cache(maxsize=1 << 16)
def _checksum_now(located: str, _modified: int, _size: int, _inode: int) -> str:
    with Path(located).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:DIGITS]


def changed_since(storage: Storage, path: str) -> StorageError:
    return StorageError(f"{storage.locate(path)} {CHANGED}", hint=HINT)


def is_as_recorded(storage: Storage, path: str, recorded: str) -> bool:
    """Return whether a file still has the recorded checksum; or stamp, for which nothing of the file is read."""
    if is_stamp(recorded):
        return storage.stamped(path)[1] == recorded
    return file_checksum(storage, path) == recorded


def file_checksum(storage: Storage, path: str) -> str:
    return checksum_of_all(_parts(storage, path))


def _parts(storage: Storage, path: str) -> Iterator[bytes]:
    with storage.input(path) as stream:
        while part := stream.read(PART_BYTES):
            yield part
