"""The operations of the protocol, step by step as the product does them. Each names the module that it abstracts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from typing import Any

from tests.protocol.checker import FAILED, LOST, Operation, Program, Refused, run
from tests.protocol.world import (
    FULL,
    ITEMS,
    LOG,
    SQLITE,
    AddGarbage,
    AddLease,
    AddSavepoint,
    AllRows,
    AllSavepoints,
    Checkpoint,
    Content,
    Current,
    CutLog,
    Delete,
    DeleteItems,
    DeleteSavepoint,
    Expire,
    ForgetGarbage,
    Garbage,
    Gone,
    HasCommit,
    Lease,
    Leases,
    ListFiles,
    ListItems,
    Log,
    MakeCurrent,
    MarkSavepoint,
    MarkSnapshots,
    Materialise,
    Metadata,
    Now,
    PutLease,
    Read,
    ReadFile,
    ReadItems,
    ReleaseLease,
    RemoveRows,
    ReserveSavepointId,
    Row,
    Saved,
    Savepoints,
    Snapshot,
    SnapshotOfJob,
    Snapshots,
    World,
    Write,
)

ATTEMPTS = 4
Steps = Generator[Any, Any, Any]
Change = Callable[[Row, Content, int], Steps]
"""Takes the head, its state and the new number; returns the next state and its state store, or raises `Refused`."""


class Process:
    """A process that opened the table: it knows the rules and the states that it has loaded."""

    def __init__(self, name: str, world: World) -> None:
        self.name, self.world, self.rules = name, world, world.rules
        self.kind = world.head.store
        self.known: dict[str, dict[int, Content]] = {kind: {} for kind in (FULL, LOG, ITEMS)}
        self.serial = 0

    def path(self, kind: str) -> str:
        """Return a new name of a file."""
        self.serial += 1
        return f"{kind}.{self.name}{self.serial}"

    # state_store/state_store_base.py, history.py: read and commit versions.

    def load(self, row: Row) -> Steps:
        """Read the state of a snapshot, from its files, from the log or from items; each store remembers its own."""
        mine, keepers = self.known[self.kind], self.known[row.store]
        if row.id not in mine:
            if row.metadata is not None:
                mine[row.id] = yield from self.read(row.metadata, row.id)
            elif row.id in keepers:
                mine[row.id] = keepers[row.id]
            elif row.store == ITEMS:
                mine[row.id] = keepers[row.id] = yield from self.rebuilt(row)
            else:
                mine[row.id] = keepers[row.id] = yield from self.replayed(row)
        return mine[row.id]

    def read(self, metadata: Metadata, number: int) -> Steps:
        try:
            return (yield Read(metadata, number))
        except Refused as refused:
            raise Refused("expired", number) from refused

    def replayed(self, row: Row) -> Steps:
        before = max((number for number in self.known[row.store] if number <= row.id), default=0)
        if before:
            try:
                return (yield Log(before, row.id))
            except Refused:
                pass
        start = yield Checkpoint(row.id)
        while True:
            try:
                yield from self.read(start.metadata, start.id)
                return (yield Log(start.id, row.id))
            except Refused:
                if "a log that was cut is read from the next checkpoint" not in self.rules:
                    raise Refused("expired", row.id) from None
                newer = yield Checkpoint(row.id)
                if newer.id == start.id:
                    raise Refused("expired", row.id) from None
                start = newer

    def rebuilt(self, row: Row) -> Steps:
        for _ in range(2):
            content, has_all = yield ReadItems(row)
            if content is not None and has_all:
                return content
            now = yield Snapshot(row.id)
            if now is None:
                raise Refused("expired", row.id)
            if now.metadata is not None and "a reader without items looks for files" in self.rules:
                return (yield from self.read(now.metadata, row.id))
            if content is not None:  # what it removed may be collected: a second reading counts
                return (yield ReadItems(row))[0]
        raise Refused("damaged", f"snapshot {row.id}")

    def head(self) -> Steps:
        """Return the current snapshot and its state; again when it expires while it is read."""
        for attempt in range(ATTEMPTS):
            row = yield Current()
            try:
                return row, (yield from self.load(row))
            except Refused as refused:
                if refused.why != "expired" or attempt == ATTEMPTS - 1 or (yield Current()).commit == row.commit:
                    raise
        raise AssertionError

    def commit(self, change: Change, job: str | None = None) -> Steps:
        """Publish a change as the next snapshot; return its commit."""
        for _ in range(ATTEMPTS):
            row, state = yield from self.head()
            is_asked = job and "a job makes one snapshot" in self.rules
            if is_asked and (yield SnapshotOfJob(job)):
                raise Refused("done before")
            content, store = yield from change(row, state, row.id + 1)
            new = Row(row.id + 1, self.path(f"commit-{row.id + 1}"), store, None)
            if (yield from self.commit_steps(row, state, new, content, job)):
                self.known[self.kind][new.id] = content
                return new.commit
        raise Refused("others were first")

    def commit_steps(self, head: Row, state: Content, new: Row, content: Content, job: str | None) -> Steps:
        written: tuple[str, ...] = ()
        if new.store == FULL:
            metadata = yield from self.write(content, new.id, state if head.metadata else None, head.metadata)
            written = tuple(path for path in metadata if path not in (head.metadata or ()))
            if head.store != FULL:
                yield Read(metadata, head.id)
            new = new._replace(metadata=metadata)
        if new.store == ITEMS != head.store and not (yield from self.forget_items()):
            return False
        commit = MakeCurrent(head, new, content, job, logged=new.store == LOG)
        return (yield from self.settle(commit, written))

    def write(self, content: Content, number: int, before: Content | None, at: Metadata | None) -> Steps:
        """Write the full metadata that differs from what is there."""
        tree = at.tree if at and before and before.tree == content.tree else ""
        if not tree:
            tree = self.path(f"tree-{number}")
            yield Write(tree)
        if at and before and before.refs is content.refs:
            return Metadata(at.files, tree)
        files = self.path(f"files-{number}")
        yield Write(files)
        return Metadata(files, tree)

    def settle(self, commit: MakeCurrent, written: Collection[str]) -> Steps:
        """Return whether a commit was made; delete what was written for it if it was not."""
        new = commit.row
        try:
            won = yield commit
        except Refused as refused:
            if "a lost answer is looked up" not in self.rules:
                raise Refused("not committed", new.commit) from refused
            won = yield HasCommit(new.commit)
            if not won and "a snapshot that expired says nothing of its commit" in self.rules:
                now = yield Current()
                if now.id >= new.id and (yield Snapshot(new.id)) is None:
                    raise Refused("unknown", new.commit) from refused
            if not won:
                yield from self.discard(written)
                raise Refused("not committed", new.commit) from refused
        if not won:
            yield from self.discard(written)
        return won

    def discard(self, paths: Collection[str]) -> Steps:
        for path in sorted(paths):
            yield Delete(path)

    def materialised(self, row: Row) -> Steps:
        """Write full metadata of a snapshot that has none."""
        if row.metadata is not None:
            return row
        content = yield from self.load(row)
        written = yield from self.write(content, row.id, None, None)
        try:
            won = yield Materialise(row.id, written)
        except Refused:
            if "a checkpoint that expired still names its files" in self.rules:
                named = yield from self.or_none(Checkpoint(row.id))
            else:
                named = yield Snapshot(row.id)
            if named is None or named.metadata != written:
                yield from self.discard(written)
            raise
        if won:
            return row._replace(metadata=written)
        yield from self.discard(written)
        now = [each for each in (yield Snapshots()) if each.id == row.id]
        if not now:
            raise Refused("expired", row.id)
        return now[0]

    def or_none(self, request: Any) -> Steps:
        try:
            return (yield request)
        except Refused:
            return None

    # load/ingest.py, maintain/compact.py, versions/roll_back.py: changes of rows.

    def ingest(self, rows: str, job: str | None = None) -> Steps:
        """Add a file with new rows."""
        yield from self.head()
        file = self.path(rows)
        yield Write(file)

        def change(row: Row, state: Content, number: int) -> Steps:
            return state.changed(number, add=[file]), row.store
            yield

        return (yield from self.with_file(file, change, job))

    def with_file(self, file: str, change: Change, job: str | None = None) -> Steps:
        """Commit a change that adds a file; delete it when the change was not made."""
        try:
            return "made", (yield from self.commit(change, job))
        except Refused as refused:
            is_unknown = refused.why in {"unknown", LOST, FAILED}
            if not is_unknown or "files of an unknown outcome stay" not in self.rules:
                yield from self.discard_unless_tracked(file)
            raise

    def discard_unless_tracked(self, file: str) -> Steps:
        if "files of an unknown outcome stay" in self.rules:
            _, state = yield from self.head()
            if file in state.tracked:
                return
        yield Delete(file)

    def compact(self) -> Steps:
        """Merge all files of the current version."""
        _, state = yield from self.head()
        inputs = sorted(state.active)  # when one is gone before it is read, the commit would be refused too
        file = self.path("".join(sorted({*"".join(path.partition(".")[0] for path in inputs)})))
        yield Write(file)

        def change(row: Row, state: Content, number: int) -> Steps:
            if not state.active.issuperset(inputs):
                raise Refused("inputs were replaced")
            return state.changed(number, add=[file], remove=inputs), row.store
            yield

        return (yield from self.with_file(file, change))

    def split(self) -> Steps:
        """Change the partitions, so that new metadata has a new tree."""

        def change(row: Row, state: Content, number: int) -> Steps:
            return state._replace(tree=number), row.store
            yield

        return "made", (yield from self.commit(change))

    def roll_back(self, number: int) -> Steps:
        """Restore the files of an older version."""
        row = yield Snapshot(number)
        if row is None:
            raise Refused("expired", number)
        old = yield from self.load(row)
        yield from self.head()

        def change(row: Row, state: Content, at: int) -> Steps:
            again = old.active - state.active
            if not again <= state.tracked and "a rollback uses only files that the state tracks" in self.rules:
                raise Refused("files were garbage")
            if old.active == state.active:
                raise Refused("nothing to do")
            return state.changed(at, add=again, remove=state.active - old.active), row.store
            yield

        commit = yield from self.commit(change)
        yield Snapshots()  # for the report
        return "made", commit

    # versions/: savepoints, expiry, readers.

    def save(self, number: int) -> Steps:
        """Make a savepoint of a snapshot."""
        row = yield Snapshot(number)
        if row is None or (yield Snapshot(number)) is None:
            raise Refused("expired", number)
        metadata, after, log = yield from self.savable(row)
        saved = Saved((yield ReserveSavepointId()), number, metadata, after, log)
        try:
            yield from self.add_savepoint(saved)
        except Refused as refused:
            if refused.why != "checkpoint expired":
                raise
            full = yield from self.materialised(row)
            yield from self.add_savepoint(saved._replace(metadata=full.metadata, after=0, log=""))
        return "saved", saved.id

    def savable(self, row: Row) -> Steps:
        """Return metadata for a savepoint: of a snapshot in the log, a checkpoint and the log from there."""
        if row.metadata is not None:
            return row.metadata, 0, ""
        if row.store == LOG:
            start = yield Checkpoint(row.id)
            if (yield Snapshot(start.id)) is not None and start.id != row.id:
                try:
                    yield Log(start.id, row.id)
                except Refused:
                    pass
                else:
                    log = self.path(f"log-{row.id}")
                    yield Write(log)
                    return start.metadata, start.id, log
        full = yield from self.materialised(row)
        return full.metadata, 0, ""

    def add_savepoint(self, saved: Saved) -> Steps:
        try:
            yield AddSavepoint(saved)
        except Refused as refused:
            if any(other.id == saved.id for other in (yield Savepoints())):
                return
            if saved.log:
                yield Delete(saved.log)
            raise refused from None

    def unsave(self) -> Steps:
        """Delete all savepoints."""
        for saved in sorted((yield Savepoints())):
            yield from self.delete_savepoint(saved.id)

    def expire(self) -> Steps:
        """Forget every snapshot but the newest."""
        rows = yield from self.retained()
        numbers = frozenset(row.id for row in rows)
        if "the current snapshot never expires" in self.rules:
            numbers -= {rows[-1].id}
        yield from self.forget(numbers)

    def forget(self, numbers: frozenset[int]) -> Steps:
        """Expire snapshots, as the catalog does it."""
        if self.world.catalog == SQLITE:
            yield Expire(numbers)
        else:
            yield MarkSnapshots(numbers)
            yield from self.remove_marked()

    def delete_savepoint(self, number: int) -> Steps:
        if self.world.catalog == SQLITE:
            yield DeleteSavepoint(number)
        else:
            yield MarkSavepoint(number)
            yield from self.remove_marked()

    def remove_marked(self) -> Steps:
        """Remove what is marked, in the order of `catalog/dynamodb/retention.py`."""
        rows, savepoints = (yield AllRows()), (yield AllSavepoints())
        seen = self.world._replace(rows=rows, savepoints=savepoints, garbage=frozenset())
        gone = Gone.of(seen)
        if unnamed := seen.with_garbage(gone).garbage:
            yield AddGarbage(unnamed)
        yield RemoveRows(gone)
        yield CutLog(gone.floor)

    def add_lease(self, number: int) -> Steps:
        """Take a lease: in one step, or written first and looked at afterwards."""
        if self.world.catalog == SQLITE:
            yield AddLease(self.name, number)
            return
        yield PutLease(self.name, number)
        if (yield Snapshot(number)) is not None:
            return
        if any(saved.snapshot == number for saved in (yield Savepoints())):
            return
        if any(lease.snapshot == number and lease.holder != self.name for lease in (yield Leases())):
            return
        yield ReleaseLease(Lease(self.name, number))
        raise Refused("not kept", number)

    def scan(self, number: int) -> Steps:
        """Read a version under a lease."""
        row = yield Snapshot(number)
        if row is None:
            raise Refused("expired", number)
        state = yield from self.load(row)
        try:
            yield from self.add_lease(number)
        except Refused as refused:
            raise Refused("not kept") from refused
        for path in sorted(state.active):
            yield ReadFile(path)
        yield ReleaseLease(Lease(self.name, number))

    def checkpoint(self) -> Steps:
        """Write full metadata of the current snapshot, as a commit to the log does now and then."""
        row, _ = yield from self.head()
        yield from self.materialised(row)

    # maintain/: collection of garbage, sweep.

    def clean(self) -> Steps:
        """Forget every snapshot but the newest, then delete what nothing needs."""
        yield from self.expire()
        yield from self.collect()

    def restore_and_compact(self, number: int) -> Steps:
        yield from self.roll_back(number)
        yield from self.compact()

    def collect(self) -> Steps:
        """Delete files that nothing needs; the delay has passed for each."""
        noted = yield Garbage()
        planned, state = yield from self.head()
        for lease in sorted((yield Leases())):
            if lease.ended:
                yield ReleaseLease(lease)
        kept = yield from self.kept()
        live = {ref.file for ref in state.refs if any(ref.is_live(number) for number in kept)}
        unused = frozenset(state.tracked - state.active - live)
        others = sorted(path for path in noted if is_metadata(path) or path not in state.tracked)
        for path in others:
            yield Delete(path)
        if "the state forgets a file before it is deleted" not in self.rules:
            yield from self.discard(unused)
        if unused:
            yield from self.forget_files(unused, planned.id)
        yield from self.discard(unused)
        if unused or others:
            yield ForgetGarbage(unused | {*others})
        yield Current()

    def kept(self) -> Steps:
        """Return the versions that snapshots, savepoints and leases keep, read in this order."""
        requests = [Snapshots(), Savepoints(), Leases()]
        if "savepoints are read after snapshots" not in self.rules:
            requests = [Savepoints(), Snapshots(), Leases()]
        if "leases are read after savepoints" not in self.rules:
            requests = [Leases(), Snapshots(), Savepoints()]
        yield Current()
        kept: set[int] = set()
        for request in requests:
            match request, (yield request):
                case Snapshots(), rows:
                    kept |= {row.id for row in rows}
                case Savepoints(), savepoints if "savepoints keep files" in self.rules:
                    kept |= {saved.snapshot for saved in savepoints}
                case Leases(), leases if "leases keep files" in self.rules:
                    kept |= {lease.snapshot for lease in leases if not lease.ended}
        return kept

    def forget_files(self, files: frozenset[str], planned: int) -> Steps:
        """Note files as garbage, then make the state forget them."""
        yield AddGarbage(files)

        def change(row: Row, state: Content, number: int) -> Steps:
            again = any(ref.file in files and ref.added > planned for ref in state.refs)
            if files & state.active or (again and "a file that was used again is not forgotten" in self.rules):
                raise Refused("a file is in use")
            return state.without(files), row.store
            yield

        try:
            yield from self.commit(change)
        except Refused as refused:
            if refused.why == "a file is in use":
                yield ForgetGarbage(files)
            raise

    def sweep(self) -> Steps:
        """Delete old files that no version names."""
        at_work = yield Now()
        garbage = yield Garbage()
        rows, savepoints = (yield Snapshots()), (yield Savepoints())
        needed = {path for row in rows for path in row.metadata or ()} | {
            path for saved in savepoints for path in saved.paths
        }
        for row in rows:
            state = yield from self.load(row)
            needed |= state.active
        if "a sweep leaves files that the state tracks" in self.rules:
            needed |= state.tracked
        files = yield ListFiles()
        if "a sweep leaves young files" in self.rules:
            files = {path for path in files if writer_of(path) not in at_work}
        if (start := (yield from self.or_none(Checkpoint(rows[0].id)))) is not None:
            needed |= {*start.metadata}
        yield from self.discard(files - needed - garbage)

    # admin/migrate.py.

    def migrate(self, to: str) -> Steps:
        """Move the table to another state store."""

        def change(row: Row, state: Content, number: int) -> Steps:
            if (yield Current()).store == to:
                raise Refused("nothing to migrate")
            if "a migration writes history before the items go" in self.rules:
                yield from self.write_history()
            yield from self.retained()  # whose schemas are written
            fresh = Process(self.name, self.world)
            yield from fresh.load((yield Current()))
            return state, to

        source = (yield Current()).store
        if "old items go after the head has moved" not in self.rules and source == ITEMS:
            yield from self.write_history()
            yield DeleteItems((yield ListItems()))
        commit = yield from self.commit(change)
        if source == ITEMS:
            yield from self.forget_items()
        if "a migration writes history before the items go" not in self.rules:
            yield from self.write_history()
        return "made", commit

    def write_history(self) -> Steps:
        """Write full metadata of the retained snapshots that only their own store can read."""
        rows = yield from self.retained()
        if "a migration writes all of history" not in self.rules:
            rows = rows[-1:]
        for row in reversed(rows):
            if row.store != ITEMS:
                continue
            try:
                yield from self.materialised(row)
            except Refused as refused:
                if refused.why != "expired" or any(each.id == row.id for each in (yield Snapshots())):
                    raise

    def retained(self) -> Steps:
        yield Current()
        return (yield Snapshots())

    def forget_items(self) -> Steps:
        """Delete all items; return False when they are the table's own."""
        listed = yield ListItems()
        if (yield Current()).store == ITEMS and "items of a newer migration stay" in self.rules:
            return False
        yield DeleteItems(listed)
        return True

    # edit/purge.py.

    def purge(self, row: str) -> Steps:
        """Delete a row, and every version and file that still has it."""
        for _ in range(ATTEMPTS):
            clean = yield from self.delete_row(row)
            head, state = yield from self.head()
            rows, savepoints, leases = (yield Snapshots()), (yield Savepoints()), (yield Leases())
            holds = {number for number in range(1, head.id + 1) if has_row(state, number, row)}
            holding = [each.id for each in rows if each.id in holds]
            if holding and holding[-1] >= clean:
                continue
            going = frozenset(each.id for each in rows if holding and each.id <= holding[-1])
            oldest = min(each for each in rows if each.id not in going)
            if oldest.store != ITEMS and "a purge cuts the log" in self.rules:
                yield from self.materialised(oldest)
            yield from self.forget(going)
            for saved in sorted(savepoints):
                if holds & {*range(saved.after or saved.snapshot, saved.snapshot + 1)}:
                    yield from self.delete_savepoint(saved.id)
            try:
                yield from self.collect()
            except Refused as refused:
                if refused.why != "a file is in use":
                    raise
                continue
            _, state = yield from self.head()
            rows, savepoints, leases = (yield Snapshots()), (yield Savepoints()), (yield Leases())
            left = any(has_row(state, each, row) for each in [*(r.id for r in rows), *(s.snapshot for s in savepoints)])
            tracked = any(row in file.partition(".")[0] for file in state.tracked)
            readers = [lease for lease in leases if not lease.ended]
            if "a purge looks again for what a rollback brought back" not in self.rules:
                return "purged", row, clean
            if not left and not (tracked and not readers):
                return ("purged" if not readers else "readers stay"), row, clean
        raise Refused("rows were brought back")

    def delete_row(self, row: str) -> Steps:
        """Write the files with a row again, without it; return the first version without such a file."""
        while True:
            head, state = yield from self.head()
            holding = sorted(file for file in state.active if row in file.partition(".")[0])
            if not holding:
                return head.id
            try:
                return (yield from self.rewrite(holding, row))
            except Refused as refused:
                if refused.why != "inputs were replaced":
                    raise

    def rewrite(self, holding: list[str], row: str) -> Steps:
        """Replace files by one without a row; return the new snapshot's id."""
        file = self.path("".join(sorted({*"".join(each.partition(".")[0] for each in holding)} - {row})))
        yield Write(file)
        number = 0

        def change(row: Row, state: Content, at: int) -> Steps:
            nonlocal number
            number = at
            if not state.active.issuperset(holding):
                raise Refused("inputs were replaced")
            return state.changed(at, add=[file], remove=holding), row.store
            yield

        yield from self.with_file(file, change)
        return number


