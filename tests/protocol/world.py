"""What the processes of a table share, as the protocol sees it: the catalog, the files, and each request to them.

A data file is named by its rows and by the process that wrote it: ``ab.compact`` has the rows a and b. The rules of the
protocol are names (`RULES`); a world without one of them lets happen what the rule forbids.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from tests.protocol.checker import Ended, Operation, Refused

SQLITE, DYNAMODB = "SQLite", "DynamoDB"
FULL, LOG, ITEMS = "S3StateStore", "TransactionLogStateStore", "DynamoDBStateStore"

RULES = frozenset(
    {
        "a commit names the head as its condition",
        "a job makes one snapshot",
        "a lost answer is looked up",
        "a snapshot that expired says nothing of its commit",
        "files of an unknown outcome stay",
        "the current snapshot never expires",
        "metadata that another version names is no garbage",
        "a checkpoint stays while it is needed",
        "a checkpoint that expired still names its files",
        "a log that was cut is read from the next checkpoint",
        "a savepoint names its snapshot as its condition",
        "a savepoint on a log names its checkpoint as its condition",
        "a lease needs a version that is kept",
        "leases keep files",
        "savepoints keep files",
        "savepoints are read after snapshots",
        "leases are read after savepoints",
        "the state forgets a file before it is deleted",
        "a file that was used again is not forgotten",
        "a rollback uses only files that the state tracks",
        "a migration writes history before the items go",
        "a migration writes all of history",
        "old items go after the head has moved",
        "items of a newer migration stay",
        "a reader without items looks for files",
        "a sweep leaves young files",
        "a sweep leaves files that the state tracks",
        "a purge cuts the log",
        "a purge looks again for what a rollback brought back",
    }
)


class Ref(NamedTuple):
    """A reference: its file is live in the snapshots [added, removed); removed is 0 while it is active."""

    file: str
    added: int
    removed: int = 0

    def is_live(self, at: int) -> bool:
        return self.added <= at and not 0 < self.removed <= at


class Content(NamedTuple):
    """The state of a snapshot: its references, the waiting ones too, and which tree of partitions it has."""

    refs: frozenset[Ref]
    tree: int = 1

    @property
    def active(self) -> frozenset[str]:
        return frozenset(ref.file for ref in self.refs if not ref.removed)

    @property
    def tracked(self) -> frozenset[str]:
        return frozenset(ref.file for ref in self.refs)

    def changed(self, at: int, add: Collection[str] = (), remove: Collection[str] = ()) -> Content:
        """Return the state once references were removed and added."""
        kept = {ref._replace(removed=at) if ref.file in remove and not ref.removed else ref for ref in self.refs}
        return self._replace(refs=frozenset(kept | {Ref(file, at) for file in add}))

    def without(self, files: Collection[str]) -> Content:
        """Return the state once files were forgotten."""
        return self._replace(refs=frozenset(ref for ref in self.refs if ref.file not in files))


class Metadata(NamedTuple):
    """Where the full metadata of a snapshot is."""

    files: str
    tree: str


class Row(NamedTuple):
    """A snapshot in the catalog."""

    id: int
    commit: str
    store: str
    metadata: Metadata | None
    expired: bool = False


class Commit(NamedTuple):
    """A commit in the true history, which nobody can read as such."""

    commit: str
    parent: str
    content: Content
    job: str | None


class Saved(NamedTuple):
    """A savepoint in the catalog; `after` is the checkpoint from which its log leads to it, 0 without a log."""

    id: int
    snapshot: int
    metadata: Metadata
    after: int = 0
    log: str = ""
    deleting: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        return (*self.metadata, self.log) if self.log else tuple(self.metadata)


class Lease(NamedTuple):
    """A reader's lease; it has ended once it was not renewed, and its holder relies on it once that was `granted`."""

    holder: str
    snapshot: int
    ended: bool = False
    granted: bool = True


