"""The proposal of savepoints for Paimon, sentence by sentence: each test is named after one of its public interfaces,
proposed changes and usages. Flink's actions are commands here, and its streaming reads are Spark's.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb import cli
from sleeper_nb.clock import Clock, ManualClock

START = datetime(2026, 11, 1, 10, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SCHEMA = sl.Schema({"city": "string"}, {}, {"fare": "int?"})
CITIES = ("rome", "oslo", "alba")
spark = pytest.mark.spark


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def session(tmp_path: Path, clock: ManualClock, request: pytest.FixtureRequest) -> Iterator[sl.Session]:
    given = request.getfixturevalue("spark_engine").session() if "spark" in request.node.keywords else None
    with sl.connect(tmp_path / "warehouse", clock=clock, author="ann", spark=given) as opened:
        yield opened


@pytest.fixture
def t(session: sl.Session, clock: ManualClock) -> sl.Table:
    """Snapshot 1 has no row, and each hour a row comes: 2 at 11:00, 3 at 12:00, 4 at 13:00. Savepoint 1 saves 3."""
    table = session.create_table("t", SCHEMA, ["m"])
    for number, city in enumerate(CITIES, 1):
        clock.advance(HOUR)
        table.ingest([{"city": city, "fare": number}])
        if number == 2:
            table.create_savepoint("fix", "for the report")
    return table


@pytest.fixture
def expired(t: sl.Table, clock: ManualClock) -> sl.Table:
    """The table with its current snapshot alone, and what garbage collection left."""
    clock.advance(30 * DAY)
    t.maintenance.compact("all", engine="local")
    t.maintenance.expire(dry_run=False, time_retained=timedelta(0), num_retained_min=1)
    t.maintenance.collect_garbage(dry_run=False, delay=timedelta(0))
    return t


@pytest.fixture
def asked(session: sl.Session, request: pytest.FixtureRequest) -> Callable[[str], list[str]]:
    """The cities that a query gives: on Spark where the test says so; one rule finds the version for every engine."""
    engine = "spark" if request.node.get_closest_marker("spark") else "duckdb"

    def ask(query: str) -> list[str]:
        return sorted(row["city"] for row in session.sql(query, engine=engine).to_arrow().to_pylist())

    return ask


# Public Interfaces: Savepoint


def test_we_need_an_entrance_class_savepoint_to_store_the_information_of_a_savepoint(t: sl.Table):
    """One class has what a savepoint is; its values are read by name and never change."""
    one = t.savepoints()[0]
    assert isinstance(one, sl.Savepoint)
    assert [field.name for field in dataclasses.fields(one)][:4] == [
        "id", "saved_snapshot_id", "schema_id", "full_manifest_list",
    ]  # fmt: skip
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.id = 2


def test_id_is_used_for_identifying_a_savepoint(t: sl.Table):
    """No two savepoints have had one id, a deleted one neither."""
    one = t.create_savepoint()
    t.delete_savepoint(one.id, force=True)
    two = t.create_savepoint()
    assert [saved.id for saved in t.savepoints()] == [1, two.id]
    assert two.id not in {1, one.id}
    assert t.at(f"savepoint.{two.id}").resolved.version == two


def test_which_snapshot_does_this_savepoint_save(t: sl.Table):
    """The number of the snapshot that was current, or that was named."""
    assert t.savepoints()[0].saved_snapshot_id == 3
    assert t.create_savepoint().saved_snapshot_id == t.at().resolved.snapshot_id == 4
    assert t.create_savepoint(snapshot=2).saved_snapshot_id == 2


def test_id_of_the_current_table_schema_of_the_records_in_this_savepoint(t: sl.Table):
    """The schema that the records are read with."""
    one = t.savepoints()[0]
    assert one.schema_id == t.history()[0].schema_id == 1
    assert t.at("savepoint.1").schema == SCHEMA


def test_the_manifest_list_of_all_data_of_this_savepoint(t: sl.Table, expired: sl.Table):
    """A file below the table's folder that lists every data file of the savepoint, and stays with it."""
    one = t.savepoints()[0]
    listed = pq.read_table(folder(t) / one.full_manifest_list)
    active = listed.filter([status == "ACTIVE" for status in listed["status"].to_pylist()])
    assert sum(active["rows"].to_pylist()) == one.record_count
    assert all((folder(t) / name).is_file() for name in active["filename"].to_pylist())


