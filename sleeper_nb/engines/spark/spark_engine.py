"""Spark as an engine: it starts with its first work, and shares the work among tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.engine import EngineName, EngineQuery, EngineSettings, ScanRows, TaskLoad
from sleeper_nb.engines.spark.spark_claims import changes_spark, why_only_spark, why_spark_after
from sleeper_nb.errors import InvalidInput, SessionClosed, SleeperError
from sleeper_nb.sql.binding import Bound, BoundSource
from sleeper_nb.sql.statement import Composition, SqlText, Statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sleeper_nb.engines.spark.spark_load import SparkWriter
    from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
    from sleeper_nb.engines.spark.spark_statement import SparkRows
    from sleeper_nb.load.load_options import Matching
    from sleeper_nb.load.load_report import IngestPlan
    from sleeper_nb.load.row_checks import RowCheck
    from sleeper_nb.load.sources import IngestSource
    from sleeper_nb.load.split import KeySample
    from sleeper_nb.maintain.compact import JobRunner
    from sleeper_nb.model.schema import Schema
    from sleeper_nb.model.state import TableState
    from sleeper_nb.storage.data_files import DataFileSettings
    from sleeper_nb.storage.filesystem import Storage


class SparkEngine:
    """Runs queries on Spark.

    Parameters
    ----------
    on_session
        Called once with each Spark session that is used, before its first work.
    """

    name: ClassVar[EngineName] = "spark"
    title: ClassVar[str] = "Spark"
    takes_any_condition: ClassVar[bool] = False

    def __init__(
        self, settings: EngineSettings, database: Database, on_session: Callable[[SparkSession], object]
    ) -> None:
        self._settings, self._database, self._on_session = settings, database, on_session
        self._runtime: SparkRuntime | None = None
        self._lock, self._closed = threading.Lock(), False

    def runtime(self) -> SparkRuntime:
        """Return what owns the Spark session, which starts with its first work."""
        with self._lock:
            if self._closed:
                raise SessionClosed.of("the session's Spark")
            if self._runtime is None:
                from sleeper_nb.engines.spark.spark_runtime import SparkRuntime

                given = self._settings
                self._runtime = SparkRuntime(
                    given.spark,
                    config=given.spark_config,
                    clock=given.clock,
                    progress=given.progress,
                    on_session=self._on_session,
                )
            return self._runtime

    @property
    def started(self) -> SparkSession | None:
        """The Spark session; None when there is none that answers."""
        return self._runtime.session() if self._runtime is not None and self._runtime.started else None

    @property
    def cluster(self) -> str:
        """The cluster that the user's Spark session, or else a setting, names; "" for this machine."""
        context = getattr(self._settings.spark, "sparkContext", None)  # Spark Connect has none, and is refused later
        master = self._settings.spark_config.get("spark.master") if context is None else context.master
        return "" if master is None or master.startswith("local") else master

    @property
    def on_cluster(self) -> bool:
        if self.cluster:
            return True
        from sleeper_nb.engines.spark.gateway import active_session
        from sleeper_nb.engines.spark.jvm import is_local

        session = active_session()
        return session is not None and not is_local(session.sparkContext.master)

    def plan(self, query: EngineQuery) -> PlannedFrame:
        from sleeper_nb.engines.spark.file_systems import reader_words

        runtime = self.runtime()

        def frame(session: SparkSession) -> tuple[Bound, str, DataFrame]:
            from sleeper_nb.engines.spark.spark_statement import SparkStatement

            of = self._settings
            return SparkStatement(query, self._database, session, of.local_files, of.session_id).rows()

        read, keys, rows = runtime.run(frame, "query")
        sources = (each for each in read.by_name.values() if isinstance(each, BoundSource))
        words = {reader_words(rows.sparkSession, of.plan, of.storage) for of in sources if of.plan is not None}
        return PlannedFrame(read, keys, ("; ".join(sorted(words - {""})),), rows, runtime)

    def claim(self, sql: SqlText | Composition, views: Mapping[str, Statement]) -> str:
        if self.cluster:
            return f"the warehouse names cluster {self.cluster}"
        return why_only_spark(sql, partial(self._views, views))

    def claim_after(
        self, error: SleeperError, sql: SqlText | Composition, views: Mapping[str, Statement], *, ask: bool
    ) -> str:
        return why_spark_after(error, sql, partial(self._views, views), self._has_function if ask else lambda _: False)

    def own_names(self) -> frozenset[str]:
        spark = self.started
        if spark is None:
            return frozenset()
        from sleeper_nb.engines.spark.gateway import own_views

        return frozenset(map(str.casefold, own_views(spark)))

    def check(self, statement: Statement, *, dry_run: bool) -> None:
        from sleeper_nb.engines.spark.sql_rules import refuse_before_start

        if dry_run and changes_spark(statement):
            problem = "the statement changes the Spark session and reads no rows"
            raise InvalidInput(problem, hint="run it without a dry run")
        refuse_before_start(statement)

    def _views(self, views: Mapping[str, Statement]) -> frozenset[str]:
        """Return the names, in lower case, of the views that only Spark can read: the session's and its own."""
        of_session = {name for name, query in views.items() if query.dialect == self.name}
        return frozenset(self.own_names() - views.keys() | of_session)

    def _has_function(self, name: str) -> bool:
        """Return whether Spark has a function of a name, in lower case: of its own or, if it runs, a registered one."""
        from sleeper_nb.engines.spark.gateway import has_function
        from sleeper_nb.engines.spark.sql_rules import function_names

        spark = self.started
        return name in function_names() or (spark is not None and has_function(spark, name))

    def why_no_condition(self, _kind: str) -> str:
        return ""

    def scan(self, rows: ScanRows) -> DataFrame:
        from sleeper_nb.engines.spark import frames

        rows.guard.until_closed("data frame")
        frame = frames.data_frame(self.runtime().session(), rows.plan, rows.storage)
        if rows.condition is not None:
            frame = frames.met(frame, rows.plan.schema, rows.condition, rows.columns)
        frame = frame.select(*rows.columns) if rows.columns else frame
        return frame if rows.limit is None else frame.limit(rows.limit)

    def writer(self, load: TaskLoad) -> SparkWriter:
        from sleeper_nb.engines.spark.spark_load import SparkWriter

        return SparkWriter(self.runtime(), load)

    def sample(self, rows: Sequence[IngestSource], schema: Schema, size: int, matching: Matching) -> KeySample:
        from sleeper_nb.engines.spark.load_frames import sample_keys

        return sample_keys(self.runtime(), rows, schema, size, matching=matching)

    def plan_load(
        self,
        state: TableState,
        rows: Sequence[IngestSource],
        matching: Matching,
        *,
        strategy: str,
        checks: Sequence[RowCheck],
    ) -> IngestPlan:
        from sleeper_nb.engines.spark.load_frames import plan_frame

        plan = plan_frame(self.runtime(), state, rows, matching, strategy=strategy, checks=checks)
        later = ("whether row keys are unique is checked by the load",) if state.schema.unique_keys else ()
        return replace(plan, notes=(*plan.notes, *later))

    def compaction(
        self,
        storage: Storage,
        writing: DataFileSettings,
        on_start: Callable[[str], None],
        check: Callable[[], None],
    ) -> JobRunner:
        from sleeper_nb.engines.spark.spark_load import run_on_spark

        return run_on_spark(self.runtime(), storage, writing, on_start, check)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            runtime = self._runtime
        if runtime is not None:
            runtime.stop()


@dataclass(frozen=True, slots=True, eq=False)
class PlannedFrame:
    """A query as a DataFrame, none of whose rows is computed yet.

    Parameters
    ----------
    notes
        Who reads the tables in buckets.
    """

    read: Bound
    keys: str
    notes: tuple[str, ...]
    frame: DataFrame
    runtime: SparkRuntime

    def run(self) -> SparkRows:
        from sleeper_nb.engines.spark.spark_statement import SparkRows

        return SparkRows(self.read, self.frame, self.runtime)
