"""Conditions on rows, in DuckDB's SQL: judged by its parser, checked against a schema, evaluated over Arrow batches."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self

import duckdb
import numpy as np
import pyarrow as pa

from sleeper_nb.engines.duckdb import condition_faults as faults
from sleeper_nb.engines.duckdb.database import connect_anew
from sleeper_nb.engines.duckdb.interrupts import interruptible
from sleeper_nb.engines.sql.tokens import DEEPEST, depth_of, tokenize
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations.scanning.conditions import Comparison
from sleeper_nb.operations.scanning.gathering import gathered

_ROWS: Final = "rows of the scan"
_NUMBER: Final = "number of the row"
"""Names with spaces, which no column has."""

_Sign = Literal["=", "<", "<=", ">", ">="]
_SIGNS: Final[Mapping[str, _Sign]] = {
    "COMPARE_EQUAL": "=", "COMPARE_LESSTHAN": "<", "COMPARE_LESSTHANOREQUALTO": "<=", "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}  # fmt: skip
_SWAPPED: Final[Mapping[str, _Sign]] = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

_SEPARATE: Final = {
    "SUBQUERY": "a subquery",
    "WINDOW": "a window function",
    "STAR": "a star",
    "POSITIONAL_REFERENCE": "the number of a column",
    "DEFAULT": "DEFAULT",
}
"""Parts of an expression that are about more than the values of one row."""

REPEATABLE: Final = frozenset({"error", "gen_random_uuid", "random", "uuid", "uuidv4", "uuidv7"})
"""Functions that DuckDB calls volatile and that change nothing: each row has a value of its own."""

REFUSED: Final = frozenset({
    "current_connection_id", "current_query", "current_query_id", "current_setting", "current_transaction_id",
    "currval", "getenv", "getvariable", "json_execute_serialized_sql", "json_serialize_plan", "nextval", "pg_sleep",
    "query", "query_table", "read_blob", "read_text", "set_config", "setseed", "setval", "sleep_ms", "stats",
    "txid_current", "vector_type", "write_log",
})  # fmt: skip
"""Functions that change something, wait, or tell about the session rather than the row."""


@dataclass(frozen=True, slots=True)
class DuckDBCondition:
    """A condition that was judged and checked; made by `of`.

    Parameters
    ----------
    text
        The condition, as the user wrote it.
    columns
        The columns of the schema that it names, and no others.
    schema
        The Arrow types of these columns.
    names
        All columns of the schema, for errors.
    necessary
        Comparisons that hold for every row that meets the condition.
    connect
        Returns a new connection.
    """

    text: str
    columns: frozenset[str]
    schema: pa.Schema
    names: tuple[str, ...]
    necessary: tuple[Comparison, ...]
    connect: Callable[[], duckdb.DuckDBPyConnection] = field(compare=False, repr=False)

    @classmethod
    def of(cls, text: str, schema: Schema, connect: Callable[[], duckdb.DuckDBPyConnection]) -> Self:
        """Judge a condition and check it against a schema; no row is read.

        Raises
        ------
        InvalidInput
            When it is not one boolean expression of one row of this schema: it cannot be read, names another column,
            compares what cannot be compared, or contains a subquery or a function that does more than compute.
        """
        with contextlib.closing(connect()) as connection:
            tree = _parsed(connection, text, schema.names)
            nodes = list(_nodes(tree))
            _judge(text, nodes)
            parts = {part.casefold() for node in nodes for part in node.get("column_names", ())}
            named = pa.schema([field for field in schema.arrow if field.name.casefold() in parts])
            _bind(connection, text, named, schema.names, nodes)
        return cls(
            text, frozenset(named.names), named, schema.names, tuple(dict.fromkeys(_necessary(tree, named))), connect
        )

    def elsewhere(self) -> Self:
        """Return the condition for tasks in other processes, which have no session: it can be pickled."""
        return replace(self, connect=connect_anew)

    @contextlib.contextmanager
    def opened(self) -> Iterator[OpenedCondition]:
        """Return the condition, ready for one read: all of it is one transaction, so `now()` has one value."""
        with contextlib.closing(self.connect()) as connection:
            connection.begin()
            yield OpenedCondition(self, connection)


@dataclass(frozen=True, slots=True)
class OpenedCondition:
    """A condition with a connection that evaluates it."""

    condition: DuckDBCondition
    connection: duckdb.DuckDBPyConnection

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it needs."""
        return self.condition.columns

    def met(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield those rows of a stream that meet the condition, in their order.

        DuckDB gets the named columns of a bounded number of rows at a time, and answers which rows to keep: the rows
        themselves stay as they were read.
        """
        for batch in gathered(batches):
            kept = self._kept(batch)
            if len(kept) == batch.num_rows:
                yield batch
            elif len(kept):
                mask = np.zeros(batch.num_rows, bool)
                mask[kept] = True
                yield batch.filter(pa.array(mask))

    def _kept(self, batch: pa.RecordBatch) -> Any:
        """Return the places of the rows that meet the condition, in any order."""
        schema, numbers = self.condition.schema, pa.array(np.arange(batch.num_rows))
        columns = [batch[each.name].cast(each.type) for each in schema]
        rows = pa.table([*columns, numbers], names=[*schema.names, _NUMBER])
        self.connection.register(_ROWS, rows)
        try:
            query = _select(self.condition.text)
            found = interruptible(self.connection, lambda: self.connection.sql(query).to_arrow_table())
        except duckdb.Error as error:
            raise faults.explained("compute", self.condition.text, error, self.condition.names) from error
        self.connection.unregister(_ROWS)
        return found[_NUMBER].to_numpy()


def _select(text: str) -> str:
    """Return the query for the rows that meet a condition, which may end in a comment."""
    return f'SELECT "{_NUMBER}" FROM "{_ROWS}" WHERE (\n{text}\n)'  # noqa: S608 - judged by `_parsed`


def _parsed(connection: duckdb.DuckDBPyConnection, text: str, names: tuple[str, ...]) -> Any:
    """Return DuckDB's own syntax tree of a condition.

    The text must be an expression by itself, which nothing can close early, and the whole condition of a query.
    """
    _check_depth(text)
    try:
        duckdb.SQLExpression(text)
        serialized = connection.sql(
            "SELECT json_serialize_sql($query)", params={"query": f"SELECT 1 WHERE (\n{text}\n)"}
        ).fetchall()[0][0]
        tree = json.loads(serialized)
    except duckdb.Error as error:
        raise faults.explained("read", text, error, names) from error
    except RecursionError as error:
        raise faults.refused(text, "it is nested too deeply", "join its parts by AND and OR, or use IN") from error
    if tree["error"]:
        raise faults.explained("read", text, duckdb.Error(tree["error_message"]), names)
    return tree["statements"][0]["node"]["where_clause"]


def _check_depth(text: str) -> None:
    try:
        depth = depth_of(tokenize(text, dialect="duckdb"))
    except InvalidInput:  # a quote is never closed: DuckDB says so better
        depth = max(map(text.count, "([{"))
    if depth > DEEPEST:
        message = f"it has more than {DEEPEST} brackets inside each other"
        raise faults.refused(text, message, "join its parts by AND and OR, or use IN")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all nodes of a syntax tree; a loop, as one may join thousands of comparisons."""
    waiting = [tree]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            if "class" in here:
                yield here
            waiting.extend(here.values())
        elif isinstance(here, list):
            waiting.extend(here)


def _necessary(tree: Mapping[str, Any], schema: pa.Schema) -> Iterator[Comparison]:
    """Yield the comparisons that are joined by AND, of columns of whole numbers or texts with literals of the same."""
    columns = {field.name.casefold(): field for field in schema}
    for node in tree["children"] if tree["type"] == "CONJUNCTION_AND" else [tree]:
        left, right, sign = node.get("left", {}), node.get("right", {}), _SIGNS.get(node["type"])
        if "literal" in left:
            left, right, sign = right, left, _SWAPPED.get(sign or "")
        field, literal = columns.get(".".join(left.get("column_names", ())).casefold()), right.get("literal", {})
        if sign is None or field is None:
            continue
        if pa.types.is_integer(field.type) and literal.get("kind") == "INTEGER":
            if -(2**63) <= (value := int(literal["text"])) < 2**63:
                yield Comparison(field.name, sign, value)
        elif pa.types.is_string(field.type) and literal.get("kind") == "STRING":
            yield Comparison(field.name, sign, literal["text"])


def _judge(text: str, nodes: Iterable[Mapping[str, Any]]) -> None:
    """Raise for a condition that is more than a computation on the values of one row."""
    for node in nodes:
        kind, name = node["class"], str(node.get("function_name", "")).lower()
        if kind in _SEPARATE:
            raise faults.refused(text, f"a condition cannot have {_SEPARATE[kind]}", faults.USE_SQL)
        if kind == "PARAMETER":
            raise faults.without_value(text, f"${node['identifier']}" if node["identifier"] != "1" else "?")
        if name in REFUSED:
            raise faults.refused(text, f"function {name!r} is not allowed in a condition", "compute with columns only")


def _bind(
    connection: duckdb.DuckDBPyConnection,
    text: str,
    schema: pa.Schema,
    names: tuple[str, ...],
    nodes: Iterable[Mapping[str, Any]],
) -> None:
    """Raise for a condition that fails whatever rows there are."""
    rows = schema.append(pa.field(_NUMBER, pa.int64())).empty_table()
    connection.register(_ROWS, rows)
    try:
        connection.sql(_select(text))
        kind = str(connection.sql(f'SELECT (\n{text}\n) FROM "{_ROWS}"').types[0])  # noqa: S608
        types = {name.casefold(): str(of) for name, of in _types(connection)}
    except duckdb.Error as error:
        raise faults.explained("read", text, error, names) from error
    if kind not in {"BOOLEAN", '"NULL"'}:
        message = f"it is a value of type {faults.plain_type(kind)}, not true or false"
        raise faults.refused(text, message, faults.COMPARE)
    for value, of in _literals(nodes, types):
        try:
            connection.sql(f"SELECT CAST($value AS {of})", params={"value": value}).fetchall()
        except duckdb.Error as error:
            raise faults.no_value(text, value, of) from error


def _types(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, Any]]:
    rows = connection.sql(f'FROM "{_ROWS}"')
    return zip(rows.columns, rows.types, strict=True)


def _literals(nodes: Iterable[Mapping[str, Any]], types: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the texts that a condition compares with a column, each with the type of the column.

    DuckDB reads them as values of that type, and fails with the first row when they are none.
    """
    for node in nodes:
        operands = [node[part] for part in ("left", "right", "input", "lower", "upper") if part in node]
        operands += node["children"] if node["type"] == "COMPARE_IN" else []
        names = [names[0] for each in operands if len(names := each.get("column_names", ())) == 1]
        texts = [each["literal"]["text"] for each in operands if each.get("literal", {}).get("kind") == "STRING"]
        kinds = {types.get(name.casefold(), "VARCHAR") for name in names}
        # with a value of a third type among them, DuckDB compares all as what all can be
        if len(names) + len(texts) == len(operands) and len(kinds) == 1 and "VARCHAR" not in kinds:
            yield from ((text, *kinds) for text in texts)
