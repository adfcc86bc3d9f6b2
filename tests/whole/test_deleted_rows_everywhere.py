"""Rows that were deleted by vectors are gone in every reader, and stay so through every operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from tests.support.builders import START
from tests.support.deleted_rows import delete_rows

SCHEMA = sl.Schema({"k": "int"}, {}, {"v": "string?", "n": "long"})
FIRST, SECOND = {0, 1, 11, 29, 30}, {2, 12, 13, 28}
EVERY = [{"k": k % 31, "v": f"v{k}", "n": k} for k in range(62)]


def left(*gone: set[int]) -> list[dict[str, Any]]:
    deleted = {k for each in gone for k in each}
    return [row for row in EVERY if row["k"] not in deleted]


KEPT = left(FIRST, SECOND)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sl.Session]:
    with sl.connect(tmp_path / "warehouse", clock=ManualClock(START + timedelta(days=3650))) as made:
        yield made


@pytest.fixture(params=["S3StateStore", "TransactionLogStateStore"])
def table(session: sl.Session, request: pytest.FixtureRequest) -> sl.Table:
    """Version 2: all rows; then deleted rows, a split so that leaves share files, and other deleted rows in each."""
    made = session.create_table("t", SCHEMA, properties={"sleeper.table.statestore.classname": request.param})
    made.ingest(EVERY[:40])
    made.ingest(EVERY[40:])
    delete_rows(made._store, lambda row: row["k"] in FIRST)
    made.maintenance.split(at=10)
    made.maintenance.split(at=20)
    delete_rows(made._store, lambda row: row["k"] in SECOND)
    return made


def exported(table: sl.Table, folder: Path) -> list[Any]:
    table.export(folder / "rows.parquet")
    return pq.read_table(folder / "rows.parquet")["n"].to_pylist()


READERS: dict[str, Callable[[sl.Session, sl.Table, Path], list[Any]]] = {
    "to_arrow": lambda _s, t, _p: t.scan().to_arrow()["n"].to_pylist(),
    "one column": lambda _s, t, _p: t.scan(columns=["n"]).to_arrow()["n"].to_pylist(),
    "where": lambda _s, t, _p: t.scan(where="n >= 0").to_arrow()["n"].to_pylist(),
    "regions": lambda _s, t, _p: [
        n for low, high in ((None, 5), (5, 15), (15, None))
        for n in t.scan(region={"k": (low, high)}).to_arrow()["n"].to_pylist()],
    "keys": lambda _s, t, _p: [n for k in range(31) for n in t.scan(keys=[k]).to_arrow()["n"].to_pylist()],
    "iteration": lambda _s, t, _p: [row["n"] for row in t.scan()],
    "head": lambda _s, t, _p: t.scan().head(1000)["n"].to_pylist(),
    "limit": lambda _s, t, _p: t.scan(limit=1000).to_arrow()["n"].to_pylist(),
    "to_duckdb": lambda _s, t, _p: [n for (n,) in t.scan().to_duckdb().select("n").fetchall()],
    "to_dataset": lambda _s, t, _p: t.scan().to_dataset().to_table()["n"].to_pylist(),
    "to_polars": lambda _s, t, _p: t.scan().to_polars()["n"].to_list(),
    "lazy polars": lambda _s, t, _p: t.scan().to_polars(lazy=True).collect()["n"].to_list(),
    "sql": lambda s, _t, _p: s.sql("SELECT n FROM t", engine="duckdb").to_arrow()["n"].to_pylist(),
    "export": lambda _s, t, p: exported(t, p),
}  # fmt: skip
ON_SPARK: dict[str, Callable[[sl.Session], list[Any]]] = {
    "sql": lambda s: s.sql("SELECT n FROM t", engine="spark").to_arrow()["n"].to_pylist(),
    "to_spark": lambda s: s.table("t").scan().to_spark().toArrow()["n"].to_pylist(),
    "where": lambda s: s.table("t").scan(where="n >= 0").to_spark().toArrow()["n"].to_pylist(),
    "regions": lambda s: [
        n for region in ({"k": (None, 15)}, {"k": (15, None)})
        for n in s.table("t").scan(region=region).to_spark().toArrow()["n"].to_pylist()],
    "source": lambda s: source(s).toArrow()["n"].to_pylist(),
    "source with a condition": lambda s: source(s).where("k < 15").union(source(s).where("k >= 15"))
    .toArrow()["n"].to_pylist(),
}  # fmt: skip


def source(session: sl.Session) -> Any:
    """Read through Spark's data source."""
    return session.spark_session.read.format("sleeper").option("table", "t").load()


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["n"] for row in rows)


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_gives_no_deleted_row(session, table, tmp_path, reader):
    assert sorted(READERS[reader](session, table, tmp_path)) == numbers(KEPT)


