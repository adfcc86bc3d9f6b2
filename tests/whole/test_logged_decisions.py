"""What a session, its tables and its background work log: at which level, and with which table."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock, Retry
from sleeper_nb.progress import BackgroundJobs, Watch

SCHEMA = sl.Schema({"city": "string"}, {}, {"n": "int"})


@pytest.fixture
def session(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[sl.Session]:
    caplog.set_level(logging.DEBUG, logger="sleeper_nb")
    with sl.connect(tmp_path) as opened:
        yield opened


def logged(caplog: pytest.LogCaptureFixture, level: int, module: str) -> list[str]:
    name = f"sleeper_nb.{module}"
    return [record.getMessage() for record in caplog.records if (record.levelno, record.name) == (level, name)]


def test_administration_is_logged_with_its_table(session: sl.Session, caplog: pytest.LogCaptureFixture):
    table = session.create_table("trips", SCHEMA)
    session.admin.migrate("trips", "TransactionLogStateStore")
    session.rename_table("trips", "journeys")
    session.drop_table("journeys", force=True)
    name = table.entry.id
    assert logged(caplog, logging.INFO, "session.creating") == [f"created table trips ({name}) in S3StateStore"]
    assert logged(caplog, logging.INFO, "session.administration") == [
        "table trips: moved to TransactionLogStateStore in snapshot 2"
    ]
    assert logged(caplog, logging.INFO, "session.session") == [
        f"renamed table trips ({name}) to journeys",
        f"deleted table journeys ({name})",
    ]


def test_properties_are_logged_by_name_only(session: sl.Session, caplog: pytest.LogCaptureFixture):
    table = session.create_table("trips", SCHEMA)
    table.set_properties({"sleeper.table.iterator.config": "hunter2"})
    assert "table trips: set sleeper.table.iterator.config" in logged(caplog, logging.INFO, "table.configuring")
    assert "hunter2" not in caplog.text


def test_a_step_of_maintenance_that_fails_is_a_warning(
    session: sl.Session, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    table = session.create_table("trips", SCHEMA)

    def broken(*_: object) -> None:
        raise sl.StorageError("the disk is gone")

    monkeypatch.setattr(type(table._store.catalog), "garbage", broken)
    assert [step.step for step in table.maintain().failed] == ["collect-garbage"]
    (message,) = logged(caplog, logging.WARNING, "maintain.maintain")
    assert message.startswith("table trips: the maintenance step collect-garbage failed: ")
    assert "the disk is gone" in message


def test_background_work_logs_its_end(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, logger="sleeper_nb")
    jobs = BackgroundJobs()

    def fail(_: Watch) -> None:
        raise sl.StorageError("the disk is gone")

    def wait(watch: Watch) -> None:
        while True:
            watch.check()

    assert jobs.start("compaction of trips", lambda _: 1).result() == 1
    with pytest.raises(sl.StorageError):
        jobs.start("compaction of lost", fail).result()
    assert jobs.start("compaction of stopped", wait).cancel()
    assert "compaction of trips: finished in the background" in logged(caplog, logging.INFO, "progress")
    assert any("compaction of stopped: ended" in each for each in logged(caplog, logging.INFO, "progress"))
    (failed,) = logged(caplog, logging.WARNING, "progress")
    assert failed.startswith("compaction of lost: ended in the background: StorageError")


def test_a_retry_is_logged(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, logger="sleeper_nb")
    Retry(max_attempts=3).wait(ManualClock(), 0)
    (message,) = logged(caplog, logging.DEBUG, "clock")
    assert message.startswith("try 1 of at most 3 did not succeed; waiting 0.0")
