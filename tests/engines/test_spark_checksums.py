"""What Spark's tasks write has checksums too, and Spark's own reader gives no rows of a damaged page."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.engines.spark.session import SparkEngine
from sleeper_nb.model.checksums import checksum_of

pytestmark = pytest.mark.spark


def test_files_of_spark_have_checksums_and_damaged_pages_are_errors(tmp_path: Path, spark_engine: SparkEngine):
    spark = spark_engine.run(lambda session: session, "a session")
    with sl.connect(tmp_path / "w", spark=spark) as session:
        table = session.create_table("t", sl.Schema({"key": "string"}, {}, {"n": "long"}), ["m"])
        for _ in range(2):
            table.bulk_import(pa.table({"key": [f"{c}{i}" for c in "az" for i in range(500)], "n": list(range(1000))}))
        table.compact("all", engine="spark")
        files = table.state.files.table.to_pylist()
        folder = next((tmp_path / "w").rglob("data")).parent
        for each in files:
            assert each["checksum"]
            if (folder / each["filename"]).exists():
                assert checksum_of((folder / each["filename"]).read_bytes()) == each["checksum"]
        assert table.check(deep=True).ok
        path = folder / table.state.files.active["filename"][0].as_py()
        whole = path.read_bytes()
        path.write_bytes(whole[:300] + bytes([whole[300] ^ 1]) + whole[301:])
        with pytest.raises(Exception, match=r"(?i)crc|checksum"):
            table.scan().to_spark().toArrow()
