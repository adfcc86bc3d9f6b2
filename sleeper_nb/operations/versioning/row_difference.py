"""Which rows one sorted stream has and another has not, each as often as it does: the difference of two multisets."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sleeper_nb.operations.scanning.gathering import gathered
from sleeper_nb.operations.versioning.row_identity import identity

_Key = tuple[Any, ...]
_Places = np.ndarray[tuple[int], np.dtype[np.int64]]


class Change(NamedTuple):
    """Rows that only the one side has, and rows that only the other has, each in key order."""

    removed: pa.RecordBatch
    added: pa.RecordBatch


def difference(
    before: Iterable[pa.RecordBatch], after: Iterable[pa.RecordBatch], schema: pa.Schema, keys: Sequence[str]
) -> Iterator[Change]:
    """Yield the rows that are left of each stream when equal rows of both have cancelled each other.

    A row that is twice in one stream and once in the other is left once. Rows are equal when all their values are
    (`row_identity`). It holds a batch of each stream, and of the rows of one key those that have not found their equal.

    Parameters
    ----------
    before, after
        Batches with the columns of `schema`, sorted by `keys`.
    schema
        The columns that are compared.
    keys
        The columns that both streams are sorted by; without nulls.

    Yields
    ------
    Change
        The keys of each follow those of the one before, or are equal to its last ones.
    """
    old, new = (_Side(gathered(batches), schema, keys) for batches in (before, after))
    frontier: _Key | None = ()
    while frontier is not None:
        for side in (old, new):
            side.fill()
        frontier = min((side.last_key() for side in (old, new) if not side.ended), default=None)
        for side in (old, new):
            side.advance(frontier)
        removed, added = _not_cancelled(old.due, new.due)
        found = Change(old.give(removed, frontier, new), new.give(added, frontier, old))
        if found.removed.num_rows or found.added.num_rows:
            yield found


class _Side:
    """One of the streams: rows that are due to be compared, up to the frontier, and those that were read beyond it.

    The frontier is the greatest key up to which both streams are known; of its own rows more may come.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, keys: Sequence[str]) -> None:
        self._batches, self._keys = batches, keys
        self.due = self._held = self._beyond = pa.RecordBatch.from_pylist([], schema)
        self.ended = False

    def fill(self) -> None:
        """Read more, when all that was read has been compared."""
        if not self._beyond.num_rows and not self.ended:
            read = next(self._batches, None)
            self.ended = read is None
            self._beyond = self._beyond if read is None else read

    def last_key(self) -> _Key:
        """Return the greatest key that was read."""
        return self._key_at(self._beyond, self._beyond.num_rows - 1)

    def advance(self, frontier: _Key | None) -> None:
        """Make due what was held, and what was read up to the frontier; everything when it is None."""
        here = self._beyond
        places = range(here.num_rows)
        count = len(places) if frontier is None else bisect_right(places, frontier, key=self._keys_of(here))
        now = here.slice(0, count)
        self.due = pa.concat_batches([self._held, now]) if self._held.num_rows else now
        self._beyond = here.slice(count)

    def give(self, left: _Places, frontier: _Key | None, other: _Side) -> pa.RecordBatch:
        """Return the due rows that are left and can find no equal any more; hold the others of them.

        Equals of a row with the frontier's key may come until the other side has read beyond it.
        """
        rows = self.due if len(left) == self.due.num_rows else self.due.take(pa.array(left))
        known = rows.num_rows
        if frontier is not None and not other.ended and not other._beyond.num_rows:
            known = bisect_left(range(rows.num_rows), frontier, key=self._keys_of(rows))
        self._held = rows.slice(known)
        return rows.slice(0, known)

    def _keys_of(self, rows: pa.RecordBatch) -> Callable[[int], _Key]:
        return lambda place: self._key_at(rows, place)

    def _key_at(self, rows: pa.RecordBatch, place: int) -> _Key:
        return tuple(_comparable(rows[name][place]) for name in self._keys)


def _comparable(value: pa.Scalar) -> Any:
    """Return a key's value as something that Python can order; a time as a number, as Python's end in year 9999."""
    return value.value if isinstance(value, pa.TimestampScalar | pa.Date32Scalar) else value.as_py()


def _not_cancelled(before: pa.RecordBatch, after: pa.RecordBatch) -> tuple[_Places, _Places]:
    """Return the places of the rows that are left on each side, in order; one that is left twice is there twice."""
    old, new = before.num_rows, after.num_rows
    if not old or not new:
        return np.arange(old), np.arange(new)
    rows = pa.concat_batches([before, after])
    columns = {f"column {i}": identity(column) for i, column in enumerate(rows.columns)}
    sign = pa.array(np.repeat(np.array([-1, 1]), [old, new]))
    equal = pa.table({**columns, "sign": sign, "place": pa.array(np.arange(old + new))}).group_by(list(columns))
    sums = equal.aggregate([("sign", "sum"), ("place", "min"), ("place", "max")])
    more, first, last = (sums[name].to_numpy() for name in ("sign_sum", "place_min", "place_max"))
    # Of equal rows the first is one of the old ones, if there are any, and the last one of the new ones.
    removed = np.sort(np.repeat(first, np.maximum(-more, 0)))
    return removed, np.sort(np.repeat(last, np.maximum(more, 0))) - old
