"""A change of rows and another operation at once, in every order of their steps: both count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sleeper_nb.edit.apply_edits import EditSettings
from sleeper_nb.maintain.check import check_table
from sleeper_nb.model.snapshots import SnapshotReference
from sleeper_nb.progress import Silent
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions import expire as expiry
from sleeper_nb.versions.resolve import resolve
from sleeper_nb.versions.roll_back import roll_back
from tests.support.builders import collect, compact, ingest, on_disk, reachable, rows_of, scan, split
from tests.support.edits import ALWAYS_VECTORS, NEVER_VECTORS, change
from tests.support.interleavings import Gate, Outcome, Stage, Template, explore

KINDS = (("S3StateStore", "sqlite"), ("TransactionLogStateStore", "sqlite"), ("DynamoDBStateStore", "memory"))


def prepare(store: StateStore) -> None:
    ingest(store, rows_of(*"abcxyz"))
    ingest(store, rows_of(*"de"))


def forget_and_collect(store: StateStore) -> Any:
    compact(store)
    expiry.expire_snapshots(store, expiry.Retention(timedelta(0), 1, 1), dry_run=False)
    return collect(store)


def back_to_the_first(store: StateStore) -> Any:
    return roll_back(store, resolve(store.catalog, store.table_id, "table", SnapshotReference(2)), dry_run=False)


OTHERS: Mapping[str, tuple[Callable[[StateStore], Any], set[str]]] = {
    "compact": (compact, {"accdeyz"}),
    "split": (lambda store: split(store, at="c", key="key"), {"accdeyz"}),
    "ingest": (lambda store: ingest(store, rows_of("m")), {"accdemyz"}),
    "delete others": (lambda store: change(store, delete=lambda row: row["key"] in "dz"), {"accey"}),
    "delete the same": (lambda store: change(store, delete=lambda row: row["key"] in "bx"), {"accdeyz", "acdeyz"}),
    "roll back": (back_to_the_first, {"abcxyz", "accyz"}),
    "clean": (forget_and_collect, {"accdeyz"}),
}
"""What goes on beside the change, and the keys that there may be afterwards."""


@pytest.mark.long
@pytest.mark.parametrize("how", [ALWAYS_VECTORS, NEVER_VECTORS], ids=["vectors", "files"])
@pytest.mark.parametrize("kind", KINDS, ids=" on ".join)
@pytest.mark.parametrize("name", OTHERS)
def test_a_change_and_what_goes_on_beside_it_both_count(
    tmp_path: Path, kind: tuple[str, Any], name: str, how: EditSettings
):
    def both(store: StateStore) -> Any:
        moved = lambda row: {**row, "key": "c"} if row["key"] == "b" else None  # noqa: E731
        return change(store, delete=lambda row: row["key"] == "x", update=moved, settings=how)

    hold(Template(tmp_path, *kind, prepare), both, *OTHERS[name])


@pytest.mark.parametrize("kind", KINDS, ids=" on ".join)
def test_a_split_and_vectors_of_the_same_files_both_count(tmp_path: Path, kind: tuple[str, Any]):
    def deleted(store: StateStore) -> Any:
        return change(store, delete=lambda row: row["key"] in "xd", settings=ALWAYS_VECTORS)

    hold(Template(tmp_path, *kind, prepare), deleted, OTHERS["split"][0], {"abceyz"})


def hold(
    template: Template,
    changed: Callable[[StateStore], Any],
    other: Callable[[StateStore], Any],
    expected: set[str],
) -> None:
    """Hold that a change and another operation both succeed in each order, and that the keys are then as expected."""
    seen = set()

    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        assert outcomes["change"].error is None
        if outcomes["other"].error is not None:
            raise outcomes["other"].error
        store = stage.opened()
        seen.add("".join(scan(store)["key"].to_pylist()))
        assert seen <= expected
        assert check_table(store, "table", deep=True, progress=Silent()).ok
        assert reachable(store) <= on_disk(store)

    def work(do: Callable[[StateStore], Any]) -> Callable[[Stage, Gate], Any]:
        return lambda stage, gate: do(stage.opened(gate))

    explore(template.copy, {"change": work(changed), "other": work(other)}, check, most_switches=1)
