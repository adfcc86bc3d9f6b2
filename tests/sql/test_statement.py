"""SQL time travel: which tables a statement names, at which versions, and that nothing else of it changes."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope

from sleeper_nb.errors import InvalidInput
from sleeper_nb.sql.binding import with_names
from sleeper_nb.sql.parameters import parameter_names, with_own_parameters
from sleeper_nb.sql.references import table_references
from sleeper_nb.sql.statement import Replacement, Statement
from sleeper_nb.sql.tokens import tokenize

DIALECTS = ("spark", "duckdb")


def references_in(sql, dialect):
    return table_references(Statement.of(sql, dialect=dialect))


def checked(statement):
    """The text of a statement, whose tokens are those of the text."""
    assert statement.tokens == tokenize(statement.text, dialect=statement.dialect)
    return statement.text


def splice(sql, names, dialect):
    return checked(with_names(Statement.of(sql, dialect=dialect), names))


def parameters_of(sql, dialect):
    return parameter_names(Statement.of(sql, dialect=dialect))


def for_duckdb(sql):
    return checked(with_own_parameters(Statement.of(sql, dialect="duckdb")))


def found(sql, dialect="duckdb"):
    """Name, literal of the clause and alias of each reference."""
    return [(r.name, r.clause and r.clause.literal, r.alias) for r in references_in(sql, dialect=dialect)]


def names(sql, dialect="duckdb"):
    return [reference.name for reference in references_in(sql, dialect=dialect)]


def spliced(sql, dialect="duckdb"):
    """The statement with each table replaced by `v<place>`."""
    references = references_in(sql, dialect=dialect)
    return splice(sql, {r: f"v{i}" for i, r in enumerate(references)}, dialect=dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("clause", "kind", "literal"),
    [
        ("VERSION AS OF 12", "version", 12),
        ("VERSION AS OF '12'", "version", "12"),
        ("version as of 'snapshot.12'", "version", "snapshot.12"),
        ("VERSION AS OF 'savepoint.3'", "version", "savepoint.3"),
        ("VERSION AS OF 'savepoint.before-fix'", "version", "savepoint.before-fix"),
        ("VERSION AS OF savepoint.before-fix", "version", "savepoint.before-fix"),
        ("VERSION AS OF snapshot.12", "version", "snapshot.12"),
        ("VERSION AS OF `savepoint.3`", "version", "savepoint.3"),
        ("VERSION AS OF -1", "version", -1),
        ("VERSION AS OF :wanted", "version", None),
        ("FOR VERSION AS OF 12", "version", 12),
        ("FOR SYSTEM_VERSION AS OF 12", "version", 12),
        ("VERSION\r\n AS /* of */ OF -- twelve\n 12", "version", 12),
        ("TIMESTAMP AS OF '2026-11-01 10:00:00'", "timestamp", "2026-11-01 10:00:00"),
        ("FOR TIMESTAMP AS OF '2026-11-01'", "timestamp", "2026-11-01"),
        ("FOR SYSTEM_TIME AS OF 1700000000", "timestamp", 1700000000),
        ("@12", "reference", 12),
        ("@v12", "reference", "v12"),
        ("@savepoint.before-fix", "reference", "savepoint.before-fix"),
        ("@2026-11-01T10:00", "reference", "2026-11-01T10:00"),
        ("@'before the fix'", "reference", "before the fix"),
        ("@`before the fix`", "reference", "before the fix"),
        (" AT (VERSION => 12)", "version", 12),
        (" AT (TIMESTAMP => '2026-11-01')", "timestamp", "2026-11-01"),
    ],
)
def test_every_form_of_clause_is_read_and_cut(dialect, clause, kind, literal):
    space = "" if clause.startswith("@") else " "
    for before, behind in (("SELECT * FROM ", " f WHERE f.a = 1"), ("SELECT * FROM u, (SELECT 1 FROM ", " f) x")):
        sql = f"{before}flights{space}{clause}{behind}"
        (reference,) = (r for r in references_in(sql, dialect=dialect) if r.name == "flights")
        assert (reference.clause.kind, reference.clause.literal, reference.alias) == (kind, literal, "f")
        assert reference.clause.text in clause
        mark = "`" if dialect == "spark" else '"'
        assert splice(sql, {reference: "v"}, dialect=dialect) == f"{before}{mark}v{mark}{behind}"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "expression",
    [
        "current_timestamp() - interval 1 hour",
        "current_timestamp - INTERVAL '1' DAY",
        "now() - interval '1 hour'",
        "now() - 2 * interval 1 day",
        "now() - interval '1' century",
        "now() - interval '3' nanoseconds",
        "TIMESTAMP '2026-11-01 10:00:00'",
        "date '2026-11-01' + interval 1 day + interval '2' hours",
        "cast('2026-11-01' as timestamp)",
        "'2026-11-01'::timestamptz",
        "('2026-11-01'::timestamp at time zone 'utc')",
        "('2026-11-01')",
        "(select max(a) from (values (1)) w(a))",
        "(case when 1 = 1 then now() else now() end)",
        "make_timestamp(2026, 11, 1, 10, 0, 0) + (interval 2 hours * -3)",
        "interval '1 month' + now()",
        "lib.moment('x')",
        ":wanted",
    ],
)
@pytest.mark.parametrize(
    "behind", ["", " f", " AS f", " JOIN u ON 1 = 1", ", u", " WHERE a - 1 = 2", " f JOIN u USING (a)"]
)
def test_a_timestamp_may_be_a_sum_of_values_and_ends_where_the_last_one_ends(dialect, expression, behind):
    sql = f"FROM flights TIMESTAMP AS OF {expression}{behind}"
    (flights, *_) = references_in(sql, dialect=dialect)
    assert (flights.clause.kind, flights.clause.text, flights.clause.literal) == ("timestamp", expression, None)
    assert flights.alias == ("f" if " f" in behind or "AS f" in behind else None)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", ["t"]),
        ("WITH RECURSIVE t AS (SELECT 1 UNION SELECT * FROM t) SELECT * FROM T", []),
        ("WITH a AS (FROM t), b AS (FROM a JOIN b) FROM b, a", ["t", "b"]),
        ("SELECT * FROM (WITH b AS (SELECT 1) SELECT * FROM b) q, b", ["b"]),
        ("WITH t AS (SELECT 1) SELECT * FROM db.t, (SELECT * FROM t) x", ["db.t"]),
        ("WITH t(a, b) AS NOT MATERIALIZED (SELECT 1, 2) SELECT 1 UNION SELECT * FROM t", []),
        ("WITH t AS (SELECT 1) INSERT INTO w SELECT * FROM t, u", ["w", "u"]),
        ('WITH "T t" AS (SELECT 1) FROM "t T", t', ["t"]),
        ("SELECT extract(year FROM d), trim(FROM x), substring(a FROM 2) FROM t", ["t"]),
        ("SELECT 1 FROM t WHERE a IS NOT DISTINCT FROM b AND EXISTS (FROM u)", ["t", "u"]),
        ("SELECT * FROM 'f.parquet', read_parquet('x') r, range(10), VALUES (1), (2), t", ["t"]),
        ("SELECT * FROM (VALUES (1), (2)) v(a), t", ["t"]),
        ("(SELECT * FROM a) UNION ALL (FROM b) EXCEPT SELECT * FROM c ORDER BY d, e", ["a", "b", "c"]),
        ("SELECT * FROM ((a JOIN b USING (x)) CROSS JOIN c), LATERAL (SELECT a.x) l, d", ["a", "b", "c", "d"]),
        ("FROM t SELECT a, b WHERE c", ["t"]),
        ("FROM t, u SELECT a, b GROUP BY a, b", ["t", "u"]),
        ("FROM x: t, y: (SELECT 1), u", ["t", "u"]),
        ("PIVOT t ON a USING sum(b)", ["t"]),
        ("UNPIVOT t ON a, b INTO NAME n VALUE v", ["t"]),
        ("FROM t PIVOT (sum(b) FOR a IN (1, 2)) p, u", ["t", "u"]),
        ("SELECT s.from, s.join, t FROM u", ["u"]),
        ("TABLE t", ["t"]),
        ("SELECT (SELECT max(a) FROM t) - (SELECT 1 FROM u)", ["t", "u"]),
        ("EXPLAIN ANALYZE SELECT * FROM t", ["t"]),
        ("DESCRIBE t", ["t"]),
        ("DESCRIBE SELECT * FROM t", ["t"]),
        ("SUMMARIZE t", ["t"]),
        ("FROM (DESCRIBE t)", ["t"]),
        ("SHOW TABLES FROM db", []),
        ("SHOW t@3", ["t"]),
        ("CREATE OR REPLACE TEMP VIEW v AS SELECT * FROM t", ["v", "t"]),
        ("CREATE TABLE v AS FROM t", ["v", "t"]),
        ("INSERT INTO v (a, b) SELECT a, b FROM t", ["v", "t"]),
        ("DELETE FROM v USING t, u WHERE v.a = t.a", ["v", "t", "u"]),
        ("UPDATE v SET a = 1, b = t.b FROM t", ["v", "t"]),
        ("MERGE INTO v USING t ON v.a = t.a WHEN MATCHED THEN UPDATE SET a = 1, b = 2", ["v", "t"]),
        ("COPY (SELECT * FROM t) TO 'x.csv'", ["t"]),
        ("SET x = (SELECT max(a) FROM t)", ["t"]),
        ("INSTALL httpfs FROM core", []),
        ("SELECT 1", []),
        (" -- nothing", []),
    ],
)
def test_tables_are_told_from_everything_else(sql, expected):
    assert names(sql) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM t LATERAL VIEW explode(m) e AS k, v", ["t"]),
        ("FROM t |> WHERE x > 1 |> SELECT a, b |> JOIN u ON true", ["t", "u"]),
        ("FROM t INSERT INTO a SELECT x, y INSERT OVERWRITE TABLE b SELECT z", ["t", "a", "b"]),
        ("SELECT * FROM f(TABLE(t), TABLE u)", ["t", "u"]),
        ("SELECT * FROM VALUES 1, 2, 3", []),
        ("SELECT * FROM 2024_t ANTI JOIN `a ``b` MINUS SELECT 1 FROM é😀", ["2024_t", "a `b", "é😀"]),
        ("SELECT \"x FROM y\" FROM t WHERE a = r'\\' AND b = 'it\\'s FROM z'", ["t"]),
        ("SELECT 1 -- a \\\n FROM y\n FROM t", ["t"]),
        ("WITH a (SELECT 1) SELECT * FROM a", []),
        ("SHOW COLUMNS IN t", ["t"]),
        ("DESCRIBE TABLE EXTENDED t", ["t"]),
        ("DESCRIBE FUNCTION t", []),
        ("CACHE TABLE v AS SELECT * FROM t", ["v", "t"]),
    ],
)
def test_tables_of_statements_that_only_spark_knows(sql, expected):
    assert names(sql, "spark") == expected


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.x, sum(1) FROM a LEFT JOIN b ON a.x = b.x AND b.y IN (SELECT y FROM c) GROUP BY 1 HAVING sum(1) > 2",
        "WITH a AS (SELECT * FROM a), d AS (SELECT * FROM a, b) SELECT * FROM d CROSS JOIN (SELECT * FROM c) AS e",
        "SELECT x, sum(1) OVER (PARTITION BY a, b ORDER BY c) FROM d WHERE EXISTS (SELECT 1 FROM e WHERE e.a = d.a)",
        "SELECT * FROM a UNION ALL SELECT * FROM b UNION (WITH a AS (SELECT 1 AS x) SELECT x FROM a)",
        "SELECT CASE WHEN x IN (SELECT y FROM a) THEN (SELECT z FROM b) END FROM (SELECT * FROM c JOIN d USING (k)) q",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r JOIN a ON r.n = a.n) SELECT * FROM r, b",
    ],
)
def test_a_parser_finds_the_same_tables(dialect, sql):
    trees = traverse_scope(sqlglot.parse_one(sql, dialect=dialect))
    tables = [source.name for scope in trees for source in scope.sources.values() if isinstance(source, exp.Table)]
    assert sorted(names(sql, dialect)) == sorted(tables)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_words_that_only_look_like_a_clause_stay(dialect):
    sql = (
        "SELECT version AS of, timestamp AS of, 'FROM x VERSION AS OF 3' /* FROM y VERSION AS OF 3 /* nested */ */\r\n"
        "FROM version AS of, timestamp version -- VERSION AS OF 3"
    )
    assert found(sql, dialect) == [("version", None, "of"), ("timestamp", None, "version")]


def test_a_clause_may_follow_the_alias_as_duckdb_writes_it():
    sql = "FROM flights f AT (VERSION => 12) JOIN flights AS g VERSION AS OF 3 ON f.a = g.a"
    assert found(sql) == [("flights", 12, "f"), ("flights", 3, "g")]
    assert spliced(sql) == 'FROM "v0" f  JOIN "v1" AS g  ON f.a = g.a'


@pytest.mark.parametrize(
    ("dialect", "sql", "expected"),
    [
        ("duckdb", "SELECT flights.a FROM flights@3", 'SELECT flights.a FROM "v0" AS "flights"'),
        ("duckdb", 'FROM "my ""t"@3,t', 'FROM "v0" AS "my ""t","v1" AS "t"'),
        ("duckdb", "FROM db.t@3 tablesample 10%", 'FROM "v0" AS "t" tablesample 10%'),
        ("duckdb", "DESCRIBE t VERSION AS OF 3;", 'DESCRIBE "v0"'),
        ("duckdb", "FROM x: t@3 JOIN u", 'FROM x: "v0" JOIN "v1" AS "u"'),
        (
            "duckdb",
            "SELECT '😀é' FROM 😀é@3\r\nWHERE 1=1;  -- end",
            'SELECT \'😀é\' FROM "v0" AS "😀é"\r\nWHERE 1=1',
        ),
        (
            "duckdb",
            "SELECT $q$ FROM x@1 $q$, E'\\' FROM y' FROM t@3",
            'SELECT $q$ FROM x@1 $q$, E\'\\\' FROM y\' FROM "v0" AS "t"',
        ),
        (
            "spark",
            "SELECT 1 FROM t@3 TABLESAMPLE (5 ROWS) WHERE 1=1",
            "SELECT 1 FROM `v0` TABLESAMPLE (5 ROWS) AS `t` WHERE 1=1",
        ),
        (
            "spark",
            "SELECT /*+ broadcast(t) */ * FROM t@3 SORT BY a, b",
            "SELECT /*+ broadcast(t) */ * FROM `v0` AS `t` SORT BY a, b",
        ),
        ("spark", "SELECT * FROM `a b` VERSION AS OF 3 x", "SELECT * FROM `v0` x"),
        ("duckdb", "SELECT t$files.a FROM t$files@3", 'SELECT t$files.a FROM "v0" AS "t$files"'),
        ("spark", "SELECT T$files.a, 't$files' FROM t$files@3", "SELECT `T$files`.a, 't$files' FROM `v0` AS `t$files`"),
        ("spark", "SELECT f.a FROM `t$files` VERSION AS OF 3 f, t$files g", "SELECT f.a FROM `v0` f, `v1` g"),
    ],
)
def test_a_name_is_replaced_and_kept_as_the_alias_where_the_grammar_wants_it(dialect, sql, expected):
    assert spliced(sql, dialect) == expected


def test_references_left_out_stay_as_written():
    sql = "SELECT * FROM a@1, b VERSION AS OF 2"
    _, b = references_in(sql, dialect="duckdb")
    assert splice(sql, {}, dialect="duckdb") == sql
    assert splice(sql, {b: 'odd"name'}, dialect="duckdb") == 'SELECT * FROM a@1, "odd""name" AS "b"'


def test_targets_of_writes_and_of_describe_are_told_from_reads():
    roles = {r.name: r.role for r in references_in("INSERT INTO a SELECT * FROM b", dialect="spark")}
    assert roles == {"a": "write", "b": "read"}
    assert [r.role for r in references_in("COPY t FROM 'x.csv'", dialect="duckdb")] == ["write"]
    assert [r.role for r in references_in("COPY t (a) TO 'x.csv'", dialect="duckdb")] == ["read"]
    assert [r.role for r in references_in("DESC t@3", dialect="spark")] == ["describe"]


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("WITH c AS (SELECT 1) SELECT * FROM c VERSION AS OF 3", "'c'"),
        ("WITH c AS (SELECT 1) SELECT * FROM c x VERSION AS OF 3", "'c'"),
        ("WITH c AS (SELECT 1) SELECT * FROM c@3", "'c'"),
        ("WITH c AS (SELECT 1) TABLE c@3", "'c'"),
        ("SELECT * FROM (SELECT 1) VERSION AS OF 3", "subquery"),
        ("SELECT * FROM (SELECT 1) AS x TIMESTAMP AS OF now()", "subquery"),
        ("SELECT * FROM range(10)@3", "range"),
        ("SELECT * FROM 'f.parquet' VERSION AS OF 3", "f.parquet"),
        ("SELECT * FROM (VALUES (1)) VERSION AS OF 3", "subquery"),
        ("INSERT INTO t@3 VALUES (1)", "'t'"),
        ("SELECT 1;\nSELECT 2", "line 1"),
        ("SELECT * FROM t VERSION AS OF", "VERSION AS OF"),
        ("SELECT * FROM t FOR TIMESTAMP AS OF WHERE 1 = 1", "FOR TIMESTAMP AS OF"),
        ("SELECT * FROM t AT (VERSION => 3", "AT"),
        ("SELECT * FROM t@ WHERE 1 = 1", "t@"),
        ("SELECT 1,\n 'open FROM t", "line 2"),
        ("SELECT 1 /* open /* */ FROM t", "line 1"),
        ("SELECT " + "(" * 300 + "1" + ")" * 300, "brackets"),
    ],
)
def test_what_cannot_be_right_is_refused_by_name_with_a_hint(sql, named):
    with pytest.raises(InvalidInput) as refused:
        references_in(sql, dialect="duckdb")
    assert named in refused.value.message
    assert refused.value.hint


def test_options_of_a_replaced_table_are_refused_and_those_of_others_pass():
    sql = "SELECT * FROM t VERSION AS OF 3 WITH (snap = 'x') a"
    (reference,) = references_in(sql, dialect="spark")
    assert (reference.has_options, reference.alias) == (True, "a")
    assert splice(sql, {}, dialect="spark") == sql
    with pytest.raises(InvalidInput, match="'t'"):
        splice(sql, {reference: "v"}, dialect="spark")


def test_references_of_another_statement_are_refused():
    references = references_in("SELECT * FROM a_table, b", dialect="spark")
    with pytest.raises(InvalidInput, match="not of this statement"):
        splice("SELECT 1", dict.fromkeys(references, "v"), dialect="spark")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("WHERE a = :a AND b IN (:b,:c) OR a=:a LIMIT :n", ("a", "b", "c", "n")),
        ("SELECT ':x', x::int, '1'::date, y /* :z */ -- :w", ()),
        ("SELECT {'k':v, 'l' :v, 'm': :bound}, x[1:n], x[:n], x[f(1) :n], [:one, :two]", ("bound", "one", "two")),
        ("SELECT :a::int, -:b, (:c)", ("a", "b", "c")),
        ("FROM x:tbl SELECT l -> l:y", ()),
        ("FROM t VERSION AS OF :version WHERE day > DATE :day", ("version", "day")),
    ],
)
def test_parameters_stand_outside_strings_casts_keys_and_slices(sql, expected):
    assert parameters_of(sql, dialect="duckdb") == expected


def test_duckdbs_own_parameters_are_told_from_names_with_a_dollar():
    sql = "SELECT $a, a$b, $q$ $c $q$, '$d', $a + :e FROM t$files WHERE x=$f AND y IN ($g,$h) -- $i"
    assert parameters_of(sql, dialect="duckdb") == ("a", "e", "f", "g", "h")
    assert parameters_of("SELECT $a, ${b}, :c FROM t$files", dialect="spark") == ("c",)
    assert for_duckdb(sql) == sql.replace(":e", "$e")


def test_quotes_of_the_dialect_decide_what_a_parameter_is():
    sql = """SELECT "it's :a", 'x\\' :b' """
    assert parameters_of(sql, dialect="spark") == ()
    with pytest.raises(InvalidInput, match="never closed"):
        parameters_of(sql, dialect="duckdb")


