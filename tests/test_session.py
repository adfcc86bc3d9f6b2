import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

import sleeper_nb as sl
from sleeper_nb.admin.instances import is_slip
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import InvalidInput, show_for
from sleeper_nb.session.table_opener import TableOpener

SCHEMA = sl.Schema({"city": "string"}, {"at": "timestamp"}, {"fare": "double?"})


def rows(*cities):
    return [{"city": city, "at": datetime(2026, 1, 1, tzinfo=UTC), "fare": 1.5} for city in cities]


@pytest.fixture
def session(tmp_path):
    with sl.connect(tmp_path, clock=ManualClock()) as opened:
        yield opened


@pytest.fixture
def trips(session):
    return session.create_table("trips", SCHEMA, ["g", "n"])


def files_of(session):
    return {path.relative_to(Path(session.location)).as_posix() for path in Path(session.location).rglob("*.parquet")}


def test_a_new_folder_is_a_new_warehouse_and_an_instance_is_a_folder_in_it(tmp_path):
    with sl.connect(tmp_path / "new", "mine") as session:
        session.create_table("trips", SCHEMA)
    assert (tmp_path / "new" / "mine" / "catalog.sqlite").exists()
    with sl.connect(tmp_path / "new", "mine") as again, sl.connect(tmp_path / "new", "other") as other:
        assert [table.name for table in again.tables()] == ["trips"]
        assert not other.tables()


def test_a_slip_in_the_name_of_a_warehouse_makes_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sl.connect("./warehouse", "prod").close()
    with pytest.raises(InvalidInput) as error:
        sl.connect("./warehose")
    assert str(error.value) == (
        "there is no warehouse ./warehose, but there is ./warehouse\n"
        "hint: open that one: sleeper_nb.connect('./warehouse'); "
        "or make a new one: sleeper_nb.connect('./warehose', new=True)"
    )
    assert list(Path().iterdir()) == [Path("warehouse")]
    sl.connect("./warehose", new=True).close()
    sl.connect("./warehose").close()
    Path("warehouses").mkdir()  # made by hand, so meant
    sl.connect("warehouses").close()
    Path("sample-set").mkdir()  # a folder that is no warehouse
    for other in ("warehouse2", "warehouse-old", "warehouse_a", "house", "sample-sets", "no/warehose"):
        sl.connect(other).close()


@pytest.mark.parametrize(
    ("name", "other", "near"),
    [("warehose", "warehouse", True), ("wraehouse", "warehouse", True), ("warehpuse", "warehouse", True),
     ("warehousee", "warehouse", True), ("Warehouse", "warehouse", True), ("ware-house", "warehouse", True),
     ("demo-warehuse", "demo-warehouse", True), ("flights-2013", "flights-2014", False), ("sales_a", "sales_b", False),
     ("here", "there", False), ("a", "b", False), ("house", "warehouse", False), ("warehouse", "warehouse", False)],
)  # fmt: skip
def test_a_slip_is_one_letter_of_a_long_word(name, other, near):
    assert (is_slip(name, other), is_slip(other, name)) == (near, near)


def test_a_warehouse_can_be_moved_whole(tmp_path):
    with sl.connect(tmp_path / "a") as session:
        session.create_table("trips", SCHEMA).ingest(rows("rome"))
    (tmp_path / "a").rename(tmp_path / "b")
    with sl.connect(tmp_path / "b") as session:
        assert session.table("trips").scan().to_pandas()["city"].tolist() == ["rome"]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_warehouse_that_was_deleted_takes_no_change_until_it_is_opened_again(tmp_path, session, trips, replaced):
    trips.ingest(rows("rome"))  # so that nothing of the table has to be read again
    shutil.rmtree(tmp_path / "default")
    if replaced:
        sl.connect(tmp_path).close()
    for change in (
        lambda: session.create_table("other", SCHEMA),
        lambda: trips.ingest(rows("rome")),
        lambda: session.rename_table("trips", "journeys"),
    ):
        with pytest.raises(sl.StorageError) as caught:
            change()
        what = "was replaced" if replaced else "was deleted"
        assert caught.value.message == f"the catalog of {tmp_path / 'default'} {what} since it was opened"
        assert caught.value.hint == f"nothing was changed; open it again: sleeper_nb.connect({str(tmp_path)!r})"
        show_for(caught.value, "%sleeper")
        assert caught.value.hint == f"nothing was changed; open it again: %sleeper use {tmp_path}"
    with sl.connect(tmp_path) as again:
        assert not again.tables()
        assert again.create_table("trips", SCHEMA).ingest(rows("rome")).rows == 1


