"""Which rows were added and which removed between two versions, read as streams in bounded memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.operations.processing.processing import Processor
from sleeper_nb.operations.scanning.planning import PlannedLeaf
from sleeper_nb.operations.scanning.reading import leaf_rows
from sleeper_nb.operations.versioning.comparison import Comparison, DifferingRegion
from sleeper_nb.operations.versioning.row_difference import Change, difference
from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.storage.filesystem import Storage

Kind = Literal["added", "removed"]
KINDS: tuple[Kind, ...] = ("added", "removed")


class RowCounts(NamedTuple):
    """How many rows were added and removed."""

    added: int
    removed: int


def stream(
    comparison: Comparison, storage: Storage, kinds: Collection[Kind] = KINDS, *, progress: Progress = SILENT
) -> Iterator[Change]:
    """Yield the rows that were added and removed: region by region, in key order within each.

    A row that did not change is in neither, a row whose values changed is in both.

    Parameters
    ----------
    comparison
        What is read.
    storage
        The table's folder.
    kinds
        What is asked for. Of the other kind there may be rows too; but a region that can only have such is not read.
    progress
        Watches.

    Raises
    ------
    NotFound, StorageError
        When a file is gone or cannot be read.
    InvalidInput
        When rows cannot be processed.
    """
    schema, keys = comparison.schema, comparison.after.sort_order
    processors = (
        Processor.of(comparison.processing_before, comparison.before),
        Processor.of(comparison.processing_after, comparison.after),
    )
    names = [comparison.names(each) for each in (comparison.before, comparison.after)]
    nothing = pa.RecordBatch.from_pylist([], schema)
    for i, region in enumerate(comparison.regions):
        progress.update("comparing the versions", i, len(comparison.regions))
        if not any(_can_have(region, kind) for kind in kinds):
            continue
        sides = (region.before, region.after)
        old, new = (_rows(*each, storage, schema) for each in zip(sides, processors, names, strict=True))
        if not region.after.files:
            yield from (Change(batch, nothing) for batch in old)
        elif not region.before.files:
            yield from (Change(nothing, batch) for batch in new)
        else:
            yield from difference(old, new, schema, keys)


def count(comparison: Comparison, storage: Storage, *, progress: Progress = SILENT) -> RowCounts:
    """Return how many rows were added and removed; where files were only added or only removed, metadata tells."""
    known, unknown = RowCounts(0, 0), []
    for region in comparison.regions:
        rows = _told(region) if comparison.stored_rows else None
        if rows is None:
            unknown.append(region)
        else:
            known = RowCounts(known.added + rows.added, known.removed + rows.removed)
    added, removed = known
    for change in stream(comparison.of(unknown), storage, progress=progress):
        added, removed = added + change.added.num_rows, removed + change.removed.num_rows
    return RowCounts(added, removed)


def labelled(change: Change, column: str, keys: Sequence[str]) -> pa.RecordBatch:
    """Return the rows of both kinds in key order, each with its kind in a column of that name, which comes first."""
    rows = pa.concat_batches([_with_kind(change.removed, column, "removed"), _with_kind(change.added, column, "added")])
    if not change.removed.num_rows or not change.added.num_rows:
        return rows
    return rows.take(pc.sort_indices(rows, sort_keys=[(key, "ascending") for key in keys]))


def labelled_schema(schema: pa.Schema, column: str) -> pa.Schema:
    """Return the columns of `labelled` rows."""
    return schema.insert(0, pa.field(column, pa.string(), nullable=False))


def in_schema(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of another version's schema with the columns of this one; what they do not have is null."""
    if rows.schema == schema:
        return rows
    names = set(rows.schema.names)
    columns = [
        rows[field.name].cast(field.type) if field.name in names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_kind(rows: pa.RecordBatch, column: str, kind: Kind) -> pa.RecordBatch:
    kinds = pa.repeat(pa.scalar(kind), rows.num_rows)
    return pa.RecordBatch.from_arrays([kinds, *rows.columns], schema=labelled_schema(rows.schema, column))


def _can_have(region: DifferingRegion, kind: Kind) -> bool:
    return bool(region.after.files if kind == "added" else region.before.files)


def _told(region: DifferingRegion) -> RowCounts | None:
    """Return the counts of a region that has files of one version only, where metadata tells them."""
    if region.before.files and region.after.files:
        return None
    added, removed = region.after.rows, region.before.rows
    return None if added is None or removed is None else RowCounts(added, removed)


def _rows(
    leaf: PlannedLeaf, process: Processor, names: Mapping[str, str], storage: Storage, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the processed rows of a version with the columns that are compared."""
    for batch in leaf_rows(leaf.files, process, storage):
        named = batch.select(list(names.values())).rename_columns(list(names))
        yield in_schema(named, schema)
