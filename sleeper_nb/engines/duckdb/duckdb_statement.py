"""Run a query on DuckDB: judge it, plan what it reads, and name its tables on a connection of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import duckdb

from sleeper_nb.engines.duckdb import relations
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.duckdb.duckdb_planning import DuckDBPlanning
from sleeper_nb.engines.duckdb.duckdb_reads import JudgedStatement
from sleeper_nb.engines.duckdb.duckdb_rows import DuckDBRows
from sleeper_nb.engines.duckdb.interrupts import interruptible
from sleeper_nb.engines.duckdb.readable_files import ReadableFiles
from sleeper_nb.engines.duckdb.statement_time import moment_of, set_moment
from sleeper_nb.engines.engine import EngineQuery
from sleeper_nb.errors import StorageError
from sleeper_nb.read.predicate import PushedPredicates
from sleeper_nb.read.scan_plan import TableRows
from sleeper_nb.sql.binding import Bound
from sleeper_nb.sql.parameters import with_own_parameters
from sleeper_nb.sql.variables import BoundVariable
from sleeper_nb.storage.paths import DATA, STATE_STORE, is_foreign


@dataclass(frozen=True, slots=True)
class DuckDBStatement:
    """A planned statement.

    Parameters
    ----------
    read
        The statement, with what is read of each table.
    keys
        Which keys were read first, for users.
    judged
        It and its views, as DuckDB's parser has them.
    readable, files
        The files that it reads, and their names in the statement.
    values
        Those of its parameters.
    moment
        When it began, if it asks for the time.
    """

    read: Bound
    keys: str
    judged: JudgedStatement
    readable: ReadableFiles
    files: tuple[str, ...]
    values: Mapping[str, Any]
    moment: Mapping[str, str]
    database: Database

    @property
    def notes(self) -> tuple[str, ...]:
        """What users are told about files."""
        return tuple(self.readable.notes)

    @property
    def has_common_tables(self) -> bool:
        """Whether it has a ``WITH``."""
        return any("WITH" in each.words() for each in self.read.statements)

    def run(self) -> DuckDBRows:
        """Return the rows, on a connection that can open only what the statement reads."""
        footers = relations.footers_of(self.read.sources)
        connection = self.database.connect_confined(_folders(self.read), self.files, footers=footers)
        named = partial(self._rows, connection)
        rows = interruptible(connection, named) if self.judged.is_eager else named()
        return DuckDBRows(connection, rows, self)

    def free_rows(self) -> tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyRelation]:
        """Return a new connection without limits, and the rows there."""
        free = self.database.connect()
        return free, self._rows(free)

    def _rows(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """Name all that the statement reads on a connection, and return its rows there."""
        if self.moment:
            set_moment(connection, self.moment)
        self.readable.name(connection)
        _name(connection, self.read, self.judged)
        try:
            return relations.query(connection, self.judged.of(self.read.statement), self.values)
        except StorageError:
            for source in self.read.sources:  # which may name a file that is gone
                source.check_files()
            raise


def planned(query: EngineQuery, database: Database, *, local_files: bool) -> DuckDBStatement:
    """Judge a query, and plan what it reads.

    Raises
    ------
    InvalidInput, NotFound
        When DuckDB cannot read the statement, or it does more than read.
    """
    parser = cache(database.connect_planning)
    judged = _judged(query.bound, parser, database)
    files = judged.files(database.connect, query.values, allowed=local_files)
    readable = ReadableFiles.of(query.bound, files)
    if readable.bound is not query.bound:  # the text that is run is the one that was judged
        judged = _judged(readable.bound, parser, database)
    times = judged.time_functions
    moment = moment_of(parser(), times) if times else {}
    if why := query.why_whole:
        bound, keys = readable.bound.pruned(PushedPredicates({}, why)), ""
    else:
        planning = DuckDBPlanning(readable.bound, judged, query.values, database, moment, query.dry_run)
        bound, keys = planning.pruned()
    return DuckDBStatement(bound, keys, judged, readable, tuple(files), query.values, moment, database)


def _judged(bound: Bound, parser: Callable[[], duckdb.DuckDBPyConnection], database: Database) -> JudgedStatement:
    """Return a statement and its views as DuckDB's parser sees them; errors as `relations.parsed`."""
    kept = database.judged_queries
    return JudgedStatement(
        {each.text: relations.parsed(parser, with_own_parameters(each), kept) for each in bound.statements}
    )


def _folders(bound: Bound) -> set[str]:
    """Return the local folders of the files that a statement's tables have, or were given where they were."""
    folders = set()
    for source in bound.sources:
        if not source.storage.local:
            continue
        if not isinstance(source.rows, TableRows):
            folders.add(source.storage.locate(STATE_STORE))
            continue
        folders.add(source.storage.locate(DATA))
        names = (file.filename for file in source.rows.plan.files)
        folders |= {source.storage.locate(name).rpartition("/")[0] for name in names if is_foreign(name)}
    return folders


def _name(connection: duckdb.DuckDBPyConnection, bound: Bound, judged: JudgedStatement) -> None:
    """Give a connection the relations that the names of a bound statement stand for."""
    for name, what in bound.named.items():
        if isinstance(what, Bound):
            _name(connection, what, judged)
            rows = relations.query(connection, judged.of(what.statement))
        elif isinstance(what, BoundVariable):
            rows = relations.of_variable(connection, what)
        elif isinstance(what.rows, TableRows):
            is_whole = judged.of(bound.statement).reads_most_of(what.rows.state.schema.names)
            plan, with_places = what.rows.plan, what.with_places
            relations.name_table(connection, name, plan, what.storage, is_whole=is_whole, with_places=with_places)
            continue
        else:
            rows = relations.system_table(connection, what.rows)
        relations.name_rows(connection, name, rows)
