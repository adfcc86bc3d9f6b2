"""Conditions on rows, in DuckDB's SQL: parsed by DuckDB, checked against a schema, evaluated over Arrow batches.

A condition is one boolean expression of one row. It is refused before any row is read when it is not, when it does not
fit the schema, or when it contains a subquery or a function that does more than compute.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Self

import duckdb
import numpy as np
import pyarrow as pa

from sleeper_nb.engines.duckdb.database import Database, connect_anew
from sleeper_nb.engines.duckdb.duckdb_errors import advised
from sleeper_nb.engines.duckdb.duckdb_pushdown import ROWS_OF_SCAN, EmptyTable, plain_predicate, predicate_of
from sleeper_nb.engines.duckdb.interrupts import fetched, interruptible
from sleeper_nb.engines.duckdb.relations import columns_of
from sleeper_nb.engines.duckdb.syntax_tree import syntax_tree, tree_nodes
from sleeper_nb.engines.undisturbed import undisturbed
from sleeper_nb.errors import Action, Hint, InvalidInput, NotFound
from sleeper_nb.model.schema import Field, FieldType, Schema
from sleeper_nb.read.predicate import ALWAYS_TRUE, And, Predicate
from sleeper_nb.read.read_rows import coalesced
from sleeper_nb.sql.tokens import DEEPEST, DUCKDB_RESERVED, depth_of, tokenize

_NUMBER: Final = "number of the row"
"""With spaces, so that no column has the name."""

_SEPARATE: Final = {
    "WINDOW": "a window function",
    "STAR": "a star",
    "POSITIONAL_REFERENCE": "the number of a column",
    "DEFAULT": "DEFAULT",
}
"""Parts of an expression that need more than the values of one row."""

REFUSED: Final = frozenset({
    "current_connection_id", "current_query", "current_query_id", "current_setting", "current_transaction_id",
    "currval", "getenv", "getvariable", "json_execute_serialized_sql", "json_serialize_plan", "nextval", "pg_sleep",
    "query", "query_table", "read_blob", "read_text", "set_config", "setseed", "setval", "sleep_ms", "stats",
    "txid_current", "vector_type", "write_log",
})  # fmt: skip
"""Functions that change something, wait, or depend on the session rather than the row."""


@dataclass(frozen=True, slots=True)
class DuckDBCondition:
    """A condition that was parsed and checked; `of` makes it.

    Parameters
    ----------
    columns
        The columns of the schema that it names, and no others.
    schema
        The Arrow types of these columns.
    names
        All columns of the schema, for errors.
    predicate
        What a row must meet at least, to choose partitions and files.
    """

    text: str
    columns: frozenset[str]
    schema: pa.Schema
    names: tuple[str, ...]
    connect: Callable[[], duckdb.DuckDBPyConnection] = field(compare=False, repr=False)
    predicate: Predicate = field(default=ALWAYS_TRUE, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        text: str,
        schema: Schema,
        database: Database,
        *,
        repeatable: bool = False,
        planned: bool = True,
    ) -> Self:
        """Parse a condition and check it against a schema; no row is read, and no database is opened for it.

        With `repeatable`, it is also refused when it may be another for the same row later, as with ``now()``. Its
        `predicate` is whole only if it is `planned`.

        Raises
        ------
        InvalidInput
            When it is not one boolean expression of one row of this schema: it cannot be read, names another column,
            compares what cannot be compared, or contains a subquery or a function that does more than compute.
        """
        with contextlib.closing(database.connect_planning()) as connection:
            tree = _parsed(connection, text, schema.names)
            nodes = [node for node in tree_nodes(tree) if "class" in node]
            _judge(text, nodes)
            if repeatable:
                _check_repeatable(text, nodes, schema.names)
            words = {word.casefold() for node in nodes for word in node.get("column_names", ())}
            named = pa.schema([field for field in schema.arrow if field.name.casefold() in words])
            parts = tree["children"] if tree["type"] == "CONJUNCTION_AND" else [tree]
            plain = dict.fromkeys(plain_predicate(part, schema, {}) for part in parts)
            predicate = And(tuple(part for part in plain if part is not None))
            if None in plain:
                fields = _as_read(schema)
                table = EmptyTable.of_condition(text, fields)
                table.create(connection, ROWS_OF_SCAN)
                _bind(connection, text, fields, nodes)
                if planned:
                    predicate = And((predicate, predicate_of(connection, text, table, nodes)))
        return cls(text, frozenset(named.names), named, schema.names, database.connect_confined, predicate)

    @classmethod
    def broken(cls, text: str, schema: Schema, database: Database, *, planned: bool) -> Self:
        """Return the condition that rows meet for which a CHECK is false; errors as of `of`, about the CHECK itself."""
        cls.of(text, schema, database, repeatable=True, planned=False)  # so no bracket in it ends the NOT
        return cls.of(f"NOT (\n{text}\n)", schema, database, planned=planned)

    def picklable(self) -> Self:
        """Return the condition for tasks in other processes, which have no session; it can be pickled."""
        return replace(self, connect=connect_anew)

    @contextlib.contextmanager
    def opened(self) -> Iterator[OpenedCondition]:
        """Return the condition, ready for one read: the read is one transaction, so `now()` has one value."""
        with contextlib.closing(self.connect()) as connection:
            fetched(connection, "BEGIN")
            yield OpenedCondition(self, connection)


@dataclass(frozen=True, slots=True)
class OpenedCondition:
    """A condition with a connection that evaluates it."""

    condition: DuckDBCondition
    connection: duckdb.DuckDBPyConnection

    @property
    def columns(self) -> frozenset[str]:
        return self.condition.columns

    def filter(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a stream that meet the condition, in their order.

        DuckDB gets the named columns of a bounded number of rows at a time, and returns which rows to keep: the rows
        themselves stay as they were read.
        """
        for batch in coalesced(batches):
            kept = self._kept(batch)
            if len(kept) == batch.num_rows:
                yield batch
            elif len(kept):
                mask = np.zeros(batch.num_rows, bool)
                mask[kept] = True
                yield batch.filter(pa.array(mask))

    def _kept(self, batch: pa.RecordBatch) -> Any:
        schema, numbers = self.condition.schema, pa.array(np.arange(batch.num_rows))
        columns = [batch[each.name].cast(each.type) for each in schema]
        rows = pa.table([*columns, numbers], names=[*schema.names, _NUMBER])
        try:
            return interruptible(self.connection, lambda: self._kept_of(rows))
        except duckdb.Error as error:
            raise _translated("compute", self.condition.text, error, self.condition.names) from error

    def _kept_of(self, rows: pa.Table) -> Any:
        self.connection.register(ROWS_OF_SCAN, rows)
        kept = self.connection.sql(_select(self.condition.text)).to_arrow_table()
        self.connection.unregister(ROWS_OF_SCAN)
        return kept[_NUMBER].to_numpy()


