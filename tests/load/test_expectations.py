"""Expectations of a table: rows that break one are refused or counted, wherever they come from; history has counts."""

from __future__ import annotations

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
from sleeper_nb.model.expectations import parse_expectations

DELAY, DEST = "delay BETWEEN -120 AND 3000", "dest IS NOT NULL"
EXPECTED = f"{DELAY}; {DEST}"
COLUMNS = {"id": ["a", "b", "n", "z"], "delay": [1, -500, None, 9999], "dest": ["X", "Y", "Q", None]}
COUNTS = {DELAY: 2, DEST: 1}
NO_ONE = {DELAY: 0, DEST: 0}
SCHEMA = sl.Schema({"id": "string"}, values={"delay": "int?", "dest": "string?"})


@pytest.fixture
def table(session: sl.Session) -> sl.Table:
    return session.create_table("t", SCHEMA, ["m"], properties={"sleeper.table.expect": EXPECTED})


def source(name: str, folder: Path, columns: dict[str, list[Any]] = COLUMNS) -> Any:
    rows = pa.table(columns)
    if name == "rows":
        return rows.to_pylist()
    if name == "arrow":
        return rows
    if name == "x.csv":
        rows.to_pandas().astype({"delay": "Int64"}).to_csv(folder / name, index=False)
    else:
        parquet.write_table(rows, folder / name)
    return str(folder / name)


def last(table: sl.Table) -> dict[str, int]:
    return dict(table.history()[0].broken_expectations)


@pytest.mark.parametrize("name", ["rows", "arrow", "x.csv", "x.parquet"])
def test_rows_that_break_an_expectation_are_loaded_and_counted_in_the_history(table, tmp_path, name):
    data = source(name, tmp_path)
    plan = table.ingest(data, dry_run=True).plan
    assert [(each.kind, each.values, each.example) for each in plan.broken] == [
        (f"{DELAY} is false", 2, "delay = -500"), (f"{DEST} is false", 1, "dest = NULL"),
    ]  # fmt: skip
    assert plan.broken[0].place == {"x.csv": "line 3"}.get(name, "row 2")
    assert f"expectation '{DELAY}' is broken by {plan.broken[0].place}: delay = -500" in repr(plan)
    loaded = table.ingest(data)
    assert f"is broken by {plan.broken[0].place}: delay = -500" in repr(loaded)
    assert ("x.csv" in repr(loaded)) == (name == "x.csv")
    assert (loaded.rows, loaded.snapshot.broken_expectations, last(table)) == (4, COUNTS, COUNTS)
    assert f"2 × {DELAY}, 1 × {DEST}" in repr(table.history())


def test_the_history_tells_expectations_that_all_rows_met_from_none(session, table):
    table.ingest([{"id": "a", "delay": 1, "dest": "X"}])
    assert last(table) == NO_ONE
    counts = session.sql("SELECT operation, broken_expectations FROM t$snapshots ORDER BY snapshot_id").to_arrow()
    assert counts.to_pylist() == [
        {"operation": "create", "broken_expectations": None},
        {"operation": "ingest", "broken_expectations": [*NO_ONE.items()]},
    ]
    assert table.history().to_arrow()["expectations"].to_pylist() == ["met", ""]


def test_many_files_are_counted_together_and_the_first_is_named(table, tmp_path):
    for name in ("1.csv", "2.csv", "3.csv"):
        bad = "9999" if name != "1.csv" else "5"
        (tmp_path / name).write_text(f"id,delay,dest\n{name[0]},{bad},X\n")
    loaded = table.ingest(str(tmp_path / "*.csv"))
    assert loaded.snapshot.broken_expectations == {DELAY: 2, DEST: 0}
    assert "line 2: delay = 9999, in " in repr(loaded)
    assert "2.csv (2 rows in 2 files)" in repr(loaded)


@pytest.mark.parametrize("name", ["rows", "arrow", "x.csv", "x.parquet"])
def test_with_refuse_a_load_with_such_rows_adds_nothing(table, tmp_path, name):
    table.set_properties({"sleeper.table.expect.action": "refuse"})
    data = source(name, tmp_path)
    with pytest.raises(InvalidInput) as caught:
        table.ingest(data)
    assert f"expectation '{DELAY}' is broken by " in str(caught.value)
    assert f"expectation '{DEST}' is broken by " in str(caught.value)
    assert "set_properties({'sleeper.table.expect.action': 'count'})" in str(caught.value)
    assert (table.history()[0].id, table.at().plan().rows) == (1, 0)
    plan = table.ingest(data, dry_run=True).plan
    assert [(each.column, each.values) for each in plan.differences] == [("expectation", 2), ("expectation", 1)]
    table.ingest([{"id": "a", "delay": 1, "dest": "X"}])
    assert last(table) == NO_ONE