def test_parameters_run_on_duckdb():
    sql = for_duckdb("SELECT :a::int + :b, ':a', [1, 2, 3][1:2], {'k':1}")
    assert duckdb.connect().execute(sql, {"a": 1, "b": 2}).fetchone() == (3, ":a", [1, 2], {"k": 1})


@pytest.fixture
def engine():
    """Versions 1 and 2 of `t`: one row, then two."""
    with duckdb.connect() as connection:
        connection.execute("CREATE VIEW t_1 AS SELECT 1 AS k, 'old' AS x")
        connection.execute("CREATE VIEW t_2 AS SELECT * FROM (VALUES (1, 'new'), (2, 'added')) w(k, x)")
        yield connection


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT t.x FROM t VERSION AS OF 1", [("old",)]),
        ("SELECT count(*) FROM t", [(2,)]),
        ("FROM t@1 SELECT x -- end", [("old",)]),
        ("FROM a: t@1 JOIN b: t@2 USING (k) SELECT a.x, b.x", [("old", "new")]),
        (
            "SELECT a.x, b.x FROM t VERSION AS OF 1 a JOIN t FOR SYSTEM_VERSION AS OF 2 AS b ON a.k = b.k;",
            [("old", "new")],
        ),
        ("SELECT x FROM t@2 EXCEPT SELECT x FROM t@1 ORDER BY x", [("added",), ("new",)]),
        ("WITH t AS (SELECT * FROM t@1) SELECT * FROM t", [(1, "old")]),
        ("SELECT (SELECT max(k) FROM t@1), (SELECT max(k) FROM T AT (VERSION => 2))", [(1, 2)]),
        ("SELECT b.x FROM t b AT (VERSION => 2) ANTI JOIN t@1 USING (k)", [("added",)]),
        ("SELECT sum(n) FROM range(3) r(n), (VALUES (1), (2)) v(a), t@1", [(6,)]),
        ("SELECT l.y FROM t@1, LATERAL (SELECT t.x || '!' AS y) l", [("old!",)]),
        ("SELECT count(*) FROM ((t@1 JOIN t@2 u USING (k)) CROSS JOIN t w)", [(2,)]),
        ("PIVOT t@2 ON k USING any_value(x)", [("new", "added")]),
        ("SELECT column_name FROM (DESCRIBE t@1)", [("k",), ("x",)]),
        ("TABLE t@1", [(1, "old")]),
        ("SELECT x /* FROM t@2 */, '''FROM t@2' FROM \"t\"@1 WHERE \"t\".k = 1", [("old", "'FROM t@2")]),
        ("SELECT x FROM t@1 TABLESAMPLE 100%", [("old",)]),
    ],
)
def test_answers_on_duckdb_are_those_of_the_versions(engine, sql, rows):
    references = references_in(sql, dialect="duckdb")
    views = {r: f"t_{r.clause.literal if r.clause else 2}" for r in references}
    answer = engine.execute(splice(sql, views, dialect="duckdb")).fetchall()
    assert answer == rows


