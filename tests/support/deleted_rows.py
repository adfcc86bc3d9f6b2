"""Deletes rows of a table by deletion vectors, row by row in plain Python."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sleeper_nb.model.checksums import checksum_of
from sleeper_nb.model.deletions import POSITIONS, DeletionVector
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.transactions import EditCounts, EditRows, ReplacedReference
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage

Row = Mapping[str, Any]


def delete_rows(store: StateStore, is_deleted: Callable[[Row], bool]) -> Snapshot:
    """Delete the rows that a function chooses, as one snapshot: each file that has some gets a vector."""
    state = store.load()
    replaced, references, count = [], [], 0
    for reference in state.files.active_in({each.id for each in state.tree.partitions}):
        region = state.tree[reference.partition_id].region
        before = positions_in(store.storage, reference.deletions)
        rows = rows_in_file(store.storage, reference.filename, state.schema)
        gone = {at for at, row in enumerate(rows) if has_key(region, row, state.schema) and is_deleted(row)} - {*before}
        if gone:
            count += len(gone)
            replaced.append(replaced_reference(reference))
            references.append(with_vector(store, reference, sorted({*before, *gone})))
    counts = EditCounts(deleted=count)
    return store.commit(EditRows("delete", state.snapshot_id, tuple(replaced), tuple(references), (), counts))


def rows_in_file(storage: Storage, filename: str, schema: Schema) -> list[dict[str, Any]]:
    """Return all rows of a data file, deleted ones too; a field that the file lacks is null."""
    with storage.input(filename) as stream:
        rows = pq.read_table(stream).to_pylist()
    return [{field.name: row.get(field.column) for field in schema.fields} for row in rows]


def has_key(region: Region, row: Row, schema: Schema) -> bool:
    """Return whether the row keys of a row are in a region."""
    return all(row[key.name] in part for key, part in zip(schema.row_keys, region.ranges, strict=True))


def positions_in(storage: Storage, vector: DeletionVector | None) -> list[int]:
    """Return the positions of a vector."""
    if vector is None:
        return []
    with storage.input(vector.filename) as stream:
        return pq.read_table(stream)["position"].to_pylist()


def replaced_reference(reference: FileReference) -> ReplacedReference:
    """Return what a change says of a reference that it replaces."""
    return ReplacedReference(reference.partition_id, reference.filename, *(reference.filenames[1:] or (None,)))


def with_vector(store: StateStore, reference: FileReference, positions: Iterable[int]) -> FileReference:
    """Return a reference whose deleted rows are those at some positions, of which a file is written."""
    deleted = pa.table([pa.array(positions, pa.int64())], schema=POSITIONS)
    content = io.BytesIO()
    pq.write_table(deleted, content)
    name = paths.data_file(reference.partition_id, store.clock.new_id())
    store.storage.write(name, content.getvalue())
    before = 0 if reference.deletions is None else reference.deletions.rows
    vector = DeletionVector(name, deleted.num_rows, len(content.getvalue()), checksum_of(content.getvalue()))
    return replace(reference, rows=reference.rows - deleted.num_rows + before, deletions=vector)
