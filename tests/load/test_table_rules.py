"""Defaults and CHECKs where rows are loaded: the same from every source, as a plain model says, or nothing at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import sleeper_nb as sl
from sleeper_nb.errors import InvalidInput
from tests.support.builders import in_order

DDL = """
id STRING KEY, n INT DEFAULT 5, fare DOUBLE NULL DEFAULT 0.5, note STRING NULL DEFAULT 'it''s', free LONG NULL
CHECK (fare >= 0), CONSTRAINT small CHECK (n < 100 OR free = 1)
"""
DEFAULTS = {"n": 5, "fare": 0.5, "note": "it's", "free": None}
NULLABLE = {"fare", "note", "free"}


@pytest.fixture
def table(session: sl.Session) -> sl.Table:
    return session.create_table("t", sl.Schema.from_ddl(DDL), ["h"])


def content(table: sl.Table) -> list[dict[str, Any]]:
    return table.scan().to_arrow().sort_by("id").to_pylist()


def sources_of(columns: dict[str, list[Any]], folder: Path) -> dict[str, Any]:
    """Return the same columns as everything that a load takes."""
    arrow = pa.table(columns)
    rows = arrow.to_pylist()
    (folder / "lines.json").write_text("\n".join(json.dumps(row) for row in rows))
    (folder / "array.json").write_text(json.dumps(rows))
    arrow.to_pandas().to_csv(folder / "x.csv", index=False)
    parquet.write_table(arrow, folder / "x.parquet")
    files = {name: str(folder / name) for name in ("lines.json", "array.json", "x.csv", "x.parquet")}
    return {"rows": rows, "arrow": arrow, "pandas": pd.DataFrame(columns), **files}


@pytest.mark.parametrize("name", ["rows", "arrow", "pandas", "lines.json", "array.json", "x.csv", "x.parquet"])
def test_a_column_that_a_load_does_not_name_has_its_default(table, tmp_path, name):
    data = sources_of({"id": ["a", "k"], "fare": [1.5, 2.5]}, tmp_path)[name]
    table.ingest(data)
    assert content(table) == [
        {"id": "a", "n": 5, "fare": 1.5, "note": "it's", "free": None},
        {"id": "k", "n": 5, "fare": 2.5, "note": "it's", "free": None},
    ]
    assert any("n = 5, note = it's" in note for note in table.ingest(data, dry_run=True).notes)


def test_null_is_null_and_no_default(table, tmp_path):
    table.ingest([{"id": "a", "fare": None}, {"id": "b", "n": 1}])
    lines = ['{"id": "c", "fare": null, "note": null}', '{"id": "d"}', '{"id": "e", "note": null}']
    (tmp_path / "x.json").write_text("\n".join(lines))
    table.ingest(str(tmp_path / "x.json"))
    (tmp_path / "y.json").write_text('{"id": "f", "f\\u0061re": null, "\\u006Eote" : null}')  # escaped
    table.ingest(str(tmp_path / "y.json"))
    (tmp_path / "z.csv").write_text("id,fare\ng,\n")
    table.ingest(str(tmp_path / "z.csv"))
    assert [(row["id"], row["fare"], row["note"], row["n"]) for row in content(table)] == [
        ("a", None, "it's", 5), ("b", 0.5, "it's", 1), ("c", None, None, 5), ("d", 0.5, "it's", 5),
        ("e", 0.5, None, 5), ("f", None, None, 5), ("g", None, "it's", 5),
    ]  # fmt: skip
    with pytest.raises(InvalidInput, match="column 'n' has 1 null"):
        table.ingest([{"id": "x", "n": None}])


def test_each_file_of_a_load_has_its_own_columns(table, tmp_path):
    (tmp_path / "a.csv").write_text("id,n\na,1\n")
    (tmp_path / "b.csv").write_text("id,fare\nb,9\n")
    table.ingest(str(tmp_path / "*.csv"))
    assert [(row["n"], row["fare"]) for row in content(table)] == [(1, 0.5), (5, 9.0)]


@pytest.mark.parametrize("name", ["rows", "arrow", "pandas", "lines.json", "array.json", "x.csv", "x.parquet"])
def test_a_row_that_breaks_a_check_is_named_and_nothing_is_loaded(table, tmp_path, name):
    data = sources_of(
        {"id": ["a", "k", "z"], "fare": [1.0, -2.0, -3.0], "n": [1, 2, 100], "free": [1, 2, 0]}, tmp_path
    )[name]
    with pytest.raises(InvalidInput) as caught:
        table.ingest(data)
    message = str(caught.value)
    assert "check 'check_1' (fare >= 0) fails for " in message
    assert "fare = -2.0" in message
    assert "(2 rows)" in message
    assert ("line 3" if name == "x.csv" else "line 2" if name == "lines.json" else "") in message
    assert "table.alter(checks={'check_1': None})" in message
    assert "check 'small' (n < 100 OR free = 1) fails for " in message
    assert (table.history()[0].id, table.at().plan().rows) == (1, 0)
    plan = table.ingest(data, dry_run=True).plan
    assert [each.column for each in plan.differences] == ["check check_1", "check small"]


def test_rows_that_break_a_check_of_a_table_to_create_ask_for_another_definition(session: sl.Session):
    rows, schema = [{"id": "a", "fare": -1.0}], sl.Schema.from_ddl("id STRING KEY, fare DOUBLE, CHECK (fare >= 0)")
    plan = session.admin.plan_table("new", schema, data=rows)
    with pytest.raises(sl.InvalidInput) as caught:
        session.create_table("new", schema, data=rows)
    with pytest.raises(sl.InvalidInput) as in_sql:
        session.sql("CREATE TABLE new (id STRING, fare DOUBLE, CHECK (fare >= 0)) ROW KEYS (id) AS SELECT 'a', -1.0")
    for text in (caught.value.hint, in_sql.value.hint, repr(plan)):
        assert "leave it out of the table's definition" in text
        assert "alter" not in text


def test_a_column_that_a_table_to_create_lacks_can_be_defined(session: sl.Session):
    with pytest.raises(sl.InvalidInput) as caught:
        session.create_table("new", sl.Schema({"id": "string"}), data=[{"id": "a", "note": "x"}])
    assert "define the column note string?" in caught.value.hint
    assert "alter" not in caught.value.hint


def test_null_passes_a_check_and_a_default_is_checked_too(session):
    schema = sl.Schema.from_ddl("id STRING KEY, a INT NULL DEFAULT -1, b INT NULL, CHECK (a > 0), CHECK (b > 0)")
    table = session.create_table("u", schema)
    table.ingest([{"id": "x", "a": None, "b": None}])
    with pytest.raises(InvalidInput, match=r"check 'check_1' \(a > 0\) fails for row 1: a = -1"):
        table.ingest([{"id": "y"}])
    with pytest.raises(InvalidInput, match="fails for row 1: a = -1"):
        table.ingest(pa.table({"id": ["y"], "b": [5]}))


ROWS = st.lists(
    st.fixed_dictionaries(
        {"id": st.text("abkz", min_size=1, max_size=2)},
        optional={
            "n": st.integers(90, 110),
            "fare": st.one_of(st.none(), st.sampled_from([-1.5, -0.0, 0.0, 2.5])),
            "note": st.one_of(st.none(), st.sampled_from(["", "x"])),
            "free": st.one_of(st.none(), st.integers(0, 2)),
        },
    ),
    max_size=6,
)


def is_broken(row: dict[str, Any]) -> bool:
    """Return whether a plain reading of SQL says that some check is false."""
    if row["fare"] is not None and not row["fare"] >= 0:
        return True
    return not (row["n"] < 100 or row["free"] is None or row["free"] == 1)


@given(ROWS, st.sampled_from(["rows", "lines", "array"]))
def test_loads_of_random_rows_do_what_a_plain_model_says(tmp_path_factory, rows, kind):
    folder = tmp_path_factory.mktemp("rules")
    expected = [{"id": row["id"], **DEFAULTS, **row} for row in rows]
    data: Any = rows
    if kind != "rows":
        data = str(folder / "x.json")
        text = json.dumps(rows) if kind == "array" else "\n".join(json.dumps(row) for row in rows)
        Path(data).write_text(text)
    with sl.connect(folder) as session:
        table = session.create_table("t", sl.Schema.from_ddl(DDL), ["h"])
        if any(map(is_broken, expected)):
            with pytest.raises(InvalidInput, match="check '"):
                table.ingest(data)
            assert table.at().plan().rows == 0
        elif rows or kind == "rows":
            table.ingest(data)
            assert in_order(table.scan().to_arrow().to_pylist()) == in_order(expected)


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("fare", "not true or false"),
        ("fair > 0", "no column 'fair'"),
        ("fare > (SELECT 1)", "a subquery"),
        ("sum(fare) > 0", "aggregates"),
        ("row_number() OVER () > 0", "window"),
        ("fare > 0) OR (1 = 1", "syntax error"),
        ("fare > 0; DROP TABLE t", "more than one statement"),
        ("fare > $x", "no value here"),
        ("random() < 2", "another value later"),
        ("now() > TIMESTAMPTZ '2020-01-01'", "another value later"),
        ("current_date > DATE '2020-01-01'", "another value later"),
        ("CURRENT_TIMESTAMP IS NOT NULL", "another value later"),
        ("age(TIMESTAMP '2020-01-01') > INTERVAL 1 DAY", "another value later"),
        ("ago(INTERVAL 1 DAY) IS NOT NULL", "another value later"),
        ("user = 'me'", "another value later"),
        ("getenv('HOME') = 'x'", ""),
        ("read_text('/etc/passwd') = 'x'", ""),
        ("current_setting('threads') = '1'", ""),
        ("fare in (SELECT content FROM read_text('/etc/passwd'))", "subquery"),
    ],
)
def test_a_check_is_one_condition_on_a_row_and_no_table_is_made_otherwise(session, check, words):
    with pytest.raises(InvalidInput, match="check 'c': cannot read the condition") as caught:
        session.create_table("bad", sl.Schema({"id": "string"}, {}, {"fare": "double"}, checks={"c": check}))
    assert words in str(caught.value)
    assert [table.name for table in session.tables()] == []
    table = session.create_table("t", sl.Schema({"id": "string"}, {}, {"fare": "double"}))
    with pytest.raises(InvalidInput, match="check 'c'"):
        table.alter(checks={"c": check})
    assert table.schema.checks == ()
