"""Each column of a table in two of its versions: one histogram of the same bars for both, NULLs and distinct values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sleeper_nb.model.schema import Field
from sleeper_nb.model.sql_values import quoted_name
from sleeper_nb.progress import Watch
from sleeper_nb.report import values_of
from sleeper_nb.widgets.column_bars import NAMED, ORDERED, TOP_VALUES, Bars, counts_of, ranges_between
from sleeper_nb.widgets.row_grid_query import select
from sleeper_nb.widgets.version_statement import (
    VersionStatement,
    counted_bars,
    least_and_greatest,
    most_frequent,
    type_of,
)

if TYPE_CHECKING:
    from sleeper_nb.table_at import TableAt


@dataclass(frozen=True, slots=True)
class ColumnCounts:
    """One column at one version.

    Parameters
    ----------
    rows, nulls, distinct
        How many rows the version has, in how many of them the column is NULL, and how many different values it has.
        Exact.
    bars
        How many rows each bar of the comparison has.
    """

    rows: int
    nulls: int
    distinct: int
    bars: Sequence[int]


@dataclass(frozen=True, slots=True)
class ColumnCountsDiff:
    """One column at two versions.

    Parameters
    ----------
    column
        As the newer of the two versions has it.
    bars
        What the bars stand for, in both; None for a type without, and where all values are NULL.
    before, after
        The counts; None where the version does not have the column.
    """

    column: Field
    bars: Bars | None
    before: ColumnCounts | None
    after: ColumnCounts | None

    @property
    def is_same(self) -> bool:
        """Whether all counts are equal."""
        return self.before == self.after


class ColumnComparison:
    """Counts the columns of two versions, with DuckDB in this process.

    Parameters
    ----------
    before, after
        The versions, in any order of their commits.
    """

    def __init__(self, before: TableAt, after: TableAt) -> None:
        newer = max(before, after, key=lambda each: each.resolved.snapshot_id)
        self._fields = {each.name: each for each in newer.schema.fields}
        self._sides = tuple(_VersionColumns(each) for each in (before, after))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the newer version."""
        return tuple(self._fields)

    def of(self, names: Iterable[str], watch: Watch) -> tuple[ColumnCountsDiff, ...]:
        """Return some columns; each version is read once to find the bars, and once to count."""
        fields = [self._fields[name] for name in names]
        bars = self._bars(fields, watch)
        before, after = (side.counts(fields, bars, watch) for side in self._sides)
        return tuple(
            ColumnCountsDiff(each, bars.get(each.name), before.get(each.name), after.get(each.name)) for each in fields
        )

    def _bars(self, fields: Sequence[Field], watch: Watch) -> dict[str, Bars]:
        """Return bars that both versions fill: from the least to the greatest value of both, or frequent values."""
        bars = {}
        ends = [side.ends(fields, watch) for side in self._sides]
        tops = [side.tops(fields, watch) for side in self._sides]
        for each in fields:
            if known := [own[each.name] for own in ends if each.name in own]:
                bars[each.name] = ranges_between(each, min(low for low, _ in known), max(high for _, high in known))
            # The most frequent values of each version take turns, so that neither hides those of the other.
            columns = [own.get(each.name, ()) for own in tops]
            longest = max(map(len, columns))
            turns = (own[at] for at in range(longest) for own in columns if at < len(own))
            if values := tuple(dict.fromkeys(turns))[:TOP_VALUES]:
                bars[each.name] = Bars(each, values)
        return bars


class _VersionColumns:
    """One version: which column it has for a column of the newer version."""

    def __init__(self, at: TableAt) -> None:
        self._at = at
        self._own = {each.column: each for each in at.schema.fields}  # files know a column by this name

    def _known(self, fields: Sequence[Field], types: frozenset[str]) -> dict[str, str]:
        """Return the name here of those columns that are of some types, by the name in the newer version."""
        return {
            each.name: own.name
            for each in fields
            if (own := self._own.get(each.column)) is not None and own.type.name in types
        }

    def _asked(self, known: Mapping[str, str]) -> list[Field]:
        own = {each.name: each for each in self._own.values()}
        return [own[name] for name in known.values()]

    def ends(self, fields: Sequence[Field], watch: Watch) -> dict[str, tuple[Any, Any]]:
        known = self._known(fields, ORDERED)
        found = least_and_greatest(self._at, self._asked(known), watch)
        return {name: found[own] for name, own in known.items() if own in found}

    def tops(self, fields: Sequence[Field], watch: Watch) -> dict[str, tuple[Any, ...]]:
        known = self._known(fields, NAMED)
        found = most_frequent(self._at, self._asked(known), watch)
        return {name: found[own].values for name, own in known.items()}

    def counts(self, fields: Sequence[Field], bars: Mapping[str, Bars], watch: Watch) -> dict[str, ColumnCounts]:
        known = [(each, own) for each in fields if (own := self._own.get(each.column)) is not None]
        asked = VersionStatement(self._at, watch)
        parts = ["count(*)"]
        for each, own in known:
            name = quoted_name(own.name)
            values = f"CAST({name} AS {type_of(each)})" if own.type != each.type else name
            counted = counted_bars(bars.get(each.name), asked, values)
            parts += [f"count({name})", f"count(DISTINCT {name})", counted]
        what = ", ".join(f"{part} AS c{number}" for number, part in enumerate(parts))
        answer = asked.read(select(asked.table, what, []))
        rows, *found = (values_of(column)[0] for column in answer.columns)
        triples = zip(found[::3], found[1::3], found[2::3], strict=True)
        return {
            each.name: ColumnCounts(rows, rows - filled, distinct, tuple(counts_of(bars.get(each.name), counted)))
            for (each, _), (filled, distinct, counted) in zip(known, triples, strict=True)
        }
