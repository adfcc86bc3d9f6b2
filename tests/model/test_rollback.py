from __future__ import annotations

import pytest

from sleeper_nb.errors import StateRuleBroken
from sleeper_nb.model.statistics import ColumnStatistics
from sleeper_nb.model.transactions import AddFiles, DeleteFiles, Rollback
from tests.support.builders import a_file, a_state, a_tree, point_after


def test_between_two_states_are_the_references_of_each_that_the_other_has_not():
    then = a_state(a_file("both"), a_file("gone"))
    now = a_state(a_file("both"), a_file("new"))
    change = Rollback.between(now, then)
    assert (change.removed, change.references, change.tree) == ((("root", "new"),), (a_file("gone"),), None)
    assert not change.is_nothing
    assert Rollback.between(now, now).is_nothing


def test_statistics_come_back():
    then = a_state(a_file("f", statistics=(ColumnStatistics("time", "timestamp", 1, 2, 0),)))
    (back,) = Rollback.between(a_state(), then).references
    assert back.statistics


def test_a_tree_that_is_another_comes_back_whole():
    then, now = a_state(), a_state(tree=a_tree("m"))
    change = Rollback.between(now, then)
    assert change.tree == then.tree
    assert change.apply(now, point_after(now)).tree == then.tree


def test_a_file_that_is_garbage_for_good_is_not_used_again():
    then = a_state(a_file("f"))
    emptied = Rollback.between(then, a_state()).apply(then, point_after(then))
    back = Rollback.between(emptied, then)
    back.validate(emptied)
    gone = DeleteFiles(("f",)).apply(emptied, point_after(emptied))
    with pytest.raises(StateRuleBroken, match="1 of its files were garbage, such as f"):
        back.validate(gone)


def test_a_partition_that_is_no_more_takes_no_files():
    state = a_state()
    with pytest.raises(
        StateRuleBroken, match="'left' was removed by a rollback or reinitialisation while f was written"
    ):
        AddFiles((a_file("f", "left"),)).validate(state)
