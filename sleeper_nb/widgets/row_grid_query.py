"""What the row grid shows, as a value: columns, order, filters, search and page; and the SELECT that says the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.constants import constant
from sleeper_nb.model.keys import parse_key
from sleeper_nb.model.schema import Field, FieldType, Schema
from sleeper_nb.model.sql_values import quoted_name
from sleeper_nb.report import MOST_SHOWN

FilterTest = Literal["between", "above", "below", "in", "contains", "null", "not null"]
"""``between`` has both ends, ``above`` leaves out the lower and ``below`` the upper one; None is no end."""
NESTED: Final = frozenset({"list", "map", "struct"})
Written = Callable[[Any, Field], str]
"""Writes a value of a column in SQL."""
_TEXT: Final = Field("text", FieldType("string"))
_COMPARISON = re.compile(r"(>=|<=|>|<)\s*(.+)", re.DOTALL)
_RANGE = re.compile(r"(.*?)\s*\.\.\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ColumnFilter:
    """A condition on one column.

    `values` are the two ends of a range, the values of ``in``, the text of ``contains``, and otherwise none.
    """

    column: str
    test: FilterTest
    values: tuple[Any, ...] = ()

    @classmethod
    def of_text(cls, column: Field, typed: str) -> ColumnFilter | None:
        """Return the filter that a user typed; None for no text. Raise `InvalidInput` for a value that no column has.

        In a column of text, values that have the typed text in them are found; ``= AA, DL`` finds just these values. In
        other columns it is a value, several with commas, or a range: ``1 .. 9``, ``> 5``. ``null`` and ``not null`` are
        for all types.
        """
        text = typed.strip()
        match text.lower():
            case "":
                return None
            case "null":
                return cls(column.name, "null")
            case "not null":
                return cls(column.name, "not null")
        is_exact = text.startswith("=")
        if column.type.name in NESTED or (column.type.name == "string" and not is_exact):
            return cls(column.name, "contains", (text,))
        if column.type.name != "string" and (found := _range_of(column, text)) is not None:
            return cls(column.name, *found)
        values = tuple(_value(column, each) for each in text.removeprefix("=").split(","))
        return cls(column.name, "in", values)

    @classmethod
    def of_keys(cls, column: Field, low: str | None, high: str | None) -> ColumnFilter:
        """Return the filter of the keys of a partition, from `low` to before `high`, as `written_key` writes them."""
        ends = tuple(None if end is None else parse_key(column, end) for end in (low, high))
        return cls(column.name, "below", ends)

    def condition(self, column: Field, written: Written) -> str:
        """Return the condition in SQL."""
        name = quoted_name(self.column)
        match self.test:
            case "null":
                return f"{name} IS NULL"
            case "not null":
                return f"{name} IS NOT NULL"
            case "contains":
                return _contains(column, written(self.values[0], _TEXT))
            case "in":
                values = [written(each, column) for each in self.values]
                return f"{name} = {values[0]}" if len(values) == 1 else f"{name} IN ({', '.join(values)})"
        low, high = self.values
        ends = []
        if low is not None:
            ends.append(f"{name} {'>' if self.test == 'above' else '>='} {written(low, column)}")
        if high is not None:
            ends.append(f"{name} {'<' if self.test == 'below' else '<='} {written(high, column)}")
        return " AND ".join(ends) or f"{name} IS NOT NULL"


def _value(column: Field, text: str) -> Any:
    return constant(text.strip(), column.type.arrow, str(column.type))


def _range_of(column: Field, text: str) -> tuple[FilterTest, tuple[Any, Any]] | None:
    """Return the test and the ends of a range that was typed; None when it is no range."""
    if compared := _COMPARISON.fullmatch(text):
        value = _value(column, compared[2])
        test: FilterTest = {">": "above", "<": "below"}.get(compared[1], "between")  # type: ignore[assignment]
        return test, (value, None) if compared[1].startswith(">") else (None, value)
    if found := _RANGE.fullmatch(text):
        low, high = (_value(column, end) if end else None for end in found.groups())
        return "between", (low, high)
    return None


def _contains(column: Field, text: str) -> str:
    name = quoted_name(column.name)
    own = name if column.type.name == "string" else f"CAST({name} AS VARCHAR)"
    return f"contains(lower({own}), lower({text}))"


@dataclass(frozen=True, slots=True)
class GridSort:
    """A column by which rows are ordered; NULLs are last in both directions."""

    column: str
    descending: bool = False

    def __str__(self) -> str:
        return f"{quoted_name(self.column)}{' DESC' if self.descending else ''} NULLS LAST"


@dataclass(frozen=True, slots=True)
class GridQuery:
    """Which rows of a version are shown, and of which columns: None for as many as are shown first.

    Rows meet all filters and have the searched text in a column of text, in any case of the letters. They are ordered
    by `sorts`, then by row keys and sort keys. `first` rows are before the page, and `rows` on it.
    """

    columns: tuple[str, ...] | None = None
    sorts: tuple[GridSort, ...] = ()
    filters: tuple[ColumnFilter, ...] = ()
    search: str = ""
    first: int = 0
    rows: int = 20

    def __post_init__(self) -> None:
        if self.first < 0:
            raise InvalidInput(f"{self.first} is not a valid first row", hint="take 0 or more")
        if not 1 <= self.rows <= MOST_SHOWN:
            hint = f"take 1 to {MOST_SHOWN:,} rows a page"
            raise InvalidInput(f"a page cannot have {self.rows:,} rows", hint=hint)

    @property
    def is_all(self) -> bool:
        """Whether every row is found."""
        return not self.filters and not self.search.strip()

    @property
    def names(self) -> Iterator[str]:
        """The columns that it names."""
        yield from self.columns or ()
        yield from (each.column for each in self.sorts)
        yield from (each.column for each in self.filters)

    def checked_for(self, schema: Schema) -> GridQuery:
        """Return it; raise `NotFound` when the schema has not all columns that it names."""
        for name in self.names:
            if name not in schema.names:
                raise NotFound.of("column", name, schema.names)
        return self

    def conditions(self, schema: Schema, written: Written) -> list[str]:
        """Return what rows must meet, in SQL."""
        fields = {each.name: each for each in schema.fields}
        found = [each.condition(fields[each.column], written) for each in self.filters]
        if text := self.search.strip():
            texts = [each for each in schema.fields if each.type.name == "string"]
            wanted = written(text, _TEXT) if texts else ""
            found.append(f"({' OR '.join(_contains(each, wanted) for each in texts)})" if texts else "false")
        return found


def literal(value: Any, column: Field) -> str:
    """Return a value as SQL writes it in the text of a statement; `InvalidInput` when the type has no such value."""
    return replace(column, default=value, nullable=True).default_literal or "''"


def select(
    table: str, what: str, conditions: list[str], order: list[str] | None = None, page: tuple[int, int] | None = None
) -> str:
    """Return a SELECT; `table` is written already, and `page` is the number of rows, and of those before them."""
    parts = [f"SELECT {what} FROM {table}"]  # noqa: S608 - names are quoted, and values are parameters
    if conditions:
        parts.append(f"WHERE {' AND '.join(conditions)}")
    if order:
        parts.append(f"ORDER BY {', '.join(order)}")
    if page is not None:
        rows, first = page
        parts.append(f"LIMIT {rows}" + (f" OFFSET {first}" if first else ""))
    return "\n".join(parts)
