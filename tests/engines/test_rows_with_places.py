"""Rows without deleted ones, and with their places in data files: each engine, against the files read in Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.engines.duckdb import relations
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.spark import frames
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.model.deletions import FILE_NUMBER, POSITION
from sleeper_nb.model.processing import NOTHING, PythonIterator
from sleeper_nb.query.queries import Queries
from sleeper_nb.query.result import QueryResult
from sleeper_nb.read import read_rows
from sleeper_nb.read.live_rows import placed_files, placed_schema, positions_of
from sleeper_nb.read.read_rows import placed_rows
from sleeper_nb.read.scan_plan import ScanPlan, plan_scan, regions_of
from sleeper_nb.sql.binding import lookup_in
from sleeper_nb.storage.filesystem import Storage
from tests.support.combinations import few_on_spark, on_engines
from tests.support.deleted_rows import delete_rows, has_key, rows_in_file
from tests.support.engines import ENGINES
from tests.support.widened import NEW, OLD, SCHEMA, WIDER, WITH_FIELDS


class Read(Protocol):
    def __call__(self, plan: ScanPlan, storage: Storage, *, with_places: bool) -> pa.Table: ...


KEYED = sl.Schema({"k": "int"}, {}, {"v": "string?", "u": "uuid?"})


def rows(*keys: int) -> list[dict[str, Any]]:
    return [{"k": key, "v": f"v{key}", "u": None if key % 3 else f"{key:032x}"} for key in keys]


def of_whole_files(session: sl.Session) -> sl.Table:
    table = session.create_table("t", KEYED, [10, 20])
    table.ingest(rows(*range(0, 30, 2)))
    table.ingest(rows(*range(1, 30, 2)))
    return table


def with_vectors(session: sl.Session) -> sl.Table:
    table = of_whole_files(session)
    delete_rows(table._store, lambda row: row["k"] in {0, 3, 4, 9, 18})
    delete_rows(table._store, lambda row: row["k"] in {2, 5})
    return table


def with_nothing_left(session: sl.Session) -> sl.Table:
    table = of_whole_files(session)
    delete_rows(table._store, lambda row: row["k"] % 2 == 0)
    return table


def shared_by_leaves(session: sl.Session) -> sl.Table:
    table = session.create_table("t", KEYED)
    table.ingest(rows(*range(30)))
    delete_rows(table._store, lambda row: row["k"] in {0, 11, 29})
    table.ingest(rows(*range(30)))
    table.maintenance.split(at=10)
    table.maintenance.split(at=20)
    delete_rows(table._store, lambda row: row["k"] in {12, 13})  # the vectors of the leaves differ
    table.ingest(rows(100, 101))
    return table


def altered(session: sl.Session) -> sl.Table:
    table = session.create_table("t", SCHEMA, [2])
    table.ingest(OLD)
    table.alter(WITH_FIELDS, types=WIDER)
    table.alter(rename_columns={"s": "renamed"})
    new = [{"renamed" if name == "s" else name: value for name, value in row.items()} for row in NEW]
    table.ingest(new)
    table.ingest(new)
    delete_rows(table._store, lambda row: row["k"] in {1, 4})
    return table


def empty(session: sl.Session) -> sl.Table:
    return session.create_table("t", KEYED, [10])


def with_names_of_duckdb(session: sl.Session) -> sl.Table:
    table = session.create_table("t", sl.Schema({"k": "int"}, {}, {"File_Row_Number": "int", "file_index": "int"}))
    table.ingest([{"k": k, "File_Row_Number": 7, "file_index": 7} for k in range(9)])
    delete_rows(table._store, lambda row: row["k"] in {0, 7})
    return table


TABLES = [
    with_vectors, of_whole_files, shared_by_leaves, with_nothing_left, altered, empty, with_names_of_duckdb,
]  # fmt: skip
EVERY_TABLE = pytest.mark.parametrize(
    ("read", "make"),
    on_engines([(make,) for make in TABLES], every=2, engines=("arrow", "duckdb", "spark")),
    indirect=["read"],
)
"""Every table read by each engine; on Spark each other one, with vectors, shared files or columns of other types."""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sl.Session]:
    with sl.connect(tmp_path / "warehouse") as made:
        yield made


@pytest.fixture(params=["arrow", *ENGINES])
def read(request: pytest.FixtureRequest) -> Read:
    if request.param == "arrow":
        return on_arrow
    if request.param == "duckdb":
        return on_duckdb
    engine: SparkRuntime = request.getfixturevalue("spark_engine")

    def on_spark(plan: ScanPlan, storage: Storage, *, with_places: bool) -> pa.Table:
        return frames.data_frame(engine.session(), plan, storage, with_places=with_places).toArrow()

    return on_spark


def on_arrow(plan: ScanPlan, storage: Storage, *, with_places: bool) -> pa.Table:
    read = placed_rows(placed_files(plan), plan.schema, storage)
    rows = pa.Table.from_batches(read, placed_schema(plan.schema.arrow))
    return rows if with_places else rows.drop_columns([FILE_NUMBER, POSITION])


def on_duckdb(plan: ScanPlan, storage: Storage, *, with_places: bool) -> pa.Table:
    with Database().connect() as connection:
        return relations.to_arrow(relations.relation(connection, plan, storage, with_places=with_places))


def expected(plan: ScanPlan, storage: Storage) -> list[dict[str, Any]]:
    """Return the rows that count, with their places."""
    found = []
    for file in plan.files:
        deleted = set(positions_of(file.deletions, storage).tolist())
        for at, row in enumerate(rows_in_file(storage, file.filename, plan.schema)):
            if at not in deleted and (file.region is None or has_key(file.region, row, plan.schema)):
                found.append({**row, FILE_NUMBER: plan.filenames.index(file.filename), POSITION: at})
    return found


def by_place(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the places of rows and their keys, in order."""
    return sorted((row[FILE_NUMBER], row[POSITION], row["k"]) for row in rows)


