"""The keys of rows that come batch by batch: whether they are in order, and their least and greatest values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.model.schema import Schema


class SortedKeys:
    """What the batches of a data file, seen one behind the other, turn out to hold.

    Parameters
    ----------
    schema
        The table's schema. Batches must have its row keys and sort keys, with their types.

    Attributes
    ----------
    rows
        How many were seen.
    in_order
        Whether they are sorted by row keys, then sort keys, across batches too.
    least, greatest
        Of each row key; None before the first row, or where every value is null.
    """

    def __init__(self, schema: Schema) -> None:
        self._names, self._row_keys = schema.sort_order, [key.name for key in schema.row_keys]
        self._last: pa.Table | None = None
        self.rows, self.in_order = 0, True
        self.least: list[Any] = [None] * len(self._row_keys)
        self.greatest: list[Any] = [None] * len(self._row_keys)

    def see(self, table: pa.Table) -> None:
        """Look at the next batch."""
        if not table.num_rows:
            return
        keys = table.select(self._names)
        first = keys.slice(0, 1)
        follows = self._last is None or is_sorted(pa.concat_tables([self._last, first]))
        self.in_order = self.in_order and follows and is_sorted(keys)
        self._last = keys.slice(keys.num_rows - 1)
        self.rows += table.num_rows
        for i, name in enumerate(self._row_keys):
            low, high = self._ends(table[name], sorted_by_it=self.in_order and i == 0)
            self.least[i] = min((v for v in (self.least[i], low) if v is not None), default=None)
            self.greatest[i] = max((v for v in (self.greatest[i], high) if v is not None), default=None)

    @staticmethod
    def _ends(values: pa.ChunkedArray, *, sorted_by_it: bool) -> tuple[Any, Any]:
        """Return the least and the greatest value: of sorted ones the first and the last."""
        if sorted_by_it and not values.null_count:
            return values[0].as_py(), values[-1].as_py()
        ends = pc.min_max(values).as_py()
        return ends["min"], ends["max"]


def is_sorted(keys: pa.Table) -> bool:
    """Return whether the rows are in ascending order of the columns, first column first."""
    if keys.num_rows < 2:
        return True
    before = [column.slice(0, keys.num_rows - 1) for column in keys.columns]
    after = [column.slice(1) for column in keys.columns]
    while before:
        if not pc.all(pc.less_equal(before[0], after[0])).as_py():
            return False
        # Only of rows that are equal so far do the columns behind decide, and mostly there are few of them.
        equal = pc.equal(before[0], after[0]) if len(before) > 1 else None
        if equal is None or not pc.any(equal).as_py():
            return True
        before, after = ([column.filter(equal) for column in columns[1:]] for columns in (before, after))
    return True


def run_starts(rows: pa.RecordBatch, names: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return where, in sorted rows without nulls, another value of the columns begins; 0 is the first."""
    if not rows.num_rows:
        return np.zeros(0, np.int64)
    differs = reduce(pc.or_, (pc.not_equal(rows[name][1:], rows[name][:-1]) for name in names))
    return np.concatenate(([0], np.flatnonzero(differs.to_numpy(zero_copy_only=False)) + 1))
