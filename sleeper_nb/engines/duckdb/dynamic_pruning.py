"""The keys of small inputs that limit what is read of a large table: which are worth reading, and their values.

DuckDB reads them, whichever engine then runs the statement. The plan of that engine says of which columns a row of a
large table needs a value (`sleeper_nb.read.join_rules`). Where these are columns of small tables or of
variables, their values are read first. Too many to tell apart become ranges that cover them. All rows count that the
statement may read of the small input, so that too much of the large table may be read, but never too little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import reduce
from itertools import pairwise
from operator import and_, eq, ge, gt, le, lt, or_
from typing import Any, Final

import duckdb

from sleeper_nb.engines.duckdb import relations
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.duckdb.interrupts import interruptible
from sleeper_nb.model.keys import compared_key, first_and_last
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.read.join_rules import ScanKeys, TableColumn
from sleeper_nb.read.predicate import (
    ALWAYS_TRUE,
    And,
    Comparison,
    ComparisonOperator,
    IsIn,
    IsNull,
    Or,
    Predicate,
    PushedPredicates,
    inclusive_projection,
)
from sleeper_nb.read.scan_plan import ScanPlan, TableRows
from sleeper_nb.report import counted
from sleeper_nb.sql.binding import Bound, BoundRows, BoundSource
from sleeper_nb.sql.bound_lakes import BoundLake
from sleeper_nb.sql.variables import BoundVariable
from sleeper_nb.versions.leases import hold_versions

MANY_FILES: Final = 32
"""From so many files on, opening those that are not needed takes longer than reading keys first."""
_FEWER_TIMES: Final = 8
"""A small table has so many times fewer files than the large one."""
_SMALL_BYTES: Final = 32 << 20
_SMALL_ROWS: Final = 1_000_000
_MOST_VALUES: Final = 100_000
"""More values than this are not told apart."""
_MOST_COMPARISONS: Final = 10_000
"""How often a range of keys may be compared with a partition while files are chosen: about 50 ms."""
_RUNS: Final = (200, 20, 1)
"""In how many ranges the keys are told apart; fewer where these reach too many partitions."""


@dataclass(frozen=True, slots=True)
class DynamicPruning:
    """What can be pruned of large tables once the keys of small inputs are known.

    Parameters
    ----------
    of_tables
        For each scan of each large table, by generated name: which row keys have only values of which small columns.
    rows
        What is read of each of these tables without the keys.
    """

    of_tables: Mapping[str, tuple[_KeysOfScan, ...]]
    rows: Mapping[str, TableRows]

    def pruned(self, bound: Bound, pushed: PushedPredicates, database: Database, *, dry_run: bool) -> tuple[Bound, str]:
        """Return a statement that reads less by the keys, and how many they are, for users; a dry run reads none."""
        if not self.of_tables:
            return bound, ""
        if dry_run:
            names = {
                table: ", ".join(dict.fromkeys(source.shown for source in _sources(found)))
                for table, found in self.of_tables.items()
            }
            texts = {table: f"keys of {each} would be read first" for table, each in names.items()}
            return bound.pruned(pushed.and_keys({}, texts)), ""
        values: dict[_Source, _Values] = {}
        sources = {each: None for found in self.of_tables.values() for each in _sources(found)}
        with closing(database.connect()) as connection:
            for source in sources:
                values[source] = source.read(connection)
        predicates, texts = {}, {}
        for table, scans in self.of_tables.items():
            predicates[table] = _affordable_predicate(scans, values, self.rows[table])
            texts[table] = _counts(_sources(scans), values)
        return bound.pruned(pushed.and_keys(predicates, texts)), _counts(sources, values)


def large_tables(bound: Bound, pushed: PushedPredicates) -> dict[str, ScanPlan]:
    """Return the tables, by generated name, whose files it pays to prune by the keys of the other inputs."""
    plans = {name: rows.plan for name, rows in bound.tables.items() if name in pushed.predicates}
    return {name: plan for name, plan in plans.items() if _files(plan) >= MANY_FILES} if len(bound.by_name) > 1 else {}


def dynamic_pruning_of(
    bound: Bound, joined: Mapping[str, tuple[ScanKeys, ...]], pushed: PushedPredicates
) -> DynamicPruning:
    """Return which keys of small inputs limit the large tables of a statement; none where it does not pay.

    Parameters
    ----------
    bound
        The statement, with its tables read only where their rows can meet the predicates.
    pushed
        What the rows of its tables must meet.
    joined
        What the rows of each scan of a table must meet, by generated name, as the plan of an engine says it.
    """
    small = _SmallInputs(bound.by_name, pushed)
    alternatives = {
        name: tuple(small.keys_of(scan, bound.tables[name].state.schema, plan) for scan in joined.get(name, ()))
        for name, plan in large_tables(bound, pushed).items()
    }
    kept = {name: scans for name, scans in alternatives.items() if scans and all(scans)}
    return DynamicPruning(kept, {name: bound.tables[name] for name in kept})


def _files(plan: ScanPlan) -> int:
    return sum(len(leaf.files) for leaf in plan.leaves)


@dataclass(frozen=True, slots=True)
class _SmallInputs:
    """Finds the columns of small inputs: `inputs` by generated name."""

    inputs: Mapping[str, BoundRows]
    pushed: PushedPredicates

    def keys_of(self, scan: ScanKeys, schema: Schema, plan: ScanPlan) -> _KeysOfScan:
        """Return the row keys of a large table that have only values of small columns."""
        keys = {key.name: key for key in schema.row_keys}
        found = []
        for each in scan:
            key = keys.get(_name_of(each.column, schema))
            sources = [self._source(column, plan) for column in sorted(each.of)]
            known = tuple(source for source in sources if source is not None)
            if key is not None and len(known) == len(sources):
                found.append((key, known))
        return tuple(found)

    def _source(self, column: TableColumn, large: ScanPlan) -> _Source | None:
        name = column.table
        what = self.inputs[name]
        if isinstance(what, BoundVariable):
            is_small = what.spark_frame is None and what.to_arrow().num_rows <= _SMALL_ROWS
            return _Source(name, what.to_arrow().column_names[column.column], what) if is_small else None
        if isinstance(what, BoundLake) or not isinstance(what.rows, TableRows):
            return None
        plan = what.rows.plan
        is_small = _files(plan) * _FEWER_TIMES <= _files(large) and plan.bytes <= _SMALL_BYTES
        of = _name_of(column.column, plan.schema)
        if not is_small or not of or not relations.is_native(plan):
            return None
        return _Source(name, of, what, self.pushed.predicates.get(name, ALWAYS_TRUE))


def _name_of(column: int, schema: Schema) -> str:
    """Return the name of a column of a table by its number; "" of one for the places of rows, which follow."""
    return schema.names[column] if column < len(schema.names) else ""


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of a column, in order and each once; only the least and the greatest unless `is_complete`."""

    values: tuple[Any, ...]
    is_complete: bool

    @property
    def text(self) -> str:
        return counted(len(self.values), "value") if self.is_complete else f"more than {_MOST_VALUES:,} values"


