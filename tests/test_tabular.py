"""Every value with rows and columns is a table for Arrow, pandas, Polars and DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sleeper_nb as sl

VALUES = (
    "session.tables()", "session.jobs()", "table.jobs()", "table.snapshots()", "table.savepoints()", "table.files()",
    "table.leaves()", "table.fields()", "table.inspect('SELECT * FROM files')", "table.scan()",
    "table.changes(2, 3).added", "session.sql('SELECT * FROM t', engine='duckdb')",
)  # fmt: skip


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sl.Session]:
    with sl.connect(tmp_path) as opened:
        table = opened.create_table("t", sl.Schema({"k": "int"}, {}, {"v": "string?"}), split_points=[5])
        table.ingest([{"k": k, "v": None if k % 2 else f"v{k}"} for k in range(10)], job_id="first")
        table.ingest([{"k": 20, "v": "x"}])
        table.create_savepoint("saved")
        yield opened


@pytest.mark.parametrize("name", VALUES)
def test_a_value_with_rows_is_a_table_for_every_library(session: sl.Session, name: str):
    value: Any = eval(name, {"session": session, "table": session.table("t")})  # noqa: S307 - written above
    rows = value.to_arrow()
    assert rows.num_rows > 0
    assert pa.table(value) == rows
    assert value.to_pandas().shape == value.to_polars().shape == rows.shape
    assert pd.DataFrame(duckdb.sql("FROM value").fetchall()).shape == rows.shape


def test_a_listing_gives_the_values_of_its_cells(session: sl.Session):
    table = session.table("t")
    assert table.leaves().to_arrow()["bytes"].type == pa.int64()
    assert table.snapshots().to_arrow().num_rows == len(table.snapshots())
    assert table.inspect("SELECT rows FROM files ORDER BY rows").to_arrow()["rows"].to_pylist() == [1, 5, 5]
    assert len(table.inspect("SELECT rows FROM files")) == 3


def test_polars_reads_rows_as_a_frame(session: sl.Session):
    for value in (session.table("t").scan(), session.sql("SELECT * FROM t", engine="duckdb")):
        read: Any = value
        assert pl.DataFrame(read).shape == (11, 2)


def test_a_column_with_values_of_several_kinds_becomes_text():
    from sleeper_nb.tabular import as_arrow

    rows = as_arrow({"a": [1, "x", None], "b": [1, 2, 3], "c": [2**70, 1, None]})
    assert rows.to_pydict() == {"a": ["1", "x", None], "b": [1, 2, 3], "c": [str(2**70), "1", None]}
