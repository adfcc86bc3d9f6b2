"""Each column of a table in two of its versions: one histogram of the same bars for both, NULLs and distinct values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sleeper_nb.model.schema import Field
from sleeper_nb.model.sql_values import quoted_name
from sleeper_nb.progress import Watch
from sleeper_nb.widgets.column_bars import NAMED, ORDERED, TOP_VALUES, Bars, ColumnSummary, counts_of, ranges_between
from sleeper_nb.widgets.version_statement import (
    VersionStatement,
    counted_bars,
    counted_columns,
    least_and_greatest,
    most_frequent,
    type_of,
)

if TYPE_CHECKING:
    from sleeper_nb.table_at import TableAt


class ComparedColumn(NamedTuple):
    """One column, named as in the newer of two versions, at both; None where the version does not have it."""

    name: str
    before: ColumnSummary | None
    after: ColumnSummary | None


class ColumnComparison:
    """Counts the columns of two versions, in any order of their commits, with DuckDB in this process."""

    def __init__(self, before: TableAt, after: TableAt) -> None:
        newer = max(before, after, key=lambda each: each.resolved.snapshot_id)
        self._fields = {each.name: each for each in newer.schema.fields}
        self._sides = tuple(_VersionColumns(each) for each in (before, after))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the newer version."""
        return tuple(self._fields)

    def of(self, names: Iterable[str], watch: Watch) -> list[ComparedColumn]:
        """Return some columns; each version is read once to find the bars, and once to count."""
        fields = [self._fields[name] for name in names]
        bars = self._bars(fields, watch)
        before, after = (side.counts(fields, bars, watch) for side in self._sides)
        return [ComparedColumn(each.name, before.get(each.name), after.get(each.name)) for each in fields]

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

    def _known(self, fields: Sequence[Field], types: frozenset[str] | None = None) -> list[tuple[Field, Field]]:
        """Return the columns of the newer version that are here, maybe only those of some types; with the one here."""
        pairs = ((each, self._own.get(each.column)) for each in fields)
        return [(each, own) for each, own in pairs if own is not None and (types is None or own.type.name in types)]

    def ends(self, fields: Sequence[Field], watch: Watch) -> dict[str, tuple[Any, Any]]:
        known = self._known(fields, ORDERED)
        found = least_and_greatest(self._at, [own for _, own in known], watch)
        return {each.name: found[own.name] for each, own in known if own.name in found}

    def tops(self, fields: Sequence[Field], watch: Watch) -> dict[str, tuple[Any, ...]]:
        known = self._known(fields, NAMED)
        found = most_frequent(self._at, [own for _, own in known], watch)
        return {each.name: found[own.name].values for each, own in known}

    def counts(self, fields: Sequence[Field], bars: Mapping[str, Bars], watch: Watch) -> dict[str, ColumnSummary]:
        known = self._known(fields)
        asked = VersionStatement(self._at, watch)
        parts = []
        for each, own in known:
            name = quoted_name(own.name)
            values = f"CAST({name} AS {type_of(each)})" if own.type != each.type else name
            counted = counted_bars(bars.get(each.name), asked, values)
            parts.append((f"count({name})", f"count(DISTINCT {name})", counted))
        rows, found = counted_columns(asked, parts)
        summaries = {}
        for (each, _), (filled, distinct, counted) in zip(known, found, strict=True):
            counts = counts_of(bars.get(each.name), counted)
            summaries[each.name] = ColumnSummary(
                each, bars.get(each.name), rows, rows - filled, counts, distinct=distinct, exact=True
            )
        return summaries
