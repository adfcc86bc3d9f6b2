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
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from sleeper_nb.engines.spark.source import MOST_REGIONS, regions_of
from sleeper_nb.model.schema import Schema

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
    regions = regions_of(filters, SCHEMA)
    if regions is None:
        assert not filters
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
    assert regions_of([unusable], SCHEMA) is None


def test_a_comparison_leaves_exactly_its_keys():
    (region,) = regions_of([EqualTo(("word",), "a"), GreaterThan(("n",), 3)], SCHEMA)
    assert [(r.min, r.max) for r in region.ranges] == [("a", "a\0"), (4, None), *((None, None),) * 3]


def test_contradictions_leave_nothing_to_read():
    assert regions_of([GreaterThan(("n",), 3), LessThan(("n",), 3)], SCHEMA) == []
    assert regions_of([GreaterThan(("n",), 2**31 - 1)], SCHEMA) == []
    assert regions_of([In(("word",), (None,))], SCHEMA) == []


def test_a_long_list_counts_as_its_range():
    (region,) = regions_of([In(("n",), tuple(range(0, 1000, 2)))], SCHEMA)
    assert region.ranges[1].min == 0
    assert region.ranges[1].max == 999
    assert len(regions_of([In(("n",), tuple(range(MOST_REGIONS)))], SCHEMA)) == MOST_REGIONS
