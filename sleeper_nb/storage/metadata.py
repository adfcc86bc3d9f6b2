"""Read and write the metadata files of a table: file references, partitions, schemas, and saved parts of the log.

References and partitions are Parquet files that any tool can read, and a schema is JSON. A savepoint of the
transaction log also keeps a part of the log as a file of JSON lines. `ManifestList` describes the files of a savepoint.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from threading import Lock
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sleeper_nb.errors import SleeperError, StorageError, first_line
from sleeper_nb.model.checksums import DIGITS, checksum_of
from sleeper_nb.model.file_reference import completed
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.partitions import Partition, PartitionTree, Range, Region
from sleeper_nb.model.savepoints import ManifestFileMeta, SavedLog, Savepoint
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.model.statistics import NULLS, is_text, reference_names
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.integrity import HINT, checksummed, damaged, read_checked

FORMAT_VERSION = "1"
FEW_ROWS = 10_000
"""Up to this many rows, threads and strong compression cost more time than they save."""
READ_WHOLE_BYTES = 1 << 20
"""The checksum of a larger local file would add more than 5% to the time of reading it."""
_READ_TOGETHER = 1 << 16
"""Bytes of each column of a local file that are read at once."""
_OF_FEW_VALUES = ("partition_id", "status", "job_id")
_VERSION_KEY = b"sleeper_nb.format"
_PATH_KEY = b"sleeper_nb.path"
"""Where the file was written: the checksums of a large file's pages do not tell that it is another version's."""


def write_files(storage: Storage, path: str, files: FileReferences) -> str:
    """Write all references of a snapshot, in the columns of `files_schema`; return the file's checksum."""
    return _write(storage, path, files.table)


