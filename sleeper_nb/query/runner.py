"""Hand a bound statement to DuckDB or Spark: plan what it reads, name its tables, and return its rows, not read yet."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.clock import Clock
from sleeper_nb.engines.components import Engines
from sleeper_nb.engines.duckdb.interrupts import interruptible
from sleeper_nb.errors import SleeperError, StorageError
from sleeper_nb.query.engine_choice import ChosenEngine, Engine, means_the_same
from sleeper_nb.query.from_metadata import answer_from_metadata
from sleeper_nb.query.result import DuckDBResult, QueryOrigin, QueryResult, SparkResult
from sleeper_nb.query.spark_planning import SparkPlanning
from sleeper_nb.query.spark_statement import SparkStatement
from sleeper_nb.read.predicate import PushedPredicates
from sleeper_nb.read.scan_plan import TableRows
from sleeper_nb.report import Bytes
from sleeper_nb.sql.binding import Bound, BoundSource
from sleeper_nb.sql.name_errors import name_error
from sleeper_nb.sql.parameters import plain_values, with_duckdb_parameters
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.variables import BoundVariable, Variables
from sleeper_nb.storage.paths import DATA, STATE_STORE, is_foreign

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import DataFrame, SparkSession

    from sleeper_nb.engines.duckdb.database import Database
    from sleeper_nb.engines.duckdb.duckdb_reads import JudgedStatement
    from sleeper_nb.engines.duckdb.files_in_sql import ReadableFiles
    from sleeper_nb.engines.duckdb.kept_views import ViewsOfStatement

logger = logging.getLogger(__name__)

_LONGEST_TEXT: Final = 200_000
_MOST_VALUES: Final = 10_000
"""Of a list. Planning takes about as long as the answer from here on, and so many keys leave little out."""


class BetterOnSpark(Exception):  # noqa: N818 - no error: the statement runs on another engine
    """A statement reads what its runner should not read; `if_it_can` when DuckDB may read it too."""

    def __init__(self, why: str, *, if_it_can: bool) -> None:
        super().__init__(why)
        self.why, self.if_it_can = why, if_it_can


@dataclass(frozen=True, slots=True)
class Runner:
    """Hands bound statements to an engine: a user's statement, and first the expressions of its version clauses.

    Parameters
    ----------
    chosen
        The engine, and why.
    tables, parameters, engines, clock
        As in `sleeper_nb.query.queries.Queries`.
    variables
        What statements may read by name besides tables.
    limit
        From how many bytes on a statement is not run, and `BetterOnSpark` is raised.
    dry_run
        Whether no row may be read, not even to plan.
    """

    chosen: ChosenEngine
    tables: Callable[[], tuple[str, ...]]
    variables: Variables
    parameters: Mapping[str, Any]
    engines: Engines
    clock: Clock
    limit: float
    began: datetime
    dry_run: bool = False

    @property
    def engine(self) -> Engine:
        """The name of the engine."""
        return self.chosen.name

    def of_any_size(self) -> Runner:
        """Return a runner that runs statements of any size."""
        return replace(self, limit=math.inf)

    def run(self, bound: Bound) -> QueryResult:
        """Return the result of a user's statement; from metadata alone where that can answer it."""
        values = plain_values(bound.statement, self.parameters)
        logger.debug("query on %s reads %s", self.engine, ", ".join(map(str, bound.sources)) or "no table")
        try:
            answer = answer_from_metadata(bound)
            if answer is None:
                return self.hand_over(bound, values)
            return self.of_any_size().hand_over(answer.bound, answer.values, note=answer.note)
        except SleeperError as error:
            ours = name_error(bound.texts.placed(error), bound, self.tables, self.variables)
            if ours is error:
                raise
            ours.place = error.place
            raise ours from error

    def value(self, bound: Bound) -> Any:
        """Return the one value of a query of one row and column."""
        return self.run(bound).to_arrow().column(0)[0].as_py()

    def own(self, text: str, values: Mapping[str, Any]) -> QueryResult:
        """Return the result of a statement that this package wrote, on DuckDB."""
        own = replace(self, chosen=ChosenEngine("duckdb"), parameters=values)
        return own.run(Bound(Statement.of(text, dialect="duckdb"), {}, ()))

    def hand_over(self, bound: Bound, values: Mapping[str, Any], note: str = "") -> QueryResult:
        """Return the result of a bound statement, which the engine runs."""
        run = self._on_duckdb if self.engine == "duckdb" else self._on_spark
        return run(bound, values, note)

    def _on_duckdb(self, bound: Bound, values: Mapping[str, Any], note: str = "") -> QueryResult:
        from sleeper_nb.engines.duckdb.duckdb_planning import DuckDBPlanning
        from sleeper_nb.engines.duckdb.files_in_sql import ReadableFiles
        from sleeper_nb.engines.duckdb.kept_views import can_be_kept
        from sleeper_nb.engines.duckdb.statement_time import moment_of

        self._check_variables(bound)
        database = self.engines.duckdb
        parser = cache(database.connect_planning)
        judged = _judged(bound, parser, database)
        files = judged.files(database.connect, values, allowed=self.engines.local_files)
        read = ReadableFiles.of(bound, files)
        if read.bound is not bound:  # the text that is run is the one that was judged
            judged = _judged(read.bound, parser, database)
        times = judged.time_functions
        moment = moment_of(parser(), times) if times else {}
        if why := _why_too_large(bound, values):
            bound, keys = read.bound.pruned(PushedPredicates({}, why)), ""
        else:
            bound, keys = DuckDBPlanning(read.bound, judged, values, database, moment, self.dry_run).pruned()
        notes = " · ".join(filter(None, (keys or note, *read.notes)))
        origin = replace(self._origin(bound, notes), engine=self._chosen_for(bound))
        keeps = not judged.lists_names and can_be_kept(bound.plans)
        views = database.connect_statement(_folders(bound), files, keeps=keeps)
        statement = _DuckDBStatement(bound, judged, read, values, moment)
        named = partial(statement.rows, views)
        rows = interruptible(views.connection, named) if judged.is_eager else named()
        free = partial(statement.free_rows, database)
        return DuckDBResult(origin, views.connection, rows, statement.has_ctes, free, self.engines.spark)

    def _on_spark(self, bound: Bound, values: Mapping[str, Any], note: str = "") -> QueryResult:
        engine = self.engines.spark()
        why = _why_too_large(bound, values)

        def frame(session: SparkSession) -> tuple[Bound, str, DataFrame]:
            planning = SparkPlanning(bound, self.engines.duckdb, engine.kept_frames(session), self.dry_run)
            return SparkStatement(planning, values, self.engines).rows(why)

        read, keys, rows = engine.run(frame, "query")
        notes = (keys or note, _reader_of_buckets(rows.sparkSession, read))
        return SparkResult(self._origin(read, " · ".join(filter(None, notes))), rows, engine)

    def _chosen_for(self, bound: Bound) -> ChosenEngine:
        """Return the engine, with the reason that follows from the size; raise when the statement is one for Spark."""
        size = sum(source.bytes for source in bound.sources)
        if size < self.limit:
            return self.chosen
        if any(isinstance(what, Bound) for what in bound.named.values()):
            return ChosenEngine("duckdb", "it keeps a view of the statement")
        if not means_the_same(bound.written or bound.statement):
            return ChosenEngine("duckdb", f"it reads {Bytes(size)}, but Spark may answer otherwise")
        raise BetterOnSpark(f"it reads {Bytes(size)}", if_it_can=True)

    def _check_variables(self, bound: Bound) -> None:
        """Raise when the engine is not named, and a variable is a Spark DataFrame."""
        on_spark = [each.name for each in bound.variables if each.spark_frame is not None]
        if on_spark and math.isfinite(self.limit):
            raise BetterOnSpark(f"{on_spark[0]} is a Spark DataFrame", if_it_can=False)

    def _origin(self, bound: Bound, note: str) -> QueryOrigin:
        names = tuple(map(str, bound.variables))
        return QueryOrigin(bound.sources, self.chosen, self.began, self.clock, bound.texts, note, names)


