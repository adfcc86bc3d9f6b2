"""The first rows of an answer: read once, timed by the clock, cut when they are too large to be saved."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from sleeper_nb.clock import ManualClock
from sleeper_nb.preview import FirstRows, Reads, preview
from sleeper_nb.render import MAX_BYTES
from sleeper_nb.report import Display


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
    first = FirstRows(read_slowly(clock, 100, asked), clock, clock.now())
    shown = [first.grid(Display(rows=10), "numbers") for _ in range(3)]
    assert (asked, shown[0]) == ([11], shown[2])
    assert shown[0].footer == "first 10 of at least 11 rows · numbers · 2.00 s"
    assert first.upto(5).num_rows == 5
    assert first.upto(12).num_rows == 12
    assert asked == [11, 12]


def test_more_is_not_asked_for_than_there_is(clock):
    asked = []
    first = FirstRows(read_slowly(clock, 3, asked), clock, clock.now())
    assert [first.upto(n).num_rows for n in (10, 2, 50)] == [3, 2, 3]
    assert asked == [10]


def test_the_time_is_that_of_the_work_and_not_of_who_thinks_meanwhile(clock):
    began = clock.now()
    clock.advance(timedelta(seconds=1))  # to find the version and its files
    first = FirstRows(read_slowly(clock, 3, []), clock, began)
    clock.advance(timedelta(hours=1))
    assert first.grid(Display(), "numbers").footer == "3 rows · numbers · 3.00 s"
    assert first.grid(Display(timed=False), "numbers").footer == "3 rows · numbers"


def test_rows_for_a_program_are_not_kept(clock):
    asked = []
    first = FirstRows(read_slowly(clock, 10_000, asked), clock, clock.now())
    first.upto(21)
    assert first.upto(5_000).num_rows == 5_000
    assert first.upto(21).num_rows == 21
    assert asked == [21, 5_000]


def test_what_is_read_is_told_of_all_tables_and_nothing_of_none():
    assert str(Reads(3, 16, 5, 20, 42 << 20)) == "3/16 partitions, 5/20 files, at most 42.0 MiB"
    assert str(Reads.of([])) == ""


def test_rows_that_are_too_large_are_cut_and_the_footer_says_so():
    grid = preview(pa.table({"text": ["x" * 5_000] * 900}), "t", limit=1_000)
    assert len(grid.html().encode()) <= MAX_BYTES
    assert grid.footer.startswith("900 rows · t · cut to ")
