"""A purge by a condition: what the engine finds in files of older versions, other columns and other owners."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.edit.purge import PurgeReport
from sleeper_nb.errors import ConfirmationNeeded, InvalidInput, NotFound, StateRuleBroken
from sleeper_nb.model.savepoints import savepoint_label
from sleeper_nb.storage.file_cache import FileCache
from tests.support.builders import START
from tests.support.edits import rows_in_files

SCHEMA = sl.Schema({"city": "string"}, {}, {"rider": "string?", "fare": "int"})
NEVER_REWRITTEN = {
    "sleeper.table.deletion.vector.percent.max": "100",
    "sleeper.table.deletion.vector.file.bytes.min": "0",
}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sl.Session]:
    with sl.connect(tmp_path / "warehouse", clock=ManualClock(START), author="ann") as made:
        yield made


def rides(*riders: str) -> list[dict[str, Any]]:
    return [{"city": f"c{at}", "rider": rider, "fare": at} for at, rider in enumerate(riders)]


@pytest.fixture(params=["S3StateStore", "TransactionLogStateStore"])
def table(session: sl.Session, request: pytest.FixtureRequest) -> sl.Table:
    properties = {"sleeper.table.statestore.classname": request.param, **NEVER_REWRITTEN}
    made = session.create_table("t", SCHEMA, properties=properties)
    made.ingest(rides("ann", "bob", "eve"))
    return made


def riders(table: sl.Table, column: str = "rider") -> list[str]:
    return sorted(str(row[column]) for row in rows_in_files(table._store) if column in row)


def purge(table: sl.Table, where: str = "rider = 'bob'", **options: Any) -> PurgeReport:
    return table.maintenance.purge(where, force=True, **options)


def test_a_purge_needs_a_confirmation_and_its_plan_changes_nothing(table: sl.Table):
    table.create_savepoint("before")
    history = [each.id for each in table.history()]
    plan = table.maintenance.purge("rider = 'bob'", dry_run=True)
    with pytest.raises(ConfirmationNeeded, match="1 row of table 't' for good, with 2 snapshots and 1 savepoint") as no:
        table.maintenance.purge("rider = 'bob'")
    assert repr(no.value.plan).splitlines()[:6] == repr(plan).splitlines()[:6]
    assert [each.id for each in table.history()] == history
    assert riders(table) == ["ann", "bob", "eve"]
    done = purge(table, message="asked by bob")
    assert riders(table) == ["ann", "eve"]
    assert [savepoint_label(each) for each in done.savepoints] == ["before"]
    assert table.history()[-1].message == "asked by bob"
    with pytest.raises(NotFound):
        table.at(2)


def test_a_deletion_vector_and_an_update_hide_nothing(table: sl.Table):
    table.delete("rider = 'bob'")
    table.update(new_values={"rider": "nobody"}, where="rider = 'eve'")
    assert riders(table) == ["ann", "bob", "eve", "nobody"]
    purge(table, "rider IN ('bob', 'eve')")
    assert riders(table) == ["ann", "nobody"]
    assert sorted(row["rider"] for row in table.scan().to_arrow().to_pylist()) == ["ann", "nobody"]


def test_a_condition_has_parameters(table: sl.Table):
    table.ingest([{"city": "z", "rider": "max", "fare": 9}])
    done = purge(table, "fare = 9 OR rider = :who", params={"who": "ann"})
    assert (done.deleted, riders(table)) == (2, ["bob", "eve"])


@pytest.mark.parametrize("version", ["", " VERSION AS OF 2"])
def test_a_condition_cannot_read_the_table_as_it_would_mean_other_rows_after_the_deletion(
    table: sl.Table, version: str
):
    before = table._store.head().id
    for dry_run in (True, False):
        with pytest.raises(sl.InvalidInput, match="the condition of a purge cannot read table 't' itself"):
            table.maintenance.purge(f"fare = (SELECT max(fare) FROM t{version})", force=True, dry_run=dry_run)
    assert table._store.head().id == before


def test_files_of_older_columns_are_read_with_the_current_ones(table: sl.Table):
    table.delete("rider = 'bob'")
    table.alter(rename_columns={"rider": "person"}, add_columns={"tip": "int?"}, types={"fare": "long"})
    table.ingest([{"city": "z", "person": "max", "fare": 2**40, "tip": 1}])
    table.maintenance.compact("all")
    purge(table, "person = 'bob' AND tip IS NULL")
    assert riders(table) == ["ann", "eve", "max"]


def test_files_and_savepoints_with_other_keys_go_unread(session: sl.Session):
    table = session.create_table("t", SCHEMA)
    table.ingest(rides("ann", "bob"))
    table.create_savepoint("old-keys")
    properties = Path(session.location) / "config" / "tables" / f"table-{table.entry.id}.properties"
    with_other_keys = sl.Schema({"rider": "string"}, {}, {"fare": "int"})
    kept = [line for line in properties.read_text().splitlines() if not line.startswith("sleeper.table.schema=")]
    properties.write_text(
        "\n".join([*kept, f"sleeper.table.schema={json.dumps(json.loads(with_other_keys.to_json()))}"])
    )
    session.admin.reinitialise("t", delete_partitions=True, force=True)
    table = session.table("t")
    table.ingest([{"rider": "max", "fare": 1}])
    done = purge(table)
    assert riders(table) == ["max"]
    assert (done.unread, [each.name for each in done.savepoints]) == (1, ["old-keys"])
    assert "1 of them not searched" in repr(done)


def test_older_rows_may_lack_values_that_are_required_now(table: sl.Table):
    table.create_savepoint("kept")
    table.alter(not_null={"rider": True})
    table.update(new_values={"rider": "max"}, where="rider = 'bob'")
    plan = table.maintenance.purge("rider = 'nobody'", dry_run=True)
    assert (plan.unread, plan.expired, plan.savepoints) == (0, (), ())
    purge(table)
    assert riders(table) == ["ann", "eve", "max"]


def test_a_wrong_condition_deletes_nothing(table: sl.Table):
    with pytest.raises(InvalidInput):
        purge(table, "driver = 'bob'")
    assert len(table.history()) == 2


def test_all_rows_are_purged_without_a_condition(table: sl.Table):
    with pytest.raises(ConfirmationNeeded):
        table.maintenance.purge()
    table.maintenance.purge(force=True)
    assert riders(table) == []
    assert table.scan().to_arrow().num_rows == 0


def test_a_purge_is_refused_on_an_offline_table(table: sl.Table):
    table.maintenance.offline()
    with pytest.raises(StateRuleBroken, match="offline"):
        purge(table)
    assert table.maintenance.purge("rider = 'bob'", dry_run=True).deleted == 1


def test_added_files_are_named_and_stay_and_their_rows_are_copied(session: sl.Session, tmp_path: Path):
    table = session.create_table("t", SCHEMA)
    rows = pa.Table.from_pylist(rides("ann", "bob"), SCHEMA.arrow)
    pq.write_table(rows, tmp_path / "lake.parquet")
    session.allow(data_paths=[tmp_path])
    table = session.table("t")
    table.add_files(tmp_path / "lake.parquet")
    plan = table.maintenance.purge("rider = 'bob'", dry_run=True)
    done = purge(table)
    for report in (plan, done):
        assert report.others == (str(tmp_path / "lake.parquet"),)
        assert "files of others" in repr(report)
    assert (tmp_path / "lake.parquet").exists()
    assert riders(table) == ["ann"]
    assert purge(table).others == ()


def test_moved_files_are_the_tables_own(session: sl.Session, tmp_path: Path):
    session.create_table("t", SCHEMA)
    pq.write_table(pa.Table.from_pylist(rides("ann", "bob"), SCHEMA.arrow), tmp_path / "lake.parquet")
    session.allow(data_paths=[tmp_path])
    table = session.table("t")
    table.add_files(tmp_path / "lake.parquet", move=True)
    assert purge(table).others == ()
    assert riders(table) == ["ann"]


def test_files_of_no_version_are_counted_with_what_deletes_them(table: sl.Table):
    table._store.storage.write("data/partition_root/stray.parquet", b"of a writer that was killed")
    done = purge(table)
    assert done.strays == 1
    assert "1 data file of no version, not searched: table.maintenance.sweep_orphans(dry_run=False)" in repr(done)


def test_a_reader_with_a_lease_keeps_its_files_until_it_ends(session: sl.Session, table: sl.Table):
    release = session._components.leases.hold(table.entry.id, 2, "sql")
    done = purge(table)
    assert (done.complete, [each.author for each in done.readers]) == (False, ["ann"])
    assert "bob" in riders(table)
    release()
    assert purge(table).complete
    assert riders(table) == ["ann", "eve"]


def test_upkeep_goes_on_after_a_purge(table: sl.Table):
    purge(table)
    table.ingest(rides("max"))
    table.maintenance.compact("all")
    table._store.clock.sleep(timedelta(days=30).total_seconds())
    table.maintain()
    assert table.maintenance.check(deep=True).ok
    assert sorted(row["rider"] for row in table.scan().to_arrow().to_pylist()) == ["ann", "eve", "max"]


@pytest.mark.spark
def test_spark_finds_the_same_rows(table: sl.Table):
    table.delete("rider = 'bob'")
    purge(table, "rider IN ('bob', 'eve')", engine="spark")
    assert riders(table) == ["ann"]


KEY = "cust-4711-geheim"


def files_with(value: str, folder: Path) -> list[str]:
    """Return the files below a folder that have a value anywhere in their bytes."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and value.encode() in path.read_bytes())


