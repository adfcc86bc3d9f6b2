"""What each table's rows must meet to be in an answer, as DuckDB's optimizer knows it; no row is read.

The statement is planned in a database of its own, over empty tables that stand in for the real ones. There DuckDB
computes constants and parameters, and moves conditions through views, subqueries and joins to the tables. Its plan
names the conditions of each table as SQL, which is parsed here. The names of the columns occur nowhere else, so that a
name in a condition is that column and no alias. Whatever is not understood is not pushed down.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

import duckdb

from sleeper_nb.engines.duckdb.interrupts import fetched
from sleeper_nb.engines.duckdb.relations import columns_of
from sleeper_nb.engines.duckdb.syntax_tree import last_name, syntax_tree, time_functions, tree_nodes, unstable_function
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.sql_values import quoted_name
from sleeper_nb.read.predicate import (
    ALWAYS_TRUE,
    UNKNOWN,
    And,
    ComparisonOperator,
    IsIn,
    IsNull,
    Or,
    Predicate,
    comparison_of,
    starts_with,
)
from sleeper_nb.sql.binding import Bound
from sleeper_nb.sql.bound_lakes import LakeColumn
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import Token, tokenize

logger = logging.getLogger(__name__)

_OPERATORS: Final[Mapping[str, ComparisonOperator]] = {
    "COMPARE_EQUAL": "=", "COMPARE_LESSTHAN": "<", "COMPARE_LESSTHANOREQUALTO": "<=", "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}  # fmt: skip
_MOST_DIGITS: Final = 40
"""No column holds a whole number with more digits; Python refuses to read one with thousands."""
_BITS: Final[Mapping[str, int]] = {"tinyint": 8, "smallint": 16, "int": 32, "long": 64}
_PREFIXES: Final = frozenset({"starts_with", "prefix", "^@"})
_HALVES: Final = re.compile("[\ud800-\udfff]")
"""Halves of characters, which have no place in the order of UTF-8."""
_HEX: Final = re.compile(r"\\x([0-9A-Fa-f]{2})")
ROWS_OF_SCAN: Final = "rows of the scan"
"""With spaces, so that no column has the name."""


@dataclass(frozen=True, slots=True)
class EmptyTable:
    """The names of the empty table that stands in for a table: `table`, and its `columns`.

    They are in the order of the fields; after them may follow those for the places of rows.
    """

    table: str
    columns: tuple[str, ...]
    fields: tuple[Field | LakeColumn, ...]

    @classmethod
    def of(
        cls, number: int, fields: Sequence[Field | LakeColumn], mark: str, *, with_places: bool = False
    ) -> EmptyTable:
        """Return the names of the stand-in with a number; each begins with `mark`."""
        width = len(columns_of(fields, with_places=with_places))
        return cls(f"{mark}{number}", tuple(f"{mark}{number}_{i}" for i in range(width)), tuple(fields))

    @classmethod
    def of_condition(cls, condition: str, fields: Sequence[Field]) -> EmptyTable:
        """Return the names of the stand-in for `ROWS_OF_SCAN`, whose rows are to meet a condition."""
        statement = Statement.of(_selection(condition), dialect="duckdb")
        return cls.of(0, fields, Bound(statement, {}, ()).unused_mark)

    @property
    def real_names(self) -> dict[str, str]:
        """The names of the table's own columns, by those of the stand-in; no place tells which keys are needed."""
        return dict(zip(self.columns, (each.name for each in self.fields), strict=False))

    def create(self, connection: duckdb.DuckDBPyConnection, name: str) -> None:
        """Create the empty table, and a view of it with the names of the real table and its columns."""
        with_places = len(self.columns) > len(self.fields)
        columns = list(zip(self.columns, columns_of(self.fields, with_places=with_places), strict=True))
        typed = ", ".join(f"{own} {kind}" for own, (_, kind) in columns)
        fetched(connection, f"CREATE TEMP TABLE {self.table} ({typed})")
        renamed = ", ".join(f"{own} AS {quoted_name(real)}" for own, (real, _) in columns)
        fetched(connection, f"CREATE TEMP VIEW {quoted_name(name)} AS SELECT {renamed} FROM {self.table}")  # noqa: S608 - names only


def push_down(
    connection: duckdb.DuckDBPyConnection, text: str, values: Mapping[str, Any], tables: Sequence[EmptyTable]
) -> dict[str, Predicate]:
    """Return what the rows of each stand-in must meet, by its table's name; a stand-in that is not in it is not read.

    Parameters
    ----------
    connection
        Of the planning database, with the stand-ins.

    Raises
    ------
    duckdb.Error
        When DuckDB cannot plan the statement.
    """
    ((_, plan),) = fetched(connection, f"EXPLAIN (FORMAT json) {text}", dict(values) or None)
    by_name, scans = {table.table: table for table in tables}, dict[str, list[Predicate]]()
    for name, conditions in _scans(json.loads(plan)):
        if name in by_name:
            scans.setdefault(name, []).append(_read_all(connection, conditions, by_name[name].real_names))
    return {name: Or(tuple(each)) for name, each in scans.items()}


