"""Reading a snapshot back from the three DynamoDB tables, whole and of one moment.

Why what is read is the snapshot and nothing else, in steps:

1. The snapshot is known before its items are read, and so is every commit up to it. An item is live in the snapshots
   [added, removed), so whatever later commits add or remove meanwhile changes nothing of the answer.
2. A later compaction moves a reference from `active-files` to `ready-for-gc-files`. They are read in that order, so a
   reference is found in one at least; found in both, the later reading counts.
3. Plain reads can see some items of a transaction a moment before the others, and pages of a query are not of one
   moment. So references, rows and bytes are compared with what the commit itself said of them, the tree must be
   whole, and a commit that changed the tree must show in it; if not, all is read again. What the commit removed must be
   there too, or a second reading finds no more of it.
4. A garbage collection deletes only references whose [added, removed) holds no retained snapshot. So every retained
   snapshot finds all its active references, however old it is. What waited for garbage collection at an old snapshot
   and has been collected since is no longer told of it; nothing reads that.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.catalog.base import Catalog
from sleeper_nb.catalog.dynamodb.items import Item
from sleeper_nb.catalog.dynamodb.rows import Rows
from sleeper_nb.clock import Clock
from sleeper_nb.errors import InvalidInput, NotFound, StorageError
from sleeper_nb.model.file_reference import READY_FOR_GC, files_schema
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.retry import Retry
from sleeper_nb.state_store.dynamodb.changes import CHANGES_TREE
from sleeper_nb.state_store.dynamodb.items import Tables, partition_tree, reference_row
from sleeper_nb.state_store.dynamodb.staging import UNDER_WAY

RETRY = Retry(max_attempts=12, first_wait=0.02, max_wait=1.0)


def read_state(
    tables: Tables, catalog: Catalog, table_id: str, snapshot: Snapshot, schema: Schema, clock: Clock
) -> TableState:
    """Return the state of a snapshot.

    Raises
    ------
    NotFound
        When the snapshot has expired.
    StorageError
        When what is there is not the snapshot in every try.
    """
    for attempt in range(RETRY.max_attempts):
        if attempt:
            RETRY.wait(clock, attempt)
        state = _read(tables, snapshot, schema)
        if state is not None and (attempt or _has_what_it_removed(state, snapshot)):
            return state
    if all(retained.id != snapshot.id for retained in catalog.snapshots(table_id)):
        raise NotFound(f"snapshot {snapshot.id} has expired", hint="choose one that history shows")
    raise StorageError(
        f"{tables.active.table.name} does not hold what snapshot {snapshot.id} says: "
        f"{_references_of(snapshot):,} references to {snapshot.rows:,} rows",
        hint="run it again; if it stays so, check the table: its items in DynamoDB are damaged",
    )


def _read(tables: Tables, snapshot: Snapshot, schema: Schema) -> TableState | None:
    """Return the state, or None when what was read is not of one moment."""
    at = snapshot.id
    references, won, forgotten = _active(tables, at)
    ready = {item["reference"]: item for item in tables.ready.query() if _is_live(item, won)}
    references = {key: item for key, item in {**references, **ready}.items() if item["added"] <= at}
    rows = [reference_row(item, schema, at) for item in references.values()]
    rows = [row for key, row in zip(references, rows, strict=True) if key not in forgotten]
    files = FileReferences.of(pa.Table.from_pylist(sorted(rows, key=_order), schema=files_schema(schema)))
    tree = _tree(tables.partitions, snapshot, won)
    if tree is None or files.totals[:2] != (_references_of(snapshot), snapshot.rows):
        return None
    counted = files.totals if snapshot.references is None else files.data_totals
    if (counted.files, counted.bytes) != (snapshot.files, snapshot.bytes):
        return None
    return TableState(at, snapshot.schema_id, schema, tree, files)


def _has_what_it_removed(state: TableState, snapshot: Snapshot) -> bool:
    """Return whether all references that the commit removed are there; of an old one they may have been collected."""
    removed = pc.equal(state.files.ready_for_gc["removed_snapshot"], snapshot.id)
    expected = snapshot.removed_files if snapshot.removed_references is None else snapshot.removed_references
    return (pc.sum(removed).as_py() or 0) == expected


def _references_of(snapshot: Snapshot) -> int:
    """Return how many references a snapshot has; an earlier build counted them as its files."""
    return snapshot.files if snapshot.references is None else snapshot.references


def _active(tables: Tables, at: int) -> tuple[dict[str, Item], set[str], set[str]]:
    """Return active references, the commits that won and have staged items yet, and what those forgot."""
    under_way: list[Item] = []
    found: dict[str, Item] = {}
    for item in tables.active.query():  # commits under way come first
        if item["reference"].startswith(UNDER_WAY):
            under_way.append(item)
        else:
            found[item["reference"]] = item
    won = {item["commit"] for item in under_way if item.get("won")}
    now = [item for item in under_way if item["commit"] in won and item["number"] <= at]
    live = {key: item for key, item in found.items() if _is_live(item, won)}
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
    """Return where a row comes: active ones by partition, then the others as they were removed."""
    removed = row["status"] == READY_FOR_GC
    return removed, row["removed_snapshot"] or 0, row["partition_id"], row["added_snapshot"], row["filename"]
