"""Predicates and conditions on the rows of a table, and which parts of the table they prune. Pure.

An engine pushes down a `Predicate` that each row of an answer must meet. A part of a statement that it does not
understand becomes `ALWAYS_TRUE`. `inclusive_projection` projects a predicate onto the row keys: rows outside of these
regions need not be read. The engine applies the whole condition to the rows that are read, so a region may be too
large, but never too small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from typing import Any, Final, Literal, Protocol

import pyarrow as pa

from sleeper_nb.model.keys import compared_key, key_after
from sleeper_nb.model.partitions import Range, Region
from sleeper_nb.model.schema import Field, Schema

ComparisonOperator = Literal["=", "<", "<=", ">", ">="]
MOST_REGIONS = 1_000
"""More regions than this are merged into larger ones."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column is compared with a value; a null meets no comparison."""

    column: str
    operator: ComparisonOperator
    value: Any


@dataclass(frozen=True, slots=True)
class IsIn:
    """A column has one of some values."""

    column: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column is null."""

    column: str


@dataclass(frozen=True, slots=True)
class And:
    """All parts are met; without parts, any row meets it."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of the parts is met; without parts, no row meets it."""

    parts: tuple[Predicate, ...]


Predicate = Comparison | IsIn | IsNull | And | Or
ALWAYS_TRUE = And(())
ALWAYS_FALSE = Or(())

_SWAPPED: Final[Mapping[ComparisonOperator, ComparisonOperator]] = {
    "=": "=",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}


def swapped(operator: ComparisonOperator) -> ComparisonOperator:
    return _SWAPPED[operator]


UNKNOWN: Final = object()
"""The value of an expression that is not known to be a constant."""


def comparison_of(
    operator: ComparisonOperator, left: tuple[str | None, Any], right: tuple[str | None, Any]
) -> Predicate:
    """Return the predicate that compares a column, on either side, with a value; `ALWAYS_TRUE` of another comparison.

    Each side is the name of a column, None of any other expression, and its value, `UNKNOWN` of no constant.
    """
    for (column, _), (_, value), as_read in ((left, right, operator), (right, left, swapped(operator))):
        if column is not None and value is not UNKNOWN:
            return Comparison(column, as_read, value)
    return ALWAYS_TRUE


def starts_with(column: str, prefix: str) -> Predicate:
    """Return the predicate that a text column begins with a text."""
    parts: list[Predicate] = [Comparison(column, ">=", prefix)]
    end = prefix.rstrip(chr(0x10FFFF))
    if end:
        after = ord(end[-1]) + 1
        last = chr(0xE000 if after == 0xD800 else after)  # the codes in between are no characters
        parts.append(Comparison(column, "<", end[:-1] + last))
    return And(tuple(parts))


Regions = tuple[Region, ...]
"""Parts of a table, which may overlap; none at all is no row."""


@dataclass(frozen=True, slots=True)
class Pruning:
    """What a scan prunes: the partitions and files that have no row which is wanted.

    Parameters
    ----------
    regions
        Rows outside of them are pruned; None for the whole table.
    predicate
        What each wanted row meets: files whose statistics exclude it are pruned.
    """

    regions: Regions | None = None
    predicate: Predicate = ALWAYS_TRUE

    @classmethod
    def of(cls, predicate: Predicate, schema: Schema) -> Pruning:
        return cls(inclusive_projection(predicate, schema), predicate)


NO_PRUNING = Pruning()
PRUNE_ALL = Pruning((), ALWAYS_FALSE)


def inclusive_projection(predicate: Predicate, schema: Schema) -> Regions | None:
    """Project a predicate onto the row keys: regions that have every row which meets it; None for the whole table.

    They do not overlap unless the predicate has alternatives (`Or`).
    """
    if isinstance(predicate, And):
        return reduce(_both, (inclusive_projection(part, schema) for part in predicate.parts), None)
    if isinstance(predicate, Or):
        return _any(inclusive_projection(part, schema) for part in predicate.parts)
    at = next((i for i, key in enumerate(schema.row_keys) if key.name == predicate.column), None)
    if at is None:
        return None
    ranges = _ranges(predicate, schema.row_keys[at])
    return None if ranges is None else tuple(Region.whole(schema).narrowed(at, each) for each in ranges)


def prune_regions(regions: Sequence[Region] | None, predicate: Predicate, schema: Schema) -> Sequence[Region] | None:
    """Prune the parts of some regions in which no row can meet a predicate; None is the whole table.

    Regions that do not overlap give regions that do not overlap.
    """
    met = inclusive_projection(predicate, schema)
    if met is not None and len(met) > 1:  # those of alternatives may overlap
        met = _both(inclusive_projection(_without_alternatives(predicate), schema), (hull_of(met),))
    if regions is None or met is None:
        return met if regions is None else regions
    return [part for region in regions for each in met if (part := region.intersect(each)) is not None]


