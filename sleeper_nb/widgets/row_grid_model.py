"""The model of the row grid: pages of a version and headers of its columns, each one SELECT. No widget is needed here.

Without an order and filters, metadata tells in which files the rows of a page are (`sleeper_nb.widgets.key_blocks`).
Otherwise the engine finds the places of its rows first, by the columns that order them alone, and reads the other
columns there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from sleeper_nb.display.preview import Reads
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.deletions import FILE_NUMBER, POSITION
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.sql_values import quoted_name
from sleeper_nb.progress import Watch
from sleeper_nb.report import Bytes, values_of
from sleeper_nb.widgets.column_bars import (
    NAMED,
    ORDERED,
    BarCube,
    Bars,
    ColumnSummary,
    counts_of,
    ranges_between,
)
from sleeper_nb.widgets.key_blocks import KeyBlocks
from sleeper_nb.widgets.row_grid_query import NESTED, GridQuery, literal, select
from sleeper_nb.widgets.version_statement import (
    VersionStatement,
    bar_number,
    counted_bars,
    counted_columns,
    least_and_greatest,
    most_frequent,
    rows_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sleeper_nb.model.state import TableState
    from sleeper_nb.public_types import QueryResult
    from sleeper_nb.table_at import TableAt

FIRST_COLUMNS: Final = 24
"""How many columns are fetched before others come into sight."""
MOST_SUMMARIZED: Final = 256 << 20
"""Bytes; of a version with more, the headers read the rows only when they are told to."""
MOST_FILES: Final = 1_000
"""Files; the same."""
_PLACES: Final = (quoted_name(FILE_NUMBER), quoted_name(POSITION))
_SMALL: Final = 100_000
"""Rows that are sorted whole in less time than it takes to find their places first."""
_MANY: Final = 100_000
"""In so many rows and more, different values are estimated where they are not known."""
_MOST_TIES: Final = 16
"""Of rows without places, so many columns decide the order of rows with the same keys."""


@dataclass(frozen=True, slots=True)
class GridPage:
    """Some rows of a version, in an order.

    `total` is None when it is not known without reading all of a large version; `reads` says what was read,
    ``2/9 files``, and `line` is the cell that runs the same query.
    """

    query: GridQuery
    rows: pa.Table
    total: int | None
    reads: str
    line: str

    @property
    def is_last(self) -> bool:
        """Whether no row follows."""
        shown: int = self.rows.num_rows
        return shown < self.query.rows if self.total is None else self.query.first + shown >= self.total

    def value(self, row: int, column: str) -> Any:
        """Return one value, as Python has it; `row` counts from the first of the page."""
        if not 0 <= row < self.rows.num_rows or column not in self.rows.column_names:
            raise InvalidInput(f"the page has no row {row} with a column {column!r}", hint="show the page again")
        return values_of(self.rows[column].slice(row, 1))[0]


class RowGridModel:
    """Answers what a row grid asks of one version; it reads in process and never starts Spark."""

    def __init__(self, at: TableAt) -> None:
        self._at = at
        self._counts: dict[tuple[Any, ...], int | None] = {}
        self._bars: dict[str, Bars | None] = {}
        self._of: dict[str, Sequence[int]] = {}
        self._distinct: dict[str, int] = {}
        self._ends: dict[str, tuple[Any, Any]] = {}

    @cached_property
    def schema(self) -> Schema:
        """The schema that the version is read with."""
        return self._at.schema

    @cached_property
    def fields(self) -> Mapping[str, Field]:
        """The columns, by name."""
        return {each.name: each for each in self.schema.fields}

    @property
    def keys(self) -> tuple[str, ...]:
        """The row keys and sort keys."""
        return self.schema.sort_order

    @property
    def is_quick(self) -> bool:
        """Whether the version is so small that its headers may read it unasked."""
        files, _, size = self._state.files.data_totals
        return size <= MOST_SUMMARIZED and files <= MOST_FILES

    @cached_property
    def bytes(self) -> Bytes:
        """How much the version has."""
        return Bytes(self._state.files.data_totals.bytes)

    @cached_property
    def _state(self) -> TableState:
        return self._at.state

    @cached_property
    def _has_places(self) -> bool:
        return "://" not in self._at.location and not self._at.is_processed

    @cached_property
    def _blocks(self) -> KeyBlocks | None:
        return None if self._at.is_processed else KeyBlocks.of(self._state)

    @cached_property
    def _rows(self) -> int | None:
        return self._at.plan().rows if self._blocks is None else self._blocks.rows

    def page(self, query: GridQuery, watch: Watch) -> GridPage:
        """Return the rows of a page; the last page, when there are fewer rows. The cancel of the work stops it."""
        query = query.checked_for(self.schema)
        query = replace(query, columns=query.columns or self.schema.names[:FIRST_COLUMNS])
        total = self._total(query, watch)
        if total is not None and query.first >= total:
            query = replace(query, first=max(0, total - 1) // query.rows * query.rows)
        answer = self._page_answer(query, total, watch)
        plan = next((each.plan for each in answer.sources), None)
        reads = Reads.of(() if plan is None else [plan]).in_short
        line = f"%%sleeper sql --engine duckdb\n{self.statement(query, (query.rows, query.first))}"
        return GridPage(query, rows_of(answer, watch), total, reads, line)

    def statement(self, query: GridQuery, page: tuple[int, int] | None = None) -> str:
        """Return the SELECT of the rows that a query finds, in its order: all columns, and the values written in it.

        Of a page: so many rows, after so many.
        """
        table = f"{quoted_name(self._at.name)} VERSION AS OF {self._at.resolved.snapshot_id}"
        order = [*map(str, query.sorts), *(quoted_name(name) for name in self._keys_after(query))]
        conditions = query.conditions(self.schema, literal)
        return select(table, "*", conditions, order, page)

    def where(self, query: GridQuery) -> str:
        """Return the filters of a query as one SQL condition with its values written in it; empty for none."""
        return " AND ".join(query.conditions(self.schema, literal))

    def summaries(self, names: Iterable[str], query: GridQuery, watch: Watch) -> tuple[ColumnSummary, ...]:
        """Return what the headers of some columns show of the rows that a query finds.

        The bars are those of all rows, so that they stay where they are when rows are filtered.
        """
        wanted = tuple(dict.fromkeys(replace(query, columns=tuple(names)).checked_for(self.schema).columns or ()))
        self._find_bars([name for name in wanted if name not in self._bars], watch)
        unknown = [name for name in wanted if name not in self._of]
        if unknown and not query.is_all:
            self._of |= {each.column.name: each.counts for each in self._counted(unknown, GridQuery(), watch)}
        found = self._counted(wanted, query, watch)
        if query.is_all:
            self._of |= {each.column.name: each.counts for each in found}
        return tuple(replace(each, of=self._of[each.column.name]) for each in found)

    def cube(self, name: str, others: Iterable[str], query: GridQuery, watch: Watch) -> BarCube:
        """Return the bars of other columns counted by the bars of one column, in the rows that a query finds.

        One SELECT counts them, so that a brush over the bars of the column asks nothing more.
        """
        wanted = replace(query, columns=tuple(dict.fromkeys(each for each in others if each != name)))
        names = wanted.checked_for(self.schema).columns or ()
        brushed = self.bars_of(name, watch)
        self._find_bars([each for each in names if each not in self._bars], watch)
        asked = VersionStatement(self._at, watch)
        parts = [f"{bar_number(brushed, asked)} AS bar", "count(*) AS found"]
        for number, each in enumerate(names):
            counts = counted_bars(self._bars[each], asked)
            parts += [f"count({quoted_name(each)}) AS n{number}", f"{counts} AS c{number}"]
        conditions = query.conditions(self.schema, asked.written)
        answer = asked.read(f"{select(asked.table, ', '.join(parts), conditions)}\nGROUP BY bar")
        found = {row[0]: row[1:] for row in zip(*map(values_of, answer.columns), strict=True) if row[0] is not None}
        return BarCube.of(brushed, {each: self._bars[each] for each in names}, found)

    def bars_of(self, name: str, watch: Watch) -> Bars:
        """Return the bars of a column; `InvalidInput` when it has none."""
        if name not in self._bars:
            GridQuery((name,)).checked_for(self.schema)
            self._find_bars([name], watch)
        bars = self._bars[name]
        if bars is None:
            raise InvalidInput(f"column {name!r} has no histogram", hint="type a filter instead")
        return bars

    # What is asked

    def _total(self, query: GridQuery, watch: Watch) -> int | None:
        known = query.filters, query.search.strip()
        if known not in self._counts:
            self._counts[known] = self._count(query, watch)
        return self._counts[known]

    def _count(self, query: GridQuery, watch: Watch) -> int | None:
        if query.is_all and (rows := self._rows) is not None:
            return rows
        if query.is_all and not self.is_quick:
            return None
        asked = VersionStatement(self._at, watch)
        conditions = query.conditions(self.schema, asked.written)
        return int(asked.read(select(asked.table, "count(*)", conditions))[0][0].as_py())

    def _page_answer(self, query: GridQuery, total: int | None, watch: Watch) -> QueryResult:
        """Return the rows of a page, not read yet."""
        if not self._has_places or (total is not None and total <= _SMALL):
            return self._direct_page(query, watch)
        answer = self._placed_page(query, watch)
        # the numbers of files are those of a plan: they mean the same in another plan only if it has the same files
        plans = {each.plan.filenames for each in answer.sources if each.plan is not None}
        return answer if len(plans) <= 1 else self._direct_page(query, watch)

    def _direct_page(self, query: GridQuery, watch: Watch) -> QueryResult:
        asked = VersionStatement(self._at, watch, self._has_places)
        conditions, first = self._conditions(query, asked)
        what = ", ".join(map(quoted_name, query.columns or ()))
        return asked.run(select(asked.table, what, conditions, self._in_order(query), (query.rows, first)))

    def _placed_page(self, query: GridQuery, watch: Watch) -> QueryResult:
        asked = VersionStatement(self._at, watch, row_places=True)
        conditions, first = self._conditions(query, asked)
        order, of_places = self._in_order(query), ", ".join(_PLACES)
        places = select(asked.table, of_places, conditions, order, (query.rows, first))
        what = ", ".join(map(quoted_name, query.columns or ()))
        rows = select(f"{asked.table} SEMI JOIN page USING ({of_places})", what, conditions, order)
        return asked.run(f"WITH page AS MATERIALIZED (\n{places})\n{rows}")

    def _conditions(self, query: GridQuery, asked: VersionStatement) -> tuple[list[str], int]:
        """Return what rows must meet, and how many of those that do are before the page."""
        conditions = query.conditions(self.schema, asked.written)
        if query.sorts or not query.is_all or self._blocks is None:
            return conditions, query.first
        span = self._blocks.around(query.first, query.rows)
        if span is None:
            return conditions, query.first
        key = self.schema.row_keys[0]
        low, high = asked.written(span.low, key), asked.written(span.high, key)
        return [f"{quoted_name(key.name)} BETWEEN {low} AND {high}"], query.first - span.before

    def _in_order(self, query: GridQuery) -> list[str]:
        return [*map(str, query.sorts), *self._ties(query)]

    def _keys_after(self, query: GridQuery) -> list[str]:
        return [name for name in self.keys if all(each.column != name for each in query.sorts)]

    def _ties(self, query: GridQuery) -> list[str]:
        """Return what orders the rows that the sorts leave equal, always in the same way."""
        keys = list(map(quoted_name, self._keys_after(query)))
        if self._has_places:
            return [*keys, *_PLACES]
        values = [quoted_name(each.name) for each in self.schema.values if each.type.name not in NESTED]
        return [*keys, *values[:_MOST_TIES]]

    def _find_bars(self, names: Sequence[str], watch: Watch) -> None:
        """Find the bars of columns: least and greatest values, or the most frequent ones, of all rows."""
        fields = [self.fields[name] for name in names]
        found: dict[str, Bars | None] = {each.name: None for each in fields}
        ordered = [each for each in fields if each.type.name in ORDERED]
        ends = least_and_greatest(self._at, ordered, watch)
        found |= {name: ranges_between(self.fields[name], *each) for name, each in ends.items()}
        self._ends |= ends
        named = [each for each in fields if each.type.name in NAMED]
        for name, frequent in most_frequent(self._at, named, watch).items():
            found[name] = Bars(self.fields[name], frequent.values) if frequent.values else None
            self._distinct[name] = frequent.distinct
        self._bars |= found  # at once: another thread must not take a column for one without bars

    def _counted(self, names: Sequence[str], query: GridQuery, watch: Watch) -> list[ColumnSummary]:
        """Count the bars and NULLs of columns in the rows that are found; all columns in one pass."""
        if not names:
            return []
        asked, is_exact = VersionStatement(self._at, watch), (self._rows or _MANY) < _MANY
        parts = [
            (
                f"count({quoted_name(name)})",
                self._distinct_of(name, query, is_exact=is_exact),
                counted_bars(self._bars[name], asked),
            )
            for name in names
        ]
        rows, found = counted_columns(asked, parts, query.conditions(self.schema, asked.written))
        summaries = []
        for name, (known, distinct, histogram) in zip(names, found, strict=True):
            field, bars, ends = self.fields[name], self._bars[name], self._ends.get(name)
            exact = is_exact or (query.is_all and name in self._distinct)
            most = None if distinct is None else min(distinct, known)  # an estimate can be greater
            counts = counts_of(bars, histogram)
            summaries.append(ColumnSummary(field, bars, rows, rows - known, counts, (), most, exact, ends))
        return summaries

    def _distinct_of(self, name: str, query: GridQuery, *, is_exact: bool) -> str:
        """Return what counts the different values of a column, in SQL; the number where it is known."""
        if self.fields[name].type.name in NESTED:
            return "NULL"
        if query.is_all and name in self._distinct:
            return str(self._distinct[name])
        column = quoted_name(name)
        return f"count(DISTINCT {column})" if is_exact else f"approx_count_distinct({column})"