class World(NamedTuple):
    """The catalog and the storage of one table, and what truly happened.

    Parameters
    ----------
    rules
        Those that hold; the specification has all.
    history
        All commits; the place of each is its snapshot's id, less one.
    rows, log, savepoints, last_savepoint, leases, garbage, jobs
        The catalog.
    items
        The items of `DynamoDBStateStore`: the first snapshot that they can show, and the files that they track.
    files
        The storage.
    at_work
        The processes that have not ended: what they wrote is young.
    catalog
        Which catalog it is: SQLite does each call in one step, DynamoDB does some in several.
    """

    rules: frozenset[str] = RULES
    history: tuple[Commit, ...] = ()
    rows: tuple[Row, ...] = ()
    log: frozenset[int] = frozenset()
    savepoints: frozenset[Saved] = frozenset()
    last_savepoint: int = 0
    leases: frozenset[Lease] = frozenset()
    garbage: frozenset[str] = frozenset()
    jobs: frozenset[str] = frozenset()
    items: tuple[int, frozenset[str]] | None = None
    files: frozenset[str] = frozenset()
    at_work: frozenset[str] = frozenset()
    catalog: str = SQLITE

    @property
    def head(self) -> Row:
        return self.rows[-1]

    @property
    def saved(self) -> frozenset[Saved]:
        return frozenset(saved for saved in self.savepoints if not saved.deleting)

    @property
    def retained(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if not row.expired)

    def content(self, number: int) -> Content:
        return self.history[number - 1].content

    def row(self, number: int) -> Row | None:
        return next((row for row in self.rows if row.id == number), None)

    def checkpoint(self, at: int) -> Row | None:
        """The newest snapshot at or before a number that has full metadata, also an expired one."""
        return next((row for row in reversed(self.rows) if row.id <= at and row.metadata), None)

    def shows(self, number: int) -> bool:
        """Whether the items show a snapshot."""
        return self.items is not None and self.items[0] <= number and self.content(number).active <= self.items[1]

    def has_log(self, after: int, until: int) -> bool:
        return all(number in self.log for number in range(after + 1, until + 1))

    def named(self, gone: Gone | None = None) -> set[str]:
        """The metadata files that a snapshot or a savepoint names, besides those that go."""
        rows = {path for row in self.rows if not gone or row not in gone.rows for path in row.metadata or ()}
        savepoints = (saved for saved in self.savepoints if not gone or saved not in gone.savepoints)
        return rows | {path for saved in savepoints for path in saved.paths}

    # What must never be, and what time does.

    def broken(self, operations: Sequence[Operation], under_way: Sequence[Any]) -> str | None:
        """Return the first broken promise."""
        return next((broken for broken in self._broken(operations, under_way)), None)

    def _broken(self, operations: Sequence[Operation], under_way: Sequence[Any]) -> Iterator[str]:
        for row in self.retained:
            if lost := self._lost(row):
                yield f"retained snapshot {row.id} cannot be read: {lost} is gone"
        for saved in self.saved:
            if lost := next(iter(sorted({*saved.paths, *self.content(saved.snapshot).active} - self.files)), ""):
                yield f"savepoint {saved.id} cannot be read: {lost} is gone"
        for lease in self.leases:
            is_relied_on = lease.granted and not lease.ended and lease.holder in self.at_work
            if is_relied_on and (lost := self.content(lease.snapshot).active - self.files):
                yield f"{lease.holder} has a lease on snapshot {lease.snapshot}, but {min(lost)} is gone"
        if not self.rows or self.head.id != len(self.history) or self.head.expired:
            yield "the newest snapshot is not retained, or ids have a gap"
        for before, after in zip(self.history, self.history[1:], strict=False):
            if after.parent != before.commit:
                yield f"commit {after.commit} does not follow {before.commit}, which was acknowledged"
        for operation, ended in zip(operations, under_way, strict=True):
            if isinstance(ended, Ended):
                yield from self._broken_by(operation.name, ended)
        made = [commit.job for commit in self.history if commit.job]
        if len(made) != len(set(made)):
            yield "a job has made two snapshots"

    def _lost(self, row: Row) -> str:
        """Return what of a retained snapshot is gone; empty when it can be read."""
        active = self.content(row.id).active
        if lost := active - self.files:
            return min(lost)
        start = self.checkpoint(row.id) if row.metadata is None and row.store != ITEMS else row
        if row.store == ITEMS and row.metadata is None:
            return "" if self.shows(row.id) else "an item"
        if start is None or start.metadata is None:
            return "its checkpoint"
        if not self.has_log(start.id, row.id) and start is not row:
            return "the log"
        return min({*start.metadata} - self.files, default="")

    def _broken_by(self, who: str, ended: Ended) -> Iterator[str]:
        commits = {commit.commit for commit in self.history}
        value: Any = ended.value
        match ended.refused, value:
            case (why, about), _ if why == "not committed" and about in commits:
                yield f"{who} says that nothing was changed, but commit {about} was made"
            case (why, about), _ if why == "expired" and any(row.id == about for row in self.retained):
                yield f"{who} says that snapshot {about} has expired, but it is retained"
            case (why, about), _ if why in {"missing", "damaged"}:
                yield f"{who} cannot read {about}"
            case None, ("made", commit) if commit not in commits:
                yield f"{who} has made commit {commit}, which is lost"
            case None, ("purged", row, clean):
                kept = {ref.file for one in self.retained for ref in self.content(one.id).refs if ref.is_live(one.id)}
                kept |= {file for saved in self.saved for file in self.content(saved.snapshot).active}
                kept |= self.content(self.head.id).tracked & self.files
                if left := sorted(file for file in kept if row in file.partition(".")[0]):
                    yield f"{who} has purged row {row}, but {left[0]} has it"
                if any(number < clean for number in self.log):
                    yield f"{who} has purged row {row}, but the log from before is left"

    def broken_at_end(self) -> str | None:
        """Return what is wrong once nobody is at work: the next operations go on, and clean up what nobody needs."""
        from tests.protocol.operations import aftermath

        return aftermath(self)

    def ended(self, who: str) -> World:
        """A process is no longer at work."""
        return self._replace(at_work=self.at_work - {who})

    def later(self) -> Iterator[tuple[str, World]]:
        """The lease of a reader that was killed ends, since nobody renews it."""
        for lease in self.leases:
            if not lease.ended and lease.holder not in self.at_work:
                ended = self.leases - {lease} | {lease._replace(ended=True)}
                yield f"the lease of {lease.holder} ends", self._replace(leases=ended)

    def with_garbage(self, gone: Gone) -> World:
        """Metadata files of rows that go become garbage, unless other rows name them."""
        named = self.named(gone) if "metadata that another version names is no garbage" in self.rules else set()
        return self._replace(garbage=self.garbage | (gone.paths - named))


