"""Which parts of a table can have rows that meet a test. Pure.

An engine says which tests each row of an answer must meet (`Test`); a part of a statement that is not understood is
left out, as `ANY_ROW`. `regions_met` turns a test into regions of row keys: rows outside of them need not be read. The
engine applies the whole condition to the rows that are read, so a region may be too large, but never too small.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from typing import Any, Final, Literal

from sleeper_nb.model.keys import compared_key, key_after
from sleeper_nb.model.partitions import Range, Region
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.sql_quotes import quoted_text

Sign = Literal["=", "<", "<=", ">", ">="]
MOST_REGIONS = 1_000
"""More regions than this are merged into larger ones."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A column is compared with a value; a null meets no comparison."""

    column: str
    sign: Sign
    value: Any


@dataclass(frozen=True, slots=True)
class OneOf:
    """A column has one of some values."""

    column: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column is null."""

    column: str


@dataclass(frozen=True, slots=True)
class AllOf:
    """All parts are met; without parts, any row meets it."""

    parts: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One of the parts is met; without parts, no row meets it."""

    parts: tuple[Test, ...]


Test = Compared | OneOf | IsNull | AllOf | AnyOf
Comparison = Compared | OneOf
"""A test of one column with constants."""
ANY_ROW = AllOf(())
NO_ROW = AnyOf(())

_SWAPPED: Final[Mapping[Sign, Sign]] = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def swapped(sign: Sign) -> Sign:
    """Return the sign of a comparison whose sides are swapped."""
    return _SWAPPED[sign]


UNKNOWN: Final = object()
"""The value of an expression that is not known to be a constant."""


def comparison(sign: Sign, left: tuple[str | None, Any], right: tuple[str | None, Any]) -> Test:
    """Return the test of a comparison of a column with a value, on either side; `ANY_ROW` of any other comparison.

    Each side is the name of a column, None of any other expression, and its value, `UNKNOWN` of no constant.
    """
    for (column, _), (_, value), as_read in ((left, right, sign), (right, left, swapped(sign))):
        if column is not None and value is not UNKNOWN:
            return Compared(column, as_read, value)
    return ANY_ROW


@dataclass(frozen=True, slots=True)
class ShiftedColumn:
    """A column plus an offset, in whole numbers of some bits, which wrap; the offset minus it with `is_negated`."""

    column: str
    offset: int
    is_negated: bool
    bits: int

    def compared(self, sign: Sign, value: int) -> Test:
        """Return what a row must meet for the shifted number to compare so with a value.

        That is a comparison of the column; or the sum wraps to the side that the sign accepts.
        """
        least, greatest = -(1 << self.bits - 1), (1 << self.bits - 1) - 1
        bound = self.offset - value if self.is_negated else value - self.offset
        if not least <= bound <= greatest:
            return ANY_ROW
        parts: list[Test] = [Compared(self.column, swapped(sign) if self.is_negated else sign, bound)]
        too_large = self.offset >= 0 if self.is_negated else self.offset > 0
        if too_large and sign in {"<", "<="}:  # sums above the greatest number wrap to the least ones
            at = self.offset - greatest if self.is_negated else greatest - self.offset
            parts.append(Compared(self.column, "<" if self.is_negated else ">", at))
        too_small = self.offset < -1 if self.is_negated else self.offset < 0
        if too_small and sign in {">", ">="}:
            at = self.offset - least if self.is_negated else least - self.offset
            parts.append(Compared(self.column, ">" if self.is_negated else "<", at))
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))


def begins_with(column: str, prefix: str) -> Test:
    """Return the test that a text column begins with a text."""
    parts: list[Test] = [Compared(column, ">=", prefix)]
    end = prefix.rstrip(chr(0x10FFFF))
    if end:
        after = ord(end[-1]) + 1
        last = chr(0xE000 if after == 0xD800 else after)  # the codes in between are no characters
        parts.append(Compared(column, "<", end[:-1] + last))
    return AllOf(tuple(parts))