@pytest.mark.parametrize("kind", ["S3StateStore", "TransactionLogStateStore"])
def test_no_byte_below_the_warehouse_has_a_purged_value(session: sl.Session, kind: str):
    """Neither data, metadata and statistics, nor a savepoint's files, the reasons of jobs or the catalog's own file."""
    schema = sl.Schema({"k": "string"}, {}, {"v": "string?", "n": "int"}, unique_keys=True)
    table = session.create_table("p", schema, state_store=kind, properties=NEVER_REWRITTEN)
    table.create_savepoint("empty")
    table.ingest([{"k": "a", "v": "x", "n": 1}, {"k": KEY, "v": KEY, "n": 1}, {"k": "z", "v": "y", "n": 2}])
    table.create_savepoint("one", message=f"with {KEY}")
    for job, wrong in (("1", {"k": KEY, "v": "again", "n": 3}), ("2", {"k": "q", "v": "again", "n": KEY})):
        with pytest.raises(sl.InvalidInput, match=KEY):
            table.ingest([wrong], job_id=job)
    table.update(new_values={"n": 7}, where=f"k = '{KEY}'", message=f"about {KEY}")
    table.maintenance.split(at="m")
    table.delete(f"k = '{KEY}'")
    table.maintenance.compact("all")
    table.ingest([{"k": "b", "v": KEY, "n": 1}])
    warehouse = Path(session.location)
    assert "catalog.sqlite-wal" in files_with(KEY, warehouse)
    with sl.connect(warehouse.parent) as other:
        other.table("p").scan().to_arrow()
        done = table.maintenance.purge("k = :who OR v = :who", params={"who": KEY}, force=True)
        assert (done.reasons, done.quoting, done.log_kept) == (2, (), False)
        assert "reasons of jobs" in repr(done)
        assert files_with(KEY, warehouse) == []
        assert {job.reason for job in table.inspect.jobs("failed")} == {"removed by a purge"}
    assert files_with(KEY, warehouse) == []
    assert [each.name for each in table.savepoints()] == ["empty"]
    assert table.maintenance.check(deep=True).ok


