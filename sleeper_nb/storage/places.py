"""What a place of files must be able to do, whether it is a folder of this machine or a bucket; and what it lists."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import pyarrow as pa
from pyarrow import fs

from sleeper_nb.errors import SleeperError, StorageError
from sleeper_nb.storage.aws import Network


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in a listing: its path below the root, bytes, and when it was last written."""

    path: str
    bytes: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class S3Access:
    """What another program needs to open a bucket's objects now; keys may be good for minutes, so ask again.

    Parameters
    ----------
    endpoint_url
        The server; None for the region's own.
    session_token
        Of temporary keys; None for lasting ones.
    """

    bucket: str
    region: str
    endpoint_url: str | None
    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(repr=False)


class Place(Protocol):
    """One folder or prefix, and how its files are reached. Errors are those of the library below it; `explain` them."""

    @property
    def root(self) -> str:
        """What users see: ``/folder`` or ``s3://bucket/prefix``."""

    @property
    def prefix(self) -> str:
        """The root as `filesystem` takes it."""

    @property
    def local(self) -> bool:
        """Whether other programs of this machine can open files by plain paths."""

    @property
    def filesystem(self) -> fs.FileSystem:
        """Arrow's view of it, good for now: its keys may end, so do not keep it."""

    @property
    def access(self) -> S3Access | None:
        """How other programs open it when it is not local."""

    @property
    def network(self) -> Network | None:
        """The way to it when it is not local."""

    def below(self, folder: str) -> Place:
        """Return the place of a folder below this one."""

    @property
    def readable(self) -> fs.FileSystem:
        """The same to read from: it never takes a part of what it asked for as the whole."""

    def create(self, path: str) -> pa.NativeFile:
        """Open a new file for writing."""

    def keep(self, path: str) -> None:
        """Make sure that a file which was closed is there for good."""

    def whole(self, path: str) -> bytes | None:
        """Return a file's whole content in one request; None where a stream is as good."""

    def put(self, path: str, content: bytes) -> bool:
        """Write a whole file in one request; False, and nothing done, where that would be seen half done."""

    def put_new(self, path: str, content: bytes) -> bool:
        """Write a small file unless there is one; return whether it was written. Of several at once, one is."""

    def size(self, path: str) -> int:
        """Return a file's bytes."""

    def files(self, folder: str) -> list[StoredFile]:
        """Return every file below a folder, in any order; none when it is not there."""

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders right below a folder, in any order; none when it is not there."""

    def delete(self, path: str) -> None:
        """Delete a file, if it is there."""

    def delete_all(self, folder: str) -> None:
        """Delete every file below a folder, and the folder, if it is there."""

    def explain(self, error: Exception, located: str) -> SleeperError | None:
        """Return what an error means for a user; None when it is not one of storage."""


# The bounds of a place of files: what its metadata may name, and whether another place is inside it.


def check_path(path: str, root: str) -> None:
    """Raise `StorageError` for a path that leads out of its root: metadata of a warehouse may come from anybody.

    Parameters
    ----------
    path
        Below the root, separated by ``/``; an empty one is the root itself.
    root
        For the message.
    """
    if path and (path.startswith("/") or "\0" in path or not {".", ".."}.isdisjoint(path.split("/"))):
        raise StorageError(
            f"metadata names the file {path!r}, which is not below {root}",
            hint="it was not written by sleeper_nb; nothing was read or changed there",
        )


def lies_within(address: str, root: str) -> bool:
    """Return whether a folder or ``s3://`` address is `root` or below it, once ``..`` and links are followed."""
    return f"{_followed(address)}/".startswith(f"{_followed(root)}/")


def linked_in(folder: str) -> tuple[str, ...]:
    """Return the links that are right in a folder of this machine; none when it is not there."""
    try:
        with os.scandir(folder) as entries:
            return tuple(entry.path for entry in entries if entry.is_symlink())
    except OSError:  # what reads the folder next says why
        return ()


def _followed(address: str) -> str:
    scheme, mark, rest = address.partition("://")
    if mark and scheme != "file":
        return f"{scheme}://{posixpath.normpath(rest)}"
    return os.path.realpath(rest if mark else address).rstrip("/")