Regions = tuple[Region, ...]
"""Parts of a table, which may overlap; none at all is no row."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Which part of a table can have the rows that are wanted.

    Parameters
    ----------
    regions
        Rows outside of them are not wanted; None for the whole table.
    test
        What each wanted row meets: files whose statistics exclude it are not read.
    """

    regions: Regions | None = None
    test: Test = ANY_ROW

    @classmethod
    def of(cls, test: Test, schema: Schema) -> Reach:
        """Return the part that has every row which meets a test."""
        return cls(regions_met(test, schema), test)


WHOLE = Reach()
NOWHERE = Reach((), NO_ROW)


def regions_met(test: Test, schema: Schema) -> Regions | None:
    """Return the regions that have every row which meets a test; None for the whole table.

    They do not overlap unless the test has alternatives (`AnyOf`).
    """
    if isinstance(test, AllOf):
        return reduce(_both, (regions_met(part, schema) for part in test.parts), None)
    if isinstance(test, AnyOf):
        return _any(regions_met(part, schema) for part in test.parts)
    at = next((i for i, key in enumerate(schema.row_keys) if key.name == test.column), None)
    if at is None:
        return None
    ranges = _ranges(test, schema.row_keys[at])
    return None if ranges is None else tuple(Region.whole(schema).narrowed(at, each) for each in ranges)


def parts_met(
    regions: Sequence[Region] | None, comparisons: Iterable[Comparison], schema: Schema
) -> Sequence[Region] | None:
    """Return the parts of some regions in which rows can meet all comparisons; None is the whole table."""
    met = regions_met(AllOf(tuple(comparisons)), schema)  # they do not overlap
    if regions is None or met is None:
        return met if regions is None else regions
    return [part for region in regions for each in met if (part := region.intersect(each)) is not None]


def are_the_regions(comparisons: Sequence[Comparison], schema: Schema) -> bool:
    """Return whether the rows that meet all comparisons are exactly those of the regions that they are met in.

    They are when each comparison is of a row key, with values of its type, and there is at most one list of values,
    not too long: no regions are merged then.
    """
    keys = {key.name: key for key in schema.row_keys}
    lists = [each.values for each in comparisons if isinstance(each, OneOf)]
    if len(lists) > 1 or any(len(values) > MOST_REGIONS for values in lists):
        return False
    return all(
        each.column in keys and all(compared_key(keys[each.column], value) is not None for value in _values(each))
        for each in comparisons
    )


def _values(each: Comparison) -> tuple[Any, ...]:
    return each.values if isinstance(each, OneOf) else (each.value,)


@dataclass(frozen=True, slots=True)
class PlannedCondition:
    """A condition on the rows of a table, as an engine's plan has it.

    Parameters
    ----------
    text
        For users; empty when the test says all of it.
    test
        What was understood of it.
    is_join
        Whether it is tested after the rows were read, such as that of a join.
    """

    text: str
    test: Test
    is_join: bool = False

    def __str__(self) -> str:
        return self.text or condition_text(self.test)


def condition_text(test: Test) -> str:
    """Return a test as a condition of SQL, for users."""
    if isinstance(test, AllOf | AnyOf):
        word = " AND " if isinstance(test, AllOf) else " OR "
        return word.join(f"({text})" if " OR " in text else text for text in map(condition_text, test.parts))
    if isinstance(test, IsNull):
        return f"{test.column} IS NULL"
    if isinstance(test, Compared):
        return f"{test.column} {test.sign} {_constant(test.value)}"
    more = ", …" if len(test.values) > _MOST_SHOWN else ""
    return f"{test.column} IN ({', '.join(map(_constant, test.values[:_MOST_SHOWN]))}{more})"


def _constant(value: Any) -> str:
    return f"{value}" if isinstance(value, int) else quoted_text(f"{value}")


def leaves_something_out(test: Test, columns: Container[str], schema: Schema) -> bool:
    """Return whether a test excludes any row by row keys, or by columns with statistics, whatever the files have."""
    if isinstance(test, AllOf):
        return any(leaves_something_out(part, columns, schema) for part in test.parts)
    if isinstance(test, AnyOf):
        return all(leaves_something_out(part, columns, schema) for part in test.parts)
    return test.column in columns or regions_met(test, schema) is not None


