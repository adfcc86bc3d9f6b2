"""What every state store holds, on every backend. A new one joins by a line in `backends.BACKENDS_OF`."""

from __future__ import annotations

import dataclasses
import multiprocessing
import sqlite3
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sleeper_nb.clock import Clock, ManualClock, Retry
from sleeper_nb.errors import (
    AlreadyExists,
    ConflictError,
    NotFound,
    OutcomeUnknown,
    SleeperError,
    StateRuleBroken,
    StorageError,
)
from sleeper_nb.model.checksums import checksum_of
from sleeper_nb.model.file_reference import files_schema
from sleeper_nb.model.partitions import PartitionSplit, PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.statistics import ColumnStatistics
from sleeper_nb.model.transactions import AddFiles, ReplaceFileReferences, SetProcessing, SplitPartitions
from sleeper_nb.state_store.history import Metadata
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.filesystem import Storage
from tests.support.backends import Tables, stores
from tests.support.builders import (
    KEYED,
    START,
    a_file,
    a_store,
    a_tree,
    compact,
    forget_all_but_newest,
    ingest,
    keys_in,
    on_disk,
    reopened,
    rows_of,
    save,
    scan,
)
from tests.support.faults import Trap, TrappedCatalog, interrupt, lose_answer, trapped


@pytest.fixture
def in_full(tmp_path: Path, clock: ManualClock) -> Iterator[StateStore]:
    """A store that writes full metadata with each commit."""
    made = a_store(tmp_path, clock=clock, kind="S3StateStore")
    yield made
    made.catalog.close()


def added(name: str, **flags: Any) -> AddFiles:
    return AddFiles((a_file(name, **flags),))


def names(store: StateStore, version: Any = None) -> list[str]:
    return store.load(version).files.active["filename"].to_pylist()


def test_a_new_table_has_its_partitions_and_no_files(store: StateStore):
    state = reopened(store).load()
    assert (state.snapshot_id, state.schema, state.totals()) == (1, KEYED, (0, 0, 0))
    assert state.tree.root.is_leaf
    assert store.head().operation == "create"


def test_a_commit_is_the_next_snapshot_and_every_reader_sees_it(store: StateStore, clock: ManualClock):
    clock.advance(timedelta(seconds=5))
    made = store.commit(added("f", rows=3), message="why", author="who")
    assert (made.id, made.time, made.operation) == (2, START + timedelta(seconds=5), "ingest")
    assert (made.files, made.rows, made.bytes, made.added_files, made.removed_files, made.added_rows) == (
        1,
        3,
        30,
        1,
        0,
        3,
    )
    assert (made.message, made.author) == ("why", "who")
    other = reopened(store)
    assert other.head() == made
    assert other.load().files.table == store.load().files.table


def test_a_state_comes_back_equal_whatever_its_keys(tables: Tables, clock: ManualClock):
    names = {"i": "int", "l": "long", "b": "bytearray", "s": "string", "d": "date", "t": "timestamp"}
    schema, points = Schema(names), [-(2**31) + 1, 0, 2**31 - 1]
    store = tables.opened(schema=schema, points=points, clock=clock)
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    least = (-(2**31), -(2**63), b"", "", date.min, first)
    most = (-(2**31), 2**63 - 1, b"\xff\x80", "\U0010ffff\0", date.max, last)
    file = dataclasses.replace(a_file("f", store.load().tree.leaves[0].id), min_key=least, max_key=most)
    store.commit(AddFiles((file,)))
    assert reopened(store).load().tree == store.load().tree
    assert reopened(store).load().files.active_in({file.partition_id}) == (file,)


