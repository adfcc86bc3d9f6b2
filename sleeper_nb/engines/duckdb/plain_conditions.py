"""What the rows of an answer must meet, read from the syntax tree of a statement that needs no plan for that.

Such a statement reads one table, and its ``WHERE`` compares columns with constants or parameters of their own types:
whole numbers and texts. DuckDB would compute nothing there, so planning the statement first would show the same. All of
the condition is understood, or nothing is: then the plan is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sleeper_nb.engines.duckdb.pushed_filters import MOST_DIGITS, SIGNS
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.operations.scanning.reach import AllOf, AnyOf, Compared, IsNull, OneOf, Sign, Test, swapped

_BITS: Final[Mapping[str, int]] = {"tinyint": 8, "smallint": 16, "int": 32, "long": 64}


def plain_test(selection: Mapping[str, Any], schema: Schema, values: Mapping[str, Any]) -> Test | None:
    """Return what the rows of a statement must meet to be in its answer; None when that takes a plan.

    Parameters
    ----------
    selection
        The node of a statement, as in `duckdb_reads.Query`.
    schema
        Of the table that it reads.
    values
        Of its parameters.
    """
    return plain_condition(selection["where_clause"], schema, values)


def plain_condition(node: Mapping[str, Any], schema: Schema, values: Mapping[str, Any]) -> Test | None:
    """Return the test that a condition on a table's columns is, from its node of a syntax tree; None of another."""
    try:
        return _PlainReader({_folded(each.name): each for each in schema.fields}, values).test(node)
    except (_NotPlain, RecursionError):
        return None


class _NotPlain(Exception):  # noqa: N818 - no error: the plan is asked
    """A condition that DuckDB may compute or convert."""


@dataclass(frozen=True, slots=True)
class _PlainReader:
    """Reads conditions on the columns of a table, by their folded names; raises `_NotPlain` for others."""

    columns: Mapping[str, Field]
    values: Mapping[str, Any]

    def test(self, node: Mapping[str, Any]) -> Test:
        """Return the test of a condition."""
        kind = str(node["type"])
        if kind == "CONJUNCTION_AND":
            return AllOf(tuple(map(self.test, node["children"])))
        if kind == "CONJUNCTION_OR":
            return AnyOf(tuple(map(self.test, node["children"])))
        if kind in SIGNS:
            return self._compared(node["left"], SIGNS[kind], node["right"])
        if kind == "COMPARE_BETWEEN":
            low, high = (self._compared(node["input"], sign, node[end]) for sign, end in _ENDS)
            return AllOf((low, high))
        children: Sequence[Mapping[str, Any]] = node.get("children") or ()
        if kind == "COMPARE_IN":
            column = self._column(children[0])
            return OneOf(column.name, tuple(dict.fromkeys(self._value(each, column) for each in children[1:])))
        if kind == "OPERATOR_IS_NULL":
            return IsNull(self._column(children[0]).name)
        raise _NotPlain

    def _compared(self, left: Mapping[str, Any], sign: Sign, right: Mapping[str, Any]) -> Test:
        if left.get("class") != "COLUMN_REF":
            left, sign, right = right, swapped(sign), left
        column = self._column(left)
        return Compared(column.name, sign, self._value(right, column))

    def _column(self, node: Mapping[str, Any]) -> Field:
        """Return a column without qualifier: it is the table's, even where something else has its name as alias."""
        names = node.get("column_names", ())
        column = self.columns.get(_folded(names[0])) if len(names) == 1 else None
        if node.get("class") != "COLUMN_REF" or column is None:
            raise _NotPlain
        return column

    def _value(self, node: Mapping[str, Any], column: Field) -> int | str:
        """Return a constant or the value of a parameter, where the column's type can hold it."""
        literal = node.get("literal") or {}
        value: Any = None
        if node.get("class") == "PARAMETER":
            value = self.values.get(node["identifier"])
        elif literal.get("kind") == "STRING":
            value = literal["text"]
        elif literal.get("kind") == "INTEGER" and len(literal["text"]) <= MOST_DIGITS:
            value = int(literal["text"])
        if type(value) is int and (bits := _BITS.get(column.type.name)):
            if -(1 << bits - 1) <= value < 1 << bits - 1:
                return value
        elif type(value) is str and column.type.name == "string" and _is_unicode(value):
            return value
        raise _NotPlain


_ENDS: Final[tuple[tuple[Sign, str], ...]] = ((">=", "lower"), ("<=", "upper"))


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