def folder(table: sl.Table) -> Path:
    return Path(table.savepoint_manager.savepoint_directory()).parent


def test_how_many_records_in_this_savepoint(t: sl.Table):
    """As many as a query counts there."""
    assert t.savepoints()[0].record_count == t.scan(version="savepoint.1").count() == 2


def test_return_all_manifest_file_metas_for_full_data_manifests_in_this_snapshot(t: sl.Table):
    """The metadata of the files that list all data files: here of one Parquet file, which lists them all."""
    one = t.savepoints()[0]
    (manifest,) = one.data_manifests(t.savepoint_manager.manifest_list)
    assert manifest.file_name == one.full_manifest_list
    assert manifest.file_size == (folder(t) / manifest.file_name).stat().st_size
    assert (manifest.num_added_files, manifest.num_deleted_files) == (len(t.at("savepoint.1").inspect.files()), 0)
    assert manifest.schema_id == one.schema_id


def test_serialize_to_json(t: sl.Table):
    """The proposal's names, and numbers for what it calls long; the list of manifests is a file's name here."""
    body = json.loads(t.savepoints()[0].to_json())
    assert {name: body[name] for name in ("id", "savedSnapshotId", "schemaId", "recordCount")} == {
        "id": 1, "savedSnapshotId": 3, "schemaId": 1, "recordCount": 2,
    }  # fmt: skip
    assert body["fullManifestList"] == t.savepoints()[0].full_manifest_list


def test_deserialize_from_json(t: sl.Table):
    """What was serialized comes back equal; what never was is refused."""
    one = t.savepoints()[0]
    assert sl.Savepoint.from_json(one.to_json()) == one
    with pytest.raises(sl.InvalidInput, match="not a savepoint"):
        sl.Savepoint.from_json('{"id": 1}')


def test_get_a_savepoint_from_path(t: sl.Table):
    """From its file, which is named by its qualified path, and what reads files."""
    manager = t.savepoint_manager
    assert sl.Savepoint.from_path(manager.files, manager.savepoint_path(1)) == t.savepoints()[0]
    with pytest.raises(sl.NotFound):
        sl.Savepoint.from_path(manager.files, manager.savepoint_path(2))


# Public Interfaces: SavepointManager


def test_we_need_a_savepoint_manager_to_manage_the_savepoints(t: sl.Table):
    """Each table has one."""
    assert isinstance(t.savepoint_manager, sl.SavepointManager)


def test_return_the_root_directory_of_savepoints(t: sl.Table, session: sl.Session):
    """One folder of the table has all of them."""
    assert t.savepoint_manager.savepoint_directory() == f"{session.location}/{t.entry.id}/savepoint"


def test_return_the_path_of_a_savepoint(t: sl.Table):
    """Where its file is, or would be."""
    assert Path(t.savepoint_manager.savepoint_path(1)).is_file()
    assert not Path(t.savepoint_manager.savepoint_path(7)).exists()


def test_get_a_savepoint_instance(t: sl.Table):
    """By its id; the error for another one names those that there are."""
    assert t.savepoint_manager.savepoint(1) == t.savepoints()[0]
    with pytest.raises(sl.NotFound, match="available: 1"):
        t.savepoint_manager.savepoint(7)


def test_check_if_a_savepoint_exists(t: sl.Table):
    """It does when it was made and not deleted; a file alone is none."""
    manager = t.savepoint_manager
    Path(manager.savepoint_path(7)).write_text(t.savepoints()[0].to_json())
    assert (manager.savepoint_exists(1), manager.savepoint_exists(7)) == (True, False)
    t.delete_savepoint(1, force=True)
    assert not manager.savepoint_exists(1)


def test_return_id_of_the_earliest_savepoint(session: sl.Session, t: sl.Table):
    """The least; None where there is no savepoint."""
    t.create_savepoint()
    assert t.savepoint_manager.earliest_savepoint_id() == 1
    t.delete_savepoint(1, force=True)
    assert t.savepoint_manager.earliest_savepoint_id() == 2
    assert session.create_table("empty", SCHEMA).savepoint_manager.earliest_savepoint_id() is None


def test_return_id_of_the_latest_savepoint(session: sl.Session, t: sl.Table):
    """The greatest; None where there is no savepoint."""
    t.create_savepoint()
    assert t.savepoint_manager.latest_savepoint_id() == 2
    t.delete_savepoint(2, force=True)
    assert t.savepoint_manager.latest_savepoint_id() == 1
    assert session.create_table("empty", SCHEMA).savepoint_manager.latest_savepoint_id() is None


