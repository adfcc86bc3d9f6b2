"""Ingest in process: rows are cut by leaf, sorted, written as one file per leaf, and added in one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import OutcomeUnknown, SleeperError
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import Partition, PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.transactions import AddFiles
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.data_file_settings import DataFileSettings
from sleeper_nb.storage.data_files import AS_DEFAULT, DataFile, DataFileWriter
from sleeper_nb.storage.filesystem import Storage


def ingest_arrow(
    store: StateStore,
    rows: pa.Table,
    *,
    message: str | None = None,
    author: str | None = None,
    writing: DataFileSettings = AS_DEFAULT,
) -> Snapshot:
    """Add rows that have the table's columns, and return the snapshot that holds them; no row, no new snapshot."""

    def write(schema: Schema, tree: PartitionTree) -> Iterator[tuple[str, DataFile]]:
        for leaf, part in cut_by_leaf(rows, tree, schema):
            order = [(name, "ascending") for name in schema.sort_order]
            name = paths.data_file(leaf.id, store.clock.new_id())
            finished = write_sorted(store.storage, name, schema, [part.sort_by(order)], writing)
            if finished is not None:
                yield leaf.id, finished

    return add_written(store, write, message=message, author=author)


def add_written(
    store: StateStore,
    write: Callable[[Schema, PartitionTree], Iterable[tuple[str, DataFile]]],
    *,
    message: str | None,
    author: str | None,
) -> Snapshot:
    """Write files by `write`, which yields each with the id of its leaf, and add all of them in one commit.

    When anything fails, by error or by interrupt, the files that were written are deleted again: nothing is half-done.
    A crash leaves files that no snapshot names.
    """
    head = store.head()
    state = store.load(head)
    references: list[FileReference] = []
    try:
        for partition_id, file in write(state.schema, state.tree):
            references.append(reference_to(file, partition_id))
        if not references:
            return head
        return store.commit(AddFiles(tuple(references)), message=message, author=author)
    except OutcomeUnknown:
        raise  # the files may be in the table: they must stay
    except BaseException:
        discard_files(store, [reference.filename for reference in references])
        raise


def discard_files(store: StateStore, filenames: Iterable[str]) -> None:
    """Delete data files of work that failed, but none that the table has: an interrupt may have hit a commit that won.

    Where that cannot be told, the files stay; no snapshot names them.
    """
    try:
        tracked = store.load().files
    except SleeperError:
        return
    for filename in filenames:
        if not tracked.knows(filename):
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
    return FileReference(file.filename, partition_id, file.rows, file.bytes, file.min_key, file.max_key, job_id=job_id)


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
