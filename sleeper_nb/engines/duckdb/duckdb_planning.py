"""Choose what a statement on DuckDB reads: by its conditions, and by the keys of small inputs that it joins.

DuckDB plans the statement in a database of its own, over empty tables that stand in for the real ones; unless its
conditions compare the columns of one table with constants, which its syntax tree already says. DuckDB serializes its
plan, in which each column is a number: its place in the output of the operator below. So the plan is read as
operators, by which joins prune rows of tables (`joined_keys_in`); one with an operator that is not listed says nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import duckdb

from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.duckdb.duckdb_pushdown import EmptyTable, plain_predicate, push_down
from sleeper_nb.engines.duckdb.duckdb_reads import JudgedStatement
from sleeper_nb.engines.duckdb.dynamic_pruning import dynamic_pruning_of, large_tables
from sleeper_nb.engines.duckdb.interrupts import fetched
from sleeper_nb.engines.duckdb.relations import name_rows
from sleeper_nb.engines.duckdb.syntax_tree import set_moment
from sleeper_nb.model.schema import Field
from sleeper_nb.model.sql_values import quoted_name
from sleeper_nb.read import join_rules
from sleeper_nb.read.join_rules import Operator, Origin, ScanKeys
from sleeper_nb.read.predicate import PushedPredicates
from sleeper_nb.read.scan_plan import TableRows
from sleeper_nb.sql.binding import Bound, BoundSource
from sleeper_nb.sql.bound_lakes import LakeColumn
from sleeper_nb.sql.parameters import with_duckdb_variables
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.variables import BoundVariable

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class DuckDBPlanning:
    """What one statement is planned with.

    Parameters
    ----------
    judged
        It and the views that it reads, as DuckDB runs them.
    moment
        The time of the statement, if it asks for the time.
    """

    bound: Bound
    judged: JudgedStatement
    values: Mapping[str, Any]
    database: Database
    moment: Mapping[str, str]
    dry_run: bool = field(kw_only=True)

    @cached_property
    def _mark(self) -> str:
        return self.bound.unused_mark

    @cached_property
    def _stand_ins(self) -> dict[str, EmptyTable]:
        fields: dict[str, Sequence[Field | LakeColumn]] = {
            **{name: rows.state.schema.fields for name, rows in self.bound.tables.items()},
            **{name: lake.fields for name, lake in self.bound.lakes.items()},
        }
        return {
            name: EmptyTable.of(at, each, self._mark, with_places=name in self.bound.with_places)
            for at, (name, each) in enumerate(fields.items())
        }

    def pruned(self) -> tuple[Bound, str]:
        """Return the statement with less to read, and which keys were read for that, for users."""
        pushed = self._pushed()
        read = self.bound.pruned(pushed)
        if not large_tables(read, pushed):
            return read, ""
        dynamic = dynamic_pruning_of(read, self._joined_keys(), pushed)
        return dynamic.pruned(read, pushed, self.database, dry_run=self.dry_run)

    def _pushed(self) -> PushedPredicates:
        if not (self.bound.tables or self.bound.lakes) or not self.judged.has_conditions:
            return PushedPredicates({}, "the statement has no conditions")
        if why := self.judged.why_not_planned:
            return PushedPredicates({}, why)
        if any(each.spark_frame is not None for each in self.bound.variables):
            return PushedPredicates({}, "the statement also reads a Spark DataFrame")
        if (plain := self._plain()) is not None:
            return plain
        try:
            with self._opened() as connection:
                text = self.judged.of(self.bound.statement).asked
                found = push_down(connection, text, self.values, tuple(self._stand_ins.values()))
        except (duckdb.Error, RecursionError) as error:
            logger.debug("no partition is pruned, as DuckDB does not plan the statement: %s", error)
            return PushedPredicates({}, "DuckDB cannot plan the statement before it reads rows")
        tables = {each.table: name for name, each in self._stand_ins.items()}
        return PushedPredicates({tables[table]: predicate for table, predicate in found.items()})

    def _plain(self) -> PushedPredicates | None:
        """Return what the rows of the only table must meet, where the text alone says it."""
        selection = self.judged.of(self.bound.statement).selection
        name = "" if selection is None else selection["from_table"]["table_name"]
        if selection is None or name not in self.bound.tables or len(self.bound.named) != 1:
            return None
        predicate = plain_predicate(selection["where_clause"], self.bound.tables[name].state.schema, self.values)
        return None if predicate is None else PushedPredicates({name: predicate})

    def _joined_keys(self) -> dict[str, tuple[ScanKeys, ...]]:
        """Return what the rows of each scan of a table must meet, by generated name; empty when that is not known."""
        statement = Statement.of(self.judged.of(self.bound.statement).asked, dialect="duckdb")
        tables = {name: each.table for name, each in self._stand_ins.items()}
        names = {tables.get(name, self._variable_table(name)): name for name in self.bound.by_name}
        try:
            with self._opened() as connection:
                return joined_keys_in(connection, statement, self.values, names)
        except (duckdb.Error, RecursionError) as error:
            logger.debug("no keys are read first, as DuckDB does not serialize the plan: %s", error)
            return {}

    @contextmanager
    def _opened(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with closing(self.database.connect_planning()) as connection:
            set_moment(connection, self.moment)
            self._name_stand_ins(connection, self.bound)
            yield connection

    def _name_stand_ins(self, connection: duckdb.DuckDBPyConnection, bound: Bound) -> None:
        for name, what in bound.named.items():
            if isinstance(what, Bound):
                self._name_stand_ins(connection, what)
                query = self.judged.of(what.statement).asked
                fetched(connection, f"CREATE TEMP VIEW {quoted_name(name)} AS {query}")
            elif isinstance(what, BoundVariable):
                table = self._variable_table(name)
                name_rows(connection, f"{table}_rows", what.to_arrow().slice(0, 0))
                fetched(connection, f"CREATE TEMP TABLE {table} AS FROM {table}_rows")
                fetched(connection, f"CREATE TEMP VIEW {quoted_name(name)} AS FROM {table}")
            elif name in self._stand_ins:
                self._stand_ins[name].create(connection, name)
            elif isinstance(what, BoundSource) and not isinstance(what.rows, TableRows):
                name_rows(connection, name, what.rows.columns())

    def _variable_table(self, name: str) -> str:
        return f"{self._mark}of{name}"


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
