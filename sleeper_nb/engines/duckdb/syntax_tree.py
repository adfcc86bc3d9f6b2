"""DuckDB's own syntax tree of a SQL text: how we learn what a statement or a condition does before it runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

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
