"""What is explored: which operations are at work at once, on which table, with which faults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.protocol.checker import Explored, Faults, explore
from tests.protocol.operations import busy, created, operation, prepared
from tests.protocol.world import DYNAMODB, FULL, ITEMS, LOG, RULES, SQLITE, World

Work = tuple[Any, ...]
"""The name of an operation, and what it is given."""
TABLES = ((FULL, SQLITE), (LOG, SQLITE), (FULL, DYNAMODB), (LOG, DYNAMODB), (ITEMS, DYNAMODB))
"""State stores and catalogs."""
MERGED: tuple[Work, ...] = (("ingest", "a"), ("ingest", "b"), ("compact",))
"""Two files, of snapshots 2 and 3, that snapshot 4 has as one."""


NO_FAULTS = Faults()


@dataclass(frozen=True)
class Scene:
    """Operations at once.

    Parameters
    ----------
    name
        What it is about.
    kind, catalog
        The state store and the catalog.
    work
        What each process does; processes are named by what they do and their number.
    faults
        What may go wrong, besides every order of steps.
    before
        What was done to the table before.
    """

    name: str
    kind: str
    catalog: str
    work: tuple[Work, ...]
    faults: Faults = NO_FAULTS
    before: tuple[Work, ...] = MERGED

    def __str__(self) -> str:
        return f"{self.name} on {self.kind} in {self.catalog}"

    def names(self) -> tuple[str, ...]:
        """Return the names of the processes."""
        return tuple(f"{name.replace('_', '')}{'ABCDE'[at]}" for at, (name, *_) in enumerate(self.work))

    def explored(self, rules: frozenset[str] = RULES) -> Explored:
        """Explore it."""
        world = prepared(created(self.kind, World(rules=rules, catalog=self.catalog)), *self.before)
        operations = [
            operation(process, world, name, *arguments)
            for process, (name, *arguments) in zip(self.names(), self.work, strict=True)
        ]
        return explore(busy(world, operations), operations, self.faults)


KILL, LOSE, FAIL = Faults(kills=1), Faults(lost=1), Faults(failed=1)
INGEST, OTHER, EXPIRE, CLEAN, SAVE, UNSAVE = (
    ("ingest", "z"), ("ingest", "y"), ("expire",), ("clean",), ("save", 3), ("unsave",),
)  # fmt: skip
READ_OLD, READ, SPLIT, CHECKPOINT, SWEEP, COMPACT = (
    ("scan", 3), ("scan", 4), ("split",), ("checkpoint",), ("sweep",), ("compact",),
)  # fmt: skip
PURGE, ROLL_BACK = ("purge", "a"), ("roll_back", 3)
TWO_READERS = "two readers while all is cleaned"
SUBJECTS: dict[str, tuple[tuple[Work, ...], Faults]] = {
    "two writers": ((INGEST, OTHER), Faults(1, 1, 1)),
    "one job in two processes": ((("ingest", "z", "job"), ("ingest", "z", "job")), Faults(1, 1, 1)),
    "a commit without an answer that expires": ((INGEST, OTHER, EXPIRE), LOSE),
    "partitions whose commit has no answer": ((SPLIT, INGEST, EXPIRE), LOSE),
    "a savepoint while all is cleaned": ((SAVE, CLEAN), Faults(1, 1, 0)),
    "a savepoint that is made and deleted": ((SAVE, UNSAVE, CLEAN), NO_FAULTS),
    "a savepoint, an ingest and a clean-up": ((SAVE, INGEST, CLEAN), NO_FAULTS),
    "a reader while all is cleaned": ((READ_OLD, CLEAN), Faults(1, 1, 1)),
    TWO_READERS: ((READ_OLD, READ_OLD, CLEAN), NO_FAULTS),
    "a rollback while all is cleaned": ((ROLL_BACK, CLEAN), Faults(1, 1, 0)),
    "there and back while all is cleaned": ((("restore_and_compact", 3), CLEAN), LOSE),
    "a checkpoint, an ingest and an expiry": ((CHECKPOINT, INGEST, EXPIRE), LOSE),
    "a checkpoint, a reader and a clean-up": ((CHECKPOINT, READ, CLEAN), NO_FAULTS),
    "a checkpoint and a savepoint while all is cleaned": ((CHECKPOINT, ("save", 4), CLEAN), NO_FAULTS),
    "two clean-ups": ((CLEAN, CLEAN), LOSE),
    "a sweep, an ingest and a rollback": ((SWEEP, INGEST, ROLL_BACK), NO_FAULTS),
    "a sweep while all is cleaned": ((SWEEP, CLEAN), KILL),
    "a purge and a rollback": ((PURGE, ROLL_BACK), LOSE),
    "a purge and a reader": ((PURGE, READ_OLD), KILL),
    "a purge and a savepoint": ((PURGE, SAVE), KILL),
    "a purge and a compaction": ((PURGE, COMPACT), FAIL),
    "a purge and a checkpoint": ((PURGE, CHECKPOINT), NO_FAULTS),
}
"""On every table: what is at work, and the faults."""
MOVES: dict[str, tuple[tuple[Work, ...], Faults]] = {
    "a migration and a reader": ((READ,), Faults(1, 1, 0)),
    "a migration, an ingest and a reader of an old version": ((INGEST, READ_OLD), NO_FAULTS),
    "a migration, a savepoint and an expiry": ((SAVE, EXPIRE), NO_FAULTS),
    "a migration while all is cleaned": ((CLEAN,), KILL),
    "a migration and a rollback": ((ROLL_BACK,), KILL),
}
"""On every table, beside a migration to each other state store."""


def scenes() -> Iterator[Scene]:
    """Yield every scene."""
    for kind, catalog in TABLES:
        for name, (work, faults) in SUBJECTS.items():
            if "checkpoint" in name and kind == FULL:
                continue  # each snapshot is one
            if name == TWO_READERS and catalog == DYNAMODB:
                continue  # a known gap: see `test_protocol.py`
            yield Scene(name, kind, catalog, work, faults)
        yield from migrations(kind, catalog)
    there, back = ("migrate", LOG), ("migrate", ITEMS)
    yield Scene("two migrations, away and back, and a reader", ITEMS, DYNAMODB, (there, back, READ))
    yield Scene("a migration back while the first has not ended", ITEMS, DYNAMODB, (there, back, INGEST), KILL)


def migrations(kind: str, catalog: str) -> Iterator[Scene]:
    """Yield what is at work beside a migration to each other state store."""
    for name, (work, faults) in MOVES.items():
        for to in (FULL, LOG, ITEMS):
            if to != kind and (catalog == DYNAMODB or ITEMS not in {to, kind}):
                yield Scene(f"{name}, to {to}", kind, catalog, (("migrate", to), *work), faults)


def on(kind: str, name: str) -> Scene:
    """Return a scene on a table, by its subject."""
    catalog = DYNAMODB if kind == ITEMS else SQLITE
    if name in SUBJECTS:
        return Scene(name, kind, catalog, *SUBJECTS[name])
    return next(scene for scene in migrations(kind, catalog) if scene.name == name)


CAUGHT_BY: dict[str, Scene] = {
    "a commit names the head as its condition": on(FULL, "two writers"),
    "a job makes one snapshot": on(FULL, "one job in two processes"),
    "a lost answer is looked up": on(FULL, "two writers"),
    "a snapshot that expired says nothing of its commit": on(FULL, "a commit without an answer that expires"),
    "files of an unknown outcome stay": on(FULL, "a commit without an answer that expires"),
    "the current snapshot never expires": on(FULL, "a savepoint while all is cleaned"),
    "metadata that another version names is no garbage": on(FULL, "a savepoint while all is cleaned"),
    "a checkpoint stays while it is needed": on(FULL, f"a migration and a reader, to {LOG}"),
    "a checkpoint that expired still names its files": on(LOG, "a checkpoint, an ingest and an expiry"),
    "a log that was cut is read from the next checkpoint": on(LOG, "a checkpoint, a reader and a clean-up"),
    "a savepoint names its snapshot as its condition": on(FULL, "a savepoint while all is cleaned"),
    "a savepoint on a log names its checkpoint as its condition": on(
        LOG, "a checkpoint and a savepoint while all is cleaned"
    ),
    "a lease needs a version that is kept": on(FULL, "a reader while all is cleaned"),
    "leases keep files": on(FULL, "a reader while all is cleaned"),
    "savepoints keep files": on(FULL, "a savepoint while all is cleaned"),
    "savepoints are read after snapshots": Scene("order", FULL, SQLITE, (SAVE, EXPIRE, ("collect",))),
    "leases are read after savepoints": Scene("order", FULL, SQLITE, (READ_OLD, EXPIRE, ("collect",))),
    "the state forgets a file before it is deleted": on(FULL, "a rollback while all is cleaned"),
    "a file that was used again is not forgotten": on(FULL, "there and back while all is cleaned"),
    "a rollback uses only files that the state tracks": on(FULL, "a rollback while all is cleaned"),
    "a migration writes history before the items go": on(ITEMS, f"a migration and a reader, to {FULL}"),
    "a migration writes all of history": on(ITEMS, f"a migration and a reader, to {FULL}"),
    "old items go after the head has moved": on(
        ITEMS, f"a migration, an ingest and a reader of an old version, to {FULL}"
    ),
    "items of a newer migration stay": Scene(
        "away and back", ITEMS, DYNAMODB, (("migrate", LOG), ("migrate", ITEMS)), before=()
    ),
    "a reader without items looks for files": on(ITEMS, f"a migration and a reader, to {FULL}"),
    "a sweep leaves young files": on(FULL, "a sweep, an ingest and a rollback"),
    "a sweep leaves files that the state tracks": Scene("sweep", FULL, SQLITE, (SWEEP, ROLL_BACK, EXPIRE)),
    "a purge cuts the log": on(LOG, "a purge and a reader"),
    "a purge looks again for what a rollback brought back": on(FULL, "a purge and a rollback"),
}
"""The scene that finds that a rule is missing."""
