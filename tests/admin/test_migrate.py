"""Moving a live table from one state store to another."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from sleeper_nb.admin.migrate import migrate_state_store
from sleeper_nb.clock import Clock, ManualClock
from sleeper_nb.errors import StorageError
from sleeper_nb.model.config_text import changed
from sleeper_nb.model.properties import schema_line
from sleeper_nb.state_store import state_stores as opening
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.state_store.state_stores import TransactionLogStateStore
from sleeper_nb.storage import paths
from sleeper_nb.versions import expire as expiry
from tests.support.builders import (
    a_store,
    collect,
    compact,
    forget_all_but_newest,
    in_order,
    ingest,
    keys_in,
    on_disk,
    reachable,
    reopened,
    rows_of,
    save,
    scan,
)
from tests.support.faults import Trap, TrappedCatalog, TrappedStorage, interrupt, lose_answer

S3, LOG = "S3StateStore", "TransactionLogStateStore"
BOTH = pytest.mark.parametrize(("here", "there"), [(S3, LOG), (LOG, S3)])
EXPIRE_ALL = expiry.Retention(timedelta(0), 1, 1)


def rows_at_each_version(store: StateStore) -> dict[Any, list[str]]:
    fresh = reopened(store)
    versions = (*store.catalog.snapshots(store.table_id), *store.catalog.savepoints(store.table_id))
    return {version: in_order(scan(fresh, version).to_pylist()) for version in versions}


def a_table_with_a_past(folder: Path, kind: str, **options: Any) -> StateStore:
    store = a_store(folder, points=["m"], kind=kind, **options)
    ingest(store, rows_of("a", "z"))
    save(store, "early")
    ingest(store, rows_of("b"))
    compact(store)
    return store


@BOTH
def test_every_version_reads_the_same_after_a_migration(tmp_path: Path, clock: ManualClock, here: str, there: str):
    store = a_table_with_a_past(tmp_path, here, clock=clock)
    before = rows_at_each_version(store)
    moved = migrate_state_store(store, there, author="ann", message="many files")
    assert (moved.id, moved.operation, moved.state_store) == (store.head().id, "migrate", there)
    assert (moved.author, moved.message, moved.rows, moved.added_files) == ("ann", "many files", 3, 0)
    ingest(store, rows_of("c"))
    after = rows_at_each_version(store)
    assert before.items() <= after.items()
    assert [s.state_store for s in store.catalog.snapshots(store.table_id)] == [there, there, *[here] * 4]
    assert keys_in(scan(store)) == ["a", "b", "c", "z"]


@BOTH
def test_a_table_can_go_there_and_back_and_be_cleaned(tmp_path: Path, clock: ManualClock, here: str, there: str):
    store = a_table_with_a_past(tmp_path, here, clock=clock)
    for name, key in ((there, "c"), (here, "d"), (there, "e"), (here, "f")):
        migrate_state_store(store, name)
        ingest(store, rows_of(key))
        assert store.head().state_store == name
    before = rows_at_each_version(store)
    forget_all_but_newest(store)
    collect(store)
    after = rows_at_each_version(store)
    assert all(after[version] == before[version] for version in after if version in before)
    assert reachable(store) <= on_disk(store)
    assert keys_in(scan(reopened(store))) == ["a", "b", "c", "d", "e", "f", "z"]


@BOTH
def test_where_it_is_already_and_an_unknown_class_change_nothing(
    tmp_path: Path, clock: ManualClock, here: str, there: str
):
    store = a_table_with_a_past(tmp_path, here, clock=clock)
    head, files = store.head(), on_disk(store)
    with pytest.raises(sl.InvalidInput, match=f"is already in {here}"):
        migrate_state_store(store, here)
    with pytest.raises(sl.NotFound, match="no state store 'S4StateStore'"):
        migrate_state_store(store, "S4StateStore")
    assert (store.head(), on_disk(store)) == (head, files)
    other = reopened(store)
    migrate_state_store(other, there)
    with pytest.raises(sl.InvalidInput, match=f"is already in {there}"):
        migrate_state_store(store, there)


@BOTH
def test_a_store_that_was_open_before_follows(tmp_path: Path, clock: ManualClock, here: str, there: str):
    store = a_table_with_a_past(tmp_path, here, clock=clock)
    other = reopened(store)
    ingest(other, rows_of("c"))
    migrate_state_store(store, there)
    for key in "de":
        assert ingest(other, rows_of(key)).state_store == there
    compact(other)
    migrate_state_store(other, here)
    assert ingest(store, rows_of("f")).state_store == here
    assert keys_in(scan(other)) == keys_in(scan(store)) == ["a", "b", "c", "d", "e", "f", "z"]


@BOTH
def test_threads_that_wait_together_follow(tmp_path: Path, here: str, there: str):
    """Changes that wait together go in one commit of a log, but in one each where full metadata is written."""
    store = a_store(tmp_path, kind=here, clock=Clock())
    migrate_state_store(reopened(store), there)
    failed: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(6):
                ingest(store, rows_of((name, number)))
                if number == 3 and name == "a":
                    migrate_state_store(store, here)
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert scan(reopened(store)).num_rows == 36
    assert [s.id for s in store.catalog.snapshots(store.table_id)] == list(range(39, 0, -1))


def _ingest_in_a_process(kind: str, folder: Path, name: str, start: Any) -> None:
    store = a_store(folder, kind=kind, clock=Clock(), create=False)
    start.wait()
    for number in range(12):
        ingest(store, rows_of((name, number)))


@pytest.mark.processes
@BOTH
def test_processes_that_write_during_a_migration_lose_nothing(tmp_path: Path, here: str, there: str):
    store = a_store(tmp_path, kind=here, clock=Clock())
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(3)
    workers = [spawn.Process(target=_ingest_in_a_process, args=(here, tmp_path, name, start)) for name in "ab"]
    for worker in workers:
        worker.start()
    start.wait()
    while store.head().id < 6:
        store.clock.sleep(0.001)
    migrate_state_store(store, there)
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    kinds = [s.state_store for s in reversed(store.catalog.snapshots(store.table_id))]
    assert len(kinds) == 26
    assert kinds == sorted(kinds, key=[here, there].index)
    assert scan(reopened(store)).num_rows == 24


class PrivateStateStore(TransactionLogStateStore):
    """A log that only its own class can read."""

    name = "PrivateStateStore"
    keeps_history_itself = True


@pytest.fixture
def private(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> StateStore:
    """A table whose past only its own class can read."""
    named = opening.state_store_named
    monkeypatch.setattr(
        opening, "state_store_named", lambda name: PrivateStateStore if name == "PrivateStateStore" else named(name)
    )
    return a_table_with_a_past(tmp_path, "PrivateStateStore", clock=clock)


def test_a_past_that_only_its_own_class_can_read_is_written_out_first(private: StateStore):
    before = rows_at_each_version(private)
    migrate_state_store(private, S3)
    assert all(s.files_path for s in private.catalog.snapshots(private.table_id))
    after = rows_at_each_version(private)
    assert [rows for v, rows in after.items() if v.number <= 4] == list(before.values())


@pytest.mark.parametrize("number", range(1, 13))
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fault", [interrupt, lose_answer])
def test_a_fault_at_any_call_is_finished_by_the_next_run(private: StateStore, number: int, after: bool, fault: Any):
    before = list(rows_at_each_version(private).values())
    trap = Trap(number, fault, after=after)
    failing = reopened(private, TrappedCatalog(private.catalog, trap), TrappedStorage(private.storage, trap))
    with contextlib.suppress(KeyboardInterrupt, StorageError):
        migrate_state_store(failing, S3)
    found = rows_at_each_version(private)
    assert [rows for v, rows in found.items() if v.number <= 4] == before
    if private.head().state_store != S3:
        migrate_state_store(private, S3)
    assert private.head().id == 5
    assert all(s.files_path for s in private.catalog.snapshots(private.table_id))
    assert reachable(private) <= on_disk(private)


def test_a_snapshot_that_came_meanwhile_is_written_out_too(private: StateStore):
    other, committed = reopened(private), []

    class Meanwhile(TrappedStorage):
        def delete(self, path: str) -> None:
            super().delete(path)

        @contextlib.contextmanager
        def output(self, path: str) -> Any:
            if not committed:
                committed.append(ingest(other, rows_of("c")))
            with super().output(path) as stream:
                yield stream

    moved = migrate_state_store(reopened(private, storage=Meanwhile(private.storage, Trap(None, interrupt))), S3)
    assert (committed[0].id, moved.id) == (5, 6)
    assert all(s.files_path for s in private.catalog.snapshots(private.table_id))
    assert keys_in(scan(reopened(private))) == ["a", "b", "c", "z"]


SCHEMA = sl.Schema({"city": "string"}, {}, {"fare": "double?"})
FARE = [{"city": "rome", "fare": 1.5}]


def test_a_session_moves_a_table_and_its_properties_say_so(tmp_path: Path):
    with sl.connect(tmp_path) as session, sl.connect(tmp_path) as other:
        table = session.create_table("trips", SCHEMA, properties={"sleeper.table.gc.delay.minutes": "3"})
        (file,) = tmp_path.glob("default/config/tables/*.properties")
        file.write_text("# mine\n" + file.read_text())
        before = other.table("trips")
        moved = session.admin.migrate("trips", LOG, message="faster")
        assert isinstance(moved, sl.Snapshot)
        assert before.ingest(FARE).snapshot.state_store == LOG
        assert (
            table._store.head().state_store,
            before._store.head().state_store,
            session.table("trips")._store.head().state_store,
        ) == (LOG,) * 3
        assert session.table("trips").at().properties["sleeper.table.statestore.classname"] == LOG
        assert file.read_text() == (
            f"# mine\nsleeper.table.gc.delay.minutes=3\nsleeper.table.schema={schema_line(SCHEMA)}\n"
            "sleeper.table.statestore.classname=TransactionLogStateStore\n"
        )
        with pytest.raises(sl.InvalidInput, match="already"):
            session.admin.migrate("trips", LOG)


def test_one_line_of_properties_is_set_and_the_others_stay():
    assert changed("", {"a.b": "1"}) == "a.b=1\n"
    assert changed("# a.b=0\na.b = 0\n\nc=2", {"a.b": "1"}) == "# a.b=0\na.b=1\n\nc=2\n"


def an_altered_table(session: sl.Session, kind: str) -> sl.Table:
    table = session.create_table("trips", SCHEMA, state_store=kind)
    table.ingest(FARE)
    table.alter({"tip": "double?"})
    table.ingest([{"city": "oslo", "fare": 2.5, "tip": 0.5}])
    return table


def rows_in(folder: Path) -> list[dict[str, Any]]:
    with sl.connect(folder) as session:
        table = session.table("trips")
        assert table.maintenance.check(deep=True).ok
        return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["city"])


ALTERED = [{"city": "oslo", "fare": 2.5, "tip": 0.5}, {"city": "rome", "fare": 1.5, "tip": None}]


@pytest.mark.parametrize("kept", ["migration", "checkpoint"])
def test_a_schema_file_that_only_the_log_replaces_is_found_and_written_again(tmp_path: Path, kept: str):
    with sl.connect(tmp_path) as session:
        store = an_altered_table(session, LOG)._store
        store.storage.delete(paths.schema(2))
    with sl.connect(tmp_path) as session:
        table = session.table("trips")
        for deep in (False, True):
            (finding,) = table.maintenance.check(deep=deep).findings
            assert (finding.kind, finding.where) == ("schema file", "snapshots 3–4")
            assert paths.schema(2) in finding.what
            assert "a checkpoint or a migration writes the file again" in finding.means
        assert table.scan().count() == 2
        if kept == "migration":
            session.admin.migrate("trips", S3)
        else:
            table._store.materialised(table._store.head())
    assert rows_in(tmp_path) == ALTERED


def test_schemas_of_older_versions_are_written_again_too(tmp_path: Path):
    with sl.connect(tmp_path) as session:
        table = an_altered_table(session, LOG)
        table.alter(comments={"tip": "in cash"})
        table._store.storage.delete(paths.schema(2))
        assert [each.where for each in table.maintenance.check().findings] == ["snapshots 3–4"]
        session.admin.migrate("trips", S3)
    assert rows_in(tmp_path) == ALTERED


@pytest.mark.parametrize(
    ("here", "there", "lost"), [(LOG, S3, "schema"), (S3, LOG, "schema"), (S3, LOG, "files"), (S3, LOG, "partitions")]
)
@pytest.mark.parametrize("is_gone", [True, False])
def test_what_could_not_be_read_afterwards_is_not_moved(
    tmp_path: Path, here: str, there: str, lost: str, *, is_gone: bool
):
    """The store still has in memory what is gone from the folder, or from the log."""
    with sl.connect(tmp_path) as session:
        table = an_altered_table(session, here)
        head = table._store.head()
        path = {"schema": paths.schema(2), "files": head.files_path, "partitions": head.partitions_path}[lost]
        content = table._store.storage.read(path)
        is_in_log = is_gone and here == LOG
        if is_gone:
            table._store.storage.delete(path)
        else:
            table._store.storage.write(path, content[:-9] + b"\0" * 9)
        before = on_disk(table._store)
        if is_in_log or (is_gone and lost == "schema"):
            session.admin.migrate("trips", there)  # the schema is known, with its checksum
        else:
            with pytest.raises((StorageError, sl.NotFound), match=Path(path).name):
                session.admin.migrate("trips", there)
            assert (table._store.head(), on_disk(table._store)) == (head, before)
            table._store.storage.write(path, content)
    assert rows_in(tmp_path) == ALTERED
