from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.snapshots import (
    Moment,
    SavepointReference,
    SnapshotReference,
    from_micros,
    parse_moment,
    parse_reference,
    parse_version,
    to_micros,
)
from tests.support.builders import snapshot

moments = st.datetimes(timezones=st.just(UTC))


@given(moments)
def test_moments_survive_catalogs_to_the_microsecond(moment: datetime):
    assert from_micros(to_micros(moment)) == moment


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (12, SnapshotReference(12)), ("12", SnapshotReference(12)), (" snapshot.12 ", SnapshotReference(12)),
        ("savepoint.3", SavepointReference(3)), ("savepoint.fix", SavepointReference("fix")),
        ("fix", SavepointReference("fix")), ("v12", SnapshotReference(12)),
        ("savepoint.a.b", SavepointReference("a.b")), ("savepoint.3a", SavepointReference("3a")),
    ],
)  # fmt: skip
def test_versions_are_read_as_they_are_written(text: Any, meant: Any):
    assert parse_version(text) == meant
    assert parse_version(str(meant)) == meant


@pytest.mark.parametrize("text", ["", "!x", "_x", "snapshot.", "snapshot.x", "savepoint.", "-1", "1.5", True, "1¹"])
def test_other_words_are_no_version(text: Any):
    with pytest.raises(InvalidInput) as error:
        parse_version(text)
    assert "savepoint.3" in (error.value.hint or "")


@pytest.mark.parametrize(
    ("text", "meant"),
    [("v12", SnapshotReference(12)), ("fix", SavepointReference("fix")), ("savepoint.3", SavepointReference(3)),
     ("2026-01-01", Moment(datetime(2026, 1, 1, tzinfo=UTC)))],
)  # fmt: skip
def test_what_follows_an_at_sign_is_read(text: str, meant: Any):
    assert parse_reference(text) == meant


@pytest.mark.parametrize(
    "text",
    ["2026-03-29 01:30:00", "2026-03-29 01:30:00 UTC", "2026-03-29T01:30:00Z", "2026-03-29 03:30:00+02:00",
     datetime(2026, 3, 29, 1, 30), datetime(2026, 3, 28, 20, 30, tzinfo=timezone(timedelta(hours=-5)))],  # noqa: DTZ001
)  # fmt: skip
def test_a_time_without_a_zone_is_utc_and_others_are_moved_there(text: Any):
    assert parse_moment(text) == Moment(datetime(2026, 3, 29, 1, 30, tzinfo=UTC))


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-13-01", "2026-02-30", "0001-01-01T00:00+14:00", date(2026, 1, 1)]
)
def test_what_is_no_time_is_refused(text: Any):
    with pytest.raises(InvalidInput, match="is not a time"):
        parse_moment(text)


@given(moments.filter(lambda m: m.year >= 1000))
def test_a_moment_is_shown_so_that_it_can_be_typed_again(moment: datetime):
    assert parse_moment(str(Moment(moment))) == Moment(moment)


def test_what_is_shown_is_escaped():
    assert "<script>" not in snapshot(1, message="<script>")._repr_html_()
