"""Statistics in a large local metadata file are read when something needs them, whatever happened to the file."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.errors import StorageError
from sleeper_nb.model.files import FileReferences
from sleeper_nb.storage import metadata
from sleeper_nb.storage.filesystem import Storage
from tests.storage.test_metadata_files import references

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows does not delete an open file: all is read at once")


@pytest.fixture(autouse=True)
def small_files_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "FEW_ROWS", 0)
    monkeypatch.setattr(metadata, "READ_WHOLE_BYTES", -1)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The columns of statistics that were read."""
    seen: list[str] = []
    read = metadata.UnreadStatistics.read

    def counted(self: metadata.UnreadStatistics) -> pa.Table:
        seen.extend(self.schema.names)
        return read(self)

    monkeypatch.setattr(metadata.UnreadStatistics, "read", counted)
    return seen


def written(folder: Path) -> tuple[Storage, FileReferences, str]:
    storage, files = Storage(folder), references(100)
    return storage, files, metadata.write_files(storage, "files.parquet", files)


def test_a_deleted_file_still_gives_them(tmp_path: Path):
    storage, files, checksum = written(tmp_path)
    loaded = metadata.read_files(storage, "files.parquet", checksum)
    storage.delete("files.parquet")
    assert loaded.table == files.table


def test_a_file_that_was_damaged_meanwhile_is_named(tmp_path: Path):
    storage, _, checksum = written(tmp_path)
    loaded = metadata.read_files(storage, "files.parquet", checksum)
    os.truncate(tmp_path / "files.parquet", 100)
    with pytest.raises(StorageError, match=r"cannot read the metadata file .*files\.parquet"):
        _ = loaded.active
    with pytest.raises(StorageError, match=r"cannot read the metadata file .*files\.parquet"):
        _ = loaded.active  # and not another error the second time


def test_threads_get_the_same(tmp_path: Path):
    storage, files, checksum = written(tmp_path)
    loaded = metadata.read_files(storage, "files.parquet", checksum)
    with ThreadPoolExecutor(8) as pool:
        tables = list(pool.map(lambda _: loaded.table, range(16)))
    assert all(table == files.table for table in tables)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts the open files of the process")
def test_no_file_stays_open_once_they_are_read_or_the_version_is_gone(tmp_path: Path):
    storage, _, checksum = written(tmp_path)

    def is_open() -> bool:
        return (tmp_path / "files.parquet").resolve() in {path.resolve() for path in Path("/proc/self/fd").iterdir()}

    loaded = metadata.read_files(storage, "files.parquet", checksum)
    assert is_open()
    _ = loaded.active
    assert not is_open()
    loaded = metadata.read_files(storage, "files.parquet", checksum)
    del loaded
    for _ in range(1000):  # a thread of Arrow may hold what it has read for a moment longer
        if not is_open():
            break
        Event().wait(0.01)
    assert not is_open()


def test_queries_read_them_only_for_conditions_on_their_columns(tmp_path: Path, reads: list[str]):
    rows = [{"key": number, "time": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)} for number in range(40)]
    with sl.connect(tmp_path, "i") as session:
        schema = sl.Schema({"key": "long"}, values={"time": "timestamp"})
        made = session.create_table("t", schema, [10, 20, 30])
        for begin in range(0, 40, 10):
            made.ingest(rows[begin : begin + 10])
    reads.clear()
    with sl.connect(tmp_path, "i") as session:
        table = session.table("t")
        assert table.scan(keys=5).to_arrow().num_rows == 1
        assert table.scan(where="key BETWEEN 5 AND 14").count() == 10
        assert table.scan().to_arrow().num_rows == 40
        assert session.sql("SELECT count(*) AS n, min(key) AS k FROM t", engine="duckdb").to_arrow().to_pylist() == [
            {"n": 40, "k": 0}
        ]
        assert session.sql("SELECT * FROM t WHERE key IN (3, 33)", engine="duckdb").to_arrow().num_rows == 2
        assert table.inspect.status().rows == 40
        assert not reads
        plan = session.sql("SELECT * FROM t WHERE time < '2026-01-05'", engine="duckdb")
        assert plan.to_arrow().num_rows == 4
        assert {*reads} == {"min_time", "max_time", "nulls_time"}
