from __future__ import annotations

from datetime import timedelta

import pytest

from sleeper_nb.errors import AlreadyExists, NotFound, SleeperError, StateRuleBroken
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import AddFiles, DeleteFiles, ReplaceFileReferences, Transaction
from tests.builders import START, a_file, a_state, a_tree, point_after

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
    refused(AddFiles((a_file("f", LEFT),)), before, AlreadyExists, "f is in the table already")
    out_of_use = done(replaced("f", output=a_file("o", LEFT)), before)
    refused(AddFiles((a_file("f", LEFT),)), out_of_use, AlreadyExists, "already")


def test_a_file_is_added_to_a_partition_once():
    refused(AddFiles((a_file("f", LEFT), a_file("f", LEFT))), state(), StateRuleBroken, "twice")


def test_files_go_to_leaves():
    refused(AddFiles((a_file("f", "root"),)), state(), StateRuleBroken, "split")
    refused(AddFiles((a_file("f", "nowhere"),)), state(), NotFound, "nowhere")


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
