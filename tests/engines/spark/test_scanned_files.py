"""Spark DataFrames that are just the rows of Parquet files are loaded from the files; all others by Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.engines.spark.load_sessions import in_session, load_session
from sleeper_nb.engines.spark.scanned_files import files_of

pytestmark = pytest.mark.spark

SCHEMA = sl.Schema({"key": "string"}, values={"n": "long"})
ROWS = pa.table({"key": [f"{number:03}" for number in range(100)], "n": range(100)})


@pytest.fixture
def spark(spark_engine: Any) -> Any:
    return spark_engine.session()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with two files, whose name Spark does not take for a column as it was named itself."""
    folder = tmp_path / "n=7" / "a [b] %20ü"
    folder.mkdir(parents=True)
    pq.write_table(ROWS.slice(0, 60), folder / "one.parquet")
    pq.write_table(ROWS.slice(60).select(["n", "key"]), folder / "two.parquet")
    return folder


def read(spark: Any, folder: Path) -> Any:
    return spark.read.parquet(*(str(path).replace("[", "\\[").replace("]", "\\]") for path in folder.iterdir()))


def test_a_frame_of_files_is_loaded_from_them_by_threads(spark: Any, files: Path, tmp_path: Path) -> None:
    frame = read(spark, files)
    found = files_of(frame)
    assert [Path(file.address).name for file in found or ()] == ["one.parquet", "two.parquet"]
    with sl.connect(tmp_path / "house", spark=spark) as session:
        table = session.create_table("t", SCHEMA, ["050"])
        assert table.bulk_import(frame, dry_run=True).through_spark is False
        table.bulk_import(frame)
        assert table.scan().to_arrow().select(["key", "n"]).equals(ROWS.cast(SCHEMA.arrow))
        assert table.bulk_import(frame, engine="spark", dry_run=True).through_spark is True
        table.bulk_import(frame, engine="spark")
        assert table.scan().count() == 200
        with pytest.raises(sl.SleeperError, match="loaded by Spark"):
            table.bulk_import(frame, engine="local")


OTHER_FRAMES: dict[str, Callable[[Any, Any], Any]] = {
    "a condition": lambda _, frame: frame.where("n < 50"),
    "a computed column": lambda _, frame: frame.selectExpr("key", "n + 1 AS n"),
    "fewer columns": lambda _, frame: frame.select("key"),
    "a limit": lambda _, frame: frame.limit(3),
    "a union": lambda _, frame: frame.union(frame),
    "another order": lambda _, frame: frame.orderBy("n"),
    "rows of Python": lambda spark, _: spark.createDataFrame(ROWS),
    "a range": lambda spark, _: spark.range(5),
}


@pytest.mark.parametrize("name", OTHER_FRAMES)
def test_a_frame_that_spark_computes_is_not_its_files(spark: Any, files: Path, name: str) -> None:
    assert files_of(OTHER_FRAMES[name](spark, read(spark, files))) is None


def test_a_cached_frame_is_what_the_cache_has(spark: Any, files: Path) -> None:
    frame = read(spark, files).cache()
    try:
        assert files_of(frame) is None
    finally:
        frame.unpersist()


def test_columns_of_folders_come_from_spark(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "parts" / "city=rome"
    folder.mkdir(parents=True)
    pq.write_table(ROWS, folder / "one.parquet")
    assert files_of(spark.read.parquet(str(tmp_path / "parts"))) is None


@pytest.mark.parametrize("option", ["mergeSchema", "pathGlobFilter", "modifiedBefore", "datetimeRebaseMode"])
def test_options_of_the_read_mean_that_spark_reads(spark: Any, files: Path, option: str) -> None:
    values = {"mergeSchema": "true", "pathGlobFilter": "*", "modifiedBefore": "2100-01-01T00:00:00"}
    reader = spark.read.option(option, values.get(option, "LEGACY"))
    paths = [str(path).replace("[", "\\[").replace("]", "\\]") for path in files.iterdir()]
    assert files_of(reader.parquet(*paths)) is None


def test_another_format_is_read_by_spark(spark: Any, files: Path) -> None:
    (files / "rows.csv").write_text("key,n\na,1\n")
    assert files_of(spark.read.csv(f"{files.parent}/*/rows.csv", header=True)) is None


OTHER_FILES = {
    "another column": ROWS.append_column("more", pa.array(range(100))),
    "a column less": ROWS.select(["key"]),
    "another type": ROWS.set_column(1, "n", pa.array(range(100), pa.int32())),
    "an unsigned number": ROWS.set_column(1, "n", pa.array(range(100), pa.uint32())),
    "milliseconds": ROWS.append_column("at", pa.array([1] * 100, pa.timestamp("ms", "UTC"))),
    "no time zone": ROWS.append_column("at", pa.array([1] * 100, pa.timestamp("us"))),
    "a decimal": ROWS.append_column("d", pa.array([1] * 100, pa.int32()).cast(pa.decimal128(19, 2))),
    "the old calendar": ROWS.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""}),
}


@pytest.mark.parametrize("name", OTHER_FILES)
def test_a_file_of_other_values_than_the_frame_is_read_by_spark(spark: Any, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    frame_like = ROWS
    if name in {"milliseconds", "no time zone", "a decimal"}:
        frame_like = OTHER_FILES[name]
    pq.write_table(frame_like, folder / "a.parquet")
    pq.write_table(OTHER_FILES[name], folder / "b.parquet")
    assert (
        files_of(spark.read.schema(spark.read.parquet(str(folder / "a.parquet")).schema).parquet(str(folder))) is None
    )


def test_a_frame_that_spark_refuses_is_left_to_spark(spark: Any, files: Path, tmp_path: Path) -> None:
    stream = spark.readStream.schema("key string, n long").parquet(str(files.parent))
    assert files_of(stream) is None
    with sl.connect(tmp_path / "house", spark=spark) as session, pytest.raises(sl.SleeperError):
        session.create_table("t", SCHEMA).bulk_import(stream)


@pytest.mark.parametrize("change", ["rewritten", "deleted"])
def test_a_file_that_changed_since_spark_listed_it_is_left_to_spark(spark: Any, files: Path, change: str) -> None:
    frame = read(spark, files)
    frame.schema  # noqa: B018 - lists the files
    if change == "rewritten":
        status = (files / "one.parquet").stat()
        os.utime(files / "one.parquet", ns=(status.st_atime_ns, status.st_mtime_ns + 5_000_000))
    else:
        (files / "one.parquet").unlink()
    assert files_of(frame) is None


def test_a_load_has_larger_batches_and_the_session_keeps_its_own(spark: Any) -> None:
    def most(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"most": pa.array([max(batch.num_rows for batch in batches)], pa.int64())})

    setting = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before, frame = spark.conf.get(setting), spark.range(0, 30_000, numPartitions=1)
    frame.createOrReplaceTempView("thirty_thousand")
    own = load_session(spark, 8 << 20)
    assert in_session(frame, own).mapInArrow(most, "most long").collect()[0].most == 30_000
    assert in_session(spark.table("thirty_thousand"), own).count() == 30_000
    assert in_session(frame, load_session(spark, 64 << 10)).mapInArrow(most, "most long").collect()[0].most < 30_000
    assert (spark.conf.get(setting), frame.mapInArrow(most, "most long").collect()[0].most) == (before, int(before))
    spark.catalog.dropTempView("thirty_thousand")
