"""Does a trace of the specification on the product, step by step, and holds that both are in the same state after each.

An operation of the product runs in a thread that waits before each call of the catalog and the storage. What the trace
does next must be the call that the thread waits for, so the specification can neither leave out a step nor invent one.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pyarrow as pa
import pytest

from sleeper_nb.admin.migrate import migrate_state_store
from sleeper_nb.errors import StorageError
from sleeper_nb.load import sources
from sleeper_nb.load.ingest import ingest_arrow
from sleeper_nb.model.snapshots import SnapshotReference
from sleeper_nb.state_store.dynamodb import store as items_store
from sleeper_nb.state_store.history import Metadata
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.local import LocalPlace
from sleeper_nb.versions.delete_savepoint import delete_savepoint
from sleeper_nb.versions.expire import Retention, expire_snapshots
from sleeper_nb.versions.leases import Leases
from sleeper_nb.versions.resolve import resolve
from sleeper_nb.versions.roll_back import roll_back
from tests.protocol.checker import Step
from tests.protocol.operations import is_metadata
from tests.protocol.scenes import MERGED, Scene
from tests.protocol.world import ITEMS, World
from tests.support.builders import KEYED, TABLE, a_store, collect, compact, rows_of, save
from tests.support.faults import DeadError
from tests.support.interleavings import Stage, Template

CALLS = {
    "Current": "current", "Snapshots": "snapshots", "Snapshot": "snapshot", "Checkpoint": "checkpoint", "Log": "log",
    "SnapshotOfJob": "snapshot_of_job", "MakeCurrent": "commit", "HasCommit": "has_commit",
    "Materialise": "materialise", "Expire": "expire_snapshots", "Savepoints": "savepoints",
    "ReserveSavepointId": "reserve_savepoint_id", "AddSavepoint": "add_savepoint",
    "DeleteSavepoint": "delete_savepoint", "Leases": "leases", "AddLease": "add_lease",
    "ReleaseLease": "release_lease", "Garbage": "garbage", "AddGarbage": "add_garbage",
    "ForgetGarbage": "forget_garbage", "ReadItems": "read_items", "ListItems": "list_items",
    "DeleteItems": "delete_items", "Write": "write", "Read": "read metadata", "ReadFile": "read data",
    "Delete": "delete",
}  # fmt: skip
"""The call of the product that each request of the specification stands for."""
OF_CATALOG = frozenset(CALLS.values()) - {"write", "delete"}
PATIENCE = 60.0


class Turn:
    """Where an operation waits before each step; `failure` comes in place of the step, or of its answer."""

    def __init__(self) -> None:
        self.waits: SimpleQueue[str | None] = SimpleQueue()
        self._go: SimpleQueue[str] = SimpleQueue()
        self._dead = False

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Wait for the turn, then do a step."""
        how = "killed" if self._dead else self._asked(name)
        if how == "killed":
            self._dead = True
            raise DeadError
        if how == "failed":
            raise StorageError("the call failed")
        yield
        if how == "lost answer":
            raise StorageError("the connection broke")

    def _asked(self, name: str) -> str:
        self.waits.put(name)
        return self._go.get()

    def go(self, how: str) -> None:
        """Let the operation do its step, or fail."""
        self._go.put(how)


class GatedCatalog:
    """A catalog whose calls wait for their turn."""

    def __init__(self, real: Any, turn: Turn) -> None:
        self._real, self._turn = real, turn

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name not in OF_CATALOG:
            return found

        def called(*arguments: Any, **options: Any) -> Any:
            with self._turn.step(name):
                return found(*arguments, **options)

        return called


class GatedStorage(Storage):
    """A folder whose files wait for their turn to be read, written and deleted; a savepoint's own file does not."""

    def __init__(self, place: Any, turn: Turn) -> None:
        super().__init__(place)
        self.turn = turn

    def below(self, folder: str) -> Storage:
        return type(self)(super().below(folder).place, self.turn)

    def _step(self, what: str, path: str) -> contextlib.AbstractContextManager[None]:
        if path.startswith(("savepoint/", "schema/")):
            return contextlib.nullcontext()
        if what == "read":
            return self.turn.step("read data" if path.startswith("data/") else "read metadata")
        return self.turn.step(what)

    @contextlib.contextmanager
    def output(self, path: str) -> Iterator[pa.NativeFile]:
        with self._step("write", path), super().output(path) as stream:
            yield stream

    def input(self, path: str) -> pa.NativeFile:
        with self._step("read", path):
            return super().input(path)

    def delete(self, path: str) -> None:
        with self._step("delete", path):
            super().delete(path)


