"""Conditions: wrong ones are told before anything is read, in words of ours, with what to write instead."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.engines.duckdb.conditions import REFUSED
from tests.support.builders import condition

SCHEMA = sl.Schema(
    {"k": "int"},
    {},
    {"n": "int?", "city": "string?", "fare": "double?", "paid": "boolean?", "day": "date?", "at": "timestamp?",
     "owed": "decimal(10,2)?", "some": "list<int>?"},
)  # fmt: skip
WRONG = [
    ("nosuch > 1", "no column 'nosuch'", "available: k, n, city"),
    ("t.fare > 1", "no column 't.fare'", "did you mean 'fare'?"),
    ("nosuch >", "syntax error at '>'", "write it in SQL"),
    ("fare > 1; drop", "syntax error at 'drop'", "write it in SQL"),
    ("city = 'a", "unterminated string literal", "write it in SQL"),
    ("", "it is empty", "write it in SQL"),
    ("n > 1, n < 5", "it is 2 expressions, separated by commas", "join them with AND or OR"),
    ("lenght(city) > 1", "no function 'lenght'", "did you mean 'length'? functions are those of DuckDB"),
    ("total_of(city) > 1", "no function 'total_of'", "functions are those of DuckDB"),
    ("fare > 'abc'", "'abc' is not a value of type double", "write one: 1.5"),
    ("n > 'abc'", "'abc' is not a value of type int", "write one: 60"),
    ("n IN ('1', 'abc')", "'abc' is not a value of type int", "write one: 60"),
    ("n BETWEEN '1' AND 'abc'", "'abc' is not a value of type int", "write one: 60"),
    ("owed > 'abc'", "'abc' is not a value of type decimal(10,2)", "write one: 1.5"),
    ("day > '2026-13-01'", "'2026-13-01' is not a value of type date", "write one: DATE '2026-01-31'"),
    ('"at" > \'abc\'', "'abc' is not a value of type timestamp", "write one: TIMESTAMPTZ '2026-01-31 12:00:00Z'"),
    ("at > now()", "syntax error at '>'", 'at is a word of SQL; write the column in quotes: "at"'),
    ("some[1] = 5", "syntax error at 'some'", 'some is a word of SQL; write the column in quotes: "some"'),
    ("count(*) > 1", "a condition sees one row; aggregates need many", "use sql: GROUP BY … HAVING, or QUALIFY"),
    ("n > Avg( fare )", "a condition sees one row; aggregates need many", "use sql"),
    ("row_number() over () = 1", "a condition cannot have a window function", "use sql; a condition sees one row"),
    ("n = (SELECT max(n) FROM t)", "a condition cannot have a subquery", "use sql: SELECT … WHERE … may have one"),
    ("n = ANY([1, 2])", "a condition cannot have ANY or ALL", "write n IN (1, 2), or list_contains(numbers, n)"),
    ("n <> ALL(ARRAY[1, 2])", "a condition cannot have ANY or ALL", "write n IN (1, 2), or list_contains(numbers, n)"),
    ("city = :c", ":c has no value here", "write the value; or use sql, where :c is given one"),
    ("city = ':d' and n > $d", "$d has no value here", "write the value; or use sql"),
    ("city = ?", "? has no value here", "write the value; or use sql"),
    ("fare", "it is a value of type double, not true or false", "compare it with something"),
    ('"some"', "it is a value of type list<int>, not true or false", "compare it with something"),
    ("abs(city) > 1", "No function matches the given name and argument types 'abs(VARCHAR)'", "cast it"),
    ("(" * 2000 + "k = 1" + ")" * 2000, None, ""),
]  # fmt: skip
MORE_THAN_A_CONDITION = [
    "k IN (SELECT 1)", "EXISTS (SELECT 1)", "k = (SELECT max(k) FROM read_csv('x'))", "k = ANY (SELECT 1)",
    "k = (FROM 'x.parquet')", "list_transform([1], lambda x: (SELECT x)) = [1]", "1=1) or (2=2", "1=1 UNION SELECT 1",
    "1=1; COPY (SELECT 1) TO '{file}'", "1=1) ; COPY (SELECT 1) TO '{file}'; SELECT (1", "1=1 FROM read_csv('x')",
    "1=1) FROM (COPY (SELECT 1) TO '{file}'", "k = 1 ORDER BY k", "k = 1 LIMIT 1", "k = 1 GROUP BY k", "k = 1 AS x",
    "#1 = 1", "COLUMNS(*) > 1", "* = 1", "DEFAULT = 1", "unnest([1]) = 1", "read_text('x') = 'a'",
    "nextval('s') = 1", "main.nextval('s') = 1", "system.main.sleep_ms(1) IS NULL", "pg_sleep(1) IS NULL",
    "write_log('x') IS NULL", "getenv('HOME') = 'x'", "current_setting('threads') = '2'", "getvariable('x') = 1",
    "query('SELECT 1') = 1", "setseed(0.5) IS NULL", "'x'.write_log() IS NULL", "k = 1 WHERE true", "k = 1) --",
]  # fmt: skip
FAILING = [
    ("10 % n > 1", "Division by zero in expression (10 % n)", "divide by NULLIF(n, 0)"),
    ("cast(city as int) > 1", "Could not convert string 'lima' to INT32 when casting from source column city",
     "TRY_CAST(city AS INTEGER) is NULL for such a text"),
    ("make_date(k, n, n) = day", "Date out of range: 1-0-0", "write a day as DATE '2026-01-31'"),
]  # fmt: skip


@pytest.fixture
def empty(tmp_path: Path):
    with sl.connect(tmp_path / "w") as session:
        yield session.create_table("t", SCHEMA)


@pytest.fixture
def table(empty):
    empty.ingest([{"k": 1, "n": 0, "city": "lima"}])
    return empty


@pytest.mark.parametrize(("where", "message", "hint"), WRONG)
def test_a_wrong_condition_is_an_error_of_an_empty_table_too(empty, where: str, message: str | None, hint: str):
    with pytest.raises(sl.InvalidInput) as caught:
        empty.scan(where=where)
    if message is not None:
        assert caught.value.message == f"cannot read the condition {where!r}: {message}"
    assert (caught.value.hint or "").startswith(hint)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("where", MORE_THAN_A_CONDITION)
def test_what_is_more_than_a_computation_on_one_row_is_refused(table, tmp_path: Path, where: str):
    with pytest.raises(sl.InvalidInput, match="cannot read the condition"):
        table.scan(where=where.format(file=tmp_path / "f"))
    assert not (tmp_path / "f").exists()


def test_every_function_of_duckdb_that_does_more_than_compute_is_refused():
    functions = duckdb.sql("SELECT function_name, macro_definition FROM duckdb_functions() WHERE has_side_effects "
                           "OR (function_type = 'macro' AND internal)").fetchall()  # fmt: skip
    effects = {name for name, definition in functions if definition is None}
    of_a_row = {"error", "gen_random_uuid", "random", "uuid", "uuidv4", "uuidv7"}  # each row gets another value
    assert effects - of_a_row <= REFUSED
    calls = {name: set(re.findall(r"(\w+)\(", definition)) for name, definition in functions if definition is not None}
    assert {name for name, called in calls.items() if called & REFUSED} <= REFUSED


def test_random_is_another_number_for_each_row(table):
    table.ingest([{"k": i} for i in range(2, 200)])
    assert 0 < table.scan(where="random() < 0.5").count() < 199


@contextlib.contextmanager
def interrupted() -> Iterator[None]:
    """Interrupt this process soon."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_interrupt_of_a_condition_is_a_keyboard_interrupt():
    schema = sl.Schema({"k": "int"})
    rows = pa.RecordBatch.from_arrays([pa.array(range(65_536), pa.int32())], schema=schema.arrow)
    slow = condition("len(list_filter(range(5000), lambda x: x % (k + 1) = 3)) > 5", schema)
    with slow.opened() as row_filter, interrupted():
        list(row_filter.filter([rows]))