def test_the_line_that_opens_a_deleted_warehouse_again_names_its_folder_and_instance(tmp_path):
    with sl.connect(tmp_path / "a place", "test") as session:
        shutil.rmtree(tmp_path / "a place" / "test")
        with pytest.raises(sl.StorageError) as caught:
            session.create_table("trips", SCHEMA)
    assert caught.value.hint.endswith(f"sleeper_nb.connect({str(tmp_path / 'a place')!r}, 'test')")
    show_for(caught.value, "sleeper")
    assert caught.value.hint.endswith(f" sleeper use '{tmp_path / 'a place'}' --instance test")


def test_storage_of_another_kind_is_refused_with_what_to_type_instead():
    with pytest.raises(sl.InvalidInput, match="gs://bucket") as caught:
        sl.connect("gs://bucket/prefix")
    assert "s3://bucket/prefix" in caught.value.hint


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("2trips", SCHEMA), "is not a valid table name"),
        (("trips", SCHEMA, ["n", "g"]), "does not come after"),
        (("trips", SCHEMA, ["n", "n"]), "does not come after"),
        (("trips", SCHEMA, [3]), "not a value of row key"),
        (("trips", sl.Schema({"n": "int"}), ["x"]), "not a value of row key"),
    ],
)
def test_a_table_that_cannot_be_made_leaves_nothing(session, arguments, words):
    with pytest.raises(sl.InvalidInput, match=words):
        session.create_table(*arguments)
    assert not session.tables()
    assert {path.name for path in Path(session.location).iterdir()} <= {
        "catalog.sqlite",
        "catalog.sqlite-wal",
        "catalog.sqlite-shm",
        "catalog.sqlite-reserve",
    }


def test_unknown_property_names_the_nearest(session):
    with pytest.raises(sl.NotFound, match=r"gc\.delay") as caught:
        session.create_table("trips", SCHEMA, properties={"sleeper.table.gc.delay.minute": "3"})
    assert "sleeper.table.gc.delay.minutes" in caught.value.hint
    with pytest.raises(sl.InvalidInput, match="cannot be 'soon'"):
        session.create_table("trips", SCHEMA, properties={"sleeper.table.gc.delay.minutes": "soon"})
    with pytest.raises(sl.InvalidInput, match="cannot be 'OtherStore'"):
        session.create_table("trips", SCHEMA, state_store="OtherStore")


def test_a_table_that_exists_stays_as_it_is(session, trips):
    trips.ingest(rows("rome"))
    for name in ("trips", "TRIPS"):  # SQL would not tell them apart
        with pytest.raises(sl.AlreadyExists, match="already exists"):
            session.create_table(name, SCHEMA)
    assert trips.scan().count() == 1
    assert len(list((Path(session.location) / "config" / "tables").iterdir())) == 1


def test_unknown_table_names_the_nearest(session, trips):
    with pytest.raises(sl.NotFound) as caught:
        session.table("tripps")
    assert caught.value.hint == "did you mean 'trips'?"


def test_each_ingest_is_one_snapshot_and_no_rows_are_none(trips):
    assert trips.ingest(rows("rome", "oslo")).snapshot_id == 2
    assert trips.ingest(pd.DataFrame(rows("lima"))).snapshot_id == 3
    assert trips.ingest([]).snapshot_id == 3
    assert [snapshot.rows for snapshot in trips.history()] == [3, 2, 0]
    assert [snapshot.added_rows for snapshot in trips.history()] == [1, 2, 0]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([{"city": "rome", "fare": 1.0}], "missing column 'at'"),
        ([{**rows("rome")[0], "tip": 1}], "unknown column 'tip'"),
        ([{**rows("rome")[0], "city": None}], "'city' has 1 null"),
        ([{**rows("rome")[0], "fare": "much"}], "'fare'"),
        (42, "cannot ingest a value of type int"),
    ],
)
def test_rows_that_do_not_fit_add_nothing(session, trips, data, words):
    before = files_of(session)
    with pytest.raises(sl.InvalidInput, match=words):
        trips.ingest(data)
    assert trips.history()[0].id == 1
    assert files_of(session) == before


