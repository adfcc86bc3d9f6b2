"""Spark as an engine: it starts with its first work, and shares the work among tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.engine import Capabilities, EngineName, EngineQuery, EngineSettings
from sleeper_nb.errors import SessionClosed
from sleeper_nb.sql.binding import Bound, BoundSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sleeper_nb.engines.spark.spark_rows import SparkRows
    from sleeper_nb.engines.spark.spark_runtime import SparkRuntime


class SparkEngine:
    """Runs queries on Spark.

    Parameters
    ----------
    settings
        Those of the session, with the Spark session that the user gave.
    database
        Reads the keys of small inputs.
    on_session
        Called once with each Spark session that is used, before its first work.
    """

    name: ClassVar[EngineName] = "spark"
    capabilities: ClassVar[Capabilities] = Capabilities(has_own_session=True, reads_own_frames=True)

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
        """Whether Spark works on a cluster: the warehouse names one, or a session of this process is on one."""
        if self.cluster:
            return True
        from sleeper_nb.engines.spark.gateway import active_session
        from sleeper_nb.engines.spark.jvm import is_local

        session = active_session()
        return session is not None and not is_local(session.sparkContext.master)

    def plan(self, query: EngineQuery) -> PlannedFrame:
        """Judge a query with Spark's parser, and plan what it reads; errors as in `Engine`."""
        from sleeper_nb.engines.spark.file_systems import reader_words

        runtime = self.runtime()

        def frame(session: SparkSession) -> tuple[Bound, str, DataFrame]:
            from sleeper_nb.engines.spark.spark_planning import SparkPlanning
            from sleeper_nb.engines.spark.spark_statement import SparkStatement

            planning = SparkPlanning(query.bound, self._database, runtime.kept_frames(session), query.dry_run)
            of = self._settings
            return SparkStatement(planning, query.values, of.local_files, of.session_id).rows(query.why_whole)

        read, keys, rows = runtime.run(frame, "query")
        sources = (each for each in read.by_name.values() if isinstance(each, BoundSource))
        words = {reader_words(rows.sparkSession, of.plan, of.storage) for of in sources if of.plan is not None}
        return PlannedFrame(read, keys, ("; ".join(sorted(words - {""})),), rows, runtime)

    def close(self) -> None:
        """Stop Spark, if a session of this process started it and no other one uses it."""
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
    read, keys
        The statement with what is read of each table, and which keys were read first, for users.
    notes
        Who reads the tables in buckets.
    """

    read: Bound
    keys: str
    notes: tuple[str, ...]
    frame: DataFrame
    runtime: SparkRuntime

    def run(self) -> SparkRows:
        """Return the rows."""
        from sleeper_nb.engines.spark.spark_rows import SparkRows

        return SparkRows(self.read, self.frame, self.runtime)
