from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.schema import SIMPLE_TYPES, FieldType, Member, Schema, parse_type

simple = st.sampled_from(SIMPLE_TYPES).map(FieldType)
decimals = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda scale: FieldType("decimal", (p, scale))))
types = st.recursive(
    simple | decimals,
    lambda inner: (
        inner.map(lambda t: FieldType("list", (t,)))
        | st.tuples(inner, inner).map(lambda pair: FieldType("map", pair))
        | st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3).map(
            lambda members: FieldType("struct", tuple(Member(f"F{i}", *each) for i, each in enumerate(members)))
        )
    ),
    max_leaves=6,
)


def as_in_arrow(kind: FieldType) -> FieldType:
    """Return a type as its Arrow type tells it: a UUID is a text there, and each field of a struct may be null."""
    if kind.name == "decimal":
        return kind
    inner = tuple(
        Member(each.name, as_in_arrow(each.type), nullable=True) if isinstance(each, Member) else as_in_arrow(each)
        for each in kind.arguments
    )
    return FieldType("string" if kind.name == "uuid" else kind.name, inner)


@given(types)
def test_a_type_comes_back_from_its_text_its_json_and_its_arrow_type(kind: FieldType):
    assert parse_type(str(kind)) == kind
    assert parse_type(str(kind).upper().replace(",", " , ")) == kind
    assert FieldType.from_json(kind.to_json()) == kind
    assert FieldType.from_arrow(kind.arrow) == as_in_arrow(kind)


@pytest.mark.parametrize(
    ("text", "name"),
    [("BIGINT", "long"), ("integer", "int"), ("varchar", "string"), ("blob", "bytearray"), ("bool", "boolean"),
     ("datetime", "timestamp"), ("array<int>", "list<int>"), ("numeric(5)", "decimal(5,0)"), ("short", "smallint"),
     ("byte", "tinyint"), ("guid", "uuid"), ("STRUCT<Zip INT, b : array<text> ?>", "struct<Zip:int,b:list<string>?>"),
     ("DOUBLE PRECISION", "double"), ("TIMESTAMP WITH TIME ZONE", "timestamp"), ("INTEGER[]", "list<int>"),
     ("VARCHAR [] []", "list<list<string>>"), ("MAP(VARCHAR, DECIMAL(9, 2)[])", "map<string,list<decimal(9,2)>>"),
     ("struct(a int)", "struct<a:int?>"),
     ("STRUCT(Z INT, b STRUCT(c TEXT)[])", "struct<Z:int?,b:list<struct<c:string?>>?>"),
     ("array(bigint)", "list<long>"), ("map<text, struct(a int[])>", "map<string,struct<a:list<int>?>>")],
)  # fmt: skip
def test_other_words_for_a_type_are_understood(text: str, name: str):
    assert str(parse_type(text)) == name


@pytest.mark.parametrize(
    "text",
    ["", "strin", "decimal", "decimal(39,2)", "decimal(4,5)", "decimal(0)", "list", "list<>", "list<int,int>",
     "map<int>", "list<int", "int>", "list<strin>", "int(4)", "struct", "struct<a:strin>", "time(6)",
     "struct()", "struct(a int>", "map(int)", "[]", "int[", "int]", "int[3]", "list(int", "decimal(4)[)"],
)  # fmt: skip
def test_text_that_is_no_type_is_refused_with_the_types_there_are(text: str):
    with pytest.raises(InvalidInput) as error:
        parse_type(text)
    assert "string" in (error.value.hint or "")


@pytest.mark.parametrize(
    ("arrow", "name"),
    [
        (pa.int8(), "tinyint"), (pa.int16(), "smallint"), (pa.uint8(), "smallint"), (pa.uint16(), "int"),
        (pa.uuid(), "uuid"), (pa.time32("s"), "time"), (pa.time64("ns"), "time"),
        (pa.struct([pa.field("a", pa.int8(), nullable=False), ("b", pa.uuid())]), "struct<a:tinyint,b:uuid?>"),
 (pa.uint32(), "long"), (pa.large_string(), "string"),
        (pa.string_view(), "string"), (pa.binary(4), "bytearray"), (pa.timestamp("ns"), "timestamp"),
        (pa.timestamp("s", tz="Asia/Tokyo"), "timestamp"), (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.date64(), "date"), (pa.float16(), "float"), (pa.large_list(pa.int8()), "list<tinyint>"),
    ],
)  # fmt: skip
def test_arrow_types_find_the_type_that_holds_them(arrow: pa.DataType, name: str):
    assert str(FieldType.from_arrow(arrow)) == name


@pytest.mark.parametrize(
    ("arrow", "hint"),
    [
        (pa.uint64(), "cast it to decimal\\(20,0\\), or to long if all values are below 2\\^63"),
        (pa.list_(pa.uint64()), "decimal\\(20,0\\)"),
        (pa.duration("s"), "a number of microseconds"),
        (pa.decimal256(50, 2), "at most 38 digits"),
        (pa.dense_union([pa.field("a", pa.int8())]), "leave it out"),
    ],
)
def test_arrow_types_that_nothing_can_hold_are_refused_with_what_to_do(arrow: pa.DataType, hint: str):
    with pytest.raises(InvalidInput, match=f"can hold the Arrow type .*\nhint: .*{hint}"):
        FieldType.from_arrow(arrow)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("struct<>", "a field of a struct is ''"),
        ("struct<a>", "a field of a struct is 'a'"),
        ("struct<a:int,A:int>", "field 'A' of a struct occurs twice"),
        ("struct<a-b:int>", "'a-b' is not a valid field name"),
        ("list<struct<1a:int>>", "'1a' is not a valid field name"),
    ],
)
def test_the_fields_of_a_struct_are_named_as_columns_are(text: str, words: str):
    with pytest.raises(InvalidInput, match=words):
        parse_type(text)


def test_a_key_of_few_bits_in_arrow_becomes_an_int():
    arrow = pa.schema([("k", pa.int8()), ("s", pa.int16()), ("v", pa.int16())])
    schema = Schema.from_arrow(arrow, ["k"], ["s"])
    assert [str(field.type) for field in schema.fields] == ["int", "int", "smallint"]


def test_numbers_of_32_and_64_bits_stay_apart():
    assert parse_type("int").arrow == pa.int32()
    assert parse_type("long").arrow == pa.int64()
    assert parse_type("timestamp").arrow == pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("VARCHAR(20)", "string"),
        ("strng", "string"),
        ("Intger", "int"),
        ("TIMESTAMP WITHOUT TIME ZONE", "timestamp"),
        ("int[3]", "int[]"),
        ("int8", "tinyint (8 bits) or long (8 bytes)"),
        ("ubigint", "decimal(20,0)"),
        ("row(a int)", "struct<a:int,b:string?>"),
        ("struct", "struct<a:int,b:string?>"),
        ("interval", "long, such as a number of microseconds"),
        ("timestamp_ntz", "timestamp"),
        ("decimal(40,2)", "decimal(p,s) with s ≤ p ≤ 38"),
        ("number", "decimal(p,s) with s ≤ p ≤ 38"),
    ],
)
def test_types_of_other_tables_and_misspelt_ones_are_told_what_to_type(text, meant):
    with pytest.raises(InvalidInput) as caught:
        parse_type(text)
    assert caught.value.hint.startswith(f"did you mean {meant}? the types are int, ")
