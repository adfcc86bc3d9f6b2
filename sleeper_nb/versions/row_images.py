"""Before and after images: pair the removed and the added row of one key as an update.

A pair is made where a key, of the row keys and sort keys, has exactly one removed and one added row. Of other keys it
is unknown which row became which, so their rows stay removed and added.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.versions.comparison import VersionComparison
from sleeper_nb.versions.row_differences import (
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

PREIMAGE: Final = "update_preimage"
POSTIMAGE: Final = "update_postimage"
"""The kinds of the two rows of an update; the names are those of Delta's change feed."""


_Places = np.ndarray[tuple[int], np.dtype[np.int64]]


class KindNames(NamedTuple):
    """What rows are called that only one version has."""

    removed: str = "removed"
    added: str = "added"


DIFF_NAMES: Final = KindNames()
_IMAGES: Final = (*DIFF_NAMES, PREIMAGE, POSTIMAGE)


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

    Errors as of `row_differences.stream_changes`.
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


@dataclass(frozen=True, slots=True, eq=False)
class FirstImages:
    """The first rows of one kind.

    Parameters
    ----------
    rows
        The rows, in the order of `stream_images`.
    places
        The place of each among all changes that were read; both images of an update have the same.
    """

    rows: pa.Table
    places: Sequence[int]


@dataclass(frozen=True, slots=True, eq=False)
class ImageSummary:
    """What changed between two versions, by key.

    Parameters
    ----------
    counts
        How many rows were inserted, updated and deleted. Exact.
    cells
        In how many of the updated rows each column has another value; columns that never have are left out.
    inserted, deleted, before, after
        The first rows of each kind; of updated rows, both images.
    """

    counts: ImageCounts
    cells: Mapping[str, int]
    inserted: FirstImages
    deleted: FirstImages
    before: FirstImages
    after: FirstImages

    def differing(self, columns: Sequence[str]) -> list[tuple[bool, ...]]:
        sides = (each.rows.select(columns).combine_chunks() for each in (self.before, self.after))
        batches = [table.to_batches() for table in sides]
        parts = zip(*(batch[0].columns for batch in batches), strict=True) if all(batches) else ()
        return list(zip(*(differing(*pair).tolist() for pair in parts), strict=True))


def summarize_images(
    comparison: VersionComparison, storage: Storage, most: int, *, progress: Progress = SILENT
) -> ImageSummary:
    """Return exact counts, and the first rows of each kind; errors as of `row_differences.stream_changes`.

    Of a region where metadata has the counts, no more rows are read than are kept.
    """
    found = _Summary(comparison.schema, most)
    for number, region in enumerate(comparison.regions):
        one, step = comparison.of([region]), _Step(progress, number, len(comparison.regions))
        step.update()
        recorded, unknown = recorded_counts(one)
        if unknown.regions:
            for batch in stream_images(one, storage, "kind", progress=step):
                found.add(batch)
        else:
            found.add_counted(recorded, stream_images(one, storage, "kind", progress=step))
    return found.summary()


class _Step:
    """The progress of one region as that of all."""

    def __init__(self, progress: Progress, number: int, of: int) -> None:
        self._progress, self._number, self._of = progress, number, of

    def update(self, text: str = "comparing the versions", done: int = 0, total: int = 0) -> None:  # noqa: ARG002
        self._progress.update(text, self._number, self._of)

    def finish(self, text: str = "") -> None:
        self._progress.finish(text)


class _Summary:
    """Counts images batch by batch, and keeps the first ones."""

    def __init__(self, schema: pa.Schema, most: int) -> None:
        self._schema, self._most, self._place = schema, most, 0
        self._counts = dict.fromkeys(_IMAGES, 0)
        self._kept: dict[str, list[pa.RecordBatch]] = {kind: [] for kind in _IMAGES}
        self._places: dict[str, list[int]] = {kind: [] for kind in _IMAGES}
        self._cells = dict.fromkeys(schema.names, 0)

    def add(self, batch: pa.RecordBatch) -> None:
        kinds = batch.column(0).to_numpy(zero_copy_only=False)
        # Both images of an update have one place: the second is at the place of the first.
        places = self._place + np.cumsum(kinds != POSTIMAGE) - 1
        self._place = int(places[-1]) + 1 if len(places) else self._place
        rows = pa.RecordBatch.from_arrays(batch.columns[1:], schema=self._schema)
        for kind in _IMAGES:
            self._counts[kind] += int((kinds == kind).sum())
            self._keep(kind, rows, np.flatnonzero(kinds == kind), places)
        if POSTIMAGE in kinds:
            images = [rows.filter(pa.array(kinds == kind)) for kind in (PREIMAGE, POSTIMAGE)]
            for name, before, after in zip(self._schema.names, *(each.columns for each in images), strict=True):
                self._cells[name] += int(differing(before, after).sum())

    def add_counted(self, counts: RowCounts, batches: Iterable[pa.RecordBatch]) -> None:
        """Add rows that are all of one kind, whose number is known; only those that are kept are read."""
        added = DIFF_NAMES.added if counts.added else DIFF_NAMES.removed
        rows = counts.added + counts.removed
        total, end = self._counts[added] + rows, self._place + rows
        for batch in batches if rows and len(self._places[added]) < self._most else ():
            self.add(batch)
            if len(self._places[added]) >= self._most:
                break
        self._counts[added], self._place = total, end

    def _keep(self, kind: str, rows: pa.RecordBatch, chosen: _Places, places: _Places) -> None:
        chosen = chosen[: self._most - len(self._places[kind])]
        if len(chosen):
            self._kept[kind].append(rows.take(pa.array(chosen)))
            self._places[kind] += places[chosen].tolist()

    def summary(self) -> ImageSummary:
        first = {
            kind: FirstImages(pa.Table.from_batches(self._kept[kind], self._schema), tuple(self._places[kind]))
            for kind in _IMAGES
        }
        counts = ImageCounts(self._counts[DIFF_NAMES.added], self._counts[POSTIMAGE], self._counts[DIFF_NAMES.removed])
        cells = {name: count for name, count in self._cells.items() if count}
        return ImageSummary(
            counts, cells, first[DIFF_NAMES.added], first[DIFF_NAMES.removed], first[PREIMAGE], first[POSTIMAGE]
        )


def differing(before: pa.Array, after: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return for each row whether two columns of one type have different values, as versions are compared."""
    both = comparable_values(pa.concat_arrays([before, after]))
    old, new = both.slice(0, len(before)), both.slice(len(before))
    other = pc.fill_null(pc.not_equal(old, new), False)  # noqa: FBT003
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = pc.or_(
        other, pc.xor(pc.is_null(old), pc.is_null(new))
    ).to_numpy(zero_copy_only=False)
    return found


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
