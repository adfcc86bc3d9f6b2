"""Files below one root, a local folder or a prefix of a bucket: read, write durably, list and delete."""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sleeper_nb.errors import InvalidInput, NotFound, StorageError
from sleeper_nb.model.permissions import file_not_allowed
from sleeper_nb.storage.aws import AS_BOTO3_FINDS_IT, AwsTarget, Network, check_server, may_have_keys
from sleeper_nb.storage.file_cache import NO_CACHE, FileCache
from sleeper_nb.storage.local import LocalPlace
from sleeper_nb.storage.paths import is_foreign
from sleeper_nb.storage.places import Outside, Place, S3Access, StoredFile

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset, Expression

logger = logging.getLogger(__name__)

NOWHERE = Outside()

__all__ = ["Storage", "StoredFile", "open_storage"]

_HALF_A_SCHEME = re.compile(r"(?:s3|file|https?):/?(?!/)")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)


def open_storage(uri: str | Path, aws: AwsTarget = AS_BOTO3_FINDS_IT, network: Network | None = None) -> Storage:
    """Return the storage at an address. Nothing is opened yet, so a wrong key or bucket fails with the first file.

    `InvalidInput` when the address is of another kind, names no bucket or has a character that file names cannot have;
    or when `endpoint_url` is not the address of a server.

    Parameters
    ----------
    uri
        A folder, ``file://`` and a folder, or ``s3://bucket/prefix``.
    aws
        Where a bucket is, and which profile has the keys. Ignored for a folder.
    """
    _check_no_keys(str(uri))
    if "\0" in str(uri) or any("\ud800" <= c <= "\udfff" for c in str(uri)):
        raise InvalidInput(f"{str(uri)!r} is not a valid path", hint="give a folder, or s3://bucket/prefix")
    parts = _SCHEME.fullmatch(str(uri))
    if parts is None and _HALF_A_SCHEME.match(str(uri)):  # otherwise it would be taken for a folder
        raise InvalidInput(f"cannot open {uri}", hint="give a folder, or s3://bucket/prefix")
    if parts is None or parts[1] == "file":
        return Storage(Path(parts[2] if parts else uri).expanduser())
    if parts[1] != "s3":
        raise InvalidInput(f"cannot open {uri}", hint="give a folder, or s3://bucket/prefix")
    from sleeper_nb.storage.s3 import S3Connection, S3Place

    bucket, _, prefix = parts[2].partition("/")
    key = "/".join(part for part in prefix.split("/") if part)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}", bucket):
        raise InvalidInput(f"{bucket!r} is not a valid bucket name", hint="write s3://bucket/prefix")
    check_server(aws.endpoint_url)
    return Storage(S3Place(S3Connection(aws, network), bucket, key))


def _check_no_keys(uri: str) -> None:
    """Raise `InvalidInput`, which does not repeat it, for an address of a server or bucket that may have keys in it."""
    scheme, _, rest = uri.partition(":")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]+", scheme) or scheme == "file" or not rest.startswith("/"):
        return
    bucket = rest.lstrip("/").partition("/")[0]
    if may_have_keys(bucket) or (":" in bucket and (scheme == "s3" or may_have_keys(rest))):
        hint = "write s3://bucket/prefix; keys come from the environment or an AWS profile"
        raise InvalidInput("the address must not contain keys, a user name or a password", hint=hint)


def open_near(uri: str | Path, home: Storage | None) -> Storage:
    """Return the storage at an address; for a bucket, by the connection of `home` when that is in one too."""
    storage = open_storage(uri)
    if home is None or home.local or storage.local:
        return storage
    place, key = home.place.elsewhere(storage.root)
    return Storage(place.below(key))


def open_parent(address: str | Path, home: Storage | None) -> tuple[Storage, str]:
    """Return the storage of the folder that a file is in, and the file's name in it; otherwise as `open_near`."""
    folder, slash, name = str(address).rpartition("/")
    return open_near(folder or slash or ".", home), name