ONLY_NEWEST = Retention(timedelta(0), 1, 1)


def _expire(store: StateStore) -> None:
    expire_snapshots(store, ONLY_NEWEST, dry_run=False)


def _clean(store: StateStore) -> None:
    _expire(store)
    collect(store)


def _ingest(store: StateStore, rows: str, job: str | None = None) -> None:
    data = sources.read_sources(sources.find_sources(rows_of(*rows)), KEYED).rows
    ingest_arrow(store, data, job_id=job)


def _roll_back(store: StateStore, number: int) -> None:
    roll_back(store, resolve(store.catalog, store.table_id, "table", SnapshotReference(number)), dry_run=False)


def _restore_and_compact(store: StateStore, number: int) -> None:
    _roll_back(store, number)
    compact(store)


def _scan(store: StateStore, number: int) -> None:
    state = store.load(resolve(store.catalog, store.table_id, "table", SnapshotReference(number)).version)
    rows = sorted(state.files.active.to_pylist(), key=lambda row: row["min_key"])
    with Leases(store.catalog, store.clock, None).held(store.table_id, number, "scan"):
        for row in rows:
            store.storage.input(row["filename"]).close()


def _unsave(store: StateStore) -> None:
    for saved in store.catalog.savepoints(store.table_id):
        delete_savepoint(store, saved)


def _checkpoint(store: StateStore) -> None:
    store.on_head(store.materialised)


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "ingest": _ingest,
    "compact": compact,
    "roll_back": _roll_back,
    "restore_and_compact": _restore_and_compact,
    "save": lambda store, number: save(store, None, SnapshotReference(number)),
    "unsave": _unsave,
    "expire": _expire,
    "clean": _clean,
    "scan": _scan,
    "checkpoint": _checkpoint,
    "migrate": migrate_state_store,
}
"""The product's own operations, by the names that the specification has for them."""


class Running:
    """An operation of the product in its thread."""

    def __init__(self, stage: Stage, work: Sequence[Any]) -> None:
        self.turn = Turn()
        self._store = _opened(stage, self.turn)
        self._name, self._arguments = work[0], work[1:]
        self.ended: BaseException | None = None
        threading.Thread(target=self._run, daemon=True).start()
        self.waits: str | None = self.turn.waits.get(timeout=PATIENCE)

    def _run(self) -> None:
        _TURNS.turn = self.turn
        try:
            OPERATIONS[self._name](self._store, *self._arguments)
        except BaseException as error:  # noqa: BLE001 - compared with how the specification ends
            self.ended = error
        self.turn.waits.put(None)

    def do(self, call: str, how: str) -> None:
        """Do the next step, which must be a call of this name; reads of several parts of a file are one step."""
        if call.startswith("read m") and self.waits != call:
            return  # its files are in memory
        assert self.waits == call, f"the product goes on with {self.waits!r}"
        self._go(how)
        while how == "done" and call.startswith("read m") and self.waits == call:
            self._go(how)

    def kill(self) -> None:
        """Let nothing that the operation does have an effect any more."""
        self._go("killed")

    def _go(self, how: str) -> None:
        self.turn.go(how)
        self.waits = self.turn.waits.get(timeout=PATIENCE)


_TURNS = threading.local()