@dataclass(frozen=True, slots=True)
class _Source:
    """A column of a small input with a generated name: of a table whose rows meet a predicate, or of a variable."""

    name: str
    column: str
    what: BoundSource | BoundVariable = field(compare=False)
    predicate: Predicate = field(default=ALWAYS_TRUE, compare=False)

    @property
    def shown(self) -> str:
        return self.what.table if isinstance(self.what, BoundSource) else self.what.name

    def read(self, connection: duckdb.DuckDBPyConnection) -> _Values:
        """Read the values."""
        what = self.what
        if isinstance(what, BoundVariable):
            return interruptible(connection, lambda: self._values_in(relations.of_variable(connection, what)))
        if not isinstance(what.rows, TableRows):
            raise TypeError("a system table has no keys")
        plan, storage = what.rows.plan, what.storage
        with hold_versions([] if what.guard is None else [what.guard], "sql"):
            rows = relations.relation(connection, plan, storage, is_whole=False)
            condition = _expression(self.predicate, plan.schema)
            return interruptible(
                connection, lambda: self._values_in(rows if condition is None else rows.filter(condition))
            )

    def _values_in(self, rows: duckdb.DuckDBPyRelation) -> _Values:
        column = relations.column(self.column)
        ends = _ENDS.get(str(rows.select(column).types[0]))
        met = column.isnotnull() if ends is None else column.between(*map(duckdb.ConstantExpression, ends))
        distinct = rows.filter(met).select(column.alias("key")).distinct()
        found = relations.to_arrow(distinct.limit(_MOST_VALUES + 1))["key"]
        if len(found) <= _MOST_VALUES:
            return _Values(tuple(sorted(found.to_pylist())), is_complete=True)
        extremes = relations.to_arrow(distinct.aggregate("min(key) AS low, max(key) AS high"))
        return _Values((extremes["low"][0].as_py(), extremes["high"][0].as_py()), is_complete=False)


_ENDS: Final = {"DATE": first_and_last("date"), "TIMESTAMP WITH TIME ZONE": first_and_last("timestamp")}
"""The times that keys can have, by types of DuckDB; Python cannot read others."""