# Proposed Changes: Storage


def test_like_snapshot_a_new_directory_savepoint_will_be_created_under_table_directory(session: sl.Session):
    """It comes with the first savepoint, beside the folder of the snapshots' metadata."""
    table = session.create_table("t", SCHEMA)
    directory = Path(table.savepoint_manager.savepoint_directory())
    assert not directory.exists()
    table.create_savepoint()
    assert directory.is_dir()
    assert (directory.parent / "statestore").is_dir()


def test_the_qualified_path_for_a_savepoint_file_is_path_to_table_savepoint_savepoint_id(t: sl.Table):
    """``/path/to/table/savepoint/savepoint-<id>``."""
    path = t.savepoint_manager.savepoint_path(12)
    assert path == f"{folder(t)}/savepoint/savepoint-12"
    assert Path(path).is_absolute()


# Proposed Changes: Creation & Deletion


def test_we_can_provide_two_ways_for_user_to_control_the_creation_and_deletion_of_savepoints(
    session: sl.Session, clock: ManualClock
):
    """By options of the table, and by hand; each savepoint says which it was."""
    options = {"savepoint.create-interval": "1 d", "savepoint.num-retained.max": "1"}
    table = session.create_table("t", SCHEMA, properties=options)
    table.create_savepoint("by-hand")
    for city in CITIES:
        table.ingest([{"city": city}])
        clock.advance(DAY)
    assert [saved.periodic for saved in table.savepoints()] == [False, True, True, True]
    table.maintain()
    assert [saved.periodic for saved in table.savepoints()] == [False, True]
    table.delete_savepoint("by-hand", force=True)
    assert [saved.periodic for saved in table.savepoints()] == [True]


def test_we_can_periodically_create_savepoints_according_to_user_configuration(session: sl.Session, clock: ManualClock):
    """At most one in each interval, of what the table is then."""
    table = session.create_table("t", SCHEMA, properties={"savepoint.create-interval": "1 d"})
    for _ in range(6):
        table.ingest([{"city": "rome"}])
        clock.advance(DAY / 2)
    assert [saved.saved_snapshot_id for saved in table.savepoints()] == [2, 4, 6]
    assert not session.create_table("other", SCHEMA).ingest([{"city": "rome"}]).grid().footer


@pytest.mark.parametrize("text", ["1 d", "1d", "24 h", "PT24H", "P1D", "1 day"])
def test_a_new_core_option_will_be_introduced_savepoint_create_interval_of_duration_type(
    session: sl.Session, text: str
):
    """It takes a duration as people and tools write one; what is none names the option, and what to type."""
    table = session.create_table("t", SCHEMA, properties={"savepoint.create-interval": text})
    assert table.at().properties["savepoint.create-interval"] == DAY
    with pytest.raises(sl.InvalidInput, match=r"savepoint\.create-interval cannot be 'daily'") as error:
        session.create_table("u", SCHEMA, properties={"savepoint.create-interval": "daily"})
    assert "PT30M" in error.value.hint


def test_in_case_that_user_wants_to_manually_create_or_delete_a_savepoint_we_introduce_two_actions(
    shell: Any, tmp_path: Path
):
    """The magics and the console have both, and they do the same."""
    for line in (f"use {tmp_path}/w", "create t --schema t.ddl", "create-savepoint t", "delete-savepoint t --id 1"):
        (tmp_path / "t.ddl").write_text("city STRING KEY")
        answer = shell.run_line_magic("sleeper", line)
    assert answer.savepoint.id == 1
    assert cli.main(["--warehouse", f"{tmp_path}/w", "create-savepoint", "t"]) == 0
    assert [saved.id for saved in shell.run_line_magic("sleeper", "savepoints t")] == [2]
    assert cli.main(["--warehouse", f"{tmp_path}/w", "delete-savepoint", "t", "--id", "2"]) == 0
    assert len(shell.run_line_magic("sleeper", "savepoints t")) == 0


def test_create_savepoint_to_create_a_savepoint_at_current_time_point(t: sl.Table, session: sl.Session):
    """Of the version that is current, at this moment."""
    assert cli.main(["--warehouse", str(Path(session.location).parent), "create-savepoint", "t", "-m", "why"]) == 0
    made = t.savepoints()[-1]
    assert (made.id, made.saved_snapshot_id, made.message) == (2, 4, "why")
    assert abs(made.save_time - Clock().now()) < DAY  # the console has the system's clock