def _select(text: str) -> str:
    """Return the query for the rows that meet a condition, which may end in a comment."""
    return f'SELECT "{_NUMBER}" FROM "{ROWS_OF_SCAN}" WHERE (\n{text}\n)'  # noqa: S608 - judged by `_parsed`


@undisturbed()
def _parsed(connection: duckdb.DuckDBPyConnection, text: str, names: tuple[str, ...]) -> Any:
    """Return DuckDB's own syntax tree of a condition.

    The text must be an expression by itself, so that no bracket in it can end the condition early.
    """
    _check_depth(text)
    try:
        duckdb.SQLExpression(text)
        tree = syntax_tree(connection, f"SELECT 1 WHERE (\n{text}\n)")
    except duckdb.Error as error:
        raise _translated("read", text, error, names) from error
    except RecursionError as error:
        raise _condition_error(text, "it is nested too deeply", "join its parts by AND and OR, or use IN") from error
    if tree["error"]:
        raise _translated("read", text, duckdb.Error(tree["error_message"]), names)
    return tree["statements"][0]["node"]["where_clause"]


def _check_depth(text: str) -> None:
    try:
        depth = depth_of(tokenize(text, dialect="duckdb"))
    except InvalidInput:  # a quote is never closed: DuckDB's error is better
        depth = max(map(text.count, "([{"))
    if depth > DEEPEST:
        message = f"it has more than {DEEPEST} brackets inside each other"
        raise _condition_error(text, message, "join its parts by AND and OR, or use IN")


