from __future__ import annotations

import base64
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.keys import (
    arrow_value,
    check_key,
    compared_key,
    key_after,
    key_from_json,
    key_text,
    key_to_json,
    parse_key,
    read_split_points,
    write_split_points,
    written_key,
)
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
     ("bytearray", b"\xff\x00"), ("date", date.min), ("date", date.max),
     ("timestamp", datetime.min.replace(tzinfo=UTC)), ("timestamp", datetime.max.replace(tzinfo=UTC))],
)  # fmt: skip
def test_the_greatest_and_least_values_are_keys(kind: str, value: Any):
    assert check_key(field(kind), value) == value


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int", 2**31), ("int", -(2**31) - 1), ("long", 2**63), ("int", True), ("int", 1.0), ("int", "1"),
     ("string", b"a"), ("string", 1), ("string", None), ("string", "\ud800"), ("bytearray", "a"),
     ("date", 15706), ("date", datetime(2013, 1, 1, tzinfo=UTC)), ("date", "2013-02-30"),
     ("date", "2013-01-01T00:00:00Z"), ("date", pd.NaT), ("timestamp", pd.NaT), ("timestamp", 0), ("timestamp", "soon"),
     ("timestamp", pd.Timestamp(1, tz="UTC")), ("timestamp", "2013-01-01T00:00:00.000000001Z"),
     ("timestamp", "2013-03-31 01:30:00 Europe/London"), ("timestamp", "0001-01-01T00:00:00+01:00"),
     ("timestamp", datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))))],
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


@pytest.mark.parametrize(
    "value",
    [
        "2013-01-31 12:00:00 UTC", "2013-01-31T12:00:00Z", "2013-01-31T13:00:00+01:00", "2013-01-31 12:00",
        "2013-01-31 13:00 Europe/Berlin", datetime(2013, 1, 31, 12), datetime(2013, 1, 31, 12, tzinfo=UTC),  # noqa: DTZ001
        datetime(2013, 1, 31, 4, tzinfo=ZoneInfo("America/Los_Angeles")), pd.Timestamp("2013-01-31 12:00", tz="UTC"),
    ],
)  # fmt: skip
def test_a_timestamp_key_is_an_instant_in_utc_however_it_is_given(value: Any):
    key = check_key(field("timestamp"), value)
    assert (type(key), repr(key)) == (datetime, "datetime.datetime(2013, 1, 31, 12, 0, tzinfo=datetime.timezone.utc)")


def test_a_date_is_a_timestamp_key_at_midnight_and_text_is_a_date_key():
    assert check_key(field("timestamp"), date(2013, 1, 31)) == datetime(2013, 1, 31, tzinfo=UTC)
    assert check_key(field("timestamp"), "2013-01-31") == datetime(2013, 1, 31, tzinfo=UTC)
    assert check_key(field("date"), "2013-01-31") == parse_key(field("date"), "2013-01-31") == date(2013, 1, 31)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("date", "2013-01-31"), ("date", datetime(2013, 1, 31, tzinfo=UTC)), ("timestamp", date(2013, 1, 31)),
     ("timestamp", "2013-01-31"), ("timestamp", datetime(2013, 1, 31)), ("timestamp", 5), ("int", 2**40),  # noqa: DTZ001
     ("timestamp", datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))))],
)  # fmt: skip
def test_a_condition_with_a_value_that_an_engine_would_cast_tells_nothing(kind: str, value: Any):
    assert compared_key(field(kind), value) is None


TIMES: dict[str, list[Any]] = {
    "date": [date.min, date(1582, 10, 4), date(1969, 12, 31), date(2013, 1, 31), date.max],
    "timestamp": [
        datetime.min.replace(tzinfo=UTC), datetime(1582, 10, 4, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), datetime(2013, 1, 31, 12, tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(TIMES))
def test_times_come_back_from_text_json_arrow_and_split_points(kind: str):
    key, values = field(kind), TIMES[kind]
    assert [parse_key(key, written_key(value)) for value in values] == values
    assert [key_from_json(key_to_json(value)) for value in values] == values
    assert [arrow_value(value, key.type.arrow).as_py() for value in values] == values
    assert list(read_split_points(write_split_points(values, key), key)) == values
    assert key_after(key, values[-1]) is None
    assert all(key_after(key, value) > value for value in values[:-1])


def test_keys_are_shown_as_people_read_them():
    times = (date(2013, 1, 31), datetime(2013, 1, 31, 12, tzinfo=UTC), datetime(1, 1, 1, 0, 0, 0, 4, tzinfo=UTC))
    assert [key_text(v) for v in (None, b"\x80", "a", 5)] == ["∞", "0x80", "a", "5"]
    assert [key_text(v) for v in times] == ["2013-01-31", "2013-01-31T12:00:00Z", "0001-01-01T00:00:00.000004Z"]