def test_now_is_one_moment_throughout_a_read():
    rows = pa.RecordBatch.from_pylist([{"k": 1}], sl.Schema({"k": "int"}).arrow)
    with condition("k = 1 AND epoch_us(now()) % 2 = 0", sl.Schema({"k": "int"})).opened() as row_filter:
        assert len({len(list(row_filter.filter([rows]))) for _ in range(40)}) == 1


@pytest.mark.parametrize("options", [{"keys": 5}, {"region": "k=[5,9]"}, {"keys": []}])
def test_a_wrong_condition_is_an_error_where_no_file_is_opened(table, options):
    with pytest.raises(sl.InvalidInput, match="no column 'nosuch'"):
        table.scan(where="nosuch > 1", **options)


@pytest.mark.parametrize("to", ["e.csv", "e.parquet", "folder"])
def test_a_wrong_condition_is_an_error_before_anything_is_written(empty, tmp_path: Path, to: str):
    with pytest.raises(sl.InvalidInput, match="syntax error"):
        empty.export(tmp_path / to, where="nosuch >")
    assert not (tmp_path / to).exists()


def test_a_condition_is_checked_against_the_schema_of_the_version(table):
    table.alter(rename_columns={"fare": "price"})
    with pytest.raises(sl.InvalidInput, match="no column 'fare'"):
        table.scan(where="fare > 1")
    assert table.at(version=1).scan(where="fare > 1").to_arrow().num_rows == 0


