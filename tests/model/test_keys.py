from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.keys import check_key, key_text, parse_key
from sleeper_nb.model.schema import Field, parse_type

TRAPS = ["", "\0", "a", "a\0", "Z", "z", "é", "\uffff", "\U00010000", "\U0010ffff", "a\U0001f600", "a\uffee"]


def field(kind: str) -> Field:
    return Field("k", parse_type(kind))


@given(st.lists(st.text() | st.sampled_from(TRAPS), max_size=20))
def test_python_orders_strings_as_arrow_and_their_utf8_do(values: list[str]):
    assert sorted(values) == sorted(values, key=lambda v: v.encode())
    assert (
        sorted(values) == pa.array(values, pa.string()).take(pc.sort_indices(pa.array(values, pa.string()))).to_pylist()
    )


@given(st.lists(st.binary() | st.sampled_from([b"\x7f", b"\x80", b"\xff", b"\x80\x00"]), max_size=20))
def test_python_orders_bytes_as_arrow_does_unsigned(values: list[bytes]):
    array = pa.array(values, pa.binary())
    assert sorted(values) == array.take(pc.sort_indices(array)).to_pylist()


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int", 2**31 - 1), ("int", -(2**31)), ("long", 2**63 - 1), ("long", -(2**63)), ("string", "\U0010ffff"),
     ("bytearray", b"\xff\x00")],
)  # fmt: skip
def test_the_greatest_and_least_values_are_keys(kind: str, value: Any):
    assert check_key(field(kind), value) == value


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int", 2**31), ("int", -(2**31) - 1), ("long", 2**63), ("int", True), ("int", 1.0), ("int", "1"),
     ("string", b"a"), ("string", 1), ("string", None), ("string", "\ud800"), ("bytearray", "a")],
)  # fmt: skip
def test_a_value_that_the_row_key_cannot_hold_is_refused_and_named(kind: str, value: Any):
    with pytest.raises(InvalidInput, match="'k'") as error:
        check_key(field(kind), value, what="split point")
    assert "split point" in error.value.message
    assert error.value.hint


def test_all_kinds_of_bytes_are_one_kind_of_key():
    assert check_key(field("bytearray"), bytearray(b"a")) == check_key(field("bytearray"), memoryview(b"a")) == b"a"


def test_text_is_read_as_sleeper_reads_split_points():
    assert parse_key(field("int"), "-12") == -12
    assert parse_key(field("string"), "012") == "012"
    assert parse_key(field("bytearray"), base64.b64encode(b"\x80\xff").decode()) == b"\x80\xff"


@pytest.mark.parametrize(("kind", "text"), [("int", "x"), ("int", "1.5"), ("int", "3000000000"), ("bytearray", "!")])
def test_text_that_is_no_key_is_refused(kind: str, text: str):
    with pytest.raises(InvalidInput):
        parse_key(field(kind), text)


def test_keys_are_shown_as_people_read_them():
    assert [key_text(v) for v in (None, b"\x80", "a", 5)] == ["∞", "0x80", "a", "5"]