# Requests to the catalog. `names` are the calls of the real one that begin the step.


class Current(NamedTuple):
    changes = False

    def do(self, world: World) -> tuple[World, Row]:
        return world, world.head


class Snapshots(NamedTuple):
    changes = False

    def do(self, world: World) -> tuple[World, tuple[Row, ...]]:
        return world, world.retained


class Snapshot(NamedTuple):
    number: int
    changes = False

    def do(self, world: World) -> tuple[World, Row | None]:
        return world, next((row for row in world.retained if row.id == self.number), None)


class Checkpoint(NamedTuple):
    at: int
    changes = False

    def do(self, world: World) -> tuple[World, Row]:
        row = world.checkpoint(self.at)
        if row is None:
            raise Refused("expired", self.at)
        return world, row


class Log(NamedTuple):
    after: int
    until: int
    changes = False

    def do(self, world: World) -> tuple[World, Content]:
        if not world.has_log(self.after, self.until):
            raise Refused("expired", self.until)
        return world, world.content(self.until)


class SnapshotOfJob(NamedTuple):
    job: str
    changes = False

    def do(self, world: World) -> tuple[World, bool]:
        return world, self.job in world.jobs


class MakeCurrent(NamedTuple):
    """A commit: the new snapshot becomes current if the expected one still is; items change in the same step."""

    expected: Row
    row: Row
    content: Content
    job: str | None = None
    logged: bool = False
    changes = True

    def __str__(self) -> str:
        return f"MakeCurrent snapshot {self.row.id} after {self.expected.id}, files {sorted(self.content.active)}"

    def do(self, world: World) -> tuple[World, bool]:
        if world.head.commit != self.expected.commit and "a commit names the head as its condition" in world.rules:
            return world, False
        if self.job in world.jobs and "a job makes one snapshot" in world.rules:
            return world, False
        before = self.row.id - 1
        history = (*world.history[:before], Commit(self.row.commit, self.expected.commit, self.content, self.job))
        rows = (*(row for row in world.rows if row.id <= before), self.row)
        items = world.items
        if self.row.store == ITEMS:
            items = self.row.id if self.expected.store != ITEMS or items is None else items[0], self.content.tracked
        return world._replace(
            history=(*history, *world.history[before + 1 :]),
            rows=(*rows, *(row for row in world.rows if row.id > self.row.id)),
            log=world.log | {self.row.id} if self.logged else world.log,
            jobs=world.jobs | {self.job} if self.job else world.jobs,
            items=items,
        ), True


class HasCommit(NamedTuple):
    commit: str
    changes = False

    def do(self, world: World) -> tuple[World, bool]:
        return world, any(row.commit == self.commit for row in world.rows)


