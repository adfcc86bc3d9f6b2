"""State stores under faults: any call to storage or catalog may fail, lose its answer, be overtaken, or be the last.

The model is the set of file names of each version, each with its deletion vector. A change that was said to have won is
there; one that was said to have lost is not; of one whose writer died, or could not know, all is there or nothing. The
files themselves are not needed for that, so steps are quick and there can be many: ``--hypothesis-profile=faults``.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from botocore.exceptions import ClientError, ReadTimeoutError
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from sleeper_nb.admin import migrate as migration
from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.clock import ManualClock, Retry
from sleeper_nb.errors import OutcomeUnknown, SleeperError
from sleeper_nb.model.deletions import DeletionVector
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import PartitionSplit
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot, SnapshotReference
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import (
    AddFiles,
    EditCounts,
    EditRows,
    ReplaceFileReferences,
    Rollback,
    SplitPartitions,
)
from sleeper_nb.state_store import state_stores
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.state_store.state_stores import open_state_store
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.local import LocalPlace
from sleeper_nb.versions import expire as expiry
from sleeper_nb.versions import resolve as versions
from tests.servers.memory import MemoryDynamoDB, memory_catalog
from tests.support.builders import (
    EMBEDDED,
    KEYED,
    START,
    a_file,
    a_tree,
    collect,
    leaf_of,
    save,
)
from tests.support.deleted_rows import replaced_reference
from tests.support.faults import KINDS, DeadError, Fault, Faulty, FaultyStorage, no_disk

WITHOUT = " without "
"""Between a data file and its deletion vector, in the model of a version."""
MOST_ITEMS = 7
"""Items of a transaction of DynamoDB: so few that some changes are staged."""


def content(reference: FileReference) -> str:
    """Return what a reference gives, as the model has it."""
    return WITHOUT.join(reference.filenames)


@dataclass(frozen=True)
class Stalled:
    """A request that a writer had prepared when the table's newest snapshot was `head`; None when it won already."""

    request: Callable[[], object]
    names: set[str]
    head: int | None


faults = st.tuples(st.sampled_from(KINDS), st.integers(1, 9))