class Storage:
    """A folder and everything below it.

    Parameters
    ----------
    place
        A local folder, or any other place (`open_storage` makes them from addresses). Paths given to the methods are
        relative to it, separated by ``/``.

    Attributes
    ----------
    root
        The absolute folder, or ``s3://bucket/prefix``.
    local
        Whether the files are on this machine's file system.

    cache
        Keeps copies of metadata files of a bucket (`integrity.read_checked`).
    outside
        Where files may be that the table reads although they are not in its folder. Only methods that read take their
        addresses (`sleeper_nb.storage.paths.is_foreign`): none writes or deletes such a file, except that `take` and
        `release` move one into this folder.

    Notes
    -----
    Every method raises `StorageError` when the disk or the server fails or a path leaves the folder, and `NotFound`
    for a file that does not exist.
    """

    def __init__(self, place: Place | Path | str, outside: Outside = NOWHERE, cache: FileCache = NO_CACHE) -> None:
        self.place: Place = LocalPlace(place) if isinstance(place, str | Path) else place
        self.root, self.local = self.place.root, self.place.local
        self.outside, self.cache = outside, cache

    @property
    def at_once(self) -> int:
        """How many files to read at the same time: a bucket has high latency, a folder only keeps two cores busy."""
        return 2 if self.local else 16

    @property
    def access(self) -> S3Access | None:
        """How an engine with an S3 client of its own opens what `locate` returns; None for a local folder."""
        with self._explained(""):
            return self.place.access

    def below(self, folder: str) -> Storage:
        _check_path(folder, self.root)
        return Storage(self.place.below(folder), self.outside, self.cache)

    def caching(self, cache: FileCache) -> Storage:
        made = copy.copy(self)
        made.cache = cache
        return made

    def reading(self, outside: Outside) -> Storage:
        made = copy.copy(self)  # of the same class, which may watch what is read
        made.outside = outside
        return made

    def staying(self, links: Iterable[str] = ()) -> Storage:
        """Return the same storage, which lists and deletes only what is in the folder that it is now.

        `links` are links to folders, relative to it, whose files are listed. A bucket has none.
        """
        made = copy.copy(self)
        if isinstance(self.place, LocalPlace):
            made.place = self.place.staying(links)
        return made

    def locate(self, path: str) -> str:
        """Return what engines open: the absolute path of a file, or ``s3://bucket/key``.

        `NotAllowed` when the file is not in this folder, and the user has not allowed the place where it is.
        """
        if is_foreign(path):
            self._check_foreign(path)
            return path
        _check_path(path, self.root)
        return f"{self.root}/{path}" if path else self.root

    def dataset(
        self, files: Sequence[str], schema: pa.Schema | None = None, met: Sequence[Expression] | None = None
    ) -> Dataset:
        """Return Parquet files as one Arrow dataset, for engines that cannot open the storage by themselves.

        `met` has for each file a condition that all of its rows meet, by which readers prune files.
        """
        from pyarrow import dataset

        from sleeper_nb.storage.streamed_dataset import StreamedFiles

        located = [self.locate(path).removeprefix("s3://") for path in files]
        conditions = [dataset.scalar(True)] * len(located) if met is None else met  # noqa: FBT003 - a value
        with self._read(files[0]):
            filesystem = self.place.readable
            # verifies the checksums of pages, where files have them
            options = dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
            parquet = dataset.ParquetFileFormat(default_fragment_scan_options=options)
            parts = [
                parquet.make_fragment(path, filesystem, condition)
                for path, condition in zip(located, conditions, strict=True)
            ]
            made = dataset.FileSystemDataset if self.local else StreamedFiles
            return made(parts, schema or parts[0].physical_schema, parquet, filesystem)

    @contextlib.contextmanager
    def output(self, path: str) -> Iterator[pa.NativeFile]:
        """Open a new file for writing; it is durable when the block ends without error, otherwise no file is left."""
        with self._explained(path):
            stream = self.place.create(path)
            try:
                yield stream
                stream.close()
                self.place.keep(path)
            except BaseException:
                # On S3, closing frees the parts that were uploaded; the object is deleted after that.
                with contextlib.suppress(OSError):
                    stream.close()
                try:
                    self.delete(path)
                except StorageError as error:  # the first error is the one to raise
                    logger.warning("a file that was not written completely is left: %s (%s)", path, error)
                raise

    def input(self, path: str) -> pa.NativeFile:
        with self._read(path) as (place, name):
            return place.readable.open_input_file(f"{place.prefix}/{name}")

    def read(self, path: str) -> bytes:
        with self._read(path) as (place, name):
            content = place.whole(name)
            if content is not None:
                return content
            with self.input(path) as stream:
                return bytes(stream.read())

    def write(self, path: str, content: bytes) -> None:
        """Write a whole file; a reader sees the old or the new content, never a part."""
        with self._explained(path):
            if self.place.put(path, content):
                return
        partial = f"{path}.{os.getpid()}-{threading.get_ident()}.partial"  # others may write the same file
        with self.output(partial) as stream:
            stream.write(content)
        try:
            with self._explained(path):
                self.place.filesystem.move(f"{self.place.prefix}/{partial}", f"{self.place.prefix}/{path}")
        except BaseException:
            self.delete(partial)
            raise

    def write_new(self, path: str, content: bytes) -> bool:
        """Write a small file unless one with that name exists; return whether it was written.

        At most one of several concurrent writers gets True. On a file system without hard links, a process that ends
        during the call may leave part of the file.
        """
        with self._explained(path):
            return self.place.put_new(path, content)

    def size(self, path: str) -> int:
        with self._read(path) as (place, name):
            return place.size(name)

    def stamped(self, path: str) -> tuple[int, str]:
        """Return a file's bytes, and its stamp (`sleeper_nb.model.checksums`): another one after each change."""
        with self._read(path) as (place, name):
            return place.stamped(name)

    def list(self, folder: str = "") -> tuple[StoredFile, ...]:
        """Return every file below a folder, sorted by path; nothing when the folder does not exist."""
        with self._explained(folder):
            return tuple(sorted(self.place.files(folder), key=lambda file: file.path))

    def folders(self, folder: str = "") -> tuple[str, ...]:
        """Return the names of the folders directly below a folder; nothing when it does not exist."""
        with self._explained(folder):
            return tuple(sorted(self.place.folders(folder)))

    def has(self, path: str) -> bool:
        try:
            self.size(path)
        except NotFound:
            return False
        return True

    def links_in(self, folder: str) -> dict[str, str]:
        """Return where the symbolic links in a folder, or the folder itself, lead; deletions follow none of them."""
        if folder:
            _check_path(folder, self.root)
        with self._explained(folder):
            return self.place.links_in(folder)

    def delete(self, path: str) -> None:
        """Delete a file if it exists, so a second call is safe."""
        with self._explained(path):
            self.place.delete(path)

    def take(self, address: str, path: str) -> None:
        """Give a local file outside this folder a second name in it, durably; nothing is copied."""
        self._check_foreign(address)
        with self._explained(path):
            self.place.take(address, path)

    def release(self, address: str, path: str) -> None:
        """Delete the outside name of a file that has a name in this folder; nothing for another file, or none."""
        self._check_foreign(address)
        with self._explained(path):
            self.place.release(address, path)

    def is_settled(self, path: str, since: datetime) -> bool:
        """Return whether a file has no second name (`take`), and was not changed since a moment."""
        with self._explained(path):
            return self.place.is_settled(path, since)

    def delete_all(self, folder: str) -> None:
        """Delete every file below a folder, and the folder itself, if it exists; a second call completes the first."""
        assert folder  # noqa: S101 - deleting the root is never intended
        with self._explained(folder):
            self.place.delete_all(folder)

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Raise what fails in a block, which uses the place itself, as errors of this storage."""
        with self._explained(""):
            yield

    @contextlib.contextmanager
    def _read(self, path: str) -> Iterator[tuple[Place, str]]:
        """Return the place of a file to read, in this folder or outside it, and its path there."""
        if not is_foreign(path):
            with self._explained(path):
                yield self.place, path
            return
        self._check_foreign(path)
        place, name = self.place.elsewhere(path)
        try:
            yield place, name
        except Exception as error:
            explained = place.explain(error, path)
            if explained is None:
                raise
            raise explained from error

    def _check_foreign(self, path: str) -> None:
        if not self.outside.has(path):
            raise file_not_allowed(path, self.outside.instance)

    @contextlib.contextmanager
    def _explained(self, path: str) -> Iterator[Any]:
        _check_path(path, self.root)
        try:
            yield
        except Exception as error:
            explained = self.place.explain(error, self.locate(path))
            if explained is None:
                raise
            raise explained from error


def _check_path(path: str, root: str) -> None:
    """Raise `StorageError` for a path that leaves its root, since metadata may come from an untrusted source.

    An empty path is the root itself.
    """
    if path and (is_foreign(path) or "\0" in path or not {".", ".."}.isdisjoint(path.split("/"))):
        raise StorageError(
            f"metadata names the file {path!r}, which is not below {root}",
            hint="sleeper_nb did not write this name; nothing was read or changed there",
        )
