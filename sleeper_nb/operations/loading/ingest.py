"""Ingest in process: rows are cut by leaf, sorted and written, and added in one commit.

One file per leaf by default, so that a scan of a key opens the files of one leaf; or, by the table's property, one file
for all leaves, to which each leaf that gets rows has a reference of its own: fewer files for small, frequent ingests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import OutcomeUnknown, SleeperError, StateRuleBroken
from sleeper_nb.model.evolution import reads_files_of
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import Partition, PartitionTree
from sleeper_nb.model.properties import INGEST_STRATEGY, ONE_FILE_PER_LEAF, TableProperties
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import AddFiles
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.data_file_settings import DataFileSettings
from sleeper_nb.storage.data_files import AS_DEFAULT, DataFile, DataFileWriter
from sleeper_nb.storage.filesystem import Storage


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """How rows become files.

    Parameters
    ----------
    strategy
        ``one_file_per_leaf`` or ``one_reference_per_leaf`` (``sleeper.table.ingest.file.writing.strategy``).
    writing
        How each file is written.
    """

    strategy: str = ONE_FILE_PER_LEAF
    writing: DataFileSettings = AS_DEFAULT

    @classmethod
    def of(cls, properties: TableProperties) -> IngestSettings:
        """Return what a table's properties say."""
        return cls(properties[INGEST_STRATEGY], DataFileSettings.of(properties))

    @property
    def file_per_leaf(self) -> bool:
        """Whether each leaf that gets rows gets a file of its own."""
        return self.strategy == ONE_FILE_PER_LEAF


AS_USUAL = IngestSettings()


def ingest_arrow(
    store: StateStore,
    rows: pa.Table,
    *,
    message: str | None = None,
    author: str | None = None,
    job_id: str | None = None,
    settings: IngestSettings = AS_USUAL,
    rows_schema: Schema | None = None,
) -> Snapshot:
    """Add rows that have the table's columns, and return the snapshot that holds them; no row, no new snapshot.

    The table may be altered meanwhile: the columns that the rows have are those of `rows_schema`, of now when None.
    """

    def write(schema: Schema, tree: PartitionTree) -> Iterator[FileReference]:
        parts: Iterable[tuple[str, pa.Table, dict[str, int]]]
        if settings.file_per_leaf:
            parts = ((leaf.id, part, {leaf.id: part.num_rows}) for leaf, part in cut_by_leaf(rows, tree, schema))
        else:
            parts = [(tree.root.id, rows, rows_by_leaf(rows, tree, schema))]
        order = [(name, "ascending") for name in schema.sort_order]
        for folder, part, by_leaf in parts:
            name = paths.data_file(folder, store.clock.new_id())
            finished = write_sorted(store.storage, name, schema, [part.sort_by(order)], settings.writing)
            if finished is not None:
                yield from references_to(finished, by_leaf)

    return add_written(store, write, message=message, author=author, job_id=job_id, rows_schema=rows_schema)


def add_written(
    store: StateStore,
    write: Callable[[Schema, PartitionTree], Iterable[FileReference]],
    *,
    message: str | None,
    author: str | None,
    job_id: str | None = None,
    rows_schema: Schema | None = None,
) -> Snapshot:
    """Write files by `write`, which yields their references, and add all of them in one commit.

    When anything fails, by error or by interrupt, the files that were written are deleted again: nothing is half-done.
    A crash leaves files that no snapshot names.
    """
    head, state = store.current()
    schema = rows_schema or state.schema
    references: list[FileReference] = []

    def added(now: TableState) -> AddFiles:
        if now.schema != schema and not reads_files_of(schema, now.schema):
            raise StateRuleBroken(
                "the table was given other columns while the rows were written", hint="run the ingest again"
            )
        return AddFiles(tuple(references))

    try:
        for reference in write(schema, state.tree):
            references.append(reference)  # noqa: PERF402 - what an error finds here is deleted
        if not references:
            return head
        return store.commit(added, message=message, author=author, job_id=job_id)
    except OutcomeUnknown:
        raise  # the files may be in the table: they must stay
    except BaseException:
        discard_files(store, dict.fromkeys(reference.filename for reference in references))
        raise


def discard_files(store: StateStore, filenames: Iterable[str]) -> None:
    """Delete data files of work that failed, but none that the table has: an interrupt may have hit a commit that won.

    Where that cannot be told, the files stay; no snapshot names them.
    """
    try:
        tracked = store.load().files if store.catalog.has_table(store.table_id) else None  # else it was deleted
    except SleeperError:
        return
    for filename in filenames:
        if tracked is None or not tracked.knows(filename):
            store.storage.delete(filename)


def write_sorted(
    storage: Storage,
    filename: str,
    schema: Schema,
    batches: Iterable[pa.Table | pa.RecordBatch],
    writing: DataFileSettings = AS_DEFAULT,
) -> DataFile | None:
    """Write sorted rows as one data file; None, and no file, when there are none."""
    with DataFileWriter(storage, filename, schema, writing) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.finish()


def reference_to(file: DataFile, partition_id: str, *, job_id: str | None = None) -> FileReference:
    """Return the reference of the one partition that all rows of a file belong to."""
    ends = file.min_key, file.max_key
    return FileReference(
        file.filename, partition_id, file.rows, file.bytes, *ends, job_id=job_id, checksum=file.checksum
    )


def references_to(file: DataFile, rows: Mapping[str, int]) -> Iterator[FileReference]:
    """Yield a reference to a file for each partition that has rows of it, with their number.

    All of them have the least and greatest keys of the whole file, by which a reader sees that it must cut the file to
    its partition.
    """
    for partition_id, count in rows.items():
        yield FileReference(
            file.filename,
            partition_id,
            count,
            file.bytes,
            file.min_key,
            file.max_key,
            only_this_partition=len(rows) == 1,
            checksum=file.checksum,
        )


def rows_by_leaf(rows: pa.Table, tree: PartitionTree, schema: Schema) -> dict[str, int]:
    """Return how many rows each leaf gets; `rows` needs no other columns than the row keys."""
    keys = rows.select([key.name for key in schema.row_keys])
    return {leaf.id: part.num_rows for leaf, part in cut_by_leaf(keys, tree, schema)}


def cut_by_leaf(rows: pa.Table, tree: PartitionTree, schema: Schema) -> Iterator[tuple[Partition, pa.Table]]:
    """Yield each leaf that gets rows, with those rows in their old order: the tree's splits, a column at a time."""
    waiting: list[tuple[Partition, pa.Table]] = [(tree.root, rows)]
    while waiting:
        node, part = waiting.pop()
        if not part.num_rows:
            continue
        if node.is_leaf:
            yield node, part
            continue
        field = schema.row_keys[node.dimension]
        goes_right = pc.greater_equal(part[field.name], pa.scalar(tree.split_point(node), field.type.arrow))
        left, right = (tree[child] for child in node.child_ids)
        waiting += [(right, part.filter(goes_right)), (left, part.filter(pc.invert(goes_right)))]