class FaultMachine(RuleBasedStateMachine):
    """One table, one writer that has faults, and rivals; the catalog is SQLite."""

    kinds: ClassVar = EMBEDDED

    def catalog_under(self, fault: Fault) -> Any:
        """Return the catalog of a writer that meets a fault."""
        return Faulty(self.catalog, fault, no_disk)

    def open_catalog(self) -> Catalog:
        """Open the catalog as those do who meet no fault."""
        return SqliteCatalog(self.folder / "catalog.sqlite", sync=False)

    publishing: ClassVar = "commit"
    """The call that publishes."""

    @initialize(kind=st.integers(0, 2), seed=st.integers(0, 2**31))
    def create(self, kind: int, seed: int) -> None:
        # Checkpoints are what makes a log interesting, so they come every few commits here.
        self.before, state_stores.CHECKPOINT_EVERY = state_stores.CHECKPOINT_EVERY, 3
        self.folder = Path(tempfile.mkdtemp())
        self.clock = ManualClock(START, seed)
        self.catalog = self.open_catalog()
        self.storage = Storage(LocalPlace(self.folder / "id", sync=False))
        self.fresh(self.kinds[kind % len(self.kinds)]).create("table", KEYED, a_tree())
        self.reader = self.fresh()
        self.versions: dict[int, frozenset[str]] = {1: frozenset()}
        self.splits = {1: 0}
        self.rivals: dict[int, str] = {}
        self.saved: dict[int, int] = {}
        self.stalled: list[Stalled] = []
        self.used = self.steps = 0

    def fresh(self, kind: str | None = None) -> StateStore:
        kind = kind or self.catalog.current("id").state_store
        return open_state_store(kind, "id", self.catalog, self.storage, self.clock, Retry(max_attempts=4))

    def faulty(self, fault: tuple[str, int], only: str | None = None) -> StateStore:
        self.fault = Fault(*fault, rival=self.rival, only=only)
        kind = self.catalog.current("id").state_store
        catalog, storage = self.catalog_under(self.fault), FaultyStorage(self.storage, self.fault)
        return open_state_store(kind, "id", catalog, storage, self.clock, Retry(max_attempts=4))

    @property
    def head(self) -> int:
        return max(self.versions)

    def new_name(self) -> str:
        self.used += 1
        return f"data/partition_root/{self.used:032x}.parquet"

    def rival(self) -> None:
        name = self.new_name()
        self.rivals[self.fresh().commit(self.adding(name)).id] = name

    def adding(self, *names: str) -> AddFiles:
        """Return what adds files of the keys that all of them have."""
        leaf = self.leaf()
        return AddFiles(tuple(a_file(name, leaf) for name in sorted(names)))

    def leaf(self) -> str:
        return leaf_of(self.reader.load().tree, ("a", 0)).id

    def settle(self, added: Collection[str], removed: Collection[str], splits: int = 0, to: int | None = None) -> int:
        """Note what every new version must have, that of a rollback what `to` has; return how many are no rival's."""
        ours = 0
        for number in range(self.head + 1, self.catalog.current("id").id + 1):
            rival, before = self.rivals.get(number), self.versions[number - 1]
            after, cuts = before - {*removed} | {*added}, self.splits[number - 1]
            self.versions[number] = before | {rival} if rival else after if to is None else self.versions[to]
            self.splits[number] = cuts if rival else cuts + splits if to is None else self.splits[to]
            ours += rival is None
        return ours

    def attempt(
        self,
        work: Callable[[], object],
        added: Iterable[str] = (),
        removed: Iterable[str] = (),
        splits: int = 0,
        to: int | None = None,
    ) -> None:
        """Do some work that commits once, and hold that its outcome is what it said."""
        said = "done"
        try:
            work()
        except (OutcomeUnknown, DeadError):
            said = "unknown"
        except SleeperError:
            said = "not done"
        ours = self.settle({*added}, {*removed}, splits, to)
        assert ours in {0, 1}
        assert said == "unknown" or bool(ours) == (said == "done")

    @rule(count=st.integers(1, 3), fault=faults)
    def add(self, count: int, fault: tuple[str, int]) -> None:
        names = {self.new_name() for _ in range(count)}
        store = self.faulty(fault)
        change = self.adding(*names)
        self.attempt(lambda: store.commit(change), names, set())

    @precondition(lambda self: len(self.versions[self.head]) > 1)
    @rule(fault=faults, keep=st.integers(0, 2))
    def merge(self, fault: tuple[str, int], keep: int) -> None:
        inputs, output = sorted(self.versions[self.head])[keep:], self.new_name()
        leaf, files = self.leaf(), [each.split(WITHOUT) for each in inputs]
        vectors = tuple(name for _, *vector in files for name in vector)
        change = ReplaceFileReferences("job", leaf, tuple(name for name, *_ in files), a_file(output, leaf), vectors)
        store = self.faulty(fault)
        self.attempt(lambda: store.commit(change), {output}, set(inputs))

    @precondition(lambda self: self.versions[self.head])
    @rule(fault=faults, kept=st.lists(st.booleans(), min_size=1, max_size=4), new=st.integers(0, 2))
    def change_rows(self, fault: tuple[str, int], kept: list[bool], new: int) -> None:
        """Delete rows of some files, by a vector or with the whole file, and insert others in new files."""
        state = self.fresh().load()
        touched = list(zip(state.files.active_in({self.leaf()}), kept, strict=False))
        left = [replace(each, rows=0, deletions=DeletionVector(self.new_name(), each.rows, 1))
                for each, is_kept in touched if is_kept]  # fmt: skip
        inserted = self.adding(*(self.new_name() for _ in range(new))).references
        counts = EditCounts(inserted=sum(each.rows for each in inserted), deleted=sum(e.rows for e, _ in touched))
        replaced = tuple(replaced_reference(each) for each, _ in touched)
        change = EditRows("merge", state.snapshot_id, replaced, (*left, *inserted), (), counts)
        store = self.faulty(fault)
        self.attempt(lambda: store.commit(change), map(content, (*left, *inserted)), [content(e) for e, _ in touched])

    @rule(fault=faults)
    def split(self, fault: tuple[str, int]) -> None:
        """Cut the leaf of all files above their keys: each moves to the left one."""
        self.used += 1
        cut = PartitionSplit(self.leaf(), 0, f"c{10**6 - self.used}", (f"left-{self.used}", f"right-{self.used}"))

        def change(state: TableState) -> SplitPartitions:
            moved = (replace(file, partition_id=cut.child_ids[0]) for file in state.files.active_in({cut.partition_id}))
            return SplitPartitions((cut,), tuple(moved))

        store = self.faulty(fault)
        self.attempt(lambda: store.commit(change), set(), set(), splits=1)

    @rule(fault=faults, pick=st.integers(0, 99))
    def roll_back(self, fault: tuple[str, int], pick: int) -> None:
        kept = sorted({*self.saved.values(), *(s.id for s in self.catalog.snapshots("id"))})
        number = kept[pick % len(kept)]
        then = self.fresh().load(versions.resolve(self.catalog, "id", "table", SnapshotReference(number)).version)
        store = self.faulty(fault)
        self.attempt(lambda: store.commit(lambda state: Rollback.between(state, then)), to=number)

    @rule(fault=faults, kind=st.integers(0, 2))
    def migrate(self, fault: tuple[str, int], kind: int) -> None:
        store, to = self.faulty(fault), self.kinds[kind % len(self.kinds)]
        self.attempt(lambda: migration.migrate_state_store(store, to), set(), set())

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

    @rule(count=st.integers(1, 9), at=st.integers(1, 4))
    def stall(self, count: int, at: int) -> None:
        """A writer looks at the head, prepares, and falls asleep right before a request that publishes, or may."""
        names = {self.new_name() for _ in range(count)}
        change = self.adding(*names)
        store = self.faulty(("stalls", at), only=self.publishing)
        head = self.head
        with contextlib.suppress(DeadError):
            store.commit(change)
        won = self.settle(names, set())
        assert won or self.fault.held
        if self.fault.held is not None:  # what is still to be sent behind a commit that has won adds nothing
            self.stalled.append(Stalled(self.fault.held, names, None if won else head))

    @precondition(lambda self: self.stalled)
    @rule(pick=st.integers(0, 99))
    def wake(self, pick: int) -> None:
        """It wakes and sends what it had prepared: that counts only if nobody has committed meanwhile."""
        woken = self.stalled.pop(pick % len(self.stalled))
        head = self.head
        with contextlib.suppress(SleeperError, ClientError):
            woken.request()
        assert self.settle(woken.names, set()) <= (woken.head == head)

    @invariant()
    def every_version_is_what_it_was(self) -> None:
        if not hasattr(self, "catalog"):
            return
        retained = self.catalog.snapshots("id")
        assert [s.id for s in retained] == list(range(self.head, self.head - len(retained), -1))
        savepoints = self.catalog.savepoints("id")
        # The newest is read after each step, at every other one another in turn, the oldest twice as often; and all of
        # them at the end.
        self.steps += 1
        turn, odd = divmod(self.steps, 2)
        others = (*retained[1:], *savepoints, retained[-1])
        self.hold({retained[0], *([others[turn % len(others)]] if odd else [])})
        assert {s.id: s.saved_snapshot_id for s in savepoints} == self.saved

    def hold(self, found: Iterable[Snapshot | Savepoint]) -> None:
        anew = self.fresh()
        for version in found:
            state = anew.load(version)
            found = state.files.active_in({each.id for each in state.tree.partitions})
            assert set(map(content, found)) == self.versions[version.number]
            assert len(state.tree.leaves) == 1 + self.splits[version.number]

    def teardown(self) -> None:
        if hasattr(self, "catalog"):
            try:
                self.hold((*self.catalog.snapshots("id"), *self.catalog.savepoints("id")))
            finally:
                state_stores.CHECKPOINT_EVERY = self.before
                self.catalog.close()
                shutil.rmtree(self.folder)


class DynamoDBFaultMachine(FaultMachine):
    """The same with any store on a catalog in DynamoDB, where each request may meet the fault."""

    kinds: ClassVar = ("S3StateStore", "TransactionLogStateStore", "DynamoDBStateStore")
    publishing: ClassVar = "transact_write_items"

    def catalog_under(self, fault: Fault) -> Any:
        client = Faulty(self.memory, fault, partial(ReadTimeoutError, endpoint_url="memory"))
        return memory_catalog(self.folder, client, self.clock, max_items=MOST_ITEMS)

    def open_catalog(self) -> Catalog:
        self.memory = MemoryDynamoDB()
        return memory_catalog(self.folder, self.memory, self.clock, max_items=MOST_ITEMS)


TestUnderFaults = FaultMachine.TestCase
TestUnderFaultsOnDynamoDB = DynamoDBFaultMachine.TestCase