def test_delete_savepoint_id_to_delete_a_specified_savepoint(
    t: sl.Table, session: sl.Session, capsys: pytest.CaptureFixture[str]
):
    """That one and no other; where nothing else keeps its version, only when that is confirmed."""
    where = str(Path(session.location).parent)
    t.create_savepoint(snapshot=2)
    assert cli.main(["--warehouse", where, "delete-savepoint", "t", "--id", "1"]) == 0
    assert [saved.id for saved in t.savepoints()] == [2]
    t.maintenance.expire(dry_run=False, time_retained=timedelta(0), num_retained_min=1)
    assert cli.main(["--warehouse", where, "delete-savepoint", "t", "--id", "2"]) == 1
    assert "would be gone: nothing else keeps it" in capsys.readouterr().out
    assert [saved.id for saved in t.savepoints()] == [2]
    assert cli.main(["--warehouse", where, "delete-savepoint", "t", "--id", "2", "--force"]) == 0
    assert len(t.savepoints()) == 0


def test_in_the_future_we_can_provide_procedures_to_manage_savepoints(t: sl.Table):
    """Programs call methods of the table."""
    made = t.create_savepoint("by-program", message="why", snapshot="snapshot.2")
    assert (made.name, made.message, made.author, made.saved_snapshot_id) == ("by-program", "why", "ann", 2)
    assert t.delete_savepoint("by-program", dry_run=True).savepoint == made
    assert t.delete_savepoint("by-program", force=True).others == ("snapshot 2",)


