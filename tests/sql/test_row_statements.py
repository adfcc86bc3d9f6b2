"""Statements that change rows, as values: what is read of DELETE, UPDATE, MERGE and INSERT … REPLACE, and refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.edit.row_edit import (
    DeleteRow,
    DeleteRows,
    DoNothing,
    InsertAll,
    InsertColumns,
    InsertRows,
    MergeRows,
    OverwriteRows,
    ReplacedAll,
    ReplacedByColumns,
    ReplacedWhere,
    UpdateAll,
    UpdateColumns,
    UpdateRows,
)
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.sql_values import Slice
from sleeper_nb.sql.grammar import expression_of, is_plainly_condition
from sleeper_nb.sql.statement import Statement, query_in
from sleeper_nb.sql.writes import read_writing_statement

DIALECTS = ("duckdb", "spark")
MERGE = "MERGE INTO t USING s ON t.k = s.k "


def read(sql, dialect="duckdb"):
    """The change that a statement makes; every slice in it is the text at its place."""
    statement = Statement.of(sql, dialect=dialect)
    writing = read_writing_statement(statement)
    if writing is None:
        return None
    for part in slices(writing.change):
        assert statement.text[part.at : part.end] == part.text
    return writing.change


def slices(value):
    if isinstance(value, Slice):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from slices(each)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from slices(getattr(value, name))


def text(value):
    return None if value is None else str(value)


def pairs(assignments):
    return {str(each.column): text(each.value) for each in assignments}


def refused(sql, dialect="duckdb"):
    with pytest.raises(InvalidInput) as caught:
        read(sql, dialect)
    return caught.value


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("sql", "table", "alias", "condition"),
    [
        ("DELETE FROM t", "t", None, None),
        ("delete from t;", "t", None, None),
        ("EXPLAIN DELETE FROM t WHERE a = 1", "t", None, "a = 1"),
        ("DELETE FROM db.t x WHERE x.a = 1", "db.t", "x", "x.a = 1"),
        ("DELETE FROM `t` AS `x y` WHERE a", "t", "x y", "a"),
        ("DELETE FROM t WHERE a  =\t'WHERE' -- c\n AND/* d */b IN (1, 2) -- e", "t", None,
         "a  =\t'WHERE' -- c\n AND/* d */b IN (1, 2)"),
        ("DELETE FROM t WHERE k IN (SELECT k FROM o VERSION AS OF 3 ORDER BY k LIMIT 2) AND d > :day", "t", None,
         "k IN (SELECT k FROM o VERSION AS OF 3 ORDER BY k LIMIT 2) AND d > :day"),
        ("DELETE FROM t WHERE a IS NOT DISTINCT FROM b", "t", None, "a IS NOT DISTINCT FROM b"),
        ("DELETE FROM t WHERE CASE WHEN a THEN b ELSE c END = 1", "t", None, "CASE WHEN a THEN b ELSE c END = 1"),
        ("DELETE FROM t WHERE d = CAST(x AS TIMESTAMP) AND t.limit = 3", "t", None,
         "d = CAST(x AS TIMESTAMP) AND t.limit = 3"),
        ("DELETE FROM t WHERE offset > 1 AND limit < 2", "t", None, "offset > 1 AND limit < 2"),
        ("DELETE FROM t WHERE values IN (1, 2)", "t", None, "values IN (1, 2)"),
        ("DELETE FROM t WHERE (SELECT max(a) FROM u) > a", "t", None, "(SELECT max(a) FROM u) > a"),
        ("DELETE FROM t WHERE exists (FROM u) OR 1 = ANY (SELECT 1)", "t", None,
         "exists (FROM u) OR 1 = ANY (SELECT 1)"),
    ],
)  # fmt: skip
def test_delete(sql, dialect, table, alias, condition):
    change = read(sql, dialect)
    assert isinstance(change, DeleteRows)
    assert (change.target.table.text, text(change.target.alias), text(change.condition)) == (table, alias, condition)
    assert change.named_queries is None


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("sql", "assignments", "condition"),
    [
        ("UPDATE t SET a = 1", {"a": "1"}, None),
        ("UPDATE t SET a = b, b = a WHERE a = b", {"a": "b", "b": "a"}, "a = b"),
        ("UPDATE t AS x SET x.a = x.a + 1, address.zip = upper('a, WHERE') WHERE x.k = :k",
         {"x.a": "x.a + 1", "address.zip": "upper('a, WHERE')"}, "x.k = :k"),
        ("UPDATE t SET a = DEFAULT, b = default WHERE c", {"a": None, "b": None}, "c"),
        ("UPDATE t SET a = CASE WHEN b THEN CASE c WHEN 1 THEN 2 END ELSE 3 END, d = [1, 2][1] WHERE e",
         {"a": "CASE WHEN b THEN CASE c WHEN 1 THEN 2 END ELSE 3 END", "d": "[1, 2][1]"}, "e"),
        ("UPDATE t SET a = (SELECT max(k) FROM o TIMESTAMP AS OF '2026-01-01'), b = NULL",
         {"a": "(SELECT max(k) FROM o TIMESTAMP AS OF '2026-01-01')", "b": "NULL"}, None),
        ("UPDATE t SET a = -1, b = NOT c, d = x IS DISTINCT FROM y", {"a": "-1", "b": "NOT c",
                                                                     "d": "x IS DISTINCT FROM y"}, None),
        ("UPDATE t SET `a` = {'x': 1, 'y': [2]}", {"a": "{'x': 1, 'y': [2]}"}, None),
    ],
)  # fmt: skip
def test_update(sql, dialect, assignments, condition):
    change = read(sql, dialect)
    assert isinstance(change, UpdateRows)
    assert pairs(change.assignments) == assignments
    assert text(change.condition) == condition


def test_the_columns_of_a_target_may_be_qualified():
    change = read("UPDATE t AS address SET address.zip = 1")
    (assignment,) = change.assignments
    assert str(change.target.own(assignment.column, ["ZIP", "address"])) == "zip"
    assert str(change.target.own(assignment.column, ["address"])) == "address.zip"
    assert str(read("UPDATE db.t SET T.a.b = 1").target.own(assignment.column, ["zip"])) == "address.zip"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("source", "relation", "name"),
    [
        ("s", "s", "s"),
        ("db.s", "db.s", "s"),
        ("t AS s", "t AS s", "s"),
        ("o VERSION AS OF 3 x", "o VERSION AS OF 3 x", "x"),
        ("o@first AS x", "o@first AS x", "x"),
        ("o AS x TIMESTAMP AS OF now() - INTERVAL 1 DAY", "o AS x TIMESTAMP AS OF now() - INTERVAL 1 DAY", "x"),
        ("(SELECT 1 AS k)", "(SELECT 1 AS k)", None),
        ("'a b.parquet' AS s", "'a b.parquet' AS s", "s"),
        ("'s.csv'", "'s.csv'", None),
        ("(VALUES (1, 'ON')) AS s(k, v)", "(VALUES (1, 'ON')) AS s(k, v)", "s"),
        ("(WITH a AS (SELECT 1 k) SELECT * FROM a JOIN b USING (k)) s",
         "(WITH a AS (SELECT 1 k) SELECT * FROM a JOIN b USING (k)) s", "s"),
    ],
)  # fmt: skip
def test_sources_of_a_merge(source, dialect, relation, name):
    change = read(f"MERGE INTO t USING {source} ON t.k = 1 WHEN MATCHED THEN DELETE", dialect)
    assert (change.source.relation.text, text(change.source.name)) == (relation, name)
    assert (change.condition.text, change.using) == ("t.k = 1", ())
    by_names = read(f"MERGE INTO t USING {source} USING (k, n) WHEN MATCHED THEN DELETE", dialect)
    assert (by_names.condition, [str(each) for each in by_names.using]) == (None, ["k", "n"])
    assert (by_names.source.relation.text, by_names.source.name) == (relation, change.source.name)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("when", "kind", "condition", "action"),
    [
        ("WHEN MATCHED THEN DELETE", "matched", None, DeleteRow()),
        ("WHEN MATCHED THEN DO NOTHING", "matched", None, DoNothing()),
        ("when matched and s.x then update set *", "matched", "s.x", UpdateAll()),
        ("WHEN MATCHED THEN UPDATE *", "matched", None, UpdateAll()),
        ("WHEN MATCHED THEN UPDATE BY NAME", "matched", None, UpdateAll()),
        ("WHEN NOT MATCHED THEN INSERT *", "not matched", None, InsertAll()),
        ("WHEN NOT MATCHED THEN INSERT BY NAME", "not matched", None, InsertAll()),
        ("WHEN NOT MATCHED BY TARGET AND CASE WHEN s.x THEN 1 END = 1 THEN DO NOTHING", "not matched",
         "CASE WHEN s.x THEN 1 END = 1", DoNothing()),
        ("WHEN NOT MATCHED BY SOURCE AND t.d < :day THEN DELETE", "not matched by source", "t.d < :day", DeleteRow()),
    ],
)  # fmt: skip
def test_clauses_of_a_merge(when, dialect, kind, condition, action):
    change = read(MERGE + when, dialect)
    assert isinstance(change, MergeRows)
    (clause,) = change.clauses
    assert (clause.kind, text(clause.condition), clause.action) == (kind, condition, action)
    assert clause.at == len(MERGE)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_values_of_a_merge(dialect):
    change = read(
        "WITH s AS (SELECT * FROM o@3) MERGE INTO t AS x USING s ON x.k = s.k AND x.v <> CASE WHEN s.v THEN 1 END\n"
        "WHEN MATCHED AND s.op = 'd' THEN DELETE\n"
        "WHEN MATCHED THEN UPDATE SET x.v = CASE WHEN s.v THEN s.w ELSE x.v END, n = DEFAULT\n"
        "WHEN NOT MATCHED THEN INSERT (k, x.v, n) VALUES (s.k, coalesce(s.v, 0), DEFAULT)\n"
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = n + 1",
        dialect,
    )
    assert change.named_queries.text.text == "WITH s AS (SELECT * FROM o@3)"
    assert change.named_queries.names == ("s",)
    assert change.condition.text == "x.k = s.k AND x.v <> CASE WHEN s.v THEN 1 END"
    deleted, updated, inserted, left = (clause.action for clause in change.clauses)
    assert deleted == DeleteRow()
    assert isinstance(updated, UpdateColumns)
    assert pairs(updated.assignments) == {"x.v": "CASE WHEN s.v THEN s.w ELSE x.v END", "n": None}
    assert isinstance(inserted, InsertColumns)
    assert pairs(inserted.assignments) == {"k": "s.k", "x.v": "coalesce(s.v, 0)", "n": None}
    assert pairs(left.assignments) == {"n": "n + 1"}
    assert [clause.kind for clause in change.of_kind("matched")] == ["matched", "matched"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("sql", "replaced", "columns", "by_name", "query"),
    [
        ("INSERT INTO t REPLACE WHERE k > 3 SELECT 1", "k > 3", None, False, "SELECT 1"),
        ("INSERT INTO TABLE t REPLACE WHERE k IN (SELECT k FROM o@3) VALUES (1)", "k IN (SELECT k FROM o@3)", None,
         False, "VALUES (1)"),
        ("INSERT INTO t REPLACE WHERE k = 1 (SELECT 1) UNION ALL (SELECT 2)", "k = 1", None, False,
         "(SELECT 1) UNION ALL (SELECT 2)"),
        ("INSERT INTO t REPLACE WHERE true ((SELECT 1))", "true", None, False, "((SELECT 1))"),
        ("INSERT INTO t REPLACE WHERE k = :k (SELECT 1)", "k = :k", None, False, "(SELECT 1)"),
        ("INSERT INTO t REPLACE WHERE k IS DISTINCT FROM 1 FROM o", "k IS DISTINCT FROM 1", None, False, "FROM o"),
        ("INSERT INTO t REPLACE WHERE f(k) WITH a AS (SELECT 1) SELECT * FROM a", "f(k)", None, False,
         "WITH a AS (SELECT 1) SELECT * FROM a"),
        ("INSERT INTO t REPLACE WHERE k = TIMESTAMP WITH TIME ZONE '2026-01-01' TABLE o",
         "k = TIMESTAMP WITH TIME ZONE '2026-01-01'", None, False, "TABLE o"),
        ("INSERT INTO t REPLACE WHERE k > 3 BY NAME SELECT 1 AS k", "k > 3", None, True, "SELECT 1 AS k"),
        ("INSERT INTO t BY NAME REPLACE WHERE k > 3 SELECT 1 AS k", "k > 3", None, True, "SELECT 1 AS k"),
        ("INSERT INTO t (k, v) REPLACE WHERE k > 3 SELECT 1, 2", "k > 3", ["k", "v"], False, "SELECT 1, 2"),
        ("INSERT INTO t REPLACE USING (k, n) SELECT 1", ["k", "n"], None, False, "SELECT 1"),
        ("INSERT INTO t REPLACE USING (k) BY NAME (SELECT 1 AS k)", ["k"], None, True, "(SELECT 1 AS k)"),
        ("INSERT OVERWRITE t SELECT 1", None, None, False, "SELECT 1"),
        ("insert overwrite table t (k, v) values (1, 2)", None, ["k", "v"], False, "values (1, 2)"),
        ("INSERT OVERWRITE t BY NAME SELECT 1 AS k", None, None, True, "SELECT 1 AS k"),
        ("INSERT OVERWRITE directory SELECT 1", None, None, False, "SELECT 1"),
        ("INSERT OVERWRITE local SELECT 1", None, None, False, "SELECT 1"),
    ],
)  # fmt: skip
def test_rows_that_replace_others(sql, dialect, replaced, columns, by_name, query):
    change = read(sql, dialect)
    assert isinstance(change, OverwriteRows)
    match change.replaced:
        case ReplacedWhere(condition):
            found = condition.text
        case ReplacedByColumns(names):
            found = [str(each) for each in names]
        case ReplacedAll():
            found = None
    assert found == replaced
    insert = change.rows
    assert (insert.columns and [str(each) for each in insert.columns], insert.by_name) == (columns, by_name)
    assert query_in(Statement.of(sql, dialect=dialect), insert.query).text == query


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_with_before_a_statement_is_kept_for_its_subqueries(dialect):
    names = "WITH RECURSIVE delete(n) AS (SELECT 1), `b c` AS (SELECT * FROM o VERSION AS OF 3)"
    delete = read(f"{names} DELETE FROM t WHERE k IN (SELECT n FROM delete)", dialect)
    update = read(f"EXPLAIN {names}\nUPDATE t SET a = 1", dialect)
    for change in (delete, update):
        assert (change.named_queries.text.text, change.named_queries.names) == (names, ("delete", "b c"))
    sql = f"{names} INSERT INTO t REPLACE WHERE k IN (SELECT n FROM delete) SELECT n FROM delete"
    replace = read(sql, dialect)
    assert (replace.named_queries.text.text, replace.named_queries.names) == (names, ("delete", "b c"))
    query = query_in(Statement.of(sql, dialect=dialect), replace.rows.query)
    assert query.text == f"{names} SELECT n FROM delete"
    assert isinstance(read(f"{names} INSERT INTO t SELECT n FROM delete", dialect), InsertRows)


@pytest.mark.parametrize(
    "sql",
    [
        "WITH delete AS (SELECT 1) SELECT * FROM delete",
        "WITH merge AS (SELECT 1), update AS (SELECT 2) FROM merge, update",
        "WITH a AS (DELETE FROM t RETURNING k) SELECT * FROM a",
        "FROM t INSERT OVERWRITE a SELECT x",
        "SELECT 1",
    ],
)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_other_statements_are_left_to_the_engine(sql, dialect):
    assert read(sql, dialect) is None


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("sql", "words", "place", "hint"),
    [
        ("DELETE t WHERE a", "FROM is expected before 't'", "t WHERE", "DELETE FROM t"),
        ("DELETE FROM", "the name of a table is expected at the end", "", "DELETE FROM t"),
        ("DELETE FROM t x y WHERE a", "the statement should end before 'y'", "y WHERE", "WHERE condition"),
        ("DELETE FROM t default", "the statement should end before 'default'", "default", "WHERE condition"),
        ("DELETE FROM t LIMIT 3", "DELETE takes no LIMIT", "LIMIT", "a condition"),
        ("DELETE FROM t WHERE", "a condition is expected at the end", "", "WHERE condition"),
        ("DELETE FROM t USING s WHERE t.k = s.k", "DELETE takes no USING", "USING", "MERGE INTO t USING s"),
        ("DELETE FROM t WHERE a = 1 RETURNING *", "DELETE takes no RETURNING", "RETURNING", "numbers of rows"),
        ("DELETE FROM t WHERE a = 1 LIMIT 3", "DELETE takes no LIMIT", "LIMIT", "a condition"),
        ("DELETE FROM t WHERE a = 1 ORDER BY a LIMIT 3", "DELETE takes no ORDER", "ORDER", "a condition"),
        ("DELETE FROM t WHERE a = 1 UNION SELECT 1", "should end before 'UNION'", "UNION", "WHERE condition"),
        ("DELETE FROM t WHERE a AS b", "should end before 'AS'", "AS b", "WHERE condition"),
        ("DELETE FROM t WHERE a = 1, b = 2", "a condition has a ',' outside brackets", ", b", "WHERE condition"),
        ("DELETE FROM t WHERE a = 1) OR (b = 2", "')' closes no bracket", ") OR", "leave it out"),
        ("DELETE FROM t WHERE (a = 1 OR (b = 2)", "'(' is never closed", "(a", "close it with ')'"),
        ("DELETE FROM t WHERE f(a[1)]", "')' closes no bracket", ")]", "leave it out"),
        ("DELETE FROM t WHERE SELECT true", "a condition is expected before 'SELECT'", "SELECT", "in brackets"),
        ("DELETE FROM t WHERE FROM u", "a condition is expected before 'FROM'", "FROM u", "in brackets"),
        ("DELETE FROM t WHERE TABLE u", "a condition is expected before 'TABLE'", "TABLE u", "in brackets"),
        ("DELETE FROM t WHERE VALUES (true)", "a condition is expected before 'VALUES'", "VALUES", "in brackets"),
        ("DELETE FROM t WHERE CASE WHEN a THEN b", "CASE has no END", "CASE", "END"),
        ("DELETE FROM t VERSION AS OF 3 WHERE a", "'t' cannot be written to at a version", "VERSION", "leave"),
        ("DELETE FROM t x VERSION AS OF 3 WHERE a", "'t' cannot be written to at a version", "VERSION", "leave"),
        ("DELETE FROM t@3", "'t' cannot be written to at a version", "@3", "leave"),
        ("WITH T AS (SELECT 1) DELETE FROM t", "'t' is also a name of the WITH", "t", "another name"),
        ("WITH t AS (SELECT 1) INSERT OVERWRITE t FROM t", "'t' is also a name of the WITH", "t FROM", "another name"),
        ("DELETE FROM t; SELECT 1", "a second statement follows", None, "one statement"),
        ("UPDATE t WHERE a", "SET is expected before 'WHERE'", "WHERE", "UPDATE t"),
        ("UPDATE SET a = 1", "the name of a table is expected before 'SET'", "SET", "UPDATE t"),
        ("UPDATE t SET", "the name of a column is expected at the end", "", "SET a = value"),
        ("UPDATE t SET a WHERE b", "= is expected before 'WHERE'", "WHERE", "SET a = value"),
        ("UPDATE t SET a = WHERE b", "a value is expected before 'WHERE'", "WHERE", "SET a = value"),
        ("UPDATE t SET a = 1,", "the name of a column is expected at the end", "", "SET a = value"),
        ("UPDATE t SET a = , b = 2", "a value is expected before ','", ", b", "SET a = value"),
        ("UPDATE t SET a = SELECT 1", "a value is expected before 'SELECT'", "SELECT", "in brackets"),
        ("UPDATE t SET a = 1 SET b = 2", "should end before 'SET'", "SET b", "UPDATE t"),
        ("UPDATE t SET (a, b) = (1, 2)", "SET takes one column at a time", "(a", "SET a = value, b = DEFAULT"),
        ("UPDATE t SET a = s.a FROM s WHERE t.k = s.k", "UPDATE takes no FROM", "FROM", "MERGE INTO t USING s"),
        ("UPDATE t SET a = DEFAULT FROM s", "UPDATE takes no FROM", "FROM", "MERGE INTO t USING s"),
        ("UPDATE t SET a = 1 RETURNING *", "UPDATE takes no RETURNING", "RETURNING", "leave it out"),
        ("UPDATE t SET a = DEFAULT RETURNING *", "UPDATE takes no RETURNING", "RETURNING", "leave it out"),
        ("UPDATE t JOIN s ON a = b SET a = 1", "SET is expected before 'JOIN'", "JOIN", "UPDATE t"),
    ],
)  # fmt: skip
def test_a_wrong_delete_or_update_is_explained_at_its_place(sql, dialect, words, place, hint):
    check_error(refused(sql, dialect), words, place, hint)


def check_error(error, words, place, hint):
    assert words in error.message
    assert hint in error.hint
    if place is not None:
        line, caret = error.place.splitlines()
        assert line[len(caret) - 1 :].startswith(place)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("sql", "words", "place", "hint"),
    [
        ("MERGE t USING s ON a WHEN MATCHED THEN DELETE", "INTO is expected", "t USING", "MERGE INTO t"),
        ("MERGE WITH SCHEMA EVOLUTION INTO t USING s ON a WHEN MATCHED THEN DELETE", "only ALTER TABLE changes",
         "WITH", "ALTER TABLE t ADD COLUMN a INT first"),
        ("INSERT WITH SCHEMA EVOLUTION INTO t SELECT 1", "only ALTER TABLE changes", "WITH", "ALTER TABLE"),
        ("MERGE INTO t ON a", "USING is expected before 'ON'", "ON a", "MERGE INTO t USING s"),
        ("MERGE INTO t USING ON a", "the name of a table, or a query in brackets, is expected before 'ON'", "ON a",
         "USING (SELECT …)"),
        ("MERGE INTO t USING (s) ON a", "a query is expected in the brackets", "(s)", "USING (SELECT …)"),
        ("MERGE INTO t USING (SELECT 1 ON a", "'(' is never closed", "(SELECT", "close it"),
        ("MERGE INTO t USING range(3) ON a WHEN MATCHED THEN DELETE", "the call range(…) is not a source", "range",
         "USING (SELECT …) AS s"),
        ("MERGE INTO t USING T ON a", "the table and the source are both called 'T'", "T ON", "USING T AS s"),
        ("MERGE INTO t x USING s AS X ON a", "both called 'X'", "X ON", "another alias"),
        ("MERGE INTO t USING s WHEN MATCHED THEN DELETE", "ON is expected before 'WHEN'", "WHEN", "ON t.k = s.k"),
        ("MERGE INTO t USING s ON WHEN MATCHED THEN DELETE", "a condition is expected before 'WHEN'", "WHEN", "ON"),
        (MERGE, "WHEN is expected at the end", "", "WHEN MATCHED THEN"),
        ("MERGE INTO t USING s USING (k)", "WHEN is expected at the end", "", "WHEN MATCHED THEN"),
        (MERGE + "WHEN MATCHED DELETE", "THEN is expected before 'DELETE'", "DELETE", "WHEN MATCHED THEN"),
        (MERGE + "WHEN MATCHED AND THEN DELETE", "a condition is expected before 'THEN'", "THEN", "AND condition"),
        (MERGE + "WHEN MATCHED AND a WHEN", "THEN is expected before 'WHEN'", "WHEN", "WHEN MATCHED THEN"),
        (MERGE + "WHEN MATCHED THEN", "is expected after WHEN MATCHED THEN at the end", "", "UPDATE SET a"),
        (MERGE + "WHEN MATCHED THEN ERROR 'x'", "UPDATE or DELETE or DO is expected", "ERROR", "UPDATE SET a"),
        (MERGE + "WHEN MATCHED THEN INSERT *", "UPDATE or DELETE or DO is expected", "INSERT", "SET a"),
        (MERGE + "WHEN NOT MATCHED THEN DELETE", "INSERT or DO is expected", "DELETE", "INSERT *"),
        (MERGE + "WHEN NOT MATCHED BY SOURCE THEN INSERT *", "UPDATE or DELETE or DO is expected", "INSERT", "SET a"),
        (MERGE + "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", "have no row of the source", "SET *", "SET a = value"),
        (MERGE + "WHEN MATCHED BY SOURCE THEN DELETE", "THEN is expected before 'BY'", "BY", "WHEN MATCHED THEN"),
        (MERGE + "WHEN MATCHED THEN UPDATE", "SET is expected at the end", "", "UPDATE SET *"),
        (MERGE + "WHEN MATCHED THEN DELETE banana", "the statement should end before 'banana'", "banana",
         "WHEN MATCHED THEN"),
        (MERGE + "WHEN MATCHED THEN DELETE RETURNING *", "MERGE takes no RETURNING", "RETURNING", "leave it out"),
        (MERGE + "WHEN MATCHED THEN UPDATE SET a = 1 RETURNING a", "MERGE takes no RETURNING", "RETURNING", "leave"),
        (MERGE + "WHEN MATCHED THEN DELETE WHEN MATCHED AND a THEN DELETE",
         "an earlier WHEN MATCHED has no condition, so no row gets here", "WHEN MATCHED AND", "last"),
        (MERGE + "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY TARGET THEN INSERT *",
         "an earlier WHEN NOT MATCHED has no condition", "WHEN NOT MATCHED BY", "last"),
        (MERGE + "WHEN NOT MATCHED THEN INSERT", "the names of columns, or *, are expected", "", "INSERT *"),
        (MERGE + "WHEN NOT MATCHED THEN INSERT VALUES (1)", "the names of columns, or *, are", "VALUES", "INSERT *"),
        (MERGE + "WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)", "INSERT names 2 columns and has 1 values", "(1)",
         "one value for each column"),
        (MERGE + "WHEN NOT MATCHED THEN INSERT (a) VALUES (1), (2)", "should end before ','", ", (2)", "INSERT *"),
        (MERGE + "WHEN NOT MATCHED THEN INSERT (a) VALUES ()", "a value is expected before ')'", ")", "VALUES"),
        (MERGE + "WHEN NOT MATCHED THEN INSERT (a) SELECT 1", "VALUES is expected before 'SELECT'", "SELECT", "VALUES"),
        ("MERGE INTO t USING s ON t.k = s.k ) WHEN MATCHED THEN DELETE", "')' closes no bracket", ")", "leave it out"),
    ],
)  # fmt: skip
def test_a_wrong_merge_is_explained_at_its_place(sql, dialect, words, place, hint):
    check_error(refused(sql, dialect), words, place, hint)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("sql", "words", "place", "hint"),
    [
        ("INSERT INTO t REPLACE SELECT 1", "WHERE or USING is expected after REPLACE before 'SELECT'", "SELECT",
         "REPLACE WHERE condition"),
        ("INSERT INTO t REPLACE WHERE SELECT 1", "a condition is expected before 'SELECT'", "SELECT", "REPLACE WHERE"),
        ("INSERT INTO t REPLACE WHERE k = 1", "a query or VALUES is expected at the end", "", "REPLACE WHERE"),
        ("INSERT INTO t REPLACE WHERE k IN (SELECT 1)", "a query or VALUES is expected at the end", "", "REPLACE"),
        ("INSERT INTO t REPLACE WHERE k = 1 LIMIT 3 SELECT 1", "a query or VALUES is expected before 'LIMIT'", "LIMIT",
         "REPLACE WHERE"),
        ("INSERT INTO t REPLACE USING k SELECT 1", "( is expected before 'k'", "k SELECT", "REPLACE USING (a, b)"),
        ("INSERT INTO t REPLACE USING (k)", "a query or VALUES is expected at the end", "", "REPLACE USING"),
        ("INSERT INTO t REPLACE ON t.k = s.k SELECT 1", "WHERE or USING is expected", "ON t.k", "REPLACE USING"),
        ("INSERT INTO t (k) BY NAME REPLACE WHERE k = 1 SELECT 1", "or BY NAME, not both", "REPLACE", "one of them"),
        ("INSERT INTO t@3 REPLACE WHERE k = 1 SELECT 1", "cannot be written to at a version", "@3", "leave"),
        ("INSERT OVERWRITE INTO t SELECT 1", "the name of a table is expected before 'INTO'", "INTO",
         "INSERT OVERWRITE t SELECT"),
        ("INSERT OVERWRITE t", "a query or VALUES is expected at the end", "", "INSERT OVERWRITE t SELECT"),
        ("INSERT OVERWRITE t (k) BY NAME SELECT 1 AS k", "or BY NAME, not both", "SELECT", "one of them"),
        ("INSERT OVERWRITE TABLE t PARTITION (k) SELECT 1", "a query or VALUES is expected", "PARTITION",
         "REPLACE USING (a, b)"),
        ("INSERT INTO t PARTITION (k = 1) SELECT 1", "a query or VALUES is expected", "PARTITION", "INTO t SELECT"),
    ],
)  # fmt: skip
def test_a_wrong_replacement_is_explained_at_its_place(sql, dialect, words, place, hint):
    check_error(refused(sql, dialect), words, place, hint)


EXPRESSIONS = st.recursive(
    st.sampled_from([
        "a", "t.b", "`WHERE c`", "'x, WHEN ; --'", "1.5", ":p", "NULL", "s.limit", "CASE WHEN a THEN 1 ELSE 2 END",
        "(SELECT max(k) FROM o VERSION AS OF 3 WHERE v = 1)", "a IS NOT DISTINCT FROM b", "k IN (1, 2)",
        "f(a, ')')", "CAST(a AS INT)", "x AND/* , WHERE ( */y", "count(*) FILTER (WHERE a)", "[1, 2][1]",
    ]),
    lambda inner: st.one_of(
        st.builds("({}) + {}".format, inner, inner),
        st.builds("CASE {} WHEN {} THEN {} END".format, inner, inner, inner),
        st.builds("{}\n OR -- THEN, ( \n{}".format, inner, inner),
        st.builds("NOT g({}, {})".format, inner, inner),
    ),
    max_leaves=6,
)  # fmt: skip


@given(st.lists(EXPRESSIONS, min_size=9, max_size=9), st.sampled_from(DIALECTS))
def test_any_expressions_are_cut_where_they_end(parts, dialect):
    on, first, a, b, second, c, d, third, e = parts
    sql = (
        f"MERGE INTO t USING s ON {on} WHEN MATCHED AND {first} THEN UPDATE SET a = {a}, b = {b} "
        f"WHEN NOT MATCHED AND {second} THEN INSERT (c, d) VALUES ({c}, {d}) "
        f"WHEN NOT MATCHED BY SOURCE AND {third} THEN UPDATE SET e = {e}"
    )
    found = [each.text for each in slices(read(sql, dialect)) if each.text != "s"]
    assert found == [on, first, a, b, second, c, d, third, e]
    update = read(f"UPDATE t SET a = {a}, b = {b}, c = {c} WHERE {on}", dialect)
    assert [each.text for each in slices(update)] == [a, b, c, on]
    replace = read(f"INSERT INTO t REPLACE WHERE {on} SELECT {a}, {b} FROM u", dialect)
    assert [each.text for each in slices(replace)] == [on]


WORDS = st.sampled_from([
    "DELETE", "FROM", "UPDATE", "SET", "MERGE", "INTO", "USING", "ON", "WHEN", "NOT", "MATCHED", "BY", "SOURCE",
    "THEN", "INSERT", "VALUES", "REPLACE", "WHERE", "OVERWRITE", "WITH", "AS", "a", "=", ",", "(", ")", "[",
    "]", ".", "1", "'x'", "*", "CASE", "END", "AND", "t", "s", "SELECT", "NAME", "DEFAULT", "VERSION", "OF",
])  # fmt: skip


@given(st.sampled_from(["DELETE FROM t", "UPDATE t SET", MERGE, "INSERT INTO t REPLACE", "INSERT OVERWRITE t", "WITH"]),
       st.lists(WORDS, max_size=12), st.sampled_from(DIALECTS))  # fmt: skip
def test_any_words_are_read_or_refused_with_a_hint(begin, words, dialect):
    sql = " ".join([begin, *words])
    try:
        change = read(sql, dialect)
    except InvalidInput as error:
        assert error.hint  # noqa: PT017 - reading is right too
        return
    for part in slices(change):
        depth = 0
        for token in Statement.of(part.text, dialect=dialect).tokens:
            depth += token.text in {"(", "["}
            depth -= token.text in {")", "]"}
            assert depth >= 0
        assert depth == 0


@pytest.mark.parametrize(
    ("text", "is_plain"),
    [
        ("k = 5", True), ("k=-5", True), ("a <> b", True), ("n > 5 AND b", True), ("k IN (1, 2)", True),
        ("[1] = x", True), ("NOT k", True), ("k IS NULL", True), ("t.k BETWEEN 1 AND 3", True),
        ("id", False), ("t.is", False), ("n << 2", False), ("n <-> m", False), ("(n = 1)::INT", False),
        ("f(a = 1)", False), ("x -> x = 1", False), ("CASE WHEN a = 1 THEN 2 END", False), ("true", False),
    ],
)  # fmt: skip
def test_a_condition_is_known_by_its_outermost_operator(text, is_plain):
    assert is_plainly_condition(expression_of(text, "a condition", "duckdb")) == is_plain
