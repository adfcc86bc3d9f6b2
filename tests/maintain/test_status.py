"""What status tells of a table: how much there is, what waits, and what to do next."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.catalog.catalog_base import FileClaim
from sleeper_nb.clock import ManualClock
from sleeper_nb.maintain.status import (
    Advice,
    Housekeeping,
    full_leaves,
    table_status,
)
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.expire import Retention
from tests.support.builders import (
    EMBEDDED,
    START,
    TABLE,
    a_file,
    a_state,
    a_store,
    a_tree,
    compact,
    forget_all_but_newest,
    ingest,
    on_disk,
    rows_of,
    save,
)

SPLITTING = "sleeper.table.partition.splitting.threshold"
KEEPING = Housekeeping(4, 10**9, timedelta(minutes=15), Retention())
BOTH = pytest.mark.parametrize("kind", EMBEDDED)


@BOTH
def test_every_number_is_that_of_the_table(tmp_path: Path, kind: str):
    store = a_store(tmp_path, kind=kind, points=["m"], clock=ManualClock(START))
    for key in "abc":
        ingest(store, rows_of(key, "z"))
    save(store)
    compact(store)
    before = on_disk(store), store.head()
    status = table_status(store, "t", KEEPING)
    assert (on_disk(store), store.head()) == before
    metadata = [f for f in store.storage.list() if not f.path.startswith("data/")]
    data = store.load().files.active["bytes"].to_pylist()
    assert (status.state_store, status.catalog, status.snapshot) == (kind, "SqliteCatalog", store.head())
    assert (status.files, status.references, status.leaves, status.rows, status.bytes) == (2, 2, 2, 6, sum(data))
    assert (status.metadata_files, status.metadata_bytes) == (len(metadata), sum(f.bytes for f in metadata))
    assert (status.snapshots, status.savepoints, status.claims) == (6, 1, 0)
    assert status.log_length == {"S3StateStore": 0, "TransactionLogStateStore": 5}.get(kind, 0)
    assert (status.waiting_files, status.waiting_metadata, status.next_steps) == (6, 0, ())
    assert status.waiting_bytes == sum(store.load().files.ready_for_gc["bytes"].to_pylist())
    assert "nothing to do" in repr(status)


def test_what_can_go_is_told_when_it_can(store: StateStore, clock: ManualClock):
    ingest(store, rows_of("a"))
    ingest(store, rows_of("b"))
    compact(store)
    assert table_status(store, "t", KEEPING).next_steps == ()
    clock.advance(timedelta(days=8))
    old = Housekeeping(4, 10**9, timedelta(minutes=15), Retention(num_retained_min=1))
    (step,) = table_status(store, "t", old).next_steps
    assert step == Advice("expire", "3 snapshots can be expired")
    forget_all_but_newest(store)
    status = table_status(store, "t", old)
    assert status.waiting_metadata
    assert [step.why for step in status.next_steps] == ["2 data files and 0 metadata files can go"]
    clock.advance(timedelta(minutes=15))
    assert [s.why for s in table_status(store, "t", old).next_steps] == [
        f"2 data files and {status.waiting_metadata} metadata files can go"
    ]


def test_a_leaf_with_many_files_is_worth_a_compaction_unless_one_runs(store: StateStore, clock: ManualClock):
    for key in "abcd":
        ingest(store, rows_of(key))
    (step,) = table_status(store, "t", KEEPING).next_steps
    assert step == Advice("compact", "1 leaf partition has 4 files or more")
    assert "table.maintenance.compact(): 1 leaf partition has 4 files or more" in repr(
        table_status(store, "t", KEEPING)
    )
    files = store.load().files.active_in({"root"})
    claim = FileClaim("job", "root", (files[0].filename,), clock.now() + timedelta(hours=1))
    assert store.catalog.claim_files(TABLE, claim, clock.now())
    status = table_status(store, "t", KEEPING)
    assert (status.claims, status.next_steps) == (1, ())


def test_files_that_leaves_share_count_once():
    tree = a_tree("m")
    left, right = tree.leaves
    shared = (a_file(name, leaf.id, only_this_partition=False) for leaf in (left, right) for name in "st")
    state = a_state(*shared, tree=tree)
    two = replace(KEEPING, batch_size=2, strategy="all")
    assert full_leaves(state, (), two) == 2
    assert full_leaves(state, (FileClaim("job", left.id, ("s",), START),), two) == 1


def test_a_leaf_of_which_the_strategy_makes_no_job_is_not_overdue(tmp_path: Path):
    store = a_store(tmp_path)
    for number in range(5):  # each has as many rows as all others before it
        ingest(store, rows_of(*"a" * 3**number))
    due = replace(KEEPING, batch_size=2)
    assert table_status(store, "t", due).overdue == table_status(store, "t", due).next_steps == ()
    (step,) = table_status(store, "t", replace(due, strategy="all")).overdue
    assert step == Advice("compact", "1 leaf partition has 4 files or more")


def test_a_leaf_with_too_many_rows_is_to_be_split(tmp_path: Path):
    store = a_store(tmp_path, points=["m"])
    ingest(store, rows_of(*"abcx"))
    keeping = Housekeeping(4, 3, timedelta(minutes=15), Retention())
    assert table_status(store, "t", keeping).next_steps == (Advice("split", "1 leaf partition has 3 rows or more"),)


def test_a_leaf_whose_rows_have_one_key_is_neither_to_be_split_nor_overdue(tmp_path: Path):
    with sl.connect(tmp_path, clock=ManualClock()) as session:
        trips = session.create_table("trips", sl.Schema({"city": "string", "n": "long"}), properties={SPLITTING: "4"})
        trips.ingest([{"city": "rome", "n": 1}] * 9)
        assert [step.command for step in trips.inspect.status().next_steps] == []
        assert trips.inspect.status().overdue == ()
        assert session.status().alerts == ()
        trips.ingest([{"city": "rome", "n": 2}] * 9)  # differs in the last key, and in another file
        assert [step.command for step in trips.inspect.status().overdue] == ["split"]
        trips.maintenance.split()
        assert trips.inspect.status().overdue == ()
        assert not [step for step in trips.inspect.status().next_steps if step.command == "split"]


def test_a_leaf_with_one_key_in_files_that_it_shares_is_not_to_be_split(tmp_path: Path):
    cities = ["bern", *["rome"] * 20, "thun"]
    with sl.connect(tmp_path, clock=ManualClock()) as session:
        trips = session.create_table("trips", sl.Schema({"city": "string"}), properties={SPLITTING: "4"})
        trips.ingest([{"city": city} for city in cities])
        assert [step.command for step in trips.inspect.status().overdue] == ["split"]
        trips.maintenance.split()  # leaves the file as it is, which every new leaf shares
        assert len(trips.inspect.partitions()) == 3
        assert trips.inspect.status().overdue == ()
        assert session.status().alerts == ()
        assert not trips.maintenance.split().splits
        trips.ingest([{"city": "romeo"}])
        assert [step.command for step in trips.inspect.status().overdue] == ["split"]
        trips.delete("city = 'romeo'")  # by a deletion vector, or a new file
        assert trips.inspect.status().overdue == ()


def test_a_table_and_its_commands_tell_its_status(tmp_path: Path):
    with sl.connect(tmp_path, clock=ManualClock()) as session:
        trips = session.create_table("trips", sl.Schema({"city": "string"}, {}, {}))
        trips.ingest([{"city": "rome"}])
        status = trips.inspect.status()
        assert repr(status).startswith("status of trips\nstate store      S3StateStore on SqliteCatalog")
        assert status.to_dict()["rows"] == 1
        assert "Status of trips" in status._repr_html_()


def test_files_that_the_strategy_would_merge_are_named_before_a_leaf_is_full(store: StateStore):
    for key in "abcde":
        ingest(store, rows_of(key))
    patient = replace(KEEPING, batch_size=12)
    status = table_status(store, "t", patient)
    assert status.next_steps == (Advice("compact", "5 files would be compacted into 1"),)
    assert status.overdue == ()
    assert table_status(store, "t", replace(patient, strategy="basic")).next_steps == ()