def test_a_view_over_a_version_keeps_reading_it(engine):
    sql = "CREATE TEMP VIEW v AS SELECT t.x FROM t VERSION AS OF 1"
    reads = [r for r in references_in(sql, dialect="duckdb") if r.role == "read"]
    engine.execute(splice(sql, dict.fromkeys(reads, "t_1"), dialect="duckdb"))
    assert engine.execute("FROM v").fetchall() == [("old",)]


NOISE = st.sampled_from(
    [
        " ",
        "\r\n",
        "\t",
        " /* FROM n VERSION AS OF 9 */ ",
        " -- JOIN n@9 ;\n",
        "/* a /* FROM n */ '*/",
        " /*é😀*/ ",
        "/**/",
    ]
)
STRINGS = st.sampled_from(["'FROM n VERSION AS OF 9'", "'it''s @9; -- '", "'/*'", "'😀 é'", "1"])
TABLES = st.sampled_from(["flights", "é😀t", "`my t`", "db.flights", "version"])
CLAUSES = st.sampled_from(
    [
        ([], None),
        (["VERSION", "AS", "OF", "12"], 12),
        (["FOR", "SYSTEM_VERSION", "AS", "OF", "'sp'"], "sp"),
        (["TIMESTAMP", "AS", "OF", "now()", "-", "interval", "1", "hour"], None),
        (["@v3"], "v3"),
    ]
)
ALIASES = st.sampled_from([[], ["f"], ["AS", "`f g`"]])


