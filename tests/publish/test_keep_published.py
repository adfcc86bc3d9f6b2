"""Published versions are kept up to date, keep their files, and go with what they were made of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.edit.purge import PurgeOfRows
from sleeper_nb.errors import ConfirmationNeeded, InvalidInput, StorageError
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.table.publishing import catch_up

SCHEMA = sl.Schema({"city": "string"}, {}, {"n": "int"})
DAY = timedelta(days=1)
COMMITS, SAVEPOINTS = ({"sleeper.table.iceberg": mode} for mode in ("commits", "savepoints"))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def session(tmp_path: Path, clock: ManualClock) -> Iterator[sl.Session]:
    with sl.connect(tmp_path / "w", clock=clock, author="ann") as opened:
        yield opened


def made(session: sl.Session, **properties: str) -> sl.Table:
    """A table of which maintenance keeps one snapshot, and merges all files."""
    few = {"snapshot.num-retained.min": "1", "sleeper.table.compaction.strategy.sizeratio.ratio": "1"}
    return session.create_table("trips", SCHEMA, properties={**few, **properties})


def row(city: str, n: int = 1) -> list[dict[str, Any]]:
    return [{"city": city, "n": n}]


def folder(session: sl.Session) -> Path:
    """The folder of the published table."""
    return next(Path(session.warehouse.location).rglob("version-hint.text")).parents[1]


def read(session: sl.Session, tag: str | None = None, **version: Any) -> list[str]:
    """The cities that PyIceberg reads of what is published: of a tag, or of a snapshot by `snapshot_id`."""
    scan = StaticTable.from_metadata(str(folder(session))).scan(**version)
    return sorted((scan if tag is None else scan.use_ref(tag)).to_arrow()["city"].to_pylist())


def said(table: sl.Table, **how: Any) -> str:
    """What maintenance says of publishing."""
    return next(step.summary for step in table.maintain(**how).steps if step.step == "publish")


# Their files stay.


def test_expiry_and_garbage_collection_leave_what_is_published(session: sl.Session, clock: ManualClock):
    table = made(session)
    table.ingest(row("rome"))
    table.publish()
    table.ingest(row("oslo"))
    table.maintain()
    for _ in range(3):
        clock.advance(30 * DAY)
        table.maintain()
    assert [each.id for each in table.history()] != [2]
    assert read(session) == ["rome"]
    assert "published versions" in repr(table.maintenance.collect_garbage())
    assert table.maintenance.check(deep=True).ok
    table.unpublish()
    clock.advance(DAY)
    assert len(table.maintenance.collect_garbage().data_files) == 1


def test_a_superseded_version_stays_for_the_time_of_the_property(session: sl.Session, clock: ManualClock):
    table = made(session, **{"sleeper.table.iceberg.time-retained": "2 d", "snapshot.time-retained": "1 h"})
    table.ingest(row("rome"))
    table.publish()
    table.overwrite(row("oslo"), force=True)
    table.publish()
    clock.advance(DAY)
    table.maintain()
    assert read(session, snapshot_id=2) == ["rome"]
    clock.advance(2 * DAY)
    table.maintain()
    assert len(table.maintenance.collect_garbage().data_files) + len(table.inspect.files()) >= 1
    table.publish()
    assert read(session) == ["oslo"]


def test_the_lease_of_a_published_version_is_not_released_by_hand(session: sl.Session):
    table = made(session)
    table.ingest(row("rome"))
    table.publish()
    (lease,) = table.inspect.leases()
    with pytest.raises(InvalidInput, match=r"published for other engines\nhint: table.unpublish\(\)"):
        table.maintenance.release_lease(lease.id)
    assert read(session) == ["rome"]


# They are kept up to date.


def test_a_table_that_is_made_with_rows_is_published(session: sl.Session):
    session.create_table("trips", SCHEMA, data=row("rome"), properties=COMMITS)
    assert read(session) == ["rome"]


def test_a_publication_that_fails_leaves_the_commit_and_maintenance_makes_up_for_it(session: sl.Session):
    table = made(session)
    blocked = Path(session.warehouse.location) / "default" / table.entry.id / "metadata"
    blocked.write_bytes(b"a file, where a folder is needed")
    table.set_properties(COMMITS)
    loaded = table.ingest(row("rome"))
    assert loaded.snapshot is not None
    assert "snapshot 2 could not be published as Iceberg: " in repr(loaded)
    changed = table.update({"n": "2"}, "city = 'rome'")
    assert "snapshot 3 could not be published as Iceberg: " in repr(changed)
    assert table.create_savepoint("first").saved_snapshot_id == 3
    assert [step.step for step in table.maintain().failed] == ["publish"]
    assert any("published" in step.why for step in table.inspect.status().next_steps)
    assert any("published" in alert.what for alert in session.status().alerts)
    blocked.unlink()
    assert said(table) == "published snapshot 3"
    assert read(session) == read(session, "first") == ["rome"]
    assert not session.status().alerts
    assert said(table) == "nothing due"


def test_a_new_table_stays_when_its_version_cannot_be_found_to_publish_it(
    session: sl.Session, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patched:
        patched.setattr(StateStore, "head", unreachable)
        table = session.create_table("trips", SCHEMA, properties=COMMITS)
    assert said(table) == "published snapshot 1"


def test_a_purge_says_when_the_clean_version_cannot_be_found_to_publish_it(
    session: sl.Session, monkeypatch: pytest.MonkeyPatch
):
    table = made(session, **COMMITS)
    table.ingest([*row("rome"), *row("oslo")])
    purge = PurgeOfRows.run

    with monkeypatch.context() as patched:

        def purged(self: PurgeOfRows, **how: Any) -> Any:
            report = purge(self, **how)
            patched.setattr(StateStore, "head", unreachable)
            return report

        patched.setattr(PurgeOfRows, "run", purged)
        report = table.maintenance.purge("city = 'oslo'", force=True)
    assert report.note.startswith("the newest version could not be published as Iceberg: the network is down")
    assert said(table).startswith("published snapshot")


def unreachable(_: StateStore) -> Any:
    raise StorageError("the network is down", hint="")


def test_maintenance_publishes_what_is_missing_and_a_dry_run_says_it_before(session: sl.Session, clock: ManualClock):
    table = made(session, **{"savepoint.create-interval": "1 d"})
    table.ingest(row("rome"))
    table.create_savepoint("first")
    table.ingest(row("oslo"))
    table.set_properties(SAVEPOINTS)
    clock.advance(2 * DAY)
    planned = said(table, dry_run=True)
    assert planned.removeprefix("would publish") == said(table).removeprefix("published")
    assert len(table.savepoints()) == 3
    assert read(session, "first") == ["rome"]
    assert read(session) == ["oslo", "rome"]
    assert said(table) == "nothing due"


def test_a_version_that_others_cannot_read_is_refused_once_and_does_not_stop_maintenance(session: sl.Session):
    table = made(session, **COMMITS)
    table.ingest(row("rome"))
    table.create_savepoint("first")
    table.alter(types={"n": "double"})
    (failed,) = table.maintain().failed
    assert "still int in some files" in str(failed.error)
    assert any("published" in alert.what for alert in session.status().alerts)
    table.update({"n": "n"}, force=True)
    assert read(session) == ["rome"]
    assert said(table) == "nothing due: other engines cannot read snapshot 2"
    assert not session.status().alerts
    assert not table.maintain().failed


def test_a_version_that_others_cannot_read_does_not_keep_back_a_newer_one(session: sl.Session):
    table = made(session)
    table.ingest(row("rome"))
    table.alter(types={"n": "double"})
    table.create_savepoint("mixed")
    table.update({"n": "n"}, force=True)
    table.create_savepoint("whole")
    table.set_properties(SAVEPOINTS)
    assert said(table) == "published snapshot 4: other engines cannot read snapshot 3"
    assert read(session) == read(session, "whole") == ["rome"]


def test_a_version_that_others_expire_meanwhile_is_left_to_the_next_maintenance(
    session: sl.Session, clock: ManualClock
):
    table = made(session)
    table.set_properties(COMMITS)
    head = table._store.head()
    table.ingest(row("rome"))
    table.unpublish()
    clock.advance(30 * DAY)
    table.maintenance.expire(dry_run=False)
    assert [each.id for each in table.history()] == [2]
    assert catch_up(table._opened, head, dry_run=False).snapshots == ()
    assert said(table) == "published snapshot 2"


def test_what_a_compaction_made_is_published_by_the_next_maintenance(session: sl.Session):
    table = made(session, **COMMITS)
    for _ in range(4):
        table.ingest(row("rome"))
    table.maintain()
    assert len(table.inspect.files()) == 1
    assert said(table).startswith("published snapshot")
    assert len(list(StaticTable.from_metadata(str(folder(session))).scan().plan_files())) == 1
    assert said(table) == "nothing due"


def test_the_tag_of_a_deleted_savepoint_goes(session: sl.Session):
    table = made(session, **COMMITS)
    table.ingest(row("rome"))
    table.create_savepoint("first")
    assert "first" in table.inspect.status().published
    table.delete_savepoint("first")
    said(table)
    assert "first" not in table.inspect.status().published
    assert said(table) == "nothing due"


SHARED = {"sleeper.table.ingest.file.writing.strategy": "one_reference_per_leaf"}


def merge_the_left_leaf(table: sl.Table) -> None:
    left = next(each.id for each in table._store.load().tree.leaves if ("a",) in each.region)
    table.maintenance.compact("all", partition=left)


@pytest.mark.parametrize("is_split_later", [False, True])
def test_a_rollback_to_a_file_that_leaves_share_publishes_each_row_once(session: sl.Session, is_split_later: bool):
    points = [] if is_split_later else ["h"]
    table = session.create_table("trips", SCHEMA, points, properties={**COMMITS, **SHARED})
    table.ingest([*row("athens"), *row("zagreb")])
    if is_split_later:
        table.maintenance.split(at="h")
    before = table._store.head().id
    merge_the_left_leaf(table)
    table.publish()
    table.rollback(before)
    assert read(session) == ["athens", "zagreb"]
    assert table.maintenance.check().ok


# They go with what they were made of.


def test_a_purge_takes_what_is_published_with_it_and_says_so(session: sl.Session):
    table = made(session)
    table.ingest([*row("rome"), *row("oslo")])
    table.publish()
    where = folder(session)
    table.delete("city = 'oslo'")
    plan = table.maintenance.purge("city = 'oslo'", dry_run=True)
    assert plan.needs_confirmation
    assert "other engines may have copies" in repr(plan)
    assert plan.unpublished == (2,)
    report = table.maintenance.purge("city = 'oslo'", force=True)
    assert (report.unpublished, report.readers, report.complete) == ((2,), (), True)
    assert not list(where.glob("metadata/*"))
    assert not [path for path in where.rglob("*") if path.is_file() and b"oslo" in path.read_bytes()]
    table.publish()
    assert read(session) == ["rome"]


def test_a_purge_deletes_what_an_interrupted_publication_has_left(session: sl.Session, monkeypatch):
    table = made(session)
    table.ingest([*row("rome"), *row("oslo")])

    def killed(*_: Any) -> None:
        raise StorageError("the power went out", hint="")

    with monkeypatch.context() as patched:
        patched.setattr("sleeper_nb.publish.publish.add_lease", killed)
        patched.setattr(table._store.storage, "delete", killed)
        with pytest.raises(StorageError):
            table.publish()
    metadata = Path(session.warehouse.location) / "default" / table.entry.id / "metadata"
    assert [*metadata.glob("*-m0.avro")]
    table.maintenance.purge("city = 'oslo'", force=True)
    assert not [*metadata.glob("*")]


def test_after_a_purge_the_clean_version_is_published_where_the_property_asks_for_it(session: sl.Session):
    table = made(session, **COMMITS)
    table.ingest([*row("rome"), *row("oslo")])
    report = table.maintenance.purge("city = 'oslo'", force=True)
    assert (report.unpublished != (), report.note) == (True, "")
    assert read(session) == ["rome"]
    assert not table.maintenance.purge("city = 'paris'", force=True).unpublished
    assert read(session) == ["rome"]


def test_a_table_that_is_reinitialised_is_published_no_more(session: sl.Session):
    table = made(session)
    table.ingest(row("rome"))
    table.publish()
    where = folder(session)
    plan = session.admin.reinitialise("trips", dry_run=True)
    assert "other engines can no longer read them" in repr(plan)
    assert session.admin.reinitialise("trips", force=True).unpublished == 1
    assert not list(where.glob("metadata/*"))
    table = session.table("trips")
    table.ingest(row("oslo"))
    table.publish()
    assert read(session) == ["oslo"]


def test_a_table_that_is_dropped_takes_what_is_published_with_it(session: sl.Session):
    table = made(session)
    table.ingest(row("rome"))
    table.publish()
    where = folder(session)
    assert "published as Iceberg" in repr(session.drop_table("trips", dry_run=True))
    session.drop_table("trips", force=True)
    assert not where.exists()


# So does what another engine has written beside them, but not unasked.


def written_by_another(session: sl.Session) -> Path:
    """Metadata of another engine, with a snapshot 77."""
    metadata = folder(session) / "metadata"
    body = json.loads((metadata / "v1.metadata.json").read_bytes())
    body["snapshots"].append({**body["snapshots"][0], "snapshot-id": 77, "summary": {"operation": "append"}})
    written = metadata / "v2.metadata.json"
    written.write_text(json.dumps(body))
    return written


def test_what_another_engine_has_written_is_deleted_only_when_asked(session: sl.Session):
    table = made(session)
    table.ingest([*row("rome"), *row("oslo")])
    table.publish()
    written = written_by_another(session)
    with pytest.raises(ConfirmationNeeded, match=r"snapshot 77, which would be deleted\nhint: force=True deletes"):
        table.unpublish()
    assert written.exists()
    assert table.maintenance.purge("city = 'oslo'", dry_run=True).unpublished == (2, 77)
    assert session.admin.reinitialise("trips", dry_run=True).unpublished == 2
    table.unpublish(force=True)
    assert not written.exists()


def test_damaged_metadata_can_be_unpublished(session: sl.Session):
    table = made(session)
    table.ingest(row("rome"))
    table.publish()
    written_by_another(session).write_bytes(b"{")
    table.unpublish()
    table.publish()
    assert read(session) == ["rome"]


# Damage is found.


def test_a_check_says_what_of_the_published_metadata_is_gone(session: sl.Session):
    table = made(session)
    table.ingest(row("rome"))
    table.publish()
    assert table.maintenance.check().ok
    for lost in folder(session).glob("metadata/*.avro"):
        lost.unlink()
        assert not table.maintenance.check().ok


def test_a_folder_that_was_moved_says_that_it_must_be_published_again(tmp_path: Path, session: sl.Session):
    table = made(session)
    table.ingest(row("rome"))
    table.publish()
    session.close()
    (tmp_path / "w").rename(tmp_path / "elsewhere")
    with sl.connect(tmp_path / "elsewhere") as moved:
        table = moved.table("trips")
        assert not table.maintenance.check().ok
        (step,) = (step for step in table.inspect.status().next_steps if step.command == "publish")
        assert "moved" in step.why
        table.publish()
        assert read(moved) == ["rome"]
        assert table.maintenance.check().ok


def test_migrating_and_renaming_leave_what_is_published(session: sl.Session):
    table = made(session, **COMMITS)
    table.ingest(row("rome"))
    session.admin.migrate("trips", "TransactionLogStateStore")
    session.rename_table("trips", "journeys")
    assert read(session) == ["rome"]
    table = session.table("journeys")
    assert said(table) == "nothing due"
    table.ingest(row("oslo"))
    assert read(session) == ["oslo", "rome"]
