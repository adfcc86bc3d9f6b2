"""A cache on this machine's disk of metadata and footers in buckets: files are written once and have a checksum.

A file's name is made of its address and its checksum, so that another content of the same address is another file. What
is read is compared with the checksum by the caller (`FileCache.get`): a damaged copy is dropped, never used. Any number
of processes may use one folder: copies come by a rename, and one that is gone is asked of the bucket again.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sleeper_nb.clock import Clock
from sleeper_nb.errors import StorageError
from sleeper_nb.model.checksums import DIGITS, checksum_of, is_stamp
from sleeper_nb.storage.local import remove_abandoned, whole_file

logger = logging.getLogger(__name__)

_LARGEST: Final = 4
"""A file may take this part of the cache."""
_ROOM: Final = 8
"""After so large a part of the bound was added, the cache is trimmed; it may be that much larger for a while."""


class FileCache:
    """Copies of files of buckets, in one folder that only this user may read; the least recently used ones go."""

    def __init__(self, folder: Path | None, most_bytes: int, clock: Clock | None = None) -> None:
        self._folder = folder if most_bytes > 0 else None
        self._most_bytes, self._clock = most_bytes, clock or Clock()
        self._added = most_bytes  # so that the first file trims what another bound has left

    def __reduce__(self) -> tuple[object, ...]:
        # Another process, perhaps on another machine, has no cache.
        return FileCache, (None, 0)

    def get(self, address: str, checksum: str | None) -> bytes | None:
        """Return the content of a file that has a checksum; None where there is no copy, or a damaged one."""
        return self._read(address, self._path(address, checksum), lambda content: checksum_of(content) == checksum)

    def part(self, address: str, checksum: str | None, name: str) -> bytes | None:
        """Return a part of a file that has a checksum, such as its footer, as `put_part` kept it; None as `get`."""
        path = self._path(address, checksum, name)
        kept = self._read(address, path, lambda content: _is_part_of(content, path))
        return None if kept is None else kept[DIGITS:]

    def put_part(self, address: str, checksum: str | None, name: str, content: bytes) -> None:
        """Keep a part of a file, as `put`; a copy begins with a checksum of its own name and content."""
        path = self._path(address, checksum, name)
        if path is not None:
            self._write(address, path, _sealed(content, path))

    def drop_part(self, address: str, checksum: str | None, name: str) -> None:
        path = self._path(address, checksum, name)
        if path is not None:
            self._drop(address, path)

    def _read(self, address: str, path: Path | None, is_whole: Callable[[bytes], bool]) -> bytes | None:
        if path is None:
            return None
        try:
            content = path.read_bytes()
        except OSError:
            return None
        if not is_whole(content):
            self._drop(address, path)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return content

    def _drop(self, address: str, path: Path) -> None:
        logger.warning("the cached copy of %s is damaged, and is dropped: %s", address, path)
        with contextlib.suppress(OSError):
            path.unlink()

    def put(self, address: str, checksum: str | None, content: bytes) -> None:
        """Keep the content of a file; nothing happens where that fails, or where it is too large."""
        self._write(address, self._path(address, checksum), content)

    def clear(self) -> None:
        """Delete all copies: those of deleted files have least and greatest keys."""
        if self._folder is None:
            return
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    Path(entry.path).unlink(missing_ok=True)  # another process may delete it, too
        except FileNotFoundError:  # nothing was ever kept
            return
        except OSError as error:
            raise StorageError(f"the metadata cache {self._folder} cannot be deleted: {error}") from error

    def _write(self, address: str, path: Path | None, content: bytes) -> None:
        if path is None or len(content) * _LARGEST > self._most_bytes:
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with whole_file(path) as copy:
                copy.write_bytes(content)
        except OSError as error:  # a full disk, or a folder that may only be read
            logger.debug("the metadata cache does not take %s: %s", address, error)
            return
        self._added += len(content)
        if self._added * _ROOM >= self._most_bytes:
            self._trim()

    def _path(self, address: str, checksum: str | None, part: str = "") -> Path | None:
        if self._folder is None or checksum is None or is_stamp(checksum):
            return None
        return self._folder / "-".join(filter(None, (checksum_of(address.encode()), checksum, part)))

    def _trim(self) -> None:
        """Delete half-written copies of killed processes, and the least recently used ones beyond the bound."""
        assert self._folder is not None  # noqa: S101 - something was put there
        remove_abandoned(self._folder, self._clock.now())
        self._added, kept = 0, []
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # another process deleted it
                    status = entry.stat(follow_symlinks=False)
                    kept.append((status.st_mtime_ns, status.st_size, entry.path))
        size = sum(each[1] for each in kept)
        for _, each, path in sorted(kept):
            if size <= self._most_bytes:
                return
            with contextlib.suppress(OSError):
                Path(path).unlink()
            size -= each


def _sealed(content: bytes, path: Path) -> bytes:
    """Return a copy of a part: it begins with a checksum of its name, which says whose part it is, and its content."""
    return checksum_of(path.name.encode() + content).encode() + content


def _is_part_of(copy: bytes, path: Path | None) -> bool:
    return path is not None and copy == _sealed(copy[DIGITS:], path)


NO_CACHE: Final = FileCache(None, 0)