def _without_alternatives(predicate: Predicate) -> Predicate:
    """Return what every row meets that meets a predicate; a plan has an `Or` of one part for a table read once."""
    if isinstance(predicate, Or):
        return _without_alternatives(predicate.parts[0]) if len(predicate.parts) == 1 else ALWAYS_TRUE
    return And(tuple(map(_without_alternatives, predicate.parts))) if isinstance(predicate, And) else predicate


def comparisons_in(predicate: Predicate) -> Iterator[Comparison | IsIn]:
    """Yield comparisons of columns with whole numbers and texts, each of which every row meets that meets a predicate.

    They mean the same to every engine, and to every reader of Parquet.
    """
    if isinstance(predicate, And):
        for part in predicate.parts:
            yield from comparisons_in(part)
    elif isinstance(predicate, Comparison | IsIn):
        values = predicate.values if isinstance(predicate, IsIn) else (predicate.value,)
        if all(isinstance(value, int | str) for value in values):
            yield predicate


@dataclass(frozen=True, slots=True)
class PushedPredicates:
    """The predicates that an engine pushes down to the tables of a statement.

    Parameters
    ----------
    predicates
        What the rows of each table must meet at least, by its name. Rows of a table that is not in it can be any.
    why_unknown
        Why nothing is known, for users; empty when the predicates are known.
    by_keys
        Which keys of other tables limit those of a table, for users.
    """

    predicates: Mapping[str, Predicate]
    why_unknown: str = ""
    by_keys: Mapping[str, str] = field(default_factory=dict)

    def and_keys(self, predicates: Mapping[str, Predicate], by_keys: Mapping[str, str]) -> PushedPredicates:
        """Return it with the predicates of joined keys for some of the tables that it knows."""
        both = {
            name: And((predicate, predicates[name])) if name in predicates else predicate
            for name, predicate in self.predicates.items()
        }
        return replace(self, predicates=both, by_keys={**self.by_keys, **by_keys})


_MOST_SHOWN = 3


def regions_text(regions: Regions | None, schema: Schema) -> str:
    """Return the keys that are read, in readable form: ``k [5, 6); k [9, 10)``."""
    if regions is None:
        return "every key: no condition limits the row keys"
    if not regions:
        return "no key: no row meets the conditions"
    more = len(regions) - _MOST_SHOWN
    shown = "; ".join(region.text(schema) for region in regions[:_MOST_SHOWN])
    return f"{shown}; and {more:,} more" if more > 0 else shown


def _both(left: Regions | None, right: Regions | None) -> Regions | None:
    if left is None or right is None:
        return right if left is None else left
    if len(left) * len(right) > MOST_REGIONS:  # each of the two holds all wanted rows
        return min(left, right, key=len)
    parts = (one.intersect(other) for one, other in product(left, right))
    return tuple(part for part in parts if part is not None)


def _any(found: Iterable[Regions | None]) -> Regions | None:
    regions: list[Region] = []
    for each in found:
        if each is None:
            return None
        regions += each
    return tuple(regions) if len(regions) <= MOST_REGIONS else (hull_of(regions),)


def hull_of(regions: Sequence[Region]) -> Region:
    return Region(tuple(map(Range.hull, zip(*(region.ranges for region in regions), strict=True))))


def _ranges(predicate: Comparison | IsIn | IsNull, key: Field) -> list[Range] | None:
    """Return the ranges of a row key in which a predicate can be met, each once; None for all keys."""
    if isinstance(predicate, IsNull):
        return []  # a row key is never null
    if isinstance(predicate, Comparison):
        return _compared(predicate.operator, predicate.value, key)
    found: dict[Range, None] = {}
    for value in predicate.values:
        exactly = _compared("=", value, key)
        if exactly is None:
            return None
        found |= dict.fromkeys(exactly)
    return list(found) if len(found) <= MOST_REGIONS else [Range.hull(list(found))]


def _compared(operator: ComparisonOperator, value: Any, key: Field) -> list[Range] | None:
    checked = compared_key(key, value)
    if checked is None:  # the value is of another type, or beyond what the key's type can hold
        return None
    after = key_after(key, checked)
    if operator == ">":
        return [] if after is None else [Range(after, None)]
    low = checked if operator in {"=", ">="} else None
    return [Range(low, {"=": after, "<=": after, "<": checked}.get(operator))]


# The interface of a user's condition on rows, as scans use it; the DuckDB engine implements and evaluates it.
#
# `Condition.predicate` prunes partitions and files, and `RowFilter` filters the rows that are read.


class RowFilter(Protocol):
    """A condition that is open for evaluation during one read."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the condition refers to."""

    def filter(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a stream that meet the condition, in order and with all their columns.

        `InvalidInput` when the condition cannot be evaluated for some row.
        """


class Condition(Protocol):
    """A condition that has been checked against a schema."""

    @property
    def text(self) -> str:
        """The condition in SQL."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the condition refers to."""

    @property
    def predicate(self) -> Predicate:
        """What a row must meet at least, also where alternatives, lists and beginnings of texts say so."""

    def picklable(self) -> Condition:
        """Return the condition in a form that can be sent to tasks in other processes."""

    def opened(self) -> AbstractContextManager[RowFilter]:
        """Open the condition for one read; during the read, functions such as ``now()`` return one value."""