_KeysOfScan = tuple[tuple[Field, tuple[_Source, ...]], ...]
"""The row keys that a scan of a large table needs only with values of some small columns."""


def _sources(scans: Iterable[_KeysOfScan]) -> list[_Source]:
    return list(dict.fromkeys(source for keys in scans for _, sources in keys for source in sources))


def _counts(sources: Iterable[_Source], values: Mapping[_Source, _Values]) -> str:
    return ", ".join(dict.fromkeys(f"keys of {source.shown}: {values[source].text}" for source in sources))


def _affordable_predicate(
    scans: Iterable[_KeysOfScan], values: Mapping[_Source, _Values], rows: TableRows
) -> Predicate:
    """Return the predicate of the keys in as many ranges as pay: any row, when they reach most partitions."""
    schema, tree, partitions = rows.state.schema, rows.state.tree, len(rows.plan.leaves)
    alternatives = tuple(scans)
    for most in _RUNS:
        predicate = Or(
            tuple(
                And(tuple(_predicate_of_key(key, [values[each] for each in sources], most) for key, sources in keys))
                for keys in alternatives
            )
        )
        regions = inclusive_projection(predicate, schema)
        if regions is None:
            return ALWAYS_TRUE
        reached = {leaf.id for region in regions for leaf in tree.leaves_in(region)}
        if len(regions) * len(reached) <= _MOST_COMPARISONS:
            return predicate
        if 2 * len(reached) > partitions:
            break  # fewer ranges reach even more
    return ALWAYS_TRUE


def _predicate_of_key(key: Field, found: Sequence[_Values], most: int) -> Predicate:
    """Return the predicate that a row key has one of the values, in at most so many parts, which may have others."""
    if not all(_is_of(key, value) for each in found for value in each.values):
        return ALWAYS_TRUE
    parts: list[Predicate] = []
    for each in found:
        if each.is_complete:
            # a whole number can be too large, and then equals no key
            values = [value for value in each.values if compared_key(key, value) is not None]
            parts += [_between(key, run[0], run[-1]) for run in _runs(values, most // len(found) or 1)]
        else:
            parts.append(_between(key, *each.values))
    return Or(tuple(parts))


def _runs(values: Sequence[Any], most: int) -> list[Sequence[Any]]:
    """Return sorted values in at most so many runs; numbers and times are parted where they are far apart."""
    if isinstance(next(iter(values), ""), int | date):
        gaps = sorted(range(1, len(values)), key=lambda at: values[at] - values[at - 1], reverse=True)
        cuts = sorted(gaps[: most - 1])
    else:
        cuts = list(range(0, len(values), -(-len(values) // most)))[1:] if values else []
    return [values[begin:end] for begin, end in pairwise([0, *cuts, len(values)])] if values else []


def _between(key: Field, least: Any, greatest: Any) -> Predicate:
    return And((Comparison(key.name, ">=", least), Comparison(key.name, "<=", greatest)))


_KINDS: Final[Mapping[str, type]] = {
    "int": int, "long": int, "string": str, "bytearray": bytes, "date": date, "timestamp": datetime,
}  # fmt: skip
"""The fields whose values a predicate compares as DuckDB does."""


def _is_of(compared: Field, value: Any) -> bool:
    """Return whether a value has the type of a field; a time without a zone has not that of a timestamp."""
    return type(value) is _KINDS.get(compared.type.name) and (type(value) is not datetime or value.tzinfo is not None)


def _expression(predicate: Predicate, schema: Schema) -> duckdb.Expression | None:
    """Return a condition that every row which meets a predicate meets; None when that is any row."""
    if isinstance(predicate, And):
        found = [_expression(part, schema) for part in predicate.parts]
        known = [each for each in found if each is not None]
        return reduce(and_, known) if known else None
    if isinstance(predicate, Or):
        parts = [_expression(part, schema) for part in predicate.parts]
        known = [each for each in parts if each is not None]
        return reduce(or_, known) if known and len(known) == len(parts) else None
    if isinstance(predicate, IsNull):
        return relations.column(predicate.column).isnull()
    compared = next(each for each in schema.fields if each.name == predicate.column)
    values = predicate.values if isinstance(predicate, IsIn) else (predicate.value,)
    if not values or not all(_is_of(compared, value) for value in values):
        return None
    column, constants = relations.column(predicate.column), [duckdb.ConstantExpression(value) for value in values]
    if isinstance(predicate, IsIn):
        return column.isin(*constants)
    return _COMPARISONS[predicate.operator](column, constants[0])


_COMPARISONS: Final[Mapping[ComparisonOperator, Callable[[Any, Any], duckdb.Expression]]] = {
    "=": eq,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
