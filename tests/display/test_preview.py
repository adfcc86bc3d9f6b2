"""The first rows of an answer: read once, timed by the clock, cut when they are too large to be saved."""

from __future__ import annotations

import html
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from sleeper_nb.clock import ManualClock
from sleeper_nb.display.preview import MAX_BYTES, FirstRows, Reads, preview
from sleeper_nb.report import Display

AT = pa.struct([("at", pa.date32()), ("d", pa.decimal128(5, 2))])


@pytest.fixture
def clock():
    return ManualClock()


def read_slowly(clock, rows, asked):
    """Return a read of a table of so many rows that takes two seconds, and notes what it was asked for."""

    def read(limit):
        asked.append(limit)
        clock.advance(timedelta(seconds=2))
        return pa.table({"n": range(min(limit, rows))})

    return read


def test_rows_are_read_once_for_all_who_look(clock):
    asked = []
    first, read = FirstRows(clock, clock.now()), read_slowly(clock, 100, asked)
    shown = [first.grid(read, Display(rows=10), "numbers") for _ in range(3)]
    assert (asked, shown[0]) == ([11], shown[2])
    assert shown[0].footer == "first 10 rows; there are more · numbers · 2.00 s"
    assert first.upto(read, 5).num_rows == 5
    assert first.upto(read, 12).num_rows == 12
    assert asked == [11, 12]


def test_more_is_not_asked_for_than_there_is(clock):
    asked = []
    first, read = FirstRows(clock, clock.now()), read_slowly(clock, 3, asked)
    assert [first.upto(read, n).num_rows for n in (10, 2, 50)] == [3, 2, 3]
    assert asked == [10]


def test_the_time_is_that_of_the_work_and_not_of_who_thinks_meanwhile(clock):
    began = clock.now()
    clock.advance(timedelta(seconds=1))  # to find the version and its files
    first, read = FirstRows(clock, began), read_slowly(clock, 3, [])
    clock.advance(timedelta(hours=1))
    assert first.grid(read, Display(), "numbers").footer == "3 rows · numbers · 3.00 s"
    assert first.grid(read, Display(timed=False), "numbers").footer == "3 rows · numbers"


def test_rows_for_a_program_are_not_kept(clock):
    asked = []
    first, read = FirstRows(clock, clock.now()), read_slowly(clock, 10_000, asked)
    first.upto(read, 21)
    assert first.upto(read, 5_000).num_rows == 5_000
    assert first.upto(read, 21).num_rows == 21
    assert asked == [21, 5_000]


def test_what_is_read_is_told_of_all_tables_and_nothing_of_none():
    assert Reads(3, 16, 5, 20, 42 << 20).in_short == "5 of 20 files, 42.0 MiB"
    assert str(Reads(3, 16, 5, 20, 42 << 20)) == "3/16 partitions, 5/20 files, at most 42.0 MiB"
    assert str(Reads.of([])) == ""


def test_rows_that_are_too_large_are_cut_and_the_footer_says_so():
    grid = preview(pa.table({"text": ["x" * 5_000] * 900}), "t", limit=1_000)
    assert len(grid.html().encode()) <= MAX_BYTES
    assert grid.footer.startswith("900 rows · t · values cut to 200 characters (output limit) · showing ")


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (1234567.5, pa.float64(), "1234567.5"),
        (664096549.0, pa.float64(), "664096549"),
        (12.639070257304708, pa.float64(), "12.639070257304708"),
        (0.1 + 0.2, pa.float64(), "0.30000000000000004"),
        (1e20, pa.float64(), "1e+20"),
        (1e300, pa.float64(), "1e+300"),
        (float("nan"), pa.float64(), "nan"),
        (float("-inf"), pa.float64(), "-inf"),
        (-0.0, pa.float64(), "0"),
        (0.1, pa.float32(), "0.1"),
        (float(2**53), pa.float64(), "9007199254740992"),
        (1700000000123457.0, pa.float64(), "1700000000123457"),
        (1013.3099, pa.float32(), "1013.3099"),
        (0.10000000149011612, pa.float64(), "0.10000000149011612"),
        ([1, None, 2], pa.list_(pa.int32()), "[1, NULL, 2]"),
        ([0.1], pa.list_(pa.float32()), "[0.1]"),
        (["a, b", "it's"], pa.list_(pa.string()), "['a, b', \"it's\"]"),
        ({"a": True, "b": None}, pa.struct([("a", pa.bool_()), ("b", pa.int32())]), "{a: true, b: NULL}"),
        ([("k", 2)], pa.map_(pa.string(), pa.int64()), "{'k': 2}"),
        ([], pa.list_(pa.int32()), "[]"),
        ([b"\xaa"], pa.list_(pa.binary()), "[0xaa]"),
        ({"at": date(2020, 1, 1), "d": Decimal("1.10")}, AT, "{at: 2020-01-01, d: 1.10}"),
        (pa.MonthDayNano([14, 1, 1_500_000_000]), pa.month_day_nano_interval(), "14 months 1 day 1.5 s"),
        (pa.MonthDayNano([0, 0, 0]), pa.month_day_nano_interval(), "0 s"),
        (timedelta(days=3), pa.duration("us"), "3 days, 0:00:00"),
        (datetime(1, 1, 1, tzinfo=UTC), pa.timestamp("us", "UTC"), "0001-01-01 00:00:00 UTC"),
        (Decimal("1234567.50"), pa.decimal128(12, 2), "1234567.50"),
        (1234567, pa.int64(), "1234567"),
        (datetime(2026, 1, 1, tzinfo=UTC), pa.timestamp("us", "UTC"), "2026-01-01 00:00:00 UTC"),
        (datetime(2026, 1, 1, 0, 0, 0, 120000, UTC), pa.timestamp("us", "UTC"), "2026-01-01 00:00:00.12 UTC"),
    ],
)
def test_a_value_of_the_users_is_shown_with_all_that_it_has(value, kind, shown):
    grid = preview(pa.table({"x": pa.array([value], kind)}), "t", limit=10)
    assert grid.text().splitlines()[2].strip() == shown
    assert f">{shown}<" in html.unescape(grid.html())


