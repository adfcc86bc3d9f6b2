"""Which combinations of independent dimensions the default run tries, and which only the one with `long`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

ENGINES = ("duckdb", "spark")


def each_value_once(*dimensions: Sequence[Any]) -> list[Any]:
    """Return all combinations of values as params; those that are not needed to have each value once are `long`.

    The default run has the first values of all dimensions, the second ones, and so on; a dimension of fewer values
    begins again. So it has as many combinations as the largest dimension has values. A value may be a ``pytest.param``,
    whose marks its combinations have, too.
    """
    values = [[value if isinstance(value, type(pytest.param())) else pytest.param(value) for value in each]
              for each in dimensions]  # fmt: skip
    longest = max(map(len, values))
    kept = {tuple(at % len(each) for each in values) for at in range(longest)}
    params = []
    for places in itertools.product(*(range(len(each)) for each in values)):
        chosen = [each[at] for each, at in zip(values, places, strict=True)]
        marks = [mark for one in chosen for mark in one.marks]
        params.append(
            pytest.param(
                *(one.values[0] for one in chosen), marks=marks if places in kept else [*marks, pytest.mark.long]
            )
        )
    return params


def some(cases: Iterable[Any], *, every: int = 2) -> list[Any]:
    """Return cases as params; all but the first of so many each are `long`. A case of several values is a tuple."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=[pytest.mark.long] if at % every else [])
        for at, case in enumerate(cases)
    ]


def few_on_spark(names: str | Sequence[str], cases: Iterable[Any], *, every: int = 4) -> pytest.MarkDecorator:
    """Try cases on each engine: all of them on DuckDB; on Spark the first of so many each, and the others as `long`.

    It is for cases that differ in what happens before an engine is asked, such as the forms of a statement: a case
    costs some milliseconds on DuckDB and a second on Spark. The test has the argument ``engine`` in front of those of
    the cases.
    """
    return pytest.mark.parametrize(
        ("engine", *([names] if isinstance(names, str) else names)),
        on_engines(([case] if isinstance(names, str) else case for case in cases), every=every),
    )


def on_engines(cases: Iterable[Iterable[Any]], *, every: int = 4, engines: Sequence[str] = ENGINES) -> list[Any]:
    """Return cases with each engine in front; of those with ``spark``, all but the first of so many are `long`."""
    params = []
    for (number, case), engine in itertools.product(enumerate(map(tuple, cases)), engines):
        marks = [pytest.mark.spark] if engine == "spark" else []
        if engine == "spark" and number % every:
            marks.append(pytest.mark.long)
        params.append(pytest.param(engine, *case, marks=marks))
    return params
