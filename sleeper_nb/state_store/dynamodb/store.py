"""`DynamoDBStateStore`: file references and partitions as items of three DynamoDB tables; no metadata files.

A commit is one DynamoDB transaction that includes the catalog's items: a compaction moves its inputs to
`ready-for-gc-files`, adds its output to `active-files` and makes the snapshot current. The cost does not depend on the
number of files in the table, but the number of items in a transaction limits the inputs of a compaction. Bigger changes
are staged, see `staging`.

`rebuild` reads a snapshot back from the three tables. Why it returns exactly that snapshot:

1. The snapshot, and so every commit up to it, is known before its items are read. An item is live in the snapshots
   [added, removed), so later commits that add or remove items meanwhile change nothing in the result.
2. A later compaction moves a reference from `active-files` to `ready-for-gc-files`. They are read in that order, so a
   reference is found in at least one of them; if in both, the later reading counts.
3. Plain reads can see some items of a transaction a moment before the others, and the pages of a query can be of
   different moments. So the numbers of references, rows and bytes are compared with those that the commit recorded, the
   tree must be complete, and a commit that changed the tree must show in it; otherwise everything is read again. The
   references that the commit removed must be present too, unless a second reading does not find them either.
4. Garbage collection deletes only references whose [added, removed) contains no retained snapshot. So every retained
   snapshot, however old, finds all its active references. References that were ready for garbage collection at an old
   snapshot and have been collected since are missing; nothing reads them.
5. A migration to another state store writes each retained snapshot to Parquet before it deletes the items here, so a
   reader that knew the snapshot before and no longer finds its items looks in the catalog for the files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.catalog.catalog_base import Catalog, PropertiesNote, TableEntry
from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog
from sleeper_nb.catalog.dynamodb.client import DynamoDB, Rows, in_chunks
from sleeper_nb.catalog.dynamodb.items import Item
from sleeper_nb.clock import Clock, Retry
from sleeper_nb.errors import CHECK, Action, AlreadyExists, ConflictError, InvalidInput, NotFound, StorageError
from sleeper_nb.model.file_reference import READY_FOR_GC, files_schema
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.statistics import ColumnStatistics, reference_columns, reference_fields, widest_kinds
from sleeper_nb.state_store.dynamodb.reference_items import (
    Tables,
    partition_items,
    partition_tree,
    reference_items,
    reference_row,
    statistics_of,
)
from sleeper_nb.state_store.dynamodb.staging import (
    CHANGES_TREE,
    UNDER_WAY,
    ItemWrites,
    Staging,
    difference,
    everything,
    written_by,
)
from sleeper_nb.state_store.history import Metadata
from sleeper_nb.state_store.state_store_base import CommitStep, StateStore
from sleeper_nb.storage.filesystem import Storage

logger = logging.getLogger(__name__)

RETRY = Retry(max_attempts=12, first_wait=0.02, max_wait=1.0)


def _read(tables: Tables, snapshot: Snapshot, schema: Schema) -> TableState | None:
    """Return the state, or None when the items read are not consistent."""
    at = snapshot.id
    references, won, forgotten = _active(tables, at)
    ready = {item["reference"]: item for item in tables.ready.query() if _is_live(item, won)}
    references = {key: item for key, item in {**references, **ready}.items() if item["added"] <= at}
    read = [(reference_row(item, schema, at), statistics_of(item, at)) for item in references.values()]
    rows = [row for key, row in zip(references, read, strict=True) if key not in forgotten]
    files = FileReferences.of(_references(sorted(rows, key=lambda row: _order(row[0])), schema))
    tree = _tree(tables.partitions, snapshot, won)
    if tree is None or files.totals[:2] != (_references_of(snapshot), snapshot.rows):
        return None
    counted = files.totals if snapshot.references is None else files.data_totals
    if (counted.files, counted.bytes) != (snapshot.files, snapshot.bytes):
        return None
    return TableState(at, snapshot.schema_id, schema, tree, files)


def _references(rows: Sequence[tuple[dict[str, Any], tuple[ColumnStatistics, ...]]], schema: Schema) -> pa.Table:
    of_files = [of_file for _, of_file in rows]
    kinds = widest_kinds(of_files)
    table = pa.Table.from_pylist([row for row, _ in rows], schema=files_schema(schema))
    columns = reference_columns(of_files, kinds)
    for each in reference_fields(kinds):
        table = table.append_column(each, columns[each.name])
    return table


def _has_what_it_removed(state: TableState, snapshot: Snapshot) -> bool:
    """Return whether all references that the commit removed were read; those of old commits may be collected."""
    removed = pc.equal(state.files.ready_for_gc["removed_snapshot"], snapshot.id)
    expected = snapshot.removed_files if snapshot.removed_references is None else snapshot.removed_references
    return (pc.sum(removed).as_py() or 0) == expected


def _references_of(snapshot: Snapshot) -> int:
    """Return how many references a snapshot has; earlier builds recorded them as its files."""
    return snapshot.files if snapshot.references is None else snapshot.references


def _active(tables: Tables, at: int) -> tuple[dict[str, Item], set[str], set[str]]:
    """Return active references, the commits that won but still have staged items, and the references they forgot."""
    under_way: list[Item] = []
    references: dict[str, Item] = {}
    for item in tables.active.query():  # commits in progress come first
        if item["reference"].startswith(UNDER_WAY):
            under_way.append(item)
        else:
            references[item["reference"]] = item
    won = {item["commit"] for item in under_way if item.get("won")}
    now = [item for item in under_way if item["commit"] in won and item["number"] <= at]
    live = {key: item for key, item in references.items() if _is_live(item, won)}
    return live, won, {key for item in now for key in item["forgotten"]}


def _is_live(item: Item, won: set[str]) -> bool:
    return not item.get("staged") or item["commit"] in won


def _tree(partitions: Rows, snapshot: Snapshot, won: set[str]) -> PartitionTree | None:
    live = [item for item in partitions.query() if _is_live(item, won) and item["added"] <= snapshot.id]
    if snapshot.operation in CHANGES_TREE and not any(item["added"] == snapshot.id for item in live):
        return None
    try:
        return partition_tree(live)
    except (InvalidInput, NotFound, ValueError):  # one child was read, the other not yet
        return None


def _order(row: dict[str, Any]) -> tuple[Any, ...]:
    removed = row["status"] == READY_FOR_GC
    return removed, row["removed_snapshot"] or 0, row["partition_id"], row["added_snapshot"], row["filename"]


CATALOG_ITEMS = 2
"""How many items the catalog changes in each commit: the current one and the new snapshot's.

