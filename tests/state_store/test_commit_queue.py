"""Changes of several threads of one process: what waits behind a slow commit shares the next one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sleeper_nb.clock import Clock
from sleeper_nb.errors import AlreadyExists
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.transactions import AddFiles
from sleeper_nb.state_store.commit_queue import CommitQueue, Waiting
from sleeper_nb.state_store.state_store_base import StateStore
from tests.support.builders import EMBEDDED, a_file, a_store, reopened


class SlowFirst:
    """A catalog whose first commit waits until it is let go, and which counts commits."""

    def __init__(self, real: Any) -> None:
        self._real, self.commits = real, 0
        self.begun, self.go = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def commit(self, *arguments: Any, **options: Any) -> bool:
        self.commits += 1
        if self.commits == 1:
            self.begun.set()
            assert self.go.wait(30)
        return self._real.commit(*arguments, **options)


@pytest.fixture(params=EMBEDDED)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StateStore]:
    made = a_store(tmp_path, clock=Clock(), kind=request.param)
    yield made
    made.catalog.close()


def all_at_once(store: StateStore, changes: list[AddFiles]) -> tuple[list[Snapshot | BaseException], int]:
    """Commit the first change, the others while it is under way; return the outcomes and the number of commits."""
    slow = SlowFirst(store.catalog)
    shared = reopened(store, slow)
    outcomes: dict[int, Snapshot | BaseException] = {}

    def commit(number: int) -> None:
        try:
            outcomes[number] = shared.commit(changes[number], message=f"number {number}")
        except BaseException as error:  # noqa: BLE001 - looked at by the tests
            outcomes[number] = error

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(len(changes))]
    threads[0].start()
    assert slow.begun.wait(30)
    for thread in threads[1:]:
        thread.start()
    while len(shared._queue._items) < len(changes) - 1:
        threading.Event().wait(0.001)
    slow.go.set()
    for thread in threads:
        thread.join(30)
    return [outcomes[number] for number in range(len(changes))], slow.commits


def test_what_waits_shares_a_commit_and_each_change_is_a_snapshot_of_its_own(store: StateStore):
    outcomes, commits = all_at_once(store, [AddFiles((a_file(f"f{number}"),)) for number in range(6)])
    assert sorted(snapshot.id for snapshot in outcomes) == [2, 3, 4, 5, 6, 7]
    assert commits == (2 if store.name == "TransactionLogStateStore" else 6)
    fresh = reopened(store)
    assert len(fresh.load().files.active) == 6
    for snapshot in outcomes:
        found = next(s for s in store.catalog.snapshots(store.table_id) if s.id == snapshot.id)
        assert (found.message, fresh.load(found).totals().files) == (snapshot.message, snapshot.id - 1)


def test_a_change_that_breaks_a_rule_fails_alone(store: StateStore):
    names = ["a", "b", "a", "c"]
    outcomes, _ = all_at_once(store, [AddFiles((a_file(name),)) for name in names])
    assert [type(outcome) for outcome in outcomes] == [Snapshot, Snapshot, AlreadyExists, Snapshot]
    assert sorted(reopened(store).load().files.active["filename"].to_pylist()) == ["a", "b", "c"]


def waiting() -> Waiting:
    return Waiting(AddFiles(()), None, None)


def test_an_interrupt_takes_only_its_own_change_out():
    queue, taken = CommitQueue(10), []
    other = waiting()

    def run(batch: list[Waiting]) -> None:
        taken.append(list(batch))
        if len(taken) == 1:
            queue._items.append(other)
            raise KeyboardInterrupt
        for item in batch:
            item.fail(AlreadyExists("settled"))

    with pytest.raises(KeyboardInterrupt):
        queue.submit(waiting(), run)
    last = waiting()
    with pytest.raises(AlreadyExists):
        queue.submit(last, run)
    assert taken[1] == [other, last]