class Materialise(NamedTuple):
    number: int
    metadata: Metadata
    changes = True

    def do(self, world: World) -> tuple[World, bool]:
        row = world.row(self.number)
        if row is None or row.expired or row.metadata is not None:
            return world, False
        changed = row._replace(metadata=self.metadata)
        return world._replace(rows=tuple(changed if each == row else each for each in world.rows)), True


class Expire(NamedTuple):
    """Snapshots expire; what is needed to read later ones stays, hidden, and the log is cut after it."""

    numbers: frozenset[int]
    changes = True

    def do(self, world: World) -> tuple[World, None]:
        world = MarkSnapshots(self.numbers).do(world)[0]
        gone = Gone.of(world)
        world = world.with_garbage(gone)
        return CutLog(gone.floor).do(RemoveRows(gone).do(world)[0])


class MarkSnapshots(NamedTuple):
    """No reader sees the snapshots any more."""

    numbers: frozenset[int]
    changes = True

    def do(self, world: World) -> tuple[World, None]:
        going = self.numbers
        if "the current snapshot never expires" in world.rules:
            going -= {world.head.id}
        return world._replace(
            rows=tuple(row._replace(expired=row.expired or row.id in going) for row in world.rows)
        ), None


class Gone(NamedTuple):
    """The rows that nothing needs any more: marked snapshots and savepoints, and the log up to `floor`."""

    rows: frozenset[Row]
    savepoints: frozenset[Saved]
    floor: int

    @classmethod
    def of(cls, world: World) -> Gone:
        least = min((row.id for row in world.retained), default=0)
        floor = max((row.id for row in world.rows if row.id <= least and row.metadata), default=0)
        below = floor if "a checkpoint stays while it is needed" in world.rules else least
        rows = frozenset(row for row in world.rows if row.expired and (row.id < below or row.metadata is None))
        return cls(rows, frozenset(saved for saved in world.savepoints if saved.deleting), floor)

    @property
    def paths(self) -> set[str]:
        rows = {path for row in self.rows for path in row.metadata or ()}
        return rows | {path for saved in self.savepoints for path in saved.paths}


class RemoveRows(NamedTuple):
    gone: Gone
    changes = True

    def do(self, world: World) -> tuple[World, None]:
        rows, savepoints = ({each.id for each in of} for of in (self.gone.rows, self.gone.savepoints))
        return world._replace(
            rows=tuple(row for row in world.rows if row.id not in rows),
            savepoints=frozenset(saved for saved in world.savepoints if saved.id not in savepoints),
        ), None


class CutLog(NamedTuple):
    floor: int
    changes = True

    def do(self, world: World) -> tuple[World, None]:
        return world._replace(log=frozenset(number for number in world.log if number > self.floor)), None


class AllRows(NamedTuple):
    """The snapshots, also those that are marked."""

    changes = False

    def do(self, world: World) -> tuple[World, tuple[Row, ...]]:
        return world, world.rows


class AllSavepoints(NamedTuple):
    changes = False

    def do(self, world: World) -> tuple[World, frozenset[Saved]]:
        return world, world.savepoints


class Savepoints(NamedTuple):
    changes = False

    def do(self, world: World) -> tuple[World, frozenset[Saved]]:
        return world, world.saved


class ReserveSavepointId(NamedTuple):
    changes = True

    def do(self, world: World) -> tuple[World, int]:
        return world._replace(last_savepoint=world.last_savepoint + 1), world.last_savepoint + 1


class AddSavepoint(NamedTuple):
    saved: Saved
    changes = True

    def do(self, world: World) -> tuple[World, None]:
        kept = {row.id: row for row in world.retained}
        if self.saved.snapshot not in kept and "a savepoint names its snapshot as its condition" in world.rules:
            raise Refused("expired", self.saved.snapshot)
        after = kept.get(self.saved.after)
        unchanged = after is not None and after.metadata == self.saved.metadata
        if (
            self.saved.after
            and not unchanged
            and "a savepoint on a log names its checkpoint as its condition" in world.rules
        ):
            raise Refused("checkpoint expired")
        return world._replace(savepoints=world.savepoints | {self.saved}), None


class DeleteSavepoint(NamedTuple):
    number: int
    changes = True

    def do(self, world: World) -> tuple[World, None]:
        gone = Gone(frozenset(), frozenset(saved for saved in world.savepoints if saved.id == self.number), 0)
        return RemoveRows(gone).do(world.with_garbage(gone))


