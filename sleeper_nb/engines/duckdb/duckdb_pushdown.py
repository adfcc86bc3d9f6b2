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

OPERATORS: Final[Mapping[str, ComparisonOperator]] = {
    "COMPARE_EQUAL": "=", "COMPARE_LESSTHAN": "<", "COMPARE_LESSTHANOREQUALTO": "<=", "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}  # fmt: skip
MOST_DIGITS: Final = 40
"""No column holds a whole number with more digits; Python refuses to read one with thousands."""
_PREFIXES: Final = frozenset({"starts_with", "prefix", "^@"})
_HEX: Final = re.compile(r"\\x([0-9A-Fa-f]{2})")
_ROWS: Final = "rows of the scan"


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


def predicate_of(connection: duckdb.DuckDBPyConnection, condition: str, schema: Schema) -> Predicate:
    """Return what the rows of a table must meet at least to meet a condition, which was checked before.

    A condition on the time at which it is evaluated is not planned: each read evaluates it again.
    """
    statement = Statement.of(f'SELECT * FROM "{_ROWS}" WHERE (\n{condition}\n)', dialect="duckdb")  # noqa: S608 - judged before
    table = EmptyTable.of(0, schema.fields, Bound(statement, {}, ()).unused_mark)
    try:
        table.create(connection, _ROWS)
        nodes = tree_nodes(syntax_tree(connection, statement.text))
        if time_functions(map(last_name, nodes)) or unstable_function(nodes):
            return ALWAYS_TRUE
        found = push_down(connection, statement.text, {}, [table])
    except (duckdb.Error, RecursionError) as error:
        logger.debug("no partition is pruned by a condition: %s", error)
        return ALWAYS_TRUE
    return found.get(table.table, ALWAYS_TRUE)


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
    return And(tuple(ALWAYS_TRUE if node is None else _read(node, columns) for node in nodes))


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


def _read(node: Mapping[str, Any], columns: Mapping[str, str]) -> Predicate:
    """Return the predicate of a node of a syntax tree; `ALWAYS_TRUE` for one that is not understood."""
    kind = str(node["type"])
    if kind == "CONJUNCTION_AND":
        return And(tuple(_read(child, columns) for child in node["children"]))
    if kind == "CONJUNCTION_OR":
        return Or(tuple(_read(child, columns) for child in node["children"]))
    if kind in OPERATORS:
        return _compared(node, OPERATORS[kind], columns)
    children: Sequence[dict[str, Any]] = node.get("children") or ()
    if kind == "COMPARE_BETWEEN":
        low, high = ({"left": node["input"], "right": node[end]} for end in ("lower", "upper"))
        return And((_compared(low, ">=", columns), _compared(high, "<=", columns)))
    if kind == "FUNCTION" and node["function_name"] in _PREFIXES:
        text, prefix = _arguments(node)
        beginning, column = _value(prefix), _column(text, columns)
        return starts_with(column, beginning) if column and isinstance(beginning, str) else ALWAYS_TRUE
    if kind == "COMPARE_IN" and (column := _column(children[0], columns)):
        values = tuple(_value(child) for child in children[1:])
        return ALWAYS_TRUE if UNKNOWN in values else IsIn(column, values)
    if kind == "OPERATOR_IS_NULL" and (column := _column(children[0], columns)):
        return IsNull(column)
    return ALWAYS_TRUE


def _compared(node: Mapping[str, Any], operator: ComparisonOperator, columns: Mapping[str, str]) -> Predicate:
    """Return the predicate that compares a column, on either side, with a value, or a row of columns with values."""
    left, right = node["left"], node["right"]
    if operator == "=" and all(side.get("function_name") == "row" for side in (left, right)):
        pairs = zip(_arguments(left), _arguments(right), strict=False)
        return And(tuple(_compared({"left": one, "right": other}, "=", columns) for one, other in pairs))
    return comparison_of(operator, *((_column(each, columns), _value(each)) for each in (left, right)))


def _arguments(function: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*(each["expression"] for each in function.get("arguments", ())), *function.get("children", ())]


def _value(node: Mapping[str, Any]) -> Any:
    """Return the value of a whole number, a text, a blob, a date or a timestamp; `UNKNOWN` of anything else."""
    literal = node.get("literal") or {}
    if literal.get("kind") == "INTEGER":
        return int(literal["text"]) if len(literal["text"]) <= MOST_DIGITS else UNKNOWN
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


def _blob(text: str) -> bytes:
    return _HEX.sub(lambda found: chr(int(found[1], 16)), text).encode("latin-1")


_LITERALS: Final[Mapping[str, Callable[[str], Any]]] = {
    "BLOB": _blob,
    "DATE": date.fromisoformat,
    "TIMESTAMP WITH TIME ZONE": datetime.fromisoformat,
}
"""What reads the text of a constant, by its type; plans show timestamps with their distance from UTC."""


def _column(node: Mapping[str, Any], columns: Mapping[str, str]) -> str | None:
    names = node.get("column_names", ())
    return columns.get(names[0]) if node.get("class") == "COLUMN_REF" and len(names) == 1 else None
