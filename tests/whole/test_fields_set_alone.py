"""Fields of a struct that UPDATE and MERGE set alone, on both engines; the other fields stay as they are."""

from __future__ import annotations

import pytest

import sleeper_nb as sl

SCHEMA = sl.Schema({"k": "int"}, {}, {"r": "struct<a:int?,b:string?,in:struct<x:long?,y:double?>?>?", "n": "int?"})
ROWS = [
    {"k": 1, "r": {"a": 1, "b": "it's", "in": {"x": 10, "y": 0.5}}, "n": 1},
    {"k": 2, "r": None, "n": 2},
    {"k": 3, "r": {"a": None, "b": "c", "in": None}, "n": None},
]
MERGE = (
    "MERGE INTO t USING u s ON t.k = s.k WHEN MATCHED AND v > 0 THEN UPDATE SET r.a = s.v, t.r.in.x = s.k "
    "WHEN MATCHED THEN UPDATE SET r.b = 'none' WHEN NOT MATCHED BY SOURCE THEN UPDATE SET r.a = 0"
)
ENGINES = ["duckdb", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.fixture
def session(tmp_path):
    with sl.connect(tmp_path) as opened:
        opened.create_table("t", SCHEMA).ingest(ROWS)
        opened.create_table("u", sl.Schema({"k": "int"}, {}, {"v": "int?"})).ingest([{"k": 1, "v": 7}, {"k": 2}])
        yield opened


def structs(session):
    return [row["r"] for row in session.sql("SELECT r FROM t ORDER BY k").to_arrow().to_pylist()]


FIRST, _, THIRD = (row["r"] for row in ROWS)
EMPTY = {"a": None, "b": None, "in": None}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE t SET r.a = 5 WHERE k = 1", [FIRST | {"a": 5}, None, THIRD]),
        ("UPDATE t AS z SET z.r.A = z.r.a + n, z.R.b = 'q' WHERE k <> 2",
         [FIRST | {"a": 2, "b": "q"}, None, THIRD | {"b": "q"}]),
        ("UPDATE t SET r.in.x = 5, r.a = CAST(r.in.x AS INT) WHERE k <> 2",
         [FIRST | {"a": 10, "in": {"x": 5, "y": 0.5}}, None, THIRD | {"in": {"x": 5, "y": None}}]),
        ("UPDATE t SET r.b = NULL, n = r.a WHERE k = 1", [FIRST | {"b": None}, None, THIRD]),
        ("UPDATE t SET r.a = 4 WHERE k = 2", [FIRST, EMPTY | {"a": 4}, THIRD]),
        ("UPDATE t SET r.in.y = 4 WHERE k = 2", [FIRST, EMPTY | {"in": {"x": None, "y": 4.0}}, THIRD]),
        (MERGE,
         [FIRST | {"a": 7, "in": {"x": 1, "y": 0.5}}, EMPTY | {"b": "none"}, THIRD | {"a": 0}]),
    ],
)  # fmt: skip
def test_the_other_fields_stay(session, engine, statement, expected):
    session.sql(statement, engine=engine)
    assert structs(session) == expected


def test_methods_set_fields_too(session):
    table = session.table("t")
    table.update({"r.a": "r.a + 1"}, "k = 1", new_values={"r.in.y": 2.5})
    assert structs(session)[0] == FIRST | {"a": 2, "in": {"x": 10, "y": 2.5}}
    merge = table.merge([{"k": 1, "a": 9}], on=["k"])
    assert merge.when_matched_update({"r.a": "source.a"}).execute().updated == 1
    assert structs(session)[0]["a"] == 9


@pytest.mark.parametrize(
    ("statement", "problem", "hint"),
    [
        ("UPDATE t SET r.c = 1 WHERE k = 1", "no field 'c' of 'r'", "available: a, b, in"),
        ("UPDATE t SET r.in.z = 1 WHERE k = 1", "no field 'z' of 'r.in'", "available: x, y"),
        ("UPDATE t SET n.z = 1 WHERE k = 1", "'n' is of type int, which has no fields", "as a whole"),
        ("UPDATE t SET r.a = DEFAULT WHERE k = 1", "field 'r.a' has no default", "write NULL"),
        ("UPDATE t SET r.a = 1, r = NULL WHERE k = 1", "column 'r' gets two values", "once"),
        ("UPDATE t SET r.in.x = 1, r.in = NULL WHERE k = 1", "column 'r.in' gets two values", "once"),
        ("UPDATE t SET r.a = 'x' WHERE k = 1", "column 'r.a', row k = 1: 'x' is not a number", "write a number"),
        ("UPDATE t SET r.a = unnest([1, 2]) WHERE k = 1", "UNNEST", None),
        ("MERGE INTO t USING u ON t.k = u.k WHEN NOT MATCHED THEN INSERT (k, r.a) VALUES (u.k, 1)",
         "cannot be set alone in a new row", "give the whole of r"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(session, statement, problem, hint):
    with pytest.raises(sl.SleeperError) as caught:
        session.sql(statement)
    assert problem in caught.value.message
    assert hint is None or hint in (caught.value.hint or "")
    assert structs(session) == [row["r"] for row in ROWS]


def test_a_field_that_may_not_be_null_needs_a_value_where_the_struct_is_null(session):
    table = session.create_table("v", sl.Schema({"k": "int"}, {}, {"r": "struct<a:int,b:int?>?"}))
    table.ingest([{"k": 1, "r": None}])
    with pytest.raises(sl.InvalidInput, match=r"column 'r.a', row k = 1"):
        table.update({"r.b": "1"}, "k = 1")
    table.update({"r.b": "1", "r.a": "2"}, "k = 1")
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "r": {"a": 2, "b": 1}}]