def plans(table: sl.Table, read: Read) -> Iterator[ScanPlan]:
    """Yield the plans of a whole table, and of regions that cut its files and leaves; for Spark one of those."""
    state = table._store.load()
    yield plan_scan(state)
    yield plan_scan(state, regions_of(state.schema, None, {"k": (2, 25)}))
    for keys in () if read.__name__ == "on_spark" else ([3, 12, 29], [0], [7]):
        yield plan_scan(state, regions_of(state.schema, keys, None))


@EVERY_TABLE
def test_places_are_those_in_the_files_and_rows_are_those_of_the_arrow_kernel(
    session: sl.Session, read: Read, make: Any
) -> None:
    table = make(session)
    storage = table._store.storage
    for plan in plans(table, read):
        placed = read(plan, storage, with_places=True)
        assert placed.column_names == [*plan.schema.names, FILE_NUMBER, POSITION]
        assert by_place(placed.to_pylist()) == by_place(expected(plan, storage))
        kernel = in_order(pa.concat_tables([leaf_by_leaf(plan, storage)]))
        assert in_order(placed.select(plan.schema.names)) == kernel
        assert in_order(read(plan, storage, with_places=False).select(plan.schema.names)) == kernel


@pytest.mark.parametrize("make", TABLES, ids=lambda make: make.__name__)
def test_files_of_several_leaves_can_be_merged(session: sl.Session, make: Any) -> None:
    """Leaves that share a file may have deleted different rows of it."""
    table = make(session)
    plan, storage = plan_scan(table._store.load()), table._store.storage
    batches = read_rows.merged(plan.files, plan.schema, storage)
    found = pa.Table.from_batches((batch.cast(plan.schema.arrow) for batch in batches), plan.schema.arrow)
    assert found["k"].to_pylist() == sorted(row["k"] for row in expected(plan, storage))


def leaf_by_leaf(plan: ScanPlan, storage: Storage) -> pa.Table:
    return read_rows.read(plan, storage)


def in_order(rows: pa.Table) -> list[str]:
    texts = (repr({**row, "u": row["u"] and str(row["u"])} if "u" in row else row) for row in rows.to_pylist())
    return sorted(texts)


def test_only_rows_that_nothing_processes_have_places(session: sl.Session, read: Read) -> None:
    table = of_whole_files(session)
    plan = plan_scan(table._store.load())
    filtered = replace(plan, processing=replace(NOTHING, iterator=PythonIterator("a:b")))
    with pytest.raises(AssertionError, match="have no places"):
        read(filtered, table._store.storage, with_places=True)