def test_what_quotes_a_value_and_stays_is_named(session: sl.Session, tmp_path: Path):
    table = session.create_table("p", SCHEMA, ["bob", "c"])
    table.ingest([{"city": "bob", "rider": "r", "fare": 1}])
    bad = tmp_path / "bad rows.parquet"
    rows = pa.table({"city": ["bob", "d"], "rider": ["r", "s"], "fare": ["five", "5"]})
    table.ingest(rows, quarantine=str(bad), message="monday")
    plan = table.maintenance.purge("city = 'bob'", dry_run=True)
    table.ingest([{"city": "e", "rider": "s", "fare": 1}], message="not of bob")
    table.ingest([{"city": "f", "rider": "s", "fare": 1}], message="of bobby")
    done = table.maintenance.purge("city = 'bob'", force=True)
    assert plan.quarantined == done.quarantined == (str(bad),)
    assert (plan.quoting, done.quoting) == (("1 split point",), ("1 split point",))
    again = table.maintenance.purge("city = 'bob'", force=True, message="no bob")
    assert (again.deleted, again.quarantined) == (0, ())
    kept = session.create_table("q", SCHEMA)
    kept.ingest([{"city": "d", "rider": "s", "fare": 1}], message="not of bob")
    kept.create_savepoint("no-bob")
    kept.ingest([{"city": "e", "rider": "s", "fare": 1}], message="of bobby")
    named = kept.maintenance.purge("city = 'bob'", force=True)
    assert named.quoting == ("message of snapshot 2", "savepoint no-bob")
    assert "stay: texts with such a value" in repr(named)
    assert bad.exists()