@dataclass(frozen=True, slots=True)
class Necessary:
    """What the rows of some tables must meet at least, by the name of each table.

    Parameters
    ----------
    tests
        A table that is left out can have any row.
    why_unknown
        Why nothing is known, for users; empty when the tests are known.
    by_keys
        Which keys of other tables limit those of a table, for users.
    conditions
        The conditions on the rows of a table that the tests were made of, also those that were not understood.
    """

    tests: Mapping[str, Test]
    why_unknown: str = ""
    by_keys: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, tuple[PlannedCondition, ...]] = field(default_factory=dict)

    def unused(self, name: str, columns: Container[str], schema: Schema, *, joins: bool) -> tuple[str, ...]:
        """Return the conditions on the rows of a table by which no file can be left out, for users.

        Parameters
        ----------
        columns
            The value columns that have statistics.
        joins
            Whether conditions of joins count; they never do where keys of a joined table were read.
        """
        conditions = (
            each for each in self.conditions.get(name, ()) if not each.is_join or (joins and not self.by_keys)
        )
        unused = (str(each) for each in conditions if not leaves_something_out(each.test, columns, schema))
        return tuple(dict.fromkeys(unused))

    def also(self, tests: Mapping[str, Test], by_keys: Mapping[str, str]) -> Necessary:
        """Return it with more tests for some of the tables that it knows."""
        both = {name: AllOf((test, tests[name])) if name in tests else test for name, test in self.tests.items()}
        return replace(self, tests=both, by_keys={**self.by_keys, **by_keys})


_MOST_SHOWN, _LONGEST_SHOWN = 3, 80


def reach_text(regions: Regions | None, schema: Schema) -> str:
    """Return the keys that are read, in readable form: ``k [5, 6); k [9, 10)``."""
    if regions is None:
        return "every key: no condition limits the row keys"
    if not regions:
        return "no key: no row meets the conditions"
    more = len(regions) - _MOST_SHOWN
    shown = "; ".join(region.text(schema) for region in regions[:_MOST_SHOWN])
    return f"{shown}; and {more:,} more" if more > 0 else shown


def unused_text(conditions: Sequence[str]) -> str:
    """Return the conditions by which no file is left out, in readable form; "" for none."""
    if not conditions:
        return ""
    shown = [text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…" for text in conditions]
    more = f", and {len(shown) - _MOST_SHOWN:,} more" if len(shown) > _MOST_SHOWN else ""
    return f"not used to skip files: {', '.join(shown[:_MOST_SHOWN])}{more}"


def _both(left: Regions | None, right: Regions | None) -> Regions | None:
    if left is None or right is None:
        return right if left is None else left
    if len(left) * len(right) > MOST_REGIONS:  # each of the two is necessary
        return min(left, right, key=len)
    parts = (one.intersect(other) for one, other in product(left, right))
    return tuple(part for part in parts if part is not None)


def _any(found: Iterable[Regions | None]) -> Regions | None:
    regions: list[Region] = []
    for each in found:
        if each is None:
            return None
        regions += each
    return tuple(regions) if len(regions) <= MOST_REGIONS else (around(regions),)


def around(regions: Sequence[Region]) -> Region:
    """Return the smallest region that covers some regions."""
    return Region(tuple(map(Range.hull, zip(*(region.ranges for region in regions), strict=True))))


def _ranges(test: Compared | OneOf | IsNull, key: Field) -> list[Range] | None:
    """Return the ranges of a row key in which a test can be met, each once; None for all keys."""
    if isinstance(test, IsNull):
        return []  # a row key is never null
    if isinstance(test, Compared):
        return _compared(test.sign, test.value, key)
    found: dict[Range, None] = {}
    for value in test.values:
        exactly = _compared("=", value, key)
        if exactly is None:
            return None
        found |= dict.fromkeys(exactly)
    return list(found) if len(found) <= MOST_REGIONS else [Range.hull(list(found))]


def _compared(sign: Sign, value: Any, key: Field) -> list[Range] | None:
    checked = compared_key(key, value)
    if checked is None:  # the value is of another type, or beyond what the key's type can hold
        return None
    after = key_after(key, checked)
    if sign == ">":
        return [] if after is None else [Range(after, None)]
    low = checked if sign in {"=", ">="} else None
    return [Range(low, {"=": after, "<=": after, "<": checked}.get(sign))]