@pytest.mark.parametrize("action", ["count", "refuse"])
def test_a_quarantine_keeps_them_back_with_their_reasons(table, tmp_path, action):
    table.set_properties({"sleeper.table.expect.action": action})
    loaded = table.ingest(source("x.csv", tmp_path), quarantine=str(tmp_path / "bad.parquet"))
    bad = parquet.read_table(tmp_path / "bad.parquet").to_pylist()
    assert [(row["id"], row["_row"]) for row in bad] == [("b", 3), ("z", 5)]
    assert bad[0]["_reason"] == f"expectation '{DELAY}' is broken by delay = -500"
    assert f"expectation '{DEST}' is broken by dest = NULL" in bad[1]["_reason"]
    assert (loaded.kept_back, loaded.rows, loaded.snapshot.broken_expectations) == (2, 2, NO_ONE)


def test_files_that_stay_where_they_are_are_counted_and_refused(warehouse_with_files, tmp_path):
    table, file = warehouse_with_files
    assert f"expectation '{DELAY}' is broken by row 2: delay = -500" in repr(table.add_files(file, dry_run=True))
    added = table.add_files(file)
    assert (added.snapshot.broken_expectations, last(table)) == (COUNTS, COUNTS)
    assert "delay = -500, in " in repr(added)
    table.set_properties({"sleeper.table.expect.action": "refuse"})
    parquet.write_table(pa.table(COLUMNS, schema=SCHEMA.arrow), tmp_path / "files" / "y.parquet")
    with pytest.raises(InvalidInput, match="breaks expectation: delay BETWEEN -120 AND 3000 is false"):
        table.add_files(str(tmp_path / "files" / "y.parquet"))


@pytest.fixture
def warehouse_with_files(tmp_path: Path) -> Any:
    (tmp_path / "files").mkdir()
    parquet.write_table(pa.table(COLUMNS, schema=SCHEMA.arrow), tmp_path / "files" / "x.parquet")
    with sl.connect(tmp_path / "warehouse", data_paths=[str(tmp_path / "files")]) as session:
        table = session.create_table("t", SCHEMA, ["m"], properties={"sleeper.table.expect": EXPECTED})
        yield table, str(tmp_path / "files" / "x.parquet")


def test_changes_of_rows_are_held_against_them(session, table):
    session.sql("INSERT INTO t VALUES ('a', 5000, 'x')")
    assert last(table) == {DELAY: 1, DEST: 0}
    rows = [{"id": "a", "delay": 4000}, {"id": "c", "delay": 1}]
    plan = table.upsert(rows, on=["id"], dry_run=True)
    assert f"expectation '{DELAY}' is broken by delay = 4000" in repr(plan)
    assert "dest = NULL" in repr(table.upsert(rows, on=["id"]))
    assert last(table) == {DELAY: 1, DEST: 1}
    session.sql("UPDATE t SET delay = 1 WHERE id < 'z'")
    assert last(table) == {DELAY: 0, DEST: 1}
    session.sql("DELETE FROM t WHERE id = 'a'")
    assert last(table) == {}
    table.set_properties({"sleeper.table.expect.action": "refuse"})
    for statement in (
        "INSERT INTO t VALUES ('z', 5000, 'x')",
        "UPDATE t SET delay = 5000 WHERE id = 'c'",
        "MERGE INTO t USING (SELECT 'n' AS id, 5000 AS delay, '' AS dest) s USING (id) WHEN NOT MATCHED THEN INSERT *",
        "INSERT OVERWRITE t VALUES ('z', 5000, 'x')",
    ):
        with pytest.raises(InvalidInput, match="expectation 'delay BETWEEN"):
            session.sql(statement)
    with pytest.raises(InvalidInput, match="expectation 'delay BETWEEN"):
        table.upsert([{"id": "n", "delay": 5000}], on=["id"])


def test_a_table_that_is_created_with_rows_holds_them_against_its_expectations(session: sl.Session):
    created = "CREATE TABLE {} TBLPROPERTIES ('sleeper.table.expect'='b > 1'{}) ROW KEYS (a) AS SELECT 'x' AS a, 1 AS b"
    session.sql(created.format("counted", ""))
    assert last(session.table("counted")) == {"b > 1": 1}
    with pytest.raises(InvalidInput) as caught:
        session.sql(created.format("refused", ", 'sleeper.table.expect.action'='refuse'"))
    assert "give the table the property sleeper.table.expect.action=count" in caught.value.hint
    assert [entry.name for entry in session.tables()] == ["counted"]
    session.sql("CREATE OR REPLACE TABLE counted ROW KEYS (a) AS SELECT 'x' AS a, 0 AS b")
    assert last(session.table("counted")) == {"b > 1": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nope > 1", "no column 'nope'"),
        ("delay >", "syntax error at '>'"),
        ("delay > 0; ; dest = 'x'", "is empty"),
        ("dest = 'a;b", "is not closed"),
        ("now() > dest", "has another value later"),
        ("sum(delay) > 1", "sees one row"),
        ("delay > 0; delay > 0", "given twice"),
        ("delay", "not true or false"),
        ("delay > $x", "has no value here"),
        ("EXISTS (SELECT 1)", "subquery"),
        ("delay > 0\ndest = 'x'", "one line"),
    ],
)
def test_a_wrong_expectation_is_refused_when_it_is_set(session, table, text, message):
    for attempt in (
        lambda: table.set_properties({"sleeper.table.expect": text}),
        lambda: session.create_table("u", SCHEMA, properties={"sleeper.table.expect": text}),
    ):
        with pytest.raises(InvalidInput, match="expect") as caught:
            attempt()
        assert message in str(caught.value)
    table.ingest([{"id": "a"}])
    assert last(table) == {DELAY: 0, DEST: 1}