@pytest.mark.parametrize(
    ("kind", "points"),
    [("date", [date(1500, 2, 28), date(2013, 1, 1), date.max]),
     ("timestamp", [datetime(1500, 1, 1, 0, 0, 0, 1, UTC), datetime(2013, 1, 1, tzinfo=UTC),
                    datetime.max.replace(tzinfo=UTC)])],
)  # fmt: skip
def test_partitions_that_are_split_by_times_come_back_equal(
    tables: Tables, clock: ManualClock, kind: str, points: list[Any]
):
    store = tables.opened(schema=Schema({"k": kind}), points=points[1:], clock=clock)
    first, middle = store.load().tree.leaves[0].id, points[:1]
    store.commit(AddFiles((dataclasses.replace(a_file("f", first), min_key=tuple(middle), max_key=tuple(middle)),)))
    file = dataclasses.replace(a_file("f", "b"), min_key=tuple(middle), max_key=tuple(middle))
    store.commit(SplitPartitions((PartitionSplit(first, 0, middle[0], ("a", "b")),), (file,)))
    state = reopened(store).load()
    assert state.tree == store.load().tree
    assert state.tree.split_points() == tuple(points)
    assert state.files.active_in({"b"}) == (file,)


def test_statistics_of_files_come_back_in_every_version(store: StateStore):
    root = store.load().tree.root.id
    day, time = ColumnStatistics("day", "date", -5, None, 0), ColumnStatistics("at", "timestamp", -(2**63) + 1, 5, 2)
    text = ColumnStatistics("s", "string", "", "\U0010ffff", 3)
    files = (a_file("none", root), a_file("one", root, statistics=(time,)), a_file("two", root, statistics=(day, text)))
    for each in files:
        store.commit(AddFiles((each,)))
    store.commit(ReplaceFileReferences("job", root, ("one",), None))
    for snapshot in store.catalog.snapshots(store.table_id):
        found = {each.filename: set(each.statistics) for each in reopened(store).load(snapshot).files.active_in({root})}
        assert found == {each.filename: set(each.statistics) for each in files if each.filename in found}
    assert {each.filename for each in store.load().files.active_in({root})} == {"none", "two"}


def test_statistics_outlive_commits_of_other_sessions_and_the_versions_before(store: StateStore):
    root, text = store.load().tree.root.id, ColumnStatistics("s", "string", "a", "b", 1)
    store.commit(AddFiles((a_file("f", root, statistics=(text,)),)))
    kept = save(store, "kept")
    for name in ("g", "h"):
        reopened(store).commit(AddFiles((a_file(name, root),)))
    reopened(store).commit(ReplaceFileReferences("job", root, ("g",), None))
    forget_all_but_newest(store)
    for version in (None, kept):
        active = reopened(store).load(version).files.active_in({root})
        assert {each.filename for each in active if each.statistics == (text,)} == {"f"}


def test_older_snapshots_and_savepoints_never_change(store: StateStore):
    store.commit(added("f"))
    kept = save(store, "kept")
    store.commit(added("g"))
    versions = store.catalog.snapshots(store.table_id)
    assert [names(reopened(store), version) for version in (*versions, kept)] == [["f", "g"], ["f"], [], ["f"]]
    assert reopened(store).load(kept).snapshot_id == 2


@pytest.mark.parametrize("count", [2, 60])
def test_a_split_shows_whole_and_older_versions_keep_their_partitions(store: StateStore, count: int):
    files = tuple(a_file(f"f{number}") for number in range(count))
    store.commit(AddFiles(files))
    kept = save(store)
    cuts = PartitionSplit("root", 0, "m", ("left", "right")), PartitionSplit("right", 1, 5, ("low", "high"))
    made = store.commit(SplitPartitions(cuts, tuple(dataclasses.replace(file, partition_id="left") for file in files)))
    assert (made.operation, made.files, made.rows) == ("split", count, count)
    for fresh in (store, reopened(store)):
        state = fresh.load()
        assert [leaf.id for leaf in state.tree.leaves] == ["left", "low", "high"]
        assert {file.partition_id for file in state.files.active_in(["root", "left"])} == {"left"}
        assert state.files.ready_for_gc.num_rows == count
        for version in (kept, store.catalog.snapshots(store.table_id)[1]):
            before = fresh.load(version)
            assert (before.tree.leaves, len(before.files.active_in(["root"]))) == ((before.tree.root,), count)
            before.tree.check()
        state.tree.check()
    store.commit(added("later", partition_id="high", keys=("x", "y"), only_this_partition=False))
    assert len(names(reopened(store))) == count + 1


