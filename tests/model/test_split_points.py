from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.keys import read_split_points, write_split_points
from sleeper_nb.model.schema import Field, FieldType


def field(kind: str) -> Field:
    return Field("key", FieldType(kind))


def in_base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


@pytest.mark.parametrize(
    ("kind", "text", "points"),
    [
        ("int", "-5\n0\n2147483647\n", (-5, 0, 2**31 - 1)),
        ("long", "-9223372036854775808\r\n7\r\n", (-(2**63), 7)),
        ("string", " é\na b\n", (" é", "a b")),
        ("string", "a\u2028b\nb\x0bc", ("a\u2028b", "b\x0bc")),
        ("string", "\uffff\n\U0001f600", ("\uffff", "\U0001f600")),
        ("string", "\ufeffa\n", ("a",)),
        ("bytearray", "fw==\ngA==\n", (b"\x7f", b"\x80")),
    ],
)
def test_each_line_is_a_value(kind: str, text: str, points: tuple[Any, ...]):
    assert read_split_points(text, field(kind)) == points


@given(st.sets(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1))
def test_strings_of_any_sign_come_back_from_base64(points: set[str]):
    ordered = sorted(points)
    text = "\n".join(in_base64(point.encode()) for point in ordered)
    assert read_split_points(text, field("string"), strings_base64=True) == tuple(ordered)


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("int", "1\n\n3\n", "line 2 of splits.txt is blank"),
        ("int", "1\n3\n2\n", "line 3 of splits.txt: 2 does not come after 3"),
        ("int", "1\n1\n", "line 2 of splits.txt: 1 occurs twice"),
        ("int", "1\ntwo\n", "line 2 of splits.txt: .*'two'"),
        ("int", "1\n2147483648\n", "line 2 of splits.txt: .*out of range"),
        ("long", "1.5\n", "line 1 of splits.txt: .*'1.5'"),
        ("string", "\U0001f600\n\uffff\n", "line 2 .*does not come after"),
        ("bytearray", "gA==\nfw==\n", "line 2 of splits.txt: 0x7f does not come after 0x80"),
        ("bytearray", "gA=\n", "line 1 of splits.txt: .*'gA='"),
    ],
)
def test_a_line_that_cannot_be_is_named(kind: str, text: str, words: str):
    with pytest.raises(InvalidInput, match=words) as error:
        read_split_points(text, field(kind), source="splits.txt")
    assert error.value.hint


def test_an_empty_file_has_no_split_point():
    assert read_split_points("", field("int"), source="splits.txt") == ()


@pytest.mark.parametrize("line", ["a", "gA==", "é"])
def test_what_is_no_base64_of_a_string_is_told(line: str):
    with pytest.raises(InvalidInput, match=r"line 1 of the split points is .*, not UTF-8 text in base64"):
        read_split_points(line, field("string"), strings_base64=True)


@given(st.sets(st.text(), max_size=5), st.booleans())
def test_what_is_written_is_read_again(values, encoded):
    points = tuple(sorted(value for value in values if value))
    key = field("string")
    try:
        text = write_split_points(points, key, strings_base64=encoded)
    except InvalidInput:
        assert not encoded  # in base64 every string is a line
        return
    if points:
        assert read_split_points(text, key, strings_base64=encoded) == points


def test_numbers_and_bytes_are_written_as_they_are_read():
    for kind, points in (("int", (-1, 5)), ("long", (2**40,)), ("bytearray", (b"\x00\xff", b"\x01"))):
        key = field(kind)
        assert read_split_points(write_split_points(points, key), key) == points
