from __future__ import annotations

import functools
import json

import pyarrow as pa
import pytest

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.schema import MOST_NESTED, Field, FieldType, Schema, parse_type

EVERYTHING = Schema(
    {"s": "string", "i": "int", "l": "long", "b": "bytearray"},
    {"d": "date", "t": "timestamp"},
    {
        "x": "double?", "f": "float", "o": "boolean", "e": "decimal(10,2)?", "a": "list<string>",
        "m": "map<string,list<long>>?",
    },
)  # fmt: skip


@pytest.mark.parametrize("line", ["# the key", "#the key", "k STRING KEY # the key", "k STRING KEY\n# a, b"])
def test_a_comment_of_another_language_is_told_how_ours_are_written(line: str):
    with pytest.raises(InvalidInput, match=r"line \d: cannot read '.*#") as caught:
        Schema.from_ddl(line)
    assert caught.value.hint == "write comments after --, not after #"


def test_a_schema_comes_back_from_its_json_its_arguments_and_its_arrow_schema():
    assert Schema.from_json(EVERYTHING.to_json()) == EVERYTHING
    assert Schema(**EVERYTHING.to_dict()) == EVERYTHING
    assert Schema.from_arrow(EVERYTHING.arrow, ["s", "i", "l", "b"], ["d", "t"]) == EVERYTHING


def test_the_json_is_sleepers():
    body = json.loads(Schema({"k": "string"}, {}, {"v": "map<string,long>?"}).to_json())
    assert body == {
        "rowKeyFields": [{"name": "k", "type": "StringType"}],
        "sortKeyFields": [],
        "valueFields": [
            {"name": "v", "type": {"MapType": {"keyType": "StringType", "valueType": "LongType"}}, "nullable": True}
        ],
    }


def test_only_nullable_values_are_nullable_in_arrow():
    assert {f.name for f in EVERYTHING.arrow if f.nullable} == {"x", "e", "m"}


def test_rows_are_sorted_by_row_keys_and_then_sort_keys():
    assert EVERYTHING.sort_order == ("s", "i", "l", "b", "d", "t")
    assert [EVERYTHING.role(name) for name in ("s", "t", "x")] == ["row key", "sort key", "value"]


@pytest.mark.parametrize(
    "text",
    [
        "k STRING KEY, t timestamp SORT, v double NULL, m map<string, decimal(10,2)> NULL",
        "k string key\nt TimeStamp sort\nv double?  -- a comment, with a comma\nm map<string,decimal(10, 2)>?",
        "\n  k varchar KEY,\n\n  t timestamptz SORT,\n  v double NULL,\n  m MAP<TEXT, DECIMAL(10,2)> null\n",
    ],
)
def test_the_ddl_of_create_reads_the_same_however_it_is_laid_out(text: str):
    values = {"v": "double?", "m": "map<string,decimal(10,2)>?"}
    assert Schema.from_ddl(text) == Schema({"k": "string"}, {"t": "timestamp"}, values)


def test_types_of_several_words_and_brackets_are_read():
    text = """k VARCHAR KEY, a INTEGER[] NULL COMMENT 'x (y), [z]', b MAP(VARCHAR, DECIMAL(9, 2)[])?
        c DOUBLE PRECISION, d TIMESTAMP WITH TIME ZONE NULL, e STRUCT(x INTEGER, y VARCHAR[])[] NULL, CHECK (c > (0))"""
    schema = Schema.from_ddl(text)
    assert {name: kind for name, kind in schema.to_dict()["values"].items() if name != "a"} == {
        "b": "map<string,list<decimal(9,2)>>?", "c": "double", "d": "timestamp?",
        "e": "list<struct<x:int?,y:list<string>?>>?",
    }  # fmt: skip
    (commented, *_) = schema.values
    assert (str(commented.type), commented.comment, schema.checks[0].condition) == (
        "list<int>",
        "x (y), [z]",
        "c > (0)",
    )


def test_not_null_is_read():
    assert Schema.from_ddl("k int KEY NOT NULL, v int NOT NULL").values == (Field("v", parse_type("int")),)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("k string KEY\nv", "line 2"),
        ("k string KEY\nv list<int", "line 2"),
        ("k string KEY\nv strin", "strin"),
        ("v string", "row key"),
        ("", "row key"),
        ("k string KEY NULL", "'k' cannot be nullable"),
        ("k double KEY", "cannot be a double"),
        ("k string KEY, s boolean SORT", "cannot be a boolean"),
        ("k string KEY, K int", "twice"),
        ("k string KEY, 1x int", "'1x'"),
        ("k string PRIMARY KEY", "line 1"),
    ],
)
def test_ddl_that_cannot_be_read_says_where_and_what_to_write(text: str, names: str):
    with pytest.raises(InvalidInput) as error:
        Schema.from_ddl(text)
    assert names in error.value.message
    assert error.value.hint


@pytest.mark.parametrize("keys", ["k", ["k"], {"k": int}, {"k": pa.int64()}, {"k": "strin"}, {"k": "string?"}, {}])
def test_arguments_that_name_no_types_are_explained(keys: object):
    with pytest.raises(InvalidInput) as error:
        Schema(keys)
    assert error.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", "{}", '{"rowKeyFields": [{"name": "k"}]}', '{"rowKeyFields": [{"name": "k", "type": "Int"}]}',
        '{"rowKeyFields": [{"name": "k", "type": {"ListType": {}}}]}', '{"rowKeyFields": null}', '"x"',
        ('{"rowKeyFields": [{"name": "k", "type": "IntType"}],'
        ' "valueFields": [{"name": "d", "type": {"DecimalType": {"precision": 99, "scale": 2}}}]}'),
    ],
)  # fmt: skip
def test_json_that_is_no_schema_is_refused(text: str):
    with pytest.raises(InvalidInput):
        Schema.from_json(text)


def test_a_key_that_the_arrow_schema_lacks_is_named_with_the_columns_there_are():
    with pytest.raises(InvalidInput, match="no column 'z'") as error:
        Schema.from_arrow(pa.schema([("a", pa.int64())]), ["z"])
    assert "a" in (error.value.hint or "")


def test_a_schema_shows_a_row_for_each_field_and_escapes_what_it_shows():
    assert "decimal(10,2)" in repr(EVERYTHING)
    assert "list&lt;string&gt;" in EVERYTHING._repr_html_()


@pytest.mark.parametrize("deep", [MOST_NESTED + 1, 300, 100_000])
def test_types_nested_too_deep_are_refused_at_once_however_they_are_given(deep):
    as_json: object = "IntType"
    for _ in range(deep):
        as_json = {"ListType": {"elementType": as_json}}
    arrow = functools.reduce(lambda of, _: pa.list_(of), range(min(deep, 300)), pa.int32())
    for read in (
        lambda: parse_type("list<" * deep + "int" + ">" * deep),
        lambda: parse_type("map<int," * deep + "int" + ">" * deep),
        lambda: FieldType.from_json(as_json),
        lambda: FieldType.from_arrow(arrow),
    ):
        with pytest.raises(InvalidInput, match="nested more than 20 deep"):
            read()


def test_types_are_nested_as_deep_as_they_may_be():
    text = "list<" * MOST_NESTED + "int" + ">" * MOST_NESTED
    assert str(parse_type(text)) == str(FieldType.from_arrow(parse_type(text).arrow)) == text
