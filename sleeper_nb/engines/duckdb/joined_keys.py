"""Which rows of a table a join leaves out, whatever else they hold: DuckDB's optimized plan says it; no row is read.

DuckDB serializes the plan of a statement, in which each column is a number: the place of a column in the output of the
operator below. So a column of a join can be followed down to the table that it comes from. A row of one side is not
needed when the other side has no row with its key, for the kinds of joins and of operators of which that is certain. A
plan with any operator that is not listed here says nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

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

_LEAVES_OUT_LEFT: Final = frozenset({"INNER", "SEMI", "RIGHT_SEMI", "RIGHT", "RIGHT_ANTI"})
_LEAVES_OUT_RIGHT: Final = frozenset({"INNER", "SEMI", "RIGHT_SEMI", "LEFT", "SINGLE", "ANTI"})
"""The joins in which a row of that side has no effect when the other side has no row with its key."""

_KEEPS_LEFT: Final = frozenset({"INNER", "SEMI", "ANTI", "LEFT", "SINGLE", "MARK"})
_KEEPS_RIGHT: Final = frozenset({"INNER", "RIGHT_SEMI", "RIGHT_ANTI", "RIGHT"})
"""The joins whose rows each come from one row of that side, with its values."""

_ONLY_LEFT: Final = frozenset({"SEMI", "ANTI"})
_ONLY_RIGHT: Final = frozenset({"RIGHT_SEMI", "RIGHT_ANTI"})

_EQUAL: Final = frozenset({"COMPARE_EQUAL", "COMPARE_NOT_DISTINCT_FROM"})
"""A value equals itself only, by both; a key that is read is never null."""

_SAME_COLUMNS: Final = frozenset({"ORDER_BY", "LIMIT", "TOP_N", "DISTINCT", "FILTER", "SAMPLE"})
_WHOLE: Final[Mapping[str, tuple[int, int]]] = {
    **{name: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for name, bits in (
        ("TINYINT", 8), ("SMALLINT", 16), ("INTEGER", 32), ("BIGINT", 64), ("HUGEINT", 128))},
    **{name: (0, 2**bits - 1) for name, bits in (
        ("UTINYINT", 8), ("USMALLINT", 16), ("UINTEGER", 32), ("UBIGINT", 64))},
}  # fmt: skip
"""The types of whole numbers: the least and the greatest value of each."""
_COMPARED: Final = _WHOLE.keys() | {"VARCHAR", "BLOB", "DATE", "TIMESTAMP WITH TIME ZONE"}


@dataclass(frozen=True, slots=True, order=True)
class TableColumn:
    """A column of a table of the plan, by its place."""

    table: str
    column: int


@dataclass(frozen=True, slots=True)
class JoinedKey:
    """A scan of a table needs only rows in which `column` has one of the values of the columns `of`."""

    column: int
    of: frozenset[TableColumn]


ScanKeys = tuple[JoinedKey, ...]
"""What each row of one scan must meet; nothing when it is empty."""


class _NotUnderstood(Exception):  # noqa: N818 - no error: nothing is left out
    pass


def joined_keys(
    connection: duckdb.DuckDBPyConnection, statement: Statement, values: Mapping[str, Any], tables: Iterable[str]
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
        The names of the tables; the plan may read others, too.

    Raises
    ------
    duckdb.Error
        When DuckDB cannot plan the statement.
    """
    for name, value in values.items():
        connection.execute(f'SET VARIABLE "{name}" = $value', {"value": value})
    text = with_duckdb_variables(statement).text  # a plan with parameters cannot be serialized
    query = "SELECT json_serialize_plan($text::VARCHAR, optimize := true)"
    ((text,),) = connection.execute(query, {"text": text}).fetchall()
    found = json.loads(text)
    if found["error"] or "BOUND_SUBQUERY" in text:
        return {}
    plan = _Plan(frozenset(tables))
    try:
        for root in found["plans"]:
            plan.read(root)
    except (_NotUnderstood, KeyError, IndexError, TypeError, ValueError):
        return {}
    return plan.scans()


