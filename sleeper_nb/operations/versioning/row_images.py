"""Before and after images: pair the removed and the added row of one key as an update.

A pair is made where a key, of the row keys and sort keys, has exactly one removed and one added row. Of other keys it
is unknown which row became which, so their rows stay removed and added.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.operations.versioning.comparison import VersionComparison
from sleeper_nb.operations.versioning.row_changes import (
    KINDS,
    Key,
    RowCounts,
    RowDifference,
    changes_by_region,
    comparable_values,
    key_at,
    labelled_schema,
    recorded_counts,
)
from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.storage.filesystem import Storage

PREIMAGE: Final = "update_preimage"
POSTIMAGE: Final = "update_postimage"
"""The kinds of the two rows of an update; the names are those of Delta's change feed."""


class KindNames(NamedTuple):
    """What rows are called that only one version has."""

    removed: str = "removed"
    added: str = "added"


DIFF_NAMES: Final = KindNames()


class ImageCounts(NamedTuple):
    """How many rows were inserted, updated and deleted; an update counts once."""

    inserted: int
    updated: int
    deleted: int

    @property
    def rows(self) -> RowCounts:
        """The same as rows that were added and removed: an update is one of each."""
        return RowCounts(self.inserted + self.updated, self.deleted + self.updated)


def stream_images(
    comparison: VersionComparison,
    storage: Storage,
    column: str,
    names: KindNames = DIFF_NAMES,
    *,
    progress: Progress = SILENT,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that differ, region by region and in key order, with their kind in a first column.

    Parameters
    ----------
    comparison, storage, progress
        As `row_changes.stream_changes`, whose errors are raised.
    column, names
        The name of the first column; what rows are called in it that are no images of an update.
    """
    keys = comparison.after.sort_order
    for changes in changes_by_region(comparison, storage, KINDS, progress):
        for change in _by_whole_keys(changes, keys):
            yield _with_kinds(change, column, keys, names)


def count_images(comparison: VersionComparison, storage: Storage, *, progress: Progress = SILENT) -> ImageCounts:
    """Return how many rows were inserted, updated and deleted; from metadata where only one version has files."""
    inserted = updated = deleted = 0
    unknown = []
    for region in comparison.regions:
        rows = recorded_counts(comparison, region)
        if rows is None:
            unknown.append(region)
        else:
            inserted, deleted = inserted + rows.added, deleted + rows.removed
    for batch in stream_images(comparison.of(unknown), storage, "kind", progress=progress):
        kinds = pc.value_counts(batch.column(0)).to_pylist()
        counts = {each["values"]: each["counts"] for each in kinds}
        inserted, deleted = inserted + counts.get(DIFF_NAMES.added, 0), deleted + counts.get(DIFF_NAMES.removed, 0)
        updated += counts.get(POSTIMAGE, 0)
    return ImageCounts(inserted, updated, deleted)


def _by_whole_keys(changes: Iterable[RowDifference], keys: Sequence[str]) -> Iterator[RowDifference]:
    """Yield the same rows so that those of one key are together; only rows of the last key are held back."""
    held: RowDifference | None = None
    for change in changes:
        both = change if held is None else RowDifference(*map(_joined, held, change))
        last = max(key_at(rows, rows.num_rows - 1, keys) for rows in both if rows.num_rows)
        cuts = [_first_at(rows, last, keys) for rows in both]
        done = RowDifference(*(rows.slice(0, cut) for rows, cut in zip(both, cuts, strict=True)))
        held = RowDifference(*(rows.slice(cut) for rows, cut in zip(both, cuts, strict=True)))
        if any(rows.num_rows for rows in done):
            yield done
    if held is not None:
        yield held


def _first_at(rows: pa.RecordBatch, key: Key, keys: Sequence[str]) -> int:
    """Return the place of the first row with a key, or after it, in rows sorted by key."""
    return bisect_left(range(rows.num_rows), key, key=lambda place: key_at(rows, place, keys))


def _joined(first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
    return pa.concat_batches([first, second]) if first.num_rows else second


def _with_kinds(change: RowDifference, column: str, keys: Sequence[str], names: KindNames) -> pa.RecordBatch:
    """Return the rows in key order, of one key the removed ones first, with the kind of each in a first column."""
    rows = pa.concat_batches(change)
    removed = change.removed.num_rows
    kinds = np.where(np.arange(rows.num_rows) < removed, names.removed, names.added).astype(object)
    columns = {f"key {i}": comparable_values(rows[name]) for i, name in enumerate(keys)}
    sign = np.where(np.arange(rows.num_rows) < removed, -1, 1)
    by_key = pa.table({**columns, "sign": sign, "place": np.arange(rows.num_rows)}).group_by(list(columns))
    sums = by_key.aggregate([("sign", "sum"), ("place", "count"), ("place", "min"), ("place", "max")])
    pairs = sums.filter(pc.and_(pc.equal(sums["sign_sum"], 0), pc.equal(sums["place_count"], 2)))
    kinds[pairs["place_min"].to_numpy()] = PREIMAGE
    kinds[pairs["place_max"].to_numpy()] = POSTIMAGE
    schema = labelled_schema(rows.schema, column)
    found = pa.RecordBatch.from_arrays([pa.array(kinds, pa.string()), *rows.columns], schema=schema)
    if not removed or removed == rows.num_rows:
        return found
    return found.take(pc.sort_indices(rows, sort_keys=[(key, "ascending") for key in keys]))  # a stable sort
