"""What the default run tries of combinations: each value once, each case on DuckDB, and some on Spark."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

from tests.support.combinations import each_value_once, few_on_spark, some
from tests.support.examples import USUAL, examples


def marks_of(param: Any) -> set[str]:
    return {mark.name for mark in param.marks}


def test_the_default_run_has_each_value_once_and_all_combinations_are_there():
    params = each_value_once(["a", "b"], [1, 2, 3], ["x"])
    assert [param.values for param in params] == [(a, n, "x") for a in "ab" for n in (1, 2, 3)]
    assert [param.values[:2] for param in params if not param.marks] == [("a", 1), ("a", 3), ("b", 2)]
    assert {frozenset(marks_of(param)) for param in params if param.marks} == {frozenset({"long"})}


def test_a_value_keeps_its_marks():
    params = each_value_once(["a", pytest.param("b", marks=pytest.mark.spark)], [1, 2])
    assert [(param.values, marks_of(param)) for param in params] == [
        (("a", 1), set()), (("a", 2), {"long"}), (("b", 1), {"spark", "long"}), (("b", 2), {"spark"}),
    ]  # fmt: skip


@pytest.mark.parametrize("names", ["sql", ("sql", "rows")])
def test_every_case_is_tried_on_duckdb_and_the_first_of_some_on_spark(names):
    cases = list("abcde") if names == "sql" else [(letter, 1) for letter in "abcde"]
    (arguments, params) = few_on_spark(names, cases).args
    assert arguments == ("engine", "sql") if names == "sql" else ("engine", "sql", "rows")
    assert [param.values[1] for param in params if not param.marks] == list("abcde")
    assert [param.values[1] for param in params if marks_of(param) == {"spark"}] == ["a", "e"]
    assert [param.values[1] for param in params if marks_of(param) == {"spark", "long"}] == ["b", "c", "d"]


def test_the_first_of_some_cases_are_tried_and_the_others_are_long():
    params = some(["a", ("b", 2), ("c", 3)])
    assert [(param.values, marks_of(param)) for param in params] == [
        (("a",), set()), (("b", 2), {"long"}), (("c", 3), set()),
    ]  # fmt: skip


def test_examples_are_in_proportion_to_the_profile():
    share = settings.default.max_examples / USUAL
    assert examples(100).max_examples == int(100 * share)
    assert examples(1).max_examples == max(2, int(share))