@dataclass(slots=True)
class _Plan:
    """Reads one plan: `needed` collects what each scan of a table must meet, by the identity of the scan's node."""

    tables: frozenset[str]
    needed: dict[int, list[JoinedKey]] = field(default_factory=dict)
    tables_of: dict[int, str] = field(default_factory=dict)

    def scans(self) -> dict[str, tuple[ScanKeys, ...]]:
        """Return what each scan must meet, by table."""
        found: dict[str, list[ScanKeys]] = {}
        for scan, table in self.tables_of.items():
            found.setdefault(table, []).append(tuple(self.needed[scan]))
        return {table: tuple(scans) for table, scans in found.items()}

    def read(self, root: _Node) -> None:
        nodes = list(_nodes(root))
        if any(_kind(node) not in _KNOWN for node in nodes):
            raise _NotUnderstood
        for node in nodes:
            name = _table(node)
            if name in self.tables:
                self.tables_of[id(node)], self.needed[id(node)] = name, []
        for node in nodes:
            if _kind(node) == "COMPARISON_JOIN":
                self._read_join(node)

    def _read_join(self, join: _Node) -> None:
        left, right = join["children"]
        for on_left, on_right in _equal_columns(join):
            for side, place, other, other_place, kinds in (
                (left, on_left, right, on_right, _LEAVES_OUT_LEFT),
                (right, on_right, left, on_left, _LEAVES_OUT_RIGHT),
            ):
                of = self._values(other, other_place) if join["join_type"] in kinds else None
                if of:
                    self._need(side, place, of)

    def _need(self, node: _Node, place: int, of: frozenset[TableColumn]) -> None:
        """Note that a node's rows are not needed when a column's value, not null, is none of the values of `of`."""
        kind, children = _kind(node), node["children"]
        if kind == "GET" and id(node) in self.needed:
            if not (node.get("extra_info") or {}).get("sample_options"):
                self.needed[id(node)].append(JoinedKey(_scanned(node, place), of))
        elif kind in {"FILTER", "ORDER_BY"}:
            self._need(children[0], _mapped(node, "projection_map", place), of)
        elif kind == "PROJECTION":
            if (below := _reference(node["expressions"][place])) is not None:
                self._need(children[0], below, of)
        elif kind == "AGGREGATE_AND_GROUP_BY":
            if (below := _grouped(node, place)) is not None and _is_in_all_sets(node, place):
                self._need(children[0], below, of)
        elif kind == "CROSS_PRODUCT":
            at, below = _side_of_product(node, place)
            self._need(children[at], below, of)
        elif kind == "UNION" and node["setop_all"]:
            for child in children:
                self._need(child, place, of)
        elif kind == "COMPARISON_JOIN":
            self._need_of_join(node, place, of)

    def _need_of_join(self, join: _Node, place: int, of: frozenset[TableColumn]) -> None:
        found = _side_of_join(join, place)
        if found is None:
            return
        at, below = found
        if join["join_type"] not in (_KEEPS_LEFT, _KEEPS_RIGHT)[at]:
            return
        self._need(join["children"][at], below, of)
        if join["join_type"] == "MARK":  # the mark of a row depends on all rows of the other side
            return
        for pair in _equal_columns(join):
            if pair[at] == below:
                self._need(join["children"][1 - at], pair[1 - at], of)

    def _values(self, node: _Node, place: int) -> frozenset[TableColumn] | None:
        """Return columns of tables that have every value, not null, of a node's column; None when that is not known."""
        kind, children = _kind(node), node["children"]
        if kind == "GET" and id(node) in self.needed:
            return frozenset({TableColumn(self.tables_of[id(node)], _scanned(node, place))})
        if kind in _SAME_COLUMNS:
            return self._values(children[0], _mapped(node, "projection_map", place))
        if kind == "PROJECTION":
            below = _reference(node["expressions"][place])
            return None if below is None else self._values(children[0], below)
        if kind == "AGGREGATE_AND_GROUP_BY":
            below = _grouped(node, place)
            return None if below is None else self._values(children[0], below)
        if kind == "WINDOW" and place < _width(children[0]):
            return self._values(children[0], place)
        if kind == "CROSS_PRODUCT":
            at, below = _side_of_product(node, place)
            return self._values(children[at], below)
        if kind == "UNION":
            parts = [self._values(child, place) for child in children]
            known = [part for part in parts if part is not None]
            return frozenset().union(*known) if len(known) == len(parts) else None
        if kind == "COMPARISON_JOIN" and (found := _side_of_join(node, place)) is not None:
            return self._values(children[found[0]], found[1])
        return None


