from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.admin.migrate import migrate_state_store
from sleeper_nb.errors import InvalidInput, NotFound, StateRuleBroken, StorageError
from sleeper_nb.load.ingest import IngestSettings
from sleeper_nb.model.properties import ONE_FILE_PER_LEAF
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.transactions import ClearTable
from sleeper_nb.read.predicate import IsIn, Pruning
from sleeper_nb.read.read_rows import leaf_rows
from sleeper_nb.read.row_processing import Processor
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions import expire as expiry
from sleeper_nb.versions.appends import (
    Append,
    BatchLimits,
    StreamRules,
    end_of_batch,
    files_appended,
    history_between,
    plan_appends,
)
from tests.servers.memory import memory_catalog
from tests.support.builders import (
    EMBEDDED,
    NOTHING,
    a_store,
    collect,
    compact,
    forget_all_but_newest,
    ingest,
    reopened,
    rows_of,
    snapshot,
    split,
)

SHARED = IngestSettings("one_reference_per_leaf")
KEYS = ["", "a", "b", "c", "é", "z"]
steps = st.one_of(
    st.tuples(st.just("ingest"), st.lists(st.sampled_from(KEYS), min_size=1, max_size=6), st.booleans()),
    st.tuples(st.just("compact"), st.sampled_from(["all", "basic"])),
    st.tuples(st.just("split"), st.sampled_from(KEYS[1:])),
    st.tuples(st.just("expire"), st.integers(1, 6)),
    st.tuples(st.just("collect")),
    st.tuples(st.just("migrate"), st.sampled_from(EMBEDDED)),
)


def between(store: StateStore, after: int, until: int, **options: bool) -> tuple[Snapshot, ...]:
    return history_between(store.catalog.snapshots(store.table_id), after, until, table="t", **options)


def rows_in(store: StateStore, appends: Iterable[Append]) -> Counter[tuple[str, int]]:
    """Return the rows that appends say they added, read from their files."""
    process = Processor.of(NOTHING, store.load().schema)
    found: Counter[tuple[str, int]] = Counter()
    for append in appends:
        for leaf in append.leaves:
            for batch in leaf_rows(leaf.files, process, store.storage):
                found.update(zip(batch["key"].to_pylist(), batch["n"].to_pylist(), strict=True))
    return found


def do(store: StateStore, step: tuple, number: int) -> Counter[tuple[str, int]] | None:
    """Do a step; return what it files_appended, None when it appends nothing."""
    store.clock.advance(timedelta(seconds=1))
    match step:
        case "ingest", keys, shared:
            rows = [(key, number) for key in keys]
            ingest(store, rows_of(*rows), settings=SHARED if shared else IngestSettings(ONE_FILE_PER_LEAF))
            return Counter(rows)
        case "compact", strategy:
            compact(store, strategy, batch_size=2)
        case "split", at:
            with contextlib.suppress(InvalidInput):  # it is a split point already
                split(store, at=at)
        case "expire", kept:
            expiry.expire_snapshots(store, expiry.Retention(timedelta(0), kept), dry_run=False)
        case ("collect",):
            collect(store)
        case "migrate", to:
            if store.name != "DynamoDBStateStore" and store.head().state_store != to:
                migrate_state_store(store, to)
    return None


@pytest.mark.parametrize("kind", [*EMBEDDED, "DynamoDBStateStore"])
@given(done=st.lists(steps, max_size=14), points=st.sampled_from([[], ["b"], ["b", "é"]]), picks=st.data())
def test_every_range_of_retained_snapshots_gives_the_rows_that_were_appended_in_it(kind, done, points, picks):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        catalog = memory_catalog(folder, max_items=7) if kind == "DynamoDBStateStore" else None
        store = a_store(folder, points=points, kind=kind, catalog=catalog)
        model: dict[int, Counter[tuple[str, int]]] = {}
        for number, step in enumerate(done):
            rows = do(store, step, number)
            if rows is not None:
                model[store.head().id] = rows
        head = store.head().id
        after = picks.draw(st.integers(1, head))
        until = picks.draw(st.integers(after, head))
        retained = {kept.id for kept in store.catalog.snapshots(store.table_id)}
        fresh = reopened(store)
        if not retained.issuperset(range(after + 1, until + 1)):
            with pytest.raises(NotFound, match="has expired before the stream read it"):
                between(fresh, after, until)
        else:
            found = plan_appends(between(fresh, after, until), fresh.load)
            expected = {number: rows for number, rows in model.items() if after < number <= until}
            assert [append.snapshot_id for append in found] == sorted(expected)
            for append in found:
                assert rows_in(fresh, [append]) == expected[append.snapshot_id]
            wanted = picks.draw(st.sets(st.sampled_from(KEYS)))
            pruning = Pruning.of(IsIn("key", tuple(wanted)), fresh.load().schema)
            some = plan_appends(between(fresh, after, until), fresh.load, lambda _: pruning)
            files = {file.filename for append in some for leaf in append.leaves for file in leaf.files}
            assert files <= {file.filename for append in found for leaf in append.leaves for file in leaf.files}
            of_keys = Counter({row: n for rows in expected.values() for row, n in rows.items() if row[0] in wanted})
            read = rows_in(fresh, some)
            assert Counter({row: n for row, n in read.items() if row[0] in wanted}) == of_keys
        store.catalog.close()


@pytest.mark.parametrize("later", [("split", "b"), ("compact", "all")], ids=["split", "compacted"])
def test_a_wanted_file_that_was_moved_or_merged_since_is_found(tmp_path: Path, later: tuple):
    store = a_store(tmp_path)
    for number in range(2):
        do(store, ("ingest", ["a", "c"], False), number)
    do(store, later, 2)
    pruning = Pruning.of(IsIn("key", ("a",)), store.load().schema)
    found = plan_appends(between(store, 1, store.head().id), store.load, lambda _: pruning)
    assert [append.snapshot_id for append in found] == [2, 3]
    assert rows_in(store, found)[("a", 0)] == rows_in(store, found)[("a", 1)] == 1