def _judge(text: str, nodes: Iterable[Mapping[str, Any]]) -> None:
    for node in nodes:
        kind, name = node["class"], str(node.get("function_name", "")).lower()
        if kind == "SUBQUERY":
            raise _subquery_error(text, node)
        if kind in _SEPARATE:
            raise _condition_error(text, f"a condition cannot have {_SEPARATE[kind]}", _USE_SQL)
        if kind == "PARAMETER":
            raise _parameter_error(text, f"${node['identifier']}" if node["identifier"] != "1" else "?")
        if name in REFUSED:
            raise _condition_error(
                text, f"function {name!r} is not allowed in a condition", "compute with columns only"
            )


def _check_repeatable(text: str, nodes: Iterable[Mapping[str, Any]], names: Iterable[str]) -> None:
    """Raise for a condition with the time, a random value, or anything else that is not only of the row."""
    changing = _changing_names() | _OF_NOW
    columns = {name.casefold() for name in names}
    for node in nodes:
        name = str(node.get("function_name", "")).casefold()
        if len(words := node.get("column_names", ())) == 1 and words[0].casefold() not in columns:
            name = words[0].casefold()  # a function without brackets: current_date
        if name in changing or (name == "age" and len(node["arguments"]) == 1):
            message = f"{name!r} has another value later or elsewhere"
            raise _condition_error(text, message, "compute with the columns of the row and constants only")


_CHANGING: Final = """
    SELECT function_name FROM duckdb_functions()
    WHERE (function_type = 'scalar' AND stability <> 'CONSISTENT')
       OR (function_type = 'macro' AND regexp_matches(macro_definition, 'current_|now\\(|random|setting|session'))
"""


@functools.cache  # they are those of every connection, and finding them takes longer than all else about a condition
def _changing_names() -> frozenset[str]:
    with contextlib.closing(connect_anew()) as connection:
        return frozenset(name for (name,) in fetched(connection, _CHANGING))


_OF_NOW: Final = frozenset({
    "current_catalog", "current_database", "current_date", "current_localtime", "current_localtimestamp",
    "current_role", "current_schema", "current_time", "current_timestamp", "current_user", "localtime",
    "localtimestamp", "session_user", "user",
})  # fmt: skip
"""Functions of the moment or the session that DuckDB does not list as such; most are written without brackets."""


def _as_read(schema: Schema) -> tuple[Field, ...]:
    """Return the fields with the types of the Arrow rows that are judged, in which a UUID is a text."""
    return tuple(replace(each, type=FieldType.from_arrow(each.type.arrow)) for each in schema.fields)


@undisturbed()
def _bind(
    connection: duckdb.DuckDBPyConnection, text: str, fields: Sequence[Field], nodes: Iterable[Mapping[str, Any]]
) -> None:
    try:
        connection.sql(f'SELECT 1 FROM "{ROWS_OF_SCAN}" WHERE (\n{text}\n)')  # noqa: S608 - judged before
        kind = str(connection.sql(f'SELECT (\n{text}\n) FROM "{ROWS_OF_SCAN}"').types[0])  # noqa: S608
    except duckdb.Error as error:
        raise _translated("read", text, error, tuple(field.name for field in fields)) from error
    if kind not in {"BOOLEAN", '"NULL"'}:
        message = f"it is a value of type {type_name(kind)}, not true or false"
        raise _condition_error(text, message, _COMPARE)
    types = {name.casefold(): of for name, of in columns_of(fields)}
    for value, of in _literals(nodes, types):
        try:
            connection.sql(f"SELECT CAST($value AS {of})", params={"value": value}).fetchall()
        except duckdb.Error as error:
            raise _no_value_error(text, value, of) from error