def query(session: sl.Session, engine: str, sql: str, *names: str) -> QueryResult:
    """Run a statement in which table ``t`` has the places of its rows; it may read tables of other names, too."""
    components, tables = session._components, {name: session.table(name) for name in ("t", *names)}
    lookup = lookup_in(lambda name, asked: tables[name].at(asked) if name in tables else None)

    def placed(name: str, reference: Any) -> Any:
        found = lookup(name, reference)
        return replace(found, with_places=True) if found and name.casefold() == "t" else found

    queries = Queries(engine, components.engines, components.clock, placed, lambda: tuple(tables))
    return queries.run(sql.replace('"', "`") if engine == "spark" else sql)


PLACES = f'"{FILE_NUMBER}" AS file, "{POSITION}" AS at'


@few_on_spark(
    ("make", "condition", "leaves"),
    [
        (make, condition, leaves)
        for make in (with_vectors, shared_by_leaves, altered)
        for condition, leaves in (("k IS NOT NULL", 3), ("t.k BETWEEN 12 AND 16", 1), ("t.k < 12", 2))
    ],
)
def test_a_statement_selects_places_of_the_files_that_it_reads(session, engine, make, condition, leaves):
    table = make(session)
    result = query(session, engine, f"SELECT k, {PLACES} FROM t WHERE {condition}")
    plan, storage, found = result.sources[0].plan, table._store.storage, result.to_arrow().to_pylist()
    for row in found:
        rows = rows_in_file(storage, plan.filenames[row["file"]], plan.schema)
        assert rows[row["at"]]["k"] == row["k"]
    kept = session.sql(f"SELECT k FROM t WHERE {condition}", engine="duckdb").to_arrow()
    assert sorted(row["k"] for row in found) == sorted(kept["k"].to_pylist())
    if make is with_vectors:
        assert len(plan.leaves) == leaves


@pytest.mark.parametrize("engine", ENGINES)
def test_places_can_be_compared_joined_and_counted(session, engine):
    with_vectors(session)
    session.create_table("s", sl.Schema({"k": "int"})).ingest([{"k": 1}, {"k": 2}, {"k": 17}])
    every = query(session, engine, f"SELECT {PLACES}, k FROM t").to_arrow().to_pylist()
    assert len(every) == 23
    for number in range(6) if engine == "duckdb" else (0, 5):
        sql = f'SELECT k FROM t WHERE "{FILE_NUMBER}" = {number} AND "{POSITION}" > 1'
        found = query(session, engine, sql).to_arrow()["k"].to_pylist()
        assert sorted(found) == sorted(row["k"] for row in every if row["file"] == number and row["at"] > 1)
    joined = query(session, engine, f"SELECT {PLACES}, t.k FROM t JOIN s ON t.k = s.k ORDER BY t.k", "s")
    wanted = sorted((row for row in every if row["k"] in {1, 17}), key=lambda row: row["k"])
    assert [row["k"] for row in joined.to_arrow().to_pylist()] == [row["k"] for row in wanted]
    assert query(session, engine, "SELECT count(*) AS n FROM t").to_arrow()["n"].to_pylist() == [23]


def test_conditions_reach_the_parquet_reader_of_files_with_vectors(session):
    with_vectors(session)
    plan = str(session.sql("SELECT u FROM t WHERE k = 7 AND v > 'v1'", engine="duckdb").explain())
    (scan,) = plan.split("Parquet Scan")[1:]
    assert "k = 7, v > 'v1'" in scan


def test_files_without_vectors_are_read_without_places(session):
    of_whole_files(session)
    plan = str(session.sql("SELECT * FROM t", engine="duckdb").explain())
    assert "file_row_number" not in plan
    assert "JOIN" not in plan.upper()


def test_files_and_places_are_told_apart_on_spark(session, spark_engine, monkeypatch):
    """Also where two names of files have one checksum."""
    table = session.create_table("t", sl.Schema({"k": "int"}), [70_000])
    table.ingest(pa.table({"k": range(140_000)}))
    gone = {0, 62, 63, 64, 4_095, 4_096, 65_535, 65_536, 69_999, 70_001, 139_999}
    delete_rows(table._store, lambda row: row["k"] in gone)
    plan, kept = plan_scan(table._store.load()), sorted({*range(140_000)} - gone)
    assert sum(file.deletions is not None for file in plan.files) == 2
    found = frames.data_frame(spark_engine.session(), plan, table._store.storage).toArrow()
    assert sorted(found["k"].to_pylist()) == kept
    monkeypatch.setattr(frames, "crc32", lambda _: 0)
    found = frames.data_frame(spark_engine.session(), plan, table._store.storage).toArrow()
    assert sorted(found["k"].to_pylist()) == kept
