"""A tiny language for tests: tables of one schema, rows with few words, states by hand, and what is on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import sleeper_nb as sl
from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.clock import Clock, ManualClock, Retry
from sleeper_nb.engines.duckdb.conditions import DuckDBCondition
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.load import sources
from sleeper_nb.load import split as splitting
from sleeper_nb.load.ingest import ingest_arrow
from sleeper_nb.maintain import collect_garbage as garbage
from sleeper_nb.maintain import compact as compaction
from sleeper_nb.maintain.compaction_plan import StrategySettings
from sleeper_nb.model.file_reference import FileReference, stored_files
from sleeper_nb.model.keys import KeyValue
from sleeper_nb.model.partitions import Partition, PartitionTree
from sleeper_nb.model.processing import NOTHING
from sleeper_nb.model.properties import ALL_DEFAULTS
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import CommitPoint, TableState
from sleeper_nb.model.transactions import AddFiles, initial_state
from sleeper_nb.progress import Silent
from sleeper_nb.read import read_rows as reading
from sleeper_nb.read import scan_plan as planning
from sleeper_nb.read.predicate import Condition
from sleeper_nb.state_store.history import Metadata
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.state_store.state_stores import open_state_store
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.versions import resolve as versions
from sleeper_nb.versions.create_savepoint import create_savepoint

START = datetime(2026, 1, 1, tzinfo=UTC)
KEYED = Schema({"key": "string", "n": "int"}, {}, {"value": "string?"})
TABLE = "table-id"
EMBEDDED = ("S3StateStore", "TransactionLogStateStore")
"""The state stores that need no server."""
NOW = timedelta(0)


def a_store(
    folder: Path,
    schema: Schema = KEYED,
    points: Iterable[Any] = (),
    *,
    clock: Clock | None = None,
    name: str = "table",
    table_id: str = TABLE,
    create: bool = True,
    kind: str = "S3StateStore",
    catalog: Catalog | None = None,
    storage: Storage | None = None,
) -> StateStore:
    """Return the store of a new table in a folder; of one that is there when `create` is False."""
    catalog = catalog or SqliteCatalog(folder / "catalog.sqlite")
    clock = clock or ManualClock(START)
    store = open_state_store(kind, table_id, catalog, storage or Storage(folder / table_id), clock, Retry())
    if create:
        store.create(name, schema, PartitionTree.from_split_points(schema, points, clock.new_id))
    return store


def reopened(store: StateStore, catalog: Catalog | None = None, storage: Storage | None = None) -> StateStore:
    """Return another store of the same table, which remembers nothing."""
    return open_state_store(
        store.name, store.table_id, catalog or store.catalog, storage or store.storage, store.clock, store.retry
    )


def rows_of(*keys: Any, value: str | None = None) -> list[dict[str, Any]]:
    """Return rows of `KEYED`: a key is a string, or a string and a number."""
    pairs = [key if isinstance(key, tuple) else (key, 0) for key in keys]
    return [{"key": key, "n": n, "value": value} for key, n in pairs]


def ingest(store: StateStore, data: Any, **options: Any) -> Snapshot:
    """Take over anything that ingest takes."""
    schema = store.load().schema
    rows = sources.read_sources(sources.find_sources(data), schema).rows
    return ingest_arrow(store, rows, **options).snapshot or store.head()


def condition(text: str | None, schema: Schema) -> Condition | None:
    """Return a condition, if there is one, as tables hand it to reads."""
    return None if text is None else DuckDBCondition.of(text, schema, Database())


def scan(store: StateStore, version: Any = None, **options: Any) -> pa.Table:
    """Read rows, at a version when one is given; `keys`, `region` and `processing` go to the plan."""
    state = store.load(version)
    if "where" in options:
        options["where"] = condition(options["where"], state.schema)
    regions = planning.regions_of(state.schema, options.pop("keys", None), options.pop("region", None))
    plan = planning.plan_scan(state, regions, options.pop("processing", NOTHING))
    return reading.read(plan, store.storage, **options)


def keys_in(table: pa.Table) -> list[str]:
    """Return the column `key`."""
    return table["key"].to_pylist()


def in_order(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Return rows in one order that does not depend on how they were read."""
    return sorted(repr(sorted(row.items())) for row in rows)


def compact(store: StateStore, strategy: str = "all", **options: Any) -> compaction.CompactionReport:
    """Compact in process."""
    dry_run, partition_id = options.pop("dry_run", False), options.pop("partition_id", None)
    properties = options.pop("properties", ALL_DEFAULTS)
    settings = StrategySettings(**options)
    runner = compaction.run_in_process(store.storage)
    return compaction.compact(
        store,
        runner,
        strategy=strategy,
        settings=settings,
        dry_run=dry_run,
        progress=Silent(),
        partition_id=partition_id,
        properties=properties,
    )


def split(store: StateStore, threshold: int = 10**9, **options: Any) -> splitting.SplitReport:
    """Split leaves with so many rows; `at` and `key` say where instead."""
    dry_run = options.pop("dry_run", False)
    request = splitting.request_of(store.load(), threshold, **options)
    return splitting.split_partitions(store, request, dry_run=dry_run, progress=Silent())


def collect(store: StateStore, delay: timedelta = NOW, *, dry_run: bool = False) -> garbage.GarbageReport:
    """Collect the garbage, by default without delay."""
    return garbage.collect_garbage(store, delay=delay, dry_run=dry_run)


