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
from sleeper_nb.operations.versioning.row_differences import (
    KINDS,
    Key,
    RowCounts,
    RowDifference,
    changes_by_region,
    comparable_values,
    key_at,
    labelled,
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
        As `row_differences.stream_changes`, whose errors are raised.
    column, names
        The name of the first column; what rows are called in it that are no images of an update.
    """
    keys = comparison.after.sort_order
    for changes in changes_by_region(comparison, storage, KINDS, progress):
        for change in _by_whole_keys(changes, keys):
            yield labelled(change, column, keys, image_kinds(change, keys, names))


def count_images(comparison: VersionComparison, storage: Storage, *, progress: Progress = SILENT) -> ImageCounts:
    """Return how many rows were inserted, updated and deleted; from metadata where only one version has files."""
    (inserted, deleted), unknown = recorded_counts(comparison)
    updated = 0
    for batch in stream_images(unknown, storage, "kind", progress=progress):
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


def image_kinds(change: RowDifference, keys: Sequence[str], names: KindNames = DIFF_NAMES) -> pa.Array:
    """Return the kind of each removed row, then of each added one; only the columns of the keys are needed."""
    rows = pa.concat_batches(change)
    is_removed = np.arange(rows.num_rows) < change.removed.num_rows
    kinds = np.where(is_removed, names.removed, names.added).astype(object)
    columns = {f"key {i}": comparable_values(rows[name]) for i, name in enumerate(keys)}
    sign = np.where(is_removed, -1, 1)
    by_key = pa.table({**columns, "sign": sign, "place": np.arange(rows.num_rows)}).group_by(list(columns))
    sums = by_key.aggregate([("sign", "sum"), ("place", "count"), ("place", "min"), ("place", "max")])
    pairs = sums.filter(pc.and_(pc.equal(sums["sign_sum"], 0), pc.equal(sums["place_count"], 2)))
    kinds[pairs["place_min"].to_numpy()] = PREIMAGE
    kinds[pairs["place_max"].to_numpy()] = POSTIMAGE
    return pa.array(kinds, pa.string())
