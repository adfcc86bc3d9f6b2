from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.errors import NotFound
from sleeper_nb.maintain.compaction_plan import (
    STRATEGIES,
    StrategySettings,
    choose_batches,
    strategy_named,
)
from sleeper_nb.model.file_reference import FileReference
from tests.support.builders import a_file


def files(*rows: int) -> list[FileReference]:
    return [a_file(f"f{number:02d}", rows=count) for number, count in enumerate(rows)]


def chosen(strategy: str, rows: list[int], batch: int = 12, ratio: int = 3) -> list[list[int]]:
    batches = strategy_named(strategy)(files(*rows), StrategySettings(batch, ratio))
    return [[file.rows for file in batch] for batch in batches]


@pytest.mark.parametrize(
    ("strategy", "rows", "batch", "expected"),
    [
        ("basic", [], 2, []),
        ("basic", [5], 2, []),
        ("basic", [5, 1, 3], 2, [[1, 3]]),
        ("basic", [5, 1, 3, 2], 2, [[1, 2], [3, 5]]),
        ("basic", [1, 2, 3], 4, []),
        ("size-ratio", [], 12, []),
        ("size-ratio", [7], 12, []),
        ("size-ratio", [7, 7], 12, []),  # 7 is less than 3 × 7
        ("size-ratio", [9] * 4, 12, [[9] * 4]),  # 27 is 3 × 9
        ("size-ratio", [9, 9, 9, 10], 12, []),  # 27 is less than 30, and without the largest 18 less than 27
        ("size-ratio", [1, 1, 1, 1, 100], 12, [[1, 1, 1, 1]]),  # the large one is passed over
        ("size-ratio", [5] * 9, 4, [[5] * 4, [5] * 4]),  # one is left over
        ("size-ratio", [1, 50, 50, 50, 50], 4, [[50] * 4]),  # the window slides past the small one
        ("size-ratio", [1, 2, 3], 12, []),
        ("all", [], 2, []),
        ("all", [5], 2, []),
        ("all", [5, 1, 9], 2, [[1, 5, 9]]),
    ],
)
def test_worked_examples(strategy: str, rows: list[int], batch: int, expected: list[list[int]]):
    assert chosen(strategy, rows, batch) == expected


def test_the_ratio_is_the_one_that_is_set():
    assert chosen("size-ratio", [10, 10], ratio=1) == [[10, 10]]
    assert chosen("size-ratio", [10, 10], ratio=2) == []


def test_a_leaf_of_one_file_that_others_share_is_rewritten_by_all():
    assert strategy_named("all")([a_file("f", only_this_partition=False)], StrategySettings()) != []


@given(
    st.sampled_from(sorted(STRATEGIES)),
    st.lists(st.integers(0, 1000), max_size=40),
    st.integers(2, 6),
    st.integers(1, 4),
)
def test_no_file_is_in_two_batches_and_no_batch_is_too_large(strategy: str, rows: list[int], batch: int, ratio: int):
    given_files = files(*rows)
    batches = strategy_named(strategy)(given_files, StrategySettings(batch, ratio))
    names = [file.filename for one in batches for file in one]
    assert len(names) == len(set(names))
    assert set(names) <= {file.filename for file in given_files}
    for one in batches:
        assert len(one) >= 2
        assert strategy == "all" or len(one) <= batch
        assert strategy != "basic" or len(one) == batch
        if strategy == "size-ratio":
            sizes = sorted(file.rows for file in one)
            assert sum(sizes[:-1]) >= ratio * sizes[-1]
    assert batches == strategy_named(strategy)(given_files[::-1], StrategySettings(batch, ratio))


def test_an_unknown_strategy_is_named_with_those_there_are():
    with pytest.raises(NotFound, match="fast") as error:
        strategy_named("fast")
    assert "size-ratio" in (error.value.hint or "")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_batch_is_larger_than_a_state_store_takes(strategy: str):
    batches = choose_batches(strategy, files(*[7] * 9), StrategySettings(), 4)
    assert [len(batch) for batch in batches] == [4, 4]


def test_only_a_file_with_rows_of_other_partitions_is_rewritten_alone():
    partial = a_file("f", only_this_partition=False)
    assert choose_batches("all", [partial, a_file("g")], StrategySettings(), 1) == [[partial]]