@dataclass(frozen=True, slots=True)
class _DuckDBStatement:
    """A planned statement for DuckDB, with the files that it reads and the moment that it began."""

    bound: Bound
    judged: JudgedStatement
    files: ReadableFiles
    values: Mapping[str, Any]
    moment: Mapping[str, str]

    @property
    def has_ctes(self) -> bool:
        return any("WITH" in each.words() for each in self.bound.statements)

    def rows(self, views: ViewsOfStatement) -> duckdb.DuckDBPyRelation:
        """Name all that the statement reads on a connection, and return its rows there."""
        from sleeper_nb.engines.duckdb import relations
        from sleeper_nb.engines.duckdb.statement_time import set_moment

        if self.moment:
            set_moment(views.connection, self.moment)
        self.files.name(views)
        _name_on_duckdb(views, self.bound, self.judged)
        try:
            return relations.query(views.connection, self.judged.of(self.bound.statement), self.values)
        except StorageError:
            for source in self.bound.sources:  # which may name a file that is gone
                source.check_files()
            raise

    def free_rows(self, database: Database) -> tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyRelation]:
        """Return a new connection without limits, and the rows there."""
        from sleeper_nb.engines.duckdb.kept_views import ViewsOfStatement

        free = database.connect()
        return free, self.rows(ViewsOfStatement(free))


