"""A disk that is full after n bytes, for many n: the error says so, nothing is half-done, and it works again later."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sleeper_nb.errors import StorageError
from sleeper_nb.state_store.state_store_base import StateStore
from tests.support.builders import (
    KEYED,
    a_store,
    a_tree,
    compact,
    ingest,
    keys_in,
    on_disk,
    reopened,
    rows_of,
    save,
    scan,
)
from tests.support.faults import FullDisk

WORK: dict[str, Callable[[StateStore], Any]] = {
    "ingest": lambda store: ingest(store, rows_of("b", "y")),
    "compact": compact,
    "savepoint": lambda store: save(store, "fix"),
}


@pytest.mark.parametrize("work", WORK)
def test_a_full_disk_leaves_the_table_as_it_was(tmp_path: Path, work: str):
    store = a_store(tmp_path, points=["m"])
    for _ in range(2):
        ingest(store, rows_of("a", "z"))
    before, keys = (on_disk(store), store.head()), keys_in(scan(store))
    rooms, said = iter(range(0, 100_000, 400)), set()
    while True:
        full = reopened(store, storage=FullDisk(store.storage, next(rooms)))
        try:
            WORK[work](full)
        except StorageError as error:
            said.add((error.message.partition(" for ")[0], error.hint))
            after = reopened(store)
            if work == "compact" and after.head() != before[1]:
                assert keys_in(scan(after)) == keys  # the job of one leaf was committed before the disk was full
                tracked = set(after.load().files.table["filename"].to_pylist())
                assert {path for path in on_disk(store) if path.startswith("data/")} == tracked
                break
            assert (on_disk(store), after.head()) == before
            assert not store.catalog.claims(store.table_id, store.clock.now())
            assert not store.catalog.savepoints(store.table_id)
        else:
            break
    assert said == {("no space left", "free some space, then run it again")}
    assert keys_in(scan(store)) == (sorted([*keys, "b", "y"]) if work == "ingest" else keys)


def test_a_table_that_did_not_fit_leaves_nothing(tmp_path: Path):
    for room in range(0, 30_000, 700):
        new = a_store(tmp_path, create=False)
        try:
            reopened(new, storage=FullDisk(new.storage, room)).create("table", KEYED, a_tree("m"))
        except StorageError:
            assert (new.catalog.tables(), on_disk(new)) == ((), set())
        else:
            break
    assert len(new.catalog.tables()) == 1


def _write_beyond_the_limit(folder: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = a_store(folder)
    ingest(store, rows_of("a"))
    before = on_disk(store)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    big = [{"key": os.urandom(30).hex(), "n": 1, "value": os.urandom(100).hex()} for _ in range(3000)]
    try:
        ingest(store, big)
    except StorageError:
        os._exit(0 if (on_disk(store), keys_in(scan(store))) == (before, ["a"]) else 2)
    os._exit(3)


def test_the_operating_systems_own_refusal_is_told_and_leaves_nothing(tmp_path: Path):
    child = multiprocessing.get_context("spawn").Process(target=_write_beyond_the_limit, args=(tmp_path,))
    child.start()
    child.join()
    assert child.exitcode == 0
