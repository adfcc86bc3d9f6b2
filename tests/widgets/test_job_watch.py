"""The watch of jobs without a browser: what it says while they run, that it stops them, and what stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from IPython.utils.capture import capture_output

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.commands import COMMANDS
from sleeper_nb.commands.context import Context
from sleeper_nb.model.jobs import Job
from sleeper_nb.session.session_inspect import JobSeen, JobsSeen
from sleeper_nb.widgets import watch
from sleeper_nb.widgets.job_watch import PAUSE, JobWatch
from tests.support.builders import InterruptedAfter, three_leaves
from tests.test_progress import Gate


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def session(tmp_path: Path, clock: ManualClock):
    with sl.connect(tmp_path / "w", clock=clock) as opened:
        yield opened


@pytest.fixture
def trips(session: sl.Session) -> sl.Table:
    return three_leaves(session)


class Beside:
    """Keeps what would run in a thread, for the test to run."""

    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []

    def __call__(self, work: Callable[[], None]) -> None:
        self.work.append(work)


def seen(clock: ManualClock, *runs: tuple[str, float, float | None, int | None], running: bool = True) -> JobsSeen:
    """Return what is seen of runs: state, when they began and ended in seconds before now, and their rows."""
    now, jobs = clock.now(), []
    for number, (state, began, ended, rows) in enumerate(runs):
        started = now - timedelta(seconds=began)
        finished = None if ended is None else now - timedelta(seconds=ended)
        rows_read = rows if state == "FINISHED" else None
        job = Job(id=str(number), kind="compaction", state=state, created=started, started=started,
                  finished=finished, rows_read=rows_read)  # fmt: skip
        jobs.append(JobSeen("trips", job, rows))
    return JobsSeen("compaction of trips", tuple(jobs), now, running)


def test_rates_and_the_time_left_are_those_of_the_rows(clock):
    now = seen(clock, ("FINISHED", 10, 5, 500), ("FINISHED", 5, 0, 500), ("RUNNING", 0, None, 1000))
    assert (now.share, now.rate, now.finished) == (0.5, 100.0, 2)
    assert now.summary == "2 of 3 jobs · 1,000 of 2,000 rows · 100 rows/s · 10 s left"
    assert now.to_dict()["left"] == [None, None, "10 s"]
    assert now.to_dict()["rows/s"] == [100, 100, None]


def test_columns_that_the_title_says_are_not_shown(clock):
    now = seen(clock, ("RUNNING", 0, None, 1000))
    assert now.grid().columns == ("state", "partition", "rows", "rows/s", "left", "job")
    assert replace(now, title="jobs of trips").grid().columns == tuple(now.to_dict())
    long = replace(now, jobs=tuple(replace(one, job=replace(one.job, id="12345678" * 4)) for one in now.jobs))
    assert (long.grid().rows[0][-1], long.to_dict()["job"]) == ("12345678", ["12345678" * 4])


def test_nothing_is_foretold_before_a_job_has_ended(clock):
    now = seen(clock, ("RUNNING", 3, None, 1000), ("CREATED", 3, None, 1000))
    assert (now.share, now.rate) == (0.0, None)
    assert now.summary == "0 of 2 jobs · 0 of 2,000 rows"
    assert now.to_dict()["left"] == [None, None]


def test_jobs_whose_rows_nobody_knows_count_by_their_number(clock):
    now = seen(clock, ("FINISHED", 4, 2, 10), ("RUNNING", 2, None, 0))
    assert now.share == 0.5


def test_what_was_cancelled_or_failed_is_not_done(clock):
    runs = (("FINISHED", 4, 2, 200), ("CANCELLED", 2, 1, 500), ("CANCELLED", 2, 0, 300))
    now = seen(clock, *runs, running=False)
    assert (now.share, now.finished, now.rows, now.rate, now.went_wrong) == (0.2, 1, (200, 1000), 100.0, True)
    assert now.summary == "1 of 3 jobs · 200 of 1,000 rows · 100 rows/s · 2 cancelled"
    late = seen(clock, ("FINISHED", 4, 2, 200), ("FAILED", 2, 1, 200), ("RUNNING", 1, None, 200))
    assert (late.share, late.went_wrong) == (1 / 3, True)
    assert late.summary == "1 of 3 jobs · 200 of 600 rows · 50 rows/s · 4 s left · 1 failed"


def test_rows_that_nobody_knows_are_not_counted_as_none(clock):
    now = seen(clock, ("FINISHED", 4, 2, 200), ("CANCELLED", 2, 1, None), running=False)
    assert now.summary == "1 of 2 jobs · 200 rows · 100 rows/s · 1 cancelled"
    assert now.share == 0.5


def test_a_compaction_that_was_stopped_says_how_much_of_it_is_committed(clock):
    runs = (("FINISHED", 4, 2, 200), ("CANCELLED", 2, 1, 500), ("CANCELLED", 2, 0, 300))
    stopped = replace(seen(clock, *runs, running=False), reason="cancelled")
    assert (stopped.summary, stopped.share) == ("cancelled: 1 of 3 jobs are committed", 0.2)
    begun = replace(seen(clock, ("CANCELLED", 4, 2, 200), running=False), reason="cancelled")
    assert (begun.summary, begun.share) == ("cancelled: 0 of 1 job is committed", 0.0)
    failed = replace(seen(clock, running=False), reason="the disk is gone")
    assert (failed.summary, failed.share, failed.went_wrong) == ("the disk is gone", 0.0, True)


def test_a_watch_of_a_stopped_compaction_shows_what_was_done_of_it(tmp_path, clock):
    with sl.connect(tmp_path / "stopped", clock=clock, progress=InterruptedAfter(1)) as session:
        trips = three_leaves(session)
        widget = JobWatch(session.inspect.job_progress("trips"), "line", background=Beside())
        with pytest.raises(KeyboardInterrupt):
            trips.maintenance.compact("all", engine="local")
        assert not widget.refresh()
    assert "1 of 3 jobs · 2 rows · 2 cancelled" in repr(widget.seen)
    assert (round(widget._bar.value, 3), widget._bar.bar_style) == (0.333, "danger")


def test_where_there_is_nothing_to_do_there_is_no_bar(session, trips, clock):
    idle = watch(session, "trips")
    assert "no job runs" in repr(idle.seen)
    assert idle._bar not in idle._head.children
    trips.maintenance.compact("all", engine="local")
    work = trips.maintenance.start_compaction("all", engine="local")
    work.result(timeout=30)
    after = watch(session, "trips", work, clock.now() + timedelta(seconds=1))
    assert "nothing to merge" in repr(after.seen)
    assert (after._bar in after._head.children, after._stop in after._head.children) == (False, False)


def test_it_follows_a_compaction_to_its_end_and_what_stays_is_the_end(session, trips, clock, monkeypatch, shell):
    gate, beside, since = Gate(monkeypatch), Beside(), clock.now()
    work = trips.maintenance.start_compaction("all", engine="local")
    assert gate.reached.wait(30)
    widget = JobWatch(session.inspect.job_progress("trips", work, since), "line", work, beside)
    assert "0 of 3 jobs · 0 of 6 rows" in repr(widget.seen)
    assert (widget._bar.value, widget._stop.disabled) == (0.0, False)
    shell.push({"widget": widget})
    with capture_output() as said:
        shell.run_cell("widget").raise_error()
    kept, live = said.outputs
    assert "compaction of trips, " not in kept.data["text/plain"]
    assert kept.data["text/plain"].startswith("compaction of trips\n")
    assert "application/vnd.jupyter.widget-view+json" in live.data
    assert live.data["text/plain"] == "JobWatch('compaction of trips')"  # stays as it is, so nothing of how far it was
    gate.open.set()
    assert len(work.result(timeout=30).jobs) == 3
    with capture_output() as said:
        (follow,) = beside.work
        follow()
    assert [output.data["text/plain"] for output in said.outputs] == [repr(widget.seen)]
    assert "3 of 3 jobs · 6 of 6 rows" in repr(widget.seen)
    assert (widget._bar.value, widget._bar.bar_style, widget._stop.disabled) == (1.0, "success", True)
    assert [one.job.state for one in widget.seen.jobs] == ["FINISHED"] * 3


def test_the_button_stops_the_work_and_says_so(session, trips, clock, monkeypatch):
    gate, since = Gate(monkeypatch), clock.now()
    work = trips.maintenance.start_compaction("all", engine="local")
    assert gate.reached.wait(30)
    widget = JobWatch(session.inspect.job_progress("trips", work, since), "line", work, Beside())
    widget._stop.click()
    assert (widget._stop.disabled, widget._stop.description) == (True, "Stopping…")
    assert widget.refresh()
    gate.open.set()
    with pytest.raises(sl.Cancelled):
        work.result(timeout=30)
    assert not widget.refresh()
    assert "cancelled" in repr(widget.seen)
    assert (widget._bar.bar_style, widget._stop.description) == ("danger", "Stop")
    assert {one.job.state for one in widget.seen.jobs} == {"CANCELLED"}


def test_the_watch_of_a_table_stops_what_this_session_does_of_it(session, trips, clock, monkeypatch):
    other = session.create_table("other", sl.Schema({"k": "string"}))
    gate = Gate(monkeypatch)
    work = trips.maintenance.start_compaction("all", engine="local")
    assert gate.reached.wait(30)
    assert not watch(session, other.name).seen.running
    assert watch(session).seen.stoppable
    widget = watch(session, "TRIPS")
    assert (widget.seen.running, len(widget.seen.jobs), widget._stop.disabled) == (True, 3, False)
    widget._stop.click()
    gate.open.set()
    with pytest.raises(sl.Cancelled):
        work.result(timeout=30)
    assert not widget.refresh()
    assert len(widget.seen.jobs) == 3


def test_nobody_looks_any_more_when_it_is_closed_or_nothing_runs(session, trips, clock, monkeypatch, shell):
    beside = Beside()
    with capture_output():
        JobWatch(session.inspect.job_progress("trips"), "line", background=beside)._ipython_display_()
    assert beside.work == []
    gate = Gate(monkeypatch)
    work = trips.maintenance.start_compaction("all", engine="local")
    assert gate.reached.wait(30)
    widget = JobWatch(session.inspect.job_progress("trips", work), "line", work, beside)
    with capture_output():
        widget._ipython_display_()
    widget.close()
    (follow,) = beside.work
    follow()  # or it would look for ever: the gate is shut
    assert clock.slept == []
    gate.open.set()
    work.result(timeout=30)


def test_it_waits_between_two_looks(session, trips, clock, monkeypatch):
    gate, beside = Gate(monkeypatch), Beside()
    work = trips.maintenance.start_compaction("all", engine="local")
    assert gate.reached.wait(30)
    widget = JobWatch(session.inspect.job_progress("trips", work), "line", work, beside)

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        gate.open.set()
        work.result(timeout=30)

    waited: list[float] = []
    monkeypatch.setattr(clock, "sleep", sleep)
    widget._follow()
    assert (waited, widget.seen.running) == ([PAUSE], False)


def test_a_look_that_fails_is_seen_and_is_the_last(session, trips, clock, monkeypatch):
    gate = Gate(monkeypatch)
    work = trips.maintenance.start_compaction("all", engine="local")
    assert gate.reached.wait(30)
    widget = JobWatch(session.inspect.job_progress("trips", work), "line", work, Beside())

    def fail(*_: Any) -> None:
        raise sl.StorageError("the <catalog> is gone", hint="look for it")

    monkeypatch.setattr(session._components.catalog, "jobs", fail)
    widget._follow()
    assert "the &lt;catalog&gt; is gone" in widget._error.value
    monkeypatch.undo()
    gate.open.set()
    work.result(timeout=30)


def test_an_interrupt_ends_the_cell_and_neither_the_jobs_nor_what_is_displayed(session, trips, clock):
    looks, beside = [], []

    class Source:
        seen = replace(session.inspect.job_progress().look(), running=True)

        def look(self):
            looks.append(1)
            if len(looks) == 3:
                raise KeyboardInterrupt
            return self.seen

        def wait(self, seconds):
            clock.sleep(seconds)

    widget = JobWatch(Source(), "%sleeper jobs --watch", background=beside.append)
    with capture_output(), pytest.raises(KeyboardInterrupt) as stop:
        widget.follow()
    assert stop.value.__notes__ == ["The jobs continue; press Stop to cancel them."]
    assert beside == [widget._follow]


def test_a_compaction_is_watched_as_typed(shell, tmp_path):
    shell.run_line_magic("sleeper", "use ./w")
    shell.run_cell_magic("sleeper", "create t", "id LONG KEY")
    shell.user_ns["rows"] = [{"id": 1}]
    for _ in range(2):
        shell.run_line_magic("sleeper", "ingest t $rows")
    plan = shell.run_line_magic("sleeper", "compact t --strategy all --watch --dry-run")
    assert plan.dry_run
    widget = shell.run_line_magic("sleeper", "compact t --strategy all --engine local --watch")
    assert not widget.seen.running
    assert widget.work.done
    assert len(widget.work.result(timeout=30).jobs) == 1
    assert "1 of 1 job · 2 of 2 rows" in repr(widget.seen)
    with capture_output() as again:
        widget._ipython_display_()
    assert not again.outputs
    after = shell.run_line_magic("sleeper", "jobs t --watch")
    assert "no job" in repr(after.seen)


def test_in_a_terminal_a_compaction_that_is_watched_is_shown_once(shell, tmp_path, monkeypatch):
    class TerminalInteractiveShell:
        pass

    shell.run_line_magic("sleeper", "use ./w")
    shell.run_cell_magic("sleeper", "create t", "id LONG KEY")
    monkeypatch.setattr("IPython.get_ipython", TerminalInteractiveShell)
    with capture_output() as shown:
        report = shell.run_line_magic("sleeper", "compact t --strategy all --watch")
    assert "nothing to merge" in repr(report)
    assert (shown.stdout, shown.outputs) == ("", [])
    assert "no job" in repr(shell.run_line_magic("sleeper", "jobs t --watch"))


def test_the_console_says_a_line_while_jobs_run_and_leaves_a_table(session, trips, clock, monkeypatch):
    gate, lines = Gate(monkeypatch), []
    work = trips.maintenance.start_compaction("all", engine="local")
    assert gate.reached.wait(30)

    class Lines:
        def update(self, text: str, done: int = 0, total: int = 0) -> None:
            lines.append((text, done, total))
            gate.open.set()
            work.result(timeout=30)

        def finish(self, text: str = "") -> None:
            lines.append(text)

    context = Context("console", sl.connect, session=session, progress=Lines())
    seen = COMMANDS.parse_argv(["jobs", "trips", "--watch"]).run(context)
    assert lines == [("0 of 3 jobs · 0 of 6 rows", 0, 0), ""]
    assert (len(seen.jobs), seen.finished, seen.rows) == (3, 3, (6, 6))
    with pytest.raises(sl.InvalidInput, match="--watch follows all that runs"):
        COMMANDS.parse_argv(["jobs", "trips", "--watch", "--failed"]).run(context)
