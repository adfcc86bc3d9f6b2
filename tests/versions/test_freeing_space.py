"""On a full disk what frees space works, by the room in reserve; and a catalog that fails says why it does."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sleeper_nb as sl
from sleeper_nb.catalog import sqlite_file
from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.errors import DiskFull, StorageError
from sleeper_nb.maintain.collect_garbage import collect_garbage
from sleeper_nb.session.table_opener import TableOpener
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.versions.delete_savepoint import delete_savepoint
from sleeper_nb.versions.expire import Retention, expire_snapshots
from tests.support.builders import (
    START,
    a_store,
    compact,
    ingest,
    keys_in,
    on_disk,
    reopened,
    rows_of,
    save,
    scan,
)
from tests.support.faults import CATALOG_CALLS, FullDisk

NOW = timedelta(0)
A_TRANSACTION = 40 << 10
"""Bytes that the catalog needs for one."""


class Disk(FullDisk):
    """A disk for files and catalog: what is deleted, or given up of the reserve, is room for what is written."""

    def delete(self, path: str) -> None:
        size = Path(self.locate(path)).stat().st_size if Path(self.locate(path)).exists() else 0
        super().delete(path)
        self.room += size

    def delete_all(self, folder: str) -> None:
        found = sum(file.bytes for file in self.list(folder))
        super().delete_all(folder)
        self.room += found

    def below(self, folder: str) -> Storage:
        return _Below(super().below(folder), self)


class _Below(Disk):
    """A folder of the disk."""

    def __init__(self, real: Storage, disk: Disk) -> None:
        self._disk = disk
        Storage.__init__(self, real.place)

    @property
    def room(self) -> int:
        return self._disk.room

    @room.setter
    def room(self, room: int) -> None:
        self._disk.room = room


class OnDisk:
    """A catalog that lies on a disk."""

    def __init__(self, real: Catalog, folder: Path, disk: Disk) -> None:
        self._real, self._reserve, self._disk = real, folder / "catalog.sqlite-reserve", disk

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)
        if name in {"keep_room", "give_up_room"}:
            return lambda: self._given(method)
        return (lambda *given, **more: self._written(method, *given, **more)) if name in CATALOG_CALLS else method

    def _given(self, method: Any) -> Any:
        before = self._reserve.stat().st_size
        done = method()
        self._disk.room = max(0, self._disk.room + before - self._reserve.stat().st_size)
        return done

    def _written(self, method: Any, *given: Any, **more: Any) -> Any:
        if self._disk.room < A_TRANSACTION:
            raise DiskFull("no space left for the catalog")
        return method(*given, **more)


@pytest.mark.parametrize("kind", ["S3StateStore", "TransactionLogStateStore"])
def test_a_full_disk_is_cleaned_up_until_it_takes_rows_again(tmp_path: Path, kind: str):
    store = a_store(tmp_path, kind=kind)
    for key in "abc":
        value = np.random.default_rng(ord(key)).bytes(200_000).hex()  # which does not compress: compaction frees some
        ingest(store, rows_of(key, value=value))
    saved = save(store, "old")
    compact(store)
    disk = Disk(store.storage, 0)
    full = reopened(store, catalog=OnDisk(store.catalog, tmp_path, disk), storage=disk)  # type: ignore[arg-type]
    with pytest.raises(DiskFull, match="no space left"):
        ingest(full, rows_of("d"))
    assert keys_in(scan(full)) == ["a", "b", "c"]

    delete_savepoint(full, saved)
    assert not full.catalog.savepoints(store.table_id)
    store.clock.sleep(60)
    retention = Retention(NOW, 1)
    gone = expire_snapshots(full, retention, dry_run=False).expired
    assert len(gone) == 4  # the first, and an ingest each
    assert len(full.catalog.snapshots(store.table_id)) == 1

    before = on_disk(store)
    collected = collect_garbage(full, delay=NOW, dry_run=False)
    assert len(collected.data_files) == 3
    assert not on_disk(store) & {*collected.data_files}
    assert len(on_disk(store)) < len(before)
    assert not full.catalog.garbage(store.table_id)
    ingest(full, rows_of("d"))
    assert keys_in(scan(full)) == ["a", "b", "c", "d"]


def test_a_table_is_deleted_from_a_full_disk(tmp_path: Path):
    with sl.connect(tmp_path) as session:
        schema = sl.Schema(row_keys={"key": "string"}, values={"value": "string"})
        for name in ("first", "second"):
            session.create_table(name, schema).ingest([{"key": "a", "value": "x" * 1000}])
        disk = Disk(session._storage, 0)
        catalog = OnDisk(session._components.catalog, tmp_path / "default", disk)
        session._components.property_files._storage = disk
        session._tables = TableOpener(replace(session._components, catalog=catalog), disk)  # type: ignore[arg-type]
        for left in ("second", None):
            disk.room = 0
            session.drop_table(session.tables()[0].name, force=True)
            assert [table.name for table in session.tables()] == [left] * (left is not None)
        assert not catalog.deleted()
    assert {path.name.partition("-")[0] for path in (tmp_path / "default").rglob("*") if path.is_file()} == {
        "catalog.sqlite"
    }


def test_the_reserve_is_given_up_in_parts_and_taken_again(tmp_path: Path):
    catalog, reserve = SqliteCatalog(tmp_path / "catalog.sqlite"), tmp_path / "catalog.sqlite-reserve"
    sizes = [reserve.stat().st_size]
    while catalog.give_up_room():
        sizes.append(reserve.stat().st_size)
    assert len(sizes) > 3
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 0
    catalog.keep_room()
    assert reserve.stat().st_size == sizes[0] == 256 << 10
    assert reserve.stat().st_blocks * 512 >= sizes[0]  # room, not a hole
    catalog.close()


def test_work_that_needs_no_room_takes_none_of_the_reserve(tmp_path: Path):
    store = a_store(tmp_path)
    reserve = tmp_path / "catalog.sqlite-reserve"
    before = reserve.stat().st_size
    with pytest.raises(DiskFull):
        ingest(reopened(store, storage=FullDisk(store.storage, 0)), rows_of("a"))
    collect_garbage(store, delay=NOW, dry_run=False)
    assert reserve.stat().st_size == before


@pytest.mark.parametrize("beginning", [b"{}" * 5000, b"\x00" * 9000], ids=["text", "zeros"])
def test_an_overwritten_catalog_is_not_taken_for_a_full_disk(tmp_path: Path, beginning: bytes):
    path = tmp_path / "catalog.sqlite"
    SqliteCatalog(path).close()
    path.write_bytes(beginning)
    with pytest.raises(StorageError, match="failed") as error:
        SqliteCatalog(path).tables()
    assert "full" not in f"{error.value}"
    assert "damaged or was overwritten" in (error.value.hint or "")


def test_a_catalog_that_is_overwritten_while_it_is_open(tmp_path: Path):
    path = tmp_path / "catalog.sqlite"
    catalog = SqliteCatalog(path)
    catalog.give_up_room()  # all is in the file then, not in the log of writes
    with path.open("r+b") as file:
        file.write(b"no catalog" * 2000)
    with pytest.raises(StorageError) as error:
        SqliteCatalog(path)
    assert "damaged" in (error.value.hint or "")
    catalog.close()


def test_a_locked_catalog_says_that_it_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.0)
    path = tmp_path / "catalog.sqlite"
    catalog = SqliteCatalog(path)
    with _locked(path), pytest.raises(StorageError, match="locked") as error:
        catalog.add_garbage("t", ["data/a"], START)
    assert error.value.hint == "another program has locked the file: close it, then run it again"
    catalog.close()


def test_sqlites_own_word_for_a_full_disk_is_ours(tmp_path: Path):
    catalog = SqliteCatalog(tmp_path / "catalog.sqlite")
    catalog._file._connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(DiskFull, match="no space left for the catalog") as error:
        catalog.add_garbage("t", [f"data/{i}" for i in range(10_000)], START)
    assert error.value.hint == "free some space, then run it again"
    catalog.close()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()