@pytest.mark.parametrize(("where", "said", "hint"), FAILING)
def test_a_condition_that_fails_for_some_row_is_explained_in_one_sentence(table, where: str, said: str, hint: str):
    with pytest.raises(sl.InvalidInput) as caught:
        table.scan(where=where).to_arrow()
    assert caught.value.message == f"cannot compute the condition {where!r}: {said}"
    assert (caught.value.hint or "").startswith(hint)


@pytest.mark.parametrize(
    "where", ["city = ':c'", "city = '?' or k::int = 1", '"some"[1:n] is null', "city <> 'count('"]
)
def test_what_looks_like_a_parameter_or_a_fault_is_none(table, where: str):
    assert table.scan(where=where).to_arrow().num_rows in {0, 1}


NUMBERS = [(1, -5, 0, -0.0), (2, -1, 3, 0.0), (3, 0, 0, 1.5), (4, 0, -2, None), (5, 1, 2, 0.0), (6, 7, None, 2.0),
           (7, 3, 3, -7.0), (8, 2**20, 10, 0.5)]  # fmt: skip
DIVIDING = [
    "k / 2 = 1", "k / 2 = 1.5", "7 / 2 = 3.5", "n / m > 1", "n / m < 1", "n / m >= 0", "NOT n / m > 1", "0 <= n / m",
    "n / m IS NULL", "10 / m > 1", "-n / 2 = 2.5", "n / -2 <= 2.5", "n / -5 = 0", "n * 3 / 2 = 1.5", "n / 2 / 2 > 0.25",
    "k / 2 % 2 = 0.5", "(k + 1) / 2 IN (1, 1.5)", "k / 2 BETWEEN 1 AND 2", "n % 2 = 1", "n % -2 = -1", "n % 2 <> 0",
    "f / f > 0 AND k > 1", "f / 0 > 5 OR n / m = 1", "CASE WHEN k / 4 < 1 THEN TRUE END", "floor(k / 2) = 2",
    "k BETWEEN 1 AND 7 / 2", "n / m = 'NaN'", "k /* a/b */ / /**/ 2 = 1.5 -- c/d", "n - k / 2 * 2 = 0",
    "greatest(k / 2, 1) < 2",
]  # fmt: skip


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    with sl.connect(tmp_path_factory.mktemp("numbers")) as session:
        table = session.create_table("t", sl.Schema({"k": "int"}, {}, {"n": "int?", "m": "long?", "f": "double?"}))
        table.ingest([dict(zip("knmf", row, strict=True)) for row in NUMBERS])
        yield session, table


@pytest.mark.parametrize("where", DIVIDING)
def test_a_condition_divides_as_sql_does(numbers, where: str):
    session, table = numbers
    found = table.scan(["k"], where).to_arrow()["k"].to_pylist()
    of_sql = session.sql(f"SELECT k FROM t WHERE {where}\n ORDER BY k", engine="duckdb")
    assert found == of_sql.to_arrow()["k"].to_pylist()


@pytest.mark.parametrize(
    "where",
    ["city = 'a/b'", "city = E'a/b'", "city = E'\\'/' or k = 1", "city = $$a/b$$", "city = $x$a/b$x$",
     "city <> 'it''s 1/2'", "k = 1 /* 1/2 */ -- 1/2"],
)  # fmt: skip
def test_a_slash_in_a_text_a_name_or_a_comment_stays(tmp_path: Path, where: str):
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", sl.Schema({"k": "int"}, {}, {"city": "string"}))
        table.ingest([{"k": 1, "city": "a/b"}])
        assert table.scan(where=where).to_arrow().num_rows == 1


@pytest.mark.parametrize(
    "where",
    ["starts_with(city)", "starts_with(city, 'a', 'b')", "starts_with(DISTINCT city, 'a')", "(k, n) = (1, 2, 3)",
     "row(k) = row(1, 2)"],
)  # fmt: skip
def test_a_call_that_duckdb_refuses_is_an_error_before_any_row_is_read(tmp_path: Path, where: str):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", sl.Schema({"k": "long"}, {}, {"city": "string", "n": "long"}))
        with pytest.raises(sl.InvalidInput, match="cannot read the condition"):
            table.scan(where=where)
        table.ingest([{"k": 1, "city": "a", "n": 2}])
        with pytest.raises(sl.InvalidInput):
            session.sql(f"SELECT k FROM t WHERE {where}", engine="duckdb").to_arrow()


def test_a_part_that_is_repeated_prunes_once():
    assert len(condition(" AND ".join(["city = 'rome'"] * 2000), SCHEMA).predicate.parts) == 1
