"""Which regions a predicate reaches: never too few keys, and few where the predicate says so."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.model.schema import Schema
from sleeper_nb.read.predicate import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    MOST_REGIONS,
    And,
    Comparison,
    IsIn,
    IsNull,
    Or,
    Predicate,
    inclusive_projection,
    prune_regions,
    starts_with,
)

SCHEMA = Schema({"k": "int", "s": "string"}, {}, {"v": "int?"})
WORDS = ["", "a", "ab", "abc", "b", "é", "\ud7ff", "\ue000", "\U0010ffff", "\U0010ffffa"]
LEAST = -(2**31)
NUMBERS = [LEAST, -1, 0, 1, 2, 3, 2**31 - 1]
KEYS = list(itertools.product(NUMBERS, WORDS))


def meets(predicate: Any, row: dict[str, Any]) -> bool:
    """Whether a row meets a predicate, as an engine computes it."""
    if isinstance(predicate, And):
        return all(meets(part, row) for part in predicate.parts)
    if isinstance(predicate, Or):
        return any(meets(part, row) for part in predicate.parts)
    value = row[predicate.column]
    if isinstance(predicate, IsNull):
        return value is None
    if value is None:
        return False
    if isinstance(predicate, IsIn):
        return value in predicate.values
    assert isinstance(predicate, Comparison)
    other = predicate.value
    compared = {"=": value == other, "<": value < other, "<=": value <= other, ">": value > other, ">=": value >= other}
    return compared[predicate.operator]


numbers, words = st.sampled_from([*NUMBERS, 2**31, LEAST - 1]), st.sampled_from(WORDS)
operators = st.sampled_from(["=", "<", "<=", ">", ">="])
singles = st.one_of(
    st.builds(Comparison, st.sampled_from(["k", "v"]), operators, numbers),
    st.builds(Comparison, st.just("s"), operators, words),
    st.builds(IsIn, st.just("k"), st.lists(numbers, max_size=4).map(tuple)),
    st.builds(IsIn, st.just("s"), st.lists(words, max_size=4).map(tuple)),
    st.builds(IsNull, st.sampled_from(["k", "s", "v"])),
    st.builds(starts_with, st.just("s"), words),
)
predicates = st.recursive(
    singles,
    lambda inner: st.one_of(
        st.builds(And, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, max_size=3).map(tuple)),
    ),
)


@given(predicates, st.sampled_from([None, 0, 2]))
def test_no_row_that_meets_a_predicate_is_outside_of_its_regions(predicate: Predicate, value: int | None):
    regions = inclusive_projection(predicate, SCHEMA)
    for k, s in KEYS:
        if regions is not None and meets(predicate, {"k": k, "s": s, "v": value}):
            assert any((k, s) in region for region in regions)


@given(words, words)
def test_a_text_begins_with_another_exactly_in_the_region(prefix: str, word: str):
    regions = inclusive_projection(starts_with("s", prefix), SCHEMA)
    assert regions is not None
    assert any((0, word) in region for region in regions) == word.startswith(prefix)


@pytest.mark.parametrize(
    ("predicate", "texts"),
    [
        (Comparison("k", "=", 5), ["k [5, 6)"]),
        (Comparison("k", ">", 5), ["k [6, ∞)"]),
        (And((Comparison("k", ">=", 5), Comparison("k", "<", 9), Comparison("v", "=", 1))), ["k [5, 9)"]),
        (And((IsIn("k", (1, 3)), Comparison("s", "=", "a"))), ["k [1, 2), s a", "k [3, 4), s a"]),
        (Or((Comparison("k", "=", 1), Comparison("s", "<", "b"))), ["k [1, 2)", "s (-∞, b)"]),
        (And((Comparison("k", "=", 1), Comparison("k", "=", 2))), []),
        (IsNull("k"), []),
        (ALWAYS_FALSE, []),
        (ALWAYS_TRUE, None),
        (IsNull("v"), None),
        (Or((Comparison("k", "=", 1), Comparison("v", "=", 1))), None),
        (Comparison("k", "=", "5"), None),
        (Comparison("k", "<", 2**40), None),
        (IsIn("k", (1, "x")), None),
    ],
)
def test_a_predicate_reaches_these_regions(predicate: Predicate, texts: list[str] | None):
    regions = inclusive_projection(predicate, SCHEMA)
    assert (None if regions is None else [region.text(SCHEMA) for region in regions]) == texts


def test_many_values_are_one_region_from_the_least_to_the_greatest():
    many = IsIn("k", tuple(range(0, 4 * MOST_REGIONS, 2)))
    for predicate in (many, Or(tuple(Comparison("k", "=", value) for value in many.values))):
        regions = inclusive_projection(predicate, SCHEMA)
        assert regions is not None
        assert [region.text(SCHEMA) for region in regions] == ["k [0, 3999)"]


def test_a_product_of_too_many_regions_keeps_the_fewer_ones():
    keys, words_ = IsIn("k", tuple(range(200))), IsIn("s", tuple(f"w{i}" for i in range(300)))
    regions = inclusive_projection(And((keys, words_)), SCHEMA)
    assert regions is not None
    assert len(regions) == 200


small = st.integers(-128, 127)


@given(predicates, st.sampled_from([None, 0, 2]))
def test_pruned_regions_have_each_row_that_meets_a_predicate_once(predicate: Predicate, value: int | None):
    regions = prune_regions(None, predicate, SCHEMA)
    for k, s in KEYS:
        if regions is not None:
            found = sum((k, s) in region for region in regions)
            assert found == 1 if meets(predicate, {"k": k, "s": s, "v": value}) else found <= 1


@pytest.mark.parametrize(
    "more",
    [
        Or((Comparison("v", "=", 1), Comparison("v", "=", 2))),
        Or((And((IsIn("k", (1, 900)), Comparison("v", ">", 1))),)),  # as of a plan, in which a table is read once
    ],
)
def test_what_follows_listed_keys_leaves_their_regions_apart(more: Predicate):
    listed = IsIn("k", (1, 900))
    assert prune_regions(None, And((listed, more)), SCHEMA) == inclusive_projection(listed, SCHEMA)
