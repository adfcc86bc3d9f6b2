"""SELECT statements over one version: the name of its table, values as parameters, and what counts bars of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sleeper_nb.model.schema import Field
from sleeper_nb.model.sql_values import duckdb_type, quoted_name
from sleeper_nb.progress import Watch
from sleeper_nb.report import values_of
from sleeper_nb.widgets.column_bars import TOP_VALUES, Bars
from sleeper_nb.widgets.row_grid_query import select

if TYPE_CHECKING:
    from sleeper_nb.public_types import QueryResult
    from sleeper_nb.table_at import TableAt

_Ends = tuple[Any, Any]


class VersionStatement:
    """A statement that is being written: its table, and the values of its parameters. Its watch can stop it."""

    def __init__(self, at: TableAt, watch: Watch, row_places: bool = False) -> None:
        self._at, self._watch, self._row_places = at, watch, row_places
        self.values: dict[str, Any] = {}

    @property
    def table(self) -> str:
        """The name of the table, quoted."""
        return quoted_name(self._at.name)

    def written(self, value: Any, column: Field) -> str:
        """Return a parameter of a column's type."""
        return f"CAST({self.parameter(value)} AS {type_of(column)})"

    def parameter(self, value: Any) -> str:
        """Return a new parameter that has a value."""
        name = f"v{len(self.values)}"
        self.values[name] = value
        return f"${name}"

    def run(self, statement: str) -> QueryResult:
        """Return the rows of the statement, on DuckDB, not read yet."""
        return self._at.sql(statement, self.values, row_places=self._row_places)

    def read(self, statement: str) -> pa.Table:
        """Return the rows of the statement, on DuckDB."""
        return rows_of(self.run(statement), self._watch)


def rows_of(result: QueryResult, watch: Watch) -> pa.Table:
    """Read all rows of a result; the cancel of the work that reads them stops it with `Cancelled`."""
    with watch.stopping(result.cancel):
        return result.to_arrow()


def type_of(column: Field) -> str:
    """Return DuckDB's type for values that are compared with a column; those of 32 bits as doubles, which hold them."""
    return "DOUBLE" if column.type.name == "float" else duckdb_type(column.type)


def least_and_greatest(at: TableAt, fields: Sequence[Field], watch: Watch) -> dict[str, _Ends]:
    """Return the least and the greatest value of columns whose bars are ranges; of none, where all are NULL.

    Dates and times that Python does not have are left out too.
    """
    if not fields:
        return {}
    asked = VersionStatement(at, watch)
    found = asked.read(select(asked.table, ", ".join(map(_ends, fields)), []))
    values = [values_of(each)[0] for each in found.columns]
    pairs = zip(fields, values[::2], values[1::2], strict=True)
    return {each.name: (low, high) for each, low, high in pairs if low is not None and not isinstance(low, str)}


@dataclass(frozen=True, slots=True)
class FrequentValues:
    """The most frequent values of a column, the most frequent first, and how many distinct values it has."""

    values: tuple[Any, ...]
    distinct: int


def most_frequent(at: TableAt, fields: Sequence[Field], watch: Watch) -> dict[str, FrequentValues]:
    """Return the most frequent values of columns whose bars are values."""
    if not fields:
        return {}
    asked = VersionStatement(at, watch)
    tops = (_top_values(each, number, asked) for number, each in enumerate(fields))
    found = asked.read("\nUNION ALL\n".join(tops))
    numbered = list(zip(*map(values_of, found.columns), strict=True))
    frequent = {}
    for number, each in enumerate(fields):
        top = [(text, distinct) for at, text, distinct in numbered if at == number]
        values = tuple(text == "true" if each.type.name == "boolean" else text for text, _ in top)
        frequent[each.name] = FrequentValues(values, top[0][1] if top else 0)
    return frequent


def counted_bars(bars: Bars | None, asked: VersionStatement, values: str | None = None) -> str:
    """Return what counts the rows of each bar, in SQL; `values` instead of the column of the bars."""
    if bars is None:
        return "NULL"
    name = values or quoted_name(bars.column.name)
    marks = f"CAST({asked.parameter(list(bars.marks))} AS {type_of(bars.column)}[])"
    if bars.are_ranges:
        is_float = bars.column.type.name in {"float", "double"}
        inside = f"nullif({name}, 'NaN')" if is_float else name  # which DuckDB puts into the first range
        return f"histogram({inside}, {marks})"
    numbers = list(range(1, len(bars.marks) + 1))
    return f"histogram(nullif(list_position({marks}, {name}), 0), {numbers})"


def counted_columns(
    asked: VersionStatement, parts: Sequence[tuple[str, str, str]], conditions: Sequence[str] = ()
) -> tuple[int, list[tuple[int, int | None, Any]]]:
    """Return the number of rows, and of each column its values, its different values and its bars; all in one pass.

    `parts` count these three, in SQL.
    """
    whole = ["count(*)", *chain.from_iterable(parts)]
    what = ", ".join(f"{part} AS c{number}" for number, part in enumerate(whole))
    answer = asked.read(select(asked.table, what, list(conditions)))
    rows, *found = (values_of(each)[0] for each in answer.columns)
    return rows, list(zip(found[::3], found[1::3], found[2::3], strict=True))


def bar_number(bars: Bars, asked: VersionStatement) -> str:
    """Return the number of the bar of each row, in SQL, from 0; NULL and others for rows without one."""
    name = quoted_name(bars.column.name)
    if bars.are_ranges:
        kind = type_of(bars.column)
        return " + ".join(f"CAST({name} > CAST({asked.parameter(each)} AS {kind}) AS INTEGER)" for each in bars.marks)
    marks = f"CAST({asked.parameter(list(bars.marks))} AS {type_of(bars.column)}[])"
    return f"list_position({marks}, {name}) - 1"


def _ends(column: Field) -> str:
    name = quoted_name(column.name)
    if column.type.name not in {"float", "double"}:
        return f"min({name}), max({name})"
    return ", ".join(f"{end}({name}) FILTER (WHERE isfinite({name}))" for end in ("min", "max"))


def _top_values(column: Field, number: int, asked: VersionStatement) -> str:
    name = quoted_name(column.name)
    counts = f"SELECT {name} AS v, count(*) AS n FROM {asked.table} WHERE {name} IS NOT NULL GROUP BY {name}"  # noqa: S608
    top = "CAST(v AS VARCHAR), count(*) OVER ()"
    return f"(SELECT {number}, {top} FROM ({counts}) ORDER BY n DESC, v LIMIT {TOP_VALUES})"  # noqa: S608
