"""Maintenance does what is due, says what it did, and its dry run says the same beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.maintain.maintain import NOTHING_DUE, MaintenanceReport
from tests.support.faults import Trap, TrappedStorage, lose_answer

SCHEMA = sl.Schema({"city": "string"})
DAY = timedelta(days=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def session(tmp_path: Path, clock: ManualClock) -> Iterator[sl.Session]:
    with sl.connect(tmp_path, clock=clock) as opened:
        yield opened


def made(session: sl.Session, name: str = "trips", **properties: str) -> sl.Table:
    defaults = {"snapshot.num-retained.min": "1", "sleeper.table.compaction.strategy.sizeratio.ratio": "1"}
    given = {key.replace("_", ".").replace("create.interval", "create-interval"): v for key, v in properties.items()}
    return session.create_table(name, SCHEMA, ["m"], properties={**defaults, **given})


def said(report: MaintenanceReport) -> list[tuple[str, str]]:
    return [(step.step, step.summary) for step in report.steps]


def facts(report: MaintenanceReport) -> list[Any]:
    """What a run does, without the ids that each run draws anew and the words that tell a dry run."""
    split, compacted, saved, expired, collected, retired = (step.report for step in report.steps)
    return [
        [(leaf.partition_id, leaf.rows, [rows for _, _, rows in leaf.parts]) for leaf in split.splits],
        [(job.partition_id, job.inputs) for job in compacted.jobs],
        saved.snapshot_id,
        [snapshot.id for snapshot in expired.expired],
        (collected.data_files, collected.metadata_files),
        [savepoint.id for savepoint in retired.savepoints],
    ]


def test_nothing_is_due_on_a_new_table(session: sl.Session):
    table = made(session)
    report = table.maintain()
    steps = ("split", "compact", "create-savepoint", "expire", "collect-garbage", "delete-savepoint")
    assert said(report) == [(step, NOTHING_DUE) for step in steps]
    assert not report.due
    assert table.at().resolved.snapshot_id == 1
    assert len(report) == report.to_arrow().num_rows == len(steps)
    assert repr(report).splitlines() == ["maintenance of trips", "trips: nothing due"]


def test_idle_tables_are_one_line(session: sl.Session):
    for name in ("a", "b", "c"):
        made(session, name=name)
    for _ in range(4):
        session.table("a").ingest([{"city": "rome"}])
    report = session.maintain(dry_run=True)
    lines = repr(report).splitlines()
    assert lines[0] == "maintenance of 3 tables (dry run)"
    assert lines[-1] == "2 tables: nothing due"
    assert all(line.startswith("a ") for line in lines[3:-1])
    assert len(report) == 18
    session.table("b").maintenance.offline()
    assert repr(session.maintain(dry_run=True)).splitlines()[-1] == "c: nothing due · offline, skipped: b"


def test_what_is_due_is_done_and_told_and_the_next_run_takes_what_is_left(session: sl.Session, clock: ManualClock):
    table = made(session)
    for _ in range(4):
        table.ingest([{"city": "rome"}])
    first = table.maintain()
    assert said(first)[1] == ("compact", "merged 4 files into 1")
    assert first["compact"].snapshots
    clock.advance(8 * DAY)
    second = table.maintain()
    assert said(second)[3:5] == [
        ("expire", "expired 5 snapshots"),
        ("collect-garbage", "deleted 4 data files and 0 metadata files"),
    ]
    assert second.due
    assert table.scan().count() == 4
    assert "maintenance of trips" in repr(second)
    clock.advance(DAY)
    assert said(table.maintain())[4] != ("collect-garbage", NOTHING_DUE)  # the metadata of what expired
    clock.advance(8 * DAY)
    table.maintain()
    clock.advance(DAY)
    table.maintain()
    assert not table.maintain().due
    assert table.maintenance.check(deep=True).ok


@given(data=some.data())
def test_a_dry_run_says_what_the_run_does(data: some.DataObject, tmp_path_factory: pytest.TempPathFactory):
    clock = ManualClock()
    with sl.connect(tmp_path_factory.mktemp("w"), clock=clock) as session:
        table = session.create_table(
            "trips", SCHEMA, ["m"],
            state_store=data.draw(some.sampled_from(["S3StateStore", "TransactionLogStateStore"])),
            properties={
                "snapshot.num-retained.min": str(data.draw(some.integers(1, 4))),
                "snapshot.num-retained.max": str(data.draw(some.integers(4, 6))),
                "snapshot.time-retained": data.draw(some.sampled_from(["1 h", "3 h"])),
                "sleeper.table.gc.delay.minutes": str(data.draw(some.sampled_from([0, 15, 90]))),
                "sleeper.table.compaction.strategy.sizeratio.ratio": "1",
                "sleeper.table.partition.splitting.threshold": str(data.draw(some.sampled_from([6, 1000]))),
                "savepoint.create-interval": data.draw(some.sampled_from(["", "1 h", "PT2H"])),
                "savepoint.num-retained.max": data.draw(some.sampled_from(["1", "2", "9"])),
                "savepoint.time-retained": data.draw(some.sampled_from(["", "0 d", "100 min"])),
            },
        )  # fmt: skip
        rows = 0
        for step in data.draw(some.lists(some.sampled_from(["ingest", "wait", "save", "maintain"]), max_size=14)):
            match step:
                case "ingest":
                    table.ingest([{"city": city} for city in ("rome", "lima", "oslo", "bern")])
                    rows += 4
                case "wait":
                    clock.advance(timedelta(minutes=50))
                case "save":
                    table.create_savepoint()
                case "maintain":
                    planned = table.maintain(dry_run=True)
                    done = table.maintain()
                    assert facts(planned) == facts(done)
                    assert planned.due == done.due
        assert not table.maintain().failed
        assert table.scan().count() == rows
        assert table.maintenance.check(deep=True).ok


def test_leaves_that_a_run_splits_are_compacted_by_the_next(session: sl.Session):
    table = made(session, sleeper_table_partition_splitting_threshold="4")
    for _ in range(2):
        table.ingest([{"city": city} for city in ("athens", "bern", "rome")])
    first = table.maintain()
    assert said(first)[:2] == [("split", "split 1 leaf partition"), ("compact", "merged 2 files into 1")]
    assert {job.rows for job in first["compact"].jobs} == {2}
    assert said(table.maintain())[:2] == [("split", NOTHING_DUE), ("compact", "merged 2 files (4 references) into 2")]
    assert table.scan().count() == 6


def test_a_step_that_fails_is_told_and_the_others_are_done(session: sl.Session, clock: ManualClock):
    table = made(session)
    for _ in range(4):
        table.ingest([{"city": "rome"}])
    clock.advance(8 * DAY)
    table._store.storage = TrappedStorage(table._store.storage, Trap(1, lose_answer, only=("output",)))
    report = table.maintain()
    assert [step.step for step in report.failed] == ["compact"]
    assert said(report)[1] == ("compact", "failed: the connection broke")
    assert said(report)[3] == ("expire", "expired 4 snapshots")
    assert isinstance(report.failed[0].error, sl.StorageError)
    assert report["compact"] is None
    assert [step.step for step in table.maintain().failed] == []


def test_an_offline_table_is_refused_by_name_and_left_alone_among_all(session: sl.Session):
    for name in ("one", "two"):
        table = made(session, name)
        for _ in range(2):
            table.ingest([{"city": "rome"}])
    table.maintenance.offline()
    assert table.maintain(dry_run=True).due
    with pytest.raises(sl.StateRuleBroken, match="offline"):
        table.maintain()
    report = session.maintain()
    assert {step.table for step in report.steps} == {"one"}
    assert report.offline == ("two",)
    assert "offline, skipped: two" in repr(report)
    assert session.table("two").at().resolved.snapshot_id == 3
