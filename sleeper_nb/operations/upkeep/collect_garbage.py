"""Garbage collection: delete files that neither the table nor a retained snapshot, savepoint or reader can still need.

Why it is safe, in steps:

1. A data file is live in the snapshots [added, removed) of its references. When every reference was removed, and no
   retained snapshot, savepoint or lease lies in one of those intervals, no version that can be named reads it. Numbers
   only grow, and a savepoint or lease can only be made of a version that is kept, so no such version can appear later.
   They are read in this order, so that what is made of a snapshot just before it expires is seen.
2. It must also be unreferenced for the delay, so that a short read of the version before keeps its files.
3. The catalog notes it as garbage, then a commit like any other makes the state forget it, and last its object is
   deleted. A rollback that would use it again commits before, and this commit loses; or behind, and then it finds the
   file forgotten. A crash leaves a note: the next run deletes what is noted and no state tracks.
   What was noted before, by that run or by an expiry, needs no commit: it goes first, so that a full disk has room.
4. Metadata files become garbage in the same transaction of the catalog that forgets the last version naming them.
5. What a crashed writer left in the state store itself, never seen by anybody, is swept by the store's own rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from sleeper_nb.errors import StateRuleBroken, StorageError
from sleeper_nb.model.jobs import Lease
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import DeleteFiles
from sleeper_nb.operations.upkeep.full_disk import freeing_space
from sleeper_nb.report import CLEAN_UP, Bytes, Grid, Report, nothing_done
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths


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
        Data files out of use that a retained snapshot or savepoint, a reader's lease, or the delay still keeps.
    """

    data_files: tuple[str, ...]
    metadata_files: tuple[str, ...]
    bytes: int
    held: int
    dry_run: bool
    prefix: str = ""

    def grid(self) -> Grid:
        """Return the counts."""
        verb = "would delete" if self.dry_run else "deleted"
        rows: tuple[tuple[object, ...], ...] = (
            (verb, "data files", len(self.data_files), Bytes(self.bytes)),
            (verb, "metadata files", len(self.metadata_files), None),
            ("kept back", "data files", self.held, None),
        )
        footer = (
            nothing_done(CLEAN_UP, self.prefix) if self.dry_run and (self.data_files or self.metadata_files) else ""
        )
        return Grid(("", "what", "files", "bytes"), rows, "garbage collection", footer)


def delay_of(properties: TableProperties) -> timedelta:
    """Return how long a table's file stays after nothing refers to it."""
    return timedelta(minutes=properties["sleeper.table.gc.delay.minutes"])


def collectable_files(state: TableState, kept: Iterable[int], now: datetime, delay: timedelta) -> tuple[str, ...]:
    """Return the tracked data files that no kept version needs and that are out of use for the delay. Pure."""
    versions = sorted(set(kept))
    waiting = state.files.out_of_use
    needed: set[str] = set()
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
    noted = catalog.garbage(table_id)
    state = store.load()
    if not dry_run:
        _release_ended(store, now)
    data = collectable_files(state, kept_versions(store, now, forgotten), now, delay)
    left = left_behind(state, noted)
    metadata = tuple(path for path, since in noted if now - since >= delay and not paths.is_data_file(path))
    gone = (*data, *left, *metadata)
    _check_known(gone)
    report = _report(state, data, left, metadata, dry_run=dry_run)
    if dry_run:
        return report
    for path in (*left, *metadata):
        store.storage.delete(path)
    if data:
        freeing_space(catalog, lambda: _let_go(store, data, now, author))
    for path in data:
        store.storage.delete(path)
    if gone:
        freeing_space(catalog, lambda: catalog.forget_garbage(table_id, gone))
    store.named(store.head().state_store).sweep()
    return report


def _check_known(gone: Iterable[str]) -> None:
    strange = next((path for path in gone if not paths.is_of_table(path)), None)
    if strange is not None:
        raise StorageError(
            f"metadata names {strange!r} as garbage, which is not where a table has files; nothing was deleted",
            hint="it was not written by sleeper_nb; delete the table if you do not trust it",
        )


def _let_go(store: StateStore, data: Sequence[str], now: datetime, author: str | None) -> None:
    """Note data files as garbage, and have the state forget them."""
    store.catalog.add_garbage(store.table_id, data, now)
    try:
        store.commit(DeleteFiles(tuple(data)), author=author)
    except StateRuleBroken:  # a rollback was faster
        store.catalog.forget_garbage(store.table_id, data)
        raise


def kept_versions(store: StateStore, now: datetime, forgotten: Collection[int] = ()) -> set[int]:
    """Return the snapshots that can be named, as such or by a savepoint, or that a lease holds.

    Those `forgotten` count as expired: a savepoint or lease keeps them all the same.
    """
    catalog, table_id = store.catalog, store.table_id
    # in this order: see step 1 above
    snapshots, savepoints = store.retained(), catalog.savepoints(table_id)
    return versions_kept(snapshots, savepoints, catalog.leases(table_id), now, forgotten)


def versions_kept(
    snapshots: Iterable[Snapshot],
    savepoints: Iterable[Savepoint],
    leases: Iterable[Lease],
    now: datetime,
    forgotten: Collection[int] = (),
) -> set[int]:
    """Return the snapshots that can be named or that a lease holds, as `kept_versions` does. Pure."""
    kept = {snapshot.id for snapshot in snapshots} - {*forgotten}
    kept |= {savepoint.saved_snapshot_id for savepoint in savepoints}
    return kept | {lease.snapshot_id for lease in leases if not lease.has_ended(now)}


def left_behind(state: TableState, noted: Iterable[tuple[str, datetime]]) -> tuple[str, ...]:
    """Return the data files that a run which did not end has noted as garbage and the state has forgotten. Pure."""
    return tuple(sorted(state.files.untracked([path for path, _ in noted if paths.is_data_file(path)])))


def _release_ended(store: StateStore, now: datetime) -> None:
    """Release leases that have ended, so that none of them can be renewed once its files are garbage."""
    for lease in store.catalog.leases(store.table_id):
        if lease.has_ended(now):
            freeing_space(store.catalog, partial(store.catalog.release_lease, store.table_id, lease))


def _report(
    state: TableState, data: Sequence[str], left: Sequence[str], metadata: tuple[str, ...], *, dry_run: bool
) -> GarbageReport:
    waiting = state.files.out_of_use
    sizes = dict(zip(waiting["filename"].to_pylist(), waiting["bytes"].to_pylist(), strict=True))
    held = len(sizes) - len(data)
    size = sum(sizes[name] for name in data)
    return GarbageReport((*data, *left), metadata, size, held, dry_run)
