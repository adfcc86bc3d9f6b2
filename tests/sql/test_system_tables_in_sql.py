"""System tables in SQL: on both engines, at versions, joined with tables; and in `inspect` under short names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.maintain.system_tables import SYSTEM_TABLES
from tests.support.builders import EMBEDDED
from tests.support.combinations import each_value_once, few_on_spark
from tests.support.engines import answer

SCHEMA = sl.Schema({"city": "string"}, {}, {"fare": "int?"})
PROPOSED = ["savepoint_id", "saved_snapshot_id", "schema_id", "save_time", "record_count"]


@pytest.fixture(params=EMBEDDED)
def session(tmp_path, request):
    """Snapshots 1 to 5 of trips, an hour apart; savepoint 1 of snapshot 3; the last one is a compaction."""
    spark = request.getfixturevalue("spark_engine").session() if "spark" in request.node.keywords else None
    clock = ManualClock(datetime(2026, 11, 1, 10, tzinfo=UTC))
    with sl.connect(tmp_path, clock=clock, spark=spark, author="ann") as opened:
        table = opened.create_table("trips", SCHEMA, ["g", "n"], state_store=request.param)
        for number, city in enumerate(("rome", "oslo", "alba"), 1):
            clock.advance(timedelta(hours=1))
            table.ingest([{"city": city, "fare": number}], message=f"it's {city}")
            if number == 2:
                table.create_savepoint("before-fix", "why")
        clock.advance(timedelta(hours=1))
        table.maintenance.compact("all", engine="local")
        table.ingest([{"city": "zwolle", "fare": 9}], job_id="job-1")
        yield opened


@few_on_spark("name", ["trips$savepoints", "`trips$savepoints`", '"trips$savepoints"', "Trips$SAVEPOINTS"])
def test_savepoints_are_a_table_however_its_name_is_written(session, engine, name):
    if engine == "spark" and name.startswith('"'):
        pytest.skip("double quotes are strings on Spark")
    result = session.sql(f"SELECT * FROM {name}", engine=engine)
    found = result.to_arrow()
    assert found.schema.names[:5] == PROPOSED
    assert found.schema.types[:5] == [pa.int64()] * 5
    (row,) = found.to_pylist()
    saved = datetime(2026, 11, 1, 12, tzinfo=UTC)
    assert [row[name] for name in PROPOSED] == [1, 3, 1, int(saved.timestamp() * 1000), 2]
    assert (row["name"], row["message"], row["author"], row["snapshot_time"]) == ("before-fix", "why", "ann", saved)
    assert repr(result).endswith(f"1 row · trips$savepoints at snapshot 6 · {engine} · 0.00 s")


@few_on_spark("name", ["information_schema.tables", "INFORMATION_SCHEMA.Tables AS i"])
def test_the_information_schema_lists_tables_and_views(session, engine, name):
    session.sql("CREATE TEMP VIEW few AS SELECT * FROM trips", engine=engine)
    sql = f"SELECT table_schema, table_name, table_type FROM {name} ORDER BY table_name"
    assert answer(session, sql, engine) == [("main", "few", "VIEW"), ("main", "trips", "BASE TABLE")]
    assert session.sql(f"SELECT * FROM {name}", engine=engine).to_arrow().num_rows == 2
    with pytest.raises(sl.InvalidInput, match="does not know the columns") as error:
        session.sql("SELECT * FROM information_schema.columns", engine=engine)
    assert "DESCRIBE t" in error.value.hint


@pytest.mark.spark
@pytest.mark.parametrize(
    ("session", "name", "clause"),
    each_value_once(EMBEDDED, list(SYSTEM_TABLES), ["", " VERSION AS OF 3", " TIMESTAMP AS OF '2026-11-01 11:30:00'"]),
    indirect=["session"],
)
def test_both_engines_and_inspect_give_the_same_rows_and_types(session, name, clause):
    sql = f"SELECT * FROM trips${name}{clause}"
    ours = session.table("trips").inspect.query(f"SELECT * FROM {name}{clause}").to_dict()
    by_duckdb, by_spark = (session.sql(sql, engine=engine).to_arrow() for engine in ("duckdb", "spark"))
    assert by_duckdb.to_pydict() == by_spark.to_pydict() == ours
    assert by_duckdb.schema.types == by_spark.schema.types


@few_on_spark(
    ("sql", "rows"),
    [
        ("SELECT max(snapshot_id) FROM trips$snapshots", [(6,)]),
        ("SELECT max(snapshot_id) FROM trips$snapshots@3", [(3,)]),
        ("SELECT max(snapshot_id) FROM trips$snapshots TIMESTAMP AS OF '2026-11-01 11:59:59'", [(2,)]),
        ("SELECT count(*) FROM trips$files VERSION AS OF 'savepoint.before-fix' WHERE status = 'ACTIVE'", [(2,)]),
        ("SELECT count(*) FROM trips$files FOR SYSTEM_VERSION AS OF 1", [(0,)]),
        ("SELECT p.leaf_partition, count(*) FROM trips$partitions p GROUP BY 1 ORDER BY 1", [(False, 2), (True, 3)]),
        ("SELECT schema_id, row_keys[0 + :one] FROM trips$schemas", None),
        ("SELECT value FROM trips$properties WHERE key = 'snapshot.num-retained.min' AND NOT is_set", [("10",)]),
        ("SELECT job_id, kind, snapshot_id FROM trips$jobs WHERE kind = 'ingest'", [("job-1", "ingest", 6)]),
        (
            (
                "SELECT f.filename IN (SELECT filename FROM trips$files@5) FROM trips$files AS f "
                "LEFT ANTI JOIN trips$files@2 AS g ON f.filename = g.filename WHERE f.added_snapshot = 6"
            ),
            [(False,)],
        ),
        ("SELECT trips$snapshots.operation FROM trips$snapshots WHERE trips$snapshots.snapshot_id = 1", [("create",)]),
        (
            (
                "WITH s AS (SELECT * FROM trips$savepoints) SELECT s.name, t.city FROM s "
                "JOIN trips VERSION AS OF 'savepoint.1' t ON t.fare = s.savepoint_id"
            ),
            [("before-fix", "rome")],
        ),
        ("SELECT count(*) FROM trips VERSION AS OF (SELECT max(saved_snapshot_id) FROM trips$savepoints)", [(2,)]),
        ("SELECT 'FROM trips$files' -- trips$nothing\n FROM trips$savepoints", [("FROM trips$files",)]),
    ],
)
def test_they_are_tables_like_any_other(session, engine, sql, rows):
    if engine == "duckdb":
        sql = sql.replace("LEFT ANTI", "ANTI")
    found = answer(session, sql, engine, one=0 if engine == "spark" else 1)
    assert found == ([(1, "city")] if rows is None else rows)


def test_parameters_of_duckdb_stand_beside_them(session):
    sql = "SELECT snapshot_id FROM trips$snapshots WHERE snapshot_id=$id OR snapshot_id = :other ORDER BY 1"
    assert answer(session, sql, "duckdb", id=2, other=4) == [(2,), (4,)]
    with pytest.raises(sl.NotFound, match="no parameter 'id'"):
        answer(session, sql, "duckdb", other=4)


@few_on_spark(
    ("sql", "kind", "words", "hint"),
    [
        ("SELECT * FROM trips$savepoint", sl.NotFound, "no system table 'savepoint' of table 'trips'", "'savepoints'"),
        ("SELECT * FROM trips$ WHERE 1 = 1", sl.NotFound, "no system table ''", "available: savepoints"),
        ("SELECT * FROM tripps$files", sl.NotFound, "no table 'tripps'", "'trips'"),
        ("SELECT * FROM tripps$files@3", sl.NotFound, "no table 'tripps'", "'trips'"),
        ("SELECT * FROM trips$files VERSION AS OF 99", sl.NotFound, "no snapshot 99", "available: 1–6"),
        ("INSERT INTO trips$files VALUES (1)", sl.InvalidInput, "cannot change table 'trips$files'", "ingest"),
        ("SELECT nothing FROM trips$savepoints", sl.SleeperError, "nothing", ""),
    ],
)
def test_a_wrong_name_is_explained(session, engine, sql, kind, words, hint):
    with pytest.raises(kind) as caught:
        session.sql(sql, engine=engine).to_arrow()
    assert words in caught.value.message
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("name", SYSTEM_TABLES)
def test_inspect_knows_short_and_whole_names_at_its_own_version_and_at_others(session, name):
    trips = session.table("trips")
    for table, clause in ((trips, ""), (trips.at(3), "@3"), (trips.at("savepoint.1"), "@before-fix")):
        whole = session.sql(f"SELECT * FROM trips${name}{clause}", engine="duckdb").to_dict()
        assert table.inspect.query(f"SELECT * FROM {name}").to_dict() == whole
        assert table.inspect.query(f"SELECT * FROM trips${name.upper()}").to_dict() == whole
        assert trips.inspect.query(f"SELECT * FROM {name}{clause}").to_dict() == whole


def test_inspect_tells_what_it_read_and_what_it_does_not_know(session):
    trips = session.table("trips")
    files = trips.inspect.query("SELECT f.filename FROM files f ANTI JOIN files@5 g USING (filename)")
    assert repr(files).endswith("1 row · metadata of trips at snapshot 6")
    for sql, hint in (("FROM fils", "did you mean 'files'?"), ("FROM trips", "available: savepoints")):
        with pytest.raises(sl.NotFound) as caught:
            trips.inspect.query(sql)
        assert hint in caught.value.hint
    with pytest.raises(sl.InvalidInput, match="view 'v' would not be kept"):
        trips.inspect.query("CREATE TEMP VIEW v AS SELECT * FROM files")


def test_a_statement_reads_one_version_of_a_table_whatever_is_committed_meanwhile(session, monkeypatch):
    trips, load = session.table("trips"), type(session.table("trips")._store).load

    def commit_meanwhile(store, version=None):
        monkeypatch.undo()
        trips.ingest([{"city": "york", "fare": 1}])
        return load(store, version)

    monkeypatch.setattr(type(trips._store), "load", commit_meanwhile)
    sql = "SELECT (SELECT count(*) FROM trips), (SELECT sum(rows) FROM trips$files WHERE status = 'ACTIVE')"
    assert answer(session, sql, "duckdb") == [(4, 4)]
    assert answer(session, sql, "duckdb") == [(5, 5)]
