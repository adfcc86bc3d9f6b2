"""Compaction in the background: a handle at once, a clean end by its work, by cancelling or with its session."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from sleeper_nb.commands import COMMANDS
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import Cancelled, InvalidInput, StillRunning, StorageError
from sleeper_nb.maintain import compact as compaction
from sleeper_nb.progress import BackgroundJobs, Watch
from tests.support.builders import in_order, three_leaves


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sl.Session]:
    with sl.connect(tmp_path) as opened:
        yield opened


@pytest.fixture
def trips(session: sl.Session) -> sl.Table:
    return three_leaves(session)


class Gate:
    """Holds every merge until it is opened, and tells when the first has come to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failing: BaseException | None = None) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        real = compaction.leaf_rows

        def merged(*arguments: Any, **options: Any) -> Any:
            self.reached.set()
            assert self.open.wait(30)
            if failing is not None:
                raise failing
            return real(*arguments, **options)

        monkeypatch.setattr(compaction, "leaf_rows", merged)


def data_files(session: sl.Session) -> set[str]:
    return {path.name for path in Path(session.location).rglob("data/**/*.parquet")}


def tracked(table: sl.Table) -> set[str]:
    return {name.rpartition("/")[2] for name in table.at().state.files.table["filename"].to_pylist()}


def test_it_returns_at_once_and_the_notebook_goes_on(trips: sl.Table, monkeypatch: pytest.MonkeyPatch):
    gate = Gate(monkeypatch)
    before = in_order(trips.scan().to_arrow().to_pylist())
    job = trips.maintenance.start_compaction("all")
    assert gate.reached.wait(30)
    assert (job.done, job.state) == (False, "running")
    assert "compaction of trips, in the background" in repr(job)
    assert "result() waits" in job._repr_html_()
    assert sorted(one.state for one in trips.inspect.jobs("running")) == ["CREATED", "CREATED", "RUNNING"]
    trips.ingest([{"city": "oslo"}])
    with pytest.raises(StillRunning, match="still runs"):
        job.result(timeout=0.01)
    gate.open.set()
    report = job.result(timeout=30)
    assert (job.done, job.state, len(report.jobs), job.cancel()) == (True, "finished", 3, False)
    assert "finished" in repr(job)
    assert in_order(trips.scan().to_arrow().to_pylist()) == sorted([*before, *in_order([{"city": "oslo"}])])
    assert {one.state for one in trips.inspect.jobs()} == {"FINISHED"}


def test_cancelling_leaves_what_was_committed_and_nothing_else(
    session: sl.Session, trips: sl.Table, monkeypatch: pytest.MonkeyPatch
):
    gate = Gate(monkeypatch)
    job = trips.maintenance.start_compaction("all")
    assert gate.reached.wait(30)
    threading.Timer(0.05, gate.open.set).start()
    assert job.cancel()
    with pytest.raises(Cancelled):
        job.result()
    assert job.state == "cancelled"
    assert trips.at().resolved.snapshot_id == 3
    assert {one.state for one in trips.inspect.jobs()} == {"CANCELLED"}
    assert data_files(session) == tracked(trips)
    assert len(trips.maintenance.compact("all").jobs) == 3  # no claim is left
    assert job.cancel()


def test_an_error_is_kept_and_raised_where_it_is_waited_for(trips: sl.Table, monkeypatch: pytest.MonkeyPatch):
    gate = Gate(monkeypatch, StorageError("the disk is gone"))
    job = trips.maintenance.start_compaction("all")
    gate.open.set()
    for _ in range(2):
        with pytest.raises(StorageError, match="the disk is gone"):
            job.result(timeout=30)
    assert job.state == "failed"
    assert "the disk is gone" in repr(job)
    assert [one.reason for one in trips.inspect.jobs("failed")] == ["the disk is gone"]


def test_closing_the_session_cancels_it_and_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    session = sl.connect(tmp_path)
    table = session.create_table("trips", sl.Schema({"city": "string"}))
    for _ in range(2):
        table.ingest([{"city": "rome"}])
    gate = Gate(monkeypatch)
    job = table.maintenance.start_compaction("all")
    assert gate.reached.wait(30)
    threading.Timer(0.05, gate.open.set).start()
    session.close()
    assert (job.done, job.state) == (True, "cancelled")
    with sl.connect(tmp_path) as again:
        assert data_files(again) == tracked(again.table("trips"))
        assert len(again.table("trips").maintenance.compact("all").jobs) == 1


def test_two_at_once_share_no_file(trips: sl.Table):
    jobs = [trips.maintenance.start_compaction("all") for _ in range(2)]
    reports = [job.result(timeout=30) for job in jobs]
    assert sum(len(report.jobs) for report in reports) == 3
    assert trips.scan().count() == 6


def test_what_cannot_begin_is_refused_at_once(trips: sl.Table):
    trips.maintenance.offline()
    with pytest.raises(sl.StateRuleBroken):
        trips.maintenance.start_compaction()
    with pytest.raises(InvalidInput, match="engine is one of 'auto', 'spark', 'local', not the string"):
        trips.maintenance.start_compaction(engine="fast")


def test_the_command_returns_the_handle_in_a_notebook_and_is_refused_on_the_console(
    session: sl.Session, trips: sl.Table
):
    typed = COMMANDS.parse_line("compact trips --strategy all --background")
    job = typed.run(Context("notebook", connect=sl.connect, session=session))
    assert len(job.result(timeout=30).jobs) == 3
    with pytest.raises(InvalidInput, match="background work would end with the console command"):
        typed.run(Context("console", connect=sl.connect, session=session))


def test_jobs_that_ended_are_let_go_of():
    jobs = BackgroundJobs()
    for _ in range(3):
        assert jobs.start("counting", type).result() is Watch
    assert len(jobs._jobs) == 1
    jobs.close()
    jobs.close()


ENDS = """
import sys, threading
import sleeper_nb as sl
from sleeper_nb.maintain import compact as compaction

table = sl.connect(sys.argv[1]).table("trips")
real, reached = compaction.leaf_rows, threading.Event()

def slow(*arguments, **options):
    for batch in real(*arguments, **options):
        reached.set()
        threading.Event().wait(0.2)
        yield batch

compaction.leaf_rows = slow
table.maintenance.start_compaction("all")
assert reached.wait(30)
"""


def test_a_process_that_ends_cancels_it_first(session: sl.Session, trips: sl.Table):
    folder = str(Path(session.location).parent)
    ended = subprocess.run([sys.executable, "-c", ENDS, folder], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stderr == ""
    assert {one.state for one in trips.inspect.jobs()} <= {"CANCELLED", "FINISHED"}
    assert "CANCELLED" in {one.state for one in trips.inspect.jobs()}
    assert data_files(session) == tracked(trips)
    assert not trips._store.catalog.claims(trips.entry.id, session._components.clock.now())
