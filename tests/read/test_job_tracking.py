"""Records of jobs: what compactions and ingests tell, whatever happens to them, and how the listing shows it."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from sleeper_nb.catalog.catalog_base import FileClaim
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import InvalidInput, OutcomeUnknown, StorageError
from sleeper_nb.maintain import compact as compaction
from sleeper_nb.maintain.compact import CLAIM_TIME
from sleeper_nb.maintain.compaction_plan import StrategySettings
from sleeper_nb.model.jobs import Job
from sleeper_nb.progress import Silent
from sleeper_nb.read.job_tracking import CLAIM_ENDED, PROCESS_ENDED, RUN_AGAIN, own_process
from sleeper_nb.report import duration_text
from sleeper_nb.state_store.state_store_base import StateStore
from tests.support.backends import BACKENDS
from tests.support.builders import compact, ingest, reopened, rows_of
from tests.support.faults import Trap, TrappedCatalog, TrappedStorage, interrupt, lose_answer


@pytest.fixture(params=["folder", "memory"])
def table(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[StateStore]:
    """Two leaves of three files each."""
    store = BACKENDS[request.param](tmp_path).store("TransactionLogStateStore", points=["m"], clock=clock)
    for number in range(3):
        ingest(store, rows_of(("a", number), ("z", number), value=str(number)))
    yield store
    store.catalog.close()


def jobs(store: StateStore) -> tuple[Job, ...]:
    return store.catalog.jobs(store.table_id, 99)


def run(store: StateStore, runner: Any) -> compaction.CompactionReport:
    settings = StrategySettings()
    return compaction.compact(store, runner, strategy="all", settings=settings, dry_run=False, progress=Silent())


def test_a_compaction_tells_what_each_job_did(table: StateStore):
    done = compact(table)
    told = {job.id: job for job in jobs(table)}
    assert set(told) == {job.id for job in done.jobs}
    for job, snapshot in zip(done.jobs, done.snapshots, strict=True):
        record = told[job.id]
        assert (record.kind, record.state, record.partition_ids) == ("compaction", "FINISHED", (job.partition_id,))
        assert (record.files, record.rows_read, record.rows_written, record.snapshot_id) == (3, 3, 3, snapshot.id)


def test_an_ingest_without_a_job_id_and_a_dry_run_write_no_record(table: StateStore):
    compact(table, dry_run=True)
    assert jobs(table) == ()


def test_a_job_is_told_of_from_its_claim_to_its_end(table: StateStore, clock: ManualClock):
    seen: list[list[str]] = []

    def begun(job: Any) -> None:
        clock.advance(timedelta(seconds=2))

    def runner(todo: Any, schema: Any) -> Any:
        for result in compaction.run_in_process(table.storage, on_start=begun)(todo, schema):
            seen.append([job.state for job in jobs(table)])
            yield result

    run(table, runner)
    assert [sorted(states) for states in seen] == [["CREATED", "CREATED"], ["CREATED", "FINISHED"]]


def test_a_job_that_came_too_late_says_why(table: StateStore, clock: ManualClock):
    def slow(todo: Any, schema: Any) -> Any:
        finished = list(compaction.run_in_process(table.storage)(todo, schema))
        clock.advance(CLAIM_TIME)
        yield from finished

    run(table, slow)
    assert [(job.state, job.snapshot_id) for job in jobs(table)] == [("FAILED", None)] * 2
    assert all("was not renewed in time" in (job.reason or "") for job in jobs(table))


@pytest.mark.parametrize("number", range(1, 8))
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("fault", [interrupt, lose_answer])
def test_whatever_ends_a_compaction_no_job_seems_to_run(table: StateStore, number: int, after: bool, fault: Any):
    trap = Trap(number, fault, after=after, only=("assign", "output", "commit", "put_job"))
    failing = reopened(table, TrappedCatalog(table.catalog, trap), TrappedStorage(table.storage, trap))
    with contextlib.suppress(KeyboardInterrupt, StorageError):
        compact(failing)
    told, made = jobs(table), {s.id for s in table.catalog.snapshots(table.table_id) if s.operation == "compact"}
    lost_word = fault is lose_answer and trap.calls[number - 1 : number] == ["put_job"] and not after
    assert all(job.ended for job in told) or lost_word
    assert {job.snapshot_id for job in told if job.state == "FINISHED"} <= made
    assert all(job.reason for job in told if job.state in {"FAILED", "CANCELLED"})


def test_an_interrupt_is_told_as_one(table: StateStore):
    trap = Trap(1, interrupt, only=("output",))
    with pytest.raises(KeyboardInterrupt):
        compact(reopened(table, storage=TrappedStorage(table.storage, trap)))
    assert [(job.state, job.reason) for job in jobs(table)] == [("CANCELLED", "interrupted")] * 2


def test_a_commit_of_which_nobody_knows_is_told_so(table: StateStore):
    trap = Trap(1, lose_answer, after=True, only=("commit", "has_commit"))
    trap.spring = lambda: (setattr(trap, "at", 2), lose_answer())
    with pytest.raises(OutcomeUnknown):
        compact(reopened(table, TrappedCatalog(table.catalog, trap)))
    assert any("may or may not have succeeded" in (job.reason or "") for job in jobs(table))


def test_old_records_are_forgotten_by_a_later_compaction(table: StateStore, clock: ManualClock):
    compact(table)
    clock.advance(timedelta(days=8))
    compact(table)
    assert jobs(table) == ()


# Through the public API.


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sl.Session]:
    with sl.connect(tmp_path, clock=ManualClock(), author="me") as opened:
        yield opened


@pytest.fixture
def trips(session: sl.Session) -> sl.Table:
    table = session.create_table("trips", sl.Schema({"city": "string"}), ["m"])
    for city in ("athens", "rome"):
        table.ingest([{"city": city}] * 5)
        table.ingest([{"city": city}])
    return table


def test_jobs_lists_what_ran_newest_first(session: sl.Session, trips: sl.Table):
    trips.ingest([{"city": "lima"}], job_id="2026-11-21/trips")
    session._components.clock.advance(timedelta(seconds=1))
    done = trips.maintenance.compact("all")
    listed = trips.inspect.jobs()
    assert [job.kind for job in listed] == ["compaction", "compaction", "ingest"]
    assert {job.snapshot_id for job in listed[:2]} == {snapshot.id for snapshot in done.snapshots}
    assert (listed[2].id, listed[2].author, listed[2].rows_written) == ("2026-11-21/trips", "me", 1)
    assert list(trips.inspect.jobs(limit=1)) == [listed[0]]
    assert "finished  compaction" in repr(listed)
    assert "Jobs of trips" in listed._repr_html_()
    assert list(session.inspect.jobs()) == list(listed)
    assert "trips" in repr(session.inspect.jobs())


def test_a_job_whose_process_is_gone_is_listed_so_and_counts_as_failed(session: sl.Session, trips: sl.Table):
    clock, store = session._components.clock, trips._store
    claim = FileClaim("lost", "p", ("f",), clock.now() + CLAIM_TIME)
    job = Job(id="lost", kind="compaction", state="RUNNING", created=clock.now(), started=clock.now())
    assert store.catalog.claim_files(store.table_id, claim, clock.now(), job)
    assert [one.reason for one in trips.inspect.jobs("running")] == [None]
    assert list(trips.inspect.jobs("failed")) == []
    clock.sleep(CLAIM_TIME.total_seconds())
    assert list(trips.inspect.jobs("running")) == []
    assert [(one.state, one.reason) for one in trips.inspect.jobs("failed")] == [("RUNNING", CLAIM_ENDED)]
    assert "failed  compaction" in repr(trips.inspect.jobs("failed"))
    assert "running" not in repr(trips.inspect.jobs())
    assert CLAIM_ENDED in repr(trips.inspect.jobs())


def test_a_load_that_died_does_not_seem_to_run_when_its_job_has_been_done(session: sl.Session, trips: sl.Table):
    clock, store = session._components.clock, trips._store
    for kind in ("ingest", "bulk-import"):
        job = Job(id=f"{kind} 1", kind=kind, state="RUNNING", created=clock.now(), started=clock.now())
        store.catalog.put_job(store.table_id, job)
        clock.sleep(1)
    assert [one.id for one in trips.inspect.jobs("running")] == ["bulk-import 1", "ingest 1"]
    trips.ingest([{"city": "lima"}], job_id="ingest 1")
    assert [one.id for one in trips.inspect.jobs("running")] == ["bulk-import 1"]
    assert [(one.id, one.reason) for one in trips.inspect.jobs("failed")] == [("ingest 1", RUN_AGAIN)]
    assert [one.reason for one in trips.inspect.jobs() if one.id == "ingest 1"] == [None, RUN_AGAIN]


def test_a_load_whose_process_was_killed_is_not_running_any_more(session: sl.Session, trips: sl.Table):
    catalog, clock = session._components.catalog, session._components.clock
    killed = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    killed.kill()
    killed.communicate()
    own = own_process()
    for job_id, process in (
        ("live", own),
        ("killed", own.replace(str(os.getpid()), str(killed.pid), 1)),
        ("elsewhere", f"process {killed.pid} of other (0-1 2)"),
        ("unknown", "process 1 of other"),
    ):
        started = clock.now()
        job = Job(id=job_id, kind="ingest", state="RUNNING", created=started, started=started, reason=process)
        catalog.put_job(trips.entry.id, job)
    assert {one.id for one in trips.inspect.jobs("running")} == {"live", "elsewhere", "unknown"}
    assert [(one.id, one.reason) for one in trips.inspect.jobs("failed")] == [("killed", PROCESS_ENDED)]
    assert re.search(r"failed +ingest .* killed$", repr(trips.inspect.jobs()), re.MULTILINE)


def test_a_load_that_ends_while_jobs_are_listed_has_not_failed(
    session: sl.Session, trips: sl.Table, monkeypatch: pytest.MonkeyPatch
):
    catalog, now = session._components.catalog, session._components.clock.now()
    gone = own_process().replace(f"process {os.getpid()}", f"process {2**22 + 1}", 1)
    job = Job(id="load", kind="ingest", state="RUNNING", created=now, started=now, reason=gone)
    catalog.put_job(trips.entry.id, job)
    listed = catalog.jobs

    def then_it_ends(*asked: Any) -> tuple[Job, ...]:
        found = listed(*asked)
        catalog.put_job(trips.entry.id, job.done(now, rows_read=1, rows_written=1, snapshot_id=1))
        return found

    monkeypatch.setattr(catalog, "jobs", then_it_ends)
    assert [(one.state, one.reason) for one in trips.inspect.jobs()] == [("FINISHED", None)]


def test_a_load_says_which_process_it_runs_in_until_it_ends(trips: sl.Table, monkeypatch: pytest.MonkeyPatch):
    told = []
    put = trips._store.catalog.put_job
    monkeypatch.setattr(trips._store.catalog, "put_job", lambda table, job: (told.append(job), put(table, job)))
    trips.ingest([{"city": "lima"}], job_id="load-1")
    assert [(job.state, job.reason) for job in told] == [("RUNNING", own_process()), ("FINISHED", None)]


def test_a_change_that_died_has_a_reason_that_is_true_for_changes(session: sl.Session, trips: sl.Table):
    clock, store = session._components.clock, trips._store
    trips.ingest([{"city": "lima"}])
    job = Job(id="clean", kind="change", state="RUNNING", created=clock.now(), started=clock.now())
    store.catalog.put_job(store.table_id, job)
    clock.sleep(1)
    trips.delete("city = 'lima'", job_id="clean")
    assert [(one.id, one.reason) for one in trips.inspect.jobs("failed")] == [("clean", RUN_AGAIN)]
    assert "added" not in RUN_AGAIN


def test_jobs_says_what_it_cannot_list(trips: sl.Table):
    for wrong in ({"limit": 0}, {"which": "lost"}):
        with pytest.raises(InvalidInput):
            trips.inspect.jobs(**wrong)
    assert "no job" in repr(trips.inspect.jobs())


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0.00 s"), (9.994, "9.99 s"), (59.9, "59.9 s"), (245, "4 min 5 s"), (7380, "2 h 3 min")]
)
def test_time_spans_read_well(seconds: float, text: str):
    assert duration_text(seconds) == text
