"""SELECT statements over one version: the name of its table, values as parameters, and what counts bars of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sleeper_nb.model.schema import Field
from sleeper_nb.model.sql_values import duckdb_type, quoted_name
from sleeper_nb.report import values_of
from sleeper_nb.widgets.column_bars import TOP_VALUES, Bars
from sleeper_nb.widgets.row_grid_query import select

if TYPE_CHECKING:
    from sleeper_nb.public_types import QueryResult
    from sleeper_nb.table_at import TableAt

_Ends = tuple[Any, Any]


class VersionStatement:
    """A statement that is being written: its table, and the values of its parameters."""

    def __init__(self, at: TableAt, row_places: bool = False) -> None:
        self._at, self._row_places = at, row_places
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


def type_of(column: Field) -> str:
    """Return DuckDB's type for values that are compared with a column; those of 32 bits as doubles, which hold them."""
    return "DOUBLE" if column.type.name == "float" else duckdb_type(column.type)


def least_and_greatest(at: TableAt, fields: Sequence[Field]) -> dict[str, _Ends]:
    """Return the least and the greatest value of columns whose bars are ranges; of none, where all are NULL.

    Dates and times that Python does not have are left out too.
    """
    if not fields:
        return {}
    asked = VersionStatement(at)
    found = asked.run(select(asked.table, ", ".join(map(_ends, fields)), [])).to_arrow()
    values = [values_of(each)[0] for each in found.columns]
    pairs = zip(fields, values[::2], values[1::2], strict=True)
    return {each.name: (low, high) for each, low, high in pairs if low is not None and not isinstance(low, str)}


def most_frequent(at: TableAt, fields: Sequence[Field]) -> dict[str, tuple[Any, ...]]:
    """Return the most frequent values of columns whose bars are values, the most frequent first."""
    if not fields:
        return {}
    asked = VersionStatement(at)
    tops = (_top_values(each, number, asked) for number, each in enumerate(fields))
    found = asked.run("\nUNION ALL\n".join(tops)).to_arrow()
    numbered = list(zip(*map(values_of, found.columns), strict=True))
    values = {}
    for number, each in enumerate(fields):
        texts = [text for at, text in numbered if at == number]
        values[each.name] = tuple(text == "true" if each.type.name == "boolean" else text for text in texts)
    return values


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


def counts_of(bars: Bars | None, counted: Sequence[tuple[Any, int]] | None) -> list[int]:
    """Return the count of each bar, of the answer to `counted_bars`."""
    width = 0 if bars is None else len(bars.marks)
    return [count for _, count in counted or ()][:width] or [0] * width


def _ends(column: Field) -> str:
    name = quoted_name(column.name)
    if column.type.name not in {"float", "double"}:
        return f"min({name}), max({name})"
    return ", ".join(f"{end}({name}) FILTER (WHERE isfinite({name}))" for end in ("min", "max"))


def _top_values(column: Field, number: int, asked: VersionStatement) -> str:
    name = quoted_name(column.name)
    counts = f"SELECT {name} AS v, count(*) AS n FROM {asked.table} WHERE {name} IS NOT NULL GROUP BY {name}"  # noqa: S608
    return f"(SELECT {number}, CAST(v AS VARCHAR) FROM ({counts}) ORDER BY n DESC, v LIMIT {TOP_VALUES})"  # noqa: S608
