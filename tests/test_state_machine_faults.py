"""State stores under faults: any call to storage or catalog may fail, lose its answer, be overtaken, or be the last.


The model is the set of file names of each version. A change that was said to have won is there; one that was said to
have lost is not; of one whose writer died, or could not know, all is there or nothing. The data files themselves are
not needed for that, so steps are quick and there can be many: ``--hypothesis-profile=nightly``.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import AlreadyExists, NotFound, OutcomeUnknown, SleeperError, StorageError
from sleeper_nb.model.log_entries import to_entry
from sleeper_nb.model.snapshots import Snapshot, SnapshotReference
from sleeper_nb.model.transactions import AddFiles, MigrateStateStore, ReplaceFileReferences
from sleeper_nb.operations import expiry
from sleeper_nb.state_store import transaction_log
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.state_store.history import Metadata
from sleeper_nb.state_store.opening import open_state_store
from sleeper_nb.state_store.retry import Retry
from sleeper_nb.storage.filesystem import Storage
from tests.builders import EMBEDDED, KEYED, START, a_file, a_tree, collect, save


class DeadError(BaseException):
    """The process has ended: nothing that it does afterwards has an effect."""


@dataclass
class Fault:
    """What happens at one of the next calls."""

    kind: str
    at: int
    rival: Callable[[], None]
    calls: int = 0
    dead: bool = False

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        if self.dead:
            raise DeadError
        self.calls += 1
        due = self.calls == self.at
        if due and self.kind == "overtaken":
            self.rival()
        if due and self.kind == "fails":
            raise StorageError("the connection broke")
        if due and self.kind == "dies before":
            self.die()
        yield
        if due and self.kind == "loses its answer":
            raise StorageError("the connection broke")
        if due and self.kind == "dies after":
            self.die()

    def die(self) -> None:
        self.dead = True
        raise DeadError


KINDS = ("none", "overtaken", "fails", "loses its answer", "dies before", "dies after")


class FaultyCatalog:
    def __init__(self, real: SqliteCatalog, fault: Fault) -> None:
        self._real, self._fault = real, fault

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)
        if not callable(method):
            return method

        def called(*arguments: Any, **options: Any) -> Any:
            with self._fault.around():
                return method(*arguments, **options)

        return called


class FaultyStorage(Storage):
    def __init__(self, real: Storage, fault: Fault) -> None:
        super().__init__(real.place)
        self._fault = fault

    @contextlib.contextmanager
    def output(self, path: str) -> Iterator[pa.NativeFile]:
        with self._fault.around(), super().output(path) as stream:
            yield stream

    def input(self, path: str) -> pa.NativeFile:
        with self._fault.around():
            return super().input(path)

    def write(self, path: str, content: bytes) -> None:
        with self._fault.around():
            super().write(path, content)

    def delete(self, path: str) -> None:
        with self._fault.around():
            super().delete(path)


faults = st.tuples(st.sampled_from(KINDS), st.integers(1, 9))


class FaultMachine(RuleBasedStateMachine):
    """One table, one writer that has faults, and rivals."""

    @initialize(kind=st.sampled_from(EMBEDDED), seed=st.integers(0, 2**31))
    def create(self, kind: str, seed: int) -> None:
        # Checkpoints are what makes a log interesting, so they come every few commits here.
        self.before, transaction_log.CHECKPOINT_EVERY = transaction_log.CHECKPOINT_EVERY, 3
        self.folder = Path(tempfile.mkdtemp())
        self.clock = ManualClock(START, seed)
        self.catalog = SqliteCatalog(self.folder / "catalog.sqlite")
        self.storage = Storage(self.folder / "id")
        self.fresh(kind).create("table", KEYED, a_tree())
        self.reader = self.fresh()
        self.versions: dict[int, frozenset[str]] = {1: frozenset()}
        self.rivals: dict[int, str] = {}
        self.saved: dict[int, int] = {}
        self.stalled: list[tuple[Snapshot, Snapshot]] = []
        self.used = 0

    def fresh(self, kind: str | None = None) -> StateStore:
        kind = kind or self.catalog.current("id").state_store
        return open_state_store(kind, "id", self.catalog, self.storage, self.clock, Retry(max_attempts=4))

    def faulty(self, fault: tuple[str, int]) -> StateStore:
        self.fault = Fault(*fault, rival=self.rival)
        catalog: Any = FaultyCatalog(self.catalog, self.fault)
        storage = FaultyStorage(self.storage, self.fault)
        kind = self.catalog.current("id").state_store
        return open_state_store(kind, "id", catalog, storage, self.clock, Retry(max_attempts=4))

    @property
    def head(self) -> int:
        return max(self.versions)

    def new_name(self) -> str:
        self.used += 1
        return f"data/partition_root/{self.used:032x}.parquet"

    def rival(self) -> None:
        name = self.new_name()
        self.rivals[self.fresh().commit(AddFiles((a_file(name),))).id] = name

    def settle(self, added: set[str], removed: set[str]) -> int:
        """Note what every new version must have; return how many of them are not a rival's."""
        ours = 0
        for number in range(self.head + 1, self.catalog.current("id").id + 1):
            rival, before = self.rivals.get(number), self.versions[number - 1]
            self.versions[number] = before | {rival} if rival else before - removed | added
            ours += rival is None
        return ours

    def attempt(self, work: Callable[[], object], added: set[str], removed: set[str]) -> None:
        """Do some work that commits once, and hold that its outcome is what it said."""
        said = "done"
        try:
            work()
        except (OutcomeUnknown, DeadError):
            said = "unknown"
        except SleeperError:
            said = "not done"
        ours = self.settle(added, removed)
        assert ours in {0, 1}
        assert said == "unknown" or bool(ours) == (said == "done")

    @rule(count=st.integers(1, 3), fault=faults)
    def add(self, count: int, fault: tuple[str, int]) -> None:
        names = {self.new_name() for _ in range(count)}
        store = self.faulty(fault)
        self.attempt(lambda: store.commit(AddFiles(tuple(a_file(name) for name in sorted(names)))), names, set())

    @precondition(lambda self: len(self.versions[self.head]) > 1)
    @rule(fault=faults, keep=st.integers(0, 2))
    def merge(self, fault: tuple[str, int], keep: int) -> None:
        inputs, output = sorted(self.versions[self.head])[keep:], self.new_name()
        change = ReplaceFileReferences("job", "root", tuple(inputs), a_file(output))
        store = self.faulty(fault)
        self.attempt(lambda: store.commit(change), {output}, set(inputs))

    @rule(fault=faults, kind=st.sampled_from(EMBEDDED))
    def migrate(self, fault: tuple[str, int], kind: str) -> None:
        store = self.faulty(fault)
        self.attempt(lambda: store.commit(MigrateStateStore(kind)), set(), set())

    @rule(fault=faults, pick=st.integers(0, 99))
    def create_savepoint(self, fault: tuple[str, int], pick: int) -> None:
        retained = sorted(s.id for s in self.catalog.snapshots("id"))
        number = retained[pick % len(retained)]
        with contextlib.suppress(SleeperError, DeadError):
            save(self.faulty(fault), None, SnapshotReference(number))
        assert self.settle(set(), set()) == 0
        for made in self.catalog.savepoints("id"):
            assert self.saved.setdefault(made.id, number) == made.saved_snapshot_id

    @rule(fault=faults, least=st.integers(1, 4))
    def expire(self, fault: tuple[str, int], least: int) -> None:
        with contextlib.suppress(SleeperError, DeadError):
            expiry.expire_snapshots(self.faulty(fault), expiry.Retention(timedelta(0), least, least), dry_run=False)
        assert self.settle(set(), set()) == 0

    @rule(fault=faults)
    def collect_garbage(self, fault: tuple[str, int]) -> None:
        self.clock.advance(timedelta(minutes=1))
        with contextlib.suppress(SleeperError, DeadError):
            collect(self.faulty(fault))
        assert self.settle(set(), set()) in {0, 1}

    @rule()
    def stall(self) -> None:
        """A writer looks at the head, prepares, and falls asleep."""
        head = self.catalog.current("id")
        new = replace(head, id=head.id + 1, commit_id=self.clock.new_id(), time=head.time + timedelta(seconds=1))
        self.stalled.append((head, new))

    @precondition(lambda self: self.stalled)
    @rule()
    def wake(self) -> None:
        """It wakes and commits: only if nobody did meanwhile."""
        head, new = self.stalled.pop()
        with contextlib.suppress(NotFound, AlreadyExists):
            nothing = to_entry(MigrateStateStore(new.state_store), new.time)
            won = self.catalog.commit("id", head, new, log=() if Metadata.of(new) else (nothing,))
            assert won == (head.id == self.head)
            if won:
                self.versions[new.id] = self.versions[head.id]

    @invariant()
    def every_version_is_what_it_was(self) -> None:
        if not hasattr(self, "catalog"):
            return
        retained = self.catalog.snapshots("id")
        assert [s.id for s in retained] == list(range(self.head, self.head - len(retained), -1))
        # The newest and the oldest are read anew; what lies between, by a reader that remembers what it saw.
        for version in (*retained, *self.catalog.savepoints("id")):
            store = self.fresh() if version in {retained[0], retained[-1]} else self.reader
            state = store.load(version)
            assert set(state.files.active["filename"].to_pylist()) == self.versions[version.number]
        assert {s.id: s.saved_snapshot_id for s in self.catalog.savepoints("id")} == self.saved

    def teardown(self) -> None:
        if hasattr(self, "catalog"):
            transaction_log.CHECKPOINT_EVERY = self.before
            self.catalog.close()
            shutil.rmtree(self.folder)


TestUnderFaults = FaultMachine.TestCase
