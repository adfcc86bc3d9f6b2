"""Find the row of each key whose values win: that with the greatest or least value of a sequence column.

Rows of an equal sequence are compared by the values that they would give, so that the same row wins in whatever order
rows come and are combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.model.aggregations import FIRST, LAST_NOT_NULL, Aggregation
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.read.value_order import Ranks, ranks

_Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Winners:
    """Which rows win, and the fields that take their values.

    Parameters
    ----------
    fields
        Names of value fields.
    rows
        The index of a row for each key; -1 where no row of the key has a value.
    is_null
        Whether the values of each key are null, because no row has one or a delete is the last to say something.
    """

    fields: tuple[str, ...]
    rows: Ranks
    is_null: _Mask

    def values(self, rows: pa.RecordBatch, field: str) -> pa.Array:
        return rows[field].take(pa.array(self.rows, mask=self.is_null))


def winners(rows: pa.RecordBatch, starts: Ranks, processing: DataProcessing) -> list[Winners]:
    """Return the winners for all aggregations by a sequence that some rows have the fields of.

    Parameters
    ----------
    rows
        Rows with each key's together.
    """
    found: dict[tuple[str, ...], Winners] = {}
    for each in processing.aggregations:
        if not each.sequence or each.field not in rows.schema.names:
            continue
        fields = tuple(name for name in processing.chosen_together(each) if name in rows.schema.names)
        if fields not in found:
            won = _winning(rows, starts, each, fields, processing.delete_column)
            is_null = won < 0
            if each.operation == LAST_NOT_NULL and processing.delete_column:
                is_null = is_null | is_true(rows[processing.delete_column].take(pa.array(won, mask=is_null)))
            found[fields] = Winners(fields, won, is_null)
    return list(found.values())


def deleted(rows: pa.RecordBatch, starts: Ranks, processing: DataProcessing) -> _Mask:
    mark = processing.delete_column
    (rule,) = (each for each in processing.aggregations if each.field == mark)
    last = _winning(rows, starts, rule, (mark,), mark)
    return is_true(rows[mark].take(pa.array(last)))


def is_true(values: pa.Array) -> _Mask:
    mask: _Mask = pc.fill_null(values, False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - a value
    return mask


def _winning(rows: pa.RecordBatch, starts: Ranks, rule: Aggregation, fields: Sequence[str], mark: str) -> Ranks:
    """Return the index of the row that wins in each run, -1 for none."""
    runs = np.repeat(np.arange(len(starts)), np.diff(starts, append=rows.num_rows))
    left = np.arange(rows.num_rows)
    if rule.operation == LAST_NOT_NULL:
        has_value = rows[rule.field].is_valid().to_numpy(zero_copy_only=False)
        left = np.flatnonzero(has_value | is_true(rows[mark]) if mark else has_value)
        fields = (*([mark] if mark and mark != rule.field else []), rule.field)
    for name in (rule.sequence, *fields):
        left = _greatest(rows[name], left, runs, is_least=name == rule.sequence and rule.operation == FIRST)
    found = np.full(len(starts), -1)
    found[runs[left]] = left
    return found


def _greatest(values: pa.Array, left: Ranks, runs: Ranks, *, is_least: bool) -> Ranks:
    """Return the indices, of some that are left, whose values are the greatest of their run, or the least."""
    firsts = np.flatnonzero(np.diff(runs[left], prepend=-1))
    if len(firsts) == len(left):
        return left  # one row of each run
    order = ranks(values.take(pa.array(left)))
    if is_least:
        order = np.where(order > 0, order.max(initial=0) + 1 - order, 0)  # a null still loses
    best = np.maximum.reduceat(order, firsts)
    tied: Ranks = left[order == np.repeat(best, np.diff(firsts, append=len(left)))]
    return tied
