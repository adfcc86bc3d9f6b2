"""Garbage collection: delete files that neither the table nor a retained snapshot or savepoint can still need.

Why it is safe, in steps:

1. A data file is live in the snapshots [added, removed) of its references. When every reference was removed, and no
   retained snapshot or savepoint lies in one of those intervals, no version that can be named reads it. Numbers only
   grow, and a savepoint can only be made of a retained snapshot, so no such version can appear later.
2. It must also be unreferenced for the delay, so that a reader that began before keeps its files.
3. Its object is deleted first, then the state forgets it. A crash in between leaves a name without an object, which
   nothing reads; the next run deletes it again, which does nothing, and forgets it.
4. Metadata files become garbage in the same transaction of the catalog that forgets the last version naming them.
5. What a crashed writer left in the state store itself, never seen by anybody, is swept by the store's own rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow.compute as pc

from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import DeleteFiles
from sleeper_nb.report import NOTHING_DONE, Bytes, Grid, Report
from sleeper_nb.state_store.base import StateStore


@dataclass(frozen=True, slots=True, repr=False)
class GarbageReport(Report):
    """What was deleted; of a dry run, what would be.

    Parameters
    ----------
    data_files, metadata_files
        Paths below the table's folder.
    bytes
        Of the data files.
    held
        Data files out of use that a retained snapshot or savepoint, or the delay, still keeps.
    """

    data_files: tuple[str, ...]
    metadata_files: tuple[str, ...]
    bytes: int
    held: int
    dry_run: bool

    def grid(self) -> Grid:
        """Return the counts."""
        verb = "would delete" if self.dry_run else "deleted"
        rows: tuple[tuple[object, ...], ...] = (
            (verb, "data files", len(self.data_files), Bytes(self.bytes)),
            (verb, "metadata files", len(self.metadata_files), None),
            ("kept back", "data files", self.held, None),
        )
        footer = NOTHING_DONE if self.dry_run and (self.data_files or self.metadata_files) else ""
        return Grid(("", "what", "files", "bytes"), rows, "garbage collection", footer)


def delay_of(properties: TableProperties) -> timedelta:
    """Return how long a table's file stays after nothing refers to it."""
    return timedelta(minutes=properties["sleeper.table.gc.delay.minutes"])


def collectable_files(state: TableState, retained: Iterable[int], now: datetime, delay: timedelta) -> tuple[str, ...]:
    """Return the tracked data files that no retained version needs and that are out of use for the delay. Pure."""
    versions = sorted(set(retained))
    waiting = state.files.ready_for_gc
    active = pc.filter(waiting["filename"], pc.is_in(waiting["filename"], state.files.active["filename"]))
    needed: set[str] = set(active.to_pylist())
    candidates: set[str] = set()
    for row in waiting.select(["filename", "added_snapshot", "removed_snapshot", "updated_at"]).to_pylist():
        live = any(row["added_snapshot"] <= version < row["removed_snapshot"] for version in versions)
        (needed if live or now - row["updated_at"] < delay else candidates).add(row["filename"])
    return tuple(sorted(candidates - needed))


def collect_garbage(
    store: StateStore,
    *,
    delay: timedelta,
    dry_run: bool,
    author: str | None = None,
    now: datetime | None = None,
    forgotten: Collection[int] = (),
) -> GarbageReport:
    """Delete what can go, in any number of runs; each is safe to interrupt at any point.

    Parameters
    ----------
    store
        The table's.
    delay
        How long a file stays after nothing refers to it.
    dry_run
        Only say what would be deleted.
    author
        Who history says it was.
    now
        The moment as of which files are old enough; the clock's when None.
    forgotten
        For a dry run: snapshots that will have been forgotten before.
    """
    now = now or store.clock.now()
    catalog, table_id = store.catalog, store.table_id
    state = store.load()
    retained = [s.id for s in catalog.snapshots(table_id) if s.id not in forgotten]
    retained += [savepoint.saved_snapshot_id for savepoint in catalog.savepoints(table_id)]
    data = collectable_files(state, retained, now, delay)
    metadata = tuple(path for path, since in catalog.garbage(table_id) if now - since >= delay)
    report = _report(state, data, metadata, dry_run=dry_run)
    if dry_run:
        return report
    for path in (*data, *metadata):
        store.storage.delete(path)
    if data:
        store.commit(DeleteFiles(data), author=author)
    if metadata:
        catalog.forget_garbage(table_id, metadata)
    store.named(store.head().state_store).sweep()
    return report


def _report(state: TableState, data: Sequence[str], metadata: tuple[str, ...], *, dry_run: bool) -> GarbageReport:
    waiting = state.files.ready_for_gc
    sizes = dict(zip(waiting["filename"].to_pylist(), waiting["bytes"].to_pylist(), strict=True))
    held = len(sizes) - len(data)
    return GarbageReport(tuple(data), metadata, sum(sizes[name] for name in data), held, dry_run)