def _literals(nodes: Iterable[Mapping[str, Any]], types: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the texts that a condition compares with a column, each with the type of the column.

    DuckDB casts them to that type, and fails at the first row when it cannot.
    """
    for node in nodes:
        operands = [node[part] for part in ("left", "right", "input", "lower", "upper") if part in node]
        operands += node["children"] if node["type"] == "COMPARE_IN" else []
        names = [names[0] for each in operands if len(names := each.get("column_names", ())) == 1]
        texts = [each["literal"]["text"] for each in operands if each.get("literal", {}).get("kind") == "STRING"]
        kinds = {types.get(name.casefold(), "VARCHAR") for name in names}
        # with a value of a third type among them, DuckDB casts all to a common type
        if len(names) + len(texts) == len(operands) and len(kinds) == 1 and "VARCHAR" not in kinds:
            yield from ((text, *kinds) for text in texts)


# Errors of conditions: what is wrong and what to write instead. What DuckDB says of values is said as it is in SQL.

_USE_SQL: Final = "use sql; a condition sees one row at a time"
_COMPARE: Final = "compare it with something: dep_delay > 60"
_IN_SQL: Final = "write it in SQL: dep_delay > 60 and origin = 'JFK'"
_CAST: Final = "cast it: cast(… as double)"
_LONGEST: Final = 160

_TYPES: Final = {
    "INTEGER": "int", "INT32": "int", "BIGINT": "long", "INT64": "long", "VARCHAR": "string", "BLOB": "bytearray",
    "TIMESTAMP WITH TIME ZONE": "timestamp", "TIMESTAMPTZ": "timestamp", "INTEGER_LITERAL": "int",
    "STRING_LITERAL": "string",
}  # fmt: skip
_EXAMPLES: Final = {
    "int": "60", "long": "60", "double": "1.5", "float": "1.5", "decimal": "1.5", "boolean": "true",
    "date": "DATE '2026-01-31'", "timestamp": "TIMESTAMPTZ '2026-01-31 12:00:00Z'",
}  # fmt: skip


class _Fault(NamedTuple):
    message: str
    hint: Hint


def _condition_error(where: str, message: str, hint: Hint, verb: str = "read") -> InvalidInput:
    shown = where if len(where) <= _LONGEST else f"{where[: _LONGEST - 1]}…"
    return InvalidInput(f"cannot {verb} the condition {shown!r}: {message}", hint=hint)


def _subquery_error(where: str, node: Mapping[str, Any]) -> InvalidInput:
    """Return the error of a subquery in a condition; DuckDB makes one of a list after ANY or ALL too."""
    select = node["subquery"]["node"]
    is_list = [str(each.get("function_name")).lower() for each in select.get("select_list", ())] == ["unnest"]
    if is_list and select["from_table"]["type"] == "EMPTY":
        hint = "write n IN (1, 2), or list_contains(numbers, n)"
        return _condition_error(where, "a condition cannot have ANY or ALL", hint)
    return _condition_error(where, "a condition cannot have a subquery", "use sql: SELECT … WHERE … may have one")


def _parameter_error(where: str, name: str) -> InvalidInput:
    return _condition_error(
        where, f"{name} has no value here", f"write the value; or use sql, where {name} is given one"
    )


def _no_value_error(where: str, value: str, kind: str) -> InvalidInput:
    word = type_name(kind)
    example = _EXAMPLES.get(word.partition("(")[0])
    return _condition_error(
        where, f"{value!r} is not a value of type {word}", f"write one: {example}" if example else _CAST
    )


def type_name(kind: str) -> str:
    """Return our name for a type of DuckDB: ``list<int>`` for ``INTEGER[]``."""
    if kind.endswith("[]"):
        return f"list<{type_name(kind[:-2])}>"
    if entries := re.fullmatch(r"MAP\((\w+(?:\([\d,]+\))?), (.+)\)", kind):
        return f"map<{type_name(entries[1])},{type_name(entries[2])}>"
    return _TYPES.get(kind, kind.lower())


def _translated(verb: str, where: str, error: Exception, names: Sequence[str]) -> InvalidInput:
    """Return our error for a condition that DuckDB refused to ``"read"``, or to ``"compute"`` for some row."""
    return _condition_error(where, *_fault(str(error), where, names), verb)


def _fault(text: str, where: str, names: Sequence[str]) -> _Fault:
    for pattern, translate in _KNOWN:
        if match := pattern.search(text):
            return translate(match, where, names)
    for pattern, message, hint in _SAID:
        if match := pattern.search(text):
            return _Fault(message.format(*match.groups()), hint)
    message, advice = advised(text.splitlines()[0])
    hint = _CAST if _OF_TYPES.search(message) else _IN_SQL
    sentence = _KIND.sub("", message).partition(". ")[0].rstrip(".")
    return _Fault(sentence if len(sentence) <= _LONGEST else f"{sentence[: _LONGEST - 1]}…", advice or hint)


_OF_TYPES: Final = re.compile(r"argument types|Cannot compare values")
_KIND: Final = re.compile(r"^(?:[\w ]+ Error: )+")


def _syntax(match: re.Match[str], where: str, names: Sequence[str]) -> _Fault:
    parameter = re.search(r"(?<!:):(\w+)", where) if match[1] == ":" else None
    if parameter:
        name = parameter[0]
        return _Fault(f"{name} has no value here", f"write the value; or use sql, where {name} is given one")
    message = f"syntax error at {match[1]!r}"
    words = {word.casefold() for word in re.findall(r'(?<!["\'\w])[^\W\d]\w*(?!["\'\w])', where)}
    for name in names:
        if name.casefold() in words and name.upper() in DUCKDB_RESERVED:
            return _Fault(message, f'{name} is a word of SQL; write the column in quotes: "{name}"')
    return _Fault(message, _IN_SQL)


def _no_column(match: re.Match[str], where: str, names: Sequence[str]) -> _Fault:
    near = NotFound.of("column", match[1], names)
    compared = re.search(rf"(\w+)\s*([=<>!]+)\s*{re.escape(match[1])}(?!\w)", where)
    if compared and compared[1] in names and not difflib.get_close_matches(match[1], names):
        instead = f"{compared[1]} {compared[2]} '{match[1]}'"
        as_text = Action(f'--where "{instead}"', f"where={instead!r}")
        return _Fault(near.message, (f"if {match[1]} is a text, write it in quotes: ", as_text))
    return _Fault(near.message, near.hint_parts or _IN_SQL)


def _no_table(match: re.Match[str], where: str, names: Sequence[str]) -> _Fault:
    full = re.search(rf'"?{re.escape(match[1])}"?\s*\.\s*"?(\w+)', where)
    near = NotFound.of("column", f"{match[1]}.{full[1]}" if full else match[1], names)
    return _Fault(near.message, near.hint_parts or _IN_SQL)


def _no_function(match: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    near = difflib.get_close_matches(match[1], [match[2] or ""])
    instead = f"did you mean {near[0]!r}? " if near else ""
    return _Fault(f"no function {match[1]!r}", f"{instead}functions are those of DuckDB")


_KNOWN: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str, Sequence[str]], _Fault]], ...]] = (
    (re.compile(r'syntax error at or near "(.*?)"(?:\n|$)'), _syntax),
    (re.compile(r'Referenced column "(.+?)" not found'), _no_column),
    (re.compile(r'Referenced table "(.+?)" not found'), _no_table),
    (re.compile(r'Function with name "?(\S+?)"? does not exist!(?:\s+Did you mean "([^"]*)")?'), _no_function),
)
_SAID: Final = (
    (re.compile(r"is not an expression list: it holds (.+)"), "a condition cannot have {}", _IN_SQL),
    (
        re.compile(r"only a single expression to SQLExpression, found (\d+)"),
        "it is {} expressions, separated by commas",
        "join them with AND or OR",
    ),
    (re.compile(r"SELECT clause without selection list"), "it is empty", _IN_SQL),
    (
        re.compile(r"WHERE clause cannot contain (aggregates|window functions)"),
        "a condition sees one row; {} need many",
        "use sql: GROUP BY … HAVING, or QUALIFY",
    ),
)
"""What DuckDB says that is about whole queries, and what it means for a condition."""
