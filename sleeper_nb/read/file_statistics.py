"""Prune files by the statistics in metadata: bounds of row keys and of some value columns. Pure.

The references of a version have the least and greatest row keys of each file, and the statistics of some value columns
(`sleeper_nb.model.statistics`). Where they do not tell, a file counts as one that can have such a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.model.deletions import DELETION_FILE
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.keys import arrow_value
from sleeper_nb.model.schema import Field
from sleeper_nb.model.state import TableState
from sleeper_nb.model.statistics import MAX, MIN, NULLS, StatisticsValue, columns_in, plain_column, plain_value
from sleeper_nb.read.predicate import And, Comparison, IsNull, Or, Predicate

Mask = Any
"""A truth value for each active reference, as a column of Arrow."""
_MOST_VALUES: Final = 100
"""Of a list; with more, a file is kept if it reaches between the least and the greatest of them."""


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """The least and greatest values of one column in each active reference's file.

    Parameters
    ----------
    least, greatest
        Days or microseconds of dates and timestamps; null when a file has none, or when they are unknown.
    nulls
        The number of nulls, which is null when the statistics are unknown; None for a row key, which has no nulls.
    """

    type: pa.DataType
    least: pa.ChunkedArray
    greatest: pa.ChunkedArray
    nulls: pa.ChunkedArray | None

    def can_match(self, operator: str, value: StatisticsValue) -> Mask:
        """Return for each file whether it can have a value that meets a comparison."""
        wanted = arrow_value(value, self.least.type)
        comparisons: dict[str, Any] = {
            "<": lambda: pc.less(self.least, wanted),
            "<=": lambda: pc.less_equal(self.least, wanted),
            ">": lambda: pc.greater(self.greatest, wanted),
            ">=": lambda: pc.greater_equal(self.greatest, wanted),
            "=": lambda: pc.and_(pc.less_equal(self.least, wanted), pc.greater_equal(self.greatest, wanted)),
        }
        return self._or_unknown(pc.fill_null(comparisons[operator](), fill_value=False))

    def with_nulls(self) -> Mask:
        if self.nulls is None:
            return pc.is_null(self.least)
        return pc.fill_null(pc.greater(self.nulls, arrow_value(0, pa.int32())), fill_value=True)

    def _or_unknown(self, met: Mask) -> Mask:
        return pc.or_(met, pc.is_null(self.least if self.nulls is None else self.nulls))


def column_bounds(state: TableState, names: Iterable[str]) -> dict[str, ColumnBounds]:
    """Return the bounds of those of some columns that metadata knows, by their names in the schema of the version."""
    with_statistics = columns_in(state.files.schema)
    keys = {key.name: key for key in state.schema.row_keys}
    fields = {field.name: field for field in state.schema.fields}
    found = {}
    for name in names:
        if name in keys:
            active = state.files.active
            low, high = (plain_column(active[f"{end}_{name}"]) for end in ("min", "max"))
            found[name] = ColumnBounds(keys[name].type.arrow, low, high, None)
        elif name in fields and (column := fields[name].column) in with_statistics:
            active = state.files.active
            low, high = (plain_column(active[f"{prefix}{column}"]) for prefix in (MIN, MAX))
            found[name] = ColumnBounds(with_statistics[column], low, high, active[f"{NULLS}{column}"])
    return found


def columns_of(predicate: Predicate) -> frozenset[str]:
    if isinstance(predicate, And | Or):
        return frozenset[str]().union(*map(columns_of, predicate.parts))
    return frozenset({predicate.column})


def value_columns_used(predicate: Predicate, state: TableState) -> tuple[str, ...]:
    """Return the value columns of a predicate whose statistics a version has, in the order of its schema."""
    keys = {key.name for key in state.schema.row_keys}
    known = value_columns_with_statistics(state) & columns_of(predicate)
    return tuple(name for name in state.schema.names if name in known - keys)


def value_columns_with_statistics(state: TableState) -> frozenset[str]:
    known = columns_in(state.files.schema)
    return frozenset(each.name for each in state.schema.fields if each.column in known)


def prune_files(predicate: Predicate, state: TableState) -> TableState:
    """Return a version without the files whose statistics say that no row in them meets a predicate."""
    bounds = column_bounds(state, columns_of(predicate))
    if bounds.keys() <= {key.name for key in state.schema.row_keys}:
        return state  # regions of row keys prune as much
    can_have = _mask(predicate, bounds)
    if can_have is None or pc.all(can_have, min_count=0).as_py():
        return state
    return replace(state, files=FileReferences.of(state.files.active.filter(can_have)))


def _mask(predicate: Predicate, bounds: Mapping[str, ColumnBounds]) -> Mask | None:
    """Return for each file whether it can have a row that meets a predicate; None for all files."""
    if isinstance(predicate, And):
        known = [mask for part in predicate.parts if (mask := _mask(part, bounds)) is not None]
        return reduce(pc.and_, known) if known else None
    if isinstance(predicate, Or):
        masks = [_mask(part, bounds) for part in predicate.parts]
        known = [mask for mask in masks if mask is not None]
        return reduce(pc.or_, known) if known and len(known) == len(masks) else None
    column = bounds.get(predicate.column)
    if column is None:
        return None
    if isinstance(predicate, IsNull):
        return column.with_nulls()
    if isinstance(predicate, Comparison):
        value = plain_value(predicate.value, column.type)
        return None if value is None else column.can_match(predicate.operator, value)
    return _can_match_any(column, [plain_value(value, column.type) for value in predicate.values])


def _can_match_any(column: ColumnBounds, values: Sequence[StatisticsValue | None]) -> Mask | None:
    known: list[Any] = [value for value in values if value is not None]
    if len(known) < len(values) or not known:
        return None
    if len(known) > _MOST_VALUES:
        return pc.and_(column.can_match(">=", min(known)), column.can_match("<=", max(known)))
    return reduce(pc.or_, (column.can_match("=", value) for value in known))


@dataclass(frozen=True, slots=True)
class ExactBounds:
    """The least and greatest value of a column in all rows of a version, and its nulls; None where all are null."""

    least: StatisticsValue | None
    greatest: StatisticsValue | None
    nulls: int


def exact_bounds(state: TableState, field: Field) -> ExactBounds | None:
    """Return the bounds of a column, if the statistics of each file are known and all rows of each file count.

    The bounds of a file whose rows were deleted may be those of a deleted row.
    """
    active = state.files.active
    bounds = column_bounds(state, [field.name]).get(field.name)
    if bounds is None or bounds.type != field.type.arrow:
        return None
    are_whole = pc.all(active["only_this_partition"], min_count=0).as_py()
    if not are_whole or active[DELETION_FILE].null_count < active.num_rows:
        return None
    unknown = bounds.least.null_count if bounds.nulls is None else bounds.nulls.null_count
    if unknown:
        return None
    nulls = 0 if bounds.nulls is None else pc.sum(bounds.nulls, min_count=0).as_py()
    return ExactBounds(pc.min(bounds.least).as_py(), pc.max(bounds.greatest).as_py(), nulls)
