"""The contract of a place of files, a local folder or a bucket; its listings, and the bounds of its paths."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyarrow import fs

from sleeper_nb.errors import SleeperError
from sleeper_nb.storage import paths
from sleeper_nb.storage.aws import Network

_IN_A_WAREHOUSE = (paths.CATALOG, paths.INSTANCE_PROPERTIES, f"{paths.STATE_STORE}/files")
"""What the folder of an instance has, or that of a table."""
COPY_IT = "a table reads only files of its own kind of place: ingest the file, which copies its rows"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in a listing: its path below the root, bytes, and when it was last written."""

    path: str
    bytes: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class S3Access:
    """What another program needs to open a bucket's objects; temporary keys expire, so it is not kept."""

    bucket: str
    region: str
    endpoint_url: str | None  # the server; None for Amazon's own
    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(repr=False)  # the token of temporary keys; None for permanent ones


class Place(Protocol):
    """A folder or prefix, and access to its files. Methods raise the errors of the library below; see `explain`."""

    @property
    def root(self) -> str:
        """The address that users see: ``/folder`` or ``s3://bucket/prefix``."""

    @property
    def prefix(self) -> str:
        """The root as a path of `filesystem`."""

    @property
    def local(self) -> bool:
        """Whether other programs of this machine can open files by plain paths."""

    @property
    def filesystem(self) -> fs.FileSystem:
        """The Arrow file system of the place; its keys may expire, so do not keep it."""

    @property
    def access(self) -> S3Access | None:
        """How other programs open it; None for a local folder."""

    @property
    def network(self) -> Network | None:
        """The connection to it; None for a local folder."""

    def below(self, folder: str) -> Place:
        """Return the place of a folder below this one."""

    @property
    def readable(self) -> fs.FileSystem:
        """A file system for reading that never takes part of an answer for the whole."""

    def create(self, path: str) -> pa.NativeFile:
        """Open a new file for writing."""

    def keep(self, path: str) -> None:
        """Make a closed file durable."""

    def whole(self, path: str) -> bytes | None:
        """Return a file's whole content in one request; None where a stream does as well."""

    def put(self, path: str, content: bytes) -> bool:
        """Write a whole file in one request; return False without writing where readers could see a part."""

    def put_new(self, path: str, content: bytes) -> bool:
        """Write a small file unless it exists; return whether it was written, by one of several concurrent writers."""

    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""

    def stamped(self, path: str) -> tuple[int, str]:
        """Return the size of a file in bytes, and its stamp: another one after each change."""

    def elsewhere(self, address: str) -> tuple[Place, str]:
        """Return the place of a file with any address of the same kind, and its path there.

        `StorageError` when the file is in a bucket and this place is a folder, or the other way round.
        """

    def files(self, folder: str) -> list[StoredFile]:
        """Return every file below a folder, in any order; none when it does not exist, or is a symbolic link."""

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders directly below a folder, in any order; none when it does not exist."""

    def links_in(self, folder: str) -> dict[str, str]:
        """Return the symbolic links in a folder at any depth, or the folder if it is one, and where each leads."""

    def delete(self, path: str) -> None:
        """Delete a file, if it exists; raise `StorageError` when a folder on the way to it is a symbolic link."""

    def delete_all(self, folder: str) -> None:
        """Delete every file below a folder, and the folder, if it exists; links in it go, not what they lead to."""

    def take(self, address: str, path: str) -> None:
        """Give a file with any address of the same kind a name in this place too, durably, without a copy.

        `StorageError` when the place is a bucket, where a file has one name.
        """

    def release(self, address: str, path: str) -> None:
        """Delete a name of a file that is the file at a path of this place; nothing when it is another, or gone.

        The file counts as changed now.
        """

    def is_settled(self, path: str, since: datetime) -> bool:
        """Return whether a file has no second name, and is as it was at a moment: nothing is moving it here.

        False for a file behind a symbolic link.
        """

    def explain(self, error: Exception, located: str) -> SleeperError | None:
        """Return the error for a user; None when it is not a storage error."""


# The bounds of a place: which paths its metadata may name, and whether another place is inside it.


def lies_within(address: str, root: str) -> bool:
    """Return whether a folder or ``s3://`` address is `root` or below it, after resolving ``..`` and links."""
    return f"{_followed(address)}/".startswith(f"{_followed(root)}/")


@dataclass(frozen=True, slots=True)
class Outside:
    """The folders and ``s3://`` addresses in which a table may read files that are not in its own folder."""

    folders: tuple[str, ...] = ()  # absolute; links are followed, so a file must be named by its real path
    # the folder of the table's instance: clean-ups may delete what is in it; "" when it is not known
    instance: str = ""

    @classmethod
    def of(cls, folders: Iterable[str], instance: str = "") -> Outside:
        """Return the places below some folders."""
        return cls(tuple(dict.fromkeys(map(_followed, folders))), _followed(instance) if instance else "")

    def has(self, address: str) -> bool:
        """Return whether a file is in one of the folders; the address must have no ``..``."""
        if "\0" in address or not {".", ".."}.isdisjoint(address.split("/")):
            return False
        return any(address.startswith(f"{folder}/") for folder in self.folders)


def is_in_warehouse(address: str) -> bool:
    """Return whether a local file is in the folder of some instance or table, of any warehouse.

    Their clean-ups delete files that they do not know. A folder is recognised by what each instance or table has in it.
    """
    if "://" in address:
        return False
    return any((folder / mark).exists() for folder in Path(address).parents for mark in _IN_A_WAREHOUSE)


def real_address(address: str) -> str:
    return _followed(address)


def linked_in(folder: str) -> tuple[str, ...]:
    """Return the symbolic links directly in a local folder; none when it does not exist."""
    try:
        with os.scandir(folder) as entries:
            return tuple(entry.path for entry in entries if entry.is_symlink())
    except OSError:  # the next read of the folder reports why
        return ()


def _followed(address: str) -> str:
    scheme, mark, rest = address.partition("://")
    if mark and scheme != "file":
        return f"{scheme}://{posixpath.normpath(rest)}"
    return os.path.realpath(rest if mark else address).rstrip("/")