def test_numbers_count_no_deleted_row(session, table):
    assert table.scan().count() == len(KEPT)
    sql = "SELECT count(*) AS c, min(k) AS a, max(k) AS b, min(n) AS d, max(n) AS e FROM t"
    keys, values = [row["k"] for row in KEPT], numbers(KEPT)
    for engine in ["duckdb"]:
        found = session.sql(sql, engine=engine).to_arrow().to_pylist()
        assert found == [{"c": len(KEPT), "a": min(keys), "b": max(keys), "d": values[0], "e": values[-1]}]
    assert {each.name: each.rows for each in table.profile()} == dict.fromkeys(("k", "v", "n"), len(KEPT))


def test_versions_keep_their_rows_and_differ_by_them(session, table):
    assert [numbers(table.at(version).scan().to_arrow().to_pylist()) for version in (2, 3, 4, 6, 7)] == [
        numbers(EVERY[:40]), numbers(EVERY), numbers(left(FIRST)), numbers(left(FIRST)), numbers(KEPT)
    ]  # fmt: skip
    changes = table.changes(3, 7)
    gone = [row for row in EVERY if row["k"] in FIRST | SECOND]
    assert numbers(changes.removed.to_arrow().to_pylist()) == numbers(gone)
    assert changes.added.to_arrow().num_rows == 0
    back = table.changes(7, 3)
    assert numbers(back.added.to_arrow().to_pylist()) == numbers(gone)
    assert back.removed.to_arrow().num_rows == 0
    assert table.changes(4, 6).added.to_arrow().num_rows == 0
    between = table.changes(6, 7, where="k > 5")
    assert numbers(between.removed.to_arrow().to_pylist()) == numbers([r for r in gone if r["k"] in {12, 13, 28}])


def test_rows_stay_deleted_through_every_operation(session, table):
    def check() -> None:
        assert table.maintenance.check(deep=True).findings == ()
        assert numbers(table.scan().to_arrow().to_pylist()) == numbers(KEPT)
        sql = session.sql("SELECT n FROM t", engine="duckdb").to_arrow()["n"].to_pylist()
        assert sorted(sql) == numbers(KEPT)

    check()
    table.create_savepoint(name="kept")
    table.maintenance.split(at=15)
    check()
    table.maintenance.compact(strategy="all")
    check()
    table.rollback("kept")
    check()
    table.maintenance.sweep_orphans(dry_run=False, older_than=timedelta(days=1))
    check()
    table.maintenance.compact(strategy="all")
    session._components.clock.sleep(3600)
    table.maintenance.expire(dry_run=False, time_retained=timedelta(0), num_retained_min=1)
    table.maintenance.collect_garbage(dry_run=False, delay=timedelta(0))
    check()
    assert numbers(table.at("kept").scan().to_arrow().to_pylist()) == numbers(KEPT)
    table.delete_savepoint("kept", force=True)
    session._components.clock.sleep(3600)
    table.maintenance.expire(dry_run=False, time_retained=timedelta(0), num_retained_min=1)
    table.maintenance.collect_garbage(dry_run=False, delay=timedelta(0))
    check()
    files = {path.name for path in Path(table._store.storage.root).glob("data/*/*.parquet")}
    used = {name.rpartition("/")[2] for each in table.inspect.files() for name in [each["filename"]]}
    assert files == used