def test_a_rule_that_does_not_hold_changes_nothing(store: StateStore):
    store.commit(added("f"))
    before = store.head(), on_disk(store)
    with pytest.raises(AlreadyExists):
        store.commit(added("f"))
    with pytest.raises(StateRuleBroken):
        store.commit(lambda _state: AddFiles((a_file("g"), a_file("g"))))
    assert (store.head(), on_disk(store)) == before


def test_only_what_changed_is_written(in_full: StateStore):
    before = on_disk(in_full)
    made = in_full.commit(added("f"))
    assert on_disk(in_full) - before == {made.files_path}
    assert made.partitions_path == in_full.catalog.snapshots(in_full.table_id)[1].partitions_path


def test_states_are_read_from_disk_once(store: StateStore):
    store.commit(added("f"))
    other = reopened(store)
    first = other.load()
    assert other.load() is first
    assert store.load() is store.load()


def test_many_versions_can_be_read_by_many_threads(store: StateStore):
    for number in range(9):  # more than a store remembers
        store.commit(added(f"f{number}"))
    versions, wrong = store.catalog.snapshots(store.table_id), []
    shared = reopened(store)

    def read() -> None:
        for version in versions * 2:
            if len(names(shared, version)) != version.files:
                wrong.append(version)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


class Rival:
    """A catalog in which, before each of the first commits, another writer commits."""

    def __init__(self, store: StateStore, times: int) -> None:
        self._store, self._times = store, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store.catalog, name)

    def commit(self, table_id: str, expected: Snapshot, *new: Snapshot, **also: Any) -> bool:
        if self._times:
            self._times -= 1
            self._store.commit(added(f"rival {self._times}"))
        return self._store.catalog.commit(table_id, expected, *new, **also)


def test_a_commit_that_lost_tries_again_on_the_newer_state_after_a_growing_wait(store: StateStore, clock: ManualClock):
    seen = []

    def change(state):
        seen.append(state.snapshot_id)
        return added("mine")

    made = reopened(store, Rival(store, 5)).commit(change)
    assert made.id == 7
    assert seen == [1, 2, 3, 4, 5, 6]
    assert sorted(names(store)) == ["mine", *(f"rival {i}" for i in range(5))]
    assert len(clock.slept) == 5
    assert all(slept <= Retry().ceiling(i) for i, slept in enumerate(clock.slept))


def paths_of(snapshot: Snapshot) -> frozenset[str]:
    metadata = Metadata.of(snapshot)
    return metadata.paths if metadata else frozenset()


def test_a_commit_that_lost_deletes_the_metadata_that_it_wrote(store: StateStore):
    reopened(store, Rival(store, 3)).commit(added("mine"))
    named = {path for s in store.catalog.snapshots(store.table_id) for path in paths_of(s)}
    assert {path for path in on_disk(store) if path.startswith("statestore/")} == named


def test_a_rule_that_a_rival_broke_stops_the_retries(store: StateStore):
    with pytest.raises(AlreadyExists):
        reopened(store, Rival(store, 1)).commit(added("rival 0"))
    assert store.head().id == 2


def test_running_out_of_tries_raises_and_leaves_nothing(store: StateStore, clock: ManualClock):
    impatient = reopened(store, Rival(store, 99))
    impatient.retry = Retry(max_attempts=3)
    with pytest.raises(ConflictError, match="3 attempts"):
        impatient.commit(added("mine"))
    assert sorted(names(store)) == ["rival 96", "rival 97", "rival 98"]
    assert len(clock.slept) == 2
    named = {path for s in store.catalog.snapshots(store.table_id) for path in paths_of(s)}
    assert {path for path in on_disk(store) if path.startswith("statestore/")} == named


def test_a_commit_whose_answer_was_lost_reads_its_own_id_back_and_has_won(store: StateStore):
    made = trapped(store, Trap(1, lose_answer, after=True, only=("commit",))).commit(added("f"))
    assert made == store.head()
    assert names(store) == ["f"]


