"""Which regions a test reaches: never too few keys, and few where the test says so."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.model.schema import Schema
from sleeper_nb.read.reach import (
    ANY_ROW,
    MOST_REGIONS,
    NO_ROW,
    AllOf,
    AnyOf,
    Compared,
    IsNull,
    OneOf,
    ShiftedColumn,
    Test,
    begins_with,
    condition_text,
    leaves_something_out,
    regions_met,
)

SCHEMA = Schema({"k": "int", "s": "string"}, {}, {"v": "int?"})
WORDS = ["", "a", "ab", "abc", "b", "é", "\ud7ff", "\ue000", "\U0010ffff", "\U0010ffffa"]
LEAST = -(2**31)
NUMBERS = [LEAST, -1, 0, 1, 2, 3, 2**31 - 1]
KEYS = list(itertools.product(NUMBERS, WORDS))


def meets(test: Any, row: dict[str, Any]) -> bool:
    """Whether a row meets a test, as an engine computes it."""
    if isinstance(test, AllOf):
        return all(meets(part, row) for part in test.parts)
    if isinstance(test, AnyOf):
        return any(meets(part, row) for part in test.parts)
    value = row[test.column]
    if isinstance(test, IsNull):
        return value is None
    if value is None:
        return False
    if isinstance(test, OneOf):
        return value in test.values
    assert isinstance(test, Compared)
    other = test.value
    compared = {"=": value == other, "<": value < other, "<=": value <= other, ">": value > other, ">=": value >= other}
    return compared[test.sign]


numbers, words = st.sampled_from([*NUMBERS, 2**31, LEAST - 1]), st.sampled_from(WORDS)
signs = st.sampled_from(["=", "<", "<=", ">", ">="])
singles = st.one_of(
    st.builds(Compared, st.sampled_from(["k", "v"]), signs, numbers),
    st.builds(Compared, st.just("s"), signs, words),
    st.builds(OneOf, st.just("k"), st.lists(numbers, max_size=4).map(tuple)),
    st.builds(OneOf, st.just("s"), st.lists(words, max_size=4).map(tuple)),
    st.builds(IsNull, st.sampled_from(["k", "s", "v"])),
    st.builds(begins_with, st.just("s"), words),
)
tests = st.recursive(
    singles,
    lambda inner: st.one_of(
        st.builds(AllOf, st.lists(inner, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(inner, max_size=3).map(tuple)),
    ),
)


@given(tests, st.sampled_from([None, 0, 2]))
def test_no_row_that_meets_a_test_is_outside_of_its_regions(test: Test, value: int | None):
    regions = regions_met(test, SCHEMA)
    for k, s in KEYS:
        if regions is not None and meets(test, {"k": k, "s": s, "v": value}):
            assert any((k, s) in region for region in regions)


@given(words, words)
def test_a_text_begins_with_another_exactly_in_the_region(prefix: str, word: str):
    regions = regions_met(begins_with("s", prefix), SCHEMA)
    assert regions is not None
    assert any((0, word) in region for region in regions) == word.startswith(prefix)


@pytest.mark.parametrize(
    ("test", "texts"),
    [
        (Compared("k", "=", 5), ["k [5, 6)"]),
        (Compared("k", ">", 5), ["k [6, ∞)"]),
        (AllOf((Compared("k", ">=", 5), Compared("k", "<", 9), Compared("v", "=", 1))), ["k [5, 9)"]),
        (AllOf((OneOf("k", (1, 3)), Compared("s", "=", "a"))), ["k [1, 2), s a", "k [3, 4), s a"]),
        (AnyOf((Compared("k", "=", 1), Compared("s", "<", "b"))), ["k [1, 2)", "s (-∞, b)"]),
        (AllOf((Compared("k", "=", 1), Compared("k", "=", 2))), []),
        (IsNull("k"), []),
        (NO_ROW, []),
        (ANY_ROW, None),
        (IsNull("v"), None),
        (AnyOf((Compared("k", "=", 1), Compared("v", "=", 1))), None),
        (Compared("k", "=", "5"), None),
        (Compared("k", "<", 2**40), None),
        (OneOf("k", (1, "x")), None),
    ],
)
def test_a_test_reaches_these_regions(test: Test, texts: list[str] | None):
    regions = regions_met(test, SCHEMA)
    assert (None if regions is None else [region.text(SCHEMA) for region in regions]) == texts


def test_many_values_are_one_region_from_the_least_to_the_greatest():
    many = OneOf("k", tuple(range(0, 4 * MOST_REGIONS, 2)))
    for test in (many, AnyOf(tuple(Compared("k", "=", value) for value in many.values))):
        regions = regions_met(test, SCHEMA)
        assert regions is not None
        assert [region.text(SCHEMA) for region in regions] == ["k [0, 3999)"]


def test_a_product_of_too_many_regions_keeps_the_fewer_ones():
    keys, words_ = OneOf("k", tuple(range(200))), OneOf("s", tuple(f"w{i}" for i in range(300)))
    regions = regions_met(AllOf((keys, words_)), SCHEMA)
    assert regions is not None
    assert len(regions) == 200


small = st.integers(-128, 127)


@given(small, small, st.booleans(), signs, small)
def test_a_row_whose_sum_compares_meets_the_test_also_when_the_sum_wraps(number, offset, is_negated, sign, value):
    total = (offset - number if is_negated else number + offset) + 128 & 255
    test = ShiftedColumn("v", offset, is_negated, bits=8).compared(sign, value)
    assert not meets(Compared("total", sign, value), {"total": total - 128}) or meets(test, {"v": number})


@pytest.mark.parametrize(
    ("shifted", "sign", "value", "test"),
    [
        (ShiftedColumn("k", 1, is_negated=False, bits=32), "=", 6, Compared("k", "=", 5)),
        (ShiftedColumn("k", 5, is_negated=True, bits=32), ">", 3, Compared("k", "<", 2)),
        (ShiftedColumn("k", 1, is_negated=False, bits=32), ">=", 3, Compared("k", ">=", 2)),
        (
            ShiftedColumn("k", 1, is_negated=False, bits=32),
            "<",
            3,
            AnyOf((Compared("k", "<", 2), Compared("k", ">", 2**31 - 2))),
        ),
        (ShiftedColumn("k", 2**31 - 1, is_negated=False, bits=32), "=", LEAST, ANY_ROW),
    ],
)
def test_a_sum_with_a_constant_is_a_comparison_of_the_column(shifted, sign, value, test):
    assert shifted.compared(sign, value) == test


@pytest.mark.parametrize(
    ("test", "text", "is_used"),
    [
        (Compared("k", "=", 5), "k = 5", True),
        (Compared("v", ">", 5), "v > 5", False),
        (Compared("d", ">", "it's"), "d > 'it''s'", True),
        (AnyOf((Compared("k", "=", 5), ANY_ROW)), "k = 5 OR ", False),
        (AnyOf((Compared("k", "=", 5), IsNull("d"))), "k = 5 OR d IS NULL", True),
        (
            AllOf((AnyOf((IsNull("v"), IsNull("k"))), Compared("v", "<", 1))),
            "(v IS NULL OR k IS NULL) AND v < 1",
            False,
        ),
        (OneOf("s", ("a", "b", "c", "d")), "s IN ('a', 'b', 'c', …)", True),
        (Compared("k", "=", 2**31), "k = 2147483648", False),  # no key has that type
    ],
)
def test_a_condition_is_shown_and_known_to_be_of_use(test, text, is_used):
    assert condition_text(test) == text
    assert leaves_something_out(test, {"d"}, SCHEMA) is is_used