def test_statistics_of_deleted_rows_answer_nothing(session, table):
    """The least and the greatest key and value are deleted, in one leaf or in all."""
    table.maintenance.compact(strategy="all")
    rows = {row["n"]: row["k"] for row in KEPT}
    sql = "SELECT count(*) AS c, min(k) AS a, max(k) AS b, min(n) AS d, max(n) AS e, count(v) AS f FROM t"

    def check() -> None:
        keys = rows.values()
        expected = [len(rows), min(keys), max(keys), min(rows), max(rows), len(rows)]
        assert [*session.sql(sql, engine="duckdb").to_arrow().to_pylist()[0].values()] == expected
        few = {number: key for number, key in rows.items() if key < 12}
        found = session.sql("SELECT count(*) AS c, min(k) AS a, max(n) AS b FROM t WHERE k < 12", engine="duckdb")
        assert [*found.to_arrow().to_pylist()[0].values()] == [len(few), min(few.values()), max(few)]
        profile = {each.name: each for each in table.profile()}
        assert {each.rows for each in profile.values()} == {len(rows)}
        ends = [(each.least, each.greatest) for name, each in profile.items() if name in {"k", "n"}]
        assert ends == [(min(keys), max(keys)), (min(rows), max(rows))]
        last = session.sql("SELECT n FROM t ORDER BY n DESC LIMIT 3", engine="duckdb").to_arrow()["n"].to_pylist()
        assert last == sorted(rows, reverse=True)[:3]
        assert session.sql(f"SELECT n FROM t WHERE n >= {min(rows)}").to_arrow().num_rows == len(rows)

    check()
    for _ in range(3):
        gone = {min(rows.values()), max(rows.values()), rows[min(rows)], rows[max(rows)]}
        delete_rows(table._store, lambda row, gone=gone: row["k"] in gone)
        rows = {number: key for number, key in rows.items() if key not in gone}
        check()


def test_split_points_are_those_of_the_rows_that_are_left(session):
    made = session.create_table("halves", SCHEMA)
    made.ingest([{"k": k, "v": None, "n": k} for k in range(100)])
    delete_rows(made._store, lambda row: row["k"] < 60)
    report = made.maintenance.split(threshold=30)
    assert [part for leaf in report.splits for part in leaf.parts]
    assert [leaf.region.ranges[0].min for leaf in made.at().partition_tree.leaves][1:] == [80]
    assert sorted(made.scan(columns=["k"]).to_arrow()["k"].to_pylist()) == list(range(60, 100))
    assert [leaf["rows"] for leaf in made.inspect.partitions()] == [20, 20]


@pytest.mark.spark
@pytest.mark.parametrize("table", ["S3StateStore"], indirect=True)
def test_no_reader_on_spark_gives_a_deleted_row(session, table, spark_engine):
    for name, read in ON_SPARK.items():
        assert sorted(read(session)) == numbers(KEPT), name


@pytest.mark.spark
def test_spark_adds_to_and_compacts_files_with_vectors(tmp_path, spark_engine):
    with sl.connect(tmp_path / "house", spark=spark_engine.session()) as session:
        table = session.create_table("t", SCHEMA)
        table.ingest(EVERY)
        table.maintenance.split(at=10)
        delete_rows(table._store, lambda row: row["k"] in FIRST)
        table.bulk_import([{"k": 40, "v": "added", "n": 100}, {"k": 0, "v": "added", "n": 101}])
        expected = sorted([*numbers(left(FIRST)), 100, 101])
        for _ in range(2):
            found = session.sql("SELECT n FROM t", engine="spark").to_arrow()["n"].to_pylist()
            assert sorted(found) == numbers(table.scan().to_arrow().to_pylist()) == expected
            table.maintenance.compact(strategy="all", engine="spark")
            assert table.at().state.files.active["deletion_file"].null_count == len(table.at().state.files.active)
            assert table.maintenance.check(deep=True).findings == ()