# Proposed Changes: System Table


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=spark)])
def test_we_introduce_a_system_table_savepoints_table_whose_schema_is(t: sl.Table, session: sl.Session, engine: Any):
    """savepoint_id, saved_snapshot_id, schema_id, save_time, record_count, all BIGINT, in this order; then ours."""
    rows = session.sql("SELECT * FROM t$savepoints", engine=engine).to_arrow()
    names = ["savepoint_id", "saved_snapshot_id", "schema_id", "save_time", "record_count"]
    assert rows.schema.names[:5] == names
    assert {str(rows.schema.field(name).type) for name in names} == {"int64"}
    one = t.savepoints()[0]
    milliseconds = (one.save_time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert list(rows.to_pylist()[0].values())[:5] == [1, 3, 1, milliseconds, 2]


# Usage: Spark Time Travel to Version


@spark
def test_the_spark_sql_is_select_from_t_version_as_of_version_string(t: sl.Table, asked: Callable[[str], list[str]]):
    """``SELECT * FROM t VERSION AS OF <version-string>``."""
    assert asked("SELECT * FROM t VERSION AS OF '3'") == ["oslo", "rome"]
    assert asked("SELECT * FROM t") == sorted(CITIES)


def test_the_version_string_supports_a_long_value_which_represents_snapshot(
    t: sl.Table, asked: Callable[[str], list[str]]
):
    """A bare number is a snapshot's, with quotes or without, though there is a savepoint of that number."""
    for version in ("2", "'2'"):
        assert asked(f"SELECT * FROM t VERSION AS OF {version}") == ["rome"]
    assert asked("SELECT * FROM t VERSION AS OF 1") == []


def test_now_we_use_snapshot_id_to_specify_traveling_to_snapshot(t: sl.Table, asked: Callable[[str], list[str]]):
    """``snapshot.<id>``."""
    assert asked("SELECT * FROM t VERSION AS OF 'snapshot.2'") == ["rome"]


@spark
def test_or_use_savepoint_id_to_specify_traveling_to_savepoint(
    t: sl.Table, expired: sl.Table, asked: Callable[[str], list[str]]
):
    """``savepoint.<id>``, also when its snapshot has expired; or its name."""
    with pytest.raises(sl.NotFound, match="no snapshot 2 "):
        asked("SELECT * FROM t VERSION AS OF 'snapshot.2'")
    for version in ("savepoint.1", "savepoint.fix"):
        assert asked(f"SELECT * FROM t VERSION AS OF '{version}'") == ["oslo", "rome"]


# Usage: Spark Time Travel to Timestamp


@spark
def test_the_spark_sql_is_select_from_t_timestamp_as_of_timestamp_string(
    t: sl.Table, asked: Callable[[str], list[str]]
):
    """``SELECT * FROM t TIMESTAMP AS OF <timestamp-string>``."""
    assert asked("SELECT * FROM t TIMESTAMP AS OF '2026-11-01 11:00:00'") == ["rome"]


def test_we_will_find_the_snapshot_of_which_commit_time_is_closest_to_the_specified_time_point(
    t: sl.Table, asked: Callable[[str], list[str]]
):
    """The closest that is not behind it: a later one was not there yet."""
    assert asked("SELECT * FROM t TIMESTAMP AS OF '2026-11-01 11:59:59.999999'") == ["rome"]
    assert asked("SELECT * FROM t TIMESTAMP AS OF '2026-11-01 12:00:00'") == ["oslo", "rome"]
    assert asked("SELECT * FROM t TIMESTAMP AS OF '2027-01-01'") == sorted(CITIES)


def test_the_problem_is_the_snapshots_before_the_time_point_may_have_expired(t: sl.Table, expired: sl.Table):
    """Then no snapshot is found, and where there is no savepoint either, the error says from when on one can be."""
    assert min(snapshot.time for snapshot in t.history()) > START + 3 * HOUR
    with pytest.raises(sl.NotFound, match="the earliest that can be reached is 2026-11-01 12:00:00"):
        t.at(timestamp="2026-11-01 11:30:00")


def test_now_we_try_to_find_the_closest_savepoint_after_no_snapshot_is_found(
    t: sl.Table, expired: sl.Table, asked: Callable[[str], list[str]]
):
    """The closest savepoint of a version not behind the time point, and the answer says so."""
    for time in ("2026-11-01 12:00:00", "2026-11-15"):
        assert asked(f"SELECT * FROM t TIMESTAMP AS OF '{time}'") == ["oslo", "rome"]
    assert re.match("savepoint 1 'fix', snapshot 3", str(t.at(timestamp="2026-11-15").resolved))


# Usage: Flink Streaming Reading from Snapshot/Savepoint, and from Timestamp


@pytest.fixture
def streamed(t: sl.Table, session: sl.Session, tmp_path: Path) -> Callable[..., list[str]]:
    """Read a stream of the table as far as it goes, and return the cities it has given."""

    def stream(checkpoint: str = "checkpoint", **options: Any) -> list[str]:
        reader = session.spark_session.readStream.format("sleeper").option("table", "t")
        for name, value in options.items():
            reader = reader.option("scan." + name.replace("_", "-"), value)
        out = tmp_path / f"{checkpoint}-rows"
        writer = reader.load().writeStream.format("parquet").option("checkpointLocation", str(tmp_path / checkpoint))
        writer.option("path", str(out)).trigger(availableNow=True).start().awaitTermination()
        return sorted(pq.read_table(out)["city"].to_pylist())

    return stream


@spark
@pytest.mark.long
def test_we_support_to_specify_start_snapshot_in_streaming_reading_by_scan_snapshot_id(
    t: sl.Table, streamed: Callable[..., list[str]]
):
    """First all rows of that snapshot, then each that came later, once."""
    assert streamed(snapshot_id=2) == sorted(CITIES)
    t.ingest([{"city": "bern", "fare": 4}])
    assert streamed(snapshot_id=2) == sorted([*CITIES, "bern"])


@spark
def test_flink_streaming_reading_from_savepoint(t: sl.Table, streamed: Callable[..., list[str]]):
    """``scan.savepoint-id``: first all rows of the savepoint, then each that came later, once."""
    t.ingest([{"city": "bern", "fare": 4}])
    assert streamed(savepoint_id=1) == sorted([*CITIES, "bern"])


@spark
@pytest.mark.long
def test_flink_streaming_read_from_an_expired_snapshot_names_the_earliest(
    t: sl.Table, expired: sl.Table, streamed: Callable[..., list[str]]
):
    """What came behind it cannot be told any more."""
    with pytest.raises(Exception, match="earliest"):
        streamed(snapshot_id=2)


@spark
@pytest.mark.long
def test_flink_streaming_reading_from_timestamp(t: sl.Table, streamed: Callable[..., list[str]]):
    """``scan.timestamp``: as from the version that was current at that moment."""
    assert streamed(timestamp="2026-11-01 11:30:00") == sorted(CITIES)
