"""What ``:name`` may stand for: values of Python, numpy and pandas are bound as they are, on both engines."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sleeper_nb as sl
from tests.support.combinations import few_on_spark
from tests.support.engines import ENGINES

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def session(tmp_path, request):
    spark = request.getfixturevalue("spark_engine").session() if "spark" in request.node.keywords else None
    with sl.connect(tmp_path, spark=spark) as opened:
        yield opened


def value_of(session, engine, value):
    found = session.sql("SELECT :given AS found", engine=engine, params={"given": value})
    return found.to_arrow().column(0)[0].as_py()


@few_on_spark(
    ("given", "found"),
    [
        (np.int64(60), 60),
        (np.float64(2.5), 2.5),
        (np.float32(1.5), 1.5),
        (np.bool_(1), True),
        (np.str_("UA"), "UA"),
        (np.datetime64("2026-11-01"), date(2026, 11, 1)),
        (np.datetime64("NaT"), None),
        (np.array(7), 7),
        (pd.NaT, None),
        (pd.NA, None),
        (None, None),
        ('it\'s "x" ; --', 'it\'s "x" ; --'),
        (b"a\x00b", b"a\x00b"),
        (Decimal("12.345"), Decimal("12.345")),
        (date(2026, 11, 1), date(2026, 11, 1)),
        (time(3, 4), time(3, 4)),
        (2**40, 2**40),
        (2**70, 2**70),
        (uuid.UUID(int=5), str(uuid.UUID(int=5))),
        (("UA", "DL"), ["UA", "DL"]),
        ({"UA"}, ["UA"]),
        (range(3), [0, 1, 2]),
        (np.array([1, 2]), [1, 2]),
        (pd.Series(["UA", "DL"]), ["UA", "DL"]),
        (pd.Index([1.5]), [1.5]),
        (pa.array(["a", "b"]), ["a", "b"]),
        (pa.scalar(3), 3),
        ([1, 2**40], [1, 2**40]),
        ([-1, -(2**40)], [-1, -(2**40)]),
        ([date(2026, 11, 1)], [date(2026, 11, 1)]),
        ([[1], [2, 3]], [[1], [2, 3]]),
    ],
)
def test_a_value_is_bound_as_it_is(session, engine, given, found):
    assert value_of(session, engine, given) == found


@few_on_spark(
    "given",
    [
        NOON,
        pd.Timestamp(NOON),
        np.datetime64("2026-11-01T12:00:00.000000000"),
        pd.Timestamp(NOON).tz_convert("Europe/Paris"),
    ],
)
def test_a_moment_is_the_same_however_it_is_written(session, engine, given):
    found = session.sql(
        "SELECT CAST(:given AS DATE) AS day, hour(:given) AS hour", engine=engine, params={"given": given}
    )
    assert found.to_dict() == {"day": [NOON.date()], "hour": [12]}


@few_on_spark("given", [timedelta(hours=1), np.timedelta64(3600, "s"), pd.Timedelta("1h")])
def test_a_duration_is_added_to_a_time(session, engine, given):
    found = session.sql("SELECT TIMESTAMP '2026-11-01 11:00:00' + :given AS at", engine=engine, params={"given": given})
    assert [at.replace(tzinfo=UTC) for at in found.to_dict()["at"]] == [NOON]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_dictionary_is_looked_into_by_its_keys(session, engine):
    assert session.sql("SELECT :given['b'] AS b", engine=engine, params={"given": {"a": 1, "b": 2}}).to_dict() == {
        "b": [2]
    }


@few_on_spark(("given", "found"), [([1, 2**40], True), ([2], False), ([], False)])
def test_whole_numbers_of_two_sizes_are_looked_for_in_one_list(session, engine, given, found):
    sql = "SELECT array_contains(:given, CAST(1 AS INT)) AS found"
    assert session.sql(sql, engine=engine, params={"given": given}).to_dict() == {"found": [found]}


@few_on_spark(
    ("given", "message"),
    [
        (pd.DataFrame({"a": [1]}), "parameter 'given' is a DataFrame, no value of SQL"),
        (object(), "parameter 'given' is a object, no value of SQL"),
        (pd, "parameter 'given' is a module, no value of SQL"),
        ([object()], "parameter 'given' is a object, no value of SQL"),
    ],
)
def test_what_is_no_value_is_said_so(session, engine, given, message):
    with pytest.raises(sl.InvalidInput) as caught:
        value_of(session, engine, given)
    assert caught.value.message == message
    assert "a list" in caught.value.hint


@pytest.mark.parametrize("engine", ENGINES)
def test_a_list_behind_in_is_told_how_to_be_looked_into(session, engine):
    with pytest.raises(sl.InvalidInput, match=r"IN \(:names\) compares with the whole list") as caught:
        session.sql("SELECT 1 WHERE 'a' IN ( :names )", engine=engine, params={"names": ["a", "b"]})
    assert caught.value.hint == "write array_contains(:names, COLUMN)"
    found = session.sql("SELECT 1 AS x WHERE array_contains(:names, 'a')", engine=engine, params={"names": ["a", "b"]})
    assert found.to_dict() == {"x": [1]}


def test_only_values_are_offered_for_a_parameter_that_is_not_there(session):
    params = {"pd": pd, "made": pd.DataFrame(), "call": print, "least": 5}
    with pytest.raises(sl.NotFound, match="no parameter 'x'") as caught:
        session.sql("SELECT :x", engine="duckdb", params=params)
    assert caught.value.hint.endswith("; available: least")


@few_on_spark("end", [";", " ; -- the end", ";\n/* the end */ ;\n"])
def test_a_comment_may_stand_behind_the_end_of_a_statement(session, engine, end):
    assert session.sql(f"SELECT ';' AS x -- first{chr(10)}{end}", engine=engine).to_dict() == {"x": [";"]}


@pytest.mark.parametrize(
    "given",
    [
        pd.Timestamp("2026-11-01T12:00:00.000000001", tz="UTC"),
        pd.Timedelta(1, "ns"),
        np.datetime64("2026-11-01T12:00:00.000000001"),
        [pa.scalar(1, pa.timestamp("ns"))],
        pd.Series([pd.Timestamp(1)]),
    ],
)
def test_nanoseconds_are_told_of_not_dropped(session, given):
    with pytest.raises(sl.InvalidInput, match="parameter 'given' has nanoseconds, which would be lost") as caught:
        value_of(session, "duckdb", given)
    assert ".floor('us')" in caught.value.hint
