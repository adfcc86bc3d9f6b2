"""Which statements DuckDB may run: those that only read, as DuckDB's own parser sees them; and which files they name.

The parser's tree is compared with lists of what reads: any other statement, node of a query or table function is
refused, also one that a later DuckDB adds. The text that was judged is the text that is run.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.engines.duckdb.interrupts import fetched, interruptible
from sleeper_nb.engines.duckdb.syntax_tree import last_name, syntax_tree, time_functions, tree_nodes, unstable_function
from sleeper_nb.engines.undisturbed import undisturbed
from sleeper_nb.errors import InvalidInput
from sleeper_nb.last_used import LastUsed
from sleeper_nb.sql.references import NOT_ALONE, end_of_explain, no_call, no_query, no_query_begins_with
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import unquote
from sleeper_nb.storage.local_files import absolute, as_pattern, check_outside, no_local_files

if TYPE_CHECKING:
    import duckdb

_NODES: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
"""The kinds of queries that read."""

FILE_FUNCTIONS: Final = frozenset({
    "read_csv", "read_csv_auto", "sniff_csv", "read_json", "read_json_auto", "read_json_objects",
    "read_json_objects_auto", "read_ndjson", "read_ndjson_auto", "read_ndjson_objects", "read_parquet", "parquet_scan",
    "parquet_metadata", "parquet_file_metadata", "parquet_full_metadata", "parquet_kv_metadata", "parquet_schema",
    "parquet_bloom_probe", "read_text", "read_blob", "glob",
})  # fmt: skip
"""The table functions that open files."""

_TABLE_FUNCTIONS: Final = FILE_FUNCTIONS | {
    "range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree", "summary", "histogram",
    "histogram_values", "test_all_types", "icu_calendar_names", "pg_timezone_names", "duckdb_approx_database_count",
    "duckdb_columns", "duckdb_constraints", "duckdb_databases", "duckdb_dependencies", "duckdb_extensions",
    "duckdb_functions", "duckdb_indexes", "duckdb_keywords", "duckdb_memory", "duckdb_optimizers", "duckdb_schemas",
    "duckdb_sequences", "duckdb_settings", "duckdb_tables", "duckdb_temporary_files", "duckdb_types",
    "duckdb_variables", "duckdb_views", "pragma_collations", "pragma_database_size", "pragma_platform", "pragma_show",
    "pragma_storage_info", "pragma_table_info", "pragma_user_agent", "pragma_version",
}  # fmt: skip
_EFFECTS: Final = frozenset({
    "getenv", "nextval", "pg_sleep", "set_config", "setseed", "setval", "sleep_ms", "write_log",
})  # fmt: skip
"""Scalar functions that change something, wait, or reveal the process."""

_CONDITIONS: Final = ("where_clause", "having", "qualify", "condition")
"""Where a node of a query has its condition."""

_CHANGES_ROWS: Final = ("sample", "at_clause", "column_name_alias")
"""What a node of a table can have that changes its rows or the names of its columns."""

_CHANGES: Final = frozenset({
    "ALTER", "ANALYZE", "ATTACH", "CALL", "CHECKPOINT", "COPY", "CREATE", "DELETE", "DETACH", "DROP", "EXECUTE",
    "EXPORT", "IMPORT", "INSERT", "INSTALL", "LOAD", "MERGE", "PRAGMA", "PREPARE", "RESET", "SET", "TRUNCATE", "UPDATE",
    "USE", "VACUUM",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Query:
    """A statement that only reads.

    Parameters
    ----------
    text
        The statement, to be run as it is.
    asked
        The query in it: the statement without ``EXPLAIN``.
    files
        The paths and patterns of the files that it may read, as written, with table names that look like a file's.
    parameters
        The parameters whose values are such paths.
    is_eager
        Whether it reads rows before its columns are known.
    columns
        The names in it that may be columns, in lower case; None when it may read all columns.
    is_partial
        Whether a condition or a limit in it may leave rows unread.
    time_functions
        The functions in it that return the time.
    has_conditions
        Whether it has a condition, be it of a join.
    unstable
        A function in it whose value another execution may change, besides the time; "" for none.
    selection
        Its node of a syntax tree, if all that it reads is the rows of one table that meet its ``WHERE``.
    """

    text: str
    asked: str
    files: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    is_eager: bool = False
    columns: frozenset[str] | None = None
    is_partial: bool = False
    time_functions: frozenset[str] = frozenset()
    has_conditions: bool = False
    unstable: str = ""
    selection: Mapping[str, Any] | None = field(default=None, compare=False)

    @property
    def why_not_planned(self) -> str:
        """Why it cannot be planned in another database, where no file is opened; "" when it can."""
        if self.is_eager:
            return "a PIVOT finds its columns itself"
        if self.unstable:
            return f"another execution may give {self.unstable}() another value"
        return "the statement also reads files" if self.reads_files else ""

    @property
    def reads_files(self) -> bool:
        return bool(self.files or self.parameters)

    def picked(self, columns: Sequence[str]) -> list[str] | None:
        """Return which columns of a table it may read, at least one; None for all."""
        if self.columns is None:
            return None
        return [name for name in columns if name.lower() in self.columns] or list(columns[:1])

    def reads_most_of(self, columns: Sequence[str]) -> bool:
        """Return whether it reads all rows of a table, and at least half of its columns."""
        if self.is_partial:
            return False
        read = columns if self.columns is None else [name for name in columns if name.lower() in self.columns]
        return 2 * len(read) >= len(columns)


@dataclass(frozen=True, slots=True)
class JudgedStatement:
    """A statement and the views that it reads: none of them does more than that."""

    queries: Mapping[str, Query]

    def of(self, statement: Statement) -> Query:
        return self.queries[statement.text]

    @property
    def time_functions(self) -> frozenset[str]:
        return frozenset[str]().union(*(query.time_functions for query in self.queries.values()))

    @property
    def is_eager(self) -> bool:
        return any(query.is_eager for query in self.queries.values())

    @property
    def has_conditions(self) -> bool:
        return any(query.has_conditions for query in self.queries.values())

    @property
    def why_not_planned(self) -> str:
        """Why they cannot be planned where no file is opened; "" when they can."""
        return next(filter(None, (query.why_not_planned for query in self.queries.values())), "")

    def files(
        self, connect: Callable[[], duckdb.DuckDBPyConnection], values: Mapping[str, Any], *, allowed: bool
    ) -> set[str]:
        """Return the files that they name; parameters and errors as of `named_files`."""
        return {
            path for query in self.queries.values() for path in named_files(connect, query, values, allowed=allowed)
        }


class JudgedQueries:
    """Judges statements as `judged`, and remembers those that it judged last: most are run again."""

    def __init__(self) -> None:
        self._kept = LastUsed[str, Query](_MOST_KEPT)

    def of(self, connect: Callable[[], duckdb.DuckDBPyConnection], statement: Statement) -> Query:
        """Return a statement and the files that it reads, if reading is all that it does.

        It connects only to judge a statement that is not remembered.
        """
        text = statement.text
        if len(text) > _LONGEST_KEPT:
            return judged(connect(), statement)
        return self._kept.put(text, self._kept.get(text) or judged(connect(), statement))


_MOST_KEPT: Final = 256
_LONGEST_KEPT: Final = 4_000


def judged(connection: duckdb.DuckDBPyConnection, statement: Statement) -> Query:
    """Return a statement, and the files that it reads, if reading is all that it does.

    Parameters
    ----------
    connection
        Whose parser judges; nothing is run.

    Raises
    ------
    InvalidInput
        When it could change anything, naming the word or function; there is none, or more than one.
    duckdb.ParserException
        When DuckDB cannot read it.
    """
    end = end_of_explain(statement)
    explain = "".join(f"{token.text} " for token in statement.tokens[:end])  # without comments between the words
    explained = statement.after(end) if end else statement
    _check_beginning(explained)
    try:
        tree = syntax_tree(connection, explained.text)
    except RecursionError as error:
        raise InvalidInput("the statement is nested too deeply", hint="use WITH, or IN instead of many ORs") from error
    if tree.get("error_type") == "parser":
        with undisturbed():
            connection.extract_statements(explained.text)  # raises, and says where
    if tree["error"]:
        return _without_tree(connection, explain, explained)
    if len(tree["statements"]) != 1:
        problem = "there is more than one statement" if tree["statements"] else "there is no query"
        raise InvalidInput(problem, hint=NOT_ALONE)
    nodes = tree_nodes(tree)
    names = frozenset(map(last_name, nodes))
    files, parameters = _files(nodes)
    only_planned = bool(explain) and "ANALYZE" not in explain.upper()
    is_partial = only_planned or _may_leave_rows(nodes)
    return Query(
        explain + explained.text,
        explained.text,
        files,
        parameters,
        columns=_columns(nodes),
        is_partial=is_partial,
        time_functions=time_functions(names),
        has_conditions=any(map(_has_condition, nodes)),
        unstable=unstable_function(nodes),
        selection=_selection(tree["statements"][0]["node"], nodes),
    )


def _selection(query: Mapping[str, Any], nodes: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the node of a query that reads one table once, with a ``WHERE`` as its only condition; None of another."""
    table = query.get("from_table") or {}
    queries = [each for each in nodes if str(each.get("type")).endswith("_NODE")]
    is_single = query["type"] == "SELECT_NODE" and len(queries) == 1
    is_plain = table.get("type") == "BASE_TABLE" and not any(table.get(key) for key in _CHANGES_ROWS)
    has_where = [key for key in _CONDITIONS if query.get(key) is not None] == ["where_clause"]
    return query if is_single and is_plain and has_where and not query.get("sample") else None


