"""A table whose files are in a bucket, worked on in process and by Spark: rows in, out, merged, queried, deleted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sleeper_nb.engines.duckdb import relations
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.duckdb.duckdb_reads import JudgedQueries
from sleeper_nb.engines.spark import frames, spark_load
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.errors import InvalidInput, NotFound, StorageError
from sleeper_nb.load.ingest import IngestSettings
from sleeper_nb.load.sources import find_sources, read_sources
from sleeper_nb.maintain import compact as compaction
from sleeper_nb.maintain.compaction_plan import StrategySettings
from sleeper_nb.maintain.system_tables import SYSTEM_TABLES, KnownAt, rows_at
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.progress import Silent
from sleeper_nb.read import read_rows
from sleeper_nb.read.scan_plan import plan_scan
from sleeper_nb.sql.statement import Statement
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.aws import AwsTarget
from sleeper_nb.storage.filesystem import Storage, open_storage
from sleeper_nb.versions.resolve import Resolved
from tests.engines.spark import imports
from tests.servers.server import Server
from tests.support.builders import (
    KEYED,
    NOW,
    a_store,
    a_tree,
    collect,
    compact,
    forget_all_but_newest,
    ingest,
    keys_in,
    on_disk,
    reachable,
    reopened,
    rows_of,
    save,
    scan,
)

ODD_PREFIX = "odd %20 [x]*/größe=1+2"


@pytest.fixture
def table(s3_server: Server, tmp_path: Path):
    local = a_store(tmp_path, create=False)
    aws = AwsTarget(endpoint_url=s3_server.endpoint_url)
    storage = open_storage(f"s3://{s3_server.new_bucket()}/{ODD_PREFIX}", aws)
    made = reopened(local, storage=storage.below("table"))
    made.create("table", KEYED, a_tree("m"))
    yield made
    made.catalog.close()


def test_rows_go_in_and_come_out(table: StateStore):
    first = ingest(table, rows_of("b", "x", value="1"))
    ingest(table, rows_of("a", "y", "z", value="2"))
    assert keys_in(scan(table)) == ["a", "b", "x", "y", "z"]
    assert keys_in(scan(table, where="value = '2'", limit=2)) == ["a", "y"]
    assert keys_in(scan(table, keys=["x"])) == ["x"]
    assert keys_in(scan(table, version=first)) == ["b", "x"]


def test_files_are_merged_and_old_versions_stay(table: StateStore):
    first = ingest(table, rows_of("b", "x"))
    ingest(table, rows_of("a", "y"))
    report = compact(table)
    assert (report.rows, len(report.jobs)) == (4, 2)
    assert keys_in(scan(table)) == ["a", "b", "x", "y"]
    assert keys_in(scan(table, version=first)) == ["b", "x"]


def test_what_no_version_needs_is_deleted_from_the_bucket(table: StateStore):
    ingest(table, rows_of("b", "x"))
    save(table, "kept")
    ingest(table, rows_of("a", "y"))
    compact(table)
    before = on_disk(table)
    forget_all_but_newest(table)
    collect(table, NOW)
    assert on_disk(table) == reachable(table)
    assert before - on_disk(table)
    assert keys_in(scan(table)) == ["a", "b", "x", "y"]


def test_duckdb_reads_the_bucket(table: StateStore):
    for keys in (("b", "x"), ("a", "y")):
        ingest(table, rows_of(*keys))
    connection = Database().connect()
    relations.relation(connection, plan_scan(table.load()), table.storage).create_view("t")
    found = relations.query(
        connection,
        relations.parsed(
            lambda: connection,
            Statement.of("SELECT key FROM t WHERE key >= 'b' ORDER BY key", dialect="duckdb"),
            JudgedQueries(),
        ),
    )
    assert found is not None
    assert keys_in(relations.to_arrow(found)) == ["b", "x", "y"]


@pytest.mark.parametrize(("name", "rows"), [("files", 2), ("partitions", 3), ("snapshots", 2), ("schemas", 1)])
def test_duckdb_reads_system_tables(table: StateStore, name: str, rows: int):
    ingest(table, rows_of("b", "x"))
    at = KnownAt(table, Resolved(table.head()), TableProperties({}))
    found = rows_at(SYSTEM_TABLES[name], at)
    assert relations.to_arrow(relations.system_table(Database().connect(), found)).num_rows == rows


def _read_by_duckdb(store: StateStore) -> object:
    return relations.relation(Database().connect(), plan_scan(store.load()), store.storage)


@pytest.mark.parametrize("read", [scan, _read_by_duckdb])
def test_a_file_that_is_gone_or_changed_is_named(table: StateStore, read: Callable[[StateStore], object]):
    ingest(table, rows_of("b"))
    name = table.load().files.table["filename"][0].as_py()
    table.storage.write(name, table.storage.read(name) + b"more")
    with pytest.raises(StorageError, match="bytes, not"):
        read(table)
    table.storage.delete(name)
    with pytest.raises(NotFound, match="no file s3://"):
        read(table)


def test_a_file_that_is_gone_after_it_was_read_is_named(table: StateStore):
    ingest(table, rows_of("b"))
    name = table.load().files.table["filename"][0].as_py()
    assert scan(table) == scan(table)
    table.storage.delete(name)
    with pytest.raises(NotFound, match="no file s3://"):
        scan(table)


def test_a_file_that_goes_after_it_was_checked_is_named(table: StateStore, monkeypatch: pytest.MonkeyPatch):
    for _ in range(2):
        ingest(table, rows_of("b"))
    check, name = read_rows.check_contents, table.load().files.table["filename"][1].as_py()

    def check_and_delete(*given: Any, **options: Any) -> None:
        check(*given, **options)
        table.storage.delete(name)

    monkeypatch.setattr(read_rows, "check_contents", check_and_delete)
    with pytest.raises(NotFound, match=f"no file s3://.*{name.rpartition('/')[2]}"):
        scan(table)


def test_a_damaged_file_is_told(table: StateStore):
    ingest(table, rows_of("b"))
    name = table.load().files.table["filename"][0].as_py()
    table.storage.write(name, bytes(table.storage.size(name)))
    with pytest.raises(StorageError, match="cannot read data files in s3://"):
        scan(table)


def test_a_wrong_condition_is_told_as_for_a_folder(table: StateStore):
    ingest(table, rows_of("b"))
    with pytest.raises(InvalidInput):
        scan(table, where="nothing = 1")


@pytest.mark.spark
@pytest.mark.parametrize(
    "strategy", ["one_file_per_leaf", pytest.param("one_reference_per_leaf", marks=pytest.mark.long)]
)
def test_spark_reads_imports_and_compacts_by_its_tasks(table: StateStore, spark_engine: SparkRuntime, strategy: str):
    ingest(table, rows_of("b", "x"))
    imports.bulk_import(
        spark_engine, table, find_sources(rows_of("a", "é", ("b", 2))), settings=IngestSettings(strategy)
    )
    frame = frames.data_frame(spark_engine.session(), plan_scan(table.load()), table.storage)
    assert sorted(row["key"] for row in frame.collect()) == ["a", "b", "b", "x", "é"]
    assert [row["n"] for row in frame.where("key = 'b'").sort("n").select("n").collect()] == [0, 2]
    report = compaction.compact(
        table, spark_load.run_on_spark(spark_engine, table.storage),
        strategy="all", settings=StrategySettings(), dry_run=False, progress=Silent(),
    )  # fmt: skip
    assert (len(report.jobs), report.rows) == (2, 5)
    assert keys_in(scan(table)) == ["a", "b", "b", "x", "é"]


@pytest.fixture
def sources(s3_server: Server, table: StateStore) -> Storage:
    """Another bucket on the same server, with rows in files of every kind."""
    bucket = open_storage(f"s3://{s3_server.new_bucket()}", AwsTarget(endpoint_url=s3_server.endpoint_url))
    rows = pa.Table.from_pylist(rows_of("a", "m"), schema=KEYED.arrow)
    with bucket.output("in/2026/a [1].parquet") as stream:
        pq.write_table(rows, stream)
    bucket.write("in/2026/b.csv", b"key,n\nb,1\n")
    bucket.write("in/c.json", b'{"key": "c", "n": 1}\n')
    bucket.write("in/_SUCCESS", b"")
    return bucket


@pytest.mark.parametrize(
    ("address", "keys"),
    [("in/2026/a [1].parquet", "am"), ("in", "abcm"), ("in/", "abcm"), ("in/*.json", "c"), ("in/**/*.csv", "b"),
     ("in/*/*", "abm"), ("", "abcm")],
)  # fmt: skip
def test_objects_prefixes_and_globs_of_another_bucket_are_ingested(
    table: StateStore, sources: Storage, address: str, keys: str
):
    found = find_sources(sources.locate(address), table.storage)  # the server is known from the table's own storage
    rows = read_sources(found, KEYED).rows
    assert sorted(keys_in(rows)) == list(keys)


def test_an_object_that_is_not_there_is_told(table: StateStore, sources: Storage):
    for address in ("in/no.csv", "out", "in/*.parquet"):
        with pytest.raises(NotFound, match="no data file"):
            find_sources(sources.locate(address), table.storage)


@pytest.mark.spark
def test_tasks_of_spark_read_files_of_a_bucket(table: StateStore, sources: Storage, spark_engine: SparkRuntime):
    made = imports.bulk_import(spark_engine, table, find_sources(sources.locate("in"), table.storage))
    assert made.rows == 4
    assert keys_in(scan(table)) == ["a", "b", "c", "m"]
