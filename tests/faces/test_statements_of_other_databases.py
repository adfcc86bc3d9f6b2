"""Statements that other databases have, typed after ``%sleeper sql``: what to type here instead."""

from __future__ import annotations

import pandas as pd
import pytest

from sleeper_nb.errors import SleeperError, hint_text


@pytest.fixture
def refused(cell, shell):
    """Type what stands behind the magic, and return its error."""
    shell.user_ns["df"] = pd.DataFrame({"id": [1, 2], "city": ["a", "b"]})
    cell("%sleeper use ./warehouse")
    cell("%sleeper create t --from $df --keys id")

    def typed(line):
        with pytest.raises(SleeperError) as caught:
            cell(f"%sleeper {line}")
        return caught.value.message, hint_text(caught.value.hint_parts, "%sleeper")

    return typed


@pytest.mark.parametrize("engine", ["", "--engine spark "])
@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("INSERT INTO t VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET city = 'y'", "INSERT takes no ON CONFLICT"),
        ("INSERT INTO t VALUES (1, 'x') ON DUPLICATE KEY UPDATE city = 'y'", "INSERT takes no ON DUPLICATE"),
        ("INSERT OR REPLACE INTO t VALUES (1, 'x')", "INSERT takes no OR REPLACE"),
        ("REPLACE INTO t VALUES (1, 'x')", "there is no REPLACE INTO"),
        ("UPSERT INTO t VALUES (1, 'x')", "there is no UPSERT INTO"),
    ],
)
def test_what_updates_rows_that_exist_is_an_upsert(refused, engine, statement, problem):
    message, hint = refused(f"sql {engine}{statement}")
    assert problem in message
    assert hint.startswith("to update rows that exist: %sleeper upsert t $df, or MERGE INTO t USING s ON t.k = s.k ")


@pytest.mark.parametrize(
    "statement", ["INSERT INTO t VALUES (1, 'x') ON CONFLICT DO NOTHING", "INSERT OR IGNORE INTO t VALUES (1, 'x')"]
)
def test_what_leaves_rows_that_exist_is_a_merge(refused, statement):
    _, hint = refused(f"sql {statement}")
    assert hint.endswith("WHEN NOT MATCHED THEN INSERT *; without its first WHEN, only new rows are added")


@pytest.mark.parametrize(
    ("statement", "problem", "hint"),
    [
        ("INSERT t VALUES (1, 'x')", "INTO is expected before 't'", "write INSERT INTO t "),
        ("REPLACE TABLE t AS SELECT 1", "there is no REPLACE TABLE", "write CREATE OR REPLACE TABLE t"),
        ("COPY t FROM 'a b.csv'", "there is no COPY", "to load a file: %sleeper ingest t 'a b.csv'"),
        ("COPY INTO t FROM 'a.csv'", "there is no COPY", "to load a file: %sleeper ingest t a.csv"),
        ("COPY t TO 'a.csv'", "there is no COPY", "to write a file: %sleeper export t a.csv"),
        ("COPY (SELECT 1) TO 'a.csv'", "there is no COPY", "to write a file: %sleeper export t a.csv"),
        (
            "VACUUM t RETAIN 0 HOURS",
            "there is no VACUUM",
            "to see which old files could be deleted: %sleeper collect-garbage t",
        ),
        ("OPTIMIZE t ZORDER BY (id)", "there is no OPTIMIZE", "to merge files: %sleeper compact t"),
        ("OPTIMIZE TABLE t", "there is no OPTIMIZE", "to merge files: %sleeper compact t"),
        ("RESTORE TABLE t TO VERSION AS OF 1", "there is no RESTORE", "to restore a version: %sleeper rollback t 1"),
        ("RESTORE t", "there is no RESTORE", "to restore a version: %sleeper rollback t 1"),
        ("BEGIN", "there are no transactions of several statements", "each statement is one commit"),
        ("START TRANSACTION", "there are no transactions of several statements", "each statement is one commit"),
        ("COMMIT", "there are no transactions of several statements", "each statement is one commit"),
        (
            "ROLLBACK",
            "there are no transactions",
            "to be able to go back, create a savepoint first: %sleeper create-savepoint T",
        ),
        ("CREATE UNIQUE INDEX i ON t (id)", "there are no indexes", "a table is sorted by its keys"),
        ("SHOW CREATE TABLE t", "there is no SHOW CREATE TABLE", "%sleeper describe t --fields"),
        ("CREATE TABLE u CLONE t", "CREATE TABLE takes no CLONE", "write LIKE u for a table like u"),
        ("CREATE TABLE u SHALLOW CLONE t", "CREATE TABLE takes no SHALLOW", "or AS FROM u for its rows too"),
        ("CREATE TABLE main.u (k INT) ROW KEYS (k)", "'main.u' is not a valid table name", "before the dot: u;"),
        ("ALTER TABLE t MODIFY COLUMN city TEXT", "before 'MODIFY'", "ALTER COLUMN e TYPE BIGINT"),
        ("CALL create_savepoint('t')", "no procedure 'create_savepoint'", "write CALL sys.create_savepoint('t');"),
        ("CALL sys.create_savepoint(t)", "a value is expected before 't'", "write a text in single quotes: 't';"),
        ("DESCRIBE tt", "no table 'tt'", "did you mean 't'?"),
        ("SUMMARIZE nowhere", "no table 'nowhere'", "available: t"),
        ("FROM 'no.csv'", "there is no file 'no.csv'", "a path is relative to "),
        ("FROM 'no/*.parquet'", "no file matches 'no/*.parquet'", "a path is relative to "),
        ("DROP t", "no query begins with 'DROP'", "begin with SELECT"),
        ("CREATE SCHEMA s", "no query begins with 'CREATE'", "begin with SELECT"),
    ],
)
def test_another_statement_names_what_does_it(refused, statement, problem, hint):
    message, said = refused(f"sql {statement}")
    assert problem in message
    assert hint in said
    assert "changed by commands" not in said


