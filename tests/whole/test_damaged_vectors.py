"""The file of a deletion vector is cut, changed, emptied or gone: an error names it, and nobody gets wrong rows."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from sleeper_nb.engines.spark.spark_errors import explain
from tests.support.combinations import each_value_once

SCHEMA = sl.Schema({"k": "int"}, {}, {"n": "long", "v": "string?"})
VECTORS = {
    "sleeper.table.deletion.vector.file.bytes.min": "0",
    "sleeper.table.deletion.vector.percent.max": "100",
}


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "cut": lambda content: content[:-9],
    "flipped bit": flipped,
    "empty": lambda _: b"",
    "other vector": lambda _: b"",
    "missing": lambda _: None,
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Version 3 has a vector in one leaf; version 4 another one, for a file that two leaves share."""
    folder = tmp_path_factory.mktemp("vectors") / "house"
    with sl.connect(folder) as session:
        table = session.create_table("t", SCHEMA, properties=VECTORS)
        table.ingest([{"k": k, "n": k * 10, "v": f"v{k}"} for k in range(20)])
        table.delete("k IN (0, 7)")
        table.maintenance.split(at=10)
        table.delete("k = 15")
        table.create_savepoint("kept")
    return folder


@pytest.fixture
def house(prepared: Path, tmp_path: Path) -> Path:
    shutil.copytree(prepared, tmp_path / "house")
    return tmp_path / "house"


@pytest.fixture(params=DAMAGES)
def damaged(request: pytest.FixtureRequest, house: Path) -> tuple[Path, str]:
    """A warehouse where the vector of the left leaf is damaged, and the name of its file."""
    with sl.connect(house) as session:
        active = session.table("t").at().state.files.active.to_pylist()
        names = [each["deletion_file"] for each in sorted(active, key=lambda each: each["deletion_rows"])]
        path, other = [Path(session.table("t")._store.storage.locate(name)) for name in names]
    content = other.read_bytes() if request.param == "other vector" else DAMAGES[request.param](path.read_bytes())
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    return house, path.name


def rows_of_engine(engine: str) -> Callable[[sl.Session, sl.Table, Path], Any]:
    return lambda s, _t, _p: s.sql("SELECT * FROM t", engine=engine).to_arrow()


READERS: dict[str, Callable[[sl.Session, sl.Table, Path], Any]] = {
    "to_arrow": lambda _s, t, _p: t.scan().to_arrow(),
    "where": lambda _s, t, _p: t.scan(where="n >= 0").to_arrow(),
    "region": lambda _s, t, _p: [t.scan(region={"k": bounds}).to_arrow() for bounds in ((None, 10), (10, None))],
    "iteration": lambda _s, t, _p: [*t.scan()],
    "head": lambda _s, t, _p: t.scan().head(1000),
    "to_duckdb": lambda _s, t, _p: t.scan().to_duckdb().fetchall(),
    "to_dataset": lambda _s, t, _p: t.scan().to_dataset().to_table(),
    "to_polars": lambda _s, t, _p: t.scan().to_polars(),
    "lazy Polars": lambda _s, t, _p: t.scan().to_polars(lazy=True).collect(),
    "to_pandas": lambda _s, t, _p: t.scan().to_pandas(),
    "sql": rows_of_engine("duckdb"),
    "sql with a condition": lambda s, _t, _p: s.sql("SELECT * FROM t WHERE n >= 0", engine="duckdb").to_arrow(),
    "sum": lambda s, _t, _p: s.sql("SELECT sum(n) FROM t", engine="duckdb").to_arrow(),
    "export": lambda _s, t, p: t.export(p / "rows.parquet"),
    "savepoint": lambda _s, t, _p: t.at("savepoint.kept").scan().to_arrow(),
    "changes": lambda _s, t, _p: t.changes(2, 5).rows().to_arrow(),
    "images": lambda _s, t, _p: t.changes(2, 5, images=True).rows().to_arrow(),
    "diff": lambda _s, t, _p: t.diff(2, 5).rows,
    "profile": lambda _s, t, _p: t.profile().to_arrow(),
}
"""What reads all rows of the newest version."""
WORK: dict[str, Callable[[sl.Table], Any]] = {
    "compact": lambda t: t.maintenance.compact("all", engine="local", partition=t.at().partition_tree.leaves[0].id),
    "delete": lambda t: t.delete("k IN (1, 11)"),
    "update": lambda t: t.update({"n": "n + 1"}, "k IN (1, 11)"),
    "upsert": lambda t: t.upsert([{"k": k, "n": 1, "v": "new"} for k in (1, 11, 30)], job_id="job"),
    "merge": lambda t: t.merge([{"k": 1, "n": 1, "v": None}]).when_not_matched_by_source_delete().execute(),
    "overwrite": lambda t: t.overwrite([{"k": 3, "n": 3, "v": None}], where="k <> 4"),
    "split": lambda t: t.maintenance.split(threshold=2),
}
"""What needs the damaged vector."""


