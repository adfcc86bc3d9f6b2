"""The process dies at any step of making, renaming, emptying or deleting a table: nothing half-done shows, and it ends.

A step is a change in the catalog, by one request, or of a file. Behind its death nothing that a process does has an
effect; so to die before one step is to die behind the one before.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sleeper_nb.admin.delete import finish_deletions
from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import StorageError
from sleeper_nb.model.properties import STATE_STORE, TABLE_SCHEMA
from sleeper_nb.model.schema import Schema
from sleeper_nb.progress import SILENT
from sleeper_nb.session import Session
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.local import LocalPlace
from tests.servers.memory import MemoryDynamoDB, OnMemory, memory_catalog
from tests.support.builders import EMBEDDED, KEYED, START, keys_in, rows_of
from tests.support.faults import DeadError, Fault, FullDisk, TrappedCatalog, TrappedStorage

KINDS = (*EMBEDDED, "DynamoDBStateStore")
POINTS = ["g", "n"]


@dataclass(frozen=True)
class Place:
    """An instance in a folder, its catalog there or in memory, which sessions open one after the other."""

    folder: Path
    memory: MemoryDynamoDB | None

    def copied(self, to: Path) -> Place:
        shutil.copytree(self.folder, to)
        return Place(to, self.memory.copied() if self.memory else None)

    @contextlib.contextmanager
    def opened(self, fault: Fault | None = None, seed: int = 0, room: int | None = None) -> Iterator[Session]:
        """Open a session, which may meet a fault, or a disk with so many bytes left."""
        clock = ManualClock(START, seed)
        storage, catalog = Storage(LocalPlace(self.folder, sync=False)), self._catalog(clock, fault)
        if fault is not None:
            storage = TrappedStorage(storage, fault)
        if room is not None:
            storage = FullDisk(storage, room)
        session = Session(
            "default", storage, catalog, clock=clock, progress=SILENT, author=None, spark=None, spark_config={}
        )
        try:
            yield session
        finally:
            if fault is None:
                session.close()

    def _catalog(self, clock: ManualClock, fault: Fault | None) -> Any:
        if self.memory is None:
            sqlite = SqliteCatalog(self.folder / "catalog.sqlite", sync=False)
            return TrappedCatalog(sqlite, fault) if fault else sqlite
        catalog = memory_catalog(Path("place"), self.memory, clock)
        if fault is not None:
            catalog.db = OnMemory(Changing(self.memory, fault), clock)
        return catalog


class Changing:
    """A client of DynamoDB whose requests that change something may meet the fault."""

    def __init__(self, real: MemoryDynamoDB, fault: Fault) -> None:
        self._real, self._fault = real, fault

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)
        if not name.startswith(("transact_write", "batch_write", "create", "delete")):
            return method

        def called(**request: Any) -> Any:
            with self._fault.around(name):
                return method(**request)

        return called


def create(session: Session, kind: str) -> None:
    if "new" not in names(session):
        session.create_table("new", KEYED, POINTS, state_store=kind)


def rename(session: Session, _kind: str) -> None:
    if "trips" in names(session):
        session.rename_table("trips", "journeys")


def delete(session: Session, _kind: str) -> None:
    if "trips" in names(session):
        session.drop_table("trips", force=True)
    finish_deletions(session._components.catalog, session._components.property_files, session._components.clock)


def reinitialise(session: Session, _kind: str) -> None:
    session.admin.reinitialise("trips", delete_partitions=True, split_points=POINTS, force=True)


WORK: dict[str, Callable[[Session, str], None]] = {
    "create": create, "rename": rename, "delete": delete, "reinitialise": reinitialise,
}  # fmt: skip
ENDS = {
    "create": {"trips": "az", "other": "q", "new": ""},
    "rename": {"journeys": "az", "other": "q"},
    "delete": {"other": "q"},
    "reinitialise": {"trips": "", "other": "q"},
}
"""The tables behind each, and their keys."""


def names(session: Session) -> set[str]:
    return {entry.name for entry in session._components.catalog.tables()}


def prepared(folder: Path, kind: str) -> Place:
    place = Place(folder, MemoryDynamoDB() if kind == "DynamoDBStateStore" else None)
    folder.mkdir()
    with place.opened() as session:
        for name, keys in (("trips", "az"), ("other", "q")):
            table = session.create_table(name, KEYED, ["m"], state_store=kind)
            table.ingest(rows_of(*keys))
            table.create_savepoint("kept")
    return place


def shown(session: Session) -> dict[str, str]:
    """Read all that shows, and return each table's keys."""
    found = {}
    for table in session.tables():
        table.at().partition_tree.check()
        for snapshot in table.history():
            table.at(snapshot.id).scan().to_arrow()
        for point in table.savepoints():
            assert keys_in(table.at(f"savepoint.{point.id}").scan().to_arrow())
        found[table.name] = "".join(keys_in(table.scan().to_arrow()))
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("work", WORK)
def test_a_death_at_any_step_leaves_nothing_half_done_and_a_new_run_completes(work: str, kind: str, tmp_path: Path):
    place = prepared(tmp_path / "prepared", kind)
    with place.opened() as session:
        before = shown(session)
    for at in range(1, 99):
        copy = place.copied(tmp_path / "copy")
        fault = Fault("dies before", at, rival=lambda: None)
        with contextlib.suppress(DeadError), copy.opened(fault, seed=1) as session:
            WORK[work](session, kind)
        with copy.opened(seed=2) as session:
            assert shown(session) in (before, ENDS[work])
            WORK[work](session, kind)
            assert shown(session) == ENDS[work]
            check_left(session, work)
        shutil.rmtree(copy.folder)
        if not fault.dead:
            assert at > 1
            return
    pytest.fail("the work never ended")


