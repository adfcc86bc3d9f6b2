"""The interface of a user's condition on rows, as scans use it; the DuckDB engine implements and evaluates it.

A scan uses a condition three times: `regions_of_rows` narrows the regions by the comparisons of row keys that every
matching row must meet, `Condition.reach` leaves out more partitions and files, and `RowTest` then filters the rows that
are read by the whole condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol

import pyarrow as pa

from sleeper_nb.model.keys import compared_key, key_after
from sleeper_nb.model.partitions import Range, Region
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations.scanning.reach import Test


class KeyComparison(NamedTuple):
    """A comparison of an integer or text column with a value; it means the same to every engine."""

    column: str
    sign: Literal["=", "<", "<=", ">", ">="]
    value: int | str


class RowTest(Protocol):
    """A condition that is open for evaluation during one read."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the condition refers to."""

    def matching(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a stream that meet the condition, in order and with all their columns.

        Raises
        ------
        InvalidInput
            When the condition cannot be evaluated for some row.
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
    def necessary(self) -> tuple[KeyComparison, ...]:
        """Comparisons that hold for every row that meets the condition; parts of it that are not such are omitted."""

    @property
    def reach(self) -> Test:
        """What a row must meet at least, also where alternatives, lists and beginnings of texts say so."""

    def picklable(self) -> Condition:
        """Return the condition in a form that can be sent to tasks in other processes."""

    def opened(self) -> AbstractContextManager[RowTest]:
        """Open the condition for one read; during the read, functions such as ``now()`` return one value."""


def regions_of_rows(
    regions: Sequence[Region] | None, comparisons: Iterable[KeyComparison], schema: Schema
) -> Sequence[Region] | None:
    """Return the parts of some regions in which rows can meet comparisons of row keys; None is the whole table."""
    names = [key.name for key in schema.row_keys]
    for each in comparisons:
        if each.column not in names:
            continue
        wanted = _matching_range(each, schema)
        if wanted is None:
            continue
        wanted_region = Region.whole(schema).narrowed(names.index(each.column), wanted)
        if regions is None:
            regions = [wanted_region]
        else:
            parts = [region.intersect(wanted_region) for region in regions]
            regions = [part for part in parts if part is not None]
    return regions


def _matching_range(each: KeyComparison, schema: Schema) -> Range | None:
    """Return the keys for which a comparison holds; None if they are not a range."""
    key = next(key for key in schema.row_keys if key.name == each.column)
    value = compared_key(key, each.value)
    if value is None:  # it is beyond what the key's type can hold
        return None
    next_value = key_after(key, value)
    if each.sign == ">":
        return None if next_value is None else Range(next_value, None)
    low = value if each.sign in {"=", ">="} else None
    high = {"=": next_value, "<=": next_value, "<": value}.get(each.sign)
    return Range(low, high)