def test_each_text_of_the_table_that_quotes_a_value_is_named(session: sl.Session):
    checks = {"no_bob": "rider <> 'bob'"}
    schema = sl.Schema({"city": "string"}, {}, {"rider": "string?", "fare": "int"}, checks=checks, comment="of bob")
    table = session.create_table("p", schema)
    table.ingest([{"city": "a", "rider": "r", "fare": 1}], job_id="load of bob")
    table.ingest([{"city": "b", "rider": "r", "fare": 1}], job_id="load of bobby")
    table.alter(comments={"city": "where bob was"}, defaults={"rider": "bob"})
    table.alter(defaults={"rider": None})
    table.set_properties({"sleeper.table.expect": "rider IS NULL OR rider <> 'bob'"})
    bob = "rider = 'bob'"
    named = {
        "job id 'load of bob'",
        "comment of the table",
        "check no_bob",
        "comment of column city",
        "default of column rider in schema/schema-2",
        "comment of column city in schema/schema-2",
        "comment of the table in schema/schema-1",
        "check no_bob in schema/schema-1",
        "comment of the table in schema/schema-2",
        "check no_bob in schema/schema-2",
        "property sleeper.table.expect",
    }
    assert set(table.maintenance.purge(bob, dry_run=True).quoting) == named
    assert set(table.maintenance.purge(bob, force=True).quoting) == named
    table._store.clock.sleep(timedelta(days=30).total_seconds())
    table.ingest([{"city": "c", "rider": "r", "fare": 1}], job_id="next")
    assert [each.id for each in table.inspect.jobs()] == ["next"]
    assert "job id 'load of bob'" in table.maintenance.purge(bob, dry_run=True).quoting


def test_a_damaged_file_of_an_earlier_schema_holds_up_no_purge(session: sl.Session):
    table = session.create_table("p", SCHEMA)
    for comment in ("of bob", "of nobody"):
        table.alter(comments={"rider": comment})
    table.ingest(rides("bob", "eve"))
    table.maintenance.purge("rider = 'eve'", force=True)
    path = Path(session.location) / table.entry.id / "schema" / "schema-2"
    path.write_bytes(path.read_bytes()[:-9])
    with sl.connect(Path(session.location).parent) as other:
        done = other.table("p").maintenance.purge("rider = 'bob'", force=True)
    assert (done.deleted, done.quoting) == (1, ("schema/schema-2",))


def test_kept_back_rows_are_named_also_when_only_a_job_knows_their_file(session: sl.Session, tmp_path: Path):
    table = session.create_table("p", SCHEMA)
    one, two = tmp_path / "one.parquet", tmp_path / "two.parquet"
    rows = pa.table({"city": ["bob"], "rider": ["r"], "fare": ["five"]})
    table.ingest(rows, quarantine=str(one), job_id="1")
    assert table.inspect.jobs()[0].reason == f"1 row kept back in {one}"
    table.ingest(rows, quarantine=str(two))
    with pytest.raises(sl.AlreadyExists):
        table.ingest(rows, quarantine=str(two), job_id="2")
    plan = table.maintenance.purge("city = 'bob'", dry_run=True)
    done = table.maintenance.purge("city = 'bob'", force=True)
    assert plan.quarantined == done.quarantined == (str(two), str(one))
    assert "stay: rows kept back by loads" in repr(done)


def test_a_log_that_another_session_holds_is_named(table: sl.Table, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(type(table._store.catalog), "overwrite_deleted", lambda _: False)
    done = purge(table)
    assert done.log_kept
    assert "other sessions keep deleted rows in the catalog's write-ahead log" in repr(done)


def test_copies_of_metadata_in_the_cache_go_too(table: sl.Table, tmp_path: Path):
    cache = FileCache(tmp_path / "cache", 1 << 20)
    table._store.storage.cache = cache
    cache.put("s3://bucket/file", "0" * 16, b"bob")
    assert list((tmp_path / "cache").iterdir())
    purge(table)
    assert not list((tmp_path / "cache").iterdir())
