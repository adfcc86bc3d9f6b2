"""DuckDB's optimized plan as operators, by which joins prune rows of tables; no row is read.

DuckDB serializes the plan of a statement, in which each column is a number: the place of a column in the output of the
operator below. A plan with any operator that is not listed here says nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.engines.duckdb.interrupts import fetched
from sleeper_nb.read import join_rules
from sleeper_nb.read.join_rules import Operator, Origin, ScanKeys
from sleeper_nb.sql.parameters import with_duckdb_variables
from sleeper_nb.sql.statement import Statement

if TYPE_CHECKING:
    import duckdb

_Node = Mapping[str, Any]

_KNOWN: Final = frozenset({
    "GET", "PROJECTION", "FILTER", "COMPARISON_JOIN", "CROSS_PRODUCT", "AGGREGATE_AND_GROUP_BY", "ORDER_BY", "LIMIT",
    "TOP_N", "DISTINCT", "UNION", "EXCEPT", "INTERSECT", "WINDOW", "DUMMY_SCAN", "EMPTY_RESULT", "EXPRESSION_GET",
    "CHUNK_GET", "SAMPLE",
})  # fmt: skip
"""The operators of a plan that is read, though not each of them is understood. Plans with common tables are not."""

_OF_JOINS: Final = frozenset({
    "type", "children", "join_type", "mark_index", "mark_types", "left_projection_map", "right_projection_map",
    "conditions", "duplicate_eliminated_columns", "delim_flipped", "predicate",
})  # fmt: skip
"""What DuckDB 1.5 and 2.0 say about a join; a join that says more is not understood."""

_PRUNES_LEFT: Final = frozenset({"INNER", "SEMI", "RIGHT_SEMI", "RIGHT", "RIGHT_ANTI"})
_PRUNES_RIGHT: Final = frozenset({"INNER", "SEMI", "RIGHT_SEMI", "LEFT", "SINGLE", "ANTI"})
"""The joins in which a row of that side has no effect when the other side has no row with its key."""

_KEEPS_LEFT: Final = frozenset({"INNER", "SEMI", "ANTI", "LEFT", "SINGLE", "MARK"})
_KEEPS_RIGHT: Final = frozenset({"INNER", "RIGHT_SEMI", "RIGHT_ANTI", "RIGHT"})
"""The joins whose rows each come from one row of that side, with its values."""

_ONLY_LEFT: Final = frozenset({"SEMI", "ANTI"})
_ONLY_RIGHT: Final = frozenset({"RIGHT_SEMI", "RIGHT_ANTI"})

_EQUAL: Final = frozenset({"COMPARE_EQUAL", "COMPARE_NOT_DISTINCT_FROM"})
"""A value equals itself only, by both; a key that is read is never null."""

_SAME_COLUMNS: Final = frozenset({"ORDER_BY", "LIMIT", "TOP_N", "DISTINCT", "FILTER", "SAMPLE"})
_TYPES: Final = {"EXPRESSION_GET": "expr_types", "CHUNK_GET": "chunk_types", "EMPTY_RESULT": "return_types"}
"""Where the plan has the types of rows that come from no table."""
_WHOLE: Final[Mapping[str, tuple[int, int]]] = {
    **{name: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for name, bits in (
        ("TINYINT", 8), ("SMALLINT", 16), ("INTEGER", 32), ("BIGINT", 64), ("HUGEINT", 128))},
    **{name: (0, 2**bits - 1) for name, bits in (
        ("UTINYINT", 8), ("USMALLINT", 16), ("UINTEGER", 32), ("UBIGINT", 64))},
}  # fmt: skip
"""The types of whole numbers: the least and the greatest value of each."""
_COMPARED: Final = _WHOLE.keys() | {"VARCHAR", "BLOB", "DATE", "TIMESTAMP WITH TIME ZONE"}


class _NotUnderstood(Exception):  # noqa: N818 - no error: nothing is pruned
    pass


def joined_keys_in(
    connection: duckdb.DuckDBPyConnection, statement: Statement, values: Mapping[str, Any], tables: Mapping[str, str]
) -> dict[str, tuple[ScanKeys, ...]]:
    """Return what the rows of each scan of a table must meet, by the table's name; empty when that is not known.

    Parameters
    ----------
    connection
        Of the planning database, with the tables.
    statement
        A query that only reads.
    values
        Of its parameters.
    tables
        The names of the tables, by the names that the plan has for them; it may read others, too.

    Raises
    ------
    duckdb.Error
        When DuckDB cannot plan the statement.
    """
    for name, value in values.items():
        fetched(connection, f'SET VARIABLE "{name}" = $value', {"value": value})
    text = with_duckdb_variables(statement).text  # a plan with parameters cannot be serialized
    query = "SELECT json_serialize_plan($text::VARCHAR, optimize := true)"
    ((text,),) = fetched(connection, query, {"text": text})
    found = json.loads(text)
    if found["error"] or "BOUND_SUBQUERY" in text:
        return {}
    try:
        return join_rules.joined_keys([_operator(root, tables) for root in found["plans"]])
    except (_NotUnderstood, KeyError, IndexError, TypeError, ValueError):
        return {}


def _operator(node: _Node, tables: Mapping[str, str]) -> Operator:
    kind, inputs = _kind(node), tuple([_operator(child, tables) for child in node["children"]])
    if kind not in _KNOWN:
        raise _NotUnderstood
    if kind == "GET":
        return _scan(node, tables)
    if kind == "COMPARISON_JOIN":
        return _join(node, inputs)
    if kind == "UNION":
        passes = bool(node["setop_all"])
        return Operator(inputs, tuple(Origin(0, at, passes) for at in range(int(node["column_count"]))), all_of=True)
    if kind == "CROSS_PRODUCT":
        return Operator(inputs, tuple(Origin(at, place) for at in (0, 1) for place in range(inputs[at].width)))
    return Operator(inputs, tuple(_columns(node, kind, inputs)))


def _scan(node: _Node, tables: Mapping[str, str]) -> Operator:
    data, indexes = node.get("function_data"), node["column_indexes"]
    name = str(data.get("table", "")) if isinstance(data, dict) else ""
    chosen = _chosen(node, "projection_ids", len(indexes))
    if name not in tables:
        return Operator((), (None,) * len(chosen))
    is_sampled = bool((node.get("extra_info") or {}).get("sample_options"))
    scanned = tuple(int(indexes[below]["index"]) for below in chosen)
    return Operator(table=tables[name], scanned=scanned, is_sampled=is_sampled)


def _columns(node: _Node, kind: str, inputs: Sequence[Operator]) -> Iterator[Origin | None]:
    """Yield where the columns of an operator that has one input, or none, come from."""
    if kind in {"PROJECTION", "AGGREGATE_AND_GROUP_BY"}:
        grouped = kind != "PROJECTION"
        for at, expression in enumerate(node["groups"] if grouped else node["expressions"]):
            below = _reference(expression)
            yield None if below is None else Origin(0, below, passes=not grouped or _is_in_all_sets(node, at))
        if grouped:
            yield from (None,) * (len(node["expressions"]) + len(node.get("grouping_functions") or ()))
    elif kind in _SAME_COLUMNS:
        for below in _chosen(node, "projection_map", inputs[0].width):
            yield Origin(0, below, passes=kind in {"FILTER", "ORDER_BY"})
    elif kind == "WINDOW":
        yield from (Origin(0, place, passes=False) for place in range(inputs[0].width))
        yield from (None,) * len(node["expressions"])
    else:
        yield from (None,) * _width(node, kind)


def _width(node: _Node, kind: str) -> int:
    """Return how many columns an operator returns whose columns are its own."""
    if kind in _TYPES:
        return len(node[_TYPES[kind]])
    return 1 if kind == "DUMMY_SCAN" else int(node["column_count"])


def _join(join: _Node, inputs: Sequence[Operator]) -> Operator:
    kind, pairs = join["join_type"], tuple(_equal_columns(join))
    if kind not in _KEEPS_LEFT | _KEEPS_RIGHT | {"FULL", "OUTER"}:
        raise _NotUnderstood
    columns: list[Origin | None] = []
    sides = (
        (_ONLY_RIGHT, "left_projection_map", _KEEPS_LEFT),
        (_ONLY_LEFT | {"MARK"}, "right_projection_map", _KEEPS_RIGHT),
    )
    for at, (without, chosen, kept) in enumerate(sides):
        if kind not in without:
            columns += [Origin(at, below, kind in kept) for below in _chosen(join, chosen, inputs[at].width)]
    if kind == "MARK":  # the mark of a row depends on all rows of the other side
        return Operator(tuple(inputs), (*columns, None))
    prunable = frozenset(at for at, kinds in enumerate((_PRUNES_LEFT, _PRUNES_RIGHT)) if kind in kinds)
    return Operator(tuple(inputs), tuple(columns), equal=pairs, prunable=prunable)


def _kind(node: _Node) -> str:
    return str(node["type"]).removeprefix("LOGICAL_")


def _chosen(node: _Node, name: str, count: int) -> list[int]:
    """Return which of its columns an operator returns; all of them when it does not choose."""
    return [int(each) for each in node.get(name) or range(count)]


def _is_in_all_sets(aggregate: _Node, place: int) -> bool:
    """Return whether each row of an aggregate has the value of a group: it is null in a total."""
    return all(place in each for each in aggregate.get("grouping_sets") or ())


def _equal_columns(join: _Node) -> Iterator[tuple[int, int]]:
    """Yield the places of two columns, of the left and of the right side, that are equal in rows that match."""
    if not set(join) <= _OF_JOINS or join["duplicate_eliminated_columns"]:
        raise _NotUnderstood
    for condition in join["conditions"]:
        if condition.get("comparison") in _EQUAL and {"left", "right"} <= condition.keys():
            left, right = (_reference(condition[side]) for side in ("left", "right"))
            if left is not None and right is not None:
                yield left, right


def _reference(expression: Mapping[str, Any]) -> int | None:
    """Return the place of the column that an expression is, or whose whole numbers it has; None of any other."""
    kind = _type(expression)
    if expression["expression_class"] == "BOUND_REF":
        return int(expression["index"]) if kind in _COMPARED else None
    inner: Sequence[Mapping[str, Any]] = (
        [expression["child"]] if "child" in expression else expression.get("children", ())
    )
    is_cast = expression["type"] == "OPERATOR_CAST" and len(inner) == 1 and inner[0]["expression_class"] == "BOUND_REF"
    if is_cast and _holds(kind, _type(inner[0])):
        return int(inner[0]["index"])
    return None


def _holds(kind: str, other: str) -> bool:
    """Return whether a type of whole numbers has all values of another; then no cast fails, or makes a null."""
    if kind not in _WHOLE or other not in _WHOLE:
        return False
    (low, high), (other_low, other_high) = _WHOLE[kind], _WHOLE[other]
    return low <= other_low and other_high <= high


def _type(expression: Mapping[str, Any]) -> str:
    """Return the name of an expression's type; "" for one with more to it, as a collation."""
    kind = expression.get("return_type") or {}
    return "" if kind.get("type_info") else str(kind.get("id"))
