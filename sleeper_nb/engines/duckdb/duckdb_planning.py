"""Choose what a statement on DuckDB reads: by its conditions, and by the keys of small inputs that it joins.

DuckDB plans the statement in a database of its own, over empty tables that stand in for the real ones; unless its
conditions compare the columns of one table with constants, which its syntax tree already says.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import duckdb

from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.duckdb.duckdb_pushdown import EmptyTable, push_down
from sleeper_nb.engines.duckdb.duckdb_reads import JudgedStatement
from sleeper_nb.engines.duckdb.dynamic_pruning import dynamic_pruning_of, large_tables
from sleeper_nb.engines.duckdb.interrupts import fetched
from sleeper_nb.engines.duckdb.joined_scans import joined_keys_in
from sleeper_nb.engines.duckdb.parsed_predicates import parse_where, planned_conditions
from sleeper_nb.engines.duckdb.relations import name_rows
from sleeper_nb.engines.duckdb.statement_time import set_moment
from sleeper_nb.model.sql_quotes import quoted_name
from sleeper_nb.read.join_rules import ScanKeys
from sleeper_nb.read.predicate import PushedPredicates
from sleeper_nb.read.scan_plan import TableRows
from sleeper_nb.sql.binding import Bound
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.variables import BoundVariable

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class DuckDBPlanning:
    """What one statement is planned with.

    Parameters
    ----------
    bound
        The statement.
    judged
        It and the views that it reads, as DuckDB runs them.
    values
        Of its parameters.
    database
        Plans it, and reads the keys of small inputs.
    moment
        The time of the statement, if it asks for the time.
    dry_run
        Whether no row may be read.
    """

    bound: Bound
    judged: JudgedStatement
    values: Mapping[str, Any]
    database: Database
    moment: Mapping[str, str]
    dry_run: bool

    @cached_property
    def _mark(self) -> str:
        return self.bound.unused_mark

    @cached_property
    def _stand_ins(self) -> dict[str, EmptyTable]:
        """The empty tables that stand in for the tables, by generated name."""
        return {
            name: EmptyTable.of(at, rows.state.schema, self._mark, with_places=name in self.bound.with_places)
            for at, (name, rows) in enumerate(self.bound.tables.items())
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
        """Return what the rows of each table must meet, by generated name."""
        if not self.bound.tables or not self.judged.has_conditions:
            return PushedPredicates({}, "the statement has no conditions")
        if why := self.judged.why_not_planned:
            return PushedPredicates({}, why)
        if any(each.spark_frame is not None for each in self.bound.variables):
            return PushedPredicates({}, "the statement also reads a Spark DataFrame")
        if (plain := self._plain()) is not None:
            return plain
        try:
            with self._opened() as connection:
                text, tables = self.judged.of(self.bound.statement).asked, tuple(self._stand_ins.values())
                found = push_down(connection, text, self.values, tables)
        except (duckdb.Error, RecursionError) as error:
            logger.debug("no partition is pruned, as DuckDB does not plan the statement: %s", error)
            return PushedPredicates({}, "DuckDB cannot plan the statement before it reads rows")
        read = {name: each.table for name, each in self._stand_ins.items() if each.table in found.predicates}
        return PushedPredicates(
            {name: found.predicates[table] for name, table in read.items()},
            conditions={name: found.conditions[table] for name, table in read.items()},
        )

    def _plain(self) -> PushedPredicates | None:
        """Return what the rows of the only table must meet, where the text alone says it."""
        judged = self.judged.of(self.bound.statement)
        selection = judged.selection
        name = "" if selection is None else selection["from_table"]["table_name"]
        if selection is None or name not in self.bound.tables or len(self.bound.named) != 1:
            return None
        predicate = parse_where(selection, self.bound.tables[name].state.schema, self.values)
        if predicate is None:
            return None
        return PushedPredicates(
            {name: predicate}, conditions={name: planned_conditions(selection, judged.asked, predicate)}
        )

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
        """Open the planning database with all that the statement names: empty tables, views and variables."""
        with closing(self.database.connect_planning()) as connection:
            set_moment(connection, self.moment)
            self._name_stand_ins(connection, self.bound)
            yield connection

    def _name_stand_ins(self, connection: duckdb.DuckDBPyConnection, bound: Bound) -> None:
        """Create what the names of a statement stand for: stand-ins, views, and the columns of system tables."""
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
            elif isinstance(what.rows, TableRows):
                self._stand_ins[name].create(connection, name)
            else:
                name_rows(connection, name, what.rows.columns())

    def _variable_table(self, name: str) -> str:
        """Return the name of the empty table that stands in for a variable with a generated name."""
        return f"{self._mark}of{name}"
