"""What errors about values say in statements and changes of rows, which take none of the options of a load."""

from __future__ import annotations

import pytest

import sleeper_nb as sl

SCHEMA = sl.Schema({"k": "int"}, {}, {"s": "string?", "b": "boolean?", "n": "int?"})
BY_CAST = "to store it as text, write CAST(… AS STRING); nothing was changed"


@pytest.fixture
def session(tmp_path):
    with sl.connect(tmp_path) as opened:
        made = opened.create_table("t", SCHEMA)
        made.ingest([{"k": 1, "s": "a"}, {"k": 2, "s": "b"}])
        made.alter(checks={"small": "n < 9"})
        yield opened


def refused(change):
    with pytest.raises(sl.InvalidInput) as caught:
        change()
    return caught.value


@pytest.mark.parametrize("statement", [
    "UPDATE t SET s = 5 WHERE k = 1",
    "MERGE INTO t USING (SELECT 1 AS k, 5 AS v) x ON t.k = x.k WHEN MATCHED THEN UPDATE SET s = x.v",
    "MERGE INTO t USING (SELECT 9 AS k, 5 AS v) x ON t.k = x.k WHEN NOT MATCHED THEN INSERT (k, s) VALUES (k, v)",
    "INSERT INTO t REPLACE WHERE (k = 1) BY NAME SELECT 1 AS k, 5 AS s",
    "INSERT INTO t BY NAME SELECT 1 AS k, 5 AS s",
    "CREATE TABLE u (k INT, s STRING) ROW KEYS (k) AS SELECT 1 AS k, 5 AS s",
])  # fmt: skip
def test_a_statement_converts_in_sql(session, statement):
    assert refused(lambda: session.sql(statement)).hint == BY_CAST
    session.sql(statement.replace("5 ", "CAST(5 AS STRING) "))


def test_a_dry_run_of_an_insert_says_so_too(session):
    plan = session.sql("INSERT INTO t BY NAME SELECT 1 AS k, 5 AS s", dry_run=True)
    assert BY_CAST in str(plan)


def test_an_update_converts_in_updates_or_new_values(session):
    table = session.table("t")
    for change in ({"new_values": {"s": 5}}, {"updates": {"s": "5"}}):
        hint = refused(lambda change=change: table.update(where="k = 1", **change)).hint
        assert hint.startswith("to store it as text, write CAST(… AS STRING) in updates, or give a text in new_values")
    hint = refused(lambda: table.update({"b": "'yes'"}, "k = 1")).hint
    assert hint.startswith("to read it as a boolean, write CAST(… AS BOOLEAN) in updates, or give a bool in new_values")
    table.update({"b": "CAST('yes' AS BOOLEAN)"}, "k = 1")
    table.update(new_values={"b": True, "s": "5"}, where="k = 2")


@pytest.mark.parametrize("new", [{"n": 5.5}, {"n": float("nan")}, {"n": 2**70}, {"s": 5}, {"b": 2}, {"n": "many"}])
def test_a_new_value_that_does_not_fit_changes_nothing(session, new):
    before = session.table("t").scan().to_dict()
    error = refused(lambda: session.table("t").update(new_values=new))
    assert error.message.startswith(f"column {next(iter(new))!r}, value 1: ")
    assert session.table("t").scan().to_dict() == before


@pytest.mark.parametrize("change", [
    lambda table, rows: table.upsert(rows), lambda table, rows: table.overwrite(rows, force=True),
], ids=["upsert", "overwrite"])  # fmt: skip
def test_new_rows_are_forgiven_what_a_load_is_forgiven(session, change):
    table = session.table("t")
    hint = refused(lambda: change(table, [{"k": 1, "s": 5}])).hint
    assert hint == "to store it as text, add cast=True; nothing was changed"
    hint = refused(lambda: change(table, [{"k": 1, "zz": 5}])).hint
    assert (
        hint == "leave it out with ignore_extra=True, or add it: table.alter({'zz': 'long?'}); the table has k, s, b, n"
    )
    assert refused(lambda: change(table, [{"k": 1, "S": "x"}])).hint == "rename it to 's', or add by_name=True"
    error = refused(lambda: change(table, [{"k": 1, "S": "x", "n": "many"}]))
    assert "dry run" not in error.hint


def test_the_rows_of_a_merge_are_converted_by_its_clauses(session):
    table = session.table("t")
    merge = table.merge([{"k": 1, "s": 5}])
    assert refused(merge.when_matched_update_all().execute).hint == BY_CAST
    assert merge.when_matched_update({"s": "CAST(source.s AS STRING)"}).execute().updated == 1


def test_hints_name_the_table(session):
    error = refused(lambda: session.table("t").update({"n": "10"}, "k = 1"))
    error.prefix = "%sleeper"
    assert error.hint == "correct the rows, or drop the check: %sleeper alter t --drop-check small"
