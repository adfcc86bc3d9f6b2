"""Tables of Delta and Iceberg in SQL, on each engine: joined with ours, at a version, pruned by conditions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.engines.engine import ENGINES
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.load.lake_tables import LakeTable
from sleeper_nb.read.predicate import ALWAYS_TRUE
from tests.support import lakes

ROWS = pa.table(
    {
        "k": pa.array(range(8), pa.int64()),
        "s": ["a", None, "c", "d", "e", "f", "g", "h"],
        "d": pa.array([None, *range(20_000, 20_007)], pa.int32()).cast(pa.date32()),
        "x": [0.5, None, float("nan"), 2, 3, 4, 5, 6],
    }
)

on_each = pytest.mark.parametrize(
    "engine", [pytest.param(name, marks=[pytest.mark.spark] if name == "spark" else []) for name in ENGINES]
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lakes")
    lakes.delta_table(folder / "d", ROWS)
    lakes.delete_rows_of_delta(folder / "d", [1])
    table = lakes.iceberg_table(folder / "i", ROWS.slice(0, 4), ROWS.slice(4))
    whole = table.current_snapshot()
    assert whole is not None
    table.manage_snapshots().create_tag(whole.snapshot_id, "whole").commit()
    paths = [task.file.file_path for task in table.scan().plan_files()]
    first = next(
        at for at, path in enumerate(paths) if pq.read_table(path.removeprefix("file://"))["k"][0].as_py() == 0
    )
    lakes.delete_rows_of_iceberg(table, {first: [1]})
    return folder


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[sl.Session]:
    with sl.connect(folder / "w") as made:
        made.create_table("t", data=pa.table({"k": [0, 1, 5, 9], "n": [10, 11, 15, 19]}), row_keys=["k"])
        yield made


@pytest.fixture
def sql(session: sl.Session, engine: Any, folder: Path, request: pytest.FixtureRequest) -> Any:
    if engine == "spark":
        request.getfixturevalue("spark_engine").session()
    places = {"DELTA": f"delta('{folder}/d'", "ICEBERG": f"iceberg('{folder}/i/n/t'"}

    def answer(text: str, **values: Any) -> list[tuple[Any, ...]]:
        for word, call in places.items():
            text = text.replace(f"{word}(", call)
        rows = session.sql(text, engine=engine, params=values or None).to_arrow()
        return [tuple(row.values()) for row in rows.to_pylist()]

    return answer


@on_each
@pytest.mark.parametrize("kind", ["DELTA", "ICEBERG"])
def test_tables_of_other_formats_are_read_with_their_deletes_and_at_versions(sql: Any, kind: str):
    before = ", 0)" if kind == "DELTA" else ", 'whole')"
    assert sql(f"SELECT count(*), sum(k), count(s) FROM {kind}()") == [(7, 27, 7)]
    assert sql(f"SELECT count(*), sum(k), count(s) FROM {kind}({before}") == [(8, 28, 7)]
    last = tuple(ROWS.slice(7).to_pylist()[0].values())
    assert sql(f"SELECT * FROM {kind}() WHERE k = 2 OR s = 'h' ORDER BY k")[1] == last
    joined = f"SELECT t.n, {kind.lower()}.s FROM t JOIN {kind}() ON t.k = {kind.lower()}.k ORDER BY 1"
    assert sql(joined) == [(10, "a"), (15, "f")]
    assert sql(f"SELECT n, s FROM t LEFT JOIN {kind}({before} AS o USING (k) ORDER BY n") == [
        (10, "a"), (11, None), (15, "f"), (19, None),
    ]  # fmt: skip
    assert sql(f"SELECT k FROM {kind}({before} EXCEPT SELECT k FROM {kind}()") == [(1,)]
    assert sql(f"WITH o AS (SELECT s, k FROM {kind}()) SELECT s FROM o WHERE k IN (SELECT k FROM t) ORDER BY s") == [
        ("a",), ("f",),
    ]  # fmt: skip
    assert sql(f"SELECT b FROM {kind}() AS o(a, b, c, e) WHERE a = 3") == [("d",)]
    assert len(sql(f"SELECT k FROM {kind}() WHERE x > 100")) == 1  # NaN is larger


@on_each
@pytest.mark.parametrize("kind", ["DELTA", "ICEBERG"])
def test_predicates_choose_what_is_read(sql: Any, kind: str, monkeypatch: pytest.MonkeyPatch):
    asked = []
    given = LakeTable.parts

    def parts(table: LakeTable, predicate: Any = ALWAYS_TRUE) -> Any:
        found = given(table, predicate)
        asked.append((predicate, len(found)))
        return found

    monkeypatch.setattr(LakeTable, "parts", parts)
    assert sql(f"SELECT s FROM t, {kind}() AS o WHERE o.k = 5 AND t.k = o.k") == [("f",)]
    predicate, files = asked[-1]
    assert predicate != ALWAYS_TRUE
    assert files == 1
    assert sql(f"SELECT s FROM {kind}() AS o WHERE o.k > 100") == []


@on_each
def test_names_of_columns_may_have_spaces(sql: Any, engine: Any, tmp_path: Path):
    lakes.delta_table(tmp_path / "d", pa.table({"Pickup Time": [1, 2], "k`": ["a", "b"]}))
    quote = "`" if engine == "spark" else '"'
    found = sql(f"SELECT sum({quote}Pickup Time{quote}) FROM delta('{tmp_path}/d') WHERE {quote}Pickup Time{quote} > 1")
    assert found == [(2,)]


@on_each
def test_views_and_changes_of_rows_read_such_tables(session: sl.Session, sql: Any, engine: Any):
    name = f"made_{engine}"
    session.create_table(name, data=pa.table({"k": [0, 1], "s": ["old", "old"]}), row_keys=["k"])
    sql(f"MERGE INTO {name} USING ICEBERG() AS o ON {name}.k = o.k WHEN MATCHED THEN UPDATE SET s = o.s "
        "WHEN NOT MATCHED AND o.k > 5 THEN INSERT (k, s) VALUES (o.k, o.s)")  # fmt: skip
    assert sorted(sql(f"SELECT k, s FROM {name}")) == [(0, "a"), (1, "old"), (6, "g"), (7, "h")]
    sql(f"INSERT INTO {name} SELECT k, s FROM DELTA(, 0) WHERE k = 3")
    assert sql(f"SELECT s FROM {name} WHERE k = 3") == [("d",)]
    sql("CREATE TEMP VIEW of_lake AS SELECT k FROM DELTA() WHERE k < 3")
    assert sorted(sql("SELECT * FROM of_lake")) == [(0,), (2,)]
    sql("DROP VIEW of_lake")


@pytest.mark.spark
def test_tasks_of_spark_load_such_tables(session: sl.Session, folder: Path, spark_engine: Any):
    spark_engine.session()
    made = session.create_table(
        "by_tasks", sl.Schema({"k": "long"}, {}, {"s": "string?", "d": "date?", "x": "double?"})
    )
    made.bulk_import([f"delta:{folder}/d", f"iceberg:{folder}/i/n/t@whole"], engine="spark")
    assert sorted(made.scan().to_arrow()["k"].to_pylist()) == sorted([0, *range(2, 8), *range(8)])
    assert made.scan().to_arrow()["s"].null_count == 1


def test_calls_that_name_no_table_are_refused(session: sl.Session, folder: Path):
    def said(call: str, **values: Any) -> str:
        with pytest.raises((InvalidInput, NotFound)) as refused:
            session.sql(f"SELECT * FROM {call}", params=values or None)
        return str(refused.value)

    assert "write delta('path', 12); the version may be left out" in said("delta()")
    assert "write iceberg('path', 'tag')" in said("iceberg(1, 2)")
    assert "has no version 7" in said(f"delta('{folder}/d', 7)")
    assert "no tag, branch or snapshot 'nothing'" in said(f"iceberg('{folder}/i/n/t', 'nothing')")
    assert "the call delta(…) has no versions" in said(f"delta('{folder}/d') VERSION AS OF 0")
    rows = session.sql("SELECT count(*) FROM delta(:path, 1 - 1)", params={"path": f"{folder}/d"}).to_arrow()
    assert rows.to_pydict() == {"count_star()": [8]}


def test_no_local_table_is_looked_for_where_sql_reads_no_local_files(folder: Path, tmp_path: Path):
    with sl.connect(tmp_path / "w") as session:
        session.set_properties({"sleeper.sql.local.files": "false"})
    with sl.connect(tmp_path / "w") as session:
        for path in (f"{folder}/d", f"file://{folder}/nowhere", f"{folder}/nowhere", f"{folder}/a://../d"):
            for kind in ("delta", "iceberg"):
                with pytest.raises(InvalidInput, match="SQL may not read local files here"):
                    session.sql(f"SELECT * FROM {kind}('{path}')")


def test_no_table_is_looked_for_among_files_of_the_operating_system(session: sl.Session, tmp_path: Path):
    (tmp_path / "link").symlink_to("/proc/self")
    for call in ("delta('/proc/self')", "iceberg('file:///dev/zero.metadata.json')", f"iceberg('{tmp_path}/link')"):
        with pytest.raises(InvalidInput, match=r"SQL may not read .*, a file of the operating system"):
            session.sql(f"SELECT * FROM {call}")
