"""A table as a stream: first its full state at a snapshot, then each later append, exactly once.

Other changes give no rows: compaction, splitting, garbage collection, migration. A stream cannot follow a rollback, as
it cannot take rows back: it stops there. With ``streaming.skip-rollbacks`` it goes on: rows that the rollback removed
stay in the output, and rows that it brought back are not repeated. Likewise it stops at a snapshot that deleted,
updated or merged rows; with ``streaming.skip-changes`` it skips that, and the rows that it inserted.

With ``streaming.changes`` the stream has two more columns: ``_change_type`` (``insert``, ``delete``,
``update_preimage``, ``update_postimage``) and ``_commit_version``, the snapshot. It gives what each change of rows and
each rollback removed and added, found by comparing the snapshot with the one before, and all other rows as inserted.

The table's filters apply to all rows, by their age when the batch is planned. Its aggregations and its iterator see the
full state as a whole, and each append by itself: rows with equal keys from two commits are not combined; the query that
reads the stream does that. Therefore rows of appends that mark their keys as deleted are given too.

Exactly once, in steps:

1. A batch is the range between two offsets, which Spark writes into its checkpoint before the batch is planned.
2. What a range appended never changes while its snapshots are retained (`sleeper_nb.versions.appends`), so
   a batch that is planned again gives the same rows. If a snapshot has expired, planning raises: no row is left out.
   A batch that takes long to read holds leases of its snapshots, so that no file is deleted meanwhile.
3. The end of a range is the start of the next; the first range's end names the snapshot of its full state.
4. An offset names the table by its id, so a new table of the same name is not mistaken for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from sleeper_nb.engines.spark.source_table import (
    PURPOSE,
    FeedColumns,
    FeedTask,
    ReadTask,
    SourceTable,
    WantedRows,
    rows_of,
)
from sleeper_nb.engines.spark.spark_errors import without_stack
from sleeper_nb.errors import InvalidInput, StateRuleBroken, StorageError
from sleeper_nb.model.evolution import for_later_files
from sleeper_nb.model.processing import NOTHING
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot, SnapshotReference
from sleeper_nb.model.state import TableState
from sleeper_nb.read.scan_plan import plan_scan
from sleeper_nb.versions.appends import (
    CHANGES,
    BatchLimits,
    end_of_batch,
    history_between,
    plan_appends,
)
from sleeper_nb.versions.comparison import compare

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from sleeper_nb.engines.spark.source import SleeperSource

FORMAT: Final = 1
"""The version of the offsets in Spark's checkpoints."""


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a stream has read the history of a table; Spark keeps it in its checkpoint.

    When a query failed in its first batch, Spark asks again where it begins, while the end of that batch is already in
    the checkpoint. So the end states which full state the batch begins with.

    Parameters
    ----------
    table_id
        The table's id, which no other table ever has.
    full_state
        The snapshot whose full state comes first.
    snapshot
        The last snapshot whose rows have been read; `full_state` at first.
    full_state_done
        Whether the full state has been read.
    """

    table_id: str
    full_state: int
    snapshot: int
    full_state_done: bool

    def to_dict(self) -> dict[str, Any]:
        return {
            "version": FORMAT,
            "table": self.table_id,
            "fullState": self.full_state,
            "snapshot": self.snapshot,
            "fullStateDone": self.full_state_done,
        }

    @classmethod
    def of(cls, body: Mapping[str, Any], table_id: str, table: str) -> Offset:
        """Read what `to_dict` wrote, for a table.

        Raises
        ------
        StorageError
            When it is no offset, or one that a later release wrote.
        StateRuleBroken
            When it is of another table.
        """
        unreadable = f"cannot read the stream's checkpoint: {dict(body)}"
        if body.get("version") != FORMAT:
            raise StorageError(unreadable, hint="upgrade sleeper-nb")
        try:
            numbers = int(body["fullState"]), int(body["snapshot"])
            found = cls(str(body["table"]), *numbers, full_state_done=bool(body["fullStateDone"]))
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(unreadable, hint="start again with another checkpoint") from error
        if found.table_id != table_id:
            raise StateRuleBroken(
                f"the stream's checkpoint belongs to an earlier table named {table!r}",
                hint="start again with another checkpoint",
            )
        return found


_OURS: Final = ReadMaxFiles(2**31 - 1)
"""Spark passes back only limits of its own kinds; any of them means the limits of the options."""


class AppendReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table as a stream.

    It has three more options than a batch: ``maxSnapshotsPerTrigger``, ``maxFilesPerTrigger`` and
    ``maxRowsPerTrigger`` limit a batch, in whole commits and at least one; with any of them the full state is its own
    batch.
    """

    def __init__(self, source: SleeperSource, schema: StructType) -> None:
        self.source, self.columns, self.options = source, schema, source.parsed_options()
        self._opened: SourceTable | None = None
        self._held = ExitStack()
        self._last: int | None = None
        self._wanted: WantedRows | None = None

    @without_stack()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names, here and below
        """Return where the stream begins: before the full state at the requested version.

        Raises
        ------
        NotFound
            When there is no such version, or a later snapshot has expired.
        """
        table = self._table
        first = table.resolve(self.options.version).snapshot_id
        self._history(first, table.store.head().id)
        return Offset(table.store.table_id, first, first, full_state_done=False).to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.options.limits == BatchLimits() else _OURS

    @without_stack()
    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends; `start` when nothing was committed after it.

        Raises
        ------
        NotFound
            When a snapshot after `start` has expired.
        StateRuleBroken
            When there is a rollback or a change of rows that may not be skipped, or the checkpoint is of another table.
        """
        began = self._offset(start)
        last = self._table.store.head().id if self._last is None else self._last
        history = self._history(began.snapshot, last)
        bounded = not isinstance(limit, ReadAllAvailable)
        if bounded and not began.full_state_done:
            end = began.snapshot
        else:
            limits = self.options.limits if bounded else BatchLimits()
            end = end_of_batch(history, began.snapshot, limits, self.options.rules)
        return Offset(began.table_id, began.full_state, end, full_state_done=True).to_dict()

    @without_stack()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Ignore commits from now on."""
        self._last = self._table.store.head().id

    @without_stack()
    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the current snapshot as an offset, for the progress of the query."""
        head = self._table.store.head().id
        return Offset(self._table.store.table_id, head, head, full_state_done=True).to_dict()

    @without_stack()
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[ReadTask | FeedTask]:
        """Return the tasks of a batch; errors as `latestOffset`."""
        began, ended = self._offset(start), self._offset(end)
        after = began.snapshot if began.full_state_done else ended.full_state
        history = self._history(after, ended.snapshot)
        table, tasks = self._table, list[ReadTask | FeedTask]()
        self._held.close()
        if not began.full_state_done and ended.full_state_done:
            state = table.store.load(table.resolve(SnapshotReference(after)).version)
            processor = table.processor(self._schema(state), state.processing)
            wanted = self._wanted_with(processor.schema)
            plan = plan_scan(state, processing=processor.processing, pruning=wanted.pruning(state))
            self._hold([after], plan.bytes)
            tasks += table.tasks(plan.leaves, processor, self.source.parallelism, wanted, feed=self._feed(after))
        return [*tasks, *self._appended(history), *self._changed(history)]

    def _appended(self, history: Sequence[Snapshot]) -> list[ReadTask]:
        if not history:
            return []
        table, last = self._table, history[-1]
        processor = table.processor(self._schema(last), last.processing).in_part()
        wanted = self._wanted_with(processor.schema)
        by_row = processor.processing.only_filters
        appends = plan_appends(history, table.store.load, partial(wanted.pruning, by_row=by_row))
        self._hold({append.kept_by for append in appends}, sum(append.bytes for append in appends))
        tasks_of = partial(table.tasks, processor=processor, parallelism=self.source.parallelism, wanted=wanted)
        if not self.options.rules.changes:
            return tasks_of(leaf for append in appends for leaf in append.leaves)
        return [task for each in appends for task in tasks_of(each.leaves, feed=self._feed(each.snapshot_id))]

    def _changed(self, history: Sequence[Snapshot]) -> list[FeedTask]:
        given = [snapshot for snapshot in history if self.options.rules.gives_changes(snapshot)]
        if not given:
            return []
        table, tasks = self._table, list[FeedTask]()
        for snapshot in given:
            earlier = table.resolve(SnapshotReference(snapshot.id - 1)).version
            before, after = table.store.load(earlier), table.store.load(snapshot)
            schema = self._schema(snapshot)
            processing = table.processor(schema, snapshot.processing).processing
            wanted = self._wanted_with(schema)
            comparison = replace(
                compare(before, after, NOTHING, NOTHING, wanted.compared),
                before=schema,
                after=schema,
                newer=schema,
                processing_before=processing,
                processing_after=processing,
            )
            self._hold([before.snapshot_id, after.snapshot_id], comparison.bytes)
            tasks += table.change_tasks(comparison, self.source.parallelism, FeedColumns(snapshot.id))
        return tasks

    def _feed(self, snapshot_id: int) -> FeedColumns | None:
        return FeedColumns(snapshot_id) if self.options.rules.changes else None

    def _wanted_with(self, schema: Schema) -> WantedRows:
        """Return which rows are wanted of files that are read with a schema; the last answer is kept."""
        if self._wanted is None or self._wanted.schema != schema:
            self._wanted = self._table.wanted(self.options, schema)
        return self._wanted

    def _schema(self, version: TableState | Snapshot) -> Schema:
        """Return the schema with which to read the files of a version: the one that Spark was given, when that differs.

        A table can be altered while a stream reads it; the stream keeps its columns.
        """
        given = self.source.loaded_schema
        if given is None or given == version.schema_id:
            return self._table.store.schema(version.schema_id, version.schema_checksum)
        return for_later_files(self._table.store.schema(given))

    def commit(self, end: Mapping[str, Any]) -> None:  # noqa: ARG002 - Spark's signature
        self._held.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return rows_of(partition, self.columns)

    def stop(self) -> None:
        self._held.close()
        if self._opened is not None:
            self._opened.owner.close()
            self._opened = None

    @property
    def _table(self) -> SourceTable:
        """The table, opened when it is first needed: until then the reader can be pickled."""
        if self._opened is None:
            self._opened = self.source.open(self.options)
        return self._opened

    def _hold(self, snapshots: Iterable[int], size: int) -> None:
        """Protect the files of some versions until the batch has been read, when that takes long."""
        for snapshot in snapshots:
            self._held.enter_context(self._table.guard(snapshot, size).during(PURPOSE))

    def _offset(self, body: Mapping[str, Any]) -> Offset:
        return Offset.of(body, self._table.store.table_id, self._table.name)

    def _history(self, after: int, until: int) -> tuple[Snapshot, ...]:
        store = self._table.store
        self._check_rows_are_apart()
        return history_between(
            store.catalog.snapshots(store.table_id),
            after,
            until,
            table=self._table.name,
            rules=self.options.rules,
        )

    def _check_rows_are_apart(self) -> None:
        """Raise when changes are asked for of a table that combines rows: a change of one row can change others."""
        table = self._table
        if not self.options.rules.changes:
            return
        head = table.store.head()
        processor = table.processor(self._schema(head), head.processing)
        if not processor.processing.only_filters:
            raise InvalidInput(
                f"table {table.name!r} combines rows by {processor.processing}, so a stream cannot give their changes",
                hint=f"leave out {CHANGES}, or compare versions: table.changes(12, 15, images=True)",
            )