def test_a_column_of_an_expectation_is_not_dropped_or_renamed(table):
    for change in ({"drop_columns": ["delay"]}, {"rename_columns": {"dest": "to"}}):
        with pytest.raises(InvalidInput, match="is used by the expectation") as caught:
            table.alter(**change)
        assert "set_properties({'sleeper.table.expect': None})" in str(caught.value)
    table.set_properties({"sleeper.table.expect": None})
    table.alter(rename_columns={"dest": "to"})


def test_counts_are_kept_by_every_state_store(session: sl.Session):
    for kind in ("S3StateStore", "TransactionLogStateStore"):
        table = session.create_table(
            f"t_{kind}", SCHEMA, state_store=kind, properties={"sleeper.table.expect": EXPECTED}
        )
        table.ingest(pa.table(COLUMNS))
        assert last(table) == COUNTS


@given(st.lists(st.text("a;'\" =", min_size=1, max_size=6), max_size=4))
def test_conditions_are_cut_at_semicolons_outside_quotes(parts):
    quoted = ["'" + part.replace("'", "''") + "' = x" + str(i) for i, part in enumerate(parts)]
    assert parse_expectations(" ; ".join(quoted)) == tuple(quoted)


@pytest.mark.spark
def test_loads_through_spark_count_and_refuse_the_same(session: sl.Session, table, tmp_path):
    rows = pa.table({"id": [str(i) for i in range(100)], "delay": [5000 if i % 10 == 0 else 1 for i in range(100)],
                     "dest": ["x" if i % 4 else None for i in range(100)]})  # fmt: skip
    counts = {DELAY: 10, DEST: 25}
    parquet.write_table(rows.cast(SCHEMA.arrow), tmp_path / "x.parquet")
    loaded = table.bulk_import(str(tmp_path / "x.parquet"))
    assert (loaded.snapshot.broken_expectations, last(table)) == (counts, counts)
    assert "(10 rows)" in repr(loaded)
    frame = session.spark_session.createDataFrame(rows.cast(SCHEMA.arrow))
    plan = table.ingest(frame, dry_run=True).plan
    assert [each.values for each in plan.broken] == [10, 25]
    frame.write.format("sleeper").mode("append").option("table", "t").save()
    assert last(table) == counts
    table.set_properties({"sleeper.table.expect.action": "refuse"})
    for load in (
        lambda: table.bulk_import(str(tmp_path / "x.parquet")),
        lambda: table.ingest(frame),
        lambda: session.sql("INSERT INTO t SELECT * FROM t", engine="spark"),
        lambda: frame.write.format("sleeper").mode("append").option("table", "t").save(),
    ):
        with pytest.raises(Exception, match="expectation 'delay BETWEEN"):
            load()
    assert table.history()[0].id == 3
    created = session.create_table("u", SCHEMA, data=frame, properties={"sleeper.table.expect": EXPECTED})
    assert last(created) == counts


def test_pandas_shows_the_counts(table):
    table.ingest(pd.DataFrame({"id": ["a"], "delay": [5000], "dest": ["x"]}))
    assert table.history().to_pandas()["expectations"].tolist() == [f"1 × {DELAY}", ""]


def test_describe_shows_the_expectations_of_the_current_version(session, table):
    shown = f"expectations     {DELAY}; {DEST} (count the rows that break them)"
    assert shown in repr(session.table("t"))
    table.set_properties({"sleeper.table.expect.action": "refuse"})
    assert "(refuse the rows that break them)" in repr(session.table("t"))
    assert "expectations" not in repr(table.at(1))
    session.table("t").set_properties({"sleeper.table.expect": None})
    assert "expectations" not in repr(session.table("t"))


def test_a_wrong_expectation_is_named_once(table):
    with pytest.raises(InvalidInput) as caught:
        table.set_properties({"sleeper.table.expect": "dely > 0"})
    assert caught.value.message == "expectation 'dely > 0': no column 'dely'"
    assert caught.value.hint == "did you mean 'delay'?"
