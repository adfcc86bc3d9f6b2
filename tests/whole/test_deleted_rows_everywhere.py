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
    delete_rows(made.store, lambda row: row["k"] in FIRST)
    made.split_partitions(at=10)
    made.split_partitions(at=20)
    delete_rows(made.store, lambda row: row["k"] in SECOND)
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
}


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
        assert table.check(deep=True).findings == ()
        assert numbers(table.scan().to_arrow().to_pylist()) == numbers(KEPT)
        sql = session.sql("SELECT n FROM t", engine="duckdb").to_arrow()["n"].to_pylist()
        assert sorted(sql) == numbers(KEPT)

    check()
    table.create_savepoint(name="kept")
    table.split_partitions(at=15)
    check()
    table.compact(strategy="all")
    check()
    table.rollback("kept")
    check()
    table.sweep_orphans(dry_run=False, older_than=timedelta(days=1))
    check()
    table.compact(strategy="all")
    session.components.clock.sleep(3600)
    table.expire_snapshots(dry_run=False, time_retained=timedelta(0), num_retained_min=1)
    table.collect_garbage(dry_run=False, delay=timedelta(0))
    check()
    assert numbers(table.at("kept").scan().to_arrow().to_pylist()) == numbers(KEPT)
    table.delete_savepoint("kept", force=True)
    session.components.clock.sleep(3600)
    table.expire_snapshots(dry_run=False, time_retained=timedelta(0), num_retained_min=1)
    table.collect_garbage(dry_run=False, delay=timedelta(0))
    check()
    files = {path.name for path in Path(table.store.storage.root).glob("data/*/*.parquet")}
    used = {name.rpartition("/")[2] for each in table.files() for name in [each["filename"]]}
    assert files == used


@pytest.mark.spark
@pytest.mark.parametrize("reader", ON_SPARK)
def test_a_reader_on_spark_gives_no_deleted_row(session, table, spark_engine, reader):
    assert sorted(ON_SPARK[reader](session)) == numbers(KEPT)
