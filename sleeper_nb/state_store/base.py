"""The contract of a state store, and the one loop that commits: load, check the rules, publish on a condition, retry.

Safety of a commit, in steps:

1. The head is read from the catalog, and the state that it names from immutable metadata.
2. The transaction's rules are checked against that state; a broken rule raises, and nothing was written.
3. New metadata is written under names that nobody knows yet.
4. The catalog makes the new snapshot current on the condition that the head of step 1 still is. Only this publishes.
5. A lost condition deletes the metadata of step 3 and starts again at step 1 after a random wait; running out of tries
   raises `ConflictError`. An unknown outcome (the answer was lost) is settled by looking for the commit's own id.

A crash before step 4 leaves files that nothing names; after it, a complete snapshot.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import pyarrow.compute as pc

from sleeper_nb.catalog.base import Catalog, TableEntry
from sleeper_nb.clock import Clock
from sleeper_nb.errors import AlreadyExists, ConflictError, OutcomeUnknown, StorageError
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Savepoint, Snapshot
from sleeper_nb.model.state import CommitPoint, TableState
from sleeper_nb.model.transactions import Transaction, initial_state
from sleeper_nb.storage import metadata_files, paths
from sleeper_nb.storage.filesystem import Storage

CACHED_STATES = 8
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Retry:
    """How often, and how patiently, a commit that lost is tried again ("full jitter": a random part of a ceiling).

    Parameters
    ----------
    max_attempts
        Tries in all.
    first_wait, max_wait
        Ceilings of the wait after the first try and of any, in seconds; the ceiling doubles with each try.
    """

    max_attempts: int = 40
    first_wait: float = 0.02
    max_wait: float = 2.0

    def ceiling(self, attempt: int) -> float:
        """Return the longest wait after try number `attempt`, counted from 0."""
        return float(min(self.max_wait, self.first_wait * 2**attempt))


class Metadata(NamedTuple):
    """Where the full metadata of a snapshot lies, below the table's folder."""

    files_path: str
    partitions_path: str


