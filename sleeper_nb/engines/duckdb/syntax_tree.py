"""DuckDB's own syntax tree of a SQL text: how we learn what a statement or a condition does before it runs.

Functions of the time in it have one value, however often its rows are read: DuckDB takes the time of each execution, so
macros on the connection of a statement replace them, which return the moment when it began.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.engines.duckdb.interrupts import fetched

if TYPE_CHECKING:
    import duckdb


def syntax_tree(connection: duckdb.DuckDBPyConnection, text: str) -> dict[str, Any]:
    """Return the tree of a SQL text, which is parsed and not run; its ``error`` says whether DuckDB made one.

    Raises
    ------
    RecursionError
        The text is nested too deeply for Python's JSON.
    """
    query = "SELECT json_serialize_sql($text::VARCHAR)"
    ((serialized,),) = fetched(connection, query, {"text": text})
    return json.loads(serialized)  # type: ignore[no-any-return]


def tree_nodes(tree: Any) -> list[dict[str, Any]]:
    """Return every object of a tree; without recursion, as a tree can be deep."""
    nodes, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            nodes.append(node)
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return nodes


_TYPES: Final = {
    "now": "TIMESTAMPTZ", "get_current_timestamp": "TIMESTAMPTZ", "transaction_timestamp": "TIMESTAMPTZ",
    "today": "DATE", "current_date": "DATE", "get_current_time": "TIMETZ", "current_localtimestamp": "TIMESTAMP",
    "current_localtime": "TIME",
}  # fmt: skip
"""The functions that return the time, and the types of their values."""

_KEYWORDS: Final = {
    "current_timestamp": "get_current_timestamp", "current_time": "get_current_time",
    "localtimestamp": "current_localtimestamp", "localtime": "current_localtime",
}  # fmt: skip
"""The functions that DuckDB calls for names which need no brackets; ``current_date`` calls the one of that name."""

_OTHERS: Final = frozenset({
    "age", "ago", "current_catalog", "current_database", "current_schema", "current_schemas", "current_setting",
    "getvariable", "in_search_path", "pg_conf_load_time", "pg_postmaster_start_time", "txid_current",
})  # fmt: skip
"""The other functions whose values DuckDB computes with the plan, though the next execution may have others."""


def time_functions(names: Iterable[str]) -> frozenset[str]:
    """Return the functions that return the time which some names call, in lower case; a column's name counts too."""
    return frozenset(_TYPES.keys() & {_KEYWORDS.get(name, name) for name in names})


def unstable_function(nodes: Iterable[Mapping[str, Any]]) -> str:
    """Return a function in a syntax tree that may have another value in each execution, besides the time; "" if none.

    A column of such a name counts too. A function of the time that is named with its catalog is one of them: no macro
    takes its place.
    """
    for node in nodes:
        name = last_name(node)
        if name in _OTHERS or (name in _TYPES and node.get("catalog")):
            return name
    return ""


def last_name(node: Mapping[str, Any]) -> str:
    """Return the name of a column or function that a node has, without what qualifies it; "" for other nodes."""
    names = node.get("column_names") or [node.get("function_name") or ""]
    return str(names[-1]).lower()


def moment_of(connection: duckdb.DuckDBPyConnection, functions: Iterable[str]) -> dict[str, str]:
    """Return the values of some functions that return the time, as SQL, all of the same moment."""
    ((moment,),) = fetched(connection, "SELECT CAST(now() AT TIME ZONE 'UTC' AS VARCHAR)")
    at = f"CAST('{moment}' AS TIMESTAMP)"
    zoned = f"({at} AT TIME ZONE 'UTC')"
    values = {
        "TIMESTAMPTZ": zoned,
        "TIMESTAMP": at,
        "DATE": f"CAST({at} AS DATE)",
        "TIME": f"CAST({at} AS TIME)",
        "TIMETZ": f"CAST({zoned} AS TIMETZ)",
    }
    return {name: values[_TYPES[name]] for name in functions}


def set_moment(connection: duckdb.DuckDBPyConnection, moment: Mapping[str, str]) -> None:
    """Let the functions return the values of a moment, on this connection only."""
    for name, value in moment.items():
        fetched(connection, f"CREATE OR REPLACE TEMP MACRO {name}() AS {value}")