def read_files(storage: Storage, path: str, checksum: str | None = None) -> FileReferences:
    """Read what `write_files` wrote; statistics in a large local file are read when something needs them."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(MetadataFile.opened(storage, path, checksum))
        later = reference_names(file.schema) if file.can_stay_open else frozenset()
        known = completed(file.read([name for name in file.schema.names if name not in later]))
        if not later:
            return FileReferences.of(known)
        stack.pop_all()
        return FileReferences.of(known, UnreadStatistics(file, [name for name in file.schema.names if name in later]))


def partitions_table(tree: PartitionTree, schema: Schema) -> pa.Table:
    """Return a tree as columns: one row per partition, root first; typed ``min_…`` and ``max_…`` for each row key."""
    keys = schema.row_keys
    columns = pa.schema(
        [
            pa.field("partition_id", pa.string(), nullable=False),
            pa.field("leaf_partition", pa.bool_(), nullable=False),
            pa.field("parent_partition_id", pa.string()),
            pa.field("child_partition_ids", pa.list_(pa.string()), nullable=False),
            pa.field("dimension", pa.int32(), nullable=False),
            *[pa.field(f"{end}_{key.name}", key.type.arrow) for key in keys for end in ("min", "max")],
        ]
    )
    values: list[list[Any]] = [
        [p.id for p in tree.partitions],
        [p.is_leaf for p in tree.partitions],
        [p.parent_id for p in tree.partitions],
        [list(p.child_ids) for p in tree.partitions],
        [p.dimension for p in tree.partitions],
    ]
    for i in range(len(keys)):
        ranges = [p.region.ranges[i] for p in tree.partitions]
        values += [r.min for r in ranges], [r.max for r in ranges]
    return pa.table([pa.array(column, f.type) for column, f in zip(values, columns, strict=True)], schema=columns)


def write_partitions(storage: Storage, path: str, tree: PartitionTree, schema: Schema) -> str:
    return _write(storage, path, partitions_table(tree, schema))


_PARTITION = ("partition_id", "parent_partition_id", "child_partition_ids", "dimension")


def read_partitions(storage: Storage, path: str, schema: Schema, checksum: str | None = None) -> PartitionTree:
    """Read what `write_partitions` wrote."""
    rows = _read(storage, path, checksum)
    ids, parents, children, dimensions = (rows[name].to_pylist() for name in _PARTITION)
    ends = ((rows[f"{end}_{key.name}"].to_pylist() for end in ("min", "max")) for key in schema.row_keys)
    regions = map(Region, zip(*(map(Range, *pair) for pair in ends), strict=True))
    return PartitionTree(tuple(map(Partition, ids, regions, parents, map(tuple, children), dimensions)))


def write_schema(storage: Storage, schema_id: int, schema: Schema) -> None:
    storage.write(paths.schema(schema_id), schema.to_json().encode())


def write_new_schema(storage: Storage, schema_id: int, schema: Schema) -> bool:
    """Write a schema under its id; return False, and write nothing, if the id is already used."""
    return storage.write_new(paths.schema(schema_id), schema.to_json().encode())


def read_schema(storage: Storage, schema_id: int, checksum: str | None = None) -> Schema:
    """Read what `write_schema` wrote.

    `StorageError` when the file does not match the given checksum or does not contain a schema; the error names it.
    """
    path = paths.schema(schema_id)
    content = read_checked(storage, path, checksum)
    try:
        return Schema.from_json(content.decode())
    except (UnicodeDecodeError, SleeperError) as error:
        why = error.message if isinstance(error, SleeperError) else "it is not UTF-8"
        raise StorageError(f"{storage.locate(path)} does not contain a schema: {why}", hint=HINT) from error


def _write(storage: Storage, path: str, table: pa.Table) -> str:
    # each chunk of a column costs as much as hundreds of its values; a large table is not copied
    table = table.combine_chunks() if table.num_rows <= FEW_ROWS else table
    stamped = table.replace_schema_metadata({_VERSION_KEY: FORMAT_VERSION, _PATH_KEY: path})
    # a file of which the whole checksum may be too large to check
    write = write_with_footer_checksum if table.get_total_buffer_size() > READ_WHOLE_BYTES // 2 else pq.write_table
    with checksummed(storage, path) as (stream, checksum):
        write(stamped, stream, write_page_checksum=True, **_encodings(stamped.schema, table.num_rows))
    return checksum.text


def _encodings(schema: pa.Schema, rows: int) -> dict[str, Any]:
    """Return the options of PyArrow's Parquet writer for the columns of a metadata file.

    The least and greatest numbers and times of files differ in almost all bits, so compressing them costs a third more
    time for an eighth of their bytes; a reader decompresses them at each load. No reader skips parts of these files by
    the values of statistics, so Parquet needs no statistics of them.
    """
    of_values = reference_names(schema)
    plain = {name for name in of_values if not is_text(schema.field(name).type)}
    # for a small table, zstd takes longer than all the rest
    usual = "zstd" if rows > FEW_ROWS else "snappy"
    return {
        "compression": {name: "none" if name in plain else usual for name in schema.names},
        "use_dictionary": [name for name in schema.names if name in _OF_FEW_VALUES or name.startswith(NULLS)],
        "write_statistics": [name for name in schema.names if name not in of_values],
    }


def _read(storage: Storage, path: str, checksum: str | None) -> pa.Table:
    with MetadataFile.opened(storage, path, checksum) as file:
        return file.read(file.schema.names)


@dataclass(frozen=True)
class MetadataFile:
    """An open Parquet file of metadata; a context manager that closes it.

    Parameters
    ----------
    is_whole
        Whether its content is in memory.
    """

    place: str
    file: pq.ParquetFile
    schema: pa.Schema
    is_whole: bool

    @classmethod
    def opened(cls, storage: Storage, path: str, checksum: str | None) -> MetadataFile:
        """Open a file of the format of this release, which must have the recorded checksum.

        `NotFound`, `StorageError` when it is missing or damaged, is the file of another version, or has another format.
        """
        # From a bucket, read the whole file in one request: a server's error must not look like a damaged file.
        is_whole = not storage.local or (checksum is not None and storage.size(path) <= READ_WHOLE_BYTES)
        if is_whole:
            source, part, is_checked = pa.BufferReader(read_checked(storage, path, checksum)), 0, checksum is not None
        else:
            source, part, is_checked = storage.input(path), _READ_TOGETHER, False  # its pages have their own checksums
        place = storage.locate(path)
        with contextlib.ExitStack() as stack:
            stack.enter_context(source)
            with _named(place):
                file = pq.ParquetFile(
                    source,
                    pre_buffer=False,  # it would hold the whole file as well as its rows
                    buffer_size=part,
                    page_checksum_verification=not is_checked,
                )
                if not is_whole and not is_footer_intact(file, partial(_end_of, source)):
                    raise damaged(storage, path)
                schema = file.schema_arrow
                stamps = {key: text.decode() for key, text in (schema.metadata or {}).items()}
            version = stamps.get(_VERSION_KEY, "unknown")
            if version != FORMAT_VERSION:
                raise StorageError(f"metadata file {path} has format {version}", hint="upgrade sleeper-nb")
            if (written := stamps.get(_PATH_KEY, path)) != path:  # earlier builds did not say
                raise StorageError(f"{place} is damaged: it has the content of {written}", hint=HINT)
            stack.pop_all()
        return cls(place, file, schema.remove_metadata(), is_whole)

    @property
    def can_stay_open(self) -> bool:
        """Whether columns of it may be read later, even if the file is deleted meanwhile, and whether that saves time.

        Windows does not delete a file that is open, so there it would stay.
        """
        return not self.is_whole and os.name != "nt" and self.file.metadata.num_rows > FEW_ROWS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.file.close(force=True)

    def read(self, names: Sequence[str]) -> pa.Table:
        """Return some columns; `StorageError` when the file is damaged."""
        rows = self.file.metadata.num_rows
        with _named(self.place):
            table = self.file.read(list(names), use_threads=rows > FEW_ROWS)
            if table.num_rows != rows:  # Arrow finds no row in a file that was cut after it was opened
                raise OSError(f"it has {table.num_rows:,} rows instead of {rows:,}")
        return table.replace_schema_metadata(None)


def _end_of(source: pa.NativeFile, size: int) -> bytes:
    source.seek(source.size() - size)
    return bytes(source.read(size))


class UnreadStatistics:
    """The statistics of all references in a metadata file, which stays open until they are read."""

    def __init__(self, file: MetadataFile, names: Sequence[str]) -> None:
        self.schema: pa.Schema = pa.schema([file.schema.field(name) for name in names])
        self._file: MetadataFile | None = file
        self._read: pa.Table | None = None
        self._lock = Lock()

    def read(self) -> pa.Table:
        """Return them; `StorageError` when the file is damaged."""
        with self._lock:  # threads share a state
            if self._read is None:
                assert self._file is not None  # noqa: S101 - it is only set to None below
                self._read = self._file.read(self.schema.names)
                self._file.close()
                self._file = None
            return self._read


@contextlib.contextmanager
def _named(place: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:  # a damaged name is no UTF-8
        raise StorageError(f"cannot read the metadata file {place}: {first_line(error)}", hint=HINT) from error


def write_saved_log(storage: Storage, path: str, entries: Sequence[bytes]) -> str:
    """Write entries of the log in order, one JSON line each (`sleeper_nb.model.transactions.to_entry`).

    Returns
    -------
    str
        The file's checksum.
    """
    content = b"".join(entry + b"\n" for entry in entries)
    storage.write(path, content)
    return checksum_of(content)


def read_saved_log(storage: Storage, path: str, checksum: str | None = None) -> tuple[bytes, ...]:
    """Read what `write_saved_log` wrote; `StorageError` when it does not match the given checksum."""
    return tuple(read_checked(storage, path, checksum).splitlines())


class ManifestList:
    """Describes the metadata files of savepoints: which they are, how large, and how many data files each lists."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def read(self, savepoint: Savepoint) -> tuple[ManifestFileMeta, ...]:
        """Return the metadata files that list the data files of a savepoint: a full list, and perhaps a log after it.

        `NotFound`, `StorageError` when one is missing or damaged.
        """
        path, log = savepoint.full_manifest_list, savepoint.log
        files = read_files(self._storage, path, savepoint.files_checksum)
        read = pc.unique(files.active_without_statistics["filename"])
        unread = _without(pc.unique(files.ready_for_gc["filename"]), read)
        size = self._storage.size(path)
        schema_id = savepoint.schema_id if log is None else log.schema_id
        listed = ManifestFileMeta(path, size, len(read), len(unread), schema_id)
        return (listed,) if log is None else (listed, self._logged(savepoint, log, files, read))

    def _logged(self, savepoint: Savepoint, log: SavedLog, files: FileReferences, before: pa.Array) -> ManifestFileMeta:
        from sleeper_nb.model.transactions import replayed  # few savepoints are of a log

        schema = read_schema(self._storage, log.schema_id, log.schema_checksum)
        expected = savepoint.partitions_checksum
        tree = read_partitions(self._storage, savepoint.partitions_path, schema, expected)
        start = TableState(log.after, log.schema_id, schema, tree, files)
        entries = read_saved_log(self._storage, log.path, log.checksum)
        after = pc.unique(replayed(start, entries).files.active_without_statistics["filename"])
        added, gone = _without(after, before), _without(before, after)
        return ManifestFileMeta(log.path, self._storage.size(log.path), len(added), len(gone), savepoint.schema_id)