def _judged(bound: Bound, parser: Callable[[], duckdb.DuckDBPyConnection], database: Database) -> JudgedStatement:
    """Return a statement and its views as DuckDB's parser sees them; errors as `relations.parsed`."""
    from sleeper_nb.engines.duckdb import relations
    from sleeper_nb.engines.duckdb.duckdb_reads import JudgedStatement

    kept = database.judged_queries
    return JudgedStatement(
        {each.text: relations.parsed(parser, with_duckdb_parameters(each), kept) for each in bound.statements}
    )


def _reader_of_buckets(spark: SparkSession, bound: Bound) -> str:
    """Return who reads the tables of a statement that are in buckets; "" when none is."""
    from sleeper_nb.engines.spark.file_systems import reader_words

    read = (what for what in bound.by_name.values() if isinstance(what, BoundSource))
    words = {reader_words(spark, what.plan, what.storage) for what in read if what.plan is not None}
    return "; ".join(sorted(words - {""}))


def _why_too_large(bound: Bound, values: Mapping[str, Any]) -> str:
    """Return why a statement is planned only once, when it runs; "" for one of a usual size."""
    if sum(len(statement.text) for statement in bound.statements) > _LONGEST_TEXT:
        return f"the statement has more than {_LONGEST_TEXT:,} characters"
    large = [name for name, value in values.items() if isinstance(value, Sized) and len(value) > _MOST_VALUES]
    return f"parameter {large[0]!r} has more than {_MOST_VALUES:,} values" if large else ""


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


def _name_on_duckdb(views: ViewsOfStatement, bound: Bound, judged: JudgedStatement) -> None:
    """Give a connection the relations that the names of a bound statement stand for."""
    from sleeper_nb.engines.duckdb import relations

    for name, what in bound.named.items():
        if isinstance(what, Bound):
            _name_on_duckdb(views, what, judged)
            rows = relations.query(views.connection, judged.of(what.statement))
        elif isinstance(what, BoundVariable):
            rows = relations.of_variable(views.connection, what)
        elif isinstance(what.rows, TableRows):
            is_whole = judged.of(bound.statement).reads_most_of(what.rows.state.schema.names)
            plan, with_places = what.rows.plan, what.with_places
            relations.name_table(views, name, plan, what.storage, is_whole=is_whole, with_places=with_places)
            continue
        else:
            rows = relations.system_table(views.connection, what.rows)
        relations.name_rows(views.connection, name, rows)
