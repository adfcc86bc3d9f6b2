"""`DynamoDBStateStore`: file references and partitions as items of three DynamoDB tables; no metadata files.

A commit is one transaction of DynamoDB with the catalog's: a compaction moves its inputs to `ready-for-gc-files`, adds
its output to `active-files` and makes the snapshot current. What it costs does not depend on the number of files, but
the number of items in a transaction bounds the inputs of a compaction. Bigger changes are staged, see
`staging`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import ClassVar, cast

from sleeper_nb.catalog.base import Catalog, TableEntry
from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog
from sleeper_nb.catalog.dynamodb.client import DynamoDB, in_chunks
from sleeper_nb.catalog.dynamodb.rows import Rows
from sleeper_nb.clock import Clock
from sleeper_nb.errors import AlreadyExists, ConflictError, InvalidInput, StorageError
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.retry import Retry
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.state_store.dynamodb.changes import Change, difference, everything
from sleeper_nb.state_store.dynamodb.items import Tables, partition_items
from sleeper_nb.state_store.dynamodb.reading import read_state
from sleeper_nb.state_store.dynamodb.staging import Staging, written_by
from sleeper_nb.state_store.steps import Step
from sleeper_nb.storage.filesystem import Storage

CATALOG_ITEMS = 2
"""What the catalog changes in each commit: the current item, and the new snapshot's. A job's id is one more."""
TRANSACTION_BYTES = 3_000_000
"""More than that is staged; a transaction of DynamoDB has at most 4 MB."""


class DynamoDBStateStore(StateStore):
    """Active files, files ready for garbage collection, and partitions, each in a DynamoDB table.

    Parameters
    ----------
    table_id, storage, clock, retry, successor
        As of every state store.
    catalog
        A `DynamoDBCatalog`.

    Raises
    ------
    InvalidInput
        When the catalog is another.
    """

    keeps_history_itself: ClassVar[bool] = True

    def __init__(
        self,
        table_id: str,
        catalog: Catalog,
        storage: Storage,
        clock: Clock,
        retry: Retry,
        successor: Callable[[str], StateStore] | None = None,
    ) -> None:
        if not isinstance(getattr(catalog, "db", None), DynamoDB):
            raise InvalidInput(
                "DynamoDBStateStore needs a DynamoDB catalog",
                hint="open the warehouse at s3://…, or choose another state store",
            )
        super().__init__(table_id, catalog, storage, clock, retry, successor)
        self._shared = cast("DynamoDBCatalog", catalog)
        self._known_tables: Tables | None = None
        self._staged: dict[str, dict[Rows, list[str]]] = {}

    @property
    def _tables(self) -> Tables:
        if self._known_tables is None:
            self._known_tables = Tables.of(self._shared, self.table_id)
        return self._known_tables

    @property
    def _staging(self) -> Staging:
        return Staging(self._shared, self.table_id, self._tables)

    @property
    def most_compaction_inputs(self) -> int | None:
        """How many files one job may merge: each takes two items of the commit's transaction, the output one."""
        return (self._shared.max_items - CATALOG_ITEMS - 1) // 2

    def publish_first(self, entry: TableEntry, snapshot: Snapshot, state: TableState) -> None:
        """Write the partitions, and only then make the table count."""
        self._make()
        rows = self._tables.partitions
        items = partition_items(state.tree.partitions, snapshot.id, snapshot.commit_id)
        self._staged[snapshot.commit_id] = {rows: [*items]}
        for chunk in in_chunks(items.items(), self._shared.max_items):
            if rows.db.transact([rows.put(key, item, new=True) for key, item in chunk]) is not None:
                raise AlreadyExists(f"there are partitions of a table with id {self.table_id!r}", hint="run it again")
        self._shared.create_table(entry, snapshot)
        self._staged.pop(snapshot.commit_id, None)

    def publish(self, head: Snapshot, steps: Sequence[Step]) -> tuple[Snapshot, ...] | None:
        (step,) = steps
        new = step.snapshot
        moves_here = head.state_store != self.name
        if moves_here:
            self._make()
            try:
                self.forget()
            except ConflictError:  # another writer has moved it here meanwhile
                return None
        change = everything(step) if moves_here else difference(step)
        won = self.settle(new, lambda: self._commit_change(head, new, change), set())
        keys = self._staged.pop(new.commit_id, None)
        if won and keys is not None:
            with contextlib.suppress(StorageError):  # the commit stands; a later sweep does the rest
                self._staging.finish(new.commit_id, keys)
        return (new,) if won else None

    def _commit_change(self, head: Snapshot, new: Snapshot, change: Change) -> bool:
        fits = change.size + CATALOG_ITEMS + (new.job_id is not None) <= self._shared.max_items
        also = list(change.parts(self._tables)) if fits else []
        if not fits or len(repr(also)) > TRANSACTION_BYTES:
            if not change.can_be_staged:
                raise InvalidInput(
                    f"a compaction of {len(change.leaving)} files; DynamoDBStateStore takes "
                    f"{self.most_compaction_inputs} at once",
                    hint="compact again: a job is planned with fewer files now",
                )
            self._staged[new.commit_id] = change.keys(self._tables)
            part = self._staging.stage(change, new.commit_id, new.id)
            if part is None:
                return False
            also = [part]
        return self._shared.commit(self.table_id, head, new, also=also)

    def discard(self, snapshot: Snapshot, written: set[str]) -> None:
        """Delete what was written for a snapshot that does not count; a failure leaves staged items to `sweep`.

        Nobody sees those.
        """
        super().discard(snapshot, written)
        keys = self._staged.pop(snapshot.commit_id, None)
        if keys is not None:
            with contextlib.suppress(StorageError):
                self._staging.remove(snapshot.commit_id, keys)

    def rebuild(self, snapshot: Snapshot) -> TableState:
        schema = self.schema(snapshot.schema_id, snapshot.schema_checksum)
        return read_state(self._tables, self._shared, self.table_id, snapshot, schema, self.clock)

    def sweep(self) -> int:
        """Remove what crashed writers have staged, and finish what they published; return how many were removed.

        Safe at any time: a writer that is still at it loses its try and stages its change again.
        """
        return self._staging.sweep()

    def forget(self) -> None:
        """Delete every item of a table that another state store keeps now; safe to interrupt and to run again.

        Snapshots that were kept here can be read afterwards only when they were materialised before.

        Raises
        ------
        ConflictError
            When this store keeps the table.
        """
        self.sweep()
        # Listed before the head is read: what is written later, by a migration back to here, has other commits' ids.
        found = [
            (rows, item["commit"], item[rows.table.range])
            for rows in self._tables.all
            for item in rows.query(columns=f"#commit, #{rows.table.range}")
        ]
        if self.head().state_store == self.name:
            raise ConflictError("the table is kept in DynamoDBStateStore", hint="migrate it first")
        for rows in self._tables.all:
            mine = (written_by(of, commit_id, key) for of, commit_id, key in found if of is rows)
            rows.db.transact_each(mine, self._shared.max_items)

    def erase(self) -> None:
        """Delete every item of a table that was deleted; its own DynamoDB tables too, where it has some."""
        self._tables.erase()

    def _make(self) -> None:
        self._known_tables = Tables.chosen_for(self._shared, self.table_id)
