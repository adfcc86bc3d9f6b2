from __future__ import annotations

import json

import pytest

import sleeper_nb as sl
from sleeper_nb.engines.spark.source_options import (
    OPTIONS,
    InstancePlace,
    SourceOptions,
)
from sleeper_nb.engines.spark.stream import Offset
from sleeper_nb.model.snapshots import (
    SavepointReference,
    SnapshotReference,
    parse_moment,
)
from sleeper_nb.storage.aws import AwsTarget
from sleeper_nb.versions.appends import BatchLimits, StreamRules

PLACE = InstancePlace("/warehouse", "demo", AwsTarget("eu-west-2"))


def asked(**options):
    return SourceOptions.of({"table": "t", **{name.replace("_", "-"): text for name, text in options.items()}}, PLACE)


def of(name, text):
    return SourceOptions.of({"table": "t", name: text}, PLACE)


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("scan.snapshot-id", "12", SnapshotReference(12)),
        ("scan.snapshot-id", "snapshot.12", SnapshotReference(12)),
        ("scan.savepoint-id", "3", SavepointReference(3)),
        ("scan.savepoint-id", "before-fix", SavepointReference("before-fix")),
        ("scan.timestamp", "2026-11-01 10:00:00", parse_moment("2026-11-01 10:00:00")),
        ("SCAN.Timestamp", "2026-11-01T11:00:00+01:00", parse_moment("2026-11-01 10:00:00")),
        ("scan.timestamp-millis", "1793527200000", parse_moment("2026-11-01 10:00:00.000999")),
        ("version", "12", SnapshotReference(12)),
        ("version", "savepoint.before-fix", SavepointReference("before-fix")),
    ],
)
def test_each_option_names_a_version(name, text, version):
    assert of(name, text).version == version


def test_no_option_is_the_current_version_of_the_place_that_is_known():
    assert asked() == SourceOptions(PLACE, "t", None, BatchLimits(), StreamRules())


def test_the_argument_of_load_names_the_table():
    assert SourceOptions.of({"path": "flights"}, PLACE).table == "flights"


@pytest.mark.parametrize("second", ["scan.savepoint-id", "scan.timestamp", "version"])
def test_two_versions_are_an_error(second):
    with pytest.raises(sl.InvalidInput, match=f"scan.snapshot-id and {second} both name a version"):
        SourceOptions.of({"table": "t", "scan.snapshot-id": "1", second: "2026-01-01"}, PLACE)


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("scan.snapshot", "scan.snapshot-id"),
        ("scan.savepoint", "scan.savepoint-id"),
        ("scan.timestamp-milis", "scan.timestamp-millis"),
        ("maxsnapshotpertrigger", "maxSnapshotsPerTrigger"),
        ("streaming.skip-rollback", "streaming.skip-rollbacks"),
    ],
)
def test_an_unknown_option_names_the_nearest(wrong, near):
    with pytest.raises(sl.NotFound, match=f"no option {wrong!r}") as caught:
        of(wrong, "1")
    assert caught.value.hint == f"did you mean {near!r}?"


def test_an_option_that_is_like_no_other_names_them_all():
    with pytest.raises(sl.NotFound) as caught:
        of("zzzzzz", "1")
    assert all(name in caught.value.hint for name in OPTIONS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("scan.snapshot-id", "savepoint.1"),
        ("scan.snapshot-id", "twelve"),
        ("scan.timestamp", "yesterday"),
        ("scan.timestamp-millis", "yesterday"),
        ("scan.timestamp-millis", "99999999999999999999"),
        ("version", "2026-11-01"),
        ("maxSnapshotsPerTrigger", "0"),
        ("maxRowsPerTrigger", "-1"),
        ("maxFilesPerTrigger", "many"),
        ("streaming.skip-rollbacks", "yes"),
    ],
)
def test_a_value_that_cannot_be_read_is_an_error(name, text):
    with pytest.raises(sl.InvalidInput, match=text):
        of(name, text)


def test_no_table_is_an_error_with_the_line_to_write():
    with pytest.raises(sl.InvalidInput) as caught:
        SourceOptions.of({}, PLACE)
    assert 'option("table"' in caught.value.hint


def test_limits_and_rollbacks():
    found = SourceOptions.of(
        {"table": "t", "maxsnapshotspertrigger": "3", "maxRowsPerTrigger": "9", "streaming.skip-rollbacks": "TRUE"},
        PLACE,
    )
    assert (found.limits, found.rules) == (BatchLimits(3, None, 9), StreamRules(skip_rollbacks=True))


def test_another_instance():
    assert asked(instance="other").place == InstancePlace("/warehouse", "other", AwsTarget("eu-west-2"))
    found = asked(warehouse="s3://b/p", region="us-east-1", endpoint_url="http://127.0.0.1:9")
    assert found.place == InstancePlace("s3://b/p", "demo", AwsTarget("us-east-1", "http://127.0.0.1:9"))


OFFSET = Offset("id", 3, 7, full_state_done=True)


def test_an_offset_is_read_as_it_was_written():
    body = json.loads(json.dumps(OFFSET.to_dict()))
    assert body == {"version": 1, "table": "id", "fullState": 3, "snapshot": 7, "fullStateDone": True}
    assert Offset.of(body, "id", "t") == OFFSET


def test_an_offset_of_another_table_is_an_error():
    with pytest.raises(sl.StateRuleBroken, match="belongs to an earlier table named 't'"):
        Offset.of(OFFSET.to_dict(), "other", "t")


@pytest.mark.parametrize("body", [{}, {**OFFSET.to_dict(), "version": 2}, {**OFFSET.to_dict(), "snapshot": "x"}])
def test_what_is_no_offset_is_an_error(body):
    with pytest.raises(sl.StorageError, match="cannot read the stream's checkpoint"):
        Offset.of(body, "id", "t")


def test_two_names_of_a_table_are_refused_and_the_same_name_twice_is_not():
    with pytest.raises(sl.InvalidInput, match="two tables are named: 't' and 'u'"):
        of("path", "u")
    assert of("path", "t").table == "t"
