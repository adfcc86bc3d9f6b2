"""Read and write the metadata files of a table: file references, partitions, schemas, and saved parts of the log.

References and partitions are Parquet files that any tool can read, and a schema is JSON. A savepoint of the
transaction log also keeps a part of the log as a file of JSON lines. `ManifestList` describes the files of a savepoint.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sleeper_nb.errors import SleeperError, StorageError, first_line
from sleeper_nb.model.checksums import checksum_of
from sleeper_nb.model.file_reference import completed
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.partitions import Partition, PartitionTree, Range, Region
from sleeper_nb.model.savepoints import ManifestFileMeta, SavedLog, Savepoint
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.model.statistics import NULLS, is_text, reference_names
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.integrity import HINT, checksummed, read_checked

FORMAT_VERSION = "1"
FEW_ROWS = 10_000
"""Up to this many rows, threads and strong compression cost more time than they save."""
_OF_FEW_VALUES = ("partition_id", "status", "job_id")
_VERSION_KEY = b"sleeper_nb.format"


def write_files(storage: Storage, path: str, files: FileReferences) -> str:
    """Write all references of a snapshot, in the columns of `files_schema`; return the file's checksum."""
    return _write(storage, path, files.table)


def read_files(storage: Storage, path: str, checksum: str | None = None) -> FileReferences:
    return FileReferences.of(completed(_read(storage, path, checksum)))


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
    stamped = table.replace_schema_metadata({_VERSION_KEY: FORMAT_VERSION})
    with checksummed(storage, path) as (stream, checksum):
        pq.write_table(stamped, stream, write_page_checksum=True, **_encodings(stamped.schema, table.num_rows))
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
    """Return the rows of a file of the format of this release, which must have the recorded checksum.

    `NotFound`, `StorageError` when it is missing or damaged, or has another format.
    """
    content = pa.BufferReader(read_checked(storage, path, checksum))
    with _named(storage.locate(path)):
        file = pq.ParquetFile(content, page_checksum_verification=checksum is None)
        version = (file.schema_arrow.metadata or {}).get(_VERSION_KEY, b"unknown").decode()
        if version == FORMAT_VERSION:
            return file.read(use_threads=file.metadata.num_rows > FEW_ROWS).replace_schema_metadata(None)
    raise StorageError(f"metadata file {path} has format {version}", hint="upgrade sleeper-nb")


@contextlib.contextmanager
def _named(place: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:  # a damaged name is no UTF-8
        raise StorageError(f"cannot read the metadata file {place}: {first_line(error)}", hint=HINT) from error


def write_saved_log(storage: Storage, path: str, entries: Sequence[bytes]) -> str:
    """Write entries of the log in order, one JSON line each, and return the file's checksum."""
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
        read = pc.unique(files.active["filename"])
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
        after = pc.unique(replayed(start, entries).files.active["filename"])
        added, gone = _without(after, before), _without(before, after)
        return ManifestFileMeta(log.path, self._storage.size(log.path), len(added), len(gone), savepoint.schema_id)


def _without(names: pa.Array, others: pa.Array) -> pa.Array:
    return names.filter(pc.invert(pc.is_in(names, others)))