def check_left(session: Session, work: str) -> None:
    catalog = session._components.catalog
    assert catalog.deleted() == ()
    if work == "delete":
        ids = {entry.id for entry in catalog.tables()}
        files = {file.path for file in session._storage.list() if not file.path.startswith("catalog.")}
        assert all(any(table_id in path for table_id in ids) for path in files)
    if work == "reinitialise":
        assert len(session.table("trips").history()) == 1
        assert len(session.table("trips").at().partition_tree.leaves) == 3


# A change of a table that is a commit and a change of its properties file.

SUMS = {"sleeper.table.aggregations": "max(value)"}
KEPT_FOR = "snapshot.time-retained"


def alter(session: Session) -> None:
    session.table("trips").alter({"note": "string?"})


def set_properties(session: Session) -> None:
    session.table("trips").set_properties({**SUMS, KEPT_FOR: "3 d"})


def replace_table(session: Session) -> None:
    session.create_table("trips", WIDER, or_replace=True, properties={**SUMS, KEPT_FOR: "3 d"})


def migrate(session: Session) -> None:
    session.admin.migrate("trips", "TransactionLogStateStore")


VISITS = Schema({"key": "string"}, {}, {"value": "long"})
WIDER = Schema({"key": "string", "n": "int"}, {}, {"value": "long"})
FILE_AND_COMMIT: dict[str, Callable[[Session], None]] = {
    "alter": alter, "properties": set_properties, "replace": replace_table, "migrate": migrate,
}  # fmt: skip


def settings(session: Session) -> tuple[object, ...]:
    """Return all that these changes change: of the version, and of the file of properties."""
    table = session.table("trips")
    lines = {name: table.at().properties.text(name) for name in (*SUMS, KEPT_FOR, STATE_STORE)}
    assert table.at().properties[TABLE_SCHEMA] == table.schema
    assert table.at().properties[STATE_STORE] == table._store.head().state_store
    assert table.inspect.status().notes == ()
    assert table.maintenance.check().ok
    return table.schema, table.history()[0].operation, tuple(sorted(lines.items()))


@pytest.mark.parametrize("kind", ["dies before", "fails", "is down"])
@pytest.mark.parametrize("work", FILE_AND_COMMIT)
def test_a_commit_and_its_lines_of_the_properties_file_are_both_there_or_neither(work: str, kind: str, tmp_path: Path):
    """Where the change raised an error, nothing changed; what a death leaves half done, the next opening finishes."""
    place = Place(tmp_path / "prepared", None)
    place.folder.mkdir()
    with place.opened() as session:
        session.create_table("trips", VISITS, ["m"]).ingest([{"key": "a", "value": 1}])
        before = settings(session)
    for at in range(1, 99):
        copy = place.copied(tmp_path / "copy")
        fault, raised = Fault(kind, at, rival=lambda: None), False
        with contextlib.suppress(DeadError), copy.opened(fault, seed=1) as session:
            try:
                FILE_AND_COMMIT[work](session)
            except StorageError:
                raised = True
        with copy.opened(seed=2) as session:
            after = settings(session)
            assert (after == before) if raised else (after == before or after[1] == work)
            if after != before:
                assert work in {"alter", "migrate"} or dict(after[2]) == {**dict(before[2]), **SUMS, KEPT_FOR: "3 d"}
            if kind != "dies before" and not raised:
                assert after != before
        shutil.rmtree(copy.folder)
        if fault.calls < at:
            assert at > 3
            return
    pytest.fail("the change never ended")
