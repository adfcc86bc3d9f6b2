"""The metadata of a savepoint's lists of data files: which files they are, how large, and how much each lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sleeper_nb.errors import SleeperError, StorageError
from sleeper_nb.model.checksums import checksum_of
from sleeper_nb.model.files import READY_FOR_GC, FileReferences, completed
from sleeper_nb.model.partitions import Partition, PartitionTree, Range, Region
from sleeper_nb.model.savepoints import ManifestFileMeta, SavedLog, Savepoint
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import replayed
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.integrity import HINT, ChecksummedStream, checked, read_checked

# The metadata of a snapshot as Parquet that any tool can read: file references, partitions; and the schema's JSON.

FORMAT_VERSION = "1"
FEW_ROWS = 10_000
"""Up to so many, threads and strong compression take longer than they save."""
CHECKED_BYTES = 1 << 20
"""The checksum of a local file of more bytes would take more than a twentieth of the time to read it."""
_REPEATED = ("partition_id", "status", "job_id")
_VERSION_KEY = b"sleeper_nb.format"


def write_files(storage: Storage, path: str, files: FileReferences) -> str:
    """Write all references of a snapshot, in the columns of `files_schema`; return the file's checksum."""
    return _write(storage, path, files.table)


def read_files(storage: Storage, path: str, checksum: str | None = None) -> FileReferences:
    """Read what `write_files` wrote."""
    return FileReferences.of(completed(_read(storage, path, checksum)))


def partitions_table(tree: PartitionTree, schema: Schema) -> pa.Table:
    """Return a tree as columns: one row a partition, root first, typed ``min_…`` and ``max_…`` of each row key."""
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
    """Write the whole partition tree of a snapshot; return the file's checksum."""
    return _write(storage, path, partitions_table(tree, schema))


def read_partitions(storage: Storage, path: str, schema: Schema, checksum: str | None = None) -> PartitionTree:
    """Read what `write_partitions` wrote."""
    names = [key.name for key in schema.row_keys]
    return PartitionTree(
        tuple(
            Partition(
                row["partition_id"],
                Region(tuple(Range(row[f"min_{name}"], row[f"max_{name}"]) for name in names)),
                row["parent_partition_id"],
                tuple(row["child_partition_ids"]),
                row["dimension"],
            )
            for row in _read(storage, path, checksum).to_pylist()
        )
    )


def write_schema(storage: Storage, schema_id: int, schema: Schema) -> None:
    """Write a schema under its id."""
    storage.write(paths.schema(schema_id), schema.to_json().encode())


def write_new_schema(storage: Storage, schema_id: int, schema: Schema) -> bool:
    """Write a schema under its id; False, and nothing done, when the id is taken."""
    return storage.write_new(paths.schema(schema_id), schema.to_json().encode())


def read_schema(storage: Storage, schema_id: int, checksum: str | None = None) -> Schema:
    """Read what `write_schema` wrote.

    Raises
    ------
    StorageError
        When the file has another checksum than the given one, or holds no schema; it is named.
    """
    path = paths.schema(schema_id)
    content = read_checked(storage, path, checksum)
    try:
        return Schema.from_json(content.decode())
    except (UnicodeDecodeError, SleeperError) as error:
        why = error.message if isinstance(error, SleeperError) else "it is not UTF-8"
        raise StorageError(f"{storage.locate(path)} holds no schema: {why}", hint=HINT) from error


def _write(storage: Storage, path: str, table: pa.Table) -> str:
    stamped = table.replace_schema_metadata({_VERSION_KEY: FORMAT_VERSION})
    with storage.output(path) as plain:
        stream = ChecksummedStream(plain)
        pq.write_table(
            stamped,
            stream,
            # of a small table zstd takes longer for each column than all the rest
            compression="zstd" if table.num_rows > FEW_ROWS else "snappy",
            use_dictionary=[name for name in _REPEATED if name in table.column_names],
            write_page_checksum=True,
        )
    return stream.checksum.text


def _read(storage: Storage, path: str, checksum: str | None) -> pa.Table:
    # Of a bucket the whole file in one request, so that a server's error is told as one, not as a damaged file.
    if not storage.local or (checksum is not None and storage.size(path) <= CHECKED_BYTES):
        source, is_checked = pa.BufferReader(checked(storage, path, storage.read(path), checksum)), checksum is not None
    else:
        source, is_checked = storage.input(path), False  # its pages have checksums of their own
    try:
        with source as stream:
            file = pq.ParquetFile(stream, page_checksum_verification=not is_checked)
            table = file.read(use_threads=file.metadata.num_rows > FEW_ROWS)
    except (pa.ArrowException, OSError) as error:
        why = str(error).partition("\n")[0]
        raise StorageError(f"cannot read the metadata file {storage.locate(path)}: {why}", hint=HINT) from error
    version = (table.schema.metadata or {}).get(_VERSION_KEY, b"").decode()
    if version != FORMAT_VERSION:
        raise StorageError(f"metadata file {path} has format {version or 'unknown'}", hint="upgrade sleeper-nb")
    return table.replace_schema_metadata(None)


# A part of the transaction log as a file of lines, which a savepoint keeps whatever becomes of the log.


def write_saved_log(storage: Storage, path: str, entries: Sequence[bytes]) -> str:
    """Write entries of the log in their order, each JSON (`sleeper_nb.model.log_entries.to_entry`).

    Returns
    -------
    str
        The file's checksum.
    """
    content = b"".join(entry + b"\n" for entry in entries)
    storage.write(path, content)
    return checksum_of(content)


def read_saved_log(storage: Storage, path: str, checksum: str | None = None) -> tuple[bytes, ...]:
    """Return what `write` wrote; `StorageError` when it has another checksum than the given one."""
    return tuple(read_checked(storage, path, checksum).splitlines())


class ManifestList:
    """Looks at the lists of data files in a table's folder.

    Parameters
    ----------
    storage
        The table's folder.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def read(self, savepoint: Savepoint) -> tuple[ManifestFileMeta, ...]:
        """Return the files that list the data files of a savepoint: one that lists them, and perhaps a log behind it.

        Raises
        ------
        NotFound, StorageError
            When one is not there, or damaged.
        """
        path, log = savepoint.full_manifest_list, savepoint.log
        files = read_files(self._storage, path, savepoint.files_checksum)
        waiting = pc.equal(files.table["status"], READY_FOR_GC)
        read = pc.unique(files.table["filename"].filter(pc.invert(waiting)))
        unread = _without(pc.unique(files.table["filename"].filter(waiting)), read)
        size = self._storage.size(path)
        schema_id = savepoint.schema_id if log is None else log.schema_id
        listed = ManifestFileMeta(path, size, len(read), len(unread), schema_id)
        return (listed,) if log is None else (listed, self._logged(savepoint, log, files, read))

    def _logged(self, savepoint: Savepoint, log: SavedLog, files: Any, before: Any) -> ManifestFileMeta:
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
