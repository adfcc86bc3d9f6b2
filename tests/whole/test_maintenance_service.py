"""The maintenance service: one process at a time, a takeover after a death, back-off, stops between steps, metrics."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb import logs
from sleeper_nb.clock import ManualClock
from sleeper_nb.maintain.maintenance_metrics import MaintenanceMetrics
from sleeper_nb.maintain.service_lease import DURATION, HeldService
from sleeper_nb.model.jobs import Job, ServiceLease
from sleeper_nb.read.job_tracking import CLAIM_ENDED
from sleeper_nb.session.maintenance_service import BackOff, MaintenanceRound, MaintenanceService

SCHEMA = sl.Schema({"city": "string"})
EVERY = timedelta(minutes=10)


class CountedWaits:
    """Tells a service to stop after some waits, and moves the clock instead of waiting."""

    def __init__(self, clock: ManualClock, waits: int) -> None:
        self.clock, self.left, self.waited = clock, waits, list[float]()
        self.told = False

    def is_set(self) -> bool:
        return self.told or self.left <= 0

    def wait(self, timeout: float) -> bool:
        self.left -= 1
        self.waited.append(timeout)
        self.clock.advance(timedelta(seconds=timeout))
        return self.is_set()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def session(tmp_path: Path, clock: ManualClock) -> Iterator[sl.Session]:
    with sl.connect(tmp_path, clock=clock) as opened:
        yield opened


def service(
    session: sl.Session, stop: CountedWaits, each: Callable[[MaintenanceRound, bool], None] = lambda *_: None
) -> MaintenanceService:
    return session.admin.maintenance_service("process 1 on here", stop, each)


def full(session: sl.Session, name: str) -> sl.Table:
    """Return a table in which a compaction is due."""
    table = session.create_table(name, SCHEMA, properties={
        "sleeper.table.compaction.strategy.sizeratio.ratio": "1", "sleeper.table.compaction.files.batch.size": "2",
    })  # fmt: skip
    for _ in range(2):
        table.ingest([{"city": "Lima"}])
    return table


def test_rounds_begin_at_intervals_and_the_lease_is_released(session: sl.Session, clock: ManualClock):
    rounds: list[MaintenanceRound] = []
    table, stop, began = full(session, "trips"), CountedWaits(clock, 3), clock.now()
    held = []

    def note(done: MaintenanceRound, holds: bool) -> None:
        rounds.append(done)
        held.append(holds)
        clock.advance(timedelta(minutes=4))  # as if the work had taken so long

    service(session, stop, note).serve(EVERY)
    assert [done.began - began for done in rounds] == [EVERY * number for number in range(3)]
    assert stop.waited == [360.0] * 3
    assert held == [True] * 3
    assert all(done.succeeded for done in rounds)
    assert "merged 2 files" in rounds[0].report.steps[1].summary
    assert len(table.inspect.files()) == 1
    assert session._components.catalog.service("maintain") is None


def test_a_round_that_takes_long_is_followed_at_once(session: sl.Session, clock: ManualClock):
    stop = CountedWaits(clock, 2)
    service(session, stop, lambda *_: clock.advance(2 * EVERY)).serve(EVERY)
    assert stop.waited == [0.0, 0.0]


def test_a_second_service_stands_by_and_takes_over_when_the_first_dies(
    session: sl.Session, clock: ManualClock, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, logger="sleeper_nb")
    now = clock.now()
    dead = ServiceLease("maintain", "dead", "process 9 on elsewhere", now, now + DURATION)
    assert session._components.catalog.take_service(dead, now) == dead
    assert session.status().maintained_by == dead
    full(session, "trips")
    rounds: list[MaintenanceRound] = []
    service(session, CountedWaits(clock, 5), lambda done, _: rounds.append(done)).serve(EVERY)
    others = [done.other for done in rounds]
    assert others == [dead, dead, dead, None, None]  # a look each minute, and no work until the lease has ended
    assert rounds[3].began == now + DURATION
    assert [bool(done.report.steps) for done in rounds] == [False] * 3 + [True] * 2
    assert caplog.text.count("standing by: process 9 on elsewhere") == 1


def test_one_round_does_nothing_while_another_process_has_the_lease(session: sl.Session, clock: ManualClock):
    table = full(session, "trips")
    other = HeldService(session._components.catalog, clock, "maintain", "process 9 on elsewhere")
    assert other.take() is None
    done = service(session, CountedWaits(clock, 1)).once()
    assert done.other is not None
    assert done.other.holder == "process 9 on elsewhere"
    assert len(table.inspect.files()) == 2
    other.release()
    assert service(session, CountedWaits(clock, 1)).once().other is None
    assert len(table.inspect.files()) == 1


def test_a_lease_that_was_lost_ends_the_round_after_its_step(session: sl.Session, clock: ManualClock):
    catalog = session._components.catalog
    mine = HeldService(catalog, clock, "maintain", "mine")
    assert (mine.take(), mine.held) == (None, True)
    clock.advance(DURATION)
    assert not mine.held  # it ended, as the process was asleep
    other = HeldService(catalog, clock, "maintain", "another")
    assert other.take() is None
    mine.renew()
    assert (mine.held, other.held) == (False, True)
    mine.release()
    assert catalog.service("maintain") is not None
    clock.advance(DURATION / 2)
    other.renew()
    clock.advance(DURATION * 0.9)
    assert other.held
    other.release()
    assert catalog.service("maintain") is None


def test_a_stop_finishes_the_step_that_runs_and_no_other(
    session: sl.Session, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    tables = [full(session, name) for name in ("first", "second")]
    stop = CountedWaits(clock, 1)
    catalog = session._components.catalog
    claim = catalog.claim_files

    def told(*arguments, **options):
        stop.told = True  # as a signal in the middle of the first table's compaction
        return claim(*arguments, **options)

    monkeypatch.setattr(catalog, "claim_files", told)
    done = service(session, stop).once()
    assert (done.stopped, done.succeeded) == (True, False)
    assert [(step.table, step.step) for step in done.report.steps] == [("first", "split"), ("first", "compact")]
    assert [len(table.inspect.files()) for table in tables] == [1, 2]
    assert catalog.service("maintain") is None


def test_a_table_that_fails_does_not_stop_the_others_and_is_tried_less_often(
    session: sl.Session, clock: ManualClock, tmp_path: Path
):
    broken, _ = full(session, "broken"), full(session, "trips")
    for path in (tmp_path / "default" / broken._store.table_id).rglob("*-files.parquet"):
        path.write_bytes(b"damaged")
    rounds: list[MaintenanceRound] = []
    with sl.connect(tmp_path, clock=clock) as another:
        service(another, CountedWaits(clock, 9), lambda done, _: rounds.append(done)).serve(EVERY)
        report = another.maintain()
        assert {step.table for step in report.failed} == {"broken"}
        assert any(step.table == "trips" and step.error is None for step in report.steps)
        alerts = another.status().of_level("error")
        assert [alert.table for alert in alerts] == ["broken"]
        with pytest.raises(sl.NotFound):
            another.status("nothing")
    tried = [number for number, done in enumerate(rounds) if any(s.table == "broken" for s in done.report.steps)]
    assert tried == [0, 1, 3, 7]
    assert not any(done.succeeded for done in rounds)  # neither where it failed nor where it was left out
    assert [done.waiting for done in rounds] == [() if n in tried else ("broken",) for n in range(9)]
    assert all(any(step.table == "trips" for step in done.report.steps) for done in rounds)


def test_back_off_ends_with_a_success():
    entry = sl.catalog.catalog_base.TableEntry("t", "trips")
    backoff = BackOff()
    due = []
    for number in range(70):
        due.append(bool(backoff.due([entry])))
        if due[-1]:
            backoff.note("t", failed=number < 64)
    assert [number for number, each in enumerate(due) if each] == [0, 1, 3, 7, 15, 31, 63]
    backoff.note("t", failed=False)
    assert [bool(backoff.due([entry])) for _ in range(40)][-1]


def test_an_error_of_the_catalog_ends_a_round_and_not_the_service(
    session: sl.Session, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    rounds: list[MaintenanceRound] = []
    catalog, answers = session._components.catalog, iter((False, True, True))
    tables = catalog.tables

    def sometimes():
        if not next(answers):
            raise sl.StorageError("the network is gone")
        return tables()

    monkeypatch.setattr(catalog, "tables", sometimes)
    service(session, CountedWaits(clock, 3), lambda done, _: rounds.append(done)).serve(EVERY)
    assert len(rounds) == 2
    assert "the network is gone" in caplog.text


def test_metrics_count_outcomes_and_escape_names(session: sl.Session, clock: ManualClock):
    full(session, "trips")
    metrics = MaintenanceMetrics('in"st\\a\nnce')
    assert 'sleeper_maintenance_lease_held{instance="in\\"st\\\\a\\nnce"} 0\n' in metrics.text()
    metrics = MaintenanceMetrics("default")
    for _ in range(2):
        report = session.maintain()
        metrics.count(report, clock.now(), clock.now(), succeeded=True)
    metrics.take(session.status())
    text = metrics.text()
    assert 'sleeper_maintenance_steps_total{instance="default",table="trips",step="compact",outcome="done"} 1\n' in text
    nothing = 'sleeper_maintenance_steps_total{instance="default",table="trips",step="compact",outcome="nothing_due"} 1'
    assert f"{nothing}\n" in text
    assert 'sleeper_table_rows{instance="default",table="trips"} 2\n' in text
    assert 'sleeper_table_readable{instance="default",table="trips"} 1\n' in text
    assert f'event="succeeded"}} {clock.now().timestamp()}\n' in text
    named = [line.split("{")[0] for line in text.splitlines() if not line.startswith("#")]
    for name in named:  # each family is in one piece, after its help and type
        assert text.count(f"# TYPE {name} ") == 1
    assert named == sorted(named, key=named.index)


def test_metrics_go_on_from_their_own_text(session: sl.Session, clock: ManualClock):
    full(session, "trips")
    name = 'in"st\\a\nnce'
    metrics, again, other = MaintenanceMetrics(name), MaintenanceMetrics(name), MaintenanceMetrics("other")
    assert "succeeded" not in metrics.text()  # of a process that stands by, and has not worked yet
    metrics.count(session.maintain(), clock.now(), clock.now(), succeeded=True)
    clock.advance(EVERY)
    metrics.count(session.maintain(), clock.now(), clock.now(), succeeded=False)
    assert f'event="succeeded"}} {(clock.now() - EVERY).timestamp()}\n' in metrics.text()
    for each in (again, other):
        each.resume(metrics.text())
    assert (again.text(), other.text()) == (metrics.text(), MaintenanceMetrics("other").text())
    for damaged in (
        *("", "sleeper_", "sleeper_maintenance_rounds_total{} nan", "x" * 99, metrics.text()[:-90] + "\0"),
        'sleeper_maintenance_rounds_total{instance="other"} 1e999',
        'sleeper_maintenance_round_timestamp_seconds{instance="other",event="succeeded"} 1e30',
    ):
        other.resume(damaged)
        assert other.text() == MaintenanceMetrics("other").text()


def test_what_maintenance_should_have_done_is_a_warning(session: sl.Session):
    table = full(session, "trips")
    assert session.status().alerts == ()  # a compaction is due, which is no alert
    assert [step.command for step in table.inspect.status().next_steps] == ["compact"]
    for _ in range(2):
        table.ingest([{"city": "Lima"}])
    status = session.status()
    assert [(each.level, each.what) for each in status.alerts] == [
        ("warn", "compact is overdue: 1 leaf partition has 4 files or more")
    ]
    assert json.loads(json.dumps(status.to_dict()))["level"] == "warn"
    table.maintenance.offline()
    assert [each.what for each in session.status().alerts] == ["offline: maintenance leaves it alone"]


def test_a_failed_compaction_is_an_error_until_one_succeeds(session: sl.Session, tmp_path: Path):
    table = full(session, "trips")
    files = [Path(tmp_path / "default" / table._store.table_id / each["filename"]) for each in table.inspect.files()]
    kept = files[0].read_bytes()
    files[0].write_bytes(b"damaged")
    session.maintain()
    (alert,) = session.status().of_level("error")
    assert (alert.table, alert.what.partition(": ")[0]) == ("trips", "the newest compaction failed")
    files[0].write_bytes(kept)
    session.maintain()
    assert session.status().alerts == ()


def test_a_failed_compaction_stays_an_error_whatever_else_is_loaded(session: sl.Session, tmp_path: Path):
    table = full(session, "trips")
    file = next(Path(tmp_path / "default" / table._store.table_id / each["filename"]) for each in table.inspect.files())
    file.write_bytes(b"damaged")
    session.maintain()
    for number in range(60):
        table.ingest([{"city": "Lima"}], job_id=f"load-{number}")
    assert [each.what.partition(": ")[0] for each in session.status().of_level("error")] == [
        "the newest compaction failed"
    ]


def test_a_compaction_whose_process_died_is_an_error(session: sl.Session, clock: ManualClock):
    table = full(session, "trips")
    job = Job(id="killed", kind="compaction", state="RUNNING", created=clock.now(), started=clock.now())
    session._components.catalog.put_job(table._store.table_id, job)
    (alert,) = session.status().of_level("error")
    assert alert.what == f"the newest compaction failed: {CLAIM_ENDED}"
    clock.advance(EVERY)
    session.maintain()
    assert session.status().of_level("error") == ()


def test_a_lease_is_not_taken_again_by_a_renewal_that_waited_for_its_release(session: sl.Session, clock: ManualClock):
    catalog = session._components.catalog
    mine = HeldService(catalog, clock, "maintain", "mine")
    assert mine.take() is None
    with mine._lock:  # as a release that sends its request
        renewal = threading.Thread(target=mine.renew)
        renewal.start()
        held, mine._held = mine._held, None
        catalog.release_service(held)
    renewal.join()
    assert catalog.service("maintain") is None


def test_lines_of_json_have_the_time_in_utc_and_the_facts():
    record = logging.LogRecord("sleeper_nb.x", logging.WARNING, "", 0, 'a "text"\nwith %s', ("lines",), None)
    record.created, record.msecs = 1_785_000_000.25, 250.0
    record.facts = {"event": "step", "table": "trips"}
    line = logs.JsonLines().format(record)
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2026-07-25T17:20:00.250Z", "level": "warning", "logger": "sleeper_nb.x",
        "message": 'a "text"\nwith lines', "event": "step", "table": "trips",
    }  # fmt: skip
