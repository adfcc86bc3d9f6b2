from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.maintain.collect_garbage import collectable_files
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import AddFiles, ReplaceFileReferences, Rollback
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.delete_savepoint import delete_savepoint, kept_alone, plan_savepoint_deletion
from tests.support.builders import (
    a_state,
    a_tree,
    collect,
    compact,
    forget_all_but_newest,
    ingest,
    point_after,
    rows_of,
    save,
)

LEAVES = [leaf.id for leaf in a_tree("m").leaves]


def uses_of(name: str, leaves: list[str], size: int) -> tuple[FileReference, ...]:
    """Return the references of some leaves to one file, as wide as they are."""
    keys = {(LEAVES[0],): ("a", "b"), (LEAVES[1],): ("x", "y")}.get(tuple(leaves), ("a", "y"))
    return tuple(
        FileReference(name, leaf, 1, size, (keys[0], 0), (keys[1], 9), only_this_partition=len(leaves) == 1)
        for leaf in leaves
    )


@st.composite
def states(draw: st.DrawFn) -> TableState:
    """A state in which files came and went, and came back by rollbacks, some of them shared by both leaves."""
    state, live = a_state(tree=a_tree("m")), {leaf: set() for leaf in LEAVES}
    older = [(state, live)]
    for number in range(draw(st.integers(1, 8))):
        leaf = draw(st.sampled_from(LEAVES))
        live = {each: set(names) for each, names in live.items()}
        if draw(st.integers(0, 4)) == 0:
            then, live = draw(st.sampled_from(older))
            change = Rollback.between(state, then)
        elif live[leaf] and draw(st.booleans()):
            gone = draw(st.sets(st.sampled_from(sorted(live[leaf])), min_size=1))
            made = uses_of(f"o{number}", [leaf], 1 + number)
            change = ReplaceFileReferences("j", leaf, tuple(sorted(gone)), made[0])
            live[leaf] = (live[leaf] - gone) | {f"o{number}"}
        else:
            leaves = draw(st.sampled_from([[leaf], LEAVES]))
            change = AddFiles(uses_of(f"f{number}", leaves, 1 + number))
            for each in leaves:
                live[each].add(f"f{number}")
        change.validate(state)
        state = change.apply(state, point_after(state))
        older.append((state, live))
    return state


@given(states(), st.data())
def test_what_a_version_alone_keeps_is_what_becomes_garbage_without_it(state: TableState, data: st.DataObject):
    numbers = range(1, state.snapshot_id + 1)
    retained = data.draw(st.sets(st.sampled_from(numbers))) | {state.snapshot_id}
    table = state.files.table
    sizes = dict(zip(table["filename"].to_pylist(), table["bytes"].to_pylist(), strict=True))
    found = kept_alone(state.files, retained)
    now = point_after(state).time
    before = set(collectable_files(state, retained, now, timedelta(0)))
    for number in retained - {state.snapshot_id}:
        freed = set(collectable_files(state, retained - {number}, now, timedelta(0))) - before
        if not freed:
            assert number not in found
        else:
            assert (found[number].files, found[number].bytes) == (len(freed), sum(sizes[name] for name in freed))


def test_the_plan_of_a_deletion_says_what_garbage_collection_takes_then(store: StateStore):
    ingest(store, rows_of("a"))
    ingest(store, rows_of("b"))
    one, two = save(store, "fix"), save(store)
    assert plan_savepoint_deletion(store, one).others == ("snapshot 3", "savepoint 2")
    compact(store)
    forget_all_but_newest(store)
    collect(store)
    plan = plan_savepoint_deletion(store, one)
    assert (plan.others, plan.files, plan.loses_version) == (("savepoint 2",), 0, False)
    delete_savepoint(store, two)
    plan = plan_savepoint_deletion(store, one)
    assert (plan.others, plan.files, plan.loses_version) == ((), 2, True)
    assert "would be gone: nothing else keeps it" in repr(plan)
    delete_savepoint(store, one)
    done = collect(store)
    assert (len(done.data_files), done.bytes) == (plan.files, plan.bytes)


@pytest.mark.parametrize("retained", [[], [1], [1, 2]])
def test_a_table_without_files_out_of_use_keeps_nothing_alone(retained: list[int]):
    assert kept_alone(a_state().files, retained) == {}