A job's id adds one, and so do lines of the properties file.
"""
TRANSACTION_BYTES = 3_000_000
"""Larger changes are staged; a DynamoDB transaction has at most 4 MB."""


class DynamoDBStateStore(StateStore):
    """Keeps active files, files ready for garbage collection, and partitions, each in a DynamoDB table.

    `InvalidInput` when the catalog is not a `DynamoDBCatalog`.
    """

    name: ClassVar[str] = "DynamoDBStateStore"
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
        """How many files a job may merge: each input takes two items of the transaction, and the output one."""
        return (self._shared.max_items - CATALOG_ITEMS - 1) // 2

    def commit_first(self, entry: TableEntry, snapshot: Snapshot, state: TableState) -> None:
        """Write the partitions and the references, and only then add the table."""
        self._make()
        tables, commit_id = self._tables, snapshot.commit_id
        items = {
            tables.partitions: partition_items(state.tree.partitions, snapshot.id, commit_id),
            tables.active: reference_items(state.files.active, commit_id),
        }
        self._staged[commit_id] = {rows: [*of_rows] for rows, of_rows in items.items()}
        for rows, of_rows in items.items():
            for chunk in in_chunks(of_rows.items(), self._shared.max_items):
                if rows.db.transact([rows.put(key, item, new=True) for key, item in chunk]) is not None:
                    raise AlreadyExists(
                        f"items of a table with id {self.table_id!r} already exist", hint="run it again"
                    )
        self._shared.create_table(entry, snapshot)
        self._staged.pop(snapshot.commit_id, None)

    def commit_steps(self, head: Snapshot, steps: Sequence[CommitStep]) -> tuple[Snapshot, ...] | None:
        (step,) = steps
        new = step.snapshot
        moves_here = head.state_store != self.name
        if moves_here:
            self._make()
            try:
                self.forget()
            except ConflictError:  # meanwhile another writer has moved it here
                return None
        change = everything(step) if moves_here else difference(step)
        won = self.settle(new, lambda: self._commit_change(head, new, change, step.properties), set())
        keys = self._staged.pop(new.commit_id, None)
        if won and keys is not None:
            try:
                self._staging.finish(new.commit_id, keys)
            except StorageError as error:  # the commit is valid; a later sweep does the rest
                logger.warning("table %s: snapshot %d keeps its staging marks: %s", self.table_id, new.id, error)
        return (new,) if won else None

    def _commit_change(
        self, head: Snapshot, new: Snapshot, change: ItemWrites, properties: PropertiesNote | None
    ) -> bool:
        more = (new.job_id is not None) + (properties is not None)
        fits = change.size + CATALOG_ITEMS + more <= self._shared.max_items
        also = list(change.parts(self._tables)) if fits else []
        if not fits or len(repr(also)) > TRANSACTION_BYTES:
            if not change.can_be_staged:
                raise InvalidInput(
                    f"a compaction of {len(change.leaving)} files is too large: DynamoDBStateStore takes at most "
                    f"{self.most_compaction_inputs}",
                    hint="compact again: jobs are now planned with fewer files",
                )
            logger.debug("table %s: staging the %d items of snapshot %d", self.table_id, change.size, new.id)
            self._staged[new.commit_id] = change.keys(self._tables)
            part = self._staging.stage(change, new.commit_id, new.id)
            if part is None:
                return False
            also = [part]
        return self._shared.commit(self.table_id, head, new, properties=properties, also=also)

    def discard(self, snapshot: Snapshot, written: set[str]) -> None:
        """Delete what was written for a snapshot that was not committed.

        A failure leaves staged items, which no reader sees, to `sweep`.
        """
        super().discard(snapshot, written)
        keys = self._staged.pop(snapshot.commit_id, None)
        if keys is not None:
            try:
                self._staging.remove(snapshot.commit_id, keys)
            except StorageError as error:
                logger.warning("table %s: staged items of a lost commit stay: %s", self.table_id, error)

    def rebuild(self, snapshot: Snapshot) -> TableState:
        schema = self.schema(snapshot.schema_id, snapshot.schema_checksum)
        for attempt in RETRY.attempts(self.clock):
            state = _read(self._tables, snapshot, schema)
            if state is not None and (attempt or _has_what_it_removed(state, snapshot)):
                return state
            retained = self.history.retained(snapshot.id)
            if Metadata.of(retained):  # meanwhile the table was migrated
                return self.load(retained)
            logger.debug("table %s: snapshot %d is not whole yet; reading again", self.table_id, snapshot.id)
        raise StorageError(
            f"{self._tables.active.table.name} does not contain all of snapshot {snapshot.id}: "
            f"{_references_of(snapshot):,} references to {snapshot.rows:,} rows",
            hint=("run it again; if it fails again, its items in DynamoDB are damaged: ", CHECK),
        )

    def sweep(self) -> int:
        """Remove the items staged by crashed writers, and finish what they committed; return how many were removed.

        Safe at any time: a writer in progress loses its attempt and stages its change again.
        """
        return self._staging.sweep()

    def forget(self) -> None:
        """Delete every item of a table that another state store now keeps; safe to interrupt and to run again.

        Snapshots kept here can be read afterwards only if they were materialised before.

        `ConflictError` when this store still keeps the table.
        """
        self.sweep()
        # Listed before the head is read: items written later, by a migration back to here, have other commit ids.
        items = [
            (rows, item["commit"], item[rows.table.range])
            for rows in self._tables.all
            for item in rows.query(columns=f"#commit, #{rows.table.range}")
        ]
        if self.head().state_store == self.name:
            raise ConflictError(
                "the table is kept in DynamoDBStateStore",
                hint=(
                    "first: ",
                    Action("migrate T --to S3StateStore", "session.admin.migrate(T, 'S3StateStore')"),
                ),
            )
        for rows in self._tables.all:
            mine = (written_by(of, commit_id, key) for of, commit_id, key in items if of is rows)
            rows.db.transact_each(mine, self._shared.max_items)

    def erase(self) -> None:
        """Delete every item of a deleted table, and its own DynamoDB tables if it has any."""
        self._tables.erase()

    def _make(self) -> None:
        self._known_tables = Tables.choose_for(self._shared, self.table_id)
