"""The filters that Spark passes to its data source ``sleeper``, as predicates that prune leaves and files. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from sleeper_nb.read.predicate import ALWAYS_TRUE, And, Comparison, ComparisonOperator, IsIn, Predicate, starts_with
from sleeper_nb.read.predicate import IsNull as ColumnIsNull

_OPERATORS: Final[Mapping[type[Filter], ComparisonOperator]] = {
    EqualTo: "=", EqualNullSafe: "=", LessThan: "<", LessThanOrEqual: "<=", GreaterThan: ">", GreaterThanOrEqual: ">=",
}  # fmt: skip

_FIRST_CERTAIN: Final = datetime(1900, 1, 2, tzinfo=UTC)
"""Spark passes dates and timestamps through a calendar of Java that has other days before 1582, and other zones before
1900: an earlier value may be another one by then."""


def predicate_of_filters(filters: Sequence[Filter]) -> Predicate:
    """Return what each row that meets all filters meets at least; an uncertain filter becomes `ALWAYS_TRUE`.

    Spark applies every filter again, by its own rules.
    """
    return And(tuple(map(_predicate, filters)))


def _predicate(each: Filter) -> Predicate:
    attribute: tuple[str, ...] = getattr(each, "attribute", ())
    if len(attribute) != 1:  # a part of a nested column
        return ALWAYS_TRUE
    column, value = attribute[0], getattr(each, "value", None)
    if isinstance(each, IsNull):
        return ColumnIsNull(column)
    if isinstance(each, In):
        values = tuple(one for one in each.value if one is not None)
        return IsIn(column, values) if all(map(_is_certain, values)) else ALWAYS_TRUE
    if isinstance(each, StringStartsWith):
        return starts_with(column, each.value)
    operator = _OPERATORS.get(type(each))
    if operator is None or value is None or not _is_certain(value):
        return ALWAYS_TRUE
    return Comparison(column, operator, value)


def _is_certain(value: Any) -> bool:
    if isinstance(value, datetime):
        return value.tzinfo is not None and value >= _FIRST_CERTAIN
    return not isinstance(value, date) or value >= _FIRST_CERTAIN.date()