def _without(names: pa.Array, others: pa.Array) -> pa.Array:
    return names.filter(pc.invert(pc.is_in(names, others)))


# The checksum of a Parquet file's footer, kept in the footer itself.
#
# The checksums of a file's pages do not cover its footer: a changed bit there can give a column another name or type,
# and the pages are still right. That of the whole file would take longer to compute than the rest of reading it.
# It is that of the footer with `BLANK` in its place. While the footer is written, a mark stands there, which follows
# from the file's metadata, so that no name or text in the footer is like it.

FOOTER_KEY: Final = b"sleeper_nb.footer"
BLANK: Final = b"-" * DIGITS
_TAIL: Final = 8
"""Bytes at the end of a Parquet file: the length of the footer, and a mark."""
_WRITTEN_TOGETHER: Final = 1 << 20
"""Bytes."""


def write_with_footer_checksum(table: pa.Table, stream: pa.NativeFile, **options: Any) -> None:
    """Write a table as a Parquet file whose footer has its own checksum.

    Parameters
    ----------
    table
        The rows; the key `FOOTER_KEY` is added to its metadata.
    """
    stamps = dict(table.schema.metadata or {})
    mark = checksum_of(FOOTER_KEY, *chain.from_iterable(sorted(stamps.items()))).encode()
    stamped = table.replace_schema_metadata({**stamps, FOOTER_KEY: mark})
    sink = _Held(stream)
    # Parquet writes many parts of a few bytes: they are collected before they come to Python
    with (
        pa.BufferedOutputStream(pa.PythonFile(sink, "w"), _WRITTEN_TOGETHER) as collected,
        pq.ParquetWriter(collected, stamped.schema, **options) as writer,
    ):
        writer.write_table(stamped)
        collected.flush()
        sink.holds = True
    footer = sink.held.getvalue()
    stream.write(footer.replace(mark, checksum_of(footer.replace(mark, BLANK)).encode()))


def is_footer_intact(file: pq.ParquetFile, read_end: Callable[[int], bytes]) -> bool:
    """Return whether the footer of a file is as it was written; True of one without a checksum.

    Parameters
    ----------
    read_end
        Returns so many bytes at the end of the file.
    """
    stamp = (file.metadata.metadata or {}).get(FOOTER_KEY)
    if stamp is None:
        return True
    footer = read_end(_TAIL + int.from_bytes(read_end(_TAIL)[:4], "little"))
    return bool(checksum_of(footer.replace(stamp, BLANK)).encode() == stamp)


class _Held:
    """A writable stream that passes everything to another stream, until it `holds` what comes."""

    closed = False

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream, self.held, self.holds = stream, io.BytesIO(), False

    def write(self, part: bytes) -> int:
        (self.held if self.holds else self._stream).write(part)
        return len(part)

    def flush(self) -> None:
        """Do nothing: the stream's owner flushes it."""

    def close(self) -> None:
        """Do nothing: the stream's owner closes it."""