def counting(store: StateStore, asked: list[int]):
    def load(version: Snapshot):
        asked.append(version.id)
        return store.load(version)

    return load


def test_one_state_tells_of_any_number_of_commits(store: StateStore):
    for i in range(20):
        ingest(store, rows_of(("a", i)))
    compact(store)
    asked: list[int] = []
    found = plan_appends(between(store, 3, 22), counting(store, asked))
    assert [append.snapshot_id for append in found] == list(range(4, 22))
    assert asked == [22]
    assert rows_in(store, found) == Counter(("a", i) for i in range(2, 20))


def test_ranges_without_appends_load_nothing(store: StateStore):
    ingest(store, rows_of("a"))
    ingest(store, rows_of("b"))
    compact(store)
    split(store, at="b")
    asked: list[int] = []
    assert plan_appends(between(store, 3, 5), counting(store, asked)) == ()
    assert plan_appends(between(store, 5, 5), counting(store, asked)) == ()
    assert asked == []


def test_a_file_of_several_leaves_is_read_once_for_each_and_cut_to_it(tmp_path: Path, clock):
    store = a_store(tmp_path, points=["b", "c"], clock=clock)
    ingest(store, rows_of("a", "b", "c", "d"), settings=SHARED)
    (append,) = plan_appends(between(store, 1, 2), store.load)
    names = [file.filename for leaf in append.leaves for file in leaf.files]
    assert (len(names), len(set(names))) == (3, 1)
    assert all(file.region == leaf.partition.region for leaf in append.leaves for file in leaf.files)
    assert rows_in(store, [append]) == Counter((key, 0) for key in "abcd")


def test_an_expired_snapshot_is_named_with_the_earliest_that_can_be_reached(store: StateStore):
    for key in "abcd":
        ingest(store, rows_of(key))
    store.catalog.expire_snapshots(store.table_id, [1, 2, 3], store.clock.now())
    with pytest.raises(NotFound, match="snapshot 3 of table 't' has expired") as caught:
        between(store, 2, 5)
    assert "at snapshot 4 or a later one" in caught.value.hint
    assert [s.id for s in between(store, 3, 5)] == [4, 5]  # what was read may expire


def test_what_was_read_and_expired_is_not_asked_for_again(store: StateStore):
    ingest(store, rows_of("a"))
    forget_all_but_newest(store)
    assert between(store, 2, 2) == ()


def rolled_back(store: StateStore, at: int, to: int) -> list[Snapshot]:
    """Return the history as a rollback in place of snapshot `at` would have it."""
    kept = store.catalog.snapshots(store.table_id)
    return [replace(s, operation="rollback", message=f"to {to}") if s.id == at else s for s in kept]


def test_a_rollback_stops_a_reader_that_was_not_told_to_pass_over_it(store: StateStore):
    for key in "abcd":
        ingest(store, rows_of(key))
    history = rolled_back(store, 4, 2)
    with pytest.raises(StateRuleBroken, match="snapshot 4 of table 't' is a rollback") as caught:
        history_between(history, 1, 5, table="t")
    assert "streaming.skip-rollbacks=true" in caught.value.hint
    found = history_between(history, 1, 5, table="t", rules=StreamRules(skip_rollbacks=True))
    asked: list[int] = []
    appends = plan_appends(found, counting(store, asked))
    assert [append.snapshot_id for append in appends] == [2, 3, 5]
    assert asked == [3, 5]  # partitions that the rollback took away are in the state before it
    assert rows_in(store, appends) == Counter({("a", 0): 1, ("b", 0): 1, ("d", 0): 1})


@pytest.mark.parametrize("operation", [ClearTable.operation, "delete"])
def test_a_reinitialisation_and_an_operation_of_a_later_release_stop_every_reader(operation: str):
    history = [snapshot(2), snapshot(3, operation=operation)]
    with pytest.raises(StateRuleBroken, match=f"operation '{operation}'"):
        history_between(history, 1, 3, table="t", rules=StreamRules(skip_rollbacks=True))


def test_a_commit_whose_files_are_not_all_known_is_an_error_not_fewer_rows(store: StateStore):
    ingest(store, rows_of("a"))
    made = replace(store.head(), added_references=2)
    with pytest.raises(StorageError, match="snapshot 2 added 2 references to files, but metadata has 1 of them"):
        list(files_appended(store.load(), [made]))


HISTORY = [
    snapshot(2, added_files=2, added_rows=10),
    snapshot(3, operation="compact"),
    snapshot(4, added_files=3, added_rows=5),
    snapshot(5, operation="split"),
    snapshot(6, added_files=1, added_rows=100),
    snapshot(7, operation="collect-garbage"),
]


@pytest.mark.parametrize(
    ("limits", "end"),
    [
        (BatchLimits(), 7),
        (BatchLimits(snapshots=1), 3),
        (BatchLimits(snapshots=2), 5),
        (BatchLimits(snapshots=3), 7),
        (BatchLimits(files=1), 3),
        (BatchLimits(files=5), 5),
        (BatchLimits(rows=14), 3),
        (BatchLimits(rows=15), 5),
        (BatchLimits(snapshots=9, files=9, rows=114), 5),
    ],
)
def test_a_batch_takes_whole_commits_and_at_least_one(limits: BatchLimits, end: int):
    assert end_of_batch(HISTORY, 1, limits) == end


def test_a_batch_without_commits_ends_where_it_begins():
    assert end_of_batch([], 7, BatchLimits(snapshots=1)) == 7
