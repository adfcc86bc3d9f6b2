"""Estimate the partitions of a new table from a sample of its row keys, so that each leaf gets about as many rows.

Sleeper's ``estimateSplitPoints`` takes quantiles of the first row key. Here a key that occurs so often that no value of
the first row key divides its rows is divided by the next row key. Pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.keys import KeyValue
from sleeper_nb.model.partitions import PartitionSplit, PartitionTree
from sleeper_nb.model.schema import Schema

MOST_LEAVES = 10_000
"""The most leaves that a new table may be asked to have."""
_EVEN_ENOUGH = Fraction(5, 4)
"""A split is taken at an earlier row key, which most conditions are on, if no leaf gets more than this share."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """A value that divides some keys in two.

    Parameters
    ----------
    dimension, point
        The row key's index and the value; smaller values go left.
    left
        How many of the keys go left.
    leaves
        How many of the leaves go left.
    share
        How many rows each leaf gets on the fuller side, as a multiple of its even share: 1 when both sides are even.
    """

    dimension: int
    point: KeyValue
    left: int
    leaves: int
    share: Fraction


def even_tree(schema: Schema, keys: pa.Table, leaves: int, new_id: Callable[[], str]) -> PartitionTree:
    """Return partitions whose leaves hold about equal shares of some keys.

    `InvalidInput` when the number of leaves is out of range.

    Parameters
    ----------
    keys
        A sample of the row keys, a column for each, in any order.
    leaves
        The number of leaves, from 1 to `MOST_LEAVES`. There are fewer when the keys have too few different values.
    new_id
        As in `PartitionTree.from_split_points`.
    """
    if not 1 <= leaves <= MOST_LEAVES:
        raise InvalidInput(f"a table cannot be created with {leaves:,} leaves", hint=f"give 1 to {MOST_LEAVES:,}")
    tree = PartitionTree.from_split_points(schema, (), new_id)
    used: set[str] = {tree.root.id}
    splits: list[PartitionSplit] = []
    even = Fraction(max(1, keys.num_rows), leaves)
    names = [key.name for key in schema.row_keys]
    waiting = [(tree.root.id, keys.select(names).sort_by(names[0]).combine_chunks(), leaves)]
    while waiting:
        partition_id, part, count = waiting.pop(0)
        cut = _best_cut(part, count, even)
        if cut is None:
            continue
        children = _unused_id(used, new_id), _unused_id(used, new_id)
        splits.append(PartitionSplit(partition_id, cut.dimension, cut.point, children))
        left, right = _sides(part, cut)
        waiting += [(children[0], left, cut.leaves), (children[1], right, count - cut.leaves)]
    return tree.with_splits(splits)


def _sides(keys: pa.Table, cut: _Cut) -> tuple[pa.Table, pa.Table]:
    if cut.dimension == 0:
        return keys.slice(0, cut.left), keys.slice(cut.left)
    column = keys.column(cut.dimension)
    goes_left = pc.less(column, pa.scalar(cut.point, column.type))
    return keys.filter(goes_left).combine_chunks(), keys.filter(pc.invert(goes_left)).combine_chunks()


def _best_cut(keys: pa.Table, leaves: int, even: Fraction) -> _Cut | None:
    """Return the cut at the first row key that divides the keys evenly enough; the most even one when none does.

    The keys are sorted by the first row key.
    """
    best: _Cut | None = None
    if leaves < 2 or keys.num_rows < 2:
        return None
    for dimension in range(keys.num_columns):
        for cut in _cuts(keys.column(dimension), dimension, leaves, even):
            if best is None or cut.share < best.share:
                best = cut
        if best is not None and best.share <= _EVEN_ENOUGH:
            break
    return best


def _cuts(column: pa.ChunkedArray, dimension: int, leaves: int, even: Fraction) -> list[_Cut]:
    rows = len(column)
    column = column if dimension == 0 else column.sort()

    def value(place: int) -> KeyValue:
        return cast("KeyValue", column[place].as_py())

    middle, cuts = value(rows * (leaves // 2) // leaves), []
    for bisect in (bisect_left, bisect_right):
        left = bisect(range(rows), middle, key=value)
        if 0 < left < rows:
            share = min(max(round(leaves * left / rows), 1), leaves - 1)
            worst = max(Fraction(left, share), Fraction(rows - left, leaves - share))
            cuts.append(_Cut(dimension, value(left), left, share, worst / even))
    return cuts


def _unused_id(used: set[str], new_id: Callable[[], str]) -> str:
    """Return a new id of 8 digits, as the ids of other partitions are."""
    while (name := new_id()[:8]) in used:
        pass
    used.add(name)
    return name
