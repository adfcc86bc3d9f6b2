"""Conditions: wrong ones are told before anything is read, in words of ours, with what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

import sleeper_nb as sl

SCHEMA = sl.Schema(
    {"k": "int"},
    {},
    {"n": "int?", "city": "string?", "fare": "double?", "paid": "boolean?", "day": "date?", "at": "timestamp?",
     "owed": "decimal(10,2)?", "some": "list<int>?"},
)  # fmt: skip
WRONG = [
    ("nosuch > 1", "read", "no column 'nosuch'", "there are: k, n, city"),
    ("t.fare > 1", "read", "no column 't.fare'", "did you mean 'fare'?"),
    ("nosuch >", "read", "Expected: an expression, found: EOF", "write it in SQL"),
    ("fare > 1; drop", "read", "Expected: end of expression, found: ;", "write it in SQL"),
    ("city = 'a", "read", "Unterminated string literal", "write it in SQL"),
    ("lenght(city) > 1", "read", "no function 'lenght'", "did you mean 'length'? sql has those of DuckDB and of Spark"),
    ("total_of(city) > 1", "read", "no function 'total_of'", "sql has those of DuckDB and of Spark"),
    ("fare > 'abc'", "compute", "'abc' is no double", "write one: 1.5"),
    ("n > 'abc'", "compute", "'abc' is no int", "write one: 60"),
    ("owed > 'abc'", "compute", "'abc' is no decimal", "write one: 1.5"),
    ("day > '2026-13-01'", "compute", "'2026-13-01' is no date", "write one: DATE '2026-01-31'"),
    ("at > 'abc'", "compute", "'abc' is no timestamp", "write one: TIMESTAMP '2026-01-31 12:00:00'"),
    ("count(*) > 1", "compute", "a condition is of one row; count(*) is of many", "use sql"),
    ("n > Avg( fare )", "compute", "a condition is of one row; Avg( fare ) is of many", "use sql"),
    ("row_number() over () = 1", "compute", "a condition is of one row; row_number() is of many", "use sql"),
    ("city = :c", "compute", ":c has no value here", "write the value; or use sql, where :c is given one"),
    ("city = ':d' and n > $d", "compute", "$d has no value here", "write the value; or use sql"),
    ("fare", "compute", "it is a value of type double, not true or false", "compare it with something"),
    ("at", "compute", "it is a value of type timestamp, not true or false", "compare it with something"),
    ("n = true", "compute", "there is no = of int and boolean", "compare int with int: 60"),
    ("5 < at", "compute", "there is no < of long and timestamp", "compare timestamp with timestamp: TIMESTAMP"),
    ("some = 5", "compute", "there is no = of list and long", "compare list with list"),
    ("at / 2 > 1", "compute", "there is no / of timestamp and double", "write INTERVAL '1 day' for a time that is"),
    ("paid + 1 > 1", "compute", "there is no + of boolean and long", "cast it: cast(… as double)"),
    ("city like 5", "compute", "there is no LIKE of string and long", "compare string with string"),
    ("n and paid", "compute", "there is no AND of int and boolean", "compare it with something"),
    ("not n", "read", "there is no NOT of int", "compare it with something"),
    ("city ~ '['", "compute", "'[' is no regular expression: unclosed character class", "write a backslash before"),
    ("abs(city) > 1", "compute", "Function 'abs' expects Numeric but received String", "write it in SQL"),
]
FAILING = [
    ("10 % n > 1", "it divides by zero", "write nullif(n, 0) for an n that may be zero"),
    ("cast(city as int) > 1", "'lima' is no int", "try_cast(… as int) is null where a value is none"),
    ("cast(city as timestamp) > now()", "'lima' is no timestamp", "try_cast(… as timestamp) is null"),
    ("make_date(k, n, n) = day", "Month value '0' is out of range", "write it in SQL"),
]


@pytest.fixture
def empty(tmp_path: Path):
    with sl.connect(tmp_path / "w") as session:
        yield session.create_table("t", SCHEMA)


@pytest.fixture
def table(empty):
    empty.ingest([{"k": 1, "n": 0, "city": "lima"}])
    return empty


@pytest.mark.parametrize(("where", "verb", "said", "hint"), WRONG)
def test_a_wrong_condition_is_told_of_an_empty_table_too(empty, where: str, verb: str, said: str, hint: str):
    with pytest.raises(sl.InvalidInput) as caught:
        empty.scan(where=where)
    assert caught.value.message == f"cannot {verb} the condition {where!r}: {said}"
    assert (caught.value.hint or "").startswith(hint)


@pytest.mark.parametrize("options", [{"keys": 5}, {"region": "k=[5,9]"}, {"keys": []}])
def test_a_wrong_condition_is_told_where_no_file_is_opened(table, options):
    with pytest.raises(sl.InvalidInput, match="no column 'nosuch'"):
        table.scan(where="nosuch > 1", **options)


@pytest.mark.parametrize("to", ["e.csv", "e.parquet", "folder"])
def test_a_wrong_condition_is_told_before_anything_is_written(empty, tmp_path: Path, to: str):
    with pytest.raises(sl.InvalidInput, match="found: EOF"):
        empty.export(tmp_path / to, where="nosuch >")
    assert not (tmp_path / to).exists()


def test_a_condition_is_checked_against_the_schema_of_the_version(table):
    table.alter(rename_columns={"fare": "price"})
    with pytest.raises(sl.InvalidInput, match="no column 'fare'"):
        table.scan(where="fare > 1")
    assert table.at(version=1).scan(where="fare > 1").to_arrow().num_rows == 0


@pytest.mark.parametrize(("where", "said", "hint"), FAILING)
def test_a_condition_that_fails_for_some_row_is_told_in_one_sentence(table, where: str, said: str, hint: str):
    with pytest.raises(sl.InvalidInput) as caught:
        table.scan(where=where).to_arrow()
    assert caught.value.message == f"cannot compute the condition {where!r}: {said}"
    assert (caught.value.hint or "").startswith(hint)


@pytest.mark.parametrize("where", ["city = ':c'", "city = '?' or k::int = 1", "some[1:n] is null", "city <> 'count('"])
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
