"""What only `DynamoDBStateStore` has: its limits, what it stages, and readings that are not of one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sleeper_nb.admin.migrate import migrate_state_store
from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog
from sleeper_nb.catalog.dynamodb.client import DynamoDB
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import ConflictError, InvalidInput, NotFound, StorageError
from sleeper_nb.maintain.collect_garbage import collect_garbage
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.transactions import (
    AddFiles,
    DeleteFiles,
    MigrateStateStore,
    ReplaceFileReferences,
)
from sleeper_nb.state_store.dynamodb.reference_items import Tables
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.state_store.state_stores import open_state_store
from tests.servers.memory import memory_catalog
from tests.support.backends import DYNAMODB, MEMORY_AND_SERVERS
from tests.support.builders import (
    START,
    a_file,
    a_store,
    collect,
    compact,
    forget_all_but_newest,
    ingest,
    keys_in,
    reopened,
    rows_of,
    save,
    scan,
)
from tests.support.faults import Trap, TrappedCatalog, lose_answer


@pytest.fixture(params=[*MEMORY_AND_SERVERS, "memory, own tables"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DynamoDBCatalog]:
    """A catalog whose transactions have at most 8 items: 6 files, or a compaction of 2."""
    server, _, own = request.param.partition(", ")
    made = DYNAMODB[server](tmp_path, clock=ManualClock(START), max_items=8, own_tables=bool(own))
    yield made
    made.close()


@pytest.fixture
def store(catalog: DynamoDBCatalog, tmp_path: Path, clock: ManualClock) -> StateStore:
    return a_store(tmp_path, kind="DynamoDBStateStore", catalog=catalog, clock=clock)


TABLES = ("active-files", "ready-for-gc-files", "partitions")
MANY = [f"f{number:02d}" for number in range(20)]


def added(*names: str) -> AddFiles:
    return AddFiles(tuple(a_file(name) for name in names))


def merged(*names: str, output: str | None) -> ReplaceFileReferences:
    return ReplaceFileReferences("job", "root", names, None if output is None else a_file(output, rows=len(names)))


def names(store: StateStore, version: Any = None) -> list[str]:
    return sorted(reopened(store).load(version).files.active["filename"].to_pylist())


def waiting(store: StateStore) -> list[str]:
    return sorted(reopened(store).load().files.ready_for_gc["filename"].to_pylist())


def items(store: StateStore) -> list[list[dict[str, Any]]]:
    """Return all that is in the three DynamoDB tables, but for what says who wrote it."""
    tables = Tables.of(store.catalog, store.table_id)
    return [[{name: v for name, v in item.items() if name != "commit"} for item in rows.query()] for rows in tables.all]


class Catalog:
    """A catalog in which something happens around a commit."""

    def __init__(self, real: Any, commit: Callable[..., bool], **methods: Any) -> None:
        self._real, self._commit = real, commit
        self.__dict__ |= methods

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def commit(self, *arguments: Any, **options: Any) -> bool:
        return self._commit(lambda: self._real.commit(*arguments, **options))


def crashing(store: StateStore, *, after: bool) -> StateStore:
    """Return the store of a process that ends before or after its commit."""

    def die(*_: Any) -> bool:
        raise KeyboardInterrupt

    def commit(do: Callable[[], bool]) -> bool:
        if after:
            assert do()
        return die()

    return reopened(store, Catalog(store.catalog, commit, has_commit=die))


def crash(store: StateStore, change: Any, *, after: bool) -> None:
    with pytest.raises(KeyboardInterrupt):
        crashing(store, after=after).commit(change)


def test_it_needs_a_catalog_in_dynamodb(tmp_path: Path):
    with pytest.raises(InvalidInput, match="needs a DynamoDB catalog"):
        a_store(tmp_path, kind="DynamoDBStateStore")


@pytest.mark.parametrize(("most", "inputs"), [(100, 48), (25, 11)])
def test_the_items_of_a_transaction_bound_the_inputs_of_a_compaction(tmp_path: Path, most: int, inputs: int):
    catalog = memory_catalog(tmp_path, max_items=most)
    store = a_store(tmp_path, kind="DynamoDBStateStore", catalog=catalog)
    files = [f"f{number}" for number in range(inputs + 1)]
    store.commit(added(*files))
    assert store.most_compaction_inputs == inputs
    with pytest.raises(InvalidInput, match=f"takes at most {inputs}"):
        store.commit(merged(*files, output="out"))
    store.commit(merged(*files[:inputs], output="out"))
    assert names(store) == sorted([*files[inputs:], "out"])


def test_a_plan_never_has_more_inputs_than_a_transaction_takes(store: StateStore):
    for key in "gfedcba":
        ingest(store, rows_of(key))
    for left in (4, 2, 1):
        report = compact(store, "all")
        assert all(len(job.inputs) == 2 for job in report.jobs)
        assert len(names(store)) == left
    assert compact(store, "all").jobs == ()
    assert compact(store, "basic", batch_size=12).jobs == ()
    assert keys_in(scan(reopened(store))) == [*"abcdefg"]


def test_a_compaction_moves_its_inputs_and_adds_its_output(store: StateStore):
    store.commit(added("a", "b", "c"))
    made = store.commit(merged("a", "b", output="out"))
    active, ready, partitions = items(store)
    assert [item["reference"] for item in active] == ["root|c|2", "root|out|3"]
    assert [(item["reference"], item["added"], item["removed"]) for item in ready] == [
        ("root|a|2", 2, 3),
        ("root|b|2", 2, 3),
    ]
    assert [item["partition_id"] for item in partitions] == ["root"]
    assert (made.files_path, made.partitions_path, made.state_store) == (None, None, "DynamoDBStateStore")
    assert reopened(store).load().files.table.sort_by("filename") == store.load().files.table.sort_by("filename")


def test_the_tables_are_told_of_when_they_are_made(tmp_path: Path):
    told: list[str] = []
    catalog = memory_catalog(tmp_path, on_create=told.append)
    a_store(tmp_path, kind="DynamoDBStateStore", catalog=catalog)
    a_store(tmp_path, kind="DynamoDBStateStore", catalog=catalog, table_id="other", name="other")
    assert len([text for text in told if catalog.table_name("active-files") in text]) == 1


def test_tables_share_three_tables_of_dynamodb_or_have_three_each_and_keep_that_for_life(tmp_path: Path):
    told: list[str] = []
    apart = memory_catalog(tmp_path, own_tables=True, on_create=told.append)
    first, second = (a_store(tmp_path, kind="DynamoDBStateStore", catalog=apart, table_id=n, name=n) for n in "ab")
    first.commit(added("f"))
    assert all(any(f"-table-{n}-{kind}" in text for text in told) for n in "ab" for kind in TABLES)
    together = memory_catalog(tmp_path)
    assert names(reopened(first, together)) == ["f"]
    assert names(reopened(second, together)) == []
    third = a_store(tmp_path, kind="DynamoDBStateStore", catalog=together, table_id="c", name="c")
    assert [rows.table.name for rows in Tables.of(together, "c").all] == [together.table_name(kind) for kind in TABLES]
    assert names(reopened(third, apart)) == []


def test_a_change_too_big_for_a_transaction_is_one_snapshot_and_leaves_no_marks(store: StateStore):
    made = store.commit(added(*MANY))
    assert (made.id, made.files, names(store)) == (2, 20, MANY)
    active, _, _ = items(store)
    assert [item["filename"] for item in active] == MANY
    assert not any("staged" in item for item in active)


def test_what_is_staged_is_seen_by_nobody_until_its_commit(store: StateStore):
    seen = []

    def commit(do: Callable[[], bool]) -> bool:
        seen.append(names(store))
        won = do()
        seen.append(names(store))
        return won

    reopened(store, Catalog(store.catalog, commit)).commit(added(*MANY))
    assert seen == [[], MANY]


def test_a_crash_behind_the_staging_leaves_what_the_next_sweep_removes(store: StateStore):
    store.commit(added("a"))
    before = items(store)
    crash(store, added(*MANY), after=False)
    assert (names(store), store.head().id) == (["a"], 2)
    assert items(store) != before
    assert reopened(store).sweep() == 1
    assert items(store) == before
    assert store.sweep() == 0


def test_garbage_collection_sweeps_what_crashed_writers_staged(store: StateStore):
    store.commit(added("a"))
    before = items(store)
    crash(store, added(*MANY), after=False)
    collect_garbage(store, delay=timedelta(0), dry_run=True)
    assert items(store) != before
    collect_garbage(store, delay=timedelta(0), dry_run=False)
    assert items(store) == before


@pytest.mark.parametrize("count", [3, 20])
def test_files_that_a_crashed_writer_staged_can_be_added_again(store: StateStore, count: int):
    crash(store, added(*MANY), after=False)
    reopened(store).commit(added(*MANY[:count]))
    assert names(store) == MANY[:count]
    store.sweep()
    assert names(store) == MANY[:count]


def test_a_crash_behind_the_commit_keeps_the_commit(store: StateStore):
    crash(store, added(*MANY), after=True)
    assert names(store) == MANY
    reopened(store).commit(merged("f00", "f01", output="out"))
    left = sorted([*MANY[2:], "out"])
    assert names(store) == left
    forget_all_but_newest(store)
    assert store.sweep() == 0
    assert names(store) == left
    assert not any("staged" in item for item in items(store)[0])
    assert waiting(store) == ["f00", "f01"]


def test_a_lost_answer_of_a_big_commit_is_found_out(store: StateStore):
    trap = Trap(1, lose_answer, after=True, only=("commit",))
    made = reopened(store, TrappedCatalog(store.catalog, trap)).commit(added(*MANY))
    assert made == store.head()
    assert names(store) == MANY
    assert len(items(store)[0]) == 20


def test_a_big_commit_that_never_arrived_leaves_nothing(store: StateStore):
    before = items(store)
    with pytest.raises(StorageError):
        reopened(store, TrappedCatalog(store.catalog, Trap(1, lose_answer, only=("commit",)))).commit(added(*MANY))
    assert items(store) == before


@pytest.mark.parametrize("rival", ["commit", "sweep"])
def test_a_big_commit_that_lost_stages_again(store: StateStore, rival: str):
    tries = []

    def commit(do: Callable[[], bool]) -> bool:
        tries.append(1)
        if len(tries) < 3:
            other = reopened(store)
            _ = other.commit(added(f"rival {len(tries)}")) if rival == "commit" else other.sweep()
        return do()

    made = reopened(store, Catalog(store.catalog, commit)).commit(added(*MANY))
    rivals = ["rival 1", "rival 2"] if rival == "commit" else []
    assert (len(tries), made.id, names(store)) == (3, 2 + len(rivals), [*MANY, *rivals])
    assert len(items(store)[0]) == len(MANY) + len(rivals)


def test_every_retained_snapshot_is_exact_behind_compactions_and_collections(store: StateStore):
    for key in "abcdefg":
        ingest(store, rows_of(key))
        compact(store, "all")
    store.clock.sleep(60)
    store.catalog.expire_snapshots(store.table_id, range(1, 7), store.clock.now())
    assert collect(store).data_files
    for snapshot in store.catalog.snapshots(store.table_id):
        assert reopened(store).load(snapshot).totals() == (snapshot.files, snapshot.rows, snapshot.bytes)
        assert scan(reopened(store), snapshot).num_rows == snapshot.rows


def test_a_snapshot_that_expired_and_was_collected_is_not_found(store: StateStore):
    inputs = [f"data/partition_root/{name}.parquet" for name in "ab"]
    store.commit(added(*inputs))
    old = store.head()
    store.commit(merged(*inputs, output="data/partition_root/out.parquet"))
    forget_all_but_newest(store)
    collect(store)
    with pytest.raises(NotFound, match="snapshot 2 has expired"):
        reopened(store).load(old)


@pytest.mark.parametrize("after", [None, False, True])
def test_a_collection_too_big_for_a_transaction_forgets_all_or_nothing(store: StateStore, after: bool | None):
    store.commit(added(*MANY))
    for at in range(0, 20, 2):
        store.commit(merged(*MANY[at : at + 2], output=None))
    assert waiting(store) == MANY
    old = store.catalog.snapshots(store.table_id)[5]
    if after is None:
        store.commit(DeleteFiles(tuple(MANY)))
    else:
        crash(store, DeleteFiles(tuple(MANY)), after=after)
    assert waiting(store) == (MANY if after is False else [])
    if after is not None:
        assert reopened(store).load(old).files.active.num_rows == old.files
    store.sweep()
    assert waiting(store) == (MANY if after is False else [])
    assert len(items(store)[1]) == (20 if after is False else 0)


def test_a_savepoint_has_its_own_metadata(store: StateStore):
    store.commit(added("a", "b"))
    kept = save(store, "kept")
    store.commit(merged("a", "b", output="out"))
    forget_all_but_newest(store)
    store.commit(DeleteFiles(("a", "b")))
    assert names(store, kept) == ["a", "b"]


class Queried(DynamoDB):
    """A DynamoDB in which something happens to the answers of queries."""

    def __init__(self, real: DynamoDB, change: Callable[[str, list[Any]], list[Any]]) -> None:
        super().__init__(real.aws, real.clock)
        self.client, self._change = real.client, change

    def query(self, table: Any, **request: Any) -> Iterator[Any]:
        yield from self._change(table.name.rpartition("-")[2], list(super().query(table, **request)))


def read_through(store: StateStore, change: Callable[[str, list[Any]], list[Any]]) -> StateStore:
    catalog = store.catalog
    other = DynamoDBCatalog(catalog.instance, clock=catalog.db.clock, max_items=catalog.max_items)
    other.db = Queried(catalog.db, change)
    return reopened(store, other)


@pytest.mark.parametrize("times", [1, 3])
def test_a_reading_that_misses_an_item_is_read_again(store: StateStore, clock: ManualClock, times: int):
    store.commit(added("a", "b"))
    missed = []

    def change(table: str, found: list[Any]) -> list[Any]:
        if found and "reference" in found[0] and len(missed) < times:
            missed.append(table)
            return found[1:]
        return found

    assert read_through(store, change).load().files.active["filename"].to_pylist() == ["a", "b"]
    assert len(clock.slept) == times


def test_a_reading_that_misses_what_was_removed_is_read_again(store: StateStore):
    store.commit(added("a", "b"))
    store.commit(merged("a", "b", output="out"))
    missed = []

    def change(_table: str, found: list[Any]) -> list[Any]:
        if found and found[0].get("removed") and not missed:
            missed.append(found)
            return []
        return found

    assert read_through(store, change).load().files.removed_count == 2


def test_items_that_are_gone_for_good_are_an_error(store: StateStore):
    store.commit(added("a", "b"))
    with pytest.raises(StorageError, match="does not contain all of snapshot 2"):
        read_through(store, lambda _, found: [one for one in found if one.get("filename") != "a"]).load()


def test_a_compaction_while_a_reader_reads_changes_nothing_of_what_it_reads(store: StateStore):
    store.commit(added("a", "b", "c", "d"))
    rival = iter([("a", "b"), ("c", "d")])

    def change(_table: str, found: list[Any]) -> list[Any]:
        if found and ("reference" in found[0] or "parent_id" in found[0]):
            for pair in rival:
                store.commit(merged(*pair, output="out " + pair[0]))
                break
        return found

    state = read_through(store, change).load()
    assert (state.snapshot_id, sorted(state.files.active["filename"].to_pylist())) == (2, ["a", "b", "c", "d"])
    assert store.head().id > 2


# Moving to and from another store.


def reopened_as(kind: str, store: StateStore) -> StateStore:
    return open_state_store(kind, store.table_id, store.catalog, store.storage, store.clock, store.retry)


def migrate(store: StateStore, to: str) -> Snapshot:
    for snapshot in store.catalog.snapshots(store.table_id):
        store.materialised(snapshot)
    return store.commit(MigrateStateStore(to))


def test_a_table_moves_here_and_away_with_all_that_it_has(catalog: DynamoDBCatalog, tmp_path: Path):
    store = a_store(tmp_path, points=["m"], kind="S3StateStore", catalog=catalog)
    for key in "anbo":
        ingest(store, rows_of(key))
    compact(store, "all")
    before = store.load()
    migrate(store, "DynamoDBStateStore")
    here = reopened_as("DynamoDBStateStore", store)
    moved = here.load()
    assert moved.tree == before.tree
    assert here.head().state_store == "DynamoDBStateStore"
    assert moved.files.table.sort_by("filename") == before.files.table.sort_by("filename")
    ingest(here, rows_of("z"))
    with pytest.raises(ConflictError, match="is kept in DynamoDBStateStore"):
        here.forget()
    assert keys_in(scan(here)) == [*"abnoz"]
    migrate(here, "S3StateStore")
    here.forget()
    here.forget()
    assert items(here) == [[], [], []]
    assert [keys_in(scan(reopened(store), s)) for s in catalog.snapshots(store.table_id)[:3]] == [
        [*"abnoz"], [*"abnoz"], [*"abno"],
    ]  # fmt: skip
    migrate(store, "DynamoDBStateStore")
    assert keys_in(scan(reopened_as("DynamoDBStateStore", store))) == [*"abnoz"]


@pytest.mark.parametrize("back", [False, True])
def test_who_knew_the_head_before_a_migration_reads_it_afterwards(store: StateStore, clock: ManualClock, back: bool):
    store.commit(added("a", "b"))
    slow, known = reopened(store), store.head()
    migrate_state_store(reopened(store), "S3StateStore")
    if back:
        migrate_state_store(reopened(store), "DynamoDBStateStore")
    waited = len(clock.slept)
    assert sorted(slow.load(known).files.active["filename"].to_pylist()) == ["a", "b"]
    assert len(clock.slept) == waited


def test_a_migration_that_crashed_is_done_again(catalog: DynamoDBCatalog, tmp_path: Path):
    store = a_store(tmp_path, points=["c", "m"], kind="S3StateStore", catalog=catalog)
    store.commit(AddFiles(tuple(a_file(name, store.load().tree.leaves[0].id) for name in MANY)))
    crash(store, MigrateStateStore("DynamoDBStateStore"), after=False)
    assert (names(store), store.head().state_store) == (MANY, "S3StateStore")
    migrate(store, "DynamoDBStateStore")
    assert names(store) == MANY
    assert reopened(store).head().state_store == "DynamoDBStateStore"