def _nodes(root: _Node) -> Iterator[_Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node["children"]


def _kind(node: _Node) -> str:
    return str(node["type"]).removeprefix("LOGICAL_")


def _table(node: _Node) -> str:
    """Return the name of the table that a node scans; "" for any other node."""
    data = node.get("function_data")
    return str(data.get("table", "")) if _kind(node) == "GET" and isinstance(data, dict) else ""


def _scanned(scan: _Node, place: int) -> int:
    """Return the place, in its table, of a column in the output of a scan."""
    below = _mapped(scan, "projection_ids", place)
    return int(scan["column_indexes"][below]["index"])


def _mapped(node: _Node, name: str, place: int) -> int:
    """Return which of its columns an operator returns at a place; all of them when it does not choose."""
    chosen = node.get(name)
    return int(chosen[place]) if chosen else place


def _grouped(aggregate: _Node, place: int) -> int | None:
    """Return the place, in the input, of a column that rows are grouped by; None for any other column."""
    groups = aggregate["groups"]
    return _reference(groups[place]) if place < len(groups) else None


def _is_in_all_sets(aggregate: _Node, place: int) -> bool:
    """Return whether each row of an aggregate has the value of a group: it is null in a total."""
    return all(place in each for each in aggregate.get("grouping_sets") or ())


def _width(node: _Node) -> int:
    """Return how many columns an operator returns."""
    kind, children = _kind(node), node["children"]
    if kind == "GET":
        return len(node["projection_ids"] or node["column_indexes"])
    if kind in {"PROJECTION", "EXPRESSION_GET"}:
        return len(node["expressions"] if kind == "PROJECTION" else node["expr_types"])
    if kind in _SAME_COLUMNS:
        return len(node.get("projection_map") or ()) or _width(children[0])
    if kind == "AGGREGATE_AND_GROUP_BY":
        return len(node["groups"]) + len(node["expressions"]) + len(node.get("grouping_functions") or ())
    if kind == "WINDOW":
        return _width(children[0]) + len(node["expressions"])
    if kind in {"UNION", "EXCEPT", "INTERSECT"}:
        return int(node["column_count"])
    if kind == "CROSS_PRODUCT":
        return sum(map(_width, children))
    if kind == "COMPARISON_JOIN":
        left, right = _widths(node)
        return left * (node["join_type"] not in _ONLY_RIGHT) + (
            1 if node["join_type"] == "MARK" else right * (node["join_type"] not in _ONLY_LEFT)
        )
    raise _NotUnderstood


def _widths(join: _Node) -> tuple[int, int]:
    """Return how many columns of each side a join can return."""
    left, right = join["children"]
    return (
        len(join.get("left_projection_map") or ()) or _width(left),
        len(join.get("right_projection_map") or ()) or _width(right),
    )


def _side_of_product(product: _Node, place: int) -> tuple[int, int]:
    """Return the side of a product, 0 or 1, that a column comes from, and its place there."""
    left = _width(product["children"][0])
    return (0, place) if place < left else (1, place - left)


def _side_of_join(join: _Node, place: int) -> tuple[int, int] | None:
    """Return the side of a join, 0 or 1, that a column comes from, and its place there; None for a mark."""
    kind = join["join_type"]
    if kind not in _KEEPS_LEFT | _KEEPS_RIGHT | {"FULL", "OUTER"} or not set(join) <= _OF_JOINS:
        raise _NotUnderstood
    left = 0 if kind in _ONLY_RIGHT else _widths(join)[0]
    if place < left:
        return 0, _mapped(join, "left_projection_map", place)
    if kind == "MARK":
        return None
    return 1, _mapped(join, "right_projection_map", place - left)


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
