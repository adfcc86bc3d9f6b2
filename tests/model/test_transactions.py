from __future__ import annotations

from datetime import timedelta

import pytest

from sleeper_nb.errors import AlreadyExists, SleeperError, StateRuleBroken
from sleeper_nb.model.partitions import PartitionSplit
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import (
    AddFiles,
    DeleteFiles,
    ReplaceFileReferences,
    SplitPartitions,
    Transaction,
)
from tests.support.builders import START, a_file, a_state, a_tree, point_after

TREE = a_tree("m")
LEFT, RIGHT = (leaf.id for leaf in TREE.leaves)


def state(*files) -> TableState:
    return a_state(*files, tree=TREE)


def done(change: Transaction, before: TableState) -> TableState:
    change.validate(before)
    return change.apply(before, point_after(before))


def refused(change: Transaction, before: TableState, kind: type[SleeperError], words: str) -> None:
    table = before.files.table
    with pytest.raises(kind, match=words):
        change.validate(before)
    assert before.files.table is table


def replaced(*inputs: str, output=None, partition: str = LEFT) -> ReplaceFileReferences:
    return ReplaceFileReferences("job", partition, inputs, output)


def test_added_files_are_active_from_the_new_snapshot_on():
    after = done(AddFiles((a_file("f", LEFT), a_file("g", RIGHT, keys=("m", "z")))), state())
    assert after.snapshot_id == 2
    assert after.files.active["added_snapshot"].to_pylist() == [2, 2]
    assert after.totals() == (2, 2, 20)


def test_a_file_that_is_tracked_cannot_be_added_not_even_after_it_went_out_of_use():
    before = state(a_file("f", LEFT))
    refused(AddFiles((a_file("f", LEFT),)), before, AlreadyExists, "f is already in the table")
    out_of_use = done(replaced("f", output=a_file("o", LEFT)), before)
    refused(AddFiles((a_file("f", LEFT),)), out_of_use, AlreadyExists, "already")


def test_a_file_is_added_to_a_partition_once():
    refused(AddFiles((a_file("f", LEFT), a_file("f", LEFT))), state(), StateRuleBroken, "twice")


def test_files_go_to_leaves():
    refused(AddFiles((a_file("f", "root"),)), state(), StateRuleBroken, "split")
    refused(AddFiles((a_file("f", "nowhere"),)), state(), StateRuleBroken, "nowhere")


@pytest.mark.parametrize("keys", [("a", "m"), ("m", "z")])
def test_a_file_with_keys_outside_its_leaf_is_refused(keys: tuple[str, str]):
    refused(AddFiles((a_file("f", LEFT, keys=keys),)), state(), StateRuleBroken, "outside")


def test_a_file_may_feed_two_leaves_when_its_references_say_that_they_are_partial():
    parts = [a_file("f", leaf, keys=("a", "z"), only_this_partition=False) for leaf in (LEFT, RIGHT)]
    assert done(AddFiles(tuple(parts)), state()).files.active_in({LEFT, RIGHT}) == tuple(
        sorted(parts, key=lambda part: part.partition_id)
    )


def test_a_compaction_ends_its_inputs_and_adds_its_output():
    after = done(replaced("f", "g", output=a_file("o", LEFT, 2)), state(*(a_file(n, LEFT) for n in "fgh")))
    assert {r.filename for r in after.files.active_in({LEFT})} == {"h", "o"}
    assert set(after.files.ready_for_gc["removed_snapshot"].to_pylist()) == {2}
    assert set(after.files.ready_for_gc["updated_at"].to_pylist()) == {START + timedelta(minutes=1)}


def test_a_compaction_that_left_no_row_only_ends_its_inputs():
    after = done(replaced("f"), state(a_file("f", LEFT)))
    assert after.totals() == (0, 0, 0)
    assert after.files.knows("f")


def test_a_compaction_ends_the_reference_of_its_own_partition_only():
    parts = [a_file("f", leaf, keys=("a", "z"), only_this_partition=False) for leaf in (LEFT, RIGHT)]
    after = done(replaced("f", output=a_file("o", LEFT)), state(*parts))
    assert [r.filename for r in after.files.active_in({RIGHT})] == ["f"]


def test_inputs_must_be_active_on_the_partition():
    before = state(a_file("f", LEFT), a_file("r", RIGHT, keys=("m", "z")))
    output = a_file("o", LEFT)
    refused(replaced("none", output=output), before, StateRuleBroken, "lost its input none")
    refused(replaced("f", "r", output=output), before, StateRuleBroken, "lost its input r")
    after = done(replaced("f", output=output), before)
    refused(replaced("f", output=a_file("p", LEFT)), after, StateRuleBroken, "lost its input f")


