"""A warehouse in a folder whose name an engine could read as a wildcard: it reads its own files, and no other's."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl

SCHEMA = sl.Schema({"k": "long"}, {}, {"v": "string?"})
OURS, OTHERS = ["a", "b"], ["other", "other"]


NAMES = ["w[1]", "a*b?", "w{1}", "w[12"]
ALL_IN_ONE = "w[1]a*b?{1}"


@pytest.fixture(params=NAMES)
def folder(request, tmp_path):
    """Return a folder beside others that its name would match as a pattern, with the same files and other rows."""
    made = tmp_path / request.param
    with sl.connect(made) as session:
        table = session.create_table("t", SCHEMA)
        table.ingest([{"k": 1, "v": "a"}])
        table.ingest([{"k": 2, "v": "b"}])
    for name in ("w1", "axbc", "w1axbc1"):
        for path in made.rglob("*"):
            copy = tmp_path / name / path.relative_to(made)
            if path.is_dir():
                copy.mkdir(parents=True, exist_ok=True)
            elif path.suffix == ".parquet" and "data" in path.parts:
                copy.parent.mkdir(parents=True, exist_ok=True)
                pq.write_table(pa.table({"k": pa.array([9], pa.int64()), "v": ["other"]}), copy)
    return made


def values(rows):
    return sorted(row["v"] for row in pa.table(rows).to_pylist())


def test_every_reader_reads_its_own_files(folder):
    with sl.connect(folder) as session:
        table = session.table("t")
        for where in (None, "k > 0"):
            scan = table.scan(where=where)
            assert values(scan.to_arrow()) == OURS
            assert values(scan.to_duckdb().to_arrow_table()) == OURS
            assert values(scan.to_polars().to_arrow()) == OURS
            assert values(scan.to_polars(lazy=True).collect().to_arrow()) == OURS
        assert values(table.scan(keys=[2]).to_arrow()) == ["b"]
        result = session.sql("SELECT * FROM t WHERE v <> ''", engine="duckdb")
        assert values(result.to_arrow()) == values(result.to_duckdb().to_arrow_table()) == OURS
        assert session.sql('SELECT count(*) AS n FROM "t$files"', engine="duckdb").to_arrow().to_pylist() == [{"n": 2}]
        table.update({"v": "'z'"}, where="v = 'b'")
        assert values(session.sql("SELECT * FROM t", engine="duckdb").to_arrow()) == ["a", "z"]
        table.maintenance.compact("all", engine="local")
        assert values(table.scan().to_arrow()) == ["a", "z"]
        assert values(session.sql("SELECT * FROM t", engine="duckdb").to_arrow()) == ["a", "z"]


@pytest.mark.spark
@pytest.mark.parametrize(
    "folder", [ALL_IN_ONE, "w[12", *(pytest.param(name, marks=pytest.mark.long) for name in NAMES[:3])], indirect=True
)
def test_spark_reads_its_own_files(folder, spark_engine):
    with sl.connect(folder, spark=spark_engine.session()) as session:
        assert values(session.sql("SELECT * FROM t WHERE v <> ''", engine="spark").to_arrow()) == OURS
        assert values(session.table("t").scan().to_spark().toArrow()) == OURS
        assert values(session.spark_session.table("t").toArrow()) == OURS
        assert Path(folder).is_dir()
