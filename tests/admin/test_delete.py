"""Renaming and deleting tables: what goes, what stays, and what those see who use the table meanwhile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.last_used import LastUsed
from tests.support.builders import KEYED, rows_of


@pytest.fixture
def session(tmp_path):
    with sl.connect(tmp_path, clock=ManualClock(), author="ada") as opened:
        yield opened


@pytest.fixture
def trips(session):
    table = session.create_table("trips", KEYED, ["m"])
    table.ingest(rows_of("a", "z"))
    return table


def files_in(session):
    home = Path(session.location)
    found = (path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file())
    return {path for path in found if not path.startswith("catalog.sqlite")}


def test_a_renamed_table_keeps_its_rows_history_and_savepoints(session, trips):
    trips.create_savepoint("kept")
    before = files_in(session)
    renamed = session.rename_table("TRIPS", "journeys")
    assert (renamed.name, renamed.scan().count()) == ("journeys", 2)
    assert [s.id for s in renamed.history()] == [2, 1]
    assert [s.name for s in renamed.savepoints()] == ["kept"]
    assert files_in(session) == before
    assert trips.ingest(rows_of("b")).snapshot_id == 3  # a table that was opened before goes on
    with pytest.raises(sl.NotFound, match="'trips'"):
        session.table("trips")


def test_a_table_gets_no_name_that_another_has_and_its_own_in_another_case(session, trips):
    session.create_table("other", KEYED)
    for taken in ("other", "OTHER"):
        with pytest.raises(sl.AlreadyExists, match="already exists"):
            session.rename_table("trips", taken)
    with pytest.raises(sl.InvalidInput, match="is not a valid"):
        session.rename_table("trips", "2 trips")
    with pytest.raises(sl.NotFound, match="'flights'"):
        session.rename_table("flights", "new")
    assert session.rename_table("trips", "Trips").name == "Trips"
    assert [table.name for table in session.tables()] == ["Trips", "other"]


def test_without_force_the_plan_is_shown_and_nothing_goes(session, trips):
    trips.create_savepoint("kept")
    trips.create_savepoint()
    session._components.leases.take(trips.entry.id, 1, "sql")
    before = files_in(session)
    plan = session.drop_table("trips", dry_run=True)
    assert (plan.dry_run, plan.rows, plan.snapshots, plan.savepoints) == (True, 2, 2, ("kept", "2"))
    files = {path for path in before if path.startswith(trips.entry.id)}
    assert (plan.files, plan.bytes) == (
        len(files),
        sum((Path(session.location) / path).stat().st_size for path in files),
    )
    said = repr(plan)
    assert "would delete table trips for good" in said
    assert "2 savepoints would be deleted, too" in said
    assert re.search(r"read that fails +ada: sql of snapshot 1", said)
    assert "nothing was changed; force=True does it" in said
    assert files_in(session) == before


def test_a_deleted_table_leaves_nothing_and_its_name_is_free(session, trips):
    other = session.create_table("other", KEYED)
    other.ingest(rows_of("q"))
    left = {path for path in files_in(session) if trips.entry.id not in path}
    trips.create_savepoint("kept")
    session._components.leases.take(trips.entry.id, 2, "export")
    with pytest.raises(sl.ConfirmationNeeded, match=r"\(kept\); reads that fail: ada: export of snapshot 2"):
        session.drop_table("trips")
    report = session.drop_table("trips", force=True)
    assert (report.dry_run, report.savepoints) == (False, ("kept",))
    assert report.broken_reads == ("ada: export of snapshot 2",)
    assert "deleted table trips" in repr(report)
    assert "ada: export of snapshot 2" in repr(report)
    assert files_in(session) == left
    assert not (Path(session.location) / trips.entry.id).exists()
    assert other.scan().count() == 1
    with pytest.raises(sl.NotFound, match="'trips'"):
        session.drop_table("trips", force=True)
    again = session.create_table("trips", KEYED)
    assert (again.scan().count(), again.history()[0].id) == (0, 1)


def test_who_uses_a_deleted_table_is_told(session, trips):
    scan, result = trips.scan(), session.sql("select * from trips", engine="duckdb")
    lazy = scan.to_polars(lazy=True)
    other = session.table("trips").at(1)
    session.drop_table("trips", force=True)
    for use in (scan.to_arrow, scan.head, result.to_arrow):
        with pytest.raises(sl.NotFound, match="'trips' was deleted while it was being read"):
            use()
    with pytest.raises(Exception, match="'trips' was deleted while it was being read"):  # as Polars raises it
        lazy.collect()
    trips._store.history.states = LastUsed(8)  # as another session, which remembers nothing
    for use in (
        trips.history,
        trips.maintenance.compact,
        trips.create_savepoint,
        other.scan,
        lambda: trips.ingest(rows_of("b")),
    ):
        with pytest.raises(sl.NotFound):
            use()
    assert files_in(session) == set()


def test_an_ingest_that_a_deletion_overtakes_fails_and_leaves_no_file(session, trips, monkeypatch):
    commit = trips._store.commit

    def late(*arguments, **options):
        session.drop_table("trips", force=True)
        return commit(*arguments, **options)

    monkeypatch.setattr(trips._store, "commit", late)
    with pytest.raises(sl.NotFound):
        trips.ingest(rows_of("b"))
    assert files_in(session) == set()


@pytest.mark.parametrize("finish", ["delete", "maintain"])
def test_a_deletion_that_did_not_end_is_finished_by_the_next_run(session, trips, finish):
    other = session.create_table("other", KEYED)
    session._components.catalog.delete_table(trips.entry.id, "trips")  # and there it crashed
    assert [table.name for table in session.tables()] == ["other"]
    assert trips.entry.id in {path.split("/")[0] for path in files_in(session)}
    if finish == "delete":
        session.drop_table("other", force=True)
    else:
        session.maintain(dry_run=True)
        assert session._components.catalog.deleted()
        session.maintain()
    assert not {path for path in files_in(session) if trips.entry.id in path}
    assert not session._components.catalog.deleted()
    assert (other.entry.id in {entry.id for entry in session._components.catalog.tables()}) == (finish == "maintain")


def test_files_that_cannot_be_deleted_are_told_of_and_go_later(session, trips, monkeypatch):
    def broken(path):
        raise sl.StorageError("the disk does not answer")

    with monkeypatch.context() as broken_now:
        broken_now.setattr(session._storage, "delete_all", broken)
        with pytest.raises(sl.StorageError, match="'trips' is deleted, but some of its files"):
            session.drop_table("trips", force=True)
    assert not session.tables()
    session.maintain()
    assert files_in(session) == set()


def test_a_damaged_table_can_be_deleted(session, trips):
    for path in Path(session.location).rglob("*.p*"):
        path.unlink()
    session.drop_table("trips", dry_run=True)
    session.drop_table("trips", force=True)
    assert files_in(session) == set()


def test_listing_and_maintenance_pass_over_a_table_that_is_deleted_meanwhile(session, trips):
    session.create_table("other", KEYED)
    catalog, opened = session._components.catalog, session._tables.open

    def late(entry):
        if entry.name == "trips":
            session.drop_table("trips", force=True)
        return opened(entry)

    session._tables.open = late
    assert [table.name for table in session.tables()] == ["other"]
    session._tables.open = opened
    again = session.create_table("trips", KEYED)
    session._tables.open = late
    assert {step.table for step in session.maintain().steps} == {"other"}
    assert not catalog.has_table(again.entry.id)