def test_the_output_is_new_is_no_input_and_lies_on_the_partition():
    before = state(a_file("f", LEFT), a_file("g", LEFT))
    refused(replaced("f", output=a_file("g", LEFT)), before, AlreadyExists, "g")
    refused(replaced("f", output=a_file("f", LEFT)), before, AlreadyExists, "f")
    elsewhere = a_file("o", RIGHT, keys=("m", "z"))
    refused(replaced("f", output=elsewhere), before, StateRuleBroken, "another partition")
    refused(replaced("f", output=a_file("o", LEFT, keys=("a", "z"))), before, StateRuleBroken, "outside")


def test_only_files_out_of_use_can_be_deleted():
    parts = [a_file("f", leaf, keys=("a", "z"), only_this_partition=False) for leaf in (LEFT, RIGHT)]
    before = state(*parts)
    refused(DeleteFiles(("f",)), before, StateRuleBroken, "in use")
    half = done(replaced("f"), before)
    refused(DeleteFiles(("f",)), half, StateRuleBroken, "in use")
    after = done(DeleteFiles(("f",)), done(replaced("f", partition=RIGHT), half))
    assert not after.files.knows("f")


def test_the_partitions_stay_the_same_value_when_files_change():
    before = state()
    assert done(AddFiles((a_file("f", LEFT),)), before).tree is before.tree


CUT = PartitionSplit(LEFT, 0, "b", ("a-b", "b-m"))


def split(*references, splits=(CUT,)) -> SplitPartitions:
    return SplitPartitions(splits, references)


def test_a_split_moves_each_file_to_the_new_leaves_that_have_its_rows():
    before = state(
        a_file("f", LEFT, 3, keys=("a", "c")),
        a_file("g", LEFT, 2, keys=("b", "c")),
        a_file("h", RIGHT, keys=("m", "z")),
    )
    both = (
        a_file("f", "a-b", 1, keys=("a", "c"), only_this_partition=False),
        a_file("f", "b-m", 2, keys=("a", "c"), only_this_partition=False),
    )
    after = done(split(*both, a_file("g", "b-m", 2, keys=("b", "c"))), before)
    assert [leaf.id for leaf in after.tree.leaves] == ["a-b", "b-m", RIGHT]
    assert {(r.filename, r.partition_id, r.rows) for r in after.files.active_in(["a-b", "b-m", LEFT])} == {
        ("f", "a-b", 1), ("f", "b-m", 2), ("g", "b-m", 2)
    }  # fmt: skip
    assert after.totals().rows == before.totals().rows
    assert set(after.files.ready_for_gc["partition_id"].to_pylist()) == {LEFT}
    assert before.tree[LEFT].is_leaf


def test_a_split_can_cut_what_it_made():
    again = PartitionSplit("b-m", 1, 5, ("low", "high"))
    after = done(split(a_file("f", "high", keys=("b", "b"), only_this_partition=False), splits=(CUT, again)),
                 state(a_file("f", LEFT, keys=("b", "b"))))  # fmt: skip
    assert [leaf.id for leaf in after.tree.leaves] == ["a-b", "low", "high", RIGHT]
    assert split(splits=(CUT, again)).leaves == (LEFT,)
    after.tree.check()


@pytest.mark.parametrize(
    ("references", "words"),
    [
        ((), "0 of the 2 rows of f"),
        ((a_file("f", "a-b", 1, keys=("a", "a")),), "1 of the 2 rows of f"),
        ((a_file("f", "a-b", 3, keys=("a", "a")),), "3 of the 2 rows of f"),
        (
            (a_file("f", "a-b", 2, keys=("a", "a")), a_file("x", "a-b", 1, keys=("a", "a"))),
            "x was removed from its partition",
        ),
        ((a_file("f", "b-m", 2, keys=("a", "a")),), "outside"),
        ((a_file("f", RIGHT, 2, keys=("a", "a")),), "is not a new leaf"),
        ((a_file("f", LEFT, 2, keys=("a", "a")),), "is not a new leaf"),
    ],
)
def test_a_split_that_does_not_conserve_rows_is_refused(references, words: str):
    refused(split(*references), state(a_file("f", LEFT, 2, keys=("a", "a"))), StateRuleBroken, words)


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        (PartitionSplit("root", 0, "b", ("x", "y")), "split in the meantime"),
        (PartitionSplit("nowhere", 0, "b", ("x", "y")), "split in the meantime"),
        (PartitionSplit(LEFT, 0, "m", ("x", "y")), "does not split"),
        (PartitionSplit(RIGHT, 0, "m", ("x", "y")), "does not split"),
        (PartitionSplit(LEFT, 0, "b", ("x", "x")), "not new and different"),
        (PartitionSplit(LEFT, 0, "b", ("x", RIGHT)), "not new and different"),
    ],
)
def test_a_split_of_what_cannot_be_split_is_refused(cut: PartitionSplit, words: str):
    refused(split(splits=(cut,)), state(), StateRuleBroken, words)
