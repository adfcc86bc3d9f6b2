"""Data frames and other variables with rows, read by name in SQL on both engines."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset

import sleeper_nb as sl
from tests.support.engines import ENGINES

SCHEMA = sl.Schema({"k": "int"}, {}, {"v": "long"})


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sl.Session]:
    """Ten rows in two partitions."""
    with sl.connect(tmp_path / "warehouse") as opened:
        opened.create_table("t", SCHEMA, split_points=[5]).ingest([{"k": n, "v": n * 10} for n in range(10)])
        yield opened


def tables(session: sl.Session) -> dict[str, Any]:
    """Return the same two rows, as every library has them."""
    rows = pa.table({"k": pa.array([3, 8], pa.int32()), "name": ["three", "eight"]})
    return {
        "arrow": rows, "batch": rows.to_batches()[0], "pandas": rows.to_pandas(), "polars": pl.DataFrame(rows),
        "lazy": pl.DataFrame(rows).lazy(), "relation": duckdb.from_arrow(rows), "in_dataset": dataset.dataset(rows),
        "result": session.sql("SELECT * FROM rows", data={"rows": rows}),
        "indexed": rows.to_pandas().set_index("k", drop=False),
        "categories": rows.to_pandas().astype({"name": "category"}),
        "enums": pl.DataFrame(rows).cast({"name": pl.Categorical}),
    }  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_every_table_of_a_program_can_be_joined_with_ours(session: sl.Session, engine: Any):
    for name, data in tables(session).items():
        statement = f"SELECT v, {name}.name AS name FROM t JOIN {name} ON t.k = {name}.k WHERE t.k > 4 ORDER BY v"
        result = session.sql(statement, engine=engine, data={name: data})
        assert result.to_dict() == {"v": [80], "name": ["eight"]}, name
        assert f"t at snapshot 2, variable {name} · {engine} · 1/2 partitions" in repr(result)
        assert f"variable {name}" in repr(result.cost())


@pytest.mark.spark
def test_a_spark_data_frame_is_read_where_it_is(tmp_path: Path, spark_engine: Any):
    with sl.connect(tmp_path / "warehouse", spark=spark_engine.session()) as session:
        session.create_table("t", SCHEMA).ingest([{"k": n, "v": n} for n in range(5)])
        frame = session.spark_session.range(2, 4).withColumnRenamed("id", "k")
        read = session.sql("SELECT sum(v) AS v FROM t JOIN frame USING (k)", data={"frame": frame})
        assert (read.engine, read.to_dict()) == ("spark", {"v": [5]})
        assert "spark (auto: frame is a Spark DataFrame)" in repr(read)
        on_duckdb = session.sql(
            "SELECT sum(v) AS v FROM t JOIN frame USING (k)", data={"frame": frame}, engine="duckdb"
        )
        assert on_duckdb.to_dict() == {"v": [5]}


@pytest.mark.parametrize("engine", ENGINES)
def test_tables_views_and_ctes_win(session: sl.Session, engine: Any):
    other = {name: pd.DataFrame({"k": [99]}) for name in ("t", "few", "x")}
    session.sql("CREATE TEMP VIEW few AS SELECT k FROM t WHERE k < 3", engine=engine)
    for statement in ("SELECT max(k) AS k FROM t", "SELECT max(k) + 7 AS k FROM few",
                      "WITH x AS (SELECT 9 AS k) SELECT k FROM x"):  # fmt: skip
        result = session.sql(statement, engine=engine, data=other)
        assert result.to_dict() == {"k": [9]}
        assert "variable" not in repr(result)


def test_a_view_of_a_variable_reads_the_one_that_is_passed_each_time(session: sl.Session):
    session.sql("CREATE TEMP VIEW of_df AS SELECT max(k) AS k FROM df", data={"df": pd.DataFrame({"k": [1]})})
    assert session.sql("SELECT k FROM of_df", data={"df": pd.DataFrame({"k": [5]})}).to_dict() == {"k": [5]}
    with pytest.raises(sl.NotFound, match="no table 'df'"):
        session.sql("SELECT k FROM of_df")


def test_missing_values_of_pandas_are_null(session: sl.Session):
    df = pd.DataFrame({"f": [1.5, float("nan")], "o": ["a", None], "n": pd.array([1, None], "Int64")})
    expected = {"f": [1.5, None], "o": ["a", None], "n": [1, None]}
    assert session.sql("FROM df", data={"df": df}).to_dict() == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_times_without_a_zone_are_in_utc_as_in_a_load(session: sl.Session, engine: Any):
    times = session.create_table("at", sl.Schema({"k": "int"}, {"t": "timestamp"}))
    times.ingest([{"k": 1, "t": pd.Timestamp("2026-01-01 05:00", tz="UTC")}])
    df = pd.DataFrame({"t": pd.to_datetime(["2026-01-01 05:00"]), "n": [7]})
    joined = session.sql("SELECT df.n FROM at JOIN df USING (t)", engine=engine, data={"df": df})
    assert joined.to_dict() == {"n": [7]}


@pytest.mark.parametrize("engine", ENGINES)
def test_nested_texts_of_polars_are_read(session: sl.Session, engine: Any):
    df = pl.DataFrame({"l": [["a", "b"]], "s": [{"z": "c"}]})
    result = session.sql("SELECT s.z AS z, l FROM df", engine=engine, data={"df": df})
    assert result.to_dict() == {"z": ["c"], "l": [["a", "b"]]}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_table_without_rows_may_have_nested_columns(session: sl.Session, engine: Any):
    schema = pa.schema({"n": pa.int64(), "l": pa.list_(pa.int32()), "r": pa.struct({"a": pa.string()})})
    for rows in (schema.empty_table(), pa.Table.from_batches([], schema)):
        found = session.sql("SELECT * FROM nothing", engine=engine, data={"nothing": rows}).to_arrow()
        assert (found.num_rows, found.column_names) == (0, ["n", "l", "r"])


def test_a_class_made_from_the_data_frame_of_pandas_is_one(session: sl.Session):
    class Named(pd.DataFrame):
        pass

    df = Named({"k": [1, 2]}).set_index("k", drop=False)
    result = session.sql("FROM df", data={"df": df})
    df.loc[1, "k"] = 100
    assert result.to_dict() == {"k": [1, 2]}


def test_a_lazy_frame_is_computed_once(session: sl.Session):
    computed = []
    lazy = pl.DataFrame({"k": [1]}).lazy().map_batches(lambda each: (computed.append(1), each)[1])
    assert session.sql("SELECT x.k FROM df x JOIN df y USING (k)", data={"df": lazy}).to_dict() == {"k": [1]}
    assert len(computed) == 1


def test_a_misspelt_variable_is_suggested(session: sl.Session):
    with pytest.raises(sl.NotFound) as caught:
        session.sql("SELECT * FROM frme", data={"frame": pd.DataFrame({"k": [1]})})
    assert "frame" in str(caught.value.hint)


def test_rows_are_those_of_the_moment_the_statement_began(session: sl.Session):
    df = pd.DataFrame({"k": [1, 2]})
    result = session.sql("SELECT max(k) AS k FROM df", data={"df": df})
    df.loc[0, "k"] = 100
    assert result.to_dict() == {"k": [2]}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([1, 2], r"no table 'df'; variable 'df' \(list\) is no data frame"),
        ({"k": [1, 2]}, r"no table 'df'; variable 'df' \(dict\) is no data frame"),
        (pd.Series([1]), r"no table 'df'; variable 'df' \(Series\) is no data frame"),
        (pl.Series([1]), r"no table 'df'; variable 'df' \(Series\) is no data frame"),
        (pa.chunked_array([[1]]), r"no table 'df'; variable 'df' \(ChunkedArray\) is no data frame"),
        (pa.table({"k": [1]}).to_reader(), r"no table 'df'; variable 'df' .* can be read only once"),
        (None, "no table 'df'"),
        (pd.DataFrame({"a": [1, "b"]}), "variable 'df': column 'a' has values of several types: long, and"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "variable 'df' has two columns 'a'"),
        (pa.table([[1], [2]], ["a", "a"]), "variable 'df' has two columns 'a'"),
        (pd.DataFrame([[1, 2]], columns=["a", "A"]), "variable 'df' has two columns 'a'"),
        (pd.DataFrame([[1]], columns=[""]), "variable 'df' has a column without a name"),
        (pd.DataFrame(), "variable 'df' has no columns"),
        (pd.DataFrame({"p": pd.period_range("2026", periods=1, freq="M")}), "column 'p' of variable 'df'"),
        (pl.DataFrame({"o": pl.Series([object()], dtype=pl.Object)}), "column 'o' has Python objects"),
        (pl.DataFrame({"a": [1]}).lazy().select("zz"), "variable 'df': the data cannot be computed"),
        (pd.DataFrame({"t": pd.to_datetime(["2026-01-01 00:00:00.000000999"])}), "column 't' .* lose data"),
        (pd.DataFrame({"d": pd.to_timedelta([1500])}), "column 'd' .* lose data"),
        (pa.table({"a": pa.array([1], pa.decimal256(50, 2))}), "variable df"),
        (pd.DataFrame, "no table 'df'"),
        (pl.DataFrame, "no table 'df'"),
    ],
)
def test_what_is_no_table_is_an_error_that_names_it(session: sl.Session, data: Any, problem: str):
    with pytest.raises(sl.SleeperError, match=problem):
        session.sql("SELECT * FROM df", data={"df": data})


def test_a_variable_has_no_versions_and_is_never_written(session: sl.Session):
    df = {"df": pd.DataFrame({"k": [1]})}
    for statement in ("SELECT * FROM df VERSION AS OF 2", "INSERT INTO df SELECT 1", "DROP TABLE df"):
        with pytest.raises(sl.SleeperError):
            session.sql(statement, data=df)
    assert list(df["df"]["k"]) == [1]


@pytest.mark.spark
def test_a_type_that_spark_lacks_is_an_error_that_names_the_variable(session: sl.Session):
    counts = pa.table({"n": pa.array([1], pa.uint64())})
    with pytest.raises(sl.InvalidInput, match="Spark cannot read variable counts"):
        session.sql("SELECT * FROM counts", engine="spark", data={"counts": counts})
    assert len(session.sql("SELECT * FROM counts", data={"counts": counts}).to_arrow()) == 1


module_rows = pa.table({"k": [3, 8], "name": ["three", "eight"]})


@pytest.mark.parametrize("engine", ENGINES)
def test_the_variables_of_the_code_that_calls_are_read_without_passing_them(session: sl.Session, engine: Any):
    local_rows = pd.DataFrame({"k": [8]})
    statement = "SELECT name, v FROM t JOIN module_rows USING (k) JOIN local_rows USING (k)"
    result = session.sql(statement, engine=engine)
    assert result.to_dict() == {"name": ["eight"], "v": [80]}
    assert "variable module_rows, variable local_rows" in repr(result)
    module_rows = local_rows.assign(name="mine")  # noqa: F841 - the function's own comes first
    assert session.sql("SELECT name FROM module_rows", engine=engine).to_dict() == {"name": ["mine"]}


def test_statements_that_write_read_them_too(session: sl.Session):
    table = session.table("t")
    few = pl.DataFrame({"k": pl.Series([20, 21], dtype=pl.Int32), "v": [1, 2]})  # noqa: F841 - SQL reads it
    session.sql("INSERT INTO t SELECT * FROM few")
    assert len(table.scan().to_arrow()) == 12
    session.sql("UPDATE t SET v = v + 100 WHERE k IN (SELECT k FROM few)")
    assert [row["v"] for row in table.scan(where="k >= 20").to_arrow().to_pylist()] == [101, 102]
    plan = session.sql("DELETE FROM t WHERE k IN (SELECT k FROM few WHERE k > 20)", dry_run=True)
    assert plan.changed_rows().column("k").to_pylist() == [21]  # rows that are read after the call
    session.sql("CREATE TABLE made ROW KEYS (k) AS SELECT * FROM few")
    assert len(session.table("made").scan().to_arrow()) == 2


def test_methods_of_a_table_read_what_is_passed_only(session: sl.Session):
    session.create_table("few", SCHEMA).ingest([{"k": 9, "v": 1}])
    few = pd.DataFrame({"k": [1]})
    with pytest.raises(sl.NotFound, match="no table 'few'"):  # a statement would read the table, not the variable
        session.table("t").delete("k IN (SELECT k FROM few)")
    assert session.table("t").delete("k IN (SELECT k FROM few)", data={"few": few}).deleted == 1


@pytest.mark.spark
def test_a_view_that_spark_itself_keeps_wins(tmp_path: Path, spark_engine: Any):
    spark = spark_engine.session()
    spark.sql("SELECT 1 AS k").createOrReplaceTempView("kept_by_spark")
    kept_by_spark = pd.DataFrame({"k": [2]})  # noqa: F841 - SQL would read it
    try:
        with sl.connect(tmp_path / "warehouse", spark=spark) as session:
            table = session.create_table("t", SCHEMA)
            table.ingest([{"k": n, "v": n} for n in range(5)])
            for engine in ("spark", "auto"):
                assert session.sql("SELECT k FROM KEPT_BY_SPARK", engine=engine).to_dict() == {"k": [1]}
            session.sql("DELETE FROM t WHERE k IN (SELECT k FROM kept_by_spark)", engine="spark")
            assert table.scan().to_arrow()["k"].to_pylist() == [0, 2, 3, 4]
    finally:
        spark.catalog.dropTempView("kept_by_spark")


def test_what_duckdb_lists_is_no_variable(session: sl.Session):
    schemas = variables = databases = tables = df = pd.DataFrame({"zz": [1]})  # noqa: F841 - SQL reads one of them
    for statement in ("SHOW schemas", "DESC schemas", "SHOW variables", "FROM (SHOW databases)", "FROM (SHOW tables)"):
        found, without = (session.sql(statement, engine="duckdb", data=data) for data in (None, {}))
        assert found.to_arrow() == without.to_arrow(), statement
    for described in ("DESCRIBE df", "FROM (DESCRIBE df)", "SELECT x.* FROM (SUMMARIZE df) AS x"):
        assert session.sql(described, engine="duckdb").to_dict()["column_name"] == ["zz"], described
    assert session.sql("FROM (DESCRIBE t)", engine="duckdb").to_dict()["column_name"] == ["k", "v"]


def test_no_other_variable_is_looked_at(session: sl.Session):
    class Proxy:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("nobody asked for me")

    request = tt = Proxy()  # noqa: F841
    for name in ("nowhere", "reques", "request"):
        with pytest.raises(sl.NotFound, match=f"no table '{name}'"):
            session.sql(f"SELECT * FROM {name}")


@pytest.mark.parametrize("name", [None, 3, "sleeper_nb_of_mine"])
def test_code_of_any_name_can_call(session: sl.Session, name: Any):
    code = "df = pd.DataFrame({'k': [4]})\nfound = session.sql('SELECT k FROM df').to_dict()"
    names = {"__name__": name, "session": session, "pd": pd}
    exec(code, names)  # noqa: S102 - code of this test
    assert names["found"] == {"k": [4]}


def test_a_helper_reads_its_own_variables_and_those_of_its_module_only(session: sl.Session):
    hidden = pd.DataFrame({"k": [1]})

    def ask(statement: str, mine: pd.DataFrame) -> Any:
        return session.sql(statement).to_dict()

    assert ask("SELECT k FROM mine", hidden) == {"k": [1]}
    assert ask("SELECT max(k) AS k FROM module_rows", hidden) == {"k": [8]}
    with pytest.raises(sl.NotFound, match="no table 'hidden'"):
        ask("SELECT k FROM hidden", hidden)


def test_an_empty_dictionary_or_another_one_leaves_the_callers_variables_out(session: sl.Session):
    df = pd.DataFrame({"k": [1]})
    for data in ({}, {"other": df}):
        with pytest.raises(sl.NotFound, match="no table 'df'"):
            session.sql("FROM df", data=data)


def test_a_misspelt_variable_of_the_caller_is_suggested(session: sl.Session):
    frame = pd.DataFrame({"k": [1]})
    with pytest.raises(sl.NotFound) as caught:
        session.sql("SELECT * FROM frme")
    assert "did you mean 'frame'" in str(caught.value.hint)
    assert len(frame) == 1


def test_what_the_statement_did_not_name_is_not_kept_alive_by_its_answer(session: sl.Session):
    class Large(pd.DataFrame):
        pass

    def ask() -> tuple[Any, Any, Any]:
        large = Large({"k": [1, 2]})
        df = pd.DataFrame({"k": [1]})  # noqa: F841 - SQL reads it
        answer = session.sql("SELECT max(k) AS k FROM df")
        plan = session.sql("DELETE FROM t WHERE k IN (SELECT k FROM df)", dry_run=True)
        return answer, plan, weakref.ref(large)

    gc.disable()
    try:
        answer, plan, large = ask()
        assert large() is None
    finally:
        gc.enable()
    assert answer.to_dict() == {"k": [1]}
    assert plan.changed_rows().num_rows == 1
