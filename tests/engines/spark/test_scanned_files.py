"""Spark DataFrames that are just the rows of Parquet files are loaded from the files; all others by Spark."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

import sleeper_nb as sl
from sleeper_nb.engines.spark.load_frames import files_of
from sleeper_nb.engines.spark.spark_load import in_session, load_session
from tests.support.combinations import each_value_once, some

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
        assert table.bulk_import(frame, dry_run=True).plan.through_spark is False
        table.bulk_import(frame)
        assert table.scan().to_arrow().select(["key", "n"]).equals(ROWS.cast(SCHEMA.arrow))
        assert table.bulk_import(frame, engine="spark", dry_run=True).plan.through_spark is True
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


def test_a_frame_that_spark_computes_is_not_its_files(spark: Any, files: Path) -> None:
    frame = read(spark, files)
    assert files_of(frame) is not None
    for name, computed in OTHER_FRAMES.items():
        assert files_of(computed(spark, frame)) is None, name


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


def test_options_of_the_read_mean_that_spark_reads(spark: Any, files: Path) -> None:
    values = {"mergeSchema": "true", "pathGlobFilter": "*", "modifiedBefore": "2100-01-01T00:00:00",
              "datetimeRebaseMode": "LEGACY"}  # fmt: skip
    paths = [str(path).replace("[", "\\[").replace("]", "\\]") for path in files.iterdir()]
    for option, value in values.items():
        reader = spark.read.schema("key string, n long").option(option, value)
        assert files_of(reader.parquet(*paths)) is None, option


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


def test_a_file_of_other_values_than_the_frame_is_read_by_spark(spark: Any, tmp_path: Path) -> None:
    for number, (name, other) in enumerate(OTHER_FILES.items()):
        like = other if name in {"milliseconds", "no time zone", "a decimal"} else ROWS
        folder = tmp_path / f"in{number}"
        folder.mkdir()
        pq.write_table(like, folder / "a.parquet")
        pq.write_table(other, folder / "b.parquet")
        reader = spark.read.schema(from_arrow_schema(like.schema))
        assert files_of(reader.parquet(str(folder))) is None, name


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


DATES = sl.Schema({"key": "string"}, values={"d": "date?"})
OLD_ROWS = pa.table({"key": ["a", "b"], "d": [dt.date(1000, 1, 1), dt.date(2020, 1, 1)]})


@pytest.fixture
def other(spark: Any) -> Any:
    """Another session of Spark, whose settings nobody else sees."""
    return spark.newSession()


def loaded(spark: Any, frame: Any, schema: sl.Schema, folder: Path) -> list[tuple[Any, ...]]:
    """Return the rows of a table that a frame was loaded into."""
    with sl.connect(folder, spark=spark) as session:
        table = session.create_table("t", schema)
        table.bulk_import(frame)
        return [tuple(row.values()) for row in table.scan().to_arrow().to_pylist()]


def written(folder: Path, rows: pa.Table, **options: Any) -> str:
    folder.mkdir(exist_ok=True)
    pq.write_table(rows, folder / "rows.parquet", **options)
    return str(folder)


OF_OTHER_SETTINGS: dict[str, tuple[dict[str, str], str, tuple[str, int | None]]] = {
    "the parser of times": (
        {"spark.sql.legacy.timeParserPolicy": "LEGACY", "spark.sql.ansi.enabled": "false"},
        "'a' AS key, unix_timestamp('2020-1-1x', 'yyyy-MM-dd') + id AS n",
        ("a", 1577836800),
    ),
    "the time zone": (
        {"spark.sql.session.timeZone": "Asia/Tokyo"},
        "current_timezone() AS key, unix_timestamp('1970-01-01 09:00:00') + id AS n",
        ("Asia/Tokyo", 0),
    ),
    "old casts": (
        {"spark.sql.legacy.castComplexTypesToString.enabled": "true"},
        "cast(array(id, null) AS string) AS key, id AS n",
        ("[0,]", 0),
    ),
    "no ANSI": (
        {"spark.sql.ansi.enabled": "false"},
        "'a' AS key, cast(concat('q', id) AS bigint) + array(1L)[1] AS n",
        ("a", None),
    ),
}


@pytest.mark.parametrize("name", some(OF_OTHER_SETTINGS))
def test_a_frame_is_computed_with_the_settings_of_its_own_session(spark: Any, other: Any, tmp_path: Path, name: str):
    settings, columns, row = OF_OTHER_SETTINGS[name]
    for setting, value in settings.items():
        other.conf.set(setting, value)
    key, n = columns.split(" AS key, ")
    frame = other.range(1).selectExpr(f"{key} AS key", n)
    assert loaded(spark, frame, sl.Schema({"key": "string"}, values={"n": "long?"}), tmp_path / "house") == [row]
    assert [tuple(each) for each in frame.collect()] == [row]  # now, as expressions keep what they once looked up


def test_times_of_a_session_of_another_zone_are_the_same_moments(spark: Any, other: Any, tmp_path: Path) -> None:
    other.conf.set("spark.sql.session.timeZone", "America/New_York")
    frame = other.range(2).selectExpr("cast(id AS string) AS key", "timestamp_seconds(1604208600 + 3600 * id) AS at")
    rows = loaded(spark, frame, sl.Schema({"key": "string"}, values={"at": "timestamp?"}), tmp_path / "house")
    assert [at.timestamp() for _, at in rows] == [1604208600, 1604212200]


def test_a_session_for_a_load_is_not_that_of_frames_made_afterwards(spark: Any, other: Any) -> None:
    before = spark.range(1).rdd.map(tuple).toDF().sparkSession
    own = load_session(spark, 8 << 20, other.range(1))
    assert spark.range(1).rdd.map(tuple).toDF().sparkSession is before is not own


@pytest.mark.parametrize("version", some(["2.4.5", "1.6.0", "10"], every=3))
def test_dates_that_spark_wrote_before_3_are_shifted_by_spark(spark: Any, tmp_path: Path, version: str) -> None:
    old = OLD_ROWS.replace_schema_metadata({"org.apache.spark.version": version})
    frame = spark.read.parquet(written(tmp_path / "in", old))
    assert files_of(frame) is None
    rows = loaded(spark, frame, DATES, tmp_path / "house")
    assert rows == [tuple(row) for row in frame.collect()] == [("a", dt.date(999, 12, 27)), ("b", dt.date(2020, 1, 1))]


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.list_(pa.date32()), pa.struct({"d": pa.date32()})])
def test_old_times_in_other_columns_are_shifted_by_spark(spark: Any, tmp_path: Path, kind: pa.DataType) -> None:
    rows = pa.table({"key": ["a"], "v": pa.array([None], kind)})
    old = rows.replace_schema_metadata({"org.apache.spark.version": "2.4.5"})
    assert files_of(spark.read.parquet(written(tmp_path / "in", old))) is None


@pytest.mark.parametrize("version", some(["3.0.0", "3.5.1", "4.3.0"], every=3))
def test_dates_that_spark_wrote_since_3_are_those_of_the_file(spark: Any, other: Any, tmp_path: Path, version: str):
    other.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY")  # Spark knows better
    folder = written(tmp_path / "in", OLD_ROWS.replace_schema_metadata({"org.apache.spark.version": version}))
    for session in spark, other:
        frame = session.read.parquet(folder)
        assert len(files_of(frame) or ()) == 1
        assert frame.collect()[0].d == dt.date(1000, 1, 1)


def test_files_without_dates_are_read_whatever_calendar_their_writer_had(spark: Any, other: Any, tmp_path: Path):
    other.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY")
    folder = written(tmp_path / "in", ROWS.replace_schema_metadata({"org.apache.spark.version": "2.4.5"}))
    assert len(files_of(other.read.parquet(folder)) or ()) == 1


@pytest.mark.parametrize(
    ("mode", "name"),
    each_value_once(
        ["LEGACY", "legacy", "EXCEPTION"],
        ["parquet.datetimeRebaseModeInRead", "legacy.parquet.datetimeRebaseModeInRead"],
    ),
)
def test_a_session_that_shifts_or_refuses_dates_reads_them_itself(
    spark: Any, other: Any, tmp_path: Path, name: str, mode: str
) -> None:
    folder = written(tmp_path / "in", OLD_ROWS)
    other.conf.set(f"spark.sql.{name}", mode)
    frame = other.read.parquet(folder)
    assert files_of(frame) is None
    assert len(files_of(spark.read.parquet(folder)) or ()) == 1
    other.conf.set(f"spark.sql.{name}", "CORRECTED")
    assert len(files_of(frame) or ()) == 1


def test_dates_are_loaded_as_the_session_of_the_frame_reads_them(spark: Any, other: Any, tmp_path: Path) -> None:
    other.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY")
    frame = other.read.parquet(written(tmp_path / "in", OLD_ROWS))
    assert loaded(spark, frame, DATES, tmp_path / "house")[0] == ("a", dt.date(999, 12, 27))
    other.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", "EXCEPTION")
    with pytest.raises(sl.SleeperError):
        loaded(spark, frame, DATES, tmp_path / "other")


def test_columns_that_are_found_by_field_ids_are_found_by_spark(spark: Any, other: Any, tmp_path: Path) -> None:
    numbered = [pa.field(name, pa.string(), metadata={"PARQUET:field_id": i}) for name, i in (("key", "1"), ("v", "2"))]
    folder = written(tmp_path / "in", pa.table([["a"], ["x"]], schema=pa.schema(numbered)))
    by_id = StructType(
        [StructField(each, StringType(), metadata={"parquet.field.id": i}) for each, i in (("key", 2), ("v", 1))]
    )
    other.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    assert files_of(other.read.parquet(folder)) is None
    assert files_of(spark.read.schema(by_id).parquet(folder)) is None
    frame = other.read.schema(by_id).parquet(folder)
    schema = sl.Schema({"key": "string"}, values={"v": "string?"})
    assert loaded(spark, frame, schema, tmp_path / "house") == [("x", "a")] == [tuple(row) for row in frame.collect()]


@pytest.mark.parametrize("setting", ["ignoreCorruptFiles", "ignoreMissingFiles"])
def test_a_session_that_passes_over_files_decides_which(other: Any, files: Path, setting: str) -> None:
    other.conf.set(f"spark.sql.files.{setting}", "TRUE")
    assert files_of(read(other, files)) is None


OF_READERS: dict[str, tuple[dict[str, str], pa.Table, dict[str, Any]]] = {
    "binary as text": ({"parquet.binaryAsString": "true"}, pa.table({"key": [b"a"], "n": [1]}), {}),
    "96 bits": (
        {},
        pa.table({"at": pa.array([1], pa.timestamp("us", "UTC"))}),
        {"use_deprecated_int96_timestamps": True},
    ),
    "96 bits, of Impala": (
        {"parquet.int96TimestampConversion": "true"},
        pa.table({"at": pa.array([1], pa.timestamp("ns"))}),
        {"use_deprecated_int96_timestamps": True, "store_schema": False},
    ),
    "no time zone, as UTC": (
        {"parquet.inferTimestampNTZ.enabled": "false"},
        pa.table({"at": pa.array([1], pa.timestamp("us"))}),
        {"store_schema": False},
    ),
    "nanoseconds as numbers": (
        {"legacy.parquet.nanosAsLong": "true"},
        pa.table({"at": pa.array([1], pa.timestamp("ns", "UTC"))}),
        {},
    ),
    "names in capitals": ({"caseSensitive": "true"}, pa.table({"key": ["a"], "N": [1], "n": [2]}), {}),
}


@pytest.mark.parametrize("name", OF_READERS)
def test_settings_of_a_reader_do_not_give_other_values(spark: Any, other: Any, tmp_path: Path, name: str) -> None:
    settings, rows, options = OF_READERS[name]
    for setting, value in settings.items():
        other.conf.set(f"spark.sql.{setting}", value)
    frame = other.read.parquet(written(tmp_path / "in", rows, **options))
    found = files_of(frame)
    assert found is None or [tuple(row.values()) for row in rows.to_pylist()] == [tuple(r) for r in frame.collect()]
    assert (found is not None) == (name == "names in capitals")


def test_hidden_files_are_those_that_spark_passes_over(spark: Any, files: Path) -> None:
    pq.write_table(ROWS, files / "_hidden.parquet")
    frame = read(spark, files)
    assert frame.count() == 100
    assert [Path(file.address).name for file in files_of(frame) or ()] == ["one.parquet", "two.parquet"]
