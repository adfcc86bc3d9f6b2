"""Data sets of files that Python opens: they are PyArrow's, and a stream of them never waits for ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset

from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.streamed_dataset import StreamedFiles, StreamedUnion
from tests.storage.opened_by_python import PythonPlace

ROOT = Path(__file__).parents[2]


@pytest.fixture
def files(tmp_path: Path) -> dataset.Dataset:
    """Return two files of three rows."""
    for number in range(2):
        pq.write_table(pa.table({"k": [number, 2 + number, 4 + number]}), tmp_path / f"{number}.parquet")
    return Storage(PythonPlace(tmp_path)).dataset(["0.parquet", "1.parquet"], pa.schema({"k": pa.int64()}))


def test_scans_at_once_with_the_opening_of_files_never_wait_for_ever(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.storage.opened_by_python", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_data_set_is_one_for_every_library(files: dataset.Dataset, tmp_path: Path):
    union = StreamedUnion(files.schema, [files, dataset.dataset(pa.table({"k": [9]}))])
    for rows, keys in ((files, [0, 1, 2, 3, 4, 5]), (union, [0, 1, 2, 3, 4, 5, 9])):
        filtered = rows.filter(dataset.field("k") > 2)
        assert sorted(filtered.to_table()["k"].to_pylist()) == keys[3:]
        assert sorted(pl.scan_pyarrow_dataset(rows).collect()["k"]) == keys
        assert duckdb.sql("SELECT list(k ORDER BY k) FROM rows").fetchall() == [(keys,)]
        assert duckdb.sql("SELECT list(k ORDER BY k) FROM filtered").fetchall() == [(keys[3:],)]
        scanner = rows.scanner(columns=["k"])
        assert sorted(pa.table(scanner)["k"].to_pylist()) == keys
        assert (scanner.count_rows(), scanner.projected_schema) == (len(keys), files.schema)
        dataset.write_dataset(rows, tmp_path / f"written-{len(keys)}", format="parquet")
        assert pq.read_table(tmp_path / f"written-{len(keys)}").num_rows == len(keys)


def test_files_of_this_machine_are_a_data_set_of_pyarrow(tmp_path: Path):
    pq.write_table(pa.table({"k": [1]}), tmp_path / "0.parquet")
    assert type(Storage(tmp_path).dataset(["0.parquet"])) is dataset.FileSystemDataset
    assert type(Storage(PythonPlace(tmp_path)).dataset(["0.parquet"])) is StreamedFiles
