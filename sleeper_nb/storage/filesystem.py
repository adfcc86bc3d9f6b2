"""Folders of bytes: read, write for good, list and delete below one root; the only module that opens files by path."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from sleeper_nb.errors import NotFound, StorageError


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in a listing: its path below the root, bytes, and when it was last written."""

    path: str
    bytes: int
    modified: datetime


class Storage:
    """One folder and what is below it.

    Parameters
    ----------
    root
        A local folder; it is made with the first file. Paths given to the methods are below it, parted by ``/``.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = str(Path(root).absolute())
        self._fs = fs.LocalFileSystem()

    def below(self, folder: str) -> Storage:
        """Return the storage of a folder below this one."""
        return Storage(f"{self.root}/{folder}")

    def locate(self, path: str) -> str:
        """Return what engines open: the absolute path of a file."""
        return f"{self.root}/{path}"

    @contextlib.contextmanager
    def output(self, path: str) -> Iterator[pa.NativeFile]:
        """Open a new file for writing; when the block ends well the bytes are on disk, otherwise no file is left."""
        located = self.locate(path)
        with _explained(located):
            self._fs.create_dir(located.rpartition("/")[0], recursive=True)
            stream = self._fs.open_output_stream(located)
            try:
                yield stream
                stream.close()
                _sync(located)
            except BaseException:
                with contextlib.suppress(OSError):
                    stream.close()
                self.delete(path)
                raise

    def input(self, path: str) -> pa.NativeFile:
        """Open a file for reading at any position."""
        with _explained(self.locate(path)):
            return self._fs.open_input_file(self.locate(path))

    def read(self, path: str) -> bytes:
        """Return a file's content."""
        with self.input(path) as stream:
            return bytes(stream.read())

    def write(self, path: str, content: bytes) -> None:
        """Write a whole file; a reader sees the old content or the new one, never a part."""
        located, partial = self.locate(path), f"{path}.partial"
        with self.output(partial) as stream:
            stream.write(content)
        try:
            with _explained(located):
                self._fs.move(self.locate(partial), located)
        except BaseException:
            self.delete(partial)
            raise

    def size(self, path: str) -> int:
        """Return a file's bytes."""
        with _explained(self.locate(path)):
            info = self._fs.get_file_info(self.locate(path))
            if info.type != fs.FileType.File:
                raise FileNotFoundError(errno.ENOENT, "not there")
            return int(info.size)

    def list(self, folder: str = "") -> tuple[StoredFile, ...]:
        """Return every file below a folder, by path; nothing when the folder is not there."""
        selector = fs.FileSelector(self.locate(folder) if folder else self.root, recursive=True, allow_not_found=True)
        with _explained(self.root):
            found = [info for info in self._fs.get_file_info(selector) if info.type == fs.FileType.File]
        cut = len(self.root) + 1
        files = (StoredFile(i.path[cut:], int(i.size), i.mtime.astimezone(UTC)) for i in found)
        return tuple(sorted(files, key=lambda file: file.path))

    def delete(self, path: str) -> None:
        """Delete a file; nothing happens when it is not there, so a second call is safe."""
        with _explained(self.locate(path)), contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(self.locate(path))


@contextlib.contextmanager
def _explained(located: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"no file {located}", hint="was it deleted by hand?") from error
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT} or "No space left" in str(error)
        hint = "free some space, then run it again" if full else "check the disk and its permissions, then run it again"
        raise StorageError(f"{'no space left for' if full else 'cannot use'} {located}: {error}", hint=hint) from error


def _sync(located: str) -> None:
    """Wait until a file's bytes are on disk: the catalog must never name a file that a power cut could empty."""
    descriptor = os.open(located, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