def test_a_key_that_a_table_has_is_not_said_to_be_loaded_twice(refused, cell):
    cell("%sleeper alter t --unique-keys true")
    for line in ("sql INSERT INTO t VALUES (1, 'x')", "ingest t $df"):
        message, hint = refused(line)
        assert "is in the table already, and the table has unique keys" in message
        assert hint == "nothing was changed; to replace the rows that have these keys: %sleeper upsert t $df"
    message, hint = refused("sql INSERT INTO t VALUES (7, 'x'), (7, 'y')")
    assert ("occurs 2 times in the rows" in message, hint) == (True, "nothing was changed; load each row key once")


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        *((f"SELECT * FROM t WHERE id = {placeholder}", "write :x, without quotes or brackets; :x takes the value of")
          for placeholder in ("{x}", "{{x}}", "{{ x }}", "${x}", "%(x)s")),
        ("DELETE FROM t WHERE id = {{x}}", "write :x, without"),
        *((f"SELECT * FROM {placeholder} WHERE id = 1", "a table name is not a value: write it as it is")
          for placeholder in (":x", "$x", "{x}", "{{x}}", "${x}")),
        ("SELECT * FROM t JOIN :x USING (id)", "a table name is not a value"),
        ("INSERT INTO :x SELECT 1", "a table name is not a value"),
        ("SELECT * FROM :unknown", "a table name is not a value"),
        ("DELETE FROM {x}", "a table name is not a value"),
        ("res << SELECT * FROM t", "to keep the answer in a variable: %sleeper sql -o res SELECT …"),
        ("SELECT * FROM t -o res", "options stand before the SQL: %sleeper sql -o res SELECT …"),
        ('"SELECT * FROM t"', "leave out the quotes around the statement"),
        ("'select * from t'", "leave out the quotes around the statement"),
        ("FROM t TIMESTAMP AS OF now() AT TIME ZONE 'UTC'", "an expression with other words goes in brackets"),
        ("SELCT 1", "did you mean SELECT?"), ("SELEC 1", "did you mean SELECT?"),
        ("SELCT * FROM t", "did you mean SELECT?"), ("DELTE FROM t", "did you mean DELETE?"),
        ("SELECT * FORM t", "did you mean FROM?"), ("SELECT * FROM t WEHRE id = 1", "did you mean WHERE?"),
        ("SELECT id FROM t GRUOP BY id", "did you mean GROUP?"), ("SELECT * FROM t ODER BY id", "did you mean ORDER?"),
    ],
)  # fmt: skip
def test_slips_and_placeholders_of_other_tools_are_told_what_to_write(refused, shell, statement, hint):
    shell.user_ns["x"] = "t"
    assert refused(f"sql {statement}")[1].startswith(hint)


@pytest.mark.parametrize("statement", ["SELECT {'a': 1} AS", "SELECT 'SELECT 1' 2 3", "SELECT (id FROM t"])
def test_a_syntax_error_that_nothing_explains_has_no_wrong_hint(refused, statement):
    assert refused(f"sql {statement}")[1] == ""
