"""A folder of this machine as a place of files: a file is on disk before anything names it."""

from __future__ import annotations

import contextlib
import errno
import os
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from sleeper_nb.errors import FREE_SPACE, DiskFull, NotAFile, NotFound, SleeperError, StorageError
from sleeper_nb.model.checksums import modified_stamp
from sleeper_nb.storage.places import COPY_IT, StoredFile


class LocalPlace:
    """A local folder; it is created with the first file.

    Parameters
    ----------
    sync
        Whether to wait for the disk; if not, a power cut can empty the files that were written last.
    """

    local = True
    access = None
    network = None

    def __init__(self, root: Path | str, *, sync: bool = True) -> None:
        self._sync = sync
        self.root = self.prefix = str(Path(root).absolute())
        self.filesystem = self.readable = fs.LocalFileSystem()

    def below(self, folder: str) -> LocalPlace:  # noqa: D102 - the contract is in `Place`, here and below
        return LocalPlace(f"{self.root}/{folder}", sync=self._sync)

    def create(self, path: str) -> pa.NativeFile:  # noqa: D102
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

    def whole(self, path: str) -> bytes | None:  # noqa: ARG002, D102 - a stream does as well
        return None

    def put(self, path: str, content: bytes) -> bool:  # noqa: ARG002, D102 - a folder has no such operation
        return False

    def put_new(self, path: str, content: bytes) -> bool:  # noqa: D102
        located = Path(self._at(path))
        located.parent.mkdir(parents=True, exist_ok=True)
        try:
            with located.open("xb") as stream:
                stream.write(content)
        except FileExistsError:
            return False
        self.keep(path)
        return True

    def size(self, path: str) -> int:  # noqa: D102
        return int(self._file_info(path).size)

    def stamped(self, path: str) -> tuple[int, str]:  # noqa: D102
        info = self._file_info(path)
        return int(info.size), modified_stamp(info.mtime_ns)

    def elsewhere(self, address: str) -> tuple[LocalPlace, str]:  # noqa: D102
        if "://" in address:
            raise StorageError(f"{address} is in a bucket, and the table in a folder", hint=COPY_IT)
        folder, _, name = address.rpartition("/")
        return LocalPlace(folder or "/", sync=self._sync), name

    def files(self, folder: str) -> list[StoredFile]:  # noqa: D102
        selector = fs.FileSelector(self._at(folder) if folder else self.root, recursive=True, allow_not_found=True)
        found = [info for info in self.filesystem.get_file_info(selector) if info.type == fs.FileType.File]
        cut = len(self.root) + 1
        return [StoredFile(i.path[cut:], int(i.size), i.mtime.astimezone(UTC)) for i in found]

    def folders(self, folder: str) -> list[str]:  # noqa: D102
        selector = fs.FileSelector(self._at(folder).rstrip("/"), allow_not_found=True)
        found = self.filesystem.get_file_info(selector)
        return [info.base_name for info in found if info.type == fs.FileType.Directory]

    def delete(self, path: str) -> None:  # noqa: D102
        try:
            self.filesystem.delete_file(self._at(path))
        except FileNotFoundError:
            return

    def delete_all(self, folder: str) -> None:  # noqa: D102
        try:
            self.filesystem.delete_dir(self._at(folder))
        except FileNotFoundError:
            return

    def take(self, address: str, path: str) -> None:  # noqa: D102
        located = Path(self._at(path))
        located.parent.mkdir(parents=True, exist_ok=True)
        os.link(address, located)
        self.keep(path)
        self.keep(path.rpartition("/")[0])

    def release(self, address: str, path: str) -> None:  # noqa: D102
        with contextlib.suppress(FileNotFoundError):
            if Path(address).samefile(self._at(path)):
                os.utime(address)  # clean-ups spare files with two names, and new ones
                Path(address).unlink()

    def is_settled(self, path: str, since: datetime) -> bool:  # noqa: D102
        try:
            status = Path(self._at(path)).stat()
        except FileNotFoundError:
            return False
        return status.st_nlink == 1 and datetime.fromtimestamp(status.st_mtime, UTC) < since

    def explain(self, error: Exception, located: str) -> SleeperError | None:  # noqa: D102
        if isinstance(error, IsADirectoryError) or str(error).endswith("is a directory"):  # as PyArrow has it
            return NotAFile.at(located)
        if isinstance(error, FileNotFoundError):
            return NotFound(f"no file {located}", hint="was it deleted by hand, or with versions that expired?")
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
