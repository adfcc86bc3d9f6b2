"""A folder of this machine as a place of files: a file is on disk before anything names it.

A folder of a warehouse may have symbolic links, and another user may make one at any moment. Files that links lead to
can be read where the user allows their place. They are listed only if the user allowed the link itself, and are never
deleted: a deletion opens each folder of a path without following links, so a link that appears meanwhile stops it.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from sleeper_nb.errors import FREE_SPACE, DiskFull, NotAFile, NotFound, SleeperError, StorageError
from sleeper_nb.model.checksums import modified_stamp
from sleeper_nb.storage.places import COPY_IT, StoredFile

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
"""How to open a folder that must not be a link; where it can be, it need not be readable."""
_HAS_DESCRIPTORS = {os.open, os.stat, os.unlink} <= os.supports_dir_fd  # Windows has none


class LocalPlace:
    """A local folder, created with the first file. Without `sync`, a power cut can empty the files written last."""

    local = True
    access = None
    network = None

    def __init__(self, root: Path | str, *, sync: bool = True) -> None:
        self._sync = sync
        self.real: str | None = None
        self.links: Mapping[str, str] = {}
        self.root = self.prefix = str(Path(root).absolute())
        self.filesystem = self.readable = fs.LocalFileSystem()

    def below(self, folder: str) -> LocalPlace:
        place = LocalPlace(f"{self.root}/{folder}", sync=self._sync)
        place.real = None if self.real is None else f"{self.real}/{folder}"
        return place

    def staying(self, links: Iterable[str] = ()) -> LocalPlace:
        """Return the place that lists and deletes only what is in the folder to which its address leads now.

        `links`, relative to it, lead to folders whose files are listed too, while they lead there.
        """
        place = copy.copy(self)
        place.real = os.path.realpath(self.root)
        place.links = {link: os.path.realpath(self._at(link)) for link in links}
        return place

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs; on its machine, the address may lead to the folder by another way."""
        return {**vars(self), "real": None}

    def create(self, path: str) -> pa.NativeFile:
        located = self._at(path)
        try:
            return self.filesystem.open_output_stream(located)
        except FileNotFoundError:
            self.filesystem.create_dir(located.rpartition("/")[0], recursive=True)
            return self.filesystem.open_output_stream(located)

    def keep(self, path: str) -> None:
        """Wait until a file is on disk: the catalog must never name a file that a power cut could empty."""
        if not self._sync:
            return
        descriptor = os.open(self._at(path), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def whole(self, path: str) -> bytes | None:  # noqa: ARG002 - a stream does as well
        return None

    def put(self, path: str, content: bytes) -> bool:  # noqa: ARG002 - a folder has no such operation
        return False

    def put_new(self, path: str, content: bytes) -> bool:
        Path(self._at(path)).parent.mkdir(parents=True, exist_ok=True)
        partial = f"{path}.{os.getpid()}-{threading.get_ident()}.partial"
        try:
            Path(self._at(partial)).write_bytes(content)
            self.keep(partial)
            self._name_new(partial, path, content)
        except FileExistsError:
            return False
        finally:
            Path(self._at(partial)).unlink(missing_ok=True)
        return True

    def _name_new(self, partial: str, path: str, content: bytes) -> None:
        """Give a finished file its name, unless that is taken: nobody sees a part of it."""
        try:
            os.link(self._at(partial), self._at(path))
        except FileExistsError:
            raise
        except OSError:  # of a file system without links
            with Path(self._at(path)).open("xb") as stream:
                stream.write(content)
            self.keep(path)

    def size(self, path: str) -> int:
        return int(self._file_info(path).size)

    def stamped(self, path: str) -> tuple[int, str]:
        info = self._file_info(path)
        return int(info.size), modified_stamp(info.mtime_ns)

    def elsewhere(self, address: str) -> tuple[LocalPlace, str]:
        if "://" in address:
            raise StorageError(f"{address} is in a bucket, and the table in a folder", hint=COPY_IT)
        folder, _, name = address.rpartition("/")
        return LocalPlace(folder or "/", sync=self._sync), name

    def files(self, folder: str) -> list[StoredFile]:
        if self._is_behind_link(folder):
            return []
        found, folders = [], [folder]
        while folders:
            for entry in self._entries(folders.pop()):
                path = entry.path[len(self.root) + 1 :]
                if entry.is_dir(follow_symlinks=self._is_allowed(path)):
                    folders.append(path)
                    continue
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile, or a link that leads nowhere
                    status = entry.stat()
                    if stat.S_ISREG(status.st_mode):
                        found.append(StoredFile(path, status.st_size, _modified(status)))
        return found

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self._at(folder).rstrip("/")) as entries:
                return list(entries)
        except FileNotFoundError:
            return []

    def _is_behind_link(self, folder: str) -> bool:
        """Return whether a folder of this place is a link, or is reached through one, that the user has not allowed."""
        if self.real is not None and os.path.realpath(self.root) != self.real:
            return True
        parts = folder.split("/") if folder else []
        ways = ("/".join(parts[: i + 1]) for i in range(len(parts)))
        return any(Path(self._at(way)).is_symlink() and not self._is_allowed(way) for way in ways)

    def _is_allowed(self, link: str) -> bool:
        return link in self.links and os.path.realpath(self._at(link)) == self.links[link]

    def links_in(self, folder: str) -> dict[str, str]:
        if folder and Path(self._at(folder)).is_symlink():
            return {folder: os.path.realpath(self._at(folder))}
        found, folders = {}, [folder]
        while folders:
            for entry in self._entries(folders.pop()):
                path = entry.path[len(self.root) + 1 :]
                if entry.is_symlink():
                    found[path] = os.path.realpath(entry.path)
                elif entry.is_dir():
                    folders.append(path)
        return found

    def folders(self, folder: str) -> list[str]:
        return [entry.name for entry in self._entries(folder) if entry.is_dir()]

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._folder_of(path) as (folder, name):
            os.unlink(name, dir_fd=folder)  # of a link, the link itself

    def delete_all(self, folder: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._folder_of(folder) as (above, name):
            while True:
                if stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
                    raise _is_link(self._at(folder))
                with contextlib.suppress(FileNotFoundError):  # another process deletes it too
                    shutil.rmtree(name, dir_fd=above)

    @contextlib.contextmanager
    def _folder_of(self, path: str) -> Iterator[tuple[int | None, str]]:
        """Open the folder of a file without following links: yield its descriptor, and the name of the file in it.

        Without descriptors, None and the address of the file. `StorageError` when a folder on the way is a link, or the
        address of this place leads to another folder than before.
        """
        *folders, name = path.split("/")
        real = os.path.realpath(self.root)
        if self.real not in {None, real}:
            raise _is_link(self.root)
        if not _HAS_DESCRIPTORS:
            inner = os.path.join(real, *folders)  # noqa: PTH118 - as `realpath` has it
            if os.path.realpath(inner) != inner:
                raise _is_link(inner)
            yield None, os.path.join(inner, name)  # noqa: PTH118
            return
        opened = os.open(real, _FOLDER)
        try:
            for i, each in enumerate(folders):
                try:
                    inside = os.open(each, _FOLDER, dir_fd=opened)
                except OSError as error:
                    if stat.S_ISLNK(os.stat(each, dir_fd=opened, follow_symlinks=False).st_mode):
                        raise _is_link(self._at("/".join(folders[: i + 1]))) from error
                    raise
                os.close(opened)
                opened = inside
            yield opened, name
        finally:
            os.close(opened)

    def take(self, address: str, path: str) -> None:
        located = Path(self._at(path))
        located.parent.mkdir(parents=True, exist_ok=True)
        os.link(address, located)
        self.keep(path)
        self.keep(path.rpartition("/")[0])

    def release(self, address: str, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            if Path(address).samefile(self._at(path)):
                os.utime(address)  # clean-ups spare files with two names, and new ones
                Path(address).unlink()

    def is_settled(self, path: str, since: datetime) -> bool:
        try:
            with self._folder_of(path) as (folder, name):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, StorageError):  # or reached through a link
            return False
        return status.st_nlink == 1 and _modified(status) < since

    def explain(self, error: Exception, located: str) -> SleeperError | None:
        if isinstance(error, IsADirectoryError) or str(error).endswith("is a directory"):  # as PyArrow has it
            return NotAFile.at(located)
        if isinstance(error, FileNotFoundError):
            hint = "was it deleted by hand, by a purge, with its table or with versions that expired?"
            return NotFound(f"no file {located}", hint=hint)
        if not isinstance(error, OSError):
            return None
        full = error.errno in {errno.ENOSPC, errno.EDQUOT} or "No space left" in str(error)
        if full:
            return DiskFull(f"no space left for {located}: {error}", hint=FREE_SPACE)
        return StorageError(
            f"cannot use {located}: {error}", hint="check the disk and its permissions, then run it again"
        )

    def _file_info(self, path: str) -> fs.FileInfo:
        info = self.filesystem.get_file_info(self._at(path))
        if info.type == fs.FileType.Directory:
            raise IsADirectoryError(errno.EISDIR, "a folder")
        if info.type != fs.FileType.File:
            raise FileNotFoundError(errno.ENOENT, "not there")
        return info

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}"


def _modified(status: os.stat_result) -> datetime:
    return datetime.fromtimestamp(status.st_mtime_ns // 1000 / 1_000_000, UTC)


def _is_link(address: str) -> StorageError:
    return StorageError(
        f"{address} is a symbolic link, or its target has changed since it was opened; nothing was deleted there",
        hint="replace the link with a folder that has the table's files, then run the command again",
    )


# Files that appear whole: readers see all of their old content or all of the new.

_ABANDONED: Final = timedelta(days=1)
"""No file takes so long to write."""


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield an empty file to write to; at the end it replaces the one at `path`.

    Nothing is replaced after an error, or when the file is still empty. Only this user may read it, unless its mode is
    changed before the end.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        if temporary.exists() and temporary.stat().st_size:
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def remove_abandoned(folder: Path, now: datetime) -> None:
    """Delete what processes that were killed while they wrote a `whole_file` have left in a folder, a day later."""
    for path in folder.glob(".*.tmp"):
        with contextlib.suppress(OSError):  # another process deleted it, or it is another user's
            if datetime.fromtimestamp(path.stat().st_mtime, UTC) < now - _ABANDONED:
                path.unlink()
