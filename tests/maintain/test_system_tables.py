"""What each system table holds, now and at a version, without an engine."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import NotFound
from sleeper_nb.maintain.system_tables import (
    SYSTEM_TABLES,
    KnownAt,
    SystemRows,
    rows_at,
    system_table,
)
from sleeper_nb.model.jobs import Job
from sleeper_nb.model.properties import PROPERTIES, SPLITTING_THRESHOLD, TableProperties
from sleeper_nb.model.snapshots import Moment, parse_version, to_micros
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.resolve import resolve
from tests.support.builders import EMBEDDED, START, a_store, compact, ingest, rows_of, save


@pytest.fixture(params=EMBEDDED)
def table(request: pytest.FixtureRequest, tmp_path: Any, clock: ManualClock):
    """Snapshots 1 to 4 a minute apart; savepoint 1 `fix` saves 3 half a minute later, and a job runs at minute 2."""
    store = a_store(tmp_path, clock=clock, kind=request.param)
    for number in range(2, 5):
        clock.advance(timedelta(minutes=1))
        ingest(store, rows_of(("a", number)))
        if number == 3:
            store.catalog.put_job(store.table_id, Job(id="j", kind="ingest", state="CREATED", created=clock.now()))
            clock.advance(timedelta(seconds=30))
            save(store, "fix")
            clock.advance(timedelta(seconds=-30))
    yield store
    store.catalog.close()


def rows(store: StateStore, name: str, asked: Any = None, properties: dict[str, str] | None = None) -> SystemRows:
    at = KnownAt(store, resolve(store.catalog, store.table_id, "t", asked), TableProperties(properties or {}))
    return rows_at(SYSTEM_TABLES[name], at)


def column(store: StateStore, name: str, column: str, asked: Any = None) -> list[Any]:
    return rows(store, name, asked).columns()[column].to_pylist()


def test_savepoints_begin_with_the_columns_of_the_proposal(table: StateStore):
    found = rows(table, "savepoints").columns()
    proposed = ["savepoint_id", "saved_snapshot_id", "schema_id", "save_time", "record_count"]
    assert found.schema.names[:5] == proposed
    assert found.schema.types[:5] == [pa.int64()] * 5
    made = START + timedelta(minutes=2, seconds=30)
    assert [list(row.values())[:10] for row in found.to_pylist()] == [
        [1, 3, 1, to_micros(made) // 1000, 2, "fix", None, None, False, START + timedelta(minutes=2)]
    ]


def test_snapshots_tell_what_history_does(table: StateStore):
    found = rows(table, "snapshots").columns()
    assert found.schema.names[0] == "snapshot_id"
    newest, *_, oldest = found.to_pylist()
    assert (newest["snapshot_id"], newest["operation"], newest["rows"], newest["added_files"]) == (4, "ingest", 3, 1)
    assert (oldest["snapshot_id"], oldest["operation"], oldest["time"]) == (1, "create", START)


def test_files_and_partitions_are_the_versions_own_in_columns(table: StateStore):
    compact(table)
    for asked, active in ((None, 1), (3, 2)):
        state = table.load(None if asked is None else resolve(table.catalog, table.table_id, "t", parse(asked)).version)
        found = rows(table, "files", parse(asked)).columns()
        assert found == state.files.table
        assert found["status"].to_pylist().count("ACTIVE") == active
    assert column(table, "partitions", "leaf_partition") == [True]


def parse(version: Any) -> Any:
    return None if version is None else parse_version(version)


@pytest.mark.parametrize("name", ["files", "partitions"])
def test_a_file_that_is_kept_holds_the_very_rows(table: StateStore, name: str):
    found = rows(table, name)
    if table.name == "S3StateStore":
        assert found.path is not None
    if found.path is not None:
        assert pq.read_table(found.storage.locate(found.path)).equals(found.columns())


def test_schemas_say_each_field_with_its_type_and_role(table: StateStore):
    (found,) = rows(table, "schemas").columns().to_pylist()
    assert (found["schema_id"], found["row_keys"], found["sort_keys"]) == (1, ["key", "n"], [])
    assert found["fields"][0] == {"name": "key", "type": "string", "role": "row key", "nullable": False}
    assert found["fields"][2] == {"name": "value", "type": "string", "role": "value", "nullable": True}
    assert found["json"] == table.schema(1).to_json()


def test_properties_tell_whether_they_are_set(table: StateStore):
    found = rows(table, "properties", properties={SPLITTING_THRESHOLD: "7"}).columns().to_pylist()
    assert [row["key"] for row in found] == list(PROPERTIES)
    (one,) = (row for row in found if row["is_set"])
    assert (one["key"], one["value"], one["default_value"]) == (SPLITTING_THRESHOLD, "7", "1000000000")


@pytest.mark.parametrize(
    ("asked", "snapshots", "savepoints", "jobs"),
    [
        (None, [4, 3, 2, 1], [1], ["j"]),
        (parse_version(4), [4, 3, 2, 1], [1], ["j"]),
        (parse_version(3), [3, 2, 1], [1], ["j"]),  # the savepoint of the version shows in it
        (parse_version("savepoint.fix"), [3, 2, 1], [1], ["j"]),
        (parse_version(2), [2, 1], [], []),
        (Moment(START + timedelta(minutes=2)), [3, 2, 1], [], ["j"]),  # it was made half a minute later
        (Moment(START + timedelta(minutes=2, seconds=30)), [3, 2, 1], [1], ["j"]),
        (Moment(START + timedelta(minutes=2) - timedelta(microseconds=1)), [2, 1], [], []),
        (Moment(START + timedelta(days=999)), [4, 3, 2, 1], [1], ["j"]),
    ],
)
def test_a_version_shows_what_was_there_by_then(
    table: StateStore, asked: Any, snapshots: list[int], savepoints: list[int], jobs: list[str]
):
    assert column(table, "snapshots", "snapshot_id", asked) == snapshots
    assert column(table, "savepoints", "savepoint_id", asked) == savepoints
    assert column(table, "jobs", "job_id", asked) == jobs
    assert column(table, "schemas", "schema_id", asked) == [1]


def test_what_expired_is_gone_from_history_and_stays_where_it_is_saved(table: StateStore):
    table.catalog.expire_snapshots(table.table_id, [1, 2, 3], START)
    assert column(table, "snapshots", "snapshot_id") == [4]
    assert column(table, "snapshots", "snapshot_id", parse_version(3)) == []
    assert column(table, "savepoints", "savepoint_id", parse_version(3)) == [1]
    assert column(table, "schemas", "schema_id", parse_version(3)) == [1]


@pytest.mark.parametrize("name", SYSTEM_TABLES)
def test_without_rows_the_columns_are_the_same(table: StateStore, tmp_path: Any, name: str):
    empty = a_store(tmp_path / "other", kind=table.name)
    assert rows(empty, name).columns().schema.equals(rows(table, name).columns().schema)
    empty.catalog.close()


def test_a_suffix_is_found_in_any_case_and_an_unknown_one_names_the_nearest():
    assert system_table("SavePoints", "flights").name == "savepoints"
    with pytest.raises(NotFound, match="no system table 'savepoint' of table 'flights'") as error:
        system_table("savepoint", "flights")
    assert error.value.hint == "did you mean 'savepoints'?"
    with pytest.raises(NotFound) as error:
        system_table("", "flights")
    assert str(error.value.hint).startswith("available: savepoints, snapshots, files")
