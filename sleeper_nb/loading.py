"""`Loading`: what adds rows to a table, in process or through Spark, or says what it would add."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, overload

from sleeper_nb.arguments import checked
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.jobs import JobKind, check_job_id
from sleeper_nb.model.properties import INGEST_STRATEGY, SAVEPOINT_INTERVAL
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.operations.administration import property_state
from sleeper_nb.operations.loading import ingest, sources
from sleeper_nb.operations.loading.conforming import A_TABLE
from sleeper_nb.operations.loading.ingest_plan import IngestPlan, plan_ingest
from sleeper_nb.operations.loading.source_files import CsvFormat
from sleeper_nb.operations.loading.sources import Source
from sleeper_nb.operations.tracking import tracking
from sleeper_nb.operations.versioning import periodic
from sleeper_nb.oversight import SPARK_BYTES, Oversight


class Loading(Oversight):
    """The part of `Table` that adds rows."""

    @overload
    def ingest(
        self,
        data: Any,
        *,
        message: str | None = None,
        job_id: str | None = None,
        dry_run: Literal[False] = False,
        delimiter: str | None = None,
        null_text: str | None = None,
        header: bool = True,
    ) -> Snapshot: ...

    @overload
    def ingest(
        self,
        data: Any,
        *,
        message: str | None = None,
        job_id: str | None = None,
        dry_run: Literal[True],
        delimiter: str | None = None,
        null_text: str | None = None,
        header: bool = True,
    ) -> IngestPlan: ...

    @checked
    def ingest(
        self,
        data: Any,
        *,
        message: str | None = None,
        job_id: str | None = None,
        dry_run: bool = False,
        delimiter: str | None = None,
        null_text: str | None = None,
        header: bool = True,
    ) -> Snapshot | IngestPlan:
        """Add rows: in process when they are in memory or small, through Spark otherwise.

        Parameters
        ----------
        data
            pandas, Arrow, Polars, DuckDB or Spark rows, a list of dictionaries; the path, folder, glob or ``s3://``
            address of Parquet, CSV or JSON files (objects by line, or one array); or a list of any of these. Files of
            256 MiB and more in all, and Spark DataFrames, go through Spark.
        message
            What history shows of it.
        job_id
            A name for this work, such as ``2026-11-21/flights``: the same again adds nothing, however often it is run,
            by whom, and wherever an earlier run failed. Ids are kept as long as the table is. A job that had no rows
            to add has not used its id.
        dry_run
            Only return what would be done: rows, leaves, files, and every difference between data and schema.
        delimiter
            What separates the values of CSV files: one character, or ``"tab"``; a comma when None, a tab in ``.tsv``.
        null_text
            What stands for NULL in CSV files, without quotes; nothing when None.
        header
            Whether the first line of CSV files names the columns; otherwise they are the table's, in its order.

        Returns
        -------
        The snapshot that holds the rows; the current one when there were none. Of a job that was done before, a
        `MadeBefore` says so: the snapshot that it made then, or the current one where that has expired. When the
        property ``savepoint.create-interval`` asked for a savepoint, a `LoadedAndSaved` says what became of it. For a
        dry run the plan.

        Raises
        ------
        InvalidInput
            When a column is missing, unknown, has a value that its type cannot hold exactly, or nulls where it must
            not. Nothing is added. A dry run returns all such differences instead.
        """
        given = sources.gather(data, self._store.storage, CsvFormat(delimiter, null_text, header))
        through_spark = sources.is_spark(given) or sources.bytes_of(given) >= SPARK_BYTES
        if dry_run:
            return self._plan(given, through_spark=through_spark)
        with self._named():
            if through_spark:
                return self._saved_if_due(self._import(given, message, job_id))
            return self._saved_if_due(self._once("ingest", job_id, lambda: self._ingest(given, message, job_id)))

    @overload
    def bulk_import(
        self,
        data: Any,
        *,
        message: str | None = None,
        job_id: str | None = None,
        dry_run: Literal[False] = False,
        delimiter: str | None = None,
        null_text: str | None = None,
        header: bool = True,
    ) -> Snapshot: ...

    @overload
    def bulk_import(
        self,
        data: Any,
        *,
        message: str | None = None,
        job_id: str | None = None,
        dry_run: Literal[True],
        delimiter: str | None = None,
        null_text: str | None = None,
        header: bool = True,
    ) -> IngestPlan: ...

    @checked
    def bulk_import(
        self,
        data: Any,
        *,
        message: str | None = None,
        job_id: str | None = None,
        dry_run: bool = False,
        delimiter: str | None = None,
        null_text: str | None = None,
        header: bool = True,
    ) -> Snapshot | IngestPlan:
        """Add rows through Spark, whatever their size; as `ingest` otherwise."""
        given = sources.gather(data, self._store.storage, CsvFormat(delimiter, null_text, header))
        if dry_run:
            return self._plan(given, through_spark=True)
        with self._named():
            return self._saved_if_due(self._import(given, message, job_id))

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Put the name of the table into the hint of an error of its data."""
        try:
            yield
        except InvalidInput as error:
            error.hint = error.hint and error.hint.replace(A_TABLE, shlex.quote(self.name))
            raise

    def _plan(self, given: Sequence[Source], *, through_spark: bool) -> IngestPlan:
        plan = self._made_plan(given, through_spark=through_spark)
        told = tuple(
            replace(each, change=each.change.replace(A_TABLE, shlex.quote(self.name))) for each in plan.differences
        )
        return replace(plan, differences=told)

    def _made_plan(self, given: Sequence[Source], *, through_spark: bool) -> IngestPlan:
        state, strategy = self._store.load(), self.properties[INGEST_STRATEGY]
        if not sources.is_spark(given):
            return plan_ingest(state, given, strategy=strategy, through_spark=through_spark)
        from sleeper_nb.engines.spark import loading

        return loading.plan_frame(self._components.engines.spark(), state, given, strategy=strategy)

    def _ingest(self, given: Sequence[Source], message: str | None, job_id: str | None) -> Snapshot:
        with self._watched() as progress:
            progress.update("reading")
            schema = self._store.load().schema
            rows, notes = sources.rows_and_notes(given, schema)
            progress.update(f"writing {rows.num_rows:,} rows")
            made = ingest.ingest_arrow(
                self._store,
                rows,
                message=message,
                author=self._components.author,
                job_id=job_id,
                settings=ingest.IngestSettings.of(self.properties),
                rows_schema=schema,
            )
            if notes:
                progress.finish("; ".join(notes))
            return made

    def _import(self, given: Sequence[Source], message: str | None, job_id: str | None) -> Snapshot:
        def add() -> Snapshot:
            from sleeper_nb.engines.spark import pipeline

            return pipeline.bulk_import(
                self._components.engines.spark(),
                self._store,
                given,
                message=message,
                author=self._components.author,
                job_id=job_id,
                settings=ingest.IngestSettings.of(self.properties),
                progress=self._components.progress,
            )

        if job_id is None:
            return self._tracked("bulk-import", self._components.clock.new_id(), add)
        return self._once("bulk-import", job_id, add)

    def _once(self, kind: JobKind, job_id: str | None, add: Callable[[], Snapshot]) -> Snapshot:
        """Add rows, but not again under a job id that has added some; what has no id is not told of as a job."""
        if job_id is None:
            return add()
        return tracking.added_once(self._store, check_job_id(job_id), lambda: self._tracked(kind, job_id, add))

    def _tracked(self, kind: JobKind, job_id: str, add: Callable[[], Snapshot]) -> Snapshot:
        return tracking.tracked(self._store, kind, job_id, self._components.author, add)

    def _saved_if_due(self, loaded: Snapshot) -> Snapshot:
        path = self._components.property_files.path(self.entry.id)
        for note in property_state.waiting(self.properties, self._store.load(), self.name, path):
            self._components.progress.finish(f"note: {note}")
        interval = self.properties[SAVEPOINT_INTERVAL]
        return periodic.saved_if_due(self._store, loaded, interval, self._components.author)
