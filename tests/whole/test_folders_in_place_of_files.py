"""A folder has the name of a file of a table: an error names it and says what to do, and a check lists it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from sleeper_nb.read.read_rows import CHECKED_BYTES
from sleeper_nb.state_store.history import Metadata
from tests.whole.test_damaged_vectors import READERS, SCHEMA, VECTORS, WORK

CHANGES = {name: WORK[name] for name in ("compact", "delete", "update", "overwrite")}
"""What reads all of the newest version."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("folders") / "house"
    with sl.connect(folder) as session:
        table = session.create_table("t", SCHEMA, properties=VECTORS)
        table.ingest([{"k": k, "n": k * 10, "v": f"v{k}"} for k in range(20)])
        table.ingest([{"k": k, "n": k * 10, "v": "more"} for k in range(20)])
        table.delete("k IN (0, 7)")
        table.create_savepoint("kept")
        table.delete("k IN (8, 9)")
    return folder


def a_file(table: sl.Table, kind: str) -> Path:
    metadata, files = Metadata.of(table.at().resolved.version), table.at().state.files.active.to_pylist()
    assert metadata is not None
    names = {
        "data": files[0]["filename"],
        "vector": files[0]["deletion_file"],
        "files": metadata.files_path,
        "partitions": metadata.partitions_path,
    }
    return Path(table._store.storage.locate(names[kind]))


@pytest.fixture(params=["data", "vector", "files", "partitions"])
def broken(request: pytest.FixtureRequest, prepared: Path, tmp_path: Path) -> tuple[Path, str]:
    """A warehouse where a folder is in the place of a file of the newest version, and the file's name."""
    house = tmp_path / "house"
    shutil.copytree(prepared, house)
    with sl.connect(house) as session:
        path = a_file(session.table("t"), request.param)
    path.unlink()
    path.mkdir()
    (path / "part-0.parquet").write_bytes(b"")
    return house, path.name


def fails_with_its_name(work: Callable[[], Any], name: str) -> None:
    with pytest.raises(sl.StorageError, match=f"{name} is a folder, not a file") as caught:
        work()
    assert "restore the file" in str(caught.value)


def test_every_reader_names_the_folder(broken: tuple[Path, str], tmp_path: Path):
    house, name = broken
    with sl.connect(house) as session:
        for reader, read in READERS.items():
            if reader not in {"savepoint", "changes", "images", "diff"}:  # of older versions
                fails_with_its_name(lambda read=read: read(session, session.table("t"), tmp_path), name)


def test_work_on_the_table_names_the_folder_and_changes_nothing(broken: tuple[Path, str]):
    house, name = broken
    with sl.connect(house) as session:
        table = session.table("t")
        before = table.history()[0].id
        for work in CHANGES.values():
            fails_with_its_name(lambda work=work: work(table), name)
        assert table.history()[0].id == before


def test_a_condition_on_large_files_does_not_read_what_is_in_the_folder(tmp_path: Path):
    rows = [{"k": k, "n": k, "v": os.urandom(5_000).hex()} for k in range(1_000)]
    with sl.connect(tmp_path / "house") as session:
        table = session.create_table("t", SCHEMA)
        for part in (rows[::2], rows[1::2]):
            table.ingest(part)
        path, other = sorted((tmp_path / "house").rglob("data/*/*.parquet"))
        assert other.stat().st_size > CHECKED_BYTES // 2
        path.unlink()
        path.mkdir()
        shutil.copy(other, path / "part-0.parquet")
        fails_with_its_name(lambda: session.sql("SELECT * FROM t WHERE k < 10").to_arrow(), path.name)
        fails_with_its_name(lambda: table.scan(where="k < 10").to_duckdb().fetchall(), path.name)


@pytest.mark.parametrize("deep", [False, True])
def test_a_check_lists_the_folder(broken: tuple[Path, str], deep: bool):
    house, name = broken
    with sl.connect(house) as session:
        assert any(name in str(found) for found in session.table("t").maintenance.check(deep=deep).findings)


@pytest.mark.spark
def test_spark_names_the_folder_and_does_not_read_what_is_in_it(spark_engine: Any, prepared: Path, tmp_path: Path):
    house = tmp_path / "house"
    shutil.copytree(prepared, house)
    with sl.connect(house, spark=spark_engine.session()) as session:
        path = a_file(session.table("t"), "data")
        inside = path.read_bytes()
        path.unlink()
        path.mkdir()
        (path / "part-0.parquet").write_bytes(inside)
        for sql in ("SELECT * FROM t", "SELECT sum(n) FROM t WHERE n >= 0"):
            fails_with_its_name(lambda sql=sql: session.sql(sql, engine="spark").to_arrow(), path.name)