@st.composite
def statements(draw):
    """Tokens of a statement, where noise may stand (not before `@ref`), and the tables that it names."""
    pieces, expected = ["SELECT", draw(STRINGS), ",", "version", "AS", "of", "FROM"], []
    for place in range(draw(st.integers(1, 4))):
        if place:
            pieces += draw(st.sampled_from([["JOIN"], [","], ["LEFT", "JOIN"]]))
        table, (clause, literal), alias = draw(TABLES), draw(CLAUSES), draw(ALIASES)
        relation = [table + clause[0]] if clause[:1] == ["@v3"] else [table, *clause]
        expected.append((table.strip("`"), literal, alias[-1].strip("`") if alias else None))
        wrapped = draw(st.booleans())
        pieces += ["(", "SELECT", "*", "FROM", *relation, *alias, ")", "q"] if wrapped else [*relation, *alias]
    pieces += ["WHERE", "a", "=", draw(STRINGS)]
    return pieces, expected


@given(statements(), st.data(), st.sampled_from(DIALECTS))
def test_noise_never_changes_what_is_found_and_all_other_text_stays(statement, data, dialect):
    pieces, expected = statement
    noise = data.draw(st.lists(NOISE, min_size=len(pieces), max_size=len(pieces)))
    sql = "".join(piece + between for piece, between in zip(pieces, noise, strict=True))
    references = references_in(sql, dialect=dialect)
    assert found(sql, dialect) == expected
    result = splice(sql, dict.fromkeys(references, "v"), dialect=dialect)
    mark, at = "`" if dialect == "spark" else '"', 0
    for before, r in zip([0, *(r.end for r in references)], references, strict=False):
        kept = sql[before : r.start] + f"{mark}v{mark}"
        kept += "" if r.alias else f" AS {mark}{r.parts[-1]}{mark}"
        assert result[at : at + len(kept)] == kept
        at += len(kept)
    assert result[at:] == sql[references[-1].end :]


