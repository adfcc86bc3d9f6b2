from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.clock import Clock, ManualClock
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.partitions import Partition, PartitionTree, Range, Region
from sleeper_nb.model.schema import Schema
from tests.support.builders import KEYED, a_tree, leaf_of

TWO = Schema({"a": "int", "b": "string"})
keys = st.tuples(st.integers(-3, 12), st.text("azé\U0001f600", max_size=2))


@st.composite
def trees(draw: st.DrawFn) -> PartitionTree:
    """A tree over two dimensions, grown by random splits."""
    tree = PartitionTree((Partition("root", Region.whole(TWO)),))
    for step in range(draw(st.integers(0, 6))):
        leaf = draw(st.sampled_from(tree.leaves))
        key = draw(keys)
        dimension = draw(st.integers(0, 1))
        here = leaf.region.ranges[dimension]
        if key[dimension] in here and key[dimension] != here.min:
            tree = tree.split(leaf.id, dimension, key[dimension], (f"l{step}", f"r{step}"))
    return tree


@given(trees(), keys)
def test_each_key_is_in_one_leaf(tree: PartitionTree, key: Any):
    tree.check()
    assert sum(key in leaf.region for leaf in tree.leaves) == 1


@given(trees(), keys, keys)
def test_the_leaves_of_a_region_are_those_that_meet_it(tree: PartitionTree, low: Any, high: Any):
    region = Region((Range(low[0], high[0]), Range(low[1], high[1])))
    found = {leaf.id for leaf in tree.leaves_in(region)}
    for key in (low, (low[0], ""), (low[0], low[1] + "z")):
        assert key not in region or leaf_of(tree, key).id in found


@given(trees(), keys)
def test_a_leafs_ancestors_end_at_the_root_and_cover_it(tree: PartitionTree, key: Any):
    leaf = leaf_of(tree, key)
    above = tree.ancestors(leaf.id)
    assert all(p.region.covers(leaf.region) for p in above)
    assert (not above and leaf is tree.root) or above[-1] == tree.root


@given(st.lists(st.text(max_size=3), unique=True, max_size=20), st.text(max_size=3))
def test_split_points_give_one_leaf_more_and_meet_where_they_say(points: list[str], key: str):
    points = sorted(points)
    tree = a_tree(*points)
    tree.check()
    assert len(tree.leaves) == len(points) + 1
    assert [leaf.region.ranges[0].min for leaf in tree.leaves] == [None, *points]
    assert [leaf.region.ranges[0].max for leaf in tree.leaves] == [*points, None]
    assert tree.leaves.index(leaf_of(tree, (key, 0))) == sum(point <= key for point in points)


def test_the_tree_of_split_points_is_balanced():
    tree = a_tree(*(f"{i:03d}" for i in range(63)))
    assert {len(tree.ancestors(leaf.id)) for leaf in tree.leaves} == {6}


def test_ids_that_begin_alike_are_drawn_again():
    class Stutter(ManualClock):
        def new_id(self) -> str:
            return super().new_id()[:1] * 32

    tree = PartitionTree.from_split_points(KEYED, ["b", "d", "f"], Stutter().new_id)
    assert len({partition.id for partition in tree.partitions}) == len(tree.partitions) == 7
    tree.check()


def test_thousands_of_split_points_make_a_tree_at_once():
    tree = PartitionTree.from_split_points(Schema({"k": "int"}), range(20_000), Clock().new_id)
    assert len(tree.leaves) == 20_001


@pytest.mark.parametrize("points", [["b", "a"], ["a", "a"], [1], ["a", None], ["\ud800"]])
def test_split_points_that_do_not_grow_or_fit_are_refused(points: list[Any]):
    with pytest.raises(InvalidInput):
        a_tree(*points)


def test_bytes_and_supplementary_characters_split_by_their_bytes():
    tree = PartitionTree.from_split_points(Schema({"k": "bytearray"}), [b"\x7f", b"\x80"], ManualClock().new_id)
    found = [leaf_of(tree, (key,)) for key in (b"\x7e\xff", b"\x7f", b"\x80", b"\xff")]
    assert [tree.leaves.index(leaf) for leaf in found] == [0, 1, 2, 2]
    words = a_tree("\uffff")
    assert words.leaves.index(leaf_of(words, ("\U00010000", 0))) == 1  # UTF-16 would put it left


@pytest.mark.parametrize("point", ["m", "", "zz"])
def test_a_split_outside_a_leafs_range_is_refused(point: str):
    tree = a_tree("m")
    leaf = tree.leaves[0] if point == "zz" else tree.leaves[1]
    with pytest.raises(InvalidInput, match="does not split"):
        tree.split(leaf.id, 0, point, ("x", "y"))


def test_a_partition_is_split_once_and_into_two_new_ones():
    tree = a_tree("m")
    with pytest.raises(InvalidInput, match="already split"):
        tree.split("root", 0, "x", ("x", "y"))
    for names in (("x", "x"), ("root", "x"), (tree.leaves[1].id, "x")):
        with pytest.raises(InvalidInput, match="new"):
            tree.split(tree.leaves[0].id, 0, "c", names)


def test_an_unknown_partition_is_named_with_the_nearest():
    with pytest.raises(NotFound, match="rot") as error:
        a_tree()["rot"]
    assert "root" in (error.value.hint or "")


@pytest.mark.parametrize("fault", ["gap", "overlap", "parent", "other dimension", "swapped"])
def test_check_finds_children_that_do_not_tile_their_parent(fault: str):
    root = Partition("root", Region((Range(), Range())), None, ("l", "r"), 0)
    left = Partition("l", Region((Range(None, 5), Range())), "root")
    right = Partition("r", Region((Range(5, None), Range())), "root")
    if fault == "gap":
        right = Partition("r", Region((Range(6, None), Range())), "root")
    if fault == "overlap":
        right = Partition("r", Region((Range(4, None), Range())), "root")
    if fault == "parent":
        left = Partition("l", left.region, "r")
    if fault == "other dimension":
        left = Partition("l", Region((Range(None, 5), Range("a", None))), "root")
    if fault == "swapped":
        left, right = Partition("l", right.region, "root"), Partition("r", left.region, "root")
    with pytest.raises(InvalidInput, match="'root'"):
        PartitionTree((root, left, right)).check()


@given(*[st.tuples(st.none() | st.integers(0, 5), st.none() | st.integers(0, 5))] * 2, st.integers(-1, 6))
def test_an_intersection_holds_what_both_hold(one: Any, other: Any, value: int):
    both = Range(*one).intersect(Range(*other))
    assert (value in Range(*one) and value in Range(*other)) == (both is not None and value in both)


def test_regions_are_shown_with_their_ends():
    schema = Schema({"city": "string", "n": "int"})
    assert Region((Range("a", None), Range(None, 5))).text(schema) == "city [a, ∞), n (-∞, 5)"
    assert Region((Range("a", "b"), Range())).text(schema) == "city [a, b)"
    assert Region.whole(schema).text(schema) == "every key"


def test_only_leaves_are_proposed_where_a_leaf_is_wanted():
    tree = PartitionTree((Partition("root", Region.whole(TWO)),)).split("root", 0, 5, ("low", "high"))
    tree.check_is_leaf("low")
    for name, kind in (("root", InvalidInput), ("zz", NotFound)):
        with pytest.raises(kind) as caught:
            tree.check_is_leaf(name)
        assert caught.value.hint == "available: low, high"