def test_a_commit_that_never_arrived_raises_and_leaves_nothing(store: StateStore):
    before = on_disk(store)
    with pytest.raises(StorageError) as error:
        trapped(store, Trap(1, lose_answer, only=("commit",))).commit(added("f"))
    assert not isinstance(error.value, OutcomeUnknown)
    assert store.head().id == 1
    assert on_disk(store) == before


@pytest.mark.parametrize("after", [False, True])
def test_when_nobody_can_say_whether_a_commit_won_nothing_is_deleted(store: StateStore, after: bool):
    trap = Trap(None, lose_answer, after=after, only=("commit", "has_commit"))
    trap.at = 1
    cut_off = trapped(store, trap)
    trap.spring = lambda: (setattr(trap, "at", 2), setattr(trap, "after", False), lose_answer())
    with pytest.raises(OutcomeUnknown):
        cut_off.commit(added("f"))
    assert names(reopened(store)) == (["f"] if after else [])


def lives_on(store: StateStore, end: Callable[[], None]) -> Callable[[], None]:
    """Return what happens while an answer is lost: others commit, and forget every older snapshot."""

    def others() -> None:
        reopened(store).commit(lambda state: AddFiles((a_file("later", state.tree.leaves[0].id),)))
        forget_all_but_newest(store)
        end()

    return others


@pytest.mark.parametrize(("end", "error"), [(lose_answer, OutcomeUnknown), (interrupt, KeyboardInterrupt)])
def test_a_commit_that_expired_before_its_answer_was_looked_up_may_have_won(
    store: StateStore, end: Callable[[], None], error: type[BaseException]
):
    split = SplitPartitions((PartitionSplit(store.load().tree.root.id, 0, "m", ("left", "right")),), ())
    with pytest.raises(error):
        trapped(store, Trap(1, lives_on(store, end), after=True, only=("commit",))).commit(split)
    state = reopened(store).load()
    assert [leaf.id for leaf in state.tree.leaves] == ["left", "right"]
    assert state.files.active["filename"].to_pylist() == ["later"]


@pytest.mark.parametrize(("end", "error"), [(lose_answer, StorageError), (interrupt, KeyboardInterrupt)])
def test_a_checkpoint_whose_answer_was_lost_stays_while_later_snapshots_are_read_from_it(
    store: StateStore, end: Callable[[], None], error: type[BaseException]
):
    store.commit(added("first"))
    if paths_of(head := store.head()):
        pytest.skip("each snapshot has its own metadata")
    cut_off = trapped(store, Trap(1, lives_on(store, end), after=True, only=("materialise",)))
    with pytest.raises(error):
        cut_off.materialised(head)
    assert sorted(names(reopened(store))) == ["first", "later"]


def test_a_snapshot_is_read_from_a_newer_checkpoint_when_the_log_is_cut_while_it_is_read(store: StateStore):
    store.commit(added("first"))
    store.commit(added("second"))

    def cut() -> None:
        store.materialised(store.head())
        forget_all_but_newest(store)

    slow = reopened(store, TrappedCatalog(store.catalog, Trap(1, cut, after=True, only=("checkpoint",))))
    assert sorted(names(slow)) == ["first", "second"]


@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_leaves_either_the_commit_or_nothing(store: StateStore, after: bool):
    before = on_disk(store)
    with pytest.raises(KeyboardInterrupt):
        trapped(store, Trap(1, interrupt, after=after, only=("commit",))).commit(added("f"))
    assert names(reopened(store)) == (["f"] if after else [])
    assert after or on_disk(store) == before


@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_while_metadata_is_written_leaves_no_commit(in_full: StateStore, after: bool):
    before = on_disk(in_full)
    with pytest.raises(KeyboardInterrupt):
        trapped(in_full, Trap(1, interrupt, after=after, only=("output",))).commit(added("f"))
    assert in_full.head().id == 1
    # A file that was finished in the very moment of the interrupt may stay: nothing names it.
    assert after or on_disk(in_full) == before


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_table_that_could_not_be_made_leaves_nothing(tables: Tables, number: int):
    new = tables.opened(create=False)
    trap = Trap(number, lose_answer, only=("output", "create_table", "commit"))
    failing = trapped(new, trap)
    with pytest.raises(StorageError):
        failing.create("table", KEYED, a_tree())
    assert new.catalog.tables() == ()
    assert on_disk(new) == set()
    new.create("table", KEYED, a_tree())
    new.commit(added("f"))
    assert names(reopened(new)) == ["f"]


