from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.schema import FieldType, parse_type

simple = st.sampled_from(["int", "long", "string", "bytearray", "double", "float", "boolean", "date", "timestamp"]).map(
    FieldType
)
decimals = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda scale: FieldType("decimal", (p, scale))))
types = st.recursive(
    simple | decimals,
    lambda inner: (
        inner.map(lambda t: FieldType("list", (t,))) | st.tuples(inner, inner).map(lambda pair: FieldType("map", pair))
    ),
    max_leaves=6,
)


@given(types)
def test_a_type_comes_back_from_its_text_its_json_and_its_arrow_type(kind: FieldType):
    assert parse_type(str(kind)) == kind
    assert parse_type(str(kind).upper().replace(",", " , ")) == kind
    assert FieldType.from_json(kind.to_json()) == kind
    assert FieldType.from_arrow(kind.arrow) == kind


@pytest.mark.parametrize(
    ("text", "name"),
    [("BIGINT", "long"), ("integer", "int"), ("varchar", "string"), ("blob", "bytearray"), ("bool", "boolean"),
     ("datetime", "timestamp"), ("array<int>", "list<int>"), ("numeric(5)", "decimal(5,0)")],
)  # fmt: skip
def test_other_words_for_a_type_are_understood(text: str, name: str):
    assert str(parse_type(text)) == name


@pytest.mark.parametrize(
    "text",
    ["", "strin", "decimal", "decimal(39,2)", "decimal(4,5)", "decimal(0)", "list", "list<>", "list<int,int>",
     "map<int>", "list<int", "int>", "list<strin>", "int(4)"],
)  # fmt: skip
def test_text_that_is_no_type_is_refused_with_the_types_there_are(text: str):
    with pytest.raises(InvalidInput) as error:
        parse_type(text)
    assert "string" in (error.value.hint or "")


@pytest.mark.parametrize(
    ("arrow", "name"),
    [
        (pa.int8(), "int"), (pa.uint16(), "int"), (pa.uint32(), "long"), (pa.large_string(), "string"),
        (pa.string_view(), "string"), (pa.binary(4), "bytearray"), (pa.timestamp("ns"), "timestamp"),
        (pa.timestamp("s", tz="Asia/Tokyo"), "timestamp"), (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.date64(), "date"), (pa.float16(), "float"), (pa.large_list(pa.int8()), "list<int>"),
    ],
)  # fmt: skip
def test_arrow_types_find_the_type_that_holds_them(arrow: pa.DataType, name: str):
    assert str(FieldType.from_arrow(arrow)) == name


@pytest.mark.parametrize("arrow", [pa.uint64(), pa.struct([("a", pa.int8())]), pa.duration("s"), pa.time32("s")])
def test_arrow_types_that_nothing_can_hold_are_refused(arrow: pa.DataType):
    with pytest.raises(InvalidInput, match="can hold"):
        FieldType.from_arrow(arrow)


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
        ("DOUBLE PRECISION", "double"),
        ("smallint", "int"),
        ("uuid", "string"),
        ("timestamp_ntz", "timestamp"),
        ("decimal(40,2)", "decimal(p,s) with s ≤ p ≤ 38"),
        ("number", "decimal(p,s) with s ≤ p ≤ 38"),
    ],
)
def test_types_of_other_tables_and_misspelt_ones_are_told_what_to_type(text, meant):
    with pytest.raises(InvalidInput) as caught:
        parse_type(text)
    assert caught.value.hint.startswith(f"did you mean {meant}? the types are int, ")
