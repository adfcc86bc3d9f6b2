"""Versions that are saved, let go and cleaned away at once: every order of the steps, on every state store.

Every order in which an operation that could go on is interrupted once, or twice where there are few steps; and once
more with ``--hypothesis-profile=nightly``, which tries every state store with every catalog.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from sleeper_nb.errors import AlreadyExists, NotFound, StateRuleBroken
from sleeper_nb.model.snapshots import SnapshotReference
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.delete_savepoint import delete_savepoint
from sleeper_nb.versions.expire import Retention, expire_snapshots
from sleeper_nb.versions.leases import Leases
from sleeper_nb.versions.resolve import resolve
from sleeper_nb.versions.roll_back import roll_back
from tests.support.builders import (
    collect,
    compact,
    ingest,
    on_disk,
    reachable,
    rows_hash,
    rows_of,
    save,
)
from tests.support.interleavings import Gate, Outcome, Stage, Template, explore

pytestmark = pytest.mark.long

NIGHTLY = settings.get_current_profile_name() == "nightly"
TABLES = {
    "S3StateStore on SQLite": ("S3StateStore", "sqlite", 1),
    "TransactionLogStateStore on SQLite": ("TransactionLogStateStore", "sqlite", 1),
    "S3StateStore on DynamoDB": ("S3StateStore", "memory", 0),
    **({"TransactionLogStateStore on DynamoDB": ("TransactionLogStateStore", "memory", 0)} if NIGHTLY else {}),
    "DynamoDBStateStore": ("DynamoDBStateStore", "memory", 0),
}
"""Class of the state store, catalog, and whether one more interruption is tried where there are few steps."""
MOST_SWITCHES = 1 + int(NIGHTLY)
ONLY_NEWEST = Retention(timedelta(0), 1, 1)


def prepare(store: StateStore) -> None:
    """Two files (snapshots 2 and 3) that a compaction merges (4), and a savepoint of 2."""
    ingest(store, rows_of("a"))
    save(store, "first")
    ingest(store, rows_of("b"))
    compact(store)


@pytest.fixture(params=TABLES)
def template(request: pytest.FixtureRequest, tmp_path: Path) -> Template:
    kind, catalog, _ = TABLES[request.param]
    return Template(tmp_path, kind, catalog, prepare)


@pytest.fixture
def most(request: pytest.FixtureRequest) -> int:
    """How many switches are tried where there are few steps."""
    return MOST_SWITCHES + TABLES[request.node.callspec.params["template"]][2]


@pytest.fixture
def hashes(template: Template) -> dict[int, str]:
    """The hash of the rows of each version."""
    with template.copy() as stage:
        store = stage.opened()
        return {s.id: rows_hash(store, s) for s in store.catalog.snapshots(store.table_id)}


def expire(stage: Stage, gate: Gate) -> Any:
    return expire_snapshots(stage.opened(gate), ONLY_NEWEST, dry_run=False).expired


def clean(stage: Stage, gate: Gate) -> None:
    """Expire, then collect what that freed, as `maintain` does."""
    store = stage.opened(gate)
    expire_snapshots(store, ONLY_NEWEST, dry_run=False)
    collect(store)


def hold_versions(stage: Stage, hashes: Mapping[int, str]) -> StateStore:
    """Hold that all versions that there are can be read, as ever when all is cleaned, and that nothing else is left."""
    store = stage.opened()
    assert reachable(store) <= on_disk(store)  # and what is on disk never changes
    saved = store.catalog.savepoints(store.table_id)
    left = True
    while left:
        expire_snapshots(store, ONLY_NEWEST, dry_run=False)
        done = collect(store)
        left = bool(done.data_files or done.metadata_files)
    assert store.catalog.savepoints(store.table_id) == saved
    for version in {version.number: version for version in versions(store)}.values():
        # what came behind the compaction changed no row
        assert rows_hash(store, version) == hashes.get(version.number, hashes[4])
    assert on_disk(store) == reachable(store)
    return store


def versions(store: StateStore) -> list[Any]:
    return [*store.catalog.snapshots(store.table_id), *store.catalog.savepoints(store.table_id)]


def ended_well(outcomes: Mapping[str, Outcome], *names: str) -> None:
    """Raise what ended one of the operations."""
    for name in names:
        if (error := outcomes[name].error) is not None:
            raise error


def save_third(stage: Stage, gate: Gate) -> Any:
    return save(stage.opened(gate), "third", SnapshotReference(3))


def test_a_savepoint_that_is_made_while_its_snapshot_expires_fails_cleanly_or_can_be_read(
    template: Template, hashes: dict[int, str], most: int
):
    seen = set()

    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        ended_well(outcomes, "expire")
        made, error = outcomes["save"].value, outcomes["save"].error
        assert made is not None or isinstance(error, NotFound), error
        store = hold_versions(stage, hashes)
        names = {kept.name for kept in store.catalog.savepoints(store.table_id)}
        assert names == {"first", "third"} - ({"third"} if error else set())
        seen.add(error is None)

    orders = explore(template.copy, {"save": save_third, "expire": expire}, check, most_switches=most)
    assert orders > 10
    assert seen == {True, False}


def test_a_savepoint_that_is_made_while_all_is_cleaned_fails_cleanly_or_can_be_read(
    template: Template, hashes: dict[int, str]
):
    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        ended_well(outcomes, "clean")
        made, error = outcomes["save"].value, outcomes["save"].error
        assert made is not None or isinstance(error, NotFound), error
        hold_versions(stage, hashes)

    assert explore(template.copy, {"save": save_third, "clean": clean}, check, most_switches=MOST_SWITCHES) > 15


def test_two_expiries_at_once_forget_what_one_forgets(template: Template, hashes: dict[int, str], most: int):
    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        ended_well(outcomes, "one", "two")
        store = stage.opened()
        assert [s.id for s in store.catalog.snapshots(store.table_id)] == [4]
        garbage = [path for path, _ in store.catalog.garbage(store.table_id)]
        assert len(garbage) == len(set(garbage))
        assert not set(garbage) & reachable(store)
        hold_versions(stage, hashes)

    assert explore(template.copy, {"one": expire, "two": expire}, check, most_switches=most) >= 6


def test_of_two_savepoints_of_one_name_made_at_once_one_is_there(template: Template, hashes: dict[int, str]):
    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        made = [each.value for each in outcomes.values() if each.error is None]
        refused = [each.error for each in outcomes.values() if each.error is not None]
        assert len(made) == len(refused) == 1
        assert isinstance(refused[0], AlreadyExists), refused[0]
        store = stage.opened()
        assert [kept for kept in store.catalog.savepoints(store.table_id) if kept.name == "third"] == made
        assert f"savepoint/savepoint-{made[0].id}" in on_disk(store)
        assert sum(path.startswith("savepoint/") for path in on_disk(store)) == 2
        hold_versions(stage, hashes)

    assert explore(template.copy, {"one": save_third, "two": save_third}, check, most_switches=MOST_SWITCHES) >= 10


def test_a_savepoint_that_is_deleted_while_garbage_is_collected_is_gone_and_nothing_that_is_needed(
    template: Template, hashes: dict[int, str]
):
    def delete(stage: Stage, gate: Gate) -> None:
        store = stage.opened(gate)
        for kept in store.catalog.savepoints(store.table_id):
            delete_savepoint(store, kept)

    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        ended_well(outcomes, "delete", "clean")
        store = hold_versions(stage, hashes)
        assert store.catalog.savepoints(store.table_id) == ()
        assert not any(path.startswith("savepoint/") for path in on_disk(store))

    assert explore(template.copy, {"delete": delete, "clean": clean}, check, most_switches=MOST_SWITCHES) > 15


def read_third(stage: Stage, gate: Gate) -> str:
    """Read a version as a long reader does: plan it, hold it, and open its files."""
    store = stage.opened(gate, reads=True)
    version = resolve(store.catalog, store.table_id, "table", SnapshotReference(3)).version
    store.load(version)
    with Leases(store.catalog, store.clock, None).held(store.table_id, 3, "scan"):
        return rows_hash(store, version)


def test_a_version_that_is_read_while_all_is_cleaned_is_whole_or_has_expired(
    template: Template, hashes: dict[int, str]
):
    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        ended_well(outcomes, "clean")
        read, error = outcomes["read"].value, outcomes["read"].error
        assert read == hashes[3] or isinstance(error, NotFound), error
        store = hold_versions(stage, hashes)
        assert store.catalog.leases(store.table_id) == ()

    assert explore(template.copy, {"read": read_third, "clean": clean}, check, most_switches=MOST_SWITCHES) > 15


def roll_back_to_third(stage: Stage, gate: Gate) -> Any:
    store = stage.opened(gate)
    return roll_back(store, resolve(store.catalog, store.table_id, "table", SnapshotReference(3)), dry_run=False)


def test_a_rollback_while_all_is_cleaned_is_whole_or_refused(template: Template, hashes: dict[int, str]):
    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        for outcome in outcomes.values():
            assert outcome.error is None or isinstance(outcome.error, NotFound | StateRuleBroken), outcome.error
        rolled = outcomes["rollback"].error is None
        assert rolled or outcomes["clean"].error is None
        store = hold_versions(stage, hashes)
        ids = {row["filename"] for row in store.load().files.active.to_pylist()}
        assert len(ids) == (2 if rolled else 1)

    work = {"rollback": roll_back_to_third, "clean": clean}
    assert explore(template.copy, work, check, most_switches=MOST_SWITCHES) > 15
