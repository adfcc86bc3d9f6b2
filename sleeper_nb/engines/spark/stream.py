"""A table as a stream: first its full state at a snapshot, then each append behind it, exactly once.

What else happens to the table gives no rows: compaction, splitting, garbage collection, migration. A rollback cannot be
followed, as rows that were given cannot be taken back: the stream stops there, or passes over it when it is told to
(``streaming.skip-rollbacks``): then what the rollback removed stays given, and what it brought back is not given again.

The table's filters apply to all rows, by the age that they have when their batch is planned. Its aggregations, and its
iterator, see the full state as a whole, and each append by itself: rows of equal keys that two commits added are not
combined; that is for the query behind the stream.

Exactly once, in steps:

1. A batch is the range between two offsets, which Spark writes into its checkpoint before the batch is planned.
2. What a range appended never changes while its snapshots are retained (`sleeper_nb.operations.versioning.appends`), so
   a batch that is planned again gives the same rows. If one of them has expired, planning raises: nothing is left out.
   A batch that takes long to read holds leases of its snapshots, so that no file goes meanwhile.
3. The end of a range is the start of the next; that of the first names the snapshot of its full state.
4. An offset names the table by its id, so a table that was made anew under the same name is not taken for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from sleeper_nb.engines.spark.read_tasks import PURPOSE, ReadTask, rows_of
from sleeper_nb.engines.spark.source_table import SourceTable
from sleeper_nb.engines.spark.spark_errors import without_stack
from sleeper_nb.errors import StateRuleBroken, StorageError
from sleeper_nb.model.evolution import for_later_files
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot, SnapshotReference
from sleeper_nb.model.state import TableState
from sleeper_nb.operations.scanning.scan_plan import plan_scan
from sleeper_nb.operations.versioning.appends import (
    BatchLimits,
    end_of_batch,
    history_between,
    plan_appends,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from sleeper_nb.engines.spark.source import SleeperSource


# How far a stream has read a table: what Spark keeps in its checkpoint.

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Offset:
    """A place in the history of a table.

    Spark asks a query that failed in its first batch where it begins once more, while the end of that batch stands in
    the checkpoint. So the end says by itself which full state the batch begins with.

    Parameters
    ----------
    table_id
        The table's id, which no other table ever has.
    full_state
        The snapshot whose full state is given first.
    snapshot
        The last snapshot whose rows were given; `full_state` at first.
    full_state_done
        Whether the full state was given.
    """

    table_id: str
    full_state: int
    snapshot: int
    full_state_done: bool

    def to_dict(self) -> dict[str, Any]:
        """Return what Spark writes as JSON."""
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
            raise StorageError(unreadable, hint="begin anew, with another checkpoint") from error
        if found.table_id != table_id:
            raise StateRuleBroken(
                f"the stream's checkpoint is of another table, which had the name {table!r} before",
                hint="begin anew, with another checkpoint",
            )
        return found


_OURS: Final = ReadMaxFiles(2**31 - 1)
"""Spark hands back only limits of its own kinds. Whichever it is, it stands for the options."""


class AppendReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table as a stream.

    Options, beside those of a batch: ``maxSnapshotsPerTrigger``, ``maxFilesPerTrigger`` and ``maxRowsPerTrigger`` bound
    a batch, in whole commits and at least one; with any of them the full state is a batch of its own.

    Parameters
    ----------
    source
        Knows what was asked for.
    schema
        The columns that Spark wants.
    """

    def __init__(self, source: SleeperSource, schema: StructType) -> None:
        self.source, self.columns, self.asked = source, schema, source.asked()
        self._opened: SourceTable | None = None
        self._held = ExitStack()
        self._last: int | None = None

    @without_stack()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names, here and below
        """Return where the stream begins: before the full state at the version that was asked for.

        Raises
        ------
        NotFound
            When there is no such version, or a snapshot behind it has expired.
        """
        table = self._table
        first = table.resolve(self.asked.version).snapshot_id
        self._history(first, table.store.head().id)
        return Offset(table.store.table_id, first, first, full_state_done=False).to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return whether batches are bounded."""
        return ReadAllAvailable() if self.asked.limits == BatchLimits() else _OURS

    @without_stack()
    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends; `start` when nothing was committed behind it.

        Raises
        ------
        NotFound
            When a snapshot behind `start` has expired.
        StateRuleBroken
            When a rollback is to be passed over without leave, or the checkpoint is of another table.
        """
        began = self._offset(start)
        last = self._table.store.head().id if self._last is None else self._last
        history = self._history(began.snapshot, last)
        bounded = not isinstance(limit, ReadAllAvailable)
        if bounded and not began.full_state_done:
            end = began.snapshot
        else:
            end = end_of_batch(history, began.snapshot, self.asked.limits if bounded else BatchLimits())
        return Offset(began.table_id, began.full_state, end, full_state_done=True).to_dict()

    @without_stack()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read nothing that is committed from now on."""
        self._last = self._table.store.head().id

    @without_stack()
    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the current snapshot as an offset, for the progress of the query."""
        head = self._table.store.head().id
        return Offset(self._table.store.table_id, head, head, full_state_done=True).to_dict()

    @without_stack()
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[ReadTask]:
        """Return the tasks of a batch; errors as `latestOffset`."""
        began, ended = self._offset(start), self._offset(end)
        after = began.snapshot if began.full_state_done else ended.full_state
        history = self._history(after, ended.snapshot)
        table, tasks = self._table, []
        self._held.close()
        if not began.full_state_done and ended.full_state_done:
            state = table.store.load(table.resolve(SnapshotReference(after)).version)
            plan = plan_scan(state)
            self._hold([after], plan.bytes)
            tasks = table.tasks(plan.leaves, self._schema(state), state.processing, self.source.parallelism)
        appends = plan_appends(history, table.store.load)
        if appends:
            self._hold({append.kept_by for append in appends}, sum(append.bytes for append in appends))
            schema = self._schema(history[-1])
            leaves = [leaf for append in appends for leaf in append.leaves]
            tasks += table.tasks(leaves, schema, history[-1].processing, self.source.parallelism)
        return tasks

    def _schema(self, of_files: TableState | Snapshot) -> Schema:
        """Return what files that a version has are read with: the schema that Spark was given, where that is another.

        A table may be altered while a stream reads it; the stream keeps its columns.
        """
        given = self.source.loaded_schema
        if given is None or given == of_files.schema_id:
            return self._table.store.schema(of_files.schema_id, of_files.schema_checksum)
        return for_later_files(self._table.store.schema(given))

    def commit(self, end: Mapping[str, Any]) -> None:  # noqa: ARG002 - Spark's signature
        """Let go of the versions that a batch read."""
        self._held.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        return rows_of(partition, self.columns)

    def stop(self) -> None:
        """Let go of the table."""
        self._held.close()
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def _table(self) -> SourceTable:
        """The table, opened when it is first needed: before that, the reader travels to other processes."""
        if self._opened is None:
            self._opened = self.source.open(self.asked)
        return self._opened

    def _hold(self, snapshots: Iterable[int], size: int) -> None:
        """Keep the files of some versions until the batch has been read, when that takes long."""
        for snapshot in snapshots:
            self._held.enter_context(self._table.guard(snapshot, size).during(PURPOSE))

    def _offset(self, body: Mapping[str, Any]) -> Offset:
        return Offset.of(body, self._table.store.table_id, self._table.name)

    def _history(self, after: int, until: int) -> tuple[Snapshot, ...]:
        store = self._table.store
        return history_between(
            store.catalog.snapshots(store.table_id),
            after,
            until,
            table=self._table.name,
            skip_rollbacks=self.asked.skip_rollbacks,
        )