def test_a_table_whose_answer_was_lost_is_there(tables: Tables):
    new = tables.opened(create=False)
    made = trapped(new, Trap(1, lose_answer, after=True, only=("create_table",))).create("table", KEYED, a_tree("m"))
    assert new.load().snapshot_id == made.id == 1
    new.commit(added("f", partition_id=new.load().tree.leaves[0].id))
    assert reopened(new).load().tree == a_tree("m")


def test_a_name_that_is_taken_leaves_the_new_tables_folder_empty(tables: Tables, store: StateStore):
    other = tables.opened(table_id="other", create=False)
    with pytest.raises(AlreadyExists):
        other.create("table", KEYED, a_tree())
    assert on_disk(other) == set()


def test_an_id_that_is_taken_leaves_the_table_that_has_it_alone(store: StateStore):
    ingest(store, rows_of("a"))
    with pytest.raises(AlreadyExists):
        store.create("other", Schema({"x": "int"}), a_tree())
    assert keys_in(scan(reopened(store))) == ["a"]


def test_commit_times_grow_even_when_the_clock_steps_back(store: StateStore, clock: ManualClock):
    for name in "abc":
        store.commit(added(name))
        clock.advance(timedelta(hours=-1))
    times = [s.time for s in reversed(store.catalog.snapshots(store.table_id))]
    assert times == sorted(set(times))


def test_partitions_and_files_of_one_read_are_of_one_snapshot(store: StateStore):
    """While a rival commits between the reader's look at the head and its reading of the files."""

    class Slow(Storage):
        def input(self, path: str) -> Any:
            store.commit(added(f"rival {store.head().id}"))
            return super().input(path)

    state = reopened(store, storage=Slow(store.storage.place)).load()
    assert (state.snapshot_id, state.files.active.num_rows) == (1, 0)


def test_two_threads_on_one_store_lose_nothing(tables: Tables):
    store = tables.opened(clock=Clock())
    failed = []

    def work(name: str) -> None:
        try:
            for number in range(8):
                ingest(store, rows_of((name, number)))
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert [s.id for s in store.catalog.snapshots(store.table_id)] == list(range(17, 0, -1))
    assert scan(reopened(store)).select(["key", "n"]).to_pylist() == [
        {"key": k, "n": n} for k in "ab" for n in range(8)
    ]


def _ingest_in_a_process(tables: Tables, name: str, start: Any) -> None:
    store = tables.opened(clock=Clock(), create=False)
    start.wait()
    for number in range(8):
        ingest(store, rows_of((name, number)))