def three_leaves(session: sl.Session) -> sl.Table:
    """Make the table ``trips``: three leaves of two files each."""
    table = session.create_table("trips", sl.Schema({"city": "string"}), ["g", "n"])
    for _ in range(2):
        table.ingest([{"city": city} for city in ("athens", "lima", "rome")])
    return table


class Recorder:
    """A watcher that notes what it is shown."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.shown = ""

    def update(self, text: str, done: int = 0, total: int = 0) -> None:  # noqa: ARG002 - the watcher's own form
        self.lines.append(text)
        self.shown = text

    def finish(self, text: str = "") -> None:  # noqa: ARG002
        self.shown = ""


class InterruptedAfter:
    """A watcher that is interrupted, as by the stop button, when so many jobs are committed."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def update(self, text: str, done: int = 0, total: int = 0) -> None:  # noqa: ARG002 - the watcher's own form
        if text.startswith("compacting") and done == self.jobs:
            raise KeyboardInterrupt

    def finish(self, text: str = "") -> None:
        pass


def save(store: StateStore, name: str | None = None, version: Any = None) -> Savepoint:
    """Make a savepoint of the current version, or of another."""
    saved = versions.resolve(store.catalog, store.table_id, "table", version)
    return create_savepoint(store, saved, name=name, message=None, author=None)


def forget_all_but_newest(store: StateStore) -> None:
    """Expire every snapshot but the current one, a minute later."""
    store.clock.sleep(60)
    current = store.head().id
    store.catalog.expire_snapshots(store.table_id, range(1, current), store.clock.now())


def rows_hash(store: StateStore, version: Any = None) -> str:
    """Return a hash of the sorted rows of a version, read by a store that remembers nothing."""
    found = in_order(scan(reopened(store), version).to_pylist())
    return hashlib.sha256("\n".join(found).encode()).hexdigest()


def reachable(store: StateStore) -> set[str]:
    """Return every file that the table, a retained snapshot or a savepoint needs."""
    kept: list[Snapshot | Savepoint] = [
        *store.catalog.snapshots(store.table_id),
        *store.catalog.savepoints(store.table_id),
    ]
    needed = {f"savepoint/savepoint-{v.id}" for v in kept if isinstance(v, Savepoint)}
    # The oldest snapshots may be read through a checkpoint that has expired itself: its metadata stays, not its rows.
    oldest = store.catalog.snapshots(store.table_id)[-1]
    checkpoint = Metadata.of(store.catalog.checkpoint(store.table_id, oldest.id))
    needed |= checkpoint.paths if checkpoint else set()
    for version in kept:
        metadata = Metadata.of(version)
        needed |= {*(metadata.paths if metadata else ()), f"schema/schema-{version.schema_id}"}
        needed |= set(stored_files(reopened(store).load(version).files.active)["filename"].to_pylist())
    return needed


def on_disk(store: StateStore) -> set[str]:
    """Return every file in the table's folder."""
    return {file.path for file in store.storage.list()}


def data_files(store: StateStore) -> set[str]:
    """Return the data files in the table's folder."""
    return {path for path in on_disk(store) if path.startswith("data/")}


def snapshot(number: int, commit_id: str | None = None, **changes: Any) -> Snapshot:
    """Return a snapshot as a catalog keeps it."""
    fields: dict[str, Any] = {
        "id": number, "commit_id": commit_id or f"commit-{number}", "time": START + timedelta(seconds=number),
        "operation": "ingest", "schema_id": 1, "files": 0, "rows": 0, "bytes": 0, "added_files": 0,
        "removed_files": 0, "added_rows": 0, "files_path": f"files-{number}", "partitions_path": "partitions-1",
        "state_store": "S3StateStore",
    }  # fmt: skip
    return Snapshot(**{**fields, **changes})


def savepoint(number: int, of: Snapshot, name: str | None = None, **changes: Any) -> Savepoint:
    """Return a savepoint as a catalog keeps it."""
    fields: dict[str, Any] = {
        "id": number, "saved_snapshot_id": of.id, "schema_id": 1, "full_manifest_list": of.files_path,
        "partitions_path": of.partitions_path, "record_count": of.rows, "save_time": START,
        "snapshot_time": of.time, "name": name,
    }  # fmt: skip
    return Savepoint(**{**fields, **changes})


def a_tree(*points: str, schema: Schema = KEYED) -> PartitionTree:
    """Return a tree whose leaves meet at the points; ids follow from the seed."""
    return PartitionTree.from_split_points(schema, points, ManualClock().new_id)


def leaf_of(tree: PartitionTree, key: tuple[KeyValue, ...]) -> Partition:
    """Return the one leaf that holds a key."""
    (leaf,) = (leaf for leaf in tree.leaves if key in leaf.region)
    return leaf


def a_file(
    name: str, partition_id: str = "root", rows: int = 1, keys: Sequence[str] = ("a", "b"), **flags: Any
) -> FileReference:
    """Return a reference to a file of `KEYED` between two keys."""
    return FileReference(name, partition_id, rows, 10 * rows, (keys[0], 0), (keys[1], 9), **flags)


def a_state(*files: FileReference, tree: PartitionTree | None = None, schema: Schema = KEYED) -> TableState:
    """Return snapshot 1 with some files."""
    state = initial_state(schema, tree or a_tree(schema=schema), CommitPoint(1, START))
    return AddFiles(files).apply(state, CommitPoint(1, START)) if files else state


def point_after(state: TableState) -> CommitPoint:
    """Return what the next commit adds."""
    return CommitPoint(state.snapshot_id + 1, START + timedelta(minutes=state.snapshot_id))
