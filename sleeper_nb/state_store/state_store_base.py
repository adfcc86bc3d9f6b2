"""The contract of a state store, and the one commit loop: load, check the rules, commit conditionally, retry.

Why a commit is safe, in steps:

1. The head is read from the catalog, and the state that it names from immutable metadata.
2. The transaction's rules are checked against that state; a broken rule raises, and nothing has been written.
3. New metadata is written under new names, which no reader knows yet.
4. The catalog makes the new snapshot current if the head of step 1 still is. Only this step commits.
5. When the condition fails, the metadata of step 3 is deleted and the commit starts again at step 1 after a random
   wait; after the last attempt it raises `ConflictError`. When the answer was lost, the commit's own id in the catalog
   tells whether it succeeded.

A crash before step 4 leaves files that nothing names; after it, a complete snapshot.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeVar

from sleeper_nb.catalog.catalog_base import Catalog, PropertiesNote, TableEntry
from sleeper_nb.clock import Clock, Retry
from sleeper_nb.errors import (
    HISTORY,
    UNCHANGED_FIRST,
    AlreadyExists,
    ConflictError,
    NotFound,
    OutcomeUnknown,
    StorageError,
)
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import CommitPoint, TableState
from sleeper_nb.state_store.commit_queue import Announce, CommitQueue, MakeTransaction, Waiting, fitting
from sleeper_nb.state_store.history import History, Metadata
from sleeper_nb.storage import metadata as metadata_files
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:  # reading a table needs no transaction
    from sleeper_nb.model.transactions import Transaction

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommitStep:
    """One change within a commit: the states before and after it, its snapshot, and what it notes of properties.

    Only the last change of a commit has such a note.
    """

    transaction: Transaction
    before: TableState
    after: TableState
    snapshot: Snapshot
    properties: PropertiesNote | None = None


def apply_queued(
    waiting: Waiting, state: TableState, point: CommitPoint, commit_id: str, state_store: str
) -> CommitStep:
    """Apply a queued change to a state; raise when its rules forbid it.

    The snapshot is kept by the given state store, or by the one to which the change migrates the table.
    """
    from sleeper_nb.model.transactions import EditRows, MigrateStateStore, Transaction

    change = waiting.change
    transaction = change if isinstance(change, Transaction) else change(state)
    transaction.validate(state)
    after = transaction.apply(state, point)
    if isinstance(transaction, MigrateStateStore):
        state_store = transaction.state_store
    named = {each.filename for each in getattr(transaction, "references", ())}
    made = snapshot_of(
        after, state, point, commit_id, state_store, transaction.operation, *waiting.description, named=named
    )
    if isinstance(transaction, EditRows):
        done = transaction.counts
        made = replace(made, inserted_rows=done.inserted, updated_rows=done.updated, deleted_rows=done.deleted)
    return CommitStep(transaction, state, after, made, waiting.announce and waiting.announce(made))


def snapshot_of(
    after: TableState,
    before: TableState | None,
    point: CommitPoint,
    commit_id: str,
    state_store: str,
    operation: str,
    message: str | None,
    author: str | None,
    job_id: str | None = None,
    expectations: str | None = None,
    *,
    named: Collection[str] = (),
) -> Snapshot:
    """Return the snapshot of a commit that changed the state from `before` to `after`.

    `named` are the files to which the commit added references; a file among them is still in use and not removed.
    """
    references, rows, _ = after.totals()
    references_before, rows_before, _ = before.totals() if before else (0, 0, 0)
    unreferenced = max(0, after.files.removed_count - before.files.removed_count) if before else 0
    files, _, size = after.files.data_totals
    files_before = before.files.data_totals.files if before else 0
    removed = len(after.files.removed_last(unreferenced) - after.files.shared.uses.keys() - set(named))
    return Snapshot(
        id=point.snapshot_id,
        commit_id=commit_id,
        time=point.time,
        operation=operation,
        schema_id=after.schema_id,
        files=files,
        rows=rows,
        bytes=size,
        added_files=files - files_before + removed,
        removed_files=removed,
        added_rows=rows - rows_before,
        references=references,
        added_references=references - references_before + unreferenced,
        removed_references=unreferenced,
        files_path=None,
        partitions_path=None,
        state_store=state_store,
        message=message,
        author=author,
        job_id=job_id,
        schema_checksum=after.schema_checksum,
        processing=after.processing,
        leaves=len(after.tree.leaves),
        expectations=expectations,
    )


T = TypeVar("T")

_TICK = timedelta(microseconds=1)


class StateStore(ABC):
    """The versions of one table's state; a committed version never changes.

    `successor` returns the table's store of another class, since a table may be migrated while this one is in use.
    """

    name: ClassVar[str]
    """What users call the class, and what the catalog keeps with each snapshot: one of `STATE_STORES`."""

    changes_per_commit: ClassVar[int] = 1
    """How many queued changes of this process one commit may hold."""

    keeps_history_itself: ClassVar[bool] = False
    """Whether only this class can read its snapshots; then they must be materialised before the table is migrated."""

    def __init__(
        self,
        table_id: str,
        catalog: Catalog,
        storage: Storage,
        clock: Clock,
        retry: Retry,
        successor: Callable[[str], StateStore] | None = None,
    ) -> None:
        self.table_id, self.catalog, self.storage, self.clock, self.retry = table_id, catalog, storage, clock, retry
        self.successor = successor
        self.history = History(table_id, catalog, storage, clock)
        self._queue = CommitQueue(min(self.changes_per_commit, catalog.limits.snapshots))

    @property
    def most_compaction_inputs(self) -> int | None:
        """How many files one compaction job may merge; None for any number."""
        return None

    @abstractmethod
    def commit_steps(self, head: Snapshot, steps: Sequence[CommitStep]) -> tuple[Snapshot, ...] | None:
        """Store the states of the steps and make the last current; return their snapshots, None if `head` no longer is.

        After a failure, everything that was written is deleted.
        """

    def rebuild(self, snapshot: Snapshot) -> TableState:
        return self.history.replay(snapshot)

    def forget(self) -> None:  # noqa: B027 - most stores keep nothing of their own
        """Delete what only this store kept of a table that was migrated to another one; safe to run again."""

    def erase(self) -> None:  # noqa: B027 - as with `forget`
        """Delete what only this store kept of a deleted table; safe to run again."""

    def sweep(self) -> int:
        """Remove what crashed writers left in this store, invisible to readers; return the number of commits."""
        return 0

    def create(
        self,
        name: str,
        schema: Schema,
        tree: PartitionTree,
        *,
        author: str | None = None,
        processing: str | None = None,
        properties_checksum: str | None = None,
        references: tuple[FileReference, ...] = (),
        message: str | None = None,
        expectations: str | None = None,
    ) -> Snapshot:
        """Create the table: schema, metadata, and last its catalog entry, so that an incomplete table is never visible.

        `AlreadyExists` when the name is taken; everything that was written is deleted, but for the data files that the
        references name.
        """
        from sleeper_nb.model.transactions import initial_state

        if self.catalog.has_table(self.table_id):  # its files must not be overwritten
            raise AlreadyExists(f"a table with id {self.table_id!r} already exists", hint="open it by its name")
        point = CommitPoint(1, self.clock.now())
        state = initial_state(schema, tree, point, processing, references)
        schema_path = paths.schema(state.schema_id)
        try:
            metadata_files.write_schema(self.storage, state.schema_id, schema)
            metadata = self.history.write(state, None, None)
        except BaseException:
            self.storage.delete(schema_path)
            raise
        named = ("create", message, author, None, expectations)
        described = snapshot_of(state, None, point, self.clock.new_id(), self.name, *named)
        snapshot = metadata.on(described)
        entry = TableEntry(self.table_id, name, properties_checksum=properties_checksum)
        commit = partial(self.commit_first, entry, snapshot, state)
        self.settle(snapshot, commit, {*metadata.paths, schema_path})
        logger.info("table %s (%s): created in %s", self.table_id, name, self.name)
        return snapshot

    def commit_first(self, entry: TableEntry, snapshot: Snapshot, state: TableState) -> None:  # noqa: ARG002 - used by subclasses
        """Add the table to the catalog; its first snapshot has Parquet metadata already."""
        self.catalog.create_table(entry, snapshot)

    def head(self) -> Snapshot:
        return self.catalog.current(self.table_id)

    def on_head(self, action: Callable[[Snapshot], T]) -> T:
        """Return the result of an action on the current snapshot.

        Other writers may replace that snapshot, and it may expire, while the action reads its metadata. The action then
        starts again with the new current snapshot, with as many attempts as a commit.
        """
        for attempt in range(self.retry.max_attempts - 1):
            head = self.head()
            try:
                return action(head)
            except NotFound:
                if self.head().commit_id == head.commit_id:
                    raise
                logger.info("table %s: snapshot %d expired while it was read; retrying", self.table_id, head.id)
            self.retry.wait(self.clock, attempt)
        return action(self.head())

    def current(self) -> tuple[Snapshot, TableState]:
        return self.on_head(lambda head: (head, self.load(head)))

    def retained(self) -> tuple[Snapshot, ...]:
        """Return the retained snapshots, newest first, for operations that delete what none of them needs.

        `StorageError` when the catalog's list lacks the current snapshot, and so is incomplete.
        """
        current = self.head().id
        snapshots = self.catalog.snapshots(self.table_id)
        if not snapshots or snapshots[0].id < current:
            self.head()  # raises when the table was deleted
            raise StorageError(
                f"the catalog's list of snapshots lacks the current one, {current}",
                hint="nothing was deleted; check the network, then run it again",
            )
        return snapshots

    def schema(self, schema_id: int, checksum: str | None = None) -> Schema:
        return self.history.schema(schema_id, checksum)

    def load(self, version: Snapshot | Savepoint | None = None) -> TableState:
        """Return the state at a version; the current one when None."""
        if version is None:
            return self.current()[1]
        number = version.number
        state = self.history.states.get(number)
        if state is not None:
            return state
        metadata = Metadata.of(version)
        if metadata is not None:
            state = self.history.read(number, version.schema_id, metadata, version.schema_checksum)
        else:
            assert isinstance(version, Snapshot)  # noqa: S101 - a savepoint always has its metadata
            keeper = self.named(version.state_store)
            state = self.rebuild(version) if keeper is self else keeper.load(version)
        state = replace(state, schema_checksum=version.schema_checksum, processing=version.processing)
        return self.history.states.put(state.snapshot_id, state)

    def materialised(self, snapshot: Snapshot) -> Snapshot:
        return snapshot if Metadata.of(snapshot) else self.history.materialised(snapshot, self.load(snapshot))

    def savable(self, snapshot: Snapshot) -> Metadata:
        """Return metadata of a snapshot for a savepoint, in files that are written first when missing."""
        return Metadata.of(snapshot) or self.named(snapshot.state_store).write_for_savepoint(snapshot)

    def write_for_savepoint(self, snapshot: Snapshot) -> Metadata:
        """Write metadata of a snapshot of this store for a savepoint, and return where it is."""
        return Metadata.kept(self.materialised(snapshot))

    def commit(
        self,
        change: MakeTransaction,
        *,
        message: str | None = None,
        author: str | None = None,
        job_id: str | None = None,
        expectations: str | None = None,
        announce: Announce | None = None,
    ) -> Snapshot:
        """Commit a change as the next snapshot.

        `JobDone` when the job has made a snapshot before; nothing was changed. `StateRuleBroken` when the newest state
        does not allow the change; nothing was changed. `ConflictError` when every attempt lost against another writer.
        `StorageError` when the disk or the catalog failed; nothing was committed. `OutcomeUnknown` when the catalog
        failed and does not answer whether the commit succeeded.

        Parameters
        ----------
        change
            The transaction, or a function that returns one for the state that it will change.
        job_id
            The id of the job; a job makes at most one snapshot of the table, in any process.
        expectations
            How many of the new rows break each expectation, as `Snapshot.expectations` has it.
        announce
            Returns what is recorded of the table's properties file in the same step; each attempt asks again.
        """
        return self._queue.submit(Waiting(change, message, author, job_id, expectations, announce), self._commit_all)

    def _commit_all(self, batch: Sequence[Waiting]) -> None:
        """Settle every change of a batch: each is committed, refused by its rules, or fails with the others."""
        began = self.clock.now()
        attempt = 0
        try:
            while attempt < self.retry.max_attempts:
                if attempt:
                    self.retry.wait(self.clock, attempt - 1)
                # one commit may hold less than the batch: the rest is another commit, with attempts of its own
                with self.catalog.commit_lock(self.table_id, self.clock):
                    won = self._try([waiting for waiting in batch if not waiting.settled.is_set()])
                attempt = 0 if won else attempt + 1
                if not won:
                    logger.info(
                        "table %s: another writer committed first, attempt %d of %d",
                        *(self.table_id, attempt, self.retry.max_attempts),
                    )
                if all(waiting.settled.is_set() for waiting in batch):
                    return
            spent = (self.clock.now() - began).total_seconds()
            logger.warning("table %s: gave up a commit after %d attempts", self.table_id, self.retry.max_attempts)
            failure: Exception = ConflictError(
                f"other writers committed first in each of {self.retry.max_attempts} attempts ({spent:.1f} s)",
                hint=(UNCHANGED_FIRST, "run it again when fewer writers commit at once"),
            )
        except Exception as error:  # noqa: BLE001 - raised again in each waiting thread
            failure = error
        for waiting in batch:
            if not waiting.settled.is_set():
                waiting.fail(failure)

    def _try(self, batch: Sequence[Waiting]) -> bool:
        """Settle the first changes, as many as one commit may hold; return False if another writer was first."""
        head, state = self.current()
        writer = self.named(head.state_store)
        steps: list[CommitStep] = []
        accepted: list[Waiting] = []
        time = head.time
        # read after the head: a commit that uses the job id since then replaces the head, and this one loses
        done = partial(self.catalog.snapshot_of_job, self.table_id)
        for waiting in fitting(batch[: writer.changes_per_commit], self.catalog.limits.snapshots, done):
            point = CommitPoint(state.snapshot_id + 1, max(self.clock.now(), time + _TICK))
            try:
                step = apply_queued(waiting, state, point, self.clock.new_id(), writer.name)
                keeper = self.named(step.snapshot.state_store)
            except Exception as error:  # noqa: BLE001 - raised again in the waiting thread
                logger.debug("table %s: snapshot %d does not allow the change: %s", self.table_id, head.id, error)
                waiting.fail(error)
                continue
            if keeper is not writer and steps:
                break  # a migration is a commit of its own
            steps.append(step)
            accepted.append(waiting)
            state, time = step.after, point.time
            if keeper is not writer or step.properties is not None:
                writer = keeper
                break
        if not steps:
            return True
        snapshots = writer.commit_steps(head, steps)
        if snapshots is None:
            return False
        self.history.states.put(state.snapshot_id, state)
        for waiting, snapshot in zip(accepted, snapshots, strict=True):
            logger.info(
                "table %s: committed snapshot %d (%s): %d files, %d rows",
                *(self.table_id, snapshot.id, snapshot.operation, snapshot.files, snapshot.rows),
            )
            waiting.succeed(snapshot)
        return True

    def settle(self, snapshot: Snapshot, commit: Callable[[], bool | None], written: set[str]) -> bool:
        """Return whether `commit` made the snapshot current; if not, delete what was written for it."""
        try:
            won = commit() is not False
        except BaseException as error:
            # The answer was lost, by a failure or an interrupt; the commit's own id in the catalog tells the outcome.
            try:
                found = self._is_committed(snapshot)
            except StorageError:
                found = None
            if found is None:
                logger.warning("table %s: unknown whether snapshot %d was committed", self.table_id, snapshot.id)
                if not isinstance(error, StorageError):
                    raise error from None
                raise OutcomeUnknown(
                    f"the catalog failed during a commit, which may or may not have succeeded: {error.message}",
                    hint=("look for the commit in ", HISTORY, " before you run it again"),
                ) from error
            won = found
            if not won:
                self.discard(snapshot, written)
            if not won or not isinstance(error, StorageError):
                raise
            logger.warning(
                "table %s: the answer to the commit of snapshot %d was lost, but the commit succeeded: %s",
                *(self.table_id, snapshot.id, error),
            )
        if not won:
            self.discard(snapshot, written)
        return won

    def _is_committed(self, snapshot: Snapshot) -> bool | None:
        """Return whether a snapshot was committed; None when nobody can say, because it may have expired since."""
        if self.catalog.has_commit(self.table_id, snapshot.commit_id):
            return True
        try:
            is_later = self.head().id >= snapshot.id
        except NotFound:  # the table was never created, or deleted
            return False
        return None if is_later and self.catalog.snapshot(self.table_id, snapshot.id) is None else False

    def discard(self, snapshot: Snapshot, written: set[str]) -> None:  # noqa: ARG002 - for stores that write more
        self.history.discard(written)

    def named(self, name: str) -> StateStore:
        """Return the table's store of a class: this one, or another when the table was migrated."""
        if name == self.name:
            return self
        if self.successor is None:
            raise ConflictError(f"the table was migrated to {name} in the meantime", hint="open it again")
        return self.successor(name)