def has_row(state: Content, number: int, row: str) -> bool:
    """Whether a version uses a file with a row, by the references that a state tracks."""
    return any(ref.is_live(number) and row in ref.file.partition(".")[0] for ref in state.refs)


def writer_of(path: str) -> str:
    return path.rpartition(".")[2].rstrip("0123456789")


def is_metadata(path: str) -> bool:
    return path.partition("-")[0] in {"files", "tree", "log"}


def operation(name: str, world: World, work: str, *arguments: Any) -> Operation:
    """Return an operation of a new process: the name of one of `Process`, and what it is given."""

    def program() -> Program:
        return getattr(Process(name, world), work)(*arguments)

    return Operation(name, program)


def created(kind: str, world: World) -> World:
    """Return a world with a new, empty table, which has full metadata in every state store."""
    metadata = Metadata("files-1.create", "tree-1.create")
    first = Row(1, "commit-1", kind, metadata)
    empty = world._replace(files=frozenset(metadata), rows=(first,))
    return MakeCurrent(first, first, Content(frozenset())).do(empty)[0]


def prepared(world: World, *work: tuple[Any, ...]) -> World:
    """Return the world after some operations, one after the other."""
    for number, (name, *arguments) in enumerate(work):
        world, ended = run(world, operation(f"{name}{'abcdefgh'[number]}", world, name, *arguments))
        assert ended.refused is None, (name, ended)
    return world


def busy(world: World, operations: Collection[Operation]) -> World:
    """Return the world in which processes are at work."""
    return world._replace(at_work=frozenset(operation.name for operation in operations))


def aftermath(world: World) -> str | None:
    """Return what is wrong when the next process works in a world that others left, and cleans up."""
    if any(lease.ended is False for lease in world.leases):
        return None  # time goes on, and ends it
    for work in (("ingest", "z"), ("compact",), ("expire",), ("unsave",), ("collect",), ("collect",), ("sweep",)):
        name, *arguments = work
        world, ended = run(busy(world, [here := operation("next", world, name, *arguments)]), here)
        if ended.refused is not None:
            return f"the next {name} fails: {ended.refused[0]} {ended.refused[1] or ''}"
        if broken := world.broken([here], [ended]):
            return f"after the next {name}: {broken}"
    needed = world.named() | world.content(world.head.id).active
    if left := sorted(path for path in world.files - needed - {"tree-1.create"}):
        return f"{left[0]} is left, and nothing will delete it"
    return None
