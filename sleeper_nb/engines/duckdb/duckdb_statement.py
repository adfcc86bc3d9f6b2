"""Run a query on DuckDB: judge it, plan what it reads, and name its tables on a connection of its own.

Its rows are read when they are asked for, in a way that an interrupt stops.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar

import duckdb
import pyarrow as pa

from sleeper_nb.engines.duckdb import relations
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.duckdb.duckdb_planning import DuckDBPlanning
from sleeper_nb.engines.duckdb.duckdb_reads import JudgedStatement
from sleeper_nb.engines.duckdb.interrupts import Cancelling, interruptible
from sleeper_nb.engines.duckdb.syntax_tree import moment_of, set_moment
from sleeper_nb.engines.engine import EngineName, EngineQuery
from sleeper_nb.engines.rows_to_load import LOADED_ROWS, RowsToLoad
from sleeper_nb.engines.undisturbed import undisturbed
from sleeper_nb.errors import Cancelled, SleeperError, StorageError
from sleeper_nb.read.predicate import PushedPredicates
from sleeper_nb.read.scan_plan import TableRows
from sleeper_nb.sql.binding import Bound
from sleeper_nb.sql.bound_lakes import BoundLake
from sleeper_nb.sql.parameters import with_own_parameters
from sleeper_nb.sql.variables import BoundVariable
from sleeper_nb.storage.paths import DATA, STATE_STORE, is_foreign

if TYPE_CHECKING:
    from sleeper_nb.engines.duckdb.files_in_sql import ReadableFiles
    from sleeper_nb.sql.chart_sums import ChartQuery, ChartValue


@dataclass(frozen=True, slots=True)
class DuckDBStatement:
    """A planned statement.

    Parameters
    ----------
    judged
        It and its views, as DuckDB's parser has them.
    readable, files
        The files that it names, with their names in the statement, and their paths; None, and none.
    moment
        When it began, if it asks for the time.
    """

    read: Bound
    keys: str
    judged: JudgedStatement
    readable: ReadableFiles | None
    files: tuple[str, ...]
    values: Mapping[str, Any]
    moment: Mapping[str, str]
    database: Database

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self.readable is None else self.readable.notes

    @property
    def has_common_tables(self) -> bool:
        return any("WITH" in each.words() for each in self.read.statements)

    def run(self) -> DuckDBRows:
        """Return the rows, on a connection that can open only what the statement reads."""
        connection = self.database.connect_confined(_folders(self.read), self.files)
        named = partial(self._rows, connection)
        rows = interruptible(connection, named) if self.judged.is_eager else named()
        return DuckDBRows(connection, rows, self)

    def free_rows(self) -> tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyRelation]:
        free = self.database.connect()
        return free, self._rows(free)

    def _rows(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        if self.moment:
            set_moment(connection, self.moment)
        if self.readable is not None:
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
    bound, readable = query.bound, None
    if files:
        from sleeper_nb.engines.duckdb.files_in_sql import ReadableFiles  # few statements name a file

        readable = ReadableFiles.of(bound, files)
        bound = readable.bound
        judged = _judged(bound, parser, database)  # the text that is run is the one that was judged
    times = judged.time_functions
    moment = moment_of(parser(), times) if times else {}
    if why := query.why_whole:
        bound, keys = bound.pruned(PushedPredicates({}, why)), ""
    else:
        planning = DuckDBPlanning(bound, judged, query.values, database, moment, dry_run=query.dry_run)
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
    for name, what in bound.named.items():
        if isinstance(what, Bound):
            _name(connection, what, judged)
            rows = relations.query(connection, judged.of(what.statement))
        elif isinstance(what, BoundVariable):
            rows = relations.of_variable(connection, what)
        elif isinstance(what, BoundLake):
            rows = relations.of_lake(connection, what, judged.of(bound.statement).picked(what.names))
        elif isinstance(what.rows, TableRows):
            query, names = judged.of(bound.statement), what.rows.state.schema.names
            plan = what.rows.plan if relations.is_native(what.rows.plan) else what.rows.narrowed
            relations.name_table(
                connection,
                name,
                plan,
                what.storage,
                columns=query.picked(names),
                is_whole=query.reads_most_of(names),
                with_places=what.with_places,
            )
            continue
        else:
            rows = relations.system_table(connection, what.rows)
        relations.name_rows(connection, name, rows)


T = TypeVar("T")

_PLANS: Final = frozenset({"analyzed_plan", "logical_opt", "logical_plan", "physical_plan"})

_Readable: TypeAlias = tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyRelation]
"""A connection, and rows on it."""


class DuckDBRows:
    """Rows that DuckDB reads, on a connection of their own.

    Parameters
    ----------
    connection
        A connection that can open only the files of the statement.
    statement
        The statement; it has the same rows on another connection, for the caller's program, and for what is asked while
        batches are being read.
    """

    engine: ClassVar[EngineName] = "duckdb"
    __slots__ = ("__weakref__", "_cancelling", "_connection", "_is_read", "_rows", "_statement")

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, rows: duckdb.DuckDBPyRelation, statement: DuckDBStatement
    ) -> None:
        self._connection, self._rows, self._statement = connection, rows, statement
        self._is_read, self._cancelling = False, Cancelling()

    def again(self) -> DuckDBRows:
        return self._statement.run()

    def cancel(self) -> None:
        self._cancelling.cancel()

    @property
    def names(self) -> tuple[str, ...]:
        with undisturbed():
            return tuple(self._rows.columns)

    @property
    def kinds(self) -> tuple[str, ...]:
        with undisturbed():
            return tuple(map(str, self._rows.types))

    @property
    def native(self) -> duckdb.DuckDBPyRelation:
        return self._statement.free_rows()[1]

    def first(self, rows: int) -> pa.Table:
        """Read the first rows; of a ``WITH``, as a batch: DuckDB 2.0 can wait for ever when such rows are limited."""
        if self._statement.has_common_tables:
            with closing(self.batches(max(rows, 1))) as batches:
                return next(batches).slice(0, rows)
        return self._run(lambda every: relations.to_arrow(every.limit(rows)), in_made_rows=True)

    def all(self) -> pa.Table:
        return self._run(relations.to_arrow)

    def count(self) -> int:
        return self._run(relations.count, in_made_rows=True)

    def batches(self, rows: int) -> Generator[pa.Table]:
        """Read all rows, and continue where the previous batch ended."""
        connection, all_rows = self._readable()
        is_own = connection is self._connection
        self._is_read |= is_own
        try:
            with closing(relations.batches(all_rows, rows)) as batches:
                while (batch := self._on(connection, lambda: next(batches, None))) is not None:
                    yield batch
        finally:
            self._is_read &= not is_own

    def batches_to_iterate(self, rows: int) -> Generator[pa.Table]:
        return self.batches(rows)

    def summed(self, values: Sequence[ChartValue], query: ChartQuery) -> pa.Table:
        return self._run(partial(relations.summed_for_chart, values=values, query=query), in_made_rows=True)

    def plan(self) -> str:
        return self._run(lambda rows: rows.explain().rstrip())

    def plan_in(self, rows: pa.Table) -> str | None:
        if rows.column_names != ["explain_key", "explain_value"] or not rows.num_rows:
            return None
        kinds, texts = (column.to_pylist() for column in rows.columns)
        is_plan = all(kind in _PLANS for kind in kinds) and all(isinstance(text, str) for text in texts)
        return "\n".join(texts).rstrip() if is_plan else None

    def to_load(self, names: Sequence[str]) -> RowsToLoad:
        return RowsToLoad(self.batches(LOADED_ROWS), names)

    def placing(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _readable(self) -> _Readable:
        """Return the rows and their connection: another one while batches are read from ours, which would end them."""
        return self._statement.free_rows() if self._is_read else (self._connection, self._rows)

    def _run(self, action: Callable[[duckdb.DuckDBPyRelation], T], *, in_made_rows: bool = False) -> T:
        connection, rows = self._readable()
        return self._on(connection, partial(action, rows), in_made_rows=in_made_rows)

    def _on(self, connection: duckdb.DuckDBPyConnection, action: Callable[[], T], *, in_made_rows: bool = False) -> T:
        """Run an action; its error gets its place, also where the action made other rows of those of the statement."""
        try:
            with self._cancelling.running(connection):
                return interruptible(connection, action)
        except Cancelled:
            raise
        except SleeperError as error:
            read = self._statement.read
            for source in read.sources:  # which names a file that is gone or was changed
                source.check_files()
            place = read.texts.placed_in_made_rows if in_made_rows else read.texts.placed
            place(error)
            raise
