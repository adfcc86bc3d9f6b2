"""What Spark's tasks write has checksums too, and Spark's own reader gives no rows of a damaged page."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import sleeper_nb as sl
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.errors import SleeperError
from sleeper_nb.model.checksums import checksum_of

pytestmark = pytest.mark.spark


def test_files_of_spark_have_checksums_and_damaged_pages_are_errors(tmp_path: Path, spark_engine: SparkRuntime):
    spark = spark_engine.run(lambda session: session, "a session")
    with sl.connect(tmp_path / "w", spark=spark) as session:
        table = session.create_table("t", sl.Schema({"key": "string"}, {}, {"n": "long"}), ["m"])
        for _ in range(2):
            table.bulk_import(pa.table({"key": [f"{c}{i}" for c in "az" for i in range(500)], "n": list(range(1000))}))
        table.maintenance.compact("all", engine="spark")
        files = table.at().state.files.table.to_pylist()
        folder = next((tmp_path / "w").rglob("data")).parent
        for each in files:
            assert each["checksum"]
            if (folder / each["filename"]).exists():
                assert checksum_of((folder / each["filename"]).read_bytes()) == each["checksum"]
        assert table.maintenance.check(deep=True).ok
        path = folder / table.at().state.files.active["filename"][0].as_py()
        whole = path.read_bytes()
        path.write_bytes(whole[:300] + bytes([whole[300] ^ 1]) + whole[301:])
        with pytest.raises(Exception, match=r"(?i)crc|checksum"):
            table.scan().to_spark().toArrow()


LENIENT = {
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
}


@pytest.fixture
def lenient(spark_engine: SparkRuntime):
    """A Spark session of the user's own, whose settings leave out files that it cannot read."""
    spark = spark_engine.session()
    before = {name: spark.conf.get(name, None) for name in LENIENT}
    for name, value in LENIENT.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def test_no_setting_of_the_spark_session_leaves_out_files_or_shifts_dates(tmp_path: Path, lenient):
    rows = pa.table({"key": ["a", "z"], "day": [dt.date(1500, 2, 28), dt.date(2026, 11, 1)]})
    parquet.write_table(rows, tmp_path / "rows.parquet")
    with sl.connect(tmp_path / "w", spark=lenient) as session:
        table = session.create_table("t", sl.Schema({"key": "string"}, {}, {"day": "date"}), ["m"])
        table.bulk_import(str(tmp_path / "rows.parquet"))
        assert table.scan().to_spark().orderBy("key").toArrow().to_pylist() == rows.to_pylist()
        file = next(path for path in (tmp_path / "w").rglob("*.parquet") if "/data/" in str(path))
        whole, before = file.read_bytes(), len(table.history())
        given = tmp_path / "given.parquet"
        given.write_bytes(whole[:4] + bytes(len(whole) - 300) + whole[-296:])
        kept = session.sql("SELECT count(upper(key)) AS n FROM t", engine="spark")
        frame = table.scan().to_spark()
        for damage in (lambda: file.write_bytes(given.read_bytes()), lambda: file.write_bytes(b""), file.unlink):
            damage()
            with pytest.raises(SleeperError, match=file.name):
                session.sql("SELECT count(upper(key)) AS n FROM t", engine="spark").to_arrow()
            with pytest.raises(SleeperError, match=file.name):
                table.scan().to_spark()
        for late in (kept.to_arrow, frame.toArrow):
            with pytest.raises(Exception, match=r"(?i)parquet|exist|failed"):
                late()
        with pytest.raises(Exception, match=r"(?i)parquet|failed"):
            table.bulk_import(str(given))
        assert len(table.history()) == before