def test_a_version_is_read_as_it_was(trips):
    for city in ("rome", "oslo", "lima"):
        trips.ingest(rows(city))
    old = trips.at(3)
    trips.maintenance.compact("all", engine="local")
    assert old.scan().count() == trips.at("snapshot.3").scan().count() == 2
    assert trips.scan(version=2).to_pandas()["city"].tolist() == ["rome"]
    assert not hasattr(old, "ingest")


def test_a_moment_is_the_newest_version_at_or_before_it(session, trips):
    clock = session._components.clock
    times = []
    for city in ("rome", "oslo"):
        clock.advance(timedelta(hours=1))
        times.append(trips.ingest(rows(city)).snapshot.time)
    assert trips.at(timestamp=times[0]).resolved.snapshot_id == 2
    assert trips.at(timestamp=times[1] - timedelta(microseconds=1)).resolved.snapshot_id == 2
    assert trips.at(timestamp="2100-01-01").resolved.snapshot_id == 3
    with pytest.raises(sl.NotFound, match="no version") as caught:
        trips.at(timestamp="1999-01-01 00:00:00")
    assert "2026-01-01 00:00:00 UTC" in caught.value.hint


def test_version_and_timestamp_together_are_refused(trips):
    with pytest.raises(sl.InvalidInput, match="a version and a timestamp"):
        trips.at(1, timestamp="2026-01-01")


def test_savepoint_outlives_expiry_and_garbage_collection(session, trips):
    trips.ingest(rows("rome", "zagreb"))
    savepoint = trips.create_savepoint("keep", "for the report")
    trips.ingest(rows("oslo"))
    trips.maintenance.compact("all", engine="local")
    session._components.clock.advance(timedelta(days=30))
    trips.maintenance.expire(dry_run=False, num_retained_min=1)
    trips.maintenance.collect_garbage(dry_run=False, delay=timedelta(0))
    assert sorted(trips.scan(version="savepoint.keep").to_pandas()["city"]) == ["rome", "zagreb"]
    assert trips.at(timestamp=savepoint.snapshot_time).resolved.version == savepoint
    trips.delete_savepoint("keep", force=True)
    with pytest.raises(sl.NotFound, match="no savepoint 'keep'"):
        trips.at("savepoint.keep")
    with pytest.raises(sl.AlreadyExists, match="was used before"):
        trips.create_savepoint("keep")


def test_a_savepoint_can_be_created_unless_it_exists(trips):
    first = trips.create_savepoint("keep", "for the report", if_not_exists=True)
    trips.ingest(rows("rome"))
    assert trips.create_savepoint("keep", "again", if_not_exists=True) == first
    assert [each.id for each in trips.savepoints()] == [first.id]
    with pytest.raises(sl.AlreadyExists) as raised:
        trips.create_savepoint("keep")
    assert raised.value.hint == "savepoint 1 of snapshot 1 has it; to keep that one: if_not_exists=True"
    trips.delete_savepoint("keep", force=True)
    with pytest.raises(sl.AlreadyExists, match="was used before"):
        trips.create_savepoint("keep", if_not_exists=True)


def test_savepoint_file_has_the_names_of_the_proposal(session, trips):
    trips.ingest(rows("rome"))
    savepoint = trips.create_savepoint("first")
    path = Path(session.location) / trips.entry.id / "savepoint" / "savepoint-1"
    assert sl.Savepoint.from_json(path.read_text()) == savepoint
    for name in ("id", "savedSnapshotId", "schemaId", "fullManifestList", "recordCount"):
        assert f'"{name}"' in path.read_text()


def test_dry_runs_change_nothing_and_equal_the_real_run(session, trips):
    for city in ("rome", "oslo", "lima", "rome"):
        trips.ingest(rows(city))
    before = files_of(session)
    plan = trips.maintenance.compact("all", dry_run=True)
    assert files_of(session) == before
    done = trips.maintenance.compact("all", engine="local")
    assert [job.filenames for job in done.jobs] == [job.filenames for job in plan.jobs]
    session._components.clock.advance(timedelta(days=30))
    would = trips.maintenance.expire(num_retained_min=1)
    assert would.expired == trips.maintenance.expire(dry_run=False, num_retained_min=1).expired
    would = trips.maintenance.collect_garbage(delay=timedelta(0))
    did = trips.maintenance.collect_garbage(dry_run=False, delay=timedelta(0))
    assert (would.data_files, would.metadata_files) == (did.data_files, did.metadata_files)
    assert would.data_files
    assert not set(would.data_files) & {name.partition("/")[2] for name in files_of(session)}