DAYS = {
    "10000-01-01": 2932897,
    "-0221-09-04": -800000,
    "0000-12-31": -719163,
    "5881580-07-10": 2**31 - 2,
    "infinity": 2**31 - 1,
    "-infinity": -(2**31) + 1,
    "2026-01-31": 20484,
}
MICROSECONDS = {
    "10000-01-01 00:00:00": 253402300800000000,
    "10000-01-01 00:00:00.5": 253402300800500000,
    "0000-12-31 23:59:59.999999": -62135596800000001,
    "-290308-12-22 00:00:00": -9223372022400000000,
    "infinity": 2**63 - 1,
    "-infinity": -(2**63) + 1,
    "1970-01-01 00:00:00": 0,
}
SECONDS = {"10000-01-01 00:00:00": 253402300800, "infinity": 2**63 - 1}


@pytest.mark.parametrize(
    ("shown", "kind"),
    [(DAYS, pa.date32()), (MICROSECONDS, pa.timestamp("us")), (SECONDS, pa.timestamp("s"))],
)
def test_dates_and_times_that_python_has_not_are_shown_as_text(shown, kind):
    values = pa.array(list(shown.values()), pa.int32() if pa.types.is_date(kind) else pa.int64())
    grid = preview(pa.table({"x": values.cast(kind)}), "t", limit=10)
    assert [line.strip() for line in grid.text().splitlines()[2:-1]] == list(shown)


def test_dates_that_python_has_not_are_shown_within_lists_maps_and_structs_too():
    day, at = pa.scalar(2932897, pa.int32()).cast(pa.date32()), datetime(2026, 1, 1, tzinfo=UTC)
    kinds = {"l": pa.list_(pa.date32()), "m": pa.map_(pa.string(), pa.date32()), "s": pa.struct({"a": pa.date32()})}
    values = {"l": [day, None], "m": [("a", day)], "s": {"a": day}}
    rows = pa.table({name: pa.array([values[name], None], kind) for name, kind in kinds.items()} | {"at": [at, None]})
    shown = re.split(r"\s{2,}", preview(rows, "t").text().splitlines()[2].strip())
    assert shown == [
        "['10000-01-01', NULL]",
        "{'a': '10000-01-01'}",
        "{a: '10000-01-01'}",
        "2026-01-01 00:00:00 UTC",
    ]


def test_a_short_cell_stays_on_one_line_and_a_long_text_may_wrap():
    at = datetime(2026, 11, 1, 10, tzinfo=UTC)
    rows = pa.table({"at": [at], "place": ["New York"], "code": ["JFK"], "note": ["a long story " * 9]})
    cells = re.findall(r'<td style="([^"]*)">', preview(rows, "of t").html())
    assert ["nowrap" in style for style in cells] == [True, True, False, False]


def test_a_null_is_told_from_an_empty_text_and_leaves_numbers_at_the_right():
    grid = preview(pa.table({"note": ["", None], "n": [1, None], "no": pa.array([None, None])}), "of t")
    assert [line.rstrip() for line in grid.text().splitlines()[2:4]] == ["         1  NULL", "NULL  NULL  NULL"]
    assert grid.html().count("NULL") == 4
    assert grid.html().count("text-align:right") == 3  # the head and two cells of n
