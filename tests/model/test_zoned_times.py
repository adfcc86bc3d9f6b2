"""Times as they are typed: with a zone, with an offset, with neither, and where clocks are moved."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.snapshots import Moment, parse_moment

LONDON, NEW_YORK = "Europe/London", "America/New_York"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        # London puts clocks forward on 2026-03-29 at 01:00 UTC, and back on 2026-10-25 at 01:00 UTC
        (f"2026-03-29 00:59:59.999999 {LONDON}", "2026-03-29 00:59:59.999999 UTC"),
        (f"2026-03-29 02:00:00 {LONDON}", "2026-03-29 01:00:00 UTC"),
        (f"2026-10-25 00:59:59.999999 {LONDON}", "2026-10-24 23:59:59.999999 UTC"),
        (f"2026-10-25 02:00 {LONDON}", "2026-10-25 02:00:00 UTC"),
        # New York on 2026-03-08 at 07:00 UTC, and back on 2026-11-01 at 06:00 UTC
        (f"2026-03-08 01:59:59 {NEW_YORK}", "2026-03-08 06:59:59 UTC"),
        (f"2026-03-08T03:00 {NEW_YORK}", "2026-03-08 07:00:00 UTC"),
        (f"2026-11-01 00:59:59 {NEW_YORK}", "2026-11-01 04:59:59 UTC"),
        (f"2026-11-01 02:00 {NEW_YORK}", "2026-11-01 07:00:00 UTC"),
        # an offset says which of two hours is meant
        ("2026-10-25 01:30:00+01:00", "2026-10-25 00:30:00 UTC"),
        ("2026-10-25 01:30:00+00:00", "2026-10-25 01:30:00 UTC"),
        ("2026-11-01T01:30-04:00", "2026-11-01 05:30:00 UTC"),
        ("2026-11-01T01:30-05:00", "2026-11-01 06:30:00 UTC"),
        # without a zone it is UTC, where no hour comes twice or never
        ("2026-10-25 01:30:00", "2026-10-25 01:30:00 UTC"),
        ("2026-03-29 01:30:00", "2026-03-29 01:30:00 UTC"),
        ("2026-03-08 02:30:00 UTC", "2026-03-08 02:30:00 UTC"),
    ],
)
def test_a_time_is_moved_from_its_zone_to_utc(text: str, shown: str):
    assert str(parse_moment(text)) == shown


@pytest.mark.parametrize(
    ("text", "occurs", "first", "last"),
    [
        (f"2026-10-25 01:00:00 {LONDON}", "occurs twice", "2026-10-25 00:00:00 UTC", "2026-10-25 01:00:00 UTC"),
        (f"2026-10-25 01:59:59 {LONDON}", "occurs twice", "2026-10-25 00:59:59 UTC", "2026-10-25 01:59:59 UTC"),
        (f"2026-11-01 01:30:00 {NEW_YORK}", "occurs twice", "2026-11-01 05:30:00 UTC", "2026-11-01 06:30:00 UTC"),
        (f"2026-03-29 01:30:00 {LONDON}", "does not occur", "2026-03-29 00:30:00 UTC", "2026-03-29 01:30:00 UTC"),
        (f"2026-03-08 02:00:00 {NEW_YORK}", "does not occur", "2026-03-08 06:00:00 UTC", "2026-03-08 07:00:00 UTC"),
    ],
)
def test_an_hour_that_comes_twice_or_never_is_refused_and_both_moments_are_named(
    text: str, occurs: str, first: str, last: str
):
    with pytest.raises(InvalidInput, match=f"{occurs} in") as refused:
        parse_moment(text)
    assert refused.value.hint == f"write '{first}' or '{last}'"


@pytest.mark.parametrize("text", ["2026-01-01 Mars/Phobos", "2026-01-01 10:00PM", "2026-01-01 10:00 ../etc/passwd"])
def test_an_unknown_zone_is_named(text: str):
    with pytest.raises(InvalidInput, match=r"is not a time|unknown time zone"):
        parse_moment(text)


def test_a_datetime_of_python_says_itself_which_hour_it_means():
    twice = datetime(2026, 10, 25, 1, 30, tzinfo=ZoneInfo(LONDON))
    assert parse_moment(twice).time == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert parse_moment(twice.replace(fold=1)).time == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)


@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    st.sampled_from([LONDON, NEW_YORK, "Asia/Kolkata", "Australia/Lord_Howe"]),
)
def test_a_time_in_a_zone_is_the_moment_that_its_clocks_show(moment: datetime, zone: str):
    local = moment.astimezone(ZoneInfo(zone))
    text, other = f"{local:%Y-%m-%d %H:%M:%S.%f} {zone}", local.replace(fold=1 - local.fold).astimezone(UTC)
    if other == moment:
        assert parse_moment(text) == Moment(moment)
        return
    with pytest.raises(InvalidInput, match="occurs twice") as refused:
        parse_moment(text)
    for one in (moment, other):
        assert str(Moment(one.replace(microsecond=0))) in str(refused.value.hint)