@pytest.mark.processes
@pytest.mark.parametrize("tables", stores("moto"), indirect=True)  # a server, as processes share no memory
def test_two_processes_lose_nothing(tables: Tables):
    tables.opened(clock=Clock()).catalog.close()
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(2)
    workers = [spawn.Process(target=_ingest_in_a_process, args=(tables, name, start)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    store = tables.opened(create=False)
    assert [s.id for s in store.catalog.snapshots(store.table_id)] == list(range(17, 0, -1))
    assert scan(store).num_rows == 16


# Behind the store.


def test_the_metadata_is_parquet_that_any_tool_reads(tmp_path: Path, clock: ManualClock):
    store = a_store(tmp_path, points=["m"], clock=clock)
    made = ingest(store, rows_of("a", ("z", 5)))
    files = pq.read_table(tmp_path / store.table_id / made.files_path, partitioning=None)
    assert files.column_names == files_schema(KEYED).names
    left, right = sorted(files.to_pylist(), key=lambda row: row["min_key"])
    assert (left["min_key"], left["max_n"], left["rows"], left["status"]) == ("a", 0, 1, "ACTIVE")
    assert (right["min_key"], right["max_n"], right["added_snapshot"]) == ("z", 5, 2)
    assert pq.read_table(tmp_path / store.table_id / right["filename"], partitioning=None).to_pylist() == rows_of(
        ("z", 5)
    )
    partitions = pq.read_table(tmp_path / store.table_id / made.partitions_path, partitioning=None).to_pylist()
    assert [(row["leaf_partition"], row["min_key"], row["max_key"]) for row in partitions] == [
        (False, None, None),
        (True, None, "m"),
        (True, "m", None),
    ]
    assert partitions[0]["child_partition_ids"] == [left["partition_id"], right["partition_id"]]


def test_what_another_tool_wrote_in_place_of_metadata_is_refused(in_full: StateStore, tmp_path: Path):
    made = in_full.commit(added("f"))
    path = tmp_path / in_full.table_id / made.files_path
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.set_column(0, table.schema.field(0), [["changed behind"]]), path)
    with pytest.raises(StorageError, match="changed after it was written"):
        reopened(in_full).load()


def test_the_catalog_names_the_metadata(in_full: StateStore, tmp_path: Path):
    made = in_full.commit(added("f"))
    with sqlite3.connect(tmp_path / "catalog.sqlite") as behind:
        rows = behind.execute("SELECT id, files_path, rows FROM snapshots ORDER BY id DESC").fetchall()
    behind.close()
    assert rows[0] == (2, made.files_path, 1)


@pytest.mark.parametrize("harm", ["gone", "empty", "cut", "flipped", "other"])
def test_harmed_metadata_is_an_error_that_names_the_file(in_full: StateStore, tmp_path: Path, harm: str):
    made = in_full.commit(added("f"))
    path = tmp_path / in_full.table_id / made.files_path
    whole = path.read_bytes()
    if harm == "gone":
        path.unlink()
    elif harm == "other":
        pq.write_table(in_full.load().files.table, path)  # without our format's mark
    else:
        flipped = whole[:40] + bytes(b ^ 255 for b in whole[40:80]) + whole[80:]
        path.write_bytes({"empty": b"", "cut": whole[: len(whole) // 2], "flipped": flipped}[harm])
    with pytest.raises((StorageError, NotFound), match=r"-files\.parquet"):
        reopened(in_full).load()
    assert names(reopened(in_full), in_full.catalog.snapshots(in_full.table_id)[1]) == []


@pytest.mark.parametrize("tables", [("S3StateStore", "folder"), ("TransactionLogStateStore", "folder")], indirect=True)
def test_a_warehouse_can_be_copied_elsewhere_whole(store: StateStore, tmp_path: Path):
    ingest(store, rows_of("a"))
    store.catalog.close()
    moved = tmp_path.rename(tmp_path.with_name("else where [1]"))
    assert keys_in(scan(a_store(moved, create=False))) == ["a"]
    moved.rename(tmp_path)


def test_a_tree_that_does_not_tile_is_never_made_a_table(tmp_path: Path):
    new = a_store(tmp_path, create=False)
    tree = a_tree("m")
    with pytest.raises(SleeperError):
        new.create("table", KEYED, PartitionTree((*tree.partitions[:2], tree.partitions[1])))
    assert on_disk(new) == set()


def test_storage_replaces_whole_files(tmp_path: Path):
    storage = Storage(tmp_path)
    storage.write("a/b", b"one")
    storage.write("a/b", b"two")
    assert storage.read("a/b") == b"two"
    assert [file.path for file in storage.list()] == ["a/b"]


def test_the_checksum_of_a_data_file_and_the_processing_are_read_back(store: StateStore):
    ingest(store, rows_of("a"))
    store.commit(SetProcessing("sleeper.table.iterator.config=3\n"))
    ingest(store, rows_of("b"))
    compact(store)
    for table in (reopened(store).load(), reopened(store).load(store.catalog.snapshots(store.table_id)[1])):
        for row in table.files.active.to_pylist():
            assert row["checksum"] == checksum_of(store.storage.read(row["filename"]))
        assert table.processing == "sleeper.table.iterator.config=3\n"
    assert store.load(store.catalog.snapshots(store.table_id)[3]).processing is None
