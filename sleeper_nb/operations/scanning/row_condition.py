"""What a scan needs of a user's condition on rows. What the condition means is up to an engine, DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol

import pyarrow as pa

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.keys import check_key, key_after
from sleeper_nb.model.partitions import Range, Region
from sleeper_nb.model.schema import Schema


class KeyComparison(NamedTuple):
    """A column of whole numbers or texts, compared with a value: it means the same to every engine."""

    column: str
    sign: Literal["=", "<", "<=", ">", ">="]
    value: int | str


class RowTest(Protocol):
    """A condition that is ready to be evaluated, as often as a read needs it."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it needs."""

    def met(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield those rows of a stream that meet the condition, in their order, with all their columns.

        Raises
        ------
        InvalidInput
            When the condition cannot be computed for some row.
        """


class Condition(Protocol):
    """A condition that was checked against a schema."""

    @property
    def text(self) -> str:
        """The condition in SQL."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it needs."""

    @property
    def necessary(self) -> tuple[KeyComparison, ...]:
        """Comparisons that hold for every row that meets the condition; what is not understood is none."""

    def elsewhere(self) -> Condition:
        """Return the condition for tasks in other processes."""

    def opened(self) -> AbstractContextManager[RowTest]:
        """Return the condition, ready for one read: throughout the read, functions such as `now()` give one value."""


def regions_of_rows(
    regions: Sequence[Region] | None, comparisons: Iterable[KeyComparison], schema: Schema
) -> Sequence[Region] | None:
    """Return what of some regions can hold rows that comparisons of row keys hold for; None is the whole table."""
    names = [key.name for key in schema.row_keys]
    for each in comparisons:
        if each.column in names and (wanted := _range(each, schema)) is not None:
            here = Region.whole(schema).narrowed(names.index(each.column), wanted)
            before = [Region.whole(schema)] if regions is None else regions
            regions = [both for region in before if (both := region.intersect(here)) is not None]
    return regions


def _range(each: KeyComparison, schema: Schema) -> Range | None:
    """Return the keys that a comparison holds for; None where no range says it."""
    key = next(key for key in schema.row_keys if key.name == each.column)
    try:
        value = check_key(key, each.value)
    except InvalidInput:  # beyond what the key can be
        return None
    after = key_after(key, value)
    if each.sign == ">":
        return None if after is None else Range(after, None)
    low = value if each.sign in {"=", ">="} else None
    high = {"=": after, "<=": after, "<": value}.get(each.sign)
    return Range(low, high)