@given(st.text(alphabet="fromselect tjoinwhas@()'\"`,;:/*-$.12\n", max_size=60), st.sampled_from(DIALECTS))
def test_any_text_is_read_or_refused_and_comes_back_whole(text, dialect):
    try:
        references = references_in(text, dialect=dialect)
    except InvalidInput:
        return
    whole = splice(text, {}, dialect=dialect)
    assert text.startswith(whole)
    assert all(token.symbol == ";" for token in tokenize(text[len(whole) :], dialect=dialect))
    assert all(text[r.start : r.end] for r in references)
    if not any(r.has_options for r in references):
        assert splice(text, dict.fromkeys(references, "v"), dialect=dialect).count("v") >= len(references)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ('SELECT y.a FROM t"y"', 'SELECT y.a FROM "v0" "y"'),
        ("SELECT * FROM t x@'a'WHERE 1 = 1", 'SELECT * FROM "v0" x WHERE 1 = 1'),
        ('SELECT * FROM t@3"y",u', 'SELECT * FROM "v0" "y","v1" AS "u"'),
    ],
)
def test_what_was_apart_stays_apart(sql, expected):
    assert spliced(sql) == expected


def test_a_span_may_end_inside_a_token():
    statement = Statement.of("SELECT abc FROM t", dialect="duckdb")
    assert checked(statement.replaced([Replacement(7, 9)])) == "SELECT c FROM t"
    assert checked(statement.replaced([Replacement(8, 8, ",")])) == "SELECT a ,bc FROM t"
    with pytest.raises(InvalidInput):
        statement.replaced([Replacement(0, 6), Replacement(3, 7)])


def test_a_statement_ends_where_its_last_token_does_and_can_begin_later():
    statement = Statement.of("/* a */ EXPLAIN SELECT 1 ;; -- b", dialect="duckdb")
    assert statement.words() == ("EXPLAIN", "SELECT", "1")
    assert checked(statement) == "/* a */ EXPLAIN SELECT 1 "
    assert checked(statement.after(1)) == "SELECT 1 "
    assert checked(statement.after(3)) == ""
