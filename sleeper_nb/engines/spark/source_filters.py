"""The filters that Spark passes to its data source ``sleeper``, as tests that choose leaves and files. Pure."""

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

from sleeper_nb.read import reach
from sleeper_nb.read.reach import ANY_ROW, AllOf, Compared, OneOf, Sign, Test, begins_with

_SIGNS: Final[Mapping[type[Filter], Sign]] = {
    EqualTo: "=", EqualNullSafe: "=", LessThan: "<", LessThanOrEqual: "<=", GreaterThan: ">", GreaterThanOrEqual: ">=",
}  # fmt: skip

_FIRST_CERTAIN: Final = datetime(1900, 1, 2, tzinfo=UTC)
"""Spark passes dates and timestamps through a calendar of Java that has other days before 1582, and other zones before
1900: an earlier value may be another one by then."""


def necessary_of(filters: Sequence[Filter]) -> Test:
    """Return what each row that meets all filters meets at least; a filter that says nothing certain is left out.

    Spark applies every filter again, by its own rules.
    """
    return AllOf(tuple(map(_test, filters)))


def _test(each: Filter) -> Test:
    attribute: tuple[str, ...] = getattr(each, "attribute", ())
    if len(attribute) != 1:  # a part of a nested column
        return ANY_ROW
    column, value = attribute[0], getattr(each, "value", None)
    if isinstance(each, IsNull):
        return reach.IsNull(column)
    if isinstance(each, In):
        values = tuple(one for one in each.value if one is not None)
        return OneOf(column, values) if all(map(_is_certain, values)) else ANY_ROW
    if isinstance(each, StringStartsWith):
        return begins_with(column, each.value)
    sign = _SIGNS.get(type(each))
    return ANY_ROW if sign is None or value is None or not _is_certain(value) else Compared(column, sign, value)


def _is_certain(value: Any) -> bool:
    if isinstance(value, datetime):
        return value.tzinfo is not None and value >= _FIRST_CERTAIN
    return not isinstance(value, date) or value >= _FIRST_CERTAIN.date()