def _has_condition(node: Mapping[str, Any]) -> bool:
    """Return whether a node of a query has a condition, also that of a join by the names of columns."""
    written = [key for key in _CONDITIONS if node.get(key) is not None]
    return bool(written) or bool(node.get("using_columns")) or node.get("ref_type") == "NATURAL"


def _check_beginning(statement: Statement) -> None:
    """Raise for a statement whose first word shows that it is no query, in better words than the parser's."""
    if not statement.tokens:
        raise no_query("duckdb")
    first = next((token for token in statement.tokens if token.symbol != "("), statement.tokens[0])
    if first.word in _CHANGES:
        raise no_query_begins_with(statement)


def _files(nodes: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files, and the parameters for files, that nodes name; raise for a node that does more than read."""
    files: list[str] = []
    parameters: list[str] = []
    for node in nodes:
        kind = str(node.get("type"))
        if kind.endswith("_NODE") and kind not in _NODES:
            word = kind.removesuffix("_NODE").removesuffix("_QUERY")
            raise no_query("duckdb", f"a query cannot contain {word!r}")
        if kind == "TABLE_FUNCTION":
            _check_table_function(name := str(node["function"]["function_name"]).lower())
            if name in FILE_FUNCTIONS:
                _add_arguments(node["function"], files, parameters)
        elif node.get("class") == "FUNCTION":
            _check_function(str(node["function_name"]).lower())
        elif kind == "BASE_TABLE":
            name = str(node["table_name"])
            if _is_path(name):
                files.append(name)
    return tuple(dict.fromkeys(files)), tuple(dict.fromkeys(parameters))


def _columns(nodes: Sequence[Mapping[str, Any]]) -> frozenset[str] | None:
    """Return every name that may be a column's, in lower case; None when it reads all columns."""
    names: set[str] = set()
    tables = {str(node.get(key)).lower() for node in nodes for key in ("table_name", "alias") if "table_name" in node}
    for node in nodes:
        if node.get("class") in {"STAR", "POSITIONAL_REFERENCE"}:
            return None
        if node.get("type") in ("PIVOT", "SHOW_REF"):  # a PIVOT groups by the other columns; the second is SUMMARIZE
            return None
        if node.get("column_name_alias") or node.get("ref_type") == "NATURAL":  # names are by place, or not written
            return None
        names.update(map(str.lower, node.get("using_columns") or ()))
        if node.get("class") == "COLUMN_REF":
            parts = [str(name).lower() for name in node["column_names"]]
            if len(parts) == 1 and parts[0] in tables:  # a whole row as one value
                return None
            names.update(parts)
    return frozenset(names)


def _may_leave_rows(nodes: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a condition, or a limit without an order, may leave rows of a table unread."""
    for node in nodes:
        if node.get("where_clause") is not None or node.get("show_type") == "DESCRIBE":
            return True
        kinds = {modifier["type"] for modifier in node.get("modifiers") or ()}
        if kinds & {"LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER"} and "ORDER_MODIFIER" not in kinds:
            return True
    return False


def _check_table_function(name: str) -> None:
    if name not in _TABLE_FUNCTIONS:
        near = difflib.get_close_matches(name, _TABLE_FUNCTIONS, 1)
        hint = f"did you mean {near[0]}?" if near else "SQL reads tables, files and lists"
        raise InvalidInput(f"SQL cannot call table function {name!r}", hint=hint)


def _check_function(name: str) -> None:
    if name in _EFFECTS:
        raise no_call(name, "does more than read")


def _is_path(name: str) -> bool:
    return any(sign in name for sign in "./\\*")


def _add_arguments(function: Mapping[str, Any], files: list[str], parameters: list[str]) -> None:
    arguments = [each["expression"] for each in function.get("arguments", ()) if not each.get("name")]
    for argument in [*arguments, *function.get("children", ())]:
        if argument.get("class") == "COMPARISON":  # ``delim = ','``
            continue
        for node in tree_nodes(argument):
            if node.get("class") == "PARAMETER":
                parameters.append(node["identifier"])
            elif node.get("class") == "CONSTANT" and isinstance(text := _text(node), str):
                files.append(text)


def _text(constant: Mapping[str, Any]) -> Any:
    """Return the value of a constant; DuckDB 2.0 writes it differently from 1.5."""
    return constant["literal"].get("text") if "literal" in constant else constant["value"].get("value")


def _without_tree(connection: duckdb.DuckDBPyConnection, explain: str, statement: Statement) -> Query:
    """Judge a PIVOT that finds its columns itself: DuckDB makes several statements of it, and gives no tree of them.

    It is judged by its tokens, and the text that is run is made of these tokens, without comments.
    """
    tokens = statement.tokens
    if not any(token.word in {"PIVOT", "PIVOT_WIDER"} for token in tokens):
        raise no_query("duckdb", f"no query begins with {tokens[0].text!r}")
    changing = _changing_functions(connection)
    files, pieces, names = [], [], set[str]()
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        if token.word in _CHANGES:
            hint = 'write the name of a column in double quotes: "copy"'
            raise InvalidInput(f"a PIVOT without IN cannot contain {token.text!r}", hint=hint)
        if token.symbol == ";":
            raise InvalidInput("there is more than one statement", hint=NOT_ALONE)
        plain = unquote(token, dialect="duckdb")
        names.add(plain.lower())
        if after is not None and after.symbol == "(":
            _check_function(plain.lower())
            if plain.lower() in changing:
                _check_table_function(plain.lower())
        if token.kind in {"string", "quoted"} and _is_path(plain):
            files.append(plain)
        pieces += [token.text, "" if after is None or token.end == after.start else " "]
    asked = "".join(pieces)
    return Query(explain + asked, asked, tuple(files), is_eager=True, time_functions=time_functions(names))


def _changing_functions(connection: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Return the table functions of this DuckDB that are not known to read only."""
    query = (
        "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE function_type IN ('table', 'table_macro')"
    )
    return frozenset(name for (name,) in fetched(connection, query)) - _TABLE_FUNCTIONS


def named_files(
    connect: Callable[[], duckdb.DuckDBPyConnection], query: Query, values: Mapping[str, Any], *, allowed: bool
) -> Iterator[str]:
    """Yield the absolute paths that a query names; for a pattern, also the files that it matches.

    Parameters
    ----------
    connect
        Connects to what finds the files, where the query names any: only DuckDB knows what its patterns mean.

    Raises
    ------
    InvalidInput
        When it may not, or a file belongs to an instance of a warehouse.
    """
    for pattern in (*query.files, *_texts(values[name] for name in query.parameters if name in values)):
        matches = _matches(connect(), pattern)
        if matches and not allowed:
            raise no_local_files(pattern)
        if matches != [pattern]:
            from sleeper_nb.load.source_files import check_no_local_lake_table

            check_no_local_lake_table(map(absolute, matches))
        # a hidden file can be read by its own name; those of a glob in place of a table are replaced by the others
        for path in map(absolute, (pattern, *(each for each in matches if not _is_hidden(each, pattern)))):
            check_outside(path)
            yield from dict.fromkeys((path, as_pattern(path)))


def _is_hidden(path: str, pattern: str) -> bool:
    """Return whether a load would leave out a file that a glob matches."""
    from sleeper_nb.load.source_files import WILDCARD, is_hidden

    wildcard = WILDCARD.search(pattern)
    if wildcard is None or path == pattern:
        return False
    above = pattern[: wildcard.start()].count("/")
    return is_hidden("/".join(path.split("/")[above:]), pattern)


def _matches(connection: duckdb.DuckDBPyConnection, pattern: str) -> list[str]:
    if "://" in pattern and not pattern.startswith("file:"):
        return []  # DuckDB would look for an extension to read it with
    rows = interruptible(connection, lambda: connection.execute("SELECT file FROM glob($p)", {"p": pattern}).fetchall())
    return [name for (name,) in rows]


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        yield from (each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str))
