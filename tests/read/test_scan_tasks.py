from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.model.partitions import Partition, Region
from sleeper_nb.read.scan_plan import (
    MERGED_BYTES,
    MERGED_FILES,
    OPEN_BYTES,
    TASK_BYTES,
    PlannedFile,
    PlannedLeaf,
    groups_of,
    merged_groups,
    packed,
)
from tests.support.builders import KEYED

LEAF = Partition("root", Region.whole(KEYED))


def file(name: str, size: int) -> PlannedFile:
    return PlannedFile(name, 1, size, None)


def test_files_of_a_leaf_are_read_together_or_apart():
    leaves = [
        PlannedLeaf(LEAF, (file("a", 1), file("b", 1))),
        PlannedLeaf(LEAF, ()),
        PlannedLeaf(LEAF, (file("c", 1),)),
    ]
    assert [[each.filename for each in group] for group in groups_of(leaves, file_by_file=False)] == [["a", "b"], ["c"]]
    assert [[each.filename for each in group] for group in groups_of(leaves, file_by_file=True)] == [
        ["a"],
        ["b"],
        ["c"],
    ]


@given(st.lists(st.integers(0, 200 << 20), max_size=40), st.integers(1, 8))
def test_every_group_is_in_one_task_in_order_and_no_task_is_too_big(sizes: list[int], parallelism: int):
    groups = [(file(str(i), size),) for i, size in enumerate(sizes)]
    tasks = packed(groups, parallelism)
    assert [group for task in tasks for group in task] == groups
    for task in tasks:
        assert len(task) == 1 or sum(each.bytes + OPEN_BYTES for (each,) in task) <= TASK_BYTES


def test_little_files_are_shared_out_among_the_cores():
    groups = [(file(str(i), 1000),) for i in range(10)]
    assert [len(task) for task in packed(groups, 2)] == [5, 5]
    assert [len(task) for task in packed(groups, 1)] == [10]
    assert packed([], 2) == []


@given(st.lists(st.sampled_from([0, 1000, MERGED_BYTES // 2, MERGED_BYTES, 2 * MERGED_BYTES]), max_size=150))
def test_little_files_are_opened_together_in_order_and_large_ones_alone(sizes: list[int]):
    groups = [(file(str(i), size),) for i, size in enumerate(sizes)]
    merged = merged_groups(groups)
    assert [each for group in merged for each in group] == [each for group in groups for each in group]
    for group in merged:
        assert len(group) == 1 or (sum(each.bytes for each in group) <= MERGED_BYTES and len(group) <= MERGED_FILES)
    assert len(merged_groups([(file(str(i), 1000),) for i in range(MERGED_FILES + 1)])) == 2