def test_metadata_parquet_answers_sql_without_spark(trips):
    trips.ingest(rows("rome", "oslo", "alba"))
    answer = trips.inspect.query("SELECT partition_id, rows, min_city FROM files ORDER BY min_city").to_dict()
    assert answer["min_city"] == ["alba", "oslo"]
    assert trips.inspect.query("SELECT count(*) AS n FROM partitions WHERE leaf_partition").to_dict() == {"n": [3]}
    assert trips.at(1).inspect.query("SELECT count(*) AS n FROM files").to_dict() == {"n": [0]}
    assert trips.inspect.query("SELECT max(snapshot_id) AS n FROM snapshots").to_dict() == {"n": [2]}
    with pytest.raises(sl.InvalidInput, match="DuckDB: "):
        trips.inspect.query("SELECT nothing FROM files")


def test_values_show_themselves_escaped(session, trips):
    trips.ingest(rows("<script>alert(1)</script>"), message="<b>bold</b>")
    for value in (
        session.tables(),
        trips,
        trips.history(),
        trips.inspect.files(),
        trips.inspect.partitions(),
        trips.scan(),
    ):
        html = value._repr_html_()
        assert "<script" not in html
        assert "<b>bold" not in html
        assert html == value._repr_html_()
        assert repr(value)


def test_a_table_in_dynamodb_needs_a_dynamodb_catalog_and_nothing_is_left_of_it(tmp_path):
    with sl.connect(tmp_path) as session:
        with pytest.raises(sl.InvalidInput, match="DynamoDBStateStore needs a DynamoDB catalog"):
            session.create_table("trips", sl.Schema({"city": "string"}), state_store="DynamoDBStateStore")
        assert len(session.tables()) == 0
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and "catalog.sqlite" not in path.name]


def test_the_state_store_and_its_patience_are_properties(tmp_path):
    name = "sleeper.table.statestore"
    with sl.connect(tmp_path) as session:
        table = session.create_table(
            "trips",
            SCHEMA,
            properties={
                f"{name}.classname": "TransactionLogStateStore",
                f"{name}.commit.max.attempts": "3",
                f"{name}.commit.max.retry.wait.ceiling.ms": "500",
            },
        )
        assert table._store.head().state_store == "TransactionLogStateStore"
        assert (table._store.retry.max_attempts, table._store.retry.max_wait) == (3, 0.5)
        with pytest.raises(sl.InvalidInput, match=r"max\.attempts cannot be '0'"):
            session.create_table("other", SCHEMA, properties={f"{name}.commit.max.attempts": "0"})


@pytest.mark.parametrize(("given", "waits"), [({}, True), ({"sleeper.storage.sync": "false"}, False)])
def test_a_commit_waits_for_the_disk_unless_the_instance_says_not_to(tmp_path, monkeypatch, given, waits):
    waited = []
    monkeypatch.setattr(os, "fsync", waited.append)
    with sl.connect(tmp_path, properties=given) as session:
        session.create_table("t", sl.Schema({"a": "int"})).ingest([{"a": 1}])
    assert bool(waited) == waits


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM trips WHERE city = 'oslo'",
        "UPDATE trips SET fare = 2 WHERE city = 'oslo'",
        "MERGE INTO trips USING (SELECT 'oslo' AS city) s ON trips.city = s.city WHEN MATCHED THEN DELETE",
        "INSERT OVERWRITE trips SELECT * FROM trips",
    ],
)
def test_a_statement_that_changes_rows_opens_its_table_once(session, trips, statement, monkeypatch):
    trips.ingest(rows("oslo", "rome"))
    opened, open_table = [], TableOpener.open
    monkeypatch.setattr(TableOpener, "open", lambda self, entry: opened.append(entry.name) or open_table(self, entry))
    session.sql(statement, force=True, engine="duckdb")
    assert opened == ["trips"]