def holds_an_error(work: Callable[[], Any], name: str) -> None:
    """Hold that work fails by an error that names the file and says what to do."""
    with pytest.raises(sl.SleeperError, match=re.escape(name)) as caught:
        work()
    assert isinstance(caught.value, sl.errors.StorageError | sl.errors.NotFound), caught.value
    assert caught.value.hint


def test_no_reader_gives_rows_of_a_damaged_vector(damaged: tuple[Path, str], tmp_path: Path):
    house, name = damaged
    with sl.connect(house) as session:
        for read in READERS.values():
            holds_an_error(lambda read=read: read(session, session.table("t"), tmp_path), name)
        assert not (tmp_path / "rows.parquet").exists()
        assert session.table("t").at(2).scan().to_arrow().num_rows == 20  # older versions need it not


def test_work_that_needs_a_damaged_vector_changes_nothing(damaged: tuple[Path, str]):
    house, name = damaged
    with sl.connect(house) as session:
        table, files = session.table("t"), {*house.rglob("data/*/*.parquet")}
        before = table.at().resolved.version.id
        for work in WORK.values():
            holds_an_error(lambda work=work: work(table), name)
            assert table.at().resolved.version.id == before
            assert {*house.rglob("data/*/*.parquet")} == files
            assert not table.inspect.leases()
        table.rollback(2)
        assert table.scan().count() == table.scan().to_arrow().num_rows == 20


@pytest.mark.parametrize("deep", [False, True])
def test_a_check_finds_a_damaged_vector(damaged: tuple[Path, str], deep: bool, request: pytest.FixtureRequest):
    house, name = damaged
    has_its_size = "flipped" in request.node.callspec.id
    with sl.connect(house) as session:
        report = session.table("t").maintenance.check(deep=deep)
        if has_its_size and not deep:
            assert report.ok
            return
        (found,) = report.findings
        assert (found.kind, name in found.what, found.where) == ("deletion vector", True, "snapshots 3–5, savepoint 1")
        assert "which rows are deleted" in found.means


def test_a_flip_anywhere_in_a_vector_is_found(house: Path):
    with sl.connect(house) as session:
        table = session.table("t")
        path = Path(table._store.storage.locate(table.at().state.files.active["deletion_file"][0].as_py()))
        whole = path.read_bytes()
        for at in range(0, len(whole), 9):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
            for read in (table.scan().to_arrow, table.scan().to_duckdb):
                with pytest.raises(sl.errors.StorageError, match=f"{path.name} is damaged"):
                    read()
        path.write_bytes(whole)
        assert table.scan().to_arrow().num_rows == 17


ON_SPARK: dict[str, Callable[[sl.Session, sl.Table], Any]] = {
    "sql": lambda s, _t: s.sql("SELECT * FROM t", engine="spark").to_arrow(),
    "to_spark": lambda _s, t: t.scan().to_spark().toArrow(),
    "where": lambda _s, t: t.scan(where="n >= 0").to_spark().toArrow(),
    "source": lambda s, _t: read_by_source(s),
    "compact": lambda _s, t: t.maintenance.compact("all", engine="spark"),
    "delete": lambda _s, t: t.delete("k IN (1, 11)", engine="spark"),
}


def read_by_source(session: sl.Session) -> Any:
    """Read through Spark's data source, whose errors reach a program inside Spark's own."""
    try:
        return session.spark_session.read.format("sleeper").load("t").toArrow()
    except Exception as error:
        raise explain(error) from error


@pytest.mark.spark
@pytest.mark.parametrize(
    ("damaged", "reader"), each_value_once(["flipped bit", "missing"], list(ON_SPARK)), indirect=["damaged"]
)
def test_spark_gives_no_rows_of_a_damaged_vector(damaged: tuple[Path, str], spark_engine: Any, reader: str):
    house, name = damaged
    with sl.connect(house, spark=spark_engine.session()) as session:
        table = session.table("t")
        before, files = table.at().resolved.version.id, {*house.rglob("data/*/*.parquet")}
        holds_an_error(lambda: ON_SPARK[reader](session, table), name)
        if reader == "compact":  # each leaf is a commit of its own
            assert table.at().resolved.version.rows == 17
            with pytest.raises(sl.SleeperError, match=name):
                table.scan().to_arrow()
            return
        assert table.at().resolved.version.id == before
        assert {*house.rglob("data/*/*.parquet")} == files
