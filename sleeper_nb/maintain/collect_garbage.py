"""Collect garbage: delete files that neither the table nor a retained snapshot, savepoint or reader can still need.

Why it is safe, in steps:

1. A data file is live in the snapshots [added, removed) of its references. When every reference was removed, and no
   retained snapshot, savepoint or lease lies in one of those intervals, no version that can be named reads it. Snapshot
   numbers only grow, and a savepoint or lease can only be made of a retained version, so no such version can appear
   later. Snapshots, savepoints and leases are read in this order, so that a savepoint or lease that was made of a
   snapshot just before it expired is seen.
2. The file must also have been unreferenced for the delay, so that a short read of the previous version keeps its
   files.
3. The catalog notes the file as garbage, then a commit makes the state forget it, and last the file is deleted. A
   rollback that would use the file again commits either before this commit, which then fails, even when the file is
   out of use again, or after it, and then finds the file forgotten. A crash leaves the note: the next run deletes files
   that are noted and that no state tracks. Files that were noted before, by such a run or by an expiry, need no commit:
   they are deleted first, so that a full disk has room. Files that were added where they were are not noted, only
   forgotten: they stay.
4. Metadata files become garbage in the same transaction of the catalog that forgets the last version naming them.
5. Objects that a crashed writer left in the state store itself, and that nothing ever read, are swept by the store's
   own rules.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.catalog.catalog_base import free_space_and_retry
from sleeper_nb.errors import StateRuleBroken, StorageError
from sleeper_nb.model.deletions import DELETION_FILE
from sleeper_nb.model.jobs import Lease
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import DeleteFiles
from sleeper_nb.report import CLEAN_UP, Bytes, Grid, Report, counted, duration_text, notes_line, nothing_done
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, repr=False)
class GarbageReport(Report):
    """The files that were deleted; of a dry run, that would be deleted.

    Parameters
    ----------
    data_files, metadata_files
        Paths below the table's folder.
    bytes
        The size of the data files.
    held
        How many unused data files are kept: by a retained snapshot or savepoint, a reader's lease, or the delay.
    forgotten
        The addresses of files that were added where they were: the table forgets them, and they stay there.
    held_by
        Why they are kept, and how many for each reason: ``{"savepoints": 20, "the delay of 15 min": 4}``.
    """

    data_files: tuple[str, ...]
    metadata_files: tuple[str, ...]
    bytes: int
    held: int
    dry_run: bool
    forgotten: tuple[str, ...] = ()
    prefix: str = ""
    held_by: Mapping[str, int] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """What was done, in a few words; empty when nothing was due."""
        if not self.data_files and not self.metadata_files:
            return ""
        data = counted(len(self.data_files), "data file")
        return f"{self._verb()} {data} and {counted(len(self.metadata_files), 'metadata file')}"

    def _verb(self) -> str:
        return "would delete" if self.dry_run else "deleted"

    def grid(self) -> Grid:
        """Return the counts."""
        verb = self._verb()
        rows: tuple[tuple[object, ...], ...] = (
            (verb, "data files", len(self.data_files), Bytes(self.bytes)),
            (verb, "metadata files", len(self.metadata_files), None),
            ("kept back", "data files", self.held, None),
        )
        if self.forgotten:
            rows += (("would forget" if self.dry_run else "forgot", "files of others", len(self.forgotten), None),)
        kept = ", ".join(f"{count:,} by {why}" for why, count in self.held_by.items())
        done = nothing_done(CLEAN_UP, self.prefix) if self.dry_run and (self.data_files or self.metadata_files) else ""
        footer = notes_line(f"kept back: {kept}" if kept else "", done)
        return Grid(("", "what", "files", "bytes"), rows, "garbage collection", footer)


def delay_of(properties: TableProperties) -> timedelta:
    return timedelta(minutes=properties["sleeper.table.gc.delay.minutes"])


def collectable_files(state: TableState, kept: Iterable[int], now: datetime, delay: timedelta) -> tuple[str, ...]:
    """Return the tracked files that no kept version needs and that have been unused for the delay. Pure.

    They are data files, and the deletion vectors of data files that may still be in use.
    """
    versions = sorted(set(kept))
    needed: set[str] = set()
    candidates: set[str] = set()
    for file in state.files.waiting_files():
        live = any(file.added_snapshot <= version < file.removed_snapshot for version in versions)
        (needed if live or now - file.removed_at < delay else candidates).add(file.filename)
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
    """Delete files that nothing needs. A run can be interrupted at any point; the next one completes it.

    Parameters
    ----------
    now
        The moment from which the delay is measured; the clock's when None.
    forgotten
        For a dry run: snapshots that would have expired before.
    """
    now = now or store.clock.now()
    catalog, table_id = store.catalog, store.table_id
    noted = catalog.garbage(table_id)
    state = store.load()
    if not dry_run:
        _release_ended_leases(store, now)
    keepers = kept_versions(store, now, forgotten)
    unused = collectable_files(state, set().union(*keepers.values()), now, delay)
    data = tuple(path for path in unused if not paths.is_foreign(path))
    leftover = leftover_files(state, noted)
    metadata = tuple(path for path, since in noted if now - since >= delay and not paths.is_data_file(path))
    garbage = (*data, *leftover, *metadata)
    _check_paths(garbage)
    sizes = {file.filename: file.bytes for file in state.files.waiting_files()}
    report = GarbageReport(
        data_files=(*data, *leftover),
        metadata_files=metadata,
        bytes=sum(sizes[name] for name in data),
        held=len(sizes) - len(unused),
        dry_run=dry_run,
        forgotten=tuple(path for path in unused if paths.is_foreign(path)),
        held_by=_reasons(state, unused, keepers, delay),
    )
    if dry_run:
        return report
    for path in (*leftover, *metadata):
        store.storage.delete(path)
    if unused:
        free_space_and_retry(catalog, lambda: _forget_data_files(store, unused, state.snapshot_id, now, author))
    for path in data:
        store.storage.delete(path)
    if garbage:
        free_space_and_retry(catalog, lambda: catalog.forget_garbage(table_id, garbage))
    store.named(store.head().state_store).sweep()
    _log_deleted(table_id, report)
    return report


def is_used_since(state: TableState, filenames: Collection[str], snapshot_id: int) -> bool:
    """Return whether a commit after a snapshot used one of some files, even if none does any more. Pure.

    Such a commit is a rollback; its snapshot needs the file, though it was not there when the files were chosen.
    """
    references = state.files.table
    later = references.filter(pc.greater(references["added_snapshot"], snapshot_id))
    names = pa.array(filenames, pa.string())
    return any(pc.any(pc.is_in(later[name], names)).as_py() for name in ("filename", DELETION_FILE))


def _check_paths(garbage: Iterable[str]) -> None:
    strange = next((path for path in garbage if not paths.is_of_table(path)), None)
    if strange is not None:
        raise StorageError(
            f"metadata lists {strange!r} as garbage, but no file of a table has such a path; nothing was deleted",
            hint="sleeper_nb did not write this metadata; delete the table if you do not trust it",
        )


def _log_deleted(table_id: str, report: GarbageReport) -> None:
    level = logging.INFO if report.data_files or report.metadata_files else logging.DEBUG
    logger.log(
        level,
        "table %s: garbage collection deleted %d data files (%d bytes) and %d metadata files, kept %d",
        table_id,
        len(report.data_files),
        report.bytes,
        len(report.metadata_files),
        report.held,
    )


def _forget_data_files(
    store: StateStore, data: Sequence[str], planned_at: int, now: datetime, author: str | None
) -> None:
    """Note the table's own data files as garbage, and commit that the state forgets all."""

    def forgotten(state: TableState) -> DeleteFiles:
        if is_used_since(state, data, planned_at):
            raise StateRuleBroken(
                "a file that was to be deleted was used again in the meantime", hint="collect garbage again"
            )
        return DeleteFiles(tuple(data))

    own = [path for path in data if not paths.is_foreign(path)]
    store.catalog.add_garbage(store.table_id, own, now)
    try:
        store.commit(forgotten, author=author)
    except StateRuleBroken as error:  # a rollback was faster and uses them again
        logger.warning("table %s: garbage collection lost against another commit: %s", store.table_id, error.message)
        store.catalog.forget_garbage(store.table_id, own)
        raise