def predicate_of(
    connection: duckdb.DuckDBPyConnection, condition: str, table: EmptyTable, nodes: Sequence[Mapping[str, Any]]
) -> Predicate:
    """Return what the rows of a table must meet at least to meet a condition, which was checked before.

    A condition on the time at which it is evaluated is not planned: each read evaluates it again.

    Parameters
    ----------
    table
        A stand-in, which was created for `ROWS_OF_SCAN`.
    nodes
        Those of the condition's syntax tree.
    """
    if time_functions(map(last_name, nodes)) or unstable_function(nodes):
        return ALWAYS_TRUE
    try:
        found = push_down(connection, _selection(condition), {}, [table])
    except (duckdb.Error, RecursionError) as error:
        logger.debug("no partition is pruned by a condition: %s", error)
        return ALWAYS_TRUE
    return found.get(table.table, ALWAYS_TRUE)


def _selection(condition: str) -> str:
    return f'SELECT * FROM "{ROWS_OF_SCAN}" WHERE (\n{condition}\n)'  # noqa: S608 - judged before


def _scans(plan: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """Yield the table of each scan of a plan, with the conditions on its rows, as SQL."""
    waiting: list[tuple[dict[str, Any], dict[str, Any] | None]] = [(node, None) for node in plan]
    while waiting:
        node, parent = waiting.pop()
        info = node.get("extra_info", {})
        if _is_scan(node):
            conditions = [_joined(info.get("Filters", ""))]
            if parent is not None and _is_above_scan(parent):
                conditions.append(_joined(parent["extra_info"].get("Expression", "")))
            yield str(info["Table"]).rpartition(".")[2].strip('"'), conditions
        waiting += [(child, node) for child in node.get("children", ())]


def _is_scan(node: Mapping[str, Any]) -> bool:
    return bool(node["name"].strip() == "SEQ_SCAN")


def _is_above_scan(node: Mapping[str, Any]) -> bool:
    """Return whether a node filters rows as they are scanned, so that its condition is one of the scan."""
    return node["name"].strip() == "FILTER" and any(map(_is_scan, node.get("children", ())))


def _joined(lines: Any) -> str:
    """Return a text that the plan has as one line or as a list of lines."""
    return lines if isinstance(lines, str) else "\n".join(map(str, lines))


def _read_all(connection: duckdb.DuckDBPyConnection, texts: Iterable[str], columns: Mapping[str, str]) -> Predicate:
    """Return what is understood of some conditions, all of which the rows of a table meet."""
    parts = [part for text in texts for part in _parts(text)]
    nodes = _trees(connection, parts)
    if nodes is None:
        nodes = [(_trees(connection, [part]) or [None])[0] for part in parts]
    reader = _TreeReader(columns, {})
    return And(tuple(ALWAYS_TRUE if node is None else reader.predicate(node) for node in nodes))


def _trees(connection: duckdb.DuckDBPyConnection, parts: Sequence[str]) -> list[Any] | None:
    """Return the syntax tree of each condition; None when DuckDB cannot read one of them."""
    if not parts:
        return []
    tree = syntax_tree(connection, "SELECT " + ",\n".join(parts))
    found = None if tree["error"] else tree["statements"][0]["node"]["select_list"]
    return found if found is not None and len(found) == len(parts) else None


def _parts(text: str) -> Iterator[str]:
    """Yield the conditions of a text; a new line outside of brackets and literals begins the next one."""
    try:
        tokens = tokenize(text, dialect="duckdb")
    except InvalidInput:
        return
    depth, part, before = 0, "", 0
    for at, token in enumerate(tokens):
        gap, before = text[before : token.start], token.end
        if not depth and part and "\n" in gap:
            yield part
            part = ""
        if _is_optional(tokens, at) or (at and _is_optional(tokens, at - 1)):
            continue  # optional for the engine, which evaluates the whole condition again; still true for every row
        part += gap + token.text
        depth += {"(": 1, ")": -1}.get(token.symbol, 0)
    if part:
        yield part


def _is_optional(tokens: Sequence[Token], at: int) -> bool:
    return tokens[at].word == "OPTIONAL" and at + 1 < len(tokens) and tokens[at + 1].symbol == ":"


@dataclass(frozen=True, slots=True)
class _TreeReader:
    """Reads predicates from nodes of syntax trees; `ALWAYS_TRUE` for what is not understood.

    Parameters
    ----------
    columns
        The columns of the table, by the names that the tree has for them.
    values
        Of parameters.
    """

    columns: Mapping[str, str]
    values: Mapping[str, Any]

    def predicate(self, node: Mapping[str, Any]) -> Predicate:
        kind = str(node["type"])
        if kind == "CONJUNCTION_AND":
            return And(tuple(map(self.predicate, node["children"])))
        if kind == "CONJUNCTION_OR":
            return Or(tuple(map(self.predicate, node["children"])))
        if kind in _OPERATORS:
            return self._compared(node["left"], _OPERATORS[kind], node["right"])
        children: Sequence[dict[str, Any]] = node.get("children") or ()
        if kind == "COMPARE_BETWEEN":
            value = node["input"]
            return And((self._compared(value, ">=", node["lower"]), self._compared(value, "<=", node["upper"])))
        if kind == "FUNCTION" and node["function_name"] in _PREFIXES:
            text, prefix = _arguments(node)
            beginning, column = self._value(prefix), self._column(text)
            return starts_with(column, beginning) if column and isinstance(beginning, str) else ALWAYS_TRUE
        if kind == "COMPARE_IN" and (column := self._column(children[0])):
            values = tuple(map(self._value, children[1:]))
            return ALWAYS_TRUE if UNKNOWN in values else IsIn(column, values)
        if kind == "OPERATOR_IS_NULL" and (column := self._column(children[0])):
            return IsNull(column)
        return ALWAYS_TRUE

    def _compared(self, left: Mapping[str, Any], operator: ComparisonOperator, right: Mapping[str, Any]) -> Predicate:
        """Return the predicate of a column, on either side, and a value; or of a row of columns and one of values."""
        if operator == "=" and all(side.get("function_name") == "row" for side in (left, right)):
            pairs = zip(_arguments(left), _arguments(right), strict=False)
            return And(tuple(self._compared(one, "=", other) for one, other in pairs))
        return comparison_of(operator, *((self._column(each), self._value(each)) for each in (left, right)))

    def _column(self, node: Mapping[str, Any]) -> str | None:
        names = node.get("column_names", ())
        return self.columns.get(_folded(names[0])) if node.get("class") == "COLUMN_REF" and len(names) == 1 else None

    def _value(self, node: Mapping[str, Any]) -> Any:
        """Return the value of a whole number, a text, a blob, a date or a timestamp; `UNKNOWN` of anything else."""
        if node.get("class") == "PARAMETER":
            return self.values.get(node["identifier"], UNKNOWN)
        literal = node.get("literal") or {}
        if literal.get("kind") == "INTEGER":
            return int(literal["text"]) if len(literal["text"]) <= _MOST_DIGITS else UNKNOWN
        if literal.get("kind") == "STRING":
            return literal["text"]
        inner = (node.get("child") or {}).get("literal") or {}
        if node.get("class") != "CAST" or inner.get("kind") != "STRING":
            return UNKNOWN
        read = _LITERALS.get(str(node["type_expr"].get("type_name")).upper())
        try:
            return UNKNOWN if read is None else read(inner["text"])
        except ValueError:  # beyond the years 1 to 9999, or infinity
            return UNKNOWN


def _arguments(function: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*(each["expression"] for each in function.get("arguments", ())), *function.get("children", ())]


def _blob(text: str) -> bytes:
    return _HEX.sub(lambda found: chr(int(found[1], 16)), text).encode("latin-1")


_LITERALS: Final[Mapping[str, Callable[[str], Any]]] = {
    "BLOB": _blob,
    "DATE": date.fromisoformat,
    "TIMESTAMP WITH TIME ZONE": datetime.fromisoformat,
}
"""What reads the text of a constant, by its type; plans show timestamps with their distance from UTC."""


def _folded(name: str) -> str:
    """Return a name as DuckDB compares it: only the letters A to Z are the same in lower case."""
    return name.encode(errors="surrogatepass").lower().decode(errors="surrogatepass")


def plain_predicate(node: Mapping[str, Any], schema: Schema, values: Mapping[str, Any]) -> Predicate | None:
    """Return the predicate of a condition that compares columns only with whole numbers and texts of their own types.

    DuckDB would compute nothing there, so its plan would show the same. None of any other condition.
    """
    kinds = {field.name: field.type.name for field in schema.fields}
    try:
        if any("function_name" in each for each in tree_nodes(node)):  # which DuckDB may refuse
            return None
        found = _TreeReader({_folded(name): name for name in kinds}, values).predicate(node)
    except RecursionError:
        return None
    return found if _is_plain(found, kinds) else None


def _is_plain(predicate: Predicate, kinds: Mapping[str, str]) -> bool:
    if isinstance(predicate, And | Or):
        return predicate != ALWAYS_TRUE and all(_is_plain(part, kinds) for part in predicate.parts)
    if isinstance(predicate, IsNull):
        return True
    values = predicate.values if isinstance(predicate, IsIn) else (predicate.value,)
    return all(_is_of(value, kinds[predicate.column]) for value in values)


def _is_of(value: Any, kind: str) -> bool:
    if type(value) is str:
        return kind == "string" and not _HALVES.search(value)
    bits = _BITS.get(kind)
    return type(value) is int and bits is not None and -(1 << bits - 1) <= value < 1 << bits - 1
