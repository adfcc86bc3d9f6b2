"""UPDATE and MERGE set a struct as a whole, on both engines; a field alone is refused, with the names of all."""

from __future__ import annotations

import pytest

import sleeper_nb as sl
from sleeper_nb import cli

SCHEMA = sl.Schema({"k": "int"}, {}, {"r": "struct<a:int?,b:string?,in:struct<x:long?,y:double?>?>?", "n": "int?"})
FIRST = {"a": 1, "b": "it's", "in": {"x": 10, "y": 0.5}}
ROWS = [{"k": 1, "r": FIRST, "n": 1}, {"k": 2, "r": None, "n": 2}]
ENGINES = ["duckdb", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.fixture
def session(tmp_path):
    with sl.connect(tmp_path) as opened:
        opened.create_table("t", SCHEMA).ingest(ROWS)
        opened.create_table("u", sl.Schema({"k": "int"}, {}, {"v": "int?"})).ingest([{"k": 1, "v": 7}, {"k": 2}])
        yield opened


def structs(session):
    return [row["r"] for row in session.sql("SELECT r FROM t ORDER BY k").to_arrow().to_pylist()]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("statement", "field", "table"),
    [
        ("UPDATE t SET {} WHERE k = 1", "r.a", "t"),
        ("UPDATE t AS z SET {}, n = 3 WHERE k = 1", "z.R.B", "z"),
        ("MERGE INTO t USING u s ON t.k = s.k AND t.k = 1 WHEN MATCHED THEN UPDATE SET {}", "r.a", "t"),
    ],
)
def test_a_field_is_refused_and_the_whole_struct_is_set(session, engine, statement, field, table):
    with pytest.raises(sl.InvalidInput) as caught:
        session.sql(statement.format(f"{field} = NULL"), engine=engine)
    assert f"field {field[-1]!r} of 'r' cannot be set alone" in caught.value.message
    assert caught.value.hint == "set all of 'r', whose fields are a, b, in"
    assert structs(session) == [FIRST, None]
    struct = "named_struct('a', 5, 'b', {0}.r.b, 'in', {0}.r.in)"
    if engine == "duckdb":
        struct = "{{'a': 5, 'b': {0}.r.b, 'in': {0}.r.in}}"
    session.sql(statement.format(f"r = {struct.format(table)}"), engine=engine)
    assert structs(session) == [FIRST | {"a": 5}, None]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET r.in.x = 5",
        "UPDATE t SET r.a = DEFAULT",
        "MERGE INTO t USING u ON t.k = u.k WHEN NOT MATCHED THEN INSERT (k, r.a) VALUES (u.k, 1)",
    ],
)
def test_each_statement_refuses_it(session, statement):
    with pytest.raises(sl.InvalidInput, match="cannot be set alone"):
        session.sql(statement)


def test_methods_and_commands_refuse_it_too(session, tmp_path, capsys):
    table = session.table("t")
    merge = table.merge([{"k": 1, "a": 9}], on=["k"]).when_matched_update({"r.a": "source.a"})
    for attempt in (
        lambda: table.update({"r.a": "r.a + 1"}, "k = 1"),
        lambda: table.update(new_values={"r.in.y": 2.5}, where="k = 1"),
        merge.execute,
    ):
        with pytest.raises(sl.InvalidInput, match="cannot be set alone"):
            attempt()
    words = ["--warehouse", str(tmp_path), "update", "t", "--set", "r.a=1", "--where", "k = 1"]
    assert cli.main(words) == 1
    assert "set all of 'r', whose fields are a, b, in" in capsys.readouterr().err
    table.update({"r": "{'a': r.a + 1, 'b': r.b, 'in': r.in}"}, "k = 1")
    assert structs(session)[0] == FIRST | {"a": 2}


@pytest.mark.parametrize(
    ("statement", "missing"), [("UPDATE t SET n.z = 1", "no column 'n.z'"), ("UPDATE t SET x.a = 1", "no column 'x.a'")]
)
def test_a_name_with_a_dot_that_is_no_field_is_no_column(session, statement, missing):
    with pytest.raises(sl.NotFound, match=missing):
        session.sql(statement)