class StateStore(ABC):
    """The versions of one table's state; a version, once published, never changes.

    Parameters
    ----------
    table_id
        The table's id in the catalog.
    catalog
        Says which snapshot is current.
    storage
        The table's folder.
    clock
        Gives times, ids, jitter and waits.
    retry
        Bounds of a commit's tries.
    """

    def __init__(self, table_id: str, catalog: Catalog, storage: Storage, clock: Clock, retry: Retry) -> None:
        self.table_id, self.catalog, self.storage, self.clock, self.retry = table_id, catalog, storage, clock, retry
        self._states: OrderedDict[tuple[int, Metadata], TableState] = OrderedDict()
        self._schemas: dict[int, Schema] = {}
        self._lock = threading.Lock()

    @abstractmethod
    def read(self, metadata: Metadata, snapshot_id: int, schema_id: int) -> TableState:
        """Return the state that some metadata holds."""

    @abstractmethod
    def write(self, state: TableState, before: TableState | None, at: Metadata | None) -> Metadata:
        """Write the metadata of `state` under new names and return them.

        Only what differs from `before` is written; the rest keeps its names, those of `at`.
        """

    def create(self, name: str, schema: Schema, tree: PartitionTree, *, author: str | None = None) -> Snapshot:
        """Make the table: schema, metadata, and last its entry in the catalog, so that no half-made table ever shows.

        Raises
        ------
        AlreadyExists
            When the name is taken; what was written is removed again.
        """
        if any(entry.id == self.table_id for entry in self.catalog.tables()):  # its files must stay as they are
            raise AlreadyExists(f"there is a table with id {self.table_id!r} already", hint="open it by its name")
        point = CommitPoint(1, self.clock.now())
        state = initial_state(schema, tree, point)
        schema_path = paths.schema(state.schema_id)
        try:
            metadata_files.write_schema(self.storage, state.schema_id, schema)
            metadata = self.write(state, None, None)
        except BaseException:
            self.storage.delete(schema_path)
            raise
        snapshot = self._snapshot(state, None, point.time, metadata, "create", None, author)
        entry = TableEntry(self.table_id, name)
        self._publish(snapshot, lambda: self.catalog.create_table(entry, snapshot), {*metadata, schema_path})
        return snapshot

    def head(self) -> Snapshot:
        """Return the current snapshot."""
        return self.catalog.current(self.table_id)

    def schema(self, schema_id: int) -> Schema:
        """Return one of the table's schemas."""
        if schema_id not in self._schemas:
            self._schemas[schema_id] = metadata_files.read_schema(self.storage, schema_id)
        return self._schemas[schema_id]

    def load(self, version: Snapshot | Savepoint | None = None) -> TableState:
        """Return the state at a version; the current one when None."""
        version = version or self.head()
        if isinstance(version, Savepoint):
            metadata = Metadata(version.full_manifest_list, version.partitions_path)
            snapshot_id = version.saved_snapshot_id
        else:
            metadata, snapshot_id = Metadata(version.files_path, version.partitions_path), version.id
        state = self._remembered(metadata, snapshot_id)
        if state is None:
            state = self.read(metadata, snapshot_id, version.schema_id)
            self._remember(metadata, state)
        return state

    def commit(
        self,
        change: Transaction | Callable[[TableState], Transaction],
        *,
        message: str | None = None,
        author: str | None = None,
    ) -> Snapshot:
        """Publish a change as the next snapshot.

        Parameters
        ----------
        change
            The transaction, or what makes one from the state that it will change.
        message, author
            What history shows of it.

        Raises
        ------
        StateRuleBroken
            When the newest state does not allow the change; nothing was changed.
        ConflictError
            When every try lost against another writer.
        StorageError
            When the disk or the catalog failed; nothing was published.
        OutcomeUnknown
            When the catalog failed and cannot be asked whether the commit won.
        """
        began = self.clock.now()
        for attempt in range(self.retry.max_attempts):
            if attempt:
                self.clock.sleep(self.clock.jitter(self.retry.ceiling(attempt - 1)))
            published = self._try(change, message, author)
            if published is not None:
                return published
        spent = (self.clock.now() - began).total_seconds()
        raise ConflictError(
            f"other writers were faster in each of {self.retry.max_attempts} tries ({spent:.1f} s)",
            hint="nothing was changed; run it again when fewer writers commit at once",
        )

    def _try(
        self, change: Transaction | Callable[[TableState], Transaction], message: str | None, author: str | None
    ) -> Snapshot | None:
        head = self.head()
        before = self.load(head)
        transaction = change if isinstance(change, Transaction) else change(before)
        transaction.validate(before)
        point = CommitPoint(head.id + 1, max(self.clock.now(), head.time + _TICK))
        after = transaction.apply(before, point)
        old = Metadata(head.files_path, head.partitions_path)
        new = self.write(after, before, old)
        snapshot = self._snapshot(after, before, point.time, new, transaction.operation, message, author)
        if not self._publish(snapshot, lambda: self.catalog.commit(self.table_id, head, snapshot), {*new} - {*old}):
            return None
        self._remember(new, after)
        return snapshot

    def _publish(self, snapshot: Snapshot, publish: Callable[[], bool | None], written: set[str]) -> bool:
        """Return whether `publish` made the snapshot count; when it did not, what was written for it is deleted."""
        try:
            won = publish() is not False
        except BaseException as error:
            # The answer is lost, by a failure or an interrupt, not the commit: whoever finds its own id there has won.
            try:
                won = self.catalog.has_commit(self.table_id, snapshot.commit_id)
            except StorageError:
                if not isinstance(error, StorageError):
                    raise error from None
                raise OutcomeUnknown(
                    f"the catalog failed during a commit, and then did not say whether it won: {error.message}",
                    hint="look for it in history before you run it again",
                ) from error
            if not won:
                self._discard(written)
            if not won or not isinstance(error, StorageError):
                raise
        if not won:
            self._discard(written)
        return won

    def _discard(self, written: set[str]) -> None:
        for path in written:
            self.storage.delete(path)

    def _snapshot(
        self,
        after: TableState,
        before: TableState | None,
        time: datetime,
        metadata: Metadata,
        operation: str,
        message: str | None,
        author: str | None,
    ) -> Snapshot:
        files, rows, size = after.totals()
        _, rows_before, _ = before.totals() if before else (0, 0, 0)
        table, number = after.files.table, after.snapshot_id
        return Snapshot(
            id=number,
            commit_id=self.clock.new_id(),
            time=time,
            operation=operation,
            schema_id=after.schema_id,
            files=files,
            rows=rows,
            bytes=size,
            added_files=pc.sum(pc.equal(table["added_snapshot"], number)).as_py() or 0,
            removed_files=pc.sum(pc.equal(table["removed_snapshot"], number)).as_py() or 0,
            added_rows=rows - rows_before,
            files_path=metadata.files_path,
            partitions_path=metadata.partitions_path,
            state_store=type(self).__name__,
            message=message,
            author=author,
        )

    def _remembered(self, metadata: Metadata, snapshot_id: int) -> TableState | None:
        with self._lock:
            state = self._states.get((snapshot_id, metadata))
            if state is not None:
                self._states.move_to_end((snapshot_id, metadata))
            return state

    def _remember(self, metadata: Metadata, state: TableState) -> None:
        with self._lock:
            self._states[state.snapshot_id, metadata] = state
            if len(self._states) > CACHED_STATES:
                self._states.popitem(last=False)
