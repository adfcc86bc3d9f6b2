"""Warehouses that earlier releases wrote: they open, their versions read the same, and work goes on in them."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.progress import SILENT
from tests.data.make_warehouse import SAVEPOINT, SCHEMA, rows

OLD = Path(__file__).parents[1] / "data" / "warehouse-0.1"
ONE, TWO, THREE, LAST = rows("first", 1, 2, 5, 11), rows("second", 3, 12), rows("third", 4, 15), rows("last", 6)
CHANGED = [("create", []), ("ingest", ONE), ("ingest", ONE + TWO), ("compact", ONE + TWO), ("compact", ONE + TWO),
           ("ingest", ONE + TWO + THREE), ("split", ONE + TWO + THREE), ("rollback", ONE + TWO),
           ("ingest", ONE + TWO + LAST), ("alter", ONE + TWO + LAST)]  # fmt: skip
HISTORIES = {
    "full": CHANGED,
    "log": CHANGED,
    "moved": [*CHANGED[:3], ("migrate", ONE + TWO), ("ingest", ONE + TWO + LAST)],
}
"""The operation of each snapshot from the first, and the rows that the table has after it."""
STORES = {"full": "S3StateStore", "log": "TransactionLogStateStore", "moved": "TransactionLogStateStore"}


@pytest.fixture
def clock():
    return ManualClock(datetime(2026, 1, 2, tzinfo=UTC), seed=1)


@pytest.fixture
def session(tmp_path, clock):
    folder = tmp_path / "warehouse"
    shutil.copytree(OLD, folder)
    with sl.connect(folder, clock=clock, progress=SILENT, author="bob") as opened:
        yield opened


def sorted_rows(scan):
    return sorted(scan.to_arrow().to_pylist(), key=lambda row: row["id"])


def renamed(row):
    """A row as it reads after the columns were changed."""
    return {("number" if name == "real" else name): value for name, value in row.items()} | {"note": None}


@pytest.mark.parametrize("name", HISTORIES)
def test_each_version_of_an_old_table_has_its_rows(session, name):
    table, history = session.table(name), HISTORIES[name]
    assert table.state_store == STORES[name]
    assert [s.operation for s in reversed(list(table.history()))] == [operation for operation, _ in history]
    for version, (operation, wanted) in enumerate(history, 1):
        by_id = sorted(wanted, key=lambda row: row["id"])
        if operation == "alter":
            by_id = [renamed(row) for row in by_id]
        assert sorted_rows(table.at(version).scan()) == by_id
    assert table.at(2).schema == SCHEMA


@pytest.mark.parametrize("name", HISTORIES)
def test_an_old_table_is_whole(session, name):
    report = session.table(name).check(deep=True)
    assert not report.findings


@pytest.mark.parametrize("name", HISTORIES)
def test_an_old_savepoint_and_its_properties_count(session, name):
    table = session.table(name)
    (savepoint,) = table.savepoints()
    assert (savepoint.name, savepoint.message) == (SAVEPOINT, "before the compaction")
    assert sorted_rows(table.at(SAVEPOINT).scan()) == sorted(ONE + TWO, key=lambda row: row["id"])
    assert table.at().properties["snapshot.num-retained.min"] == 5
    assert table.at().properties["sleeper.table.gc.delay.minutes"] == 20


@pytest.mark.parametrize("name", HISTORIES)
def test_work_goes_on_in_an_old_table(session, name, clock):
    table = session.table(name)
    head = table.history(1)[0].id
    before = sorted_rows(table.scan())
    assert table.ingest(rows("first", 1), job_id="nightly").id == 2, "the load of this id was done before"
    new = [{name: value for name, value in row.items() if name != "real"} for row in rows("new", 7, 13)]
    table.ingest(new, job_id="again")
    table.maintenance.compact("all", engine="local")
    table.rollback(SAVEPOINT)
    table.rollback(head)
    assert sorted_rows(table.scan()) == before
    clock.advance(timedelta(days=30))
    table.maintain()
    assert sorted_rows(table.scan()) == before
    assert sorted_rows(table.at(SAVEPOINT).scan()) == sorted(ONE + TWO, key=lambda row: row["id"])
    assert not table.check(deep=True).findings
    session.rename_table(name, "renamed")
    session.drop_table("renamed", force=True)
    assert {table.name for table in session.tables()} == HISTORIES.keys() - {name}
