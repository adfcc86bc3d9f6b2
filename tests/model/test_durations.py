from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.model.times import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7 d", 604800), ("1d", 86400), ("1 day", 86400), ("2 days", 172800), ("6h", 21600), ("6 Hours", 21600),
        ("30 min", 1800), ("5 m", 300), ("1 minute", 60), ("1.5 s", 1.5), ("3 sec", 3), (" 500 ms ", 0.5), ("0 d", 0),
        ("PT30M", 1800), ("P1D", 86400), ("P1DT12H", 129600), ("P2W", 1209600), ("PT1.5S", 1.5), ("PT1,5S", 1.5),
        ("pt1h30m", 5400), ("P1DT2H3M4S", 93784),
    ],
)  # fmt: skip
def test_durations_are_read_as_people_and_as_iso_8601_write_them(text: str, seconds: float):
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["", "7", "d", "7 x", "7 months", "-1 d", "1 d 2 h", "1e3 s", "P", "PT", "P1DT", "P1", "T1H", "P1Y", "P1M", "P1.5D",
     "P1W2D", "PT1H2", "99999999999999 d", "P99999999999999D", "\u0663 d", "\u00b2 d", "1 d\n2"],
)  # fmt: skip
def test_what_is_no_duration_is_refused(text: str):
    with pytest.raises(ValueError):  # noqa: PT011 - whoever asked says what it was for
        parse_duration(text)


@given(st.integers(0, 9999), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_iso_8601_adds_up(days: int, hours: int, minutes: int, seconds: int):
    expected = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    assert parse_duration(f"P{days}DT{hours}H{minutes}M{seconds}S") == expected


@given(st.text(max_size=12))
def test_no_text_makes_another_error(text: str):
    try:
        assert parse_duration(text) >= timedelta(0)
    except ValueError:
        return