class MarkSavepoint(NamedTuple):
    number: int
    changes = True

    def do(self, world: World) -> tuple[World, None]:
        marked = frozenset(
            saved._replace(deleting=saved.deleting or saved.id == self.number) for saved in world.savepoints
        )
        return world._replace(savepoints=marked), None


class Leases(NamedTuple):
    changes = False

    def do(self, world: World) -> tuple[World, frozenset[Lease]]:
        return world, world.leases


class AddLease(NamedTuple):
    holder: str
    snapshot: int
    changes = True

    def do(self, world: World) -> tuple[World, None]:
        kept = {row.id for row in world.retained} | {saved.snapshot for saved in world.saved}
        kept |= {lease.snapshot for lease in world.leases}
        if self.snapshot not in kept and "a lease needs a version that is kept" in world.rules:
            raise Refused("not kept", self.snapshot)
        return world._replace(leases=world.leases | {Lease(self.holder, self.snapshot)}), None


class PutLease(NamedTuple):
    """The first step of a lease where the catalog needs several: nobody relies on it yet."""

    holder: str
    snapshot: int
    changes = True

    def do(self, world: World) -> tuple[World, None]:
        return world._replace(leases=world.leases | {Lease(self.holder, self.snapshot, granted=False)}), None


class ReleaseLease(NamedTuple):
    lease: Lease
    changes = True

    def do(self, world: World) -> tuple[World, bool]:
        same = {lease for lease in world.leases if lease._replace(granted=True) == self.lease._replace(granted=True)}
        return world._replace(leases=world.leases - same), bool(same)


class Garbage(NamedTuple):
    changes = False

    def do(self, world: World) -> tuple[World, frozenset[str]]:
        return world, world.garbage


class AddGarbage(NamedTuple):
    paths: frozenset[str]
    changes = True

    def do(self, world: World) -> tuple[World, None]:
        return world._replace(garbage=world.garbage | self.paths), None


class ForgetGarbage(NamedTuple):
    paths: frozenset[str]
    changes = True

    def do(self, world: World) -> tuple[World, None]:
        return world._replace(garbage=world.garbage - self.paths), None


# Requests to the items of `DynamoDBStateStore`.


class ReadItems(NamedTuple):
    """The state of a snapshot, if the items show it, and whether they have what its commit removed."""

    row: Row
    changes = False

    def do(self, world: World) -> tuple[World, tuple[Content | None, bool]]:
        content = world.content(self.row.id)
        if not world.shows(self.row.id):
            return world, (None, False)
        removed = {ref.file for ref in content.refs if ref.removed == self.row.id}
        return world, (content, world.items is not None and removed <= world.items[1])


class ListItems(NamedTuple):
    changes = False

    def do(self, world: World) -> tuple[World, int]:
        return world, world.items[0] if world.items else 0


class DeleteItems(NamedTuple):
    """The items that were listed go, by their commits."""

    listed: int
    changes = True

    def do(self, world: World) -> tuple[World, None]:
        mine = world.items and world.items[0] == self.listed
        if "items of a newer migration stay" not in world.rules:
            mine = world.items
        return (world._replace(items=None) if mine else world), None


# Requests to the storage.


class Write(NamedTuple):
    path: str
    changes = True

    def do(self, world: World) -> tuple[World, None]:
        return world._replace(files=world.files | {self.path}), None


class Read(NamedTuple):
    """Full metadata is read: both files."""

    metadata: Metadata
    number: int
    changes = False

    def do(self, world: World) -> tuple[World, Content]:
        if lost := {*self.metadata} - world.files:
            raise Refused("gone", min(lost))
        return world, world.content(self.number)


class ReadFile(NamedTuple):
    path: str
    changes = False

    def do(self, world: World) -> tuple[World, None]:
        if self.path not in world.files:
            raise Refused("missing", self.path)
        return world, None


class Delete(NamedTuple):
    path: str
    changes = True

    def do(self, world: World) -> tuple[World, None]:
        return world._replace(files=world.files - {self.path}), None


class Now(NamedTuple):
    """A look at the clock: what these processes write is younger than a day from now on; no commit takes that long."""

    changes = False

    def do(self, world: World) -> tuple[World, frozenset[str]]:
        return world, world.at_work


class ListFiles(NamedTuple):
    changes = False

    def do(self, world: World) -> tuple[World, frozenset[str]]:
        return world, world.files
