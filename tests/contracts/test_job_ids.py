"""Ids of jobs: whatever state store keeps the table, whoever races and whatever fails, one id adds its rows once."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import Clock, ManualClock
from sleeper_nb.errors import InvalidInput, JobDone, OutcomeUnknown, StorageError
from sleeper_nb.load import sources
from sleeper_nb.load.ingest import ingest_arrow
from sleeper_nb.model.transactions import AddFiles
from sleeper_nb.state_store.commit_queue import Waiting, fitting
from sleeper_nb.state_store.state_store_base import StateStore
from tests.support.backends import BACKENDS, Backend, Tables
from tests.support.builders import (
    a_file,
    data_files,
    forget_all_but_newest,
    keys_in,
    reopened,
    rows_of,
    scan,
)
from tests.support.faults import Trap, interrupt, lose_answer, trapped

STORES = [
    ("S3StateStore", "folder"),
    ("S3StateStore", "memory"),
    ("TransactionLogStateStore", "folder"),
    ("TransactionLogStateStore", "memory"),
    ("DynamoDBStateStore", "memory"),
    pytest.param(("DynamoDBStateStore", "moto"), marks=pytest.mark.moto),
    pytest.param(("DynamoDBStateStore", "servers"), marks=pytest.mark.servers),
]


@pytest.fixture(params=STORES, ids=" on ".join)
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Tables:
    kind, backend = request.param
    return Tables(kind, BACKENDS[backend](tmp_path), ("m",))


def ingest(store: StateStore, job_id: str | None, *keys: str) -> Any:
    schema = store.load().schema
    rows = sources.read_sources(sources.find_sources(rows_of(*keys)), schema).rows
    return ingest_arrow(store, rows, job_id=job_id)


def holds_once(store: StateStore, *keys: str) -> bool:
    """Whether the table has exactly these rows, no snapshot is missing, and no other data file lies about."""
    ids = [snapshot.id for snapshot in store.catalog.snapshots(store.table_id)]
    whole = ids == list(range(len(ids), 0, -1))
    tracked = set(store.load().files.table["filename"].to_pylist())
    return whole and sorted(keys_in(scan(reopened(store)))) == sorted(keys) and data_files(store) == tracked


def test_the_same_id_adds_nothing_and_leaves_no_file(store: StateStore):
    made = ingest(store, "once", "a", "z")
    assert made.snapshot.job_id == "once"
    with pytest.raises(JobDone, match="snapshot 2"):
        ingest(reopened(store), "once", "a", "z")
    ingest(store, "another", "b")
    ingest(store, None, "b")
    assert holds_once(store, "a", "z", "b", "b")


def test_an_id_that_adds_no_rows_is_not_used(store: StateStore):
    assert ingest(store, "once").snapshot_id == 1
    assert ingest(store, "once", "a").snapshot_id == 2
    assert holds_once(store, "a")


def test_a_commit_whose_answer_was_lost_counts_and_the_id_is_used(store: StateStore):
    made = ingest(trapped(store, Trap(1, lose_answer, after=True, only=("commit",))), "once", "a")
    assert made.snapshot.job_id == "once"
    with pytest.raises(JobDone):
        ingest(store, "once", "a")
    assert holds_once(store, "a")


def test_a_commit_that_never_arrived_leaves_the_id_free(store: StateStore):
    with pytest.raises(StorageError):
        ingest(trapped(store, Trap(1, lose_answer, only=("commit",))), "once", "a")
    assert ingest(store, "once", "a").snapshot_id == 2
    assert holds_once(store, "a")


@pytest.mark.parametrize("after", [False, True])
def test_an_interrupted_ingest_is_simply_run_again(store: StateStore, after: bool):
    with pytest.raises(KeyboardInterrupt):
        ingest(trapped(store, Trap(1, interrupt, after=after, only=("commit",))), "once", "a")
    if after:
        with pytest.raises(JobDone):
            ingest(store, "once", "a")
    else:
        ingest(store, "once", "a")
    assert holds_once(store, "a")


@pytest.mark.parametrize("after", [False, True])
def test_when_nobody_can_say_whether_it_won_running_it_again_settles_it(store: StateStore, after: bool):
    trap = Trap(1, lose_answer, after=after, only=("commit", "has_commit"))
    trap.spring = lambda: (setattr(trap, "at", 2), setattr(trap, "after", False), lose_answer())
    with pytest.raises(OutcomeUnknown):
        ingest(trapped(store, trap), "once", "a")
    if after:
        with pytest.raises(JobDone):
            ingest(store, "once", "a")
    else:
        ingest(store, "once", "a")
    assert keys_in(scan(reopened(store))) == ["a"]


class Overtaken:
    """A catalog in which another process adds the rows of the job just before the first commit."""

    def __init__(self, store: StateStore, job_id: str) -> None:
        self._store, self._job_id, self._due = store, job_id, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store.catalog, name)

    def commit(self, *arguments: Any, **also: Any) -> bool:
        if self._due:
            self._due = False
            ingest(self._store, self._job_id, "a")
        return self._store.catalog.commit(*arguments, **also)


def test_who_was_overtaken_by_its_own_job_adds_nothing(store: StateStore):
    with pytest.raises(JobDone):
        ingest(reopened(store, Overtaken(store, "once")), "once", "a")
    assert holds_once(store, "a")


def race(*calls: Any) -> list[Any]:
    start, answers = threading.Barrier(len(calls)), [None] * len(calls)

    def work(at: int) -> None:
        start.wait()
        try:
            answers[at] = calls[at]()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            answers[at] = error

    threads = [threading.Thread(target=work, args=(at,)) for at in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@pytest.mark.parametrize("shared", [True, False])
def test_of_many_threads_with_one_id_one_adds_and_others_go_on(tables: Tables, shared: bool):
    store = tables.opened(clock=Clock())
    stores = [store if shared else reopened(store) for _ in range(9)]
    calls = [lambda mine=mine, at=at: ingest(mine, f"job {at % 3}", f"k{at % 3}") for at, mine in enumerate(stores)]
    answers = race(*calls, *(lambda at=at: ingest(stores[at], None, "x") for at in range(3)))
    assert sorted(type(answer).__name__ for answer in answers) == ["JobDone"] * 6 + ["LoadReport"] * 6
    assert holds_once(store, "k0", "k1", "k2", "x", "x", "x")


def _in_a_process(tables: Tables, start: Any, added: Any) -> None:
    store = tables.opened(clock=Clock(), create=False)
    start.wait()
    for number in range(4):
        try:
            ingest(store, f"job {number}", f"k{number}")
        except JobDone:
            continue
        with added.get_lock():
            added.value += 1


@pytest.mark.processes
@pytest.mark.parametrize("kind", ["S3StateStore", "TransactionLogStateStore"])
def test_of_two_processes_with_one_id_one_adds(kind: str, tmp_path: Path):
    tables = Tables(kind, BACKENDS["folder"](tmp_path))
    tables.opened(clock=Clock()).catalog.close()
    spawn = multiprocessing.get_context("spawn")
    start, added = spawn.Barrier(2), spawn.Value("i", 0)
    workers = [spawn.Process(target=_in_a_process, args=(tables, start, added)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert ([worker.exitcode for worker in workers], added.value) == ([0, 0], 4)
    assert holds_once(tables.opened(create=False), "k0", "k1", "k2", "k3")


def change(name: str, job_id: str | None) -> Waiting:
    return Waiting(AddFiles((a_file(name),)), None, None, job_id)


def test_changes_that_share_a_commit_have_ids_of_their_own():
    one, two, again, plain, used = (change(n, j) for n, j in zip("abcde", ["x", "y", "x", None, "old"], strict=True))
    assert fitting([one, two, again, plain, used], 99, {"old": 7}.get) == [one, two, plain]
    assert isinstance(used.error, JobDone)
    assert not again.settled.is_set()
    assert fitting([one, two, plain], 3, {}.get) == [one]  # an id takes as much room as a snapshot
    assert fitting([one], 1, {}.get) == [one]
    assert fitting([plain] * 3, 2, {}.get) == [plain] * 2


def test_a_full_commit_of_jobs_fits_in_a_transaction_of_dynamodb(tmp_path: Path):
    from tests.servers.memory import memory_catalog

    store = Backend(tmp_path, in_memory=True).store("TransactionLogStateStore", clock=Clock())
    small = reopened(store, memory_catalog(tmp_path, max_items=5))
    answers = race(*(lambda at=at: small.commit(AddFiles((a_file(f"f{at}"),)), job_id=f"{at}") for at in range(8)))
    assert sorted(answer.id for answer in answers) == list(range(2, 10))


def test_a_big_ingest_with_an_id_is_staged_and_added_once(tmp_path: Path, clock: ManualClock):
    from tests.servers.memory import memory_catalog

    for files in range(1, 6):
        folder = tmp_path / str(files)
        catalog = memory_catalog(folder, max_items=5)
        store = Backend(folder, in_memory=True).store("DynamoDBStateStore", clock=clock)
        small = reopened(store, catalog)
        add = AddFiles(tuple(a_file(f"f{at}") for at in range(files)))
        assert small.commit(add, job_id="once").files == files
        with pytest.raises(JobDone):
            small.commit(AddFiles((a_file("g"),)), job_id="once")
        assert reopened(store).load().files.active.num_rows == files


# Through the public API.


@pytest.fixture
def trips(tmp_path: Path) -> Iterator[sl.Table]:
    with sl.connect(tmp_path, clock=ManualClock()) as session:
        yield session.create_table("trips", sl.Schema({"city": "string"}))


def test_the_same_job_again_returns_its_snapshot_and_says_so(trips: sl.Table):
    first = trips.ingest([{"city": "rome"}], job_id="2026-11-21/trips", message="why")
    trips.ingest([{"city": "oslo"}])
    again = trips.ingest([{"city": "rome"}], job_id="2026-11-21/trips")
    assert (again.snapshot, again.rows, again.has_added) == (first.snapshot, 0, False)
    assert (again.snapshot_id, trips.scan().count()) == (first.snapshot_id, 2)
    assert "job '2026-11-21/trips' was done before, in snapshot 2. Nothing was changed" in repr(again)
    assert not first.done_before
    assert [(job.state, job.snapshot_id) for job in trips.inspect.jobs()] == [("FINISHED", 2)]


def test_the_same_job_after_a_rollback_says_that_it_may_be_undone(trips: sl.Table):
    trips.ingest([{"city": "rome"}], job_id="bad")
    trips.rollback(1)
    trips.ingest([{"city": "oslo"}], job_id="good")
    again = repr(trips.ingest([{"city": "rome"}], job_id="bad"))
    assert "done before, in snapshot 2. Nothing was changed" in again
    assert "The table was rolled back after that, in snapshot 3: if that undid the job, use another job id" in again
    assert "roll" not in repr(trips.ingest([{"city": "oslo"}], job_id="good"))
    assert trips.scan().count() == 1


def test_a_job_whose_snapshot_expired_returns_the_current_one(trips: sl.Table):
    trips.ingest([{"city": "rome"}], job_id="once")
    trips.ingest([{"city": "oslo"}])
    forget_all_but_newest(trips._store)
    again = trips.ingest([{"city": "rome"}], job_id="once")
    assert (again.snapshot_id, trips.scan().count()) == (3, 2)
    assert "in snapshot 2, which has expired; the table is at snapshot 3. Nothing was changed" in repr(again)


@pytest.mark.parametrize("wrong", ["", " ", "a\nb", "x" * 501, 7])
def test_an_id_is_a_line_of_text(trips: sl.Table, wrong: Any):
    with pytest.raises(InvalidInput, match=r"is not a valid job id|job_id takes a string or None, not 7"):
        trips.ingest([{"city": "rome"}], job_id=wrong)
    assert trips.scan().count() == 0


def test_a_failed_job_may_be_run_again(trips: sl.Table):
    with pytest.raises(InvalidInput):
        trips.ingest([{"town": "rome"}], job_id="once")
    trips._store.clock.sleep(1)
    trips.ingest([{"city": "rome"}], job_id="once")
    assert [job.state for job in trips.inspect.jobs()] == ["FINISHED", "FAILED"]
    assert "town" in (trips.inspect.jobs()[1].reason or "") or "city" in (trips.inspect.jobs()[1].reason or "")
