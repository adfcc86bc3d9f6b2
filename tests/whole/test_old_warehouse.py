"""Warehouses that earlier releases wrote: they open, their versions read the same, and work goes on in them."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import InvalidInput
from sleeper_nb.progress import SILENT
from tests.data.make_warehouse import SAVEPOINT, SCHEMA, rows

KEPT = Path(__file__).parents[1] / "data"
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
    with opened_copy("warehouse-0.1", tmp_path, clock) as opened:
        yield opened


def opened_copy(name, tmp_path, clock):
    folder = shutil.copytree(KEPT / name, tmp_path / "warehouse")
    return sl.connect(folder, clock=clock, progress=SILENT, author="bob")


def sorted_rows(scan):
    return sorted(scan.to_arrow().to_pylist(), key=lambda row: row["id"])


def renamed(row):
    """A row as it reads after the columns were changed."""
    return {("number" if name == "real" else name): value for name, value in row.items()} | {"note": None}


@pytest.mark.parametrize("name", HISTORIES)
def test_each_version_of_an_old_table_has_its_rows(session, name):
    table, history = session.table(name), HISTORIES[name]
    assert table._store.head().state_store == STORES[name]
    assert [s.operation for s in reversed(list(table.history()))] == [operation for operation, _ in history]
    for version, (operation, wanted) in enumerate(history, 1):
        by_id = sorted(wanted, key=lambda row: row["id"])
        if operation == "alter":
            by_id = [renamed(row) for row in by_id]
        assert sorted_rows(table.at(version).scan()) == by_id
    assert table.at(2).schema == SCHEMA


@pytest.mark.parametrize("name", HISTORIES)
def test_an_old_table_is_whole(session, name):
    report = session.table(name).maintenance.check(deep=True)
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
    assert table.ingest(rows("first", 1), job_id="nightly").snapshot_id == 2, "the load of this id was done before"
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
    assert not table.maintenance.check(deep=True).findings
    session.rename_table(name, "renamed")
    session.drop_table("renamed", force=True)
    assert {table.name for table in session.tables()} == HISTORIES.keys() - {name}


EDITED = {"edited": "S3StateStore", "edited_log": "TransactionLogStateStore"}
LOADED = rows("first", 1, 2, 3, 5, 11, 12, 13)
DELETED = [row for row in LOADED if row["id"] != 2]
UPDATED = [row | {"long": row["long"] + 1} if row["id"] in {3, 11} else row for row in DELETED]
UPSERTED = UPDATED + rows("second", 4)
EDITS = [("create", []), ("alter", []), ("ingest", LOADED), ("delete", DELETED), ("compact", DELETED),
         ("update", UPDATED), ("upsert", UPSERTED),
         ("delete", [row for row in UPSERTED if row["id"] != 12])]  # fmt: skip
"""The operation of each snapshot from the first, and the rows that the table has after it."""


@pytest.fixture
def edited(tmp_path, clock):
    with opened_copy("warehouse-2026-11", tmp_path, clock) as opened:
        yield opened


def vectors(at):
    return [each for each in at.state.files.active["deletion_file"].to_pylist() if each is not None]


@pytest.mark.parametrize("name", EDITED)
def test_each_version_of_an_edited_table_has_its_rows(edited, name):
    table = edited.table(name)
    assert table._store.head().state_store == EDITED[name]
    assert [s.operation for s in reversed(list(table.history()))] == [operation for operation, _ in EDITS]
    for version, (_, wanted) in enumerate(EDITS, 1):
        by_id = sorted(wanted, key=lambda row: row["id"])
        assert sorted_rows(table.at(version).scan()) == by_id
        answer = edited.sql(f"SELECT id, long FROM {name} VERSION AS OF {version} ORDER BY id", engine="duckdb")
        assert answer.to_arrow().to_pylist() == [{"id": row["id"], "long": row["long"]} for row in by_id]
    assert sorted_rows(table.at(SAVEPOINT).scan()) == DELETED
    assert not table.maintenance.check(deep=True).findings
    assert vectors(table.at(SAVEPOINT))
    assert vectors(table.at())


@pytest.mark.parametrize("name", EDITED)
def test_work_goes_on_in_an_edited_table(edited, name, clock):
    table = edited.table(name)
    before = sorted_rows(table.scan())
    with pytest.raises(InvalidInput, match="half_is_small"):
        table.ingest([rows("new", 7)[0] | {"half": 100.0}])
    with pytest.raises(InvalidInput, match="unique"):
        table.ingest(rows("first", 1))
    table.delete("id = 5")
    table.update({"long": "0"}, where="id = 13")
    table.upsert(rows("second", 4, 14))
    changed = [row | {"long": 0} if row["id"] == 13 else row for row in before if row["id"] != 5]
    assert sorted_rows(table.scan()) == changed + rows("second", 14)
    table.maintenance.compact("all", engine="local")
    assert not vectors(table.at())
    assert sorted_rows(table.scan()) == changed + rows("second", 14)
    table.rollback(len(EDITS))
    assert sorted_rows(table.scan()) == before
    clock.advance(timedelta(days=30))
    table.maintain()
    assert sorted_rows(table.scan()) == before
    assert sorted_rows(table.at(SAVEPOINT).scan()) == DELETED
    assert not table.maintenance.check(deep=True).findings