@contextlib.contextmanager
def gated_items(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make reading, listing and deleting the items of `DynamoDBStateStore` steps too."""
    read, forget, written_by = items_store._read, items_store.DynamoDBStateStore.forget, items_store.written_by

    def step(name: str) -> contextlib.AbstractContextManager[None]:
        turn = getattr(_TURNS, "turn", None)
        return contextlib.nullcontext() if turn is None else turn.step(name)

    def gated_read(*arguments: Any) -> Any:
        with step("read_items"):
            return read(*arguments)

    def gated_forget(self: Any) -> None:
        _TURNS.deletes = True
        with step("list_items"):
            pass
        forget(self)

    def gated_written_by(*arguments: Any) -> Any:
        if getattr(_TURNS, "deletes", False):
            _TURNS.deletes = False
            with step("delete_items"):
                pass
        return written_by(*arguments)

    with patch.context() as patched:
        patched.setattr(items_store, "_read", gated_read)
        patched.setattr(items_store.DynamoDBStateStore, "forget", gated_forget)
        patched.setattr(items_store, "written_by", gated_written_by)
        yield


def _opened(stage: Stage, turn: Turn) -> StateStore:
    storage = GatedStorage(LocalPlace(stage.folder / TABLE, sync=False), turn)
    catalog: Any = GatedCatalog(stage.catalog(), turn)
    return a_store(stage.folder, kind=stage.kind, clock=stage.clock, catalog=catalog, storage=storage, create=False)


def prepare(store: StateStore) -> None:
    """Do what comes before every scene."""
    for name, *arguments in MERGED:
        OPERATIONS[name](store, *arguments)


def replay(stage: Stage, scene: Scene, trace: Sequence[tuple[Step, World]]) -> None:
    """Do the steps of a trace on a prepared table; raise `AssertionError` where the product does something else."""
    running: dict[str, Running] = {}
    names = scene.names()
    done: list[str] = []
    try:
        for name, work in zip(names, scene.work, strict=True):
            running[name] = Running(stage, work)
        for step, after in trace:
            done.append(str(step))
            if step.came == "killed":
                running[step.who].kill()
            elif step.who == "time":
                stage.clock.sleep(20 * 60)
            elif (call := CALLS.get(type(step.request).__name__)) is not None:
                running[step.who].do(call, step.came if step.came in {"failed", "lost answer"} else "done")
            assert seen(stage) == expected(after, scene.kind)
    except BaseException as error:
        error.add_note("\n".join([f"{scene}:", *done]))
        raise
    finally:
        for each in running.values():
            if each.waits is not None:
                with contextlib.suppress(Exception):
                    each.kill()


def expected(world: World, kind: str) -> dict[str, Any]:
    """Return what the specification says of a table."""
    data = [path for path in world.files if not is_metadata(path)]
    garbage = [path for path in world.garbage if is_metadata(path)]
    start = world.checkpoint(world.head.id)
    return {
        "retained": [(row.id, row.store, row.metadata is not None) for row in reversed(world.retained)],
        "checkpoint": start and start.id,
        "log": sorted(world.log),
        "savepoints": sorted((saved.id, saved.snapshot, saved.after) for saved in world.saved),
        "leases": sorted(lease.snapshot for lease in world.leases),
        "garbage": (len(garbage), len(world.garbage) - len(garbage)),
        "data files": len(data),
        "metadata files": len(world.files) - len(data),
        "jobs": sorted(world.jobs),
    }


def seen(stage: Stage) -> dict[str, Any]:
    """Return the same of the product's table."""
    catalog = stage.catalog()
    files = [file.path for file in Storage(stage.folder / TABLE).list()]
    garbage = [path for path, _ in catalog.garbage(TABLE)]
    of_data = sum(path.startswith("data/") for path in garbage)
    return {
        "retained": [(s.id, s.state_store, Metadata.of(s) is not None) for s in catalog.snapshots(TABLE)],
        "checkpoint": catalog.checkpoint(TABLE, catalog.current(TABLE).id).id,
        "log": sorted(catalog.whole_log(TABLE)),
        "savepoints": sorted(
            (saved.id, saved.saved_snapshot_id, saved.log.after if saved.log else 0)
            for saved in catalog.savepoints(TABLE)
        ),
        "leases": sorted(lease.snapshot_id for lease in catalog.leases(TABLE)),
        "garbage": (len(garbage) - of_data, of_data),
        "data files": sum(path.startswith("data/") for path in files),
        "metadata files": sum(path.startswith("statestore/") for path in files),
        "jobs": sorted(catalog.job_ids(TABLE)),
    }


def can_be_replayed(steps: Sequence[Step]) -> bool:
    """Whether time does what a trace says: a collection of the product looks at the clock once, when it begins."""
    cleans = [at for at, step in enumerate(steps) if step.who.startswith("clean")]
    later = [at for at, step in enumerate(steps) if step.who == "time"]
    return not (cleans and later) or later[-1] < cleans[0]


def template(folder: Path, kind: str) -> Template:
    """Prepare the table of every scene."""
    return Template(folder, kind, "memory" if kind == ITEMS else "sqlite", prepare)