def kept_versions(store: StateStore, now: datetime, forgotten: Collection[int] = ()) -> dict[str, set[int]]:
    """Return the snapshots that are retained, that a savepoint saves, or that a lease holds, by what keeps them.

    The `forgotten` snapshots count as expired; a savepoint or lease keeps them all the same.
    """
    catalog, table_id = store.catalog, store.table_id
    # in this order: see step 1 of the module
    snapshots, savepoints = store.retained(), catalog.savepoints(table_id)
    leases = catalog.leases(table_id)
    return {
        "retained snapshots": {snapshot.id for snapshot in snapshots} - {*forgotten},
        "savepoints": versions_kept((), savepoints, (), now),
        "published versions": versions_kept((), (), [each for each in leases if each.is_published], now),
        "readers": versions_kept((), (), [each for each in leases if not each.is_published], now),
    }


def _reasons(
    state: TableState, unused: Collection[str], keepers: Mapping[str, Collection[int]], delay: timedelta
) -> dict[str, int]:
    """Return how many waiting files are kept, by the first of the keepers that needs them; else by the delay. Pure."""
    reasons: dict[str, str] = {}
    free = set(unused)
    order = {why: place for place, why in enumerate((*keepers, ""))}
    for file in state.files.waiting_files():
        if file.filename in free:
            continue
        needs = (
            why
            for why, versions in keepers.items()
            if any(file.added_snapshot <= version < file.removed_snapshot for version in versions)
        )
        reasons[file.filename] = min(reasons.get(file.filename, ""), next(needs, ""), key=lambda why: order[why])
    counts = Counter(reasons.values())
    waiting = f"the delay of {duration_text(delay.total_seconds()).removesuffix(' 0 s')}"
    return {why or waiting: counts[why] for why in order if counts[why]}


def versions_kept(
    snapshots: Iterable[Snapshot], savepoints: Iterable[Savepoint], leases: Iterable[Lease], now: datetime
) -> set[int]:
    """Return the snapshots that these keep, as in `kept_versions`. Pure."""
    kept = {snapshot.id for snapshot in snapshots}
    kept |= {savepoint.saved_snapshot_id for savepoint in savepoints}
    return kept | {lease.snapshot_id for lease in leases if not lease.has_ended(now)}


def leftover_files(state: TableState, noted: Iterable[tuple[str, datetime]]) -> tuple[str, ...]:
    """Return the data files that an interrupted run noted as garbage and made the state forget. Pure."""
    return tuple(sorted(state.files.untracked([path for path, _ in noted if paths.is_data_file(path)])))


def _release_ended_leases(store: StateStore, now: datetime) -> None:
    """Release leases that have ended, so that none of them can be renewed once its files are garbage."""
    for lease in store.catalog.leases(store.table_id):
        if lease.has_ended(now):
            logger.info(
                "table %s: the lease of %s on snapshot %d ended at %s without being released",
                store.table_id,
                lease.author or "an unnamed reader",
                lease.snapshot_id,
                lease.until,
            )
            free_space_and_retry(store.catalog, partial(store.catalog.release_lease, store.table_id, lease))
