"""A check finds every damage that is done to a table, tells of no other, and changes nothing."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.admin.migrate import migrate_state_store
from sleeper_nb.clock import Clock, ManualClock
from sleeper_nb.errors import NetworkError
from sleeper_nb.load.ingest import reference_to, write_sorted
from sleeper_nb.maintain.check import check_table
from sleeper_nb.maintain.check_rules import state_faults
from sleeper_nb.maintain.findings import CheckReport, where_text
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import Partition, PartitionTree, Range, Region
from sleeper_nb.model.snapshots import EPOCH
from sleeper_nb.model.transactions import AddFiles
from sleeper_nb.progress import Silent
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.places import StoredFile
from sleeper_nb.versions import expire as expiry
from tests.support.builders import (
    EMBEDDED,
    KEYED,
    START,
    TABLE,
    a_file,
    a_state,
    a_store,
    a_tree,
    collect,
    compact,
    forget_all_but_newest,
    ingest,
    leaf_of,
    on_disk,
    reachable,
    reopened,
    rows_of,
    save,
    snapshot,
)

S3, LOG = "S3StateStore", "TransactionLogStateStore"
BOTH = pytest.mark.parametrize("kind", EMBEDDED)


def check(store: StateStore, *, deep: bool = False) -> CheckReport:
    return check_table(store, "table", deep=deep, progress=Silent())


def told(report: CheckReport) -> list[tuple[str, str]]:
    return [(finding.kind, finding.where) for finding in report.findings]


def a_table_with_a_past(folder: Path, kind: str = S3, **options: Any) -> StateStore:
    """Snapshots 1 to 6, savepoints 1 of snapshot 2 and 2 of snapshot 4."""
    store = a_store(folder, points=["m"], kind=kind, **{"clock": ManualClock(START), **options})
    ingest(store, rows_of("a", "z"))
    save(store, "early")
    ingest(store, rows_of("b"))
    compact(store)
    save(store)
    ingest(store, rows_of("c"))
    ingest(store, rows_of("x"))
    return store


@pytest.fixture
def table(tmp_path: Path) -> StateStore:
    return a_table_with_a_past(tmp_path)


def catalogued(store: StateStore, statement: str, *values: Any) -> None:
    """Change the catalog by hand."""
    path = Path(store.storage.root).parent / "catalog.sqlite"
    with sqlite3.connect(path) as connection:
        assert connection.execute(statement, values).rowcount
    connection.close()


def first_file(store: StateStore) -> Path:
    """Return the file that only snapshots 5 and 6 read."""
    files = store.load().files.active.to_pylist()
    return Path(store.storage.locate(next(row["filename"] for row in files if row["added_snapshot"] == 5)))


# Healthy tables.


@BOTH
@pytest.mark.parametrize("deep", [False, True])
def test_a_healthy_table_gives_no_finding_at_any_stage(tmp_path: Path, kind: str, deep: bool):
    store = a_store(tmp_path, kind=kind, points=["m"])
    assert check(store, deep=deep).ok
    store = a_table_with_a_past(tmp_path / "past", kind)
    everything = on_disk(store), store.head()
    report = check(store, deep=deep)
    assert (report.findings, report.orphans, report.versions, report.snapshot_id) == ((), (), 8, 6)
    assert (on_disk(store), store.head()) == everything
    forget_all_but_newest(store)
    assert check(store, deep=deep).ok
    collect(store)
    assert check(store, deep=deep).ok
    for other in sorted(EMBEDDED, reverse=kind == S3):
        if other != store.head().state_store:
            migrate_state_store(store, other)
            ingest(store, rows_of("d", "y"))
        assert check(store, deep=deep).ok
    assert "all is well" in repr(check(store))


@pytest.mark.parametrize("deep", [False, True])
def test_keys_of_every_type_are_well(tmp_path: Path, deep: bool):
    schema = sl.Schema({"b": "bytearray", "n": "long", "s": "string"}, {"at": "timestamp"}, {"x": "double?"})
    store = a_store(tmp_path, schema, [b"\x80"])
    at = datetime(2026, 1, 1, tzinfo=UTC)
    ingest(store, [{"b": bytes([i]), "n": -i, "s": "é", "at": at, "x": None} for i in range(0, 255, 5)])
    assert check(store, deep=deep).ok


# Damage.


def test_a_data_file_that_is_gone(table: StateStore):
    file = first_file(table)
    file.unlink()
    (finding,) = check(table).findings
    assert (finding.kind, finding.where, finding.means) == ("data file", "snapshots 5–6", "its rows are lost")
    assert file.name in finding.what
    assert told(check(table, deep=True)) == told(check(table))


def test_a_data_file_that_was_cut(table: StateStore):
    file = first_file(table)
    file.write_bytes(file.read_bytes()[:100])
    (finding,) = check(table).findings
    assert "has 100 bytes, not" in finding.what
    assert (finding.kind, finding.where) == ("data file", "snapshots 5–6")


def test_a_file_that_only_a_savepoint_reads(table: StateStore):
    forget_all_but_newest(table)
    saved = reopened(table).load(table.catalog.savepoints(TABLE)[0])
    for name in {*saved.files.active["filename"].to_pylist()} - {*table.load().files.active["filename"].to_pylist()}:
        table.storage.delete(name)
    assert {where for _, where in told(check(table))} == {"savepoint 1"}


@pytest.mark.parametrize("which", ["files_path", "partitions_path"])
def test_metadata_that_is_gone(table: StateStore, which: str):
    table.storage.delete(getattr(table.head(), which))
    (finding,) = check(table).findings
    assert finding.kind == "metadata"
    assert finding.where == ("snapshot 6" if which == "files_path" else "snapshots 1–6, savepoints 1–2")


def test_metadata_that_is_damaged(table: StateStore):
    path = Path(table.storage.locate(table.head().files_path or ""))
    path.write_bytes(b"PAR1" + path.read_bytes()[4:-20] + b"no metadata at allPAR1"[-20:])
    (finding,) = check(table).findings
    assert (finding.kind, finding.where) == ("unreadable", "snapshot 6")
    assert "is damaged" in finding.what


def test_a_log_with_a_missing_entry(tmp_path: Path):
    store = a_table_with_a_past(tmp_path, LOG)
    catalogued(store, "DELETE FROM log WHERE id = 5")
    assert told(check(store)) == [("unreadable", "snapshots 5–6")]


def test_a_schema_that_is_gone(table: StateStore):
    table.storage.delete(paths.schema(1))
    assert told(check(table)) == [("unreadable", "snapshots 1–6, savepoints 1–2")]


@BOTH
@pytest.mark.parametrize("total", ["rows", "files", "bytes"])
def test_a_total_that_is_not_that_of_the_state(tmp_path: Path, kind: str, total: str):
    store = a_table_with_a_past(tmp_path, kind)
    catalogued(store, f"UPDATE snapshots SET {total} = 77, checksum = NULL WHERE id = 3")
    (finding,) = check(store).findings
    assert (finding.kind, finding.where) == ("totals", "snapshot 3")
    assert f"says 77 {total}" in finding.what


def test_a_missing_snapshot(table: StateStore):
    catalogued(table, "DELETE FROM snapshots WHERE id IN (3, 4)")
    (finding,) = check(table).findings
    assert (finding.kind, finding.what) == ("history", "no snapshot 3–4")


def test_a_missing_current_snapshot(table: StateStore):
    catalogued(table, "DELETE FROM snapshots WHERE id = 6")
    report = check(table)
    assert told(report) == [("current", "the catalog")]
    assert report.snapshot_id == 6


def test_a_current_snapshot_that_is_not_the_newest_of_history(table: StateStore):
    catalogued(table, "UPDATE snapshots SET expired = 1 WHERE id = 6")
    assert ("current", "the catalog") in told(check(table))


def test_a_time_that_steps_back(table: StateStore):
    micros = (START - timedelta(days=1) - EPOCH) // timedelta(microseconds=1)
    catalogued(table, "UPDATE snapshots SET time = ?, checksum = NULL WHERE id = 4", micros)
    assert told(check(table)) == [("time", "snapshot 4")]


def test_metadata_that_counts_as_garbage(table: StateStore):
    catalogued(table, "INSERT INTO garbage VALUES (?, ?, 0)", TABLE, table.head().files_path)
    assert told(check(table)) == [("garbage", "snapshot 6")]


def test_a_savepoint_without_its_file(table: StateStore):
    table.storage.delete(paths.savepoint(1))
    assert told(check(table)) == [("savepoint file", "savepoint 1")]


# Damage that only the data files tell of.


def put(store: StateStore, data: list[dict[str, Any]], *, leaf: str = "z", **lies: Any) -> FileReference:
    """Add a file whose reference lies about it."""
    partition = leaf_of(store.load().tree, (leaf, 0)).id
    name = paths.data_file(partition, store.clock.new_id())
    file = write_sorted(store.storage, name, KEYED, [pa.Table.from_pylist(data, schema=KEYED.arrow)])
    reference = replace(reference_to(file, partition), **lies)
    store.commit(AddFiles((reference,)))
    return reference


@pytest.mark.parametrize("kind", EMBEDDED)
def test_a_file_with_keys_outside_its_partition(tmp_path: Path, kind: str):
    store = a_table_with_a_past(tmp_path, kind)
    lie = put(store, rows_of("a", "x"), min_key=("x", 0), max_key=("x", 0))
    assert check(store).ok
    (finding,) = check(store, deep=True).findings
    assert finding.what == f"{lie.filename} has key a to x, outside its partition's [m, ∞)"
    assert (finding.kind, finding.where) == ("data file", "snapshot 7")


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ({"rows": 3}, "has 2 rows, not 3"),
        ({"max_key": ("x", 0)}, "has key x to y, recorded as x to x"),
        ({"only_this_partition": False, "rows": 3}, "has 2 rows, fewer than 3"),
    ],
)
def test_a_file_that_is_not_what_its_reference_says(table: StateStore, lie: dict[str, Any], words: str):
    put(table, rows_of("x", "y"), **lie)
    assert check(table).ok
    (finding,) = check(table, deep=True).findings
    assert words in finding.what


def test_a_file_that_is_not_sorted(table: StateStore):
    unsorted = Path(table.storage.locate("unsorted"))
    pq.write_table(pa.Table.from_pylist(rows_of("y", "x"), schema=KEYED.arrow), unsorted)
    reference = put(table, rows_of("x", "y"), bytes=unsorted.stat().st_size, checksum=None)
    unsorted.replace(table.storage.locate(reference.filename))
    (finding,) = check(table, deep=True).findings
    assert finding.what == f"{reference.filename} is not sorted by key, n"


def test_a_file_whose_bytes_changed_in_place(table: StateStore):
    file = first_file(table)
    content = bytearray(file.read_bytes())
    content[4:-300] = bytes(len(content) - 304)
    file.write_bytes(content)
    assert check(table).ok
    (finding,) = check(table, deep=True).findings
    assert "is damaged" in finding.what


# The rules of one state.


def faults(state: Any) -> list[tuple[str, str]]:
    files, rows, size = state.totals()
    version = snapshot(1, files=files, rows=rows, bytes=size)
    return [(fault.kind, fault.what) for fault in state_faults(state, version)]


def test_leaves_that_do_not_tile():
    state = a_state(tree=a_tree("m"))
    root, left, right = state.tree.partitions
    assert faults(state) == []
    narrow = replace(right, region=right.region.narrowed(0, Range("n", None)))
    for tree, words in (
        (PartitionTree((root, left, narrow)), "do not tile"),
        (PartitionTree((root, left)), "no partition"),
        (PartitionTree((root, left, right, Partition("stray", Region((Range(), Range()))))), "is in the tree 0"),
        (PartitionTree((left,)), "does not hold every key"),
        (PartitionTree(()), "does not hold every key"),
    ):
        ((kind, what),) = faults(replace(state, tree=tree))
        assert kind == "partitions"
        assert words in what


def test_a_file_that_feeds_a_partition_and_one_above_it():
    tree = a_tree("m")
    leaf = tree.leaves[0].id
    state = a_state(a_file("f", leaf), a_file("g", leaf), a_file("h", "root"), tree=tree)
    assert faults(state) == []
    for twice in (a_file("f", "root"), a_file("f", leaf)):
        ((kind, what),) = faults(replace(state, files=state.files.with_added([twice], 1, START)))
        assert (kind, what.partition(" ")[0]) == ("reference", "f")
    shared = [a_file("s", each.id, only_this_partition=False) for each in tree.leaves]
    assert faults(replace(state, files=state.files.with_added(shared, 1, START))) == []


def test_a_file_of_no_partition_or_with_keys_outside_it():
    tree = a_tree("m")
    state = a_state(tree=tree)
    right = tree.leaves[1].id
    for reference, words in (
        (a_file("f", "nowhere"), "not in the tree"),
        (a_file("f", right, keys=("a", "z")), "not all in partition"),
        (a_file("f", right, keys=("z", "n")), "not all in partition"),
        (a_file("f", tree.leaves[0].id, keys=("a", "m")), "not all in partition"),
    ):
        ((kind, what),) = faults(replace(state, files=state.files.with_added([reference], 1, START)))
        assert kind == "reference"
        assert words in what


def test_versions_are_named_in_few_words():
    keys = [("snapshot", n) for n in (3, 4, 5, 9)] + [("savepoint", 1)]
    assert where_text(keys) == "snapshots 3–5, 9, savepoint 1"
    assert where_text([("snapshot", 2)]) == "snapshot 2"


# What others do meanwhile, and what is no fault.


@BOTH
@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("call", ["list", "input"])
def test_what_others_delete_and_add_meanwhile_is_no_fault(tmp_path: Path, kind: str, deep: bool, call: str):
    store = a_table_with_a_past(tmp_path, kind)
    others = reopened(store)

    class Busy(Storage):
        calls = 0

        def meanwhile(self) -> None:
            self.calls += 1
            ingest(others, rows_of("e", "v"))
            compact(others)
            expire = expiry.Retention(timedelta(0), 1, 1)
            expiry.expire_snapshots(others, expire, dry_run=False)
            collect(others)

        def list(self, folder: str = "") -> tuple[StoredFile, ...]:
            if call == "list":
                self.meanwhile()
            return super().list(folder)

        def input(self, path: str) -> pa.NativeFile:
            if call == "input" and self.calls < 3:
                self.meanwhile()
            return super().input(path)

    busy = Busy(store.storage.root)
    assert check(reopened(store, storage=busy), deep=deep).findings == ()
    assert busy.calls
    assert check(store, deep=True).ok


def test_a_fault_is_told_even_when_others_are_busy(table: StateStore):
    others = reopened(table)

    class Busy(Storage):
        def list(self, folder: str = "") -> tuple[StoredFile, ...]:
            ingest(others, rows_of("e"))
            return super().list(folder)

    first_file(table).unlink()
    (finding,) = check(reopened(table, storage=Busy(table.storage.root))).findings
    assert (finding.kind, finding.where) == ("data file", f"snapshots 5–{table.head().id}")


@BOTH
def test_files_that_nothing_names_are_told_when_they_are_old(tmp_path: Path, kind: str):
    store = a_table_with_a_past(tmp_path, kind, clock=Clock())
    forget_all_but_newest_now(store)
    unused = store.catalog.reserve_savepoint_id(TABLE)  # and here a process died
    strays = (paths.data_file("root", "x"), paths.files_metadata(3, "x"), paths.savepoint(unused))
    for name in strays:
        store.storage.write(name, b"x")
    assert check(store).orphans == ()
    for name in on_disk(store):
        os.utime(store.storage.locate(name), (0, 0))
    report = check(store)
    assert (report.findings, [file.path for file in report.orphans]) == ((), sorted(strays))
    assert "no version names 3 files of 3 B" in repr(report)
    assert reachable(store) <= on_disk(store)


def forget_all_but_newest_now(store: StateStore) -> None:
    store.catalog.expire_snapshots(store.table_id, range(1, store.head().id), store.clock.now())


def test_orphans_are_not_told_while_a_version_cannot_be_read(tmp_path: Path):
    store = a_table_with_a_past(tmp_path, clock=Clock())
    for name in on_disk(store):
        os.utime(store.storage.locate(name), (0, 0))
    store.storage.delete(store.head().files_path or "")
    assert check(store).orphans == ()


def test_a_table_tells_its_check_with_its_name(tmp_path: Path):
    with sl.connect(tmp_path, clock=ManualClock()) as session:
        trips = session.create_table("trips", sl.Schema({"city": "string"}, {}, {}))
        trips.ingest([{"city": "rome"}])
        report = trips.maintenance.check(deep=True)
        assert repr(report).startswith("check of trips at snapshot 2: all is well")
        assert report.to_dict()["findings"] == ()
        next(tmp_path.glob("default/*/data/*/*.parquet")).unlink()
        bad = trips.maintenance.check()
        assert not bad.ok
        assert "1 thing wrong" in repr(bad)
        assert "is not there" in bad._repr_html_()
        many = replace(bad, findings=bad.findings * 60)
        assert "60 things wrong" in repr(many)
        assert "first 50 of 60" in repr(many)
    with sqlite3.connect(tmp_path / "default" / "catalog.sqlite") as connection:
        connection.execute("DELETE FROM snapshots WHERE id = 2")
    connection.close()
    with sl.connect(tmp_path) as session:
        assert [finding.kind for finding in session.table("trips").maintenance.check().findings] == ["current"]


@pytest.mark.parametrize("place", ["statestore/", "data/"])
def test_a_network_that_fails_is_an_error_and_no_finding(table: StateStore, monkeypatch, place):
    def failing(real):
        def read(self: Storage, path: str, *more: Any) -> Any:
            if path.startswith(place):
                raise NetworkError("the network failed: no whole answer")
            return real(self, path, *more)

        return read

    monkeypatch.setattr(Storage, "read", failing(Storage.read))
    monkeypatch.setattr(Storage, "input", failing(Storage.input))
    with pytest.raises(NetworkError, match="no whole answer"):
        check(table, deep=place == "data/")  # files are read by their checksums first otherwise
