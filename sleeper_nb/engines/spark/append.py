"""Appends through Spark's data source: tasks write sorted files of the leaves, and the driver commits all of them once.

How ``df.write.format("sleeper").mode("append").save()`` works:

1. Before any row is read, a process of the driver opens the table, compares columns and types, and fixes the schema,
   the partitions and the settings that all tasks use.
2. A task conforms its rows by our own rules, as an ingest does, cuts them by leaf, sorts them, and writes a file for
   each leaf; a task with many rows does this once for every `RUN_BYTES`. There is no shuffle: a leaf gets a file from
   each task that has rows of it. Few rows are handed over instead, and the driver writes those of all tasks together.
3. The driver commits what finished tasks report. Spark lets one attempt of each task report, so a task that is retried,
   or runs twice at once, adds its rows once; files of the other attempts are deleted.
4. A task whose rows do not fit reports that instead of failing, as another attempt would find the same, and so does
   the last attempt of a task that cannot write. The driver then deletes all files and raises one short error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from sleeper_nb.clock import Clock
from sleeper_nb.engines.spark.actions import ENDING_SECONDS
from sleeper_nb.engines.spark.frames import check_seen
from sleeper_nb.engines.spark.spark_errors import without_stack
from sleeper_nb.errors import InvalidInput, OutcomeUnknown, SleeperError, StorageError
from sleeper_nb.load.bulk_load import BufferedRows, WrittenLoad
from sleeper_nb.load.conform import conform, raise_first
from sleeper_nb.load.ingest import IngestSettings, discard_run, write_rows
from sleeper_nb.load.row_checks import (
    JudgedRows,
    OpenedChecks,
    RowCheck,
    no_rows_judged,
    opened_checks,
)
from sleeper_nb.load.sorted_runs import packed
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.load_hints import for_table
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from sleeper_nb.engines.spark.source import SleeperSource
    from sleeper_nb.engines.spark.source_options import AppendOptions
    from sleeper_nb.engines.spark.source_table import SourceTable

RUN_BYTES: Final = 128 << 20
"""About how many bytes of rows a task holds; it sorts and writes them before it reads more."""
HANDED_OVER_BYTES: Final = 256 << 10
"""Up to this size, rows are handed to the driver: many small tasks then make one file for each leaf, not one each."""

_DATA: Final = "data"


@dataclass(frozen=True, slots=True)
class AppendPlan:
    """What all tasks of an append use, fixed before they begin."""

    run_id: str
    began: datetime
    schema: Schema
    tree: PartitionTree
    settings: IngestSettings
    storage: Storage
    checks: tuple[RowCheck, ...] = ()

    def write_files(self, rows: pa.Table) -> Iterator[FileReference]:
        yield from write_rows(self.storage, rows, self.schema, self.tree, self.settings, self._new_id)

    def _new_id(self) -> str:
        return f"{self.run_id}-{Clock().new_id()}"


@dataclass
class TaskReport(WriterCommitMessage):
    """What a task tells the driver.

    Parameters
    ----------
    rows
        Its rows, if they are few: an Arrow stream.
    attempt
        How often the task was started before.
    refusal
        Why its rows cannot be added; None when they can.
    judged
        How many of its rows break each expectation.
    """

    references: tuple[FileReference, ...] = ()
    rows: bytes = b""
    attempt: int = 0
    refusal: SleeperError | None = None
    judged: JudgedRows = field(default_factory=JudgedRows)


class AppendWriter(DataSourceArrowWriter):
    """Writes a DataFrame to a table."""

    def __init__(self, source: SleeperSource, options: AppendOptions, plan: AppendPlan) -> None:
        self.source, self.options, self.plan = source, options, plan

    @classmethod
    def of(cls, source: SleeperSource, columns: StructType, *, overwrite: bool) -> AppendWriter:
        """Compare the columns of a DataFrame with the table's, and plan the append.

        Raises
        ------
        InvalidInput
            When a column or a type does not fit, an option is not for writing, or rows would be replaced.
        NotFound
            When there is no such table or option.
        """
        options = source.append_options()
        if overwrite:
            raise _no_overwrite(options.table)
        table = source.open(options)
        try:
            state = table.store.load()
            _check_columns(columns, state.schema, table.name)
            settings = IngestSettings.of(table.owner.properties())
            clock, storage = table.store.clock, table.store.storage
            plan = AppendPlan(clock.new_id(), clock.now(), state.schema, state.tree, settings, storage)
            checks = tuple(check.picklable() for check in table.owner.table.load_checks(state.schema))
            return cls(source, options, replace(plan, checks=checks))
        finally:
            table.owner.close()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskReport:
        """Write the rows of a task; after an error, none of its files is left."""
        from pyspark import TaskContext

        context, references, handed_over = TaskContext.get(), list[FileReference](), b""
        attempt = context.attemptNumber() if context else 0
        judged = JudgedRows()
        try:
            with opened_checks(self.plan.checks) as checks:
                for rows in _runs(iterator, self.plan.schema, checks):
                    judged = judged.plus(checks.judged(rows))
                    if rows.nbytes <= HANDED_OVER_BYTES:
                        handed_over = bytes(packed(rows))
                    else:
                        references += self.plan.write_files(rows)
        except BaseException as error:
            for filename in {reference.filename for reference in references}:
                self.plan.storage.delete(filename)
            # A disk or a network may work again, or elsewhere; Spark shows what it does not try again with its stack.
            may_pass = isinstance(error, StorageError) and attempt + 1 < self.source.attempts
            if isinstance(error, SleeperError) and not may_pass:
                return TaskReport(attempt=attempt, refusal=error)
            with without_stack():  # not before: a process that reports serves other tasks, whose errors keep theirs
                raise
        return TaskReport(tuple(references), handed_over, attempt, judged=judged)

    @without_stack()
    def commit(self, messages: Sequence[Any]) -> None:
        """Add the rows of all tasks in one commit; after an error, none of their files is left."""
        reports: list[TaskReport] = [message for message in messages if message is not None]
        table = self.source.open(self.options)
        try:
            self._commit(table, reports)
        finally:
            table.owner.close()

    def _commit(self, table: SourceTable, reports: Sequence[TaskReport]) -> None:
        plan, store = self.plan, table.store
        try:
            load = WrittenLoad(
                plan.run_id,
                plan.began,
                plan.schema,
                self.options.message,
                self.options.job_id,
                reduce(JudgedRows.plus, (each.judged for each in reports), no_rows_judged(plan.checks)),
            )
            made = table.owner.add_written(load, lambda: self._references(reports, table.name))
        except OutcomeUnknown:
            raise  # the files may be in the table: they must stay
        except BaseException:
            discard_run(store, plan.run_id, [_DATA], keep=())
            raise
        if made.done_before:
            discard_run(store, plan.run_id, [_DATA], keep=())
        elif self.source.speculates or any(report.attempt for report in reports):
            discard_run(store, plan.run_id, [_DATA], keep={r.filename for each in reports for r in each.references})

    def _references(self, reports: Sequence[TaskReport], table: str) -> Iterator[FileReference]:
        """Yield the references of all files, and write the rows that were handed over; raise the first refusal."""
        for report in reports:
            yield from report.references  # first of all: after an error, the files of these are deleted
        for report in reports:
            if report.refusal is not None:
                report.refusal.hint = for_table(report.refusal.hint_parts, table)
                raise report.refusal
        check_seen(self.plan.storage, {r.filename for report in reports for r in report.references})
        few = [pa.ipc.open_stream(report.rows).read_all() for report in reports if report.rows]
        if few:
            yield from self.plan.write_files(pa.concat_tables(few))

    @without_stack()
    def abort(self, messages: Sequence[Any]) -> None:
        """Delete what the tasks wrote, and record that the append failed.

        Spark calls this when a task failed, whose message is None, and also after a commit that failed. That has
        deleted the files itself, or left them as its outcome is unknown.
        """
        if all(message is not None for message in messages):
            return
        table = self.source.open(self.options)
        try:
            discard_run(table.store, self.plan.run_id, [_DATA], keep=())
            if sum(message is None for message in messages) > 1:  # others may still run, and write
                table.store.clock.sleep(ENDING_SECONDS)
                discard_run(table.store, self.plan.run_id, [_DATA], keep=())
            table.owner.record_failure(self.plan.run_id, self.plan.began, "a task of Spark failed or was cancelled")
        finally:
            table.owner.close()


def _no_overwrite(table: str) -> InvalidInput:
    return InvalidInput(
        'format("sleeper") cannot overwrite a table',
        hint=f'write .mode("append"); to replace all rows: session.table({table!r}).overwrite(frame, force=True)',
    )


def _check_columns(columns: StructType, schema: Schema, table: str) -> None:
    """Raise when the columns of a DataFrame, or their types, do not fit a table; no row is read for that."""
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(columns, timezone="UTC")
    try:
        conform(pa.Table.from_batches([], arrow), schema)
    except InvalidInput as error:
        error.hint = for_table(error.hint_parts, table)
        raise


def _runs(batches: Iterator[pa.RecordBatch], schema: Schema, checks: OpenedChecks) -> Iterator[pa.Table]:
    """Yield the conformed rows of a task in parts of about `RUN_BYTES`; only the last part is smaller."""
    buffer = BufferedRows(RUN_BYTES)
    for batch in batches:
        rows = conform(pa.Table.from_batches([batch]), schema)
        raise_first(tuple(checks.differences(rows)))
        buffer.add(rows)
        if buffer.is_full:
            yield buffer.taken()
    if buffer.bytes:
        yield buffer.taken()
