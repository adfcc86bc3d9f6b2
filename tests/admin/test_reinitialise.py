"""Reinitialising through a session: the edited schema, split points, and who uses the table meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import StorageError
from sleeper_nb.model.processing import AGGREGATIONS
from tests.support.builders import KEYED, keys_in, rows_of


@pytest.fixture
def session(tmp_path):
    with sl.connect(tmp_path, clock=ManualClock()) as opened:
        yield opened


@pytest.fixture
def trips(session):
    table = session.create_table("trips", KEYED, ["m"])
    table.ingest(rows_of("a", "z"), job_id="load 1")
    return table


def edit_schema(session, table, schema):
    path = Path(session.location) / "config" / "tables" / f"table-{table.entry.id}.properties"
    lines = path.read_text().splitlines()
    new = f"sleeper.table.schema={json.dumps(json.loads(schema.to_json()))}"
    path.write_text("".join(f"{new if line.startswith('sleeper.table.schema=') else line}\n" for line in lines))


def test_contents_go_and_name_id_properties_and_partitions_stay(session, trips):
    report = session.admin.reinitialise("TRIPS", force=True)
    again = session.table("trips")
    assert (again.entry, again.at().properties, again.schema) == (trips.entry, trips.at().properties, KEYED)
    assert (again.scan().count(), len(again.at().partition_tree.leaves), [s.id for s in again.history()]) == (0, 2, [3])
    assert "deleted all contents of table trips" in repr(report)
    assert again.ingest(rows_of("b"), job_id="load 1").snapshot_id == 3  # its id stays done
    assert again.ingest(rows_of("b"), job_id="load 2").snapshot_id == 4


def test_a_reader_from_before_ends_in_peace(session, trips):
    scan, at = trips.scan(), trips.at(2)
    session.admin.reinitialise("trips", force=True)
    assert keys_in(scan.to_arrow()) == keys_in(at.scan().to_arrow()) == ["a", "z"]
    with pytest.raises(sl.NotFound, match="snapshot 2"):
        trips.at(2)
    with pytest.raises(sl.NotFound):
        session.sql("select * from trips version as of 2", engine="duckdb").to_arrow()


def test_a_schema_that_was_edited_in_the_properties_file_counts_from_then_on(session, trips):
    other = sl.Schema({"key": "string", "n": "int"}, {"at": "long"}, {"fare": "double"})
    edit_schema(session, trips, other)
    assert session.table("trips").schema == KEYED
    plan = session.admin.reinitialise("trips", dry_run=True)
    assert plan.new_schema
    assert "the new one of the properties file" in repr(plan)
    assert session.admin.reinitialise("trips", force=True).new_schema
    again = session.table("trips")
    assert (again.schema, again.history()[0].schema_id) == (other, 2)
    again.ingest([{"key": "a", "n": 1, "at": 5, "fare": 1.5}])
    assert again.scan().to_pandas()["fare"].tolist() == [1.5]
    assert not session.admin.reinitialise("trips", force=True).new_schema


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (
            sl.Schema({"id": "string"}, {}, {"value": "long"}),
            "row keys would change from key string, n int to id string",
        ),
        (sl.Schema({"key": "string", "n": "int"}, {}, {"other": "string"}), "value"),
    ],
)
def test_a_schema_that_cannot_be_changes_nothing(session, schema, words):
    summed = sl.Schema({"key": "string", "n": "int"}, {}, {"value": "long"})
    table = session.create_table("trips", summed, properties={AGGREGATIONS: "max(value)"})
    table.ingest([{"key": "a", "n": 1, "value": 7}])
    edit_schema(session, table, schema)
    with pytest.raises(sl.SleeperError, match=words):
        session.admin.reinitialise("trips", force=True)
    assert table.scan().count() == 1


def test_other_row_keys_come_with_new_partitions(session, trips):
    trips.create_savepoint("kept")
    other = sl.Schema({"id": "long"}, {}, {"key": "string"})
    edit_schema(session, trips, other)
    session.admin.reinitialise("trips", delete_partitions=True, split_points=[100], force=True)
    again = session.table("trips")
    again.ingest([{"id": 5, "key": "x"}, {"id": 500, "key": "y"}])
    assert again.scan(keys=500).to_pandas()["key"].tolist() == ["y"]
    assert keys_in(again.scan(version="savepoint.kept").to_arrow()) == ["a", "z"]
    both = "select count(*) from trips union all select count(*) from trips version as of 'savepoint.kept'"
    assert session.sql(both, engine="duckdb").to_pandas().iloc[:, 0].tolist() == [2, 2]
    with pytest.raises(sl.InvalidInput, match="different row keys"):
        again.diff("kept", 4)
    with pytest.raises(sl.InvalidInput, match="row keys or sort keys of the version differ"):
        again.scan(version="savepoint.kept", schema="current").to_arrow()


def test_new_partitions_are_cut_where_asked_or_as_the_properties_say(session, trips, tmp_path):
    points = tmp_path / "points.txt"
    points.write_text("ZA==\naA==\n")
    session.allow(data_paths=[tmp_path])
    trips = session.create_table("other", KEYED, properties={"sleeper.table.splits.file": str(_written(tmp_path))})

    def leaves(**options):
        session.admin.reinitialise("other", delete_partitions=True, force=True, **options)
        return len(session.table("other").at().partition_tree.leaves)

    assert len(trips.at().partition_tree.leaves) == 4
    assert leaves(split_points=["m"]) == 2
    assert leaves(splits_file=str(points), strings_base64=True) == 3
    assert leaves(split_points=[]) == 1
    assert leaves() == 4


def _written(folder):
    (folder / "splits").write_text("c\nf\nq\n")
    return folder / "splits"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"split_points": ["m"]}, "but the partitions are kept"),
        ({"delete_partitions": True, "split_points": ["n", "m"]}, "does not come after"),
        ({"delete_partitions": True, "split_points": [3]}, "not a value of row key"),
        ({"delete_partitions": True, "splits_file": "/nowhere/at.all"}, "split points file .* does not exist"),
        ({"delete_partitions": True, "split_points": ["m"], "splits_file": "x"}, "and in the file"),
    ],
)
def test_split_points_that_cannot_be_change_nothing(session, trips, options, words):
    with pytest.raises(sl.SleeperError, match=words):
        session.admin.reinitialise("trips", force=True, **options)
    assert (trips.scan().count(), trips.history()[0].id) == (2, 2)


def test_a_table_with_savepoints_says_so_and_needs_force(session, trips):
    trips.create_savepoint("kept")
    with pytest.raises(
        sl.ConfirmationNeeded, match=r"'trips': 2 rows and .* 1 savepoint \(kept\) would stay"
    ) as caught:
        session.admin.reinitialise("trips")
    assert "force=True" in caught.value.hint
    assert trips.scan().count() == 2
    assert "kept: stay, and can be read" in repr(session.admin.reinitialise("trips", force=True))
    assert trips.at("savepoint.kept").scan().count() == 2


def test_what_is_done_is_said_when_a_later_step_fails(session, trips, monkeypatch):
    trips.ingest(rows_of("b"))

    def fails(*_: object) -> None:
        raise StorageError("the disk does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(type(session._components.catalog), "expire_snapshots", fails)
        with pytest.raises(StorageError, match=r"'trips' is empty since snapshot 4, but .*: the disk does not answer"):
            session.admin.reinitialise("trips", force=True)
    assert session.table("trips").scan().count() == 0
    assert session.admin.reinitialise("trips", force=True).snapshots == 3
    head = trips.ingest(rows_of("b"))
    with monkeypatch.context() as broken:
        broken.setattr(type(session._components.catalog), "snapshots", fails)
        with pytest.raises(StorageError, match=rf"was rolled back in snapshot {head.snapshot_id + 1}, but"):
            trips.rollback(head.snapshot_id - 1)
    assert session.table("trips").scan().count() == 0
