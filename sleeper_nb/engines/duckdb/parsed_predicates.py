"""What the rows of an answer must meet, read from the syntax tree of a statement that needs no plan for that.

Such a statement reads one table, and its ``WHERE`` compares columns with constants or parameters of their own types:
whole numbers, texts, dates and timestamps. DuckDB would compute nothing there, so planning the statement first would
show the same. A comparison of a float or double excludes no file, as these have no statistics. All of the condition is
understood, or nothing is: then the plan is asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

from sleeper_nb.engines.duckdb.duckdb_pushdown import MOST_DIGITS, OPERATORS
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.read.predicate import (
    ALWAYS_TRUE,
    And,
    Comparison,
    ComparisonOperator,
    IsIn,
    IsNull,
    Or,
    Predicate,
    swapped,
)

_BITS: Final[Mapping[str, int]] = {"tinyint": 8, "smallint": 16, "int": 32, "long": 64}
_FLOATS: Final = frozenset({"float", "double"})
_NUMBERS: Final = frozenset({"INTEGER", "NUMERIC"})
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,6})?)?", re.ASCII)
_MOMENTS: Final = frozenset({"", "DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ"})
"""The types of literals that DuckDB converts to compare them with a column of timestamps; "" for none."""


def parse_where(selection: Mapping[str, Any], schema: Schema, values: Mapping[str, Any]) -> Predicate | None:
    """Return what the rows of a statement must meet to be in its answer; None when that takes a plan.

    Parameters
    ----------
    selection
        The node of a statement, as in `duckdb_reads.Query`.
    """
    return _read(selection["where_clause"], schema, values, only_prunes=True)


def parse_comparisons(node: Mapping[str, Any], schema: Schema, values: Mapping[str, Any]) -> Predicate | None:
    """Return the predicate that a condition on columns is, from its node of a syntax tree; None of another."""
    return _read(node, schema, values, only_prunes=False)


def _read(node: Mapping[str, Any], schema: Schema, values: Mapping[str, Any], *, only_prunes: bool) -> Predicate | None:
    try:
        return _PlainReader({_folded(each.name): each for each in schema.fields}, values, only_prunes).predicate(node)
    except (_NotPlain, RecursionError):
        return None


class _NotPlain(Exception):  # noqa: N818 - no error: the plan is asked
    """A condition that DuckDB may compute or convert."""


@dataclass(frozen=True, slots=True)
class _PlainReader:
    """Reads conditions on the columns of a table; raises `_NotPlain` for others.

    Parameters
    ----------
    columns
        By their folded names.
    only_prunes
        Whether the predicate only prunes files. Otherwise rows are filtered by it, and dates and times are refused.
    """

    columns: Mapping[str, Field]
    values: Mapping[str, Any]
    only_prunes: bool

    def predicate(self, node: Mapping[str, Any]) -> Predicate:
        """Return the predicate of a condition."""
        kind = str(node["type"])
        if kind == "CONJUNCTION_AND":
            return And(tuple(map(self.predicate, node["children"])))
        if kind == "CONJUNCTION_OR":
            return Or(tuple(map(self.predicate, node["children"])))
        if kind in OPERATORS:
            return self._compared(node["left"], OPERATORS[kind], node["right"])
        if kind == "COMPARE_BETWEEN":
            low, high = (self._compared(node["input"], operator, node[end]) for operator, end in _ENDS)
            return And((low, high))
        children: Sequence[Mapping[str, Any]] = node.get("children") or ()
        if kind == "COMPARE_IN":
            column = self._column(children[0])
            return IsIn(column.name, tuple(dict.fromkeys(self._value(each, column) for each in children[1:])))
        if kind == "OPERATOR_IS_NULL":
            return IsNull(self._column(children[0]).name)
        raise _NotPlain

    def _compared(self, left: Mapping[str, Any], operator: ComparisonOperator, right: Mapping[str, Any]) -> Predicate:
        if left.get("class") != "COLUMN_REF":
            left, operator, right = right, swapped(operator), left
        column = self._column(left)
        if self.only_prunes and column.type.name in _FLOATS and (right.get("literal") or {}).get("kind") in _NUMBERS:
            return ALWAYS_TRUE
        return Comparison(column.name, operator, self._value(right, column))

    def _column(self, node: Mapping[str, Any]) -> Field:
        """Return a column without qualifier: it is the table's, even where something else has its name as alias."""
        names = node.get("column_names", ())
        column = self.columns.get(_folded(names[0])) if len(names) == 1 else None
        if node.get("class") != "COLUMN_REF" or column is None:
            raise _NotPlain
        return column

    def _value(self, node: Mapping[str, Any], column: Field) -> Any:
        """Return a constant or the value of a parameter, where the column's type can hold it."""
        value = self._constant(node)
        if type(value) is int and (bits := _BITS.get(column.type.name)):
            if -(1 << bits - 1) <= value < 1 << bits - 1:
                return value
        elif type(value) is str and column.type.name == "string" and _is_unicode(value):
            return value
        elif self.only_prunes:
            return _date_or_moment(node, column.type.name)
        raise _NotPlain

    def _constant(self, node: Mapping[str, Any]) -> Any:
        """Return a whole number, a text or the value of a parameter; None of anything else."""
        literal = node.get("literal") or {}
        if node.get("class") == "PARAMETER":
            return self.values.get(node["identifier"])
        if literal.get("kind") == "STRING":
            return literal["text"]
        is_whole = literal.get("kind") == "INTEGER" and len(literal["text"]) <= MOST_DIGITS
        return int(literal["text"]) if is_whole else None


def _date_or_moment(node: Mapping[str, Any], kind: str) -> date | datetime:
    """Return a literal that DuckDB compares with a column of dates or of timestamps as that column has them, in UTC."""
    is_cast = node.get("class") == "CAST" and not node["try_cast"]
    literal = (node["child"] if is_cast else node).get("literal") or {}
    cast_to = str(node["type_expr"].get("type_name")).upper() if is_cast else ""
    if literal.get("kind") == "STRING":
        with suppress(ValueError):  # an invalid date; DuckDB reports it
            if kind == "date" and cast_to in {"", "DATE"} and _DATE.fullmatch(literal["text"]):
                return date.fromisoformat(literal["text"])
            written = _DATE if cast_to == "DATE" else _MOMENT  # a cast to a date drops the time
            if kind == "timestamp" and cast_to in _MOMENTS and written.fullmatch(literal["text"]):
                return datetime.fromisoformat(literal["text"]).replace(tzinfo=UTC)
    raise _NotPlain


_ENDS: Final[tuple[tuple[ComparisonOperator, str], ...]] = ((">=", "lower"), ("<=", "upper"))


def _folded(name: str) -> str:
    """Return a name as DuckDB compares it: only the letters A to Z are the same in lower case."""
    return name.encode(errors="surrogatepass").lower().decode(errors="surrogatepass")


def _is_unicode(text: str) -> bool:
    """Return whether a text has no halves of characters, which have no place in the order of UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
