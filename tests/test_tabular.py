"""Every value with rows and columns is a table for Arrow, pandas, Polars and DuckDB."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from datetime import time, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.property_guide import describe_properties
from sleeper_nb.report import TableReport
from sleeper_nb.tabular import Items, Tabular
from tests.support.garbage import young_garbage

ITEMS = (
    "session.tables()", "session.inspect.jobs()", "session.properties()", "table.inspect.jobs()", "table.history()",
    "table.savepoints()", "table.inspect.files()", "table.at(2).inspect.files()", "table.inspect.partitions()",
    "table.inspect.fields()", "table.properties()", "table.profile()", "table.inspect.leases()", "table.diff(2).files",
    "table.rollback(2, dry_run=True).undone_snapshots()",
)  # fmt: skip
"""Tables that are also sequences of values."""
READ_LATER = (
    "table.scan()", "table.scan(['v'], 'k > 3', limit=4)", "table.scan(keys=[1, 7])", "table.at(2).scan()",
    "table.changes(2).added", "table.changes(2).removed", "table.changes(2).rows()",
    "session.sql('SELECT * FROM t', engine='duckdb')", "session.sql('SHOW TABLES', engine='duckdb')",
    "table.at().partition_tree",
)  # fmt: skip
REPORTS = (
    "table.inspect.query('SELECT * FROM files')", "table.diff(2)", "table.maintenance.check()",
    "table.maintenance.compact('all', dry_run=True)",
    "table.maintenance.compact('size-ratio', dry_run=True)", "table.maintenance.split(dry_run=True)",
    "table.maintenance.split(at=2, dry_run=True)", "table.maintain(dry_run=True)", "table.maintenance.expire()",
    "session.status()", "table.maintenance.sweep_orphans()", "table.alter({'w': 'int?'}, dry_run=True)",
    "table.ingest([{'k': 1, 'v': 'a'}], dry_run=True)", "table.ingest([{'k': 'x'}], dry_run=True)",
    "table.add_files(table._store.storage.locate('data'), dry_run=True)",
    "table.export(folder)", "session.maintain(dry_run=True)", "session.admin.split_points([{'k': 1}], ['k'], 2)",
    "session.admin.apply({'tables': {'new': {'row-keys': {'k': 'int'}}}}, dry_run=True)",
    "session.sql('INSERT INTO t SELECT * FROM t WHERE k > 100', engine='duckdb')",
    "table.delete('k > 3', dry_run=True)", "table.maintenance.purge('k > 3', dry_run=True)",
    "table.upsert([{'k': 1, 'v': 'a'}], dry_run=True)",
    "session.sql('SELECT * FROM t', engine='duckdb').cost()",
    "session.sql('SELECT * FROM t', engine='duckdb').explain()", "describe_properties()", "table.scan().plan()",
    "table.watch(watched, once=True, every=timedelta(milliseconds=1), skip_bad=True)",
)  # fmt: skip
ON_SPARK = ("session.sql('SELECT * FROM t', engine='spark')",)
VALUES = (*ITEMS, *READ_LATER, *REPORTS, *(pytest.param(each, marks=pytest.mark.spark) for each in ON_SPARK))

PROTOCOLS: dict[str, Callable[[Any], pa.Table]] = {
    "pa.table": pa.table,
    "pa.RecordBatchReader": lambda value: pa.RecordBatchReader.from_stream(value).read_all(),
    "to_pandas": lambda value: pa.Table.from_pandas(value.to_pandas(), preserve_index=False),
    "to_polars": lambda value: value.to_polars().to_arrow(),
    "pl.DataFrame": lambda value: pl.DataFrame(value).to_arrow(),
    "pl.from_arrow": lambda value: pl.from_arrow(value).struct.unnest().to_arrow(),  # type: ignore[union-attr]
    "to_duckdb": lambda value: value.to_duckdb().to_arrow_table(),
    "duckdb.sql": lambda value: duckdb.sql("FROM value").to_arrow_table(),  # noqa: ARG005 - DuckDB finds it by name
    "duckdb.from_arrow": lambda value: duckdb.from_arrow(value).to_arrow_table(),
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sl.Session]:
    with sl.connect(tmp_path_factory.mktemp("tabular")) as opened:
        table = opened.create_table("t", sl.Schema({"k": "int"}, {}, {"v": "string?"}), split_points=[5])
        table.ingest([{"k": k, "v": None if k % 2 else f"v{k}"} for k in range(10)], job_id="first")
        table.ingest([{"k": 20, "v": "x"}])
        table.create_savepoint("saved")
        yield opened


@pytest.fixture
def value_of(session: sl.Session, tmp_path: Path) -> Callable[[str], Any]:
    names: dict[str, Any] = {"session": session, "table": session.table("t"), "folder": tmp_path / "out"}
    names |= {"watched": tmp_path / "in", "timedelta": timedelta}
    names["watched"].mkdir()
    (names["watched"] / "bad.csv").write_text("nothing\n1\n")
    names["describe_properties"] = describe_properties
    return lambda text: eval(text, names)  # noqa: S307 - written above


def cells(rows: pa.Table) -> list[list[str]]:
    """Return the values, as every library has them: NULL, NaN and NaT are one, and so are zones of equal times."""
    columns = []
    for column in rows.columns:
        values = column.cast("timestamp[us]").to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist()
        columns.append(["" if pd.api.types.is_scalar(value) and pd.isna(value) else str(value) for value in values])
    return columns


@pytest.mark.parametrize("name", VALUES)
def test_a_value_with_rows_is_a_table_for_every_library(value_of: Callable[[str], Any], name: str):
    value = value_of(name)
    rows = value.to_arrow()
    for protocol, read in PROTOCOLS.items():
        found = read(value)
        assert found.column_names == rows.column_names, protocol
        assert cells(found) == cells(rows), protocol


@pytest.mark.skipif(not hasattr(pd.DataFrame, "from_arrow"), reason="pandas has DataFrame.from_arrow from version 3 on")
@pytest.mark.parametrize("name", VALUES)
def test_a_value_with_rows_is_a_table_for_pandas_itself(value_of: Callable[[str], Any], name: str):
    value = value_of(name)
    frame = pd.DataFrame.from_arrow(value)  # type: ignore[attr-defined]
    rows = value.to_arrow()
    assert list(frame.columns) == rows.column_names
    # pandas makes numbers with a fraction of whole numbers where some are NULL: here they are whole again
    assert cells(pa.Table.from_pandas(frame, rows.schema, preserve_index=False)) == cells(rows)


@pytest.mark.parametrize("name", VALUES)
def test_a_value_with_rows_has_a_length_and_can_be_iterated(value_of: Callable[[str], Any], name: str):
    value = value_of(name)
    rows = value.to_arrow()
    assert len(value) == rows.num_rows == len(list(value)) == len([*iter(value)])
    if name in ITEMS:
        assert bool(value) == (rows.num_rows > 0)
        assert [*value] == [value[i] for i in range(len(value))] == [*reversed(value)][::-1]
        assert all(each in value and value[value.index(each)] == each and value.count(each) for each in value)
    else:
        assert list(value) == rows.to_pylist()
        assert value


FAILS_LATE = "SELECT CASE WHEN range = 9000000 THEN error('too far') ELSE range END AS n FROM range(10000000)"


def test_the_first_rows_of_an_answer_are_there_before_it_is_read_to_its_end(session: sl.Session):
    rows = iter(session.sql(FAILS_LATE, engine="duckdb"))
    assert [next(rows) for _ in range(3)] == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_an_answer_that_is_being_read_answers_anything_else_meanwhile(session: sl.Session):
    result = session.sql("SELECT range AS n FROM range(20000)", engine="duckdb")
    rows, batches = iter(result), result.batches()
    assert (next(rows), next(batches).num_rows) == ({"n": 0}, 2000)
    assert len(result) == 20_000 == len([*result])
    assert result.head(2).to_pylist() == [{"n": 0}, {"n": 1}]
    assert len([*rows]) == 19_999
    assert sum(batch.num_rows for batch in batches) == 18_000


def test_a_short_answer_is_not_read_again_for_its_number(session: sl.Session, monkeypatch: pytest.MonkeyPatch):
    def count(_: object) -> int:
        raise AssertionError("it is read again")

    monkeypatch.setattr("sleeper_nb.engines.duckdb.relations.count", count)
    assert list(session.sql("SELECT 7 AS n", engine="duckdb")) == [{"n": 7}]
    assert not list(session.sql("SELECT 7 AS n LIMIT 0", engine="duckdb"))


def test_two_columns_of_one_name_are_an_error_at_once(session: sl.Session):
    with pytest.raises(sl.InvalidInput, match="two columns are called 'n'"):
        iter(session.sql("SELECT 7 AS n, 8 AS n LIMIT 0", engine="duckdb"))


def test_rows_of_changes_come_while_the_rest_is_compared(session: sl.Session, monkeypatch: pytest.MonkeyPatch):
    def batches(*_: object) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [1, 2]})
        raise AssertionError("it is read to its end")

    changes = session.table(session.tables()[0].name).changes(1)
    monkeypatch.setattr("sleeper_nb.changes.Changes.batches", batches)
    assert next(iter(changes.rows())) == {"n": 1}


@pytest.mark.parametrize("name", [*READ_LATER, *ON_SPARK][:-1])
def test_a_relation_outlives_what_it_was_made_of(value_of: Callable[[str], Any], name: str):
    with young_garbage() as collect:
        relation, rows = value_of(name).to_duckdb(), value_of(name).to_arrow()
        collect()
    assert cells(relation.filter("true").to_arrow_table()) == cells(rows)


def kinds_of(base: type) -> set[str]:
    """Return the names of the classes of a base that values are made of."""
    kinds = {name for each in base.__subclasses__() for name in (_name(each), *kinds_of(each))}
    return {each for each in kinds if each.startswith("sleeper_nb.")} - {*map(_name, (Items, TableReport))}


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def test_no_kind_of_table_is_left_out_above(value_of: Callable[[str], Any]):
    values = [value_of(name) for name in (*ITEMS, *READ_LATER, *REPORTS)]
    below = [each.listing for each in values if hasattr(each, "listing")]
    assert kinds_of(Tabular) == {_name(type(each)) for each in [*values, *below]}


MANY_TYPES = """SELECT CAST(1.25 AS DECIMAL(20, 3)) AS d, TIMESTAMPTZ '2026-11-01 01:02:03.000004+00' AS z,
    [1, NULL] AS l, MAP {'a': [1.5]} AS m, '\\x00\\xff'::BLOB AS b, DATE '15000-01-01' AS far, {'x': 1::TINYINT} AS s,
    9223372036854775807 AS big, CAST(NULL AS VARCHAR) AS nothing"""


@pytest.mark.parametrize("name", ["session.sql(MANY_TYPES, engine='duckdb')", "table.inspect.query(MANY_TYPES)"])
def test_a_relation_has_the_values_and_types_that_the_rows_have(session: sl.Session, name: str):
    value: Any = eval(name, {"session": session, "table": session.table("t"), "MANY_TYPES": MANY_TYPES})  # noqa: S307
    expected = duckdb.sql(MANY_TYPES)
    relation = value.to_duckdb()
    assert relation.types == expected.types
    as_text = "CAST(COLUMNS(*) AS VARCHAR)"
    assert relation.filter("d = 1.25").project("* EXCLUDE (z)").project(as_text).fetchall() == (
        expected.project("* EXCLUDE (z)").project(as_text).fetchall()
    )
    assert relation.project("CAST(z AS VARCHAR)").fetchall() == [("2026-11-01 01:02:03.000004+00",)]


def test_rows_of_one_name_are_told_apart_or_refused(session: sl.Session):
    value = session.sql("SELECT 1 AS a, 2 AS a", engine="duckdb")
    assert value.to_arrow().column_names == ["a", "a"]
    for read in (
        value.to_polars,
        value.to_dict,
        lambda: list(value),
        session.table("t").inspect.query("SELECT 1 AS a, 2 AS a").to_polars,
    ):
        with pytest.raises(InvalidInput, match="two columns are called 'a'"):
            read()


def test_a_reading_that_is_repeated_runs_a_statement_once(session: sl.Session):
    result = session.sql("SELECT uuid() AS u, random() AS r FROM range(3)", engine="duckdb")
    assert len(list(result)) == len(result) == 3


AS_TEXT = {
    "'101'::BIT": "101",
    "'01:02:03+02'::TIMETZ": "01:02:03+02",
    "340282366920938463463374607431768211455::UHUGEINT": "340282366920938463463374607431768211455",
    "'123456789012345678901234567890123456789012345'::BIGNUM": "123456789012345678901234567890123456789012345",
    "{'a': 1}::VARIANT": "{'a': 1}",
    "get_type(1)": "INTEGER",
}
"""Values that DuckDB does not give Arrow as they are, and the texts that users see."""


def test_a_value_for_which_arrow_has_no_type_arrives_as_its_text(session: sl.Session):
    for value, text in AS_TEXT.items():
        sql = f"SELECT {value} AS c, [{value}] AS l, {{'a b': {value}, 'n': 1}} AS s, MAP {{{value}: 2}} AS m, 7 AS c"
        result = session.sql(sql, engine="duckdb")
        rows = result.to_arrow()
        assert [column[0].as_py() for column in rows.columns] == [text, [text], {"a b": text, "n": 1}, [(text, 2)], 7]
        assert (text in repr(result), result.kinds[-1]) == (True, "INTEGER")


PARTS = {
    "INTERVAL '1 month 2 days'": ("1 month 2 days", "intervals"),
    "[INTERVAL 1 DAY, INTERVAL 2 DAY]": ("[1 day, 2 days]", "intervals"),
    "MAP {INTERVAL 1 DAY: 1}": ("{1 day: 1}", "intervals"),
    "union_value(num := 1)::UNION(num INTEGER, s VARCHAR)": ("1", "unions"),
    "[union_value(s := 'a')::UNION(num INTEGER, s VARCHAR)]": ("['a']", "unions"),
    "{'u': union_value(num := 1)::UNION(num INTEGER, s VARCHAR)}": ("{u: 1}", "unions"),
}


def test_intervals_and_unions_are_shown_and_are_python_s_but_not_polars_s(session: sl.Session):
    for value, (text, what) in PARTS.items():
        result = session.sql(f'SELECT 1 AS k, {value} AS "my c" UNION ALL SELECT 2, NULL ORDER BY k', engine="duckdb")
        first, second = result.to_dict()["my c"]
        assert (text in repr(result), text in html.unescape(result._repr_html_())) == (True, True)
        assert [row["my c"] for row in result] == [first, second]
        assert len(result.to_pandas()["my c"].dropna()) == 1  # an interval alone is a DateOffset of pandas
        assert second is None
        with pytest.raises(InvalidInput, match=f"^column 'my c' has {what}, for which Polars has no type\n") as caught:
            result.to_polars()
        assert caught.value.hint == 'cast it to text in SQL: CAST("my c" AS VARCHAR)'


def test_parts_of_a_microsecond_are_shown_and_not_dropped(session: sl.Session):
    result = session.sql("SELECT '01:02:03.123456789'::TIME_NS AS t UNION ALL SELECT NULL", engine="duckdb")
    assert "01:02:03.123456789" in repr(result)
    assert result.to_polars()["t"].to_physical().to_list() == [3_723_123_456_789, None]
    for read in (result.to_pandas, result.to_dict, lambda: list(result)):
        with pytest.raises(InvalidInput, match="column 't' has times of day with nanoseconds"):
            read()
    assert session.sql("SELECT '01:02:03.5'::TIME_NS AS t", engine="duckdb").to_dict() == {
        "t": [time(1, 2, 3, 500_000)]
    }


def test_polars_gets_no_dates_and_times_that_it_panics_over(session: sl.Session):
    for value in ("DATE 'infinity'", "TIMESTAMP '-infinity'", "TIMESTAMPTZ '290000-01-01'", "DATE '300000-01-01'"):
        with pytest.raises(InvalidInput, match="column 't' has dates or times that are infinite, or outside"):
            session.sql(f"SELECT {value} AS t", engine="duckdb").to_polars()
    assert "15000" in repr(session.sql("SELECT DATE '15000-01-01' AS t", engine="duckdb").to_polars())


def test_a_listing_gives_the_values_of_its_cells(session: sl.Session):
    table = session.table("t")
    assert table.inspect.partitions().to_arrow()["bytes"].type == pa.int64()
    assert table.history().to_arrow().num_rows == len(table.history())
    assert table.inspect.query("SELECT rows FROM files ORDER BY rows").to_arrow()["rows"].to_pylist() == [1, 5, 5]
    assert len(table.inspect.query("SELECT rows FROM files")) == 3


def test_polars_reads_rows_as_a_frame(session: sl.Session):
    for value in (session.table("t").scan(), session.sql("SELECT * FROM t", engine="duckdb")):
        read: Any = value
        assert pl.DataFrame(read).shape == (11, 2)


def test_a_column_with_values_of_several_kinds_becomes_text():
    from sleeper_nb.tabular import as_arrow

    rows = as_arrow({"a": [1, "x", None], "b": [1, 2, 3], "c": [2**70, 1, None]})
    assert rows.to_pydict() == {"a": ["1", "x", None], "b": [1, 2, 3], "c": [str(2**70), "1", None]}
