from __future__ import annotations

from datetime import UTC, date, datetime
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from sleeper_nb.engines.spark.source import predicate_of_filters
from sleeper_nb.model.schema import Schema
from sleeper_nb.read.predicate import ALWAYS_TRUE, And, Comparison, IsIn, inclusive_projection

KEYS = {"word": "string", "n": "int", "b": "bytearray", "day": "date", "ts": "timestamp"}
SCHEMA = Schema(KEYS, values={"x": "int?"})
WORDS = ["", "a", "a\0", "ab", "b", "\ud7ff", "\ue000", "\uffff", "\U0010ffff", "\U0010ffff\U0010ffff"]
NUMBERS = [-(2**31), -1, 0, 1, 2**31 - 1]
BYTES = [b"", b"\0", b"a", b"\xff", b"\xff\xff"]
DAYS = [date.min, date(1582, 10, 4), date(2013, 1, 1), date.max]
INSTANTS = [
    datetime.min.replace(tzinfo=UTC), datetime(1582, 10, 4, 23, 59, 59, 999999, UTC), datetime(2013, 1, 1, tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
]  # fmt: skip
COMPARE = {
    EqualTo: lambda key, value: key == value,
    EqualNullSafe: lambda key, value: key == value,
    GreaterThan: lambda key, value: key > value,
    GreaterThanOrEqual: lambda key, value: key >= value,
    LessThan: lambda key, value: key < value,
    LessThanOrEqual: lambda key, value: key <= value,
}


def regions_of(filters):
    return inclusive_projection(predicate_of_filters(filters), SCHEMA)


def utf8(value):
    return value.encode() if isinstance(value, str) else value


def meets(filters, row):
    for each in filters:
        key = row[each.attribute[0]]
        if isinstance(each, In):
            if key not in each.value:
                return False
        elif isinstance(each, StringStartsWith):
            if not key.startswith(each.value):
                return False
        elif not COMPARE[type(each)](utf8(key), utf8(each.value)):
            return False
    return True


def is_early(each):
    """Whether a filter has a time that Spark's calendar may have changed, and so says nothing certain."""
    found = each.value if isinstance(each, In) else (each.value,)
    return any(isinstance(value, date) and value.year <= 1900 for value in found)


values = {name: st.sampled_from(some) for name, some in zip(KEYS, (WORDS, NUMBERS, BYTES, DAYS, INSTANTS), strict=True)}
comparisons = st.sampled_from(sorted(values)).flatmap(
    lambda name: st.builds(lambda kind, value: kind((name,), value), st.sampled_from(list(COMPARE)), values[name])
)
lists = st.sampled_from(sorted(values)).flatmap(
    lambda name: st.builds(lambda found: In((name,), tuple(found)), st.lists(values[name] | st.none(), max_size=4))
)
prefixes = st.builds(lambda value: StringStartsWith(("word",), value), values["word"])
rows = st.fixed_dictionaries(values)


@given(st.lists(comparisons | lists | prefixes, max_size=4), st.lists(rows, max_size=30))
def test_regions_hold_every_row_that_meets_the_filters_and_do_not_overlap(filters, found):
    regions = regions_of(filters)
    if regions is None:
        assert all(map(is_early, filters))
        return
    for row in found:
        inside = [region for region in regions if tuple(row[name] for name in KEYS) in region]
        assert len(inside) <= 1
        assert inside or not meets(filters, row)
    assert all(one.intersect(other) is None for one, other in combinations(regions, 2))


@pytest.mark.parametrize(
    "unusable",
    [
        EqualTo(("x",), 1),  # no key
        EqualTo(("word", "part"), "a"),
        EqualTo(("n",), "1"),  # of another type
        EqualTo(("n",), 2**31),
        EqualTo(("n",), None),
        EqualTo(("day",), INSTANTS[2]),
        EqualTo(("day",), "2013-01-01"),
        EqualTo(("ts",), DAYS[2]),
        EqualTo(("ts",), datetime(2013, 1, 1)),  # noqa: DTZ001 - of another type, TIMESTAMP_NTZ
        In(("ts",), (INSTANTS[2], datetime(2013, 1, 1))),  # noqa: DTZ001
        IsNotNull(("word",)),
        Not(EqualTo(("word",), "a")),
        StringContains(("word",), "a"),
    ],
)
def test_what_says_nothing_of_keys_prunes_nothing(unusable):
    assert regions_of([unusable]) is None


def test_a_comparison_leaves_exactly_its_keys():
    (region,) = regions_of([EqualTo(("word",), "a"), GreaterThan(("n",), 3)])
    assert [(r.min, r.max) for r in region.ranges] == [("a", "a\0"), (4, None), *((None, None),) * 3]


def test_contradictions_leave_nothing_to_read():
    assert regions_of([GreaterThan(("n",), 3), LessThan(("n",), 3)]) == ()
    assert regions_of([GreaterThan(("n",), 2**31 - 1)]) == ()
    assert regions_of([In(("word",), (None,))]) == ()
    assert regions_of([IsNull(("word",))]) == ()


def test_a_long_list_leaves_out_what_is_between_its_values():
    assert len(regions_of([In(("n",), tuple(range(0, 1000, 2)))])) == 500
    (region,) = regions_of([In(("n",), tuple(range(0, 4000, 2)))])
    assert (region.ranges[1].min, region.ranges[1].max) == (0, 3999)


MOMENT = datetime(2013, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("pushed", "test"),
    [
        (LessThan(("at",), MOMENT), Comparison("at", "<", MOMENT)),
        (In(("day",), (date(2013, 3, 1), None)), IsIn("day", (date(2013, 3, 1),))),
        (EqualTo(("at",), MOMENT.replace(tzinfo=None)), ALWAYS_TRUE),
        (GreaterThan(("at",), datetime(1899, 3, 1, tzinfo=UTC)), ALWAYS_TRUE),
        (LessThan(("day",), date(1582, 10, 10)), ALWAYS_TRUE),
        (In(("day",), (date(2013, 3, 1), date(1582, 10, 10))), ALWAYS_TRUE),
    ],
)
def test_dates_and_timestamps_count_where_java_has_the_same_calendar(pushed, test):
    assert predicate_of_filters([pushed]) == And((test,))
