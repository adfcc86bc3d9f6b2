"""Unique keys on every state store: no key twice, whatever is loaded, and whoever loads or alters at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.admin.alter import alter
from sleeper_nb.edit.apply_edits import EditSettings
from sleeper_nb.errors import InvalidInput, NotFound, StateRuleBroken
from sleeper_nb.load.ingest import IngestSettings
from sleeper_nb.model.evolution import SetUniqueKeys
from sleeper_nb.model.processing import NOTHING
from sleeper_nb.model.properties import ONE_FILE_PER_LEAF
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import SnapshotReference
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.resolve import resolve
from sleeper_nb.versions.roll_back import roll_back
from tests.support.backends import Tables
from tests.support.builders import a_store, compact, ingest, on_disk, reachable, rows_of, scan, split
from tests.support.edits import ALWAYS_VECTORS, NEVER_VECTORS, change
from tests.support.interleavings import Gate, Outcome, Stage, Template, explore

KINDS = (
    ("S3StateStore", "sqlite"), ("TransactionLogStateStore", "sqlite"), ("S3StateStore", "memory"),
    ("DynamoDBStateStore", "memory"),
)  # fmt: skip
UNIQUE = Schema({"key": "string", "n": "int"}, {}, {"value": "string?"}, unique_keys=True)


def set_unique(store: StateStore, unique: bool = True) -> Any:
    return alter(store, "table", [SetUniqueKeys(unique)], NOTHING, dry_run=False)


def keys_of(store: StateStore) -> Counter[tuple[str, int]]:
    rows = scan(store)
    return Counter(zip(rows["key"].to_pylist(), rows["n"].to_pylist(), strict=True))


def test_a_key_is_loaded_once(tables: Tables):
    store = tables.opened(schema=UNIQUE, points=("h", "p"))
    ingest(store, rows_of("a", ("a", 1), "k", "z"))
    files = on_disk(store)
    for rows, words in (
        (rows_of("b", "b"), "key = 'b', n = 0 occurs 2 times in the rows"),
        (rows_of("b", ("a", 1)), "key = 'a', n = 1 is in the table already"),
        (rows_of("zz", "z", "z"), "key = 'z', n = 0 occurs 2 times in the rows"),
    ):
        with pytest.raises(InvalidInput, match=words):
            ingest(store, rows)
    assert (on_disk(store), store.head().id) == (files, 2)
    ingest(store, rows_of(("a", 2), "b", "kk"))
    compact(store)
    split(store, at="b")
    with pytest.raises(InvalidInput, match="already"):
        ingest(store, rows_of("kk"))
    assert set(keys_of(store).values()) == {1}
    assert on_disk(store) >= reachable(store)


def test_a_table_gets_unique_keys_when_its_keys_are(tables: Tables):
    store = tables.opened(points=("h",))
    ingest(store, rows_of("a", "k"))
    ingest(store, rows_of("a"))
    before = store.head()
    with pytest.raises(InvalidInput, match="key = 'a', n = 0 occurs more than once"):
        set_unique(store)
    assert store.head() == before
    roll_back(store, resolve(store.catalog, store.table_id, "table", SnapshotReference(2)), dry_run=False)
    set_unique(store)
    with pytest.raises(InvalidInput, match="already"):
        ingest(store, rows_of("a"))
    with pytest.raises(InvalidInput, match="not checked by unique keys"):
        roll_back(store, resolve(store.catalog, store.table_id, "table", SnapshotReference(3)), dry_run=False)
    set_unique(store, unique=False)
    ingest(store, rows_of("a"))


def test_only_files_whose_keys_overlap_are_read(tables: Tables):
    store = tables.opened(schema=UNIQUE, points=("h", "p"))
    for keys in (("a", "c"), ("d", "f"), ("i", "k"), ("q", "z")):
        ingest(store, rows_of(*keys))
    for file in store.load().files.active.to_pylist():
        if file["min_key"] != "a":
            store.storage.delete(file["filename"])
    ingest(store, rows_of("b"))
    with pytest.raises(NotFound):
        ingest(store, rows_of("e"))


@given(
    st.lists(st.tuples(st.lists(st.tuples(st.sampled_from("abchpz"), st.integers(0, 2)), max_size=4), st.booleans()))
)
def test_a_load_is_refused_exactly_when_a_plain_set_says_so(
    tmp_path_factory: pytest.TempPathFactory, loads: list[tuple[list[tuple[str, int]], bool]]
):
    store = a_store(tmp_path_factory.mktemp("unique"), UNIQUE, ["h", "p"])
    held: set[tuple[str, int]] = set()
    for keys, file_per_leaf in loads:
        one_file = IngestSettings("one_reference_per_leaf")
        settings = IngestSettings(ONE_FILE_PER_LEAF) if file_per_leaf else one_file
        if len(set(keys)) < len(keys) or held & set(keys):
            with pytest.raises(InvalidInput, match="unique keys"):
                ingest(store, rows_of(*keys), settings=settings)
        else:
            ingest(store, rows_of(*keys), settings=settings)
            held |= set(keys)
        if file_per_leaf:
            compact(store)
    assert keys_of(store) == Counter(held)
    assert on_disk(store) >= reachable(store)


@pytest.fixture(params=KINDS, ids=" on ".join)
def template(request: pytest.FixtureRequest, tmp_path: Path) -> Template:
    def prepare(store: StateStore) -> None:
        ingest(store, rows_of("a", "z"))
        if "exactly_one" in request.node.name:
            set_unique(store)

    return Template(tmp_path, *request.param, prepare)


def test_of_two_loads_of_a_key_at_once_exactly_one_wins(template: Template):
    def load(*keys: str) -> Any:
        return lambda stage, gate: ingest(stage.opened(gate), rows_of(*keys))

    winners = set()

    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        (lost,) = (name for name, each in outcomes.items() if each.error)
        assert isinstance(outcomes[lost].error, InvalidInput), outcomes[lost].error
        assert "key = 'm', n = 0 is in the table already" in str(outcomes[lost].error)
        winners.add(lost)
        store = stage.opened()
        assert keys_of(store) == Counter([(key, 0) for key in ("a", "z", "m", "b" if lost == "second" else "c")])
        assert on_disk(store) == reachable(store) | {p for p in on_disk(store) if not p.startswith("data/")}

    explore(template.copy, {"first": load("b", "m"), "second": load("c", "m")}, check, most_switches=1)
    assert winners == {"first", "second"}


def test_loads_of_different_keys_at_once_all_win_exactly_one_each(template: Template):
    def load(*keys: str) -> Any:
        return lambda stage, gate: ingest(stage.opened(gate), rows_of(*keys))

    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        for each in outcomes.values():
            if each.error:
                raise each.error
        assert keys_of(stage.opened()) == Counter([(key, 0) for key in "abcz"])

    explore(template.copy, {"first": load("b"), "second": load("c")}, check, most_switches=1)


def test_a_load_meanwhile_does_not_break_the_promise_that_a_table_gets(template: Template):
    def load(stage: Stage, gate: Gate) -> Any:
        return ingest(stage.opened(gate), rows_of("a"))

    def promise(stage: Stage, gate: Gate) -> Any:
        return set_unique(stage.opened(gate))

    refused = set()

    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        (lost,) = (name for name, each in outcomes.items() if each.error)
        error = outcomes[lost].error
        assert isinstance(error, InvalidInput | StateRuleBroken), error
        assert any(words in str(error) for words in ("occurs more than once", "already", "was given unique keys"))
        refused.add(lost)
        store = stage.opened()
        unique = store.load().schema.unique_keys
        assert unique == (lost == "load")
        assert keys_of(store)["a", 0] == (1 if unique else 2)

    explore(template.copy, {"load": load, "promise": promise}, check, most_switches=1)
    assert refused == {"load", "promise"}


@pytest.mark.parametrize("how", [ALWAYS_VECTORS, NEVER_VECTORS], ids=["vectors", "files"])
@pytest.mark.parametrize(("kind", "catalog"), KINDS)
def test_a_deleted_key_that_is_loaded_while_a_rollback_brings_it_back_is_there_once(
    tmp_path: Path, kind: str, catalog: Any, how: EditSettings
):
    def prepare(store: StateStore) -> None:
        set_unique(store)
        ingest(store, rows_of("a", "b", "z"))
        change(store, delete=lambda row: row["key"] == "a", settings=how)

    def load(stage: Stage, gate: Gate) -> Any:
        return ingest(stage.opened(gate), rows_of("a"))

    def undo(stage: Stage, gate: Gate) -> Any:
        store = stage.opened(gate)
        return roll_back(store, resolve(store.catalog, store.table_id, "table", SnapshotReference(3)), dry_run=False)

    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        assert outcomes["load"].error is None or "already" in str(outcomes["load"].error)
        assert outcomes["undo"].error is None
        assert keys_of(stage.opened()) == Counter([("a", 0), ("b", 0), ("z", 0)])

    explore(Template(tmp_path, kind, catalog, prepare).copy, {"load": load, "undo": undo}, check, most_switches=1)
