"""Appends: which files each commit of a range of snapshots added, from the state at its end alone. Pure.

A stream reads a thousand commits from one state. Why one state is enough, in steps:

1. A reference keeps the number of the snapshot that added it, active or not. A compaction or a split adds references of
   its own and marks those that it replaces as ready for garbage collection, where they stay in the state.
2. Garbage collection forgets a reference only when no retained snapshot lies in its [added, removed). Every snapshot of
   the range must be retained, so the one that added the reference is, and nothing that the range appended is forgotten.
3. Partitions are only ever added to the tree, so the state at the end has the leaf to which a reference was added. A
   rollback may remove partitions: the range is cut there, and each part is read from a state of its own.
4. The number of references found is compared with the number that each commit recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import CHECK, NotFound, StateRuleBroken, StorageError
from sleeper_nb.model.deletions import DELETION_COLUMNS, DeletionVector
from sleeper_nb.model.file_reference import ACTIVE
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import (
    AddFiles,
    DeleteFiles,
    MigrateStateStore,
    ReplaceFileReferences,
    Rollback,
    SetProcessing,
    SetSchema,
    SplitPartitions,
)
from sleeper_nb.read.file_statistics import prune_files
from sleeper_nb.read.predicate import NO_PRUNING, Pruning
from sleeper_nb.read.scan_plan import PlannedFile, PlannedLeaf, keys_in

APPEND: Final = AddFiles.operation
"""The operation of snapshots that added rows and did nothing else, however they were loaded."""
SAME_ROWS: Final = frozenset(
    kind.operation
    for kind in (ReplaceFileReferences, SplitPartitions, DeleteFiles, MigrateStateStore, SetSchema, SetProcessing)
)
"""Operations after which the table has the same rows as before."""
ROLLBACK: Final = Rollback.operation
SKIP_ROLLBACKS: Final = "streaming.skip-rollbacks"
"""The option with which a reader skips rollbacks."""
SKIP_CHANGES: Final = "streaming.skip-changes"
"""The option with which a reader skips snapshots that changed rows."""
CHANGES: Final = "streaming.changes"
"""The option with which a reader gives all changes of rows, with their kind."""


@dataclass(frozen=True, slots=True)
class StreamRules:
    """What a stream does at snapshots that did more than append rows; by default it stops there."""

    # whether it skips rollbacks: the rows that a rollback removed were appended all the same, and the rows that it
    # restored were appended before
    skip_rollbacks: bool = False
    # whether it skips snapshots that deleted, updated or merged rows; rows that these inserted are not given
    skip_changes: bool = False
    # whether it gives all rows that such snapshots removed and added, with their kind; those of rollbacks too, where
    # it does not skip them
    changes: bool = False

    def gives_changes(self, snapshot: Snapshot) -> bool:
        is_rollback = snapshot.operation == ROLLBACK and not self.skip_rollbacks
        return self.changes and (is_rollback or bool(snapshot.changed_rows))

    def rows_of(self, snapshot: Snapshot) -> int | None:
        """Return about how many rows a snapshot gives; None when it gives none."""
        if snapshot.operation == APPEND:
            return snapshot.added_rows
        if not self.gives_changes(snapshot):
            return None
        counts = snapshot.changed_rows
        return sum(counts.values()) + counts.get("updated", 0) if counts else abs(snapshot.added_rows)

    def check(self, snapshot: Snapshot, table: str) -> None:
        """Raise when a stream of a table stops at a snapshot."""
        operation = snapshot.operation
        if operation == ROLLBACK:
            if not (self.skip_rollbacks or self.changes):
                raise StateRuleBroken(
                    f"snapshot {snapshot.id} of table {table!r} is a rollback, and a stream cannot take back rows",
                    hint=f"set {SKIP_ROLLBACKS}=true to continue after it, {CHANGES}=true to be given what it changed, "
                    "or start again with a new checkpoint",
                )
        elif snapshot.changed_rows:
            if not (self.skip_changes or self.changes):
                raise StateRuleBroken(
                    f"snapshot {snapshot.id} of table {table!r} has operation {operation!r}, which changed rows, and a "
                    "stream cannot take back rows",
                    hint=f"set {CHANGES}=true to be given all changes with their kind, or {SKIP_CHANGES}=true to skip "
                    "such snapshots with the rows that they inserted, or start again after it, with a new checkpoint",
                )
        elif operation not in SAME_ROWS | {APPEND}:
            raise StateRuleBroken(
                f"snapshot {snapshot.id} of table {table!r} has operation {operation!r}, which a stream cannot follow",
                hint="start again after it, with a new checkpoint",
            )


ONLY_APPENDS: Final = StreamRules()


@dataclass(frozen=True, slots=True)
class Append:
    """The rows that one commit added."""

    snapshot_id: int
    # the leaves that received rows, each with its new files; a file that feeds several leaves is in each of them,
    # restricted to its region
    leaves: tuple[PlannedLeaf, ...]
    # a snapshot in which all of these files are active: while it is retained, garbage collection does not delete them
    kept_by: int

    @property
    def bytes(self) -> int:
        return sum(file.bytes for leaf in self.leaves for file in leaf.files)


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How many appends, references and rows one batch of a stream may add; None is no limit.

    A batch has one append at least, however large.
    """

    snapshots: int | None = None
    files: int | None = None
    rows: int | None = None

    def exceeded(self, snapshots: int, files: int, rows: int) -> bool:
        counts = ((snapshots, self.snapshots), (files, self.files), (rows, self.rows))
        return any(limit is not None and count > limit for count, limit in counts)


def history_between(
    snapshots: Sequence[Snapshot], after: int, until: int, *, table: str, rules: StreamRules = ONLY_APPENDS
) -> tuple[Snapshot, ...]:
    """Return those of the retained snapshots with `after` < id <= `until`, oldest first.

    `NotFound` when a snapshot of the range has expired, so that what it appended is unknown. The hint names the
    earliest snapshot that can be reached. `StateRuleBroken` when a snapshot of the range did more than append rows, and
    the rules do not say what to do then.
    """
    retained = {snapshot.id: snapshot for snapshot in snapshots}
    history = []
    for number in range(after + 1, until + 1):
        _check_retained(number, retained, table)
        history.append(retained[number])
        rules.check(retained[number], table)
        if rules.gives_changes(retained[number]):
            _check_retained(number - 1, retained, table)
    return tuple(history)


def _check_retained(number: int, retained: Mapping[int, Snapshot], table: str) -> None:
    if number not in retained:
        raise NotFound(
            f"snapshot {number} of table {table!r} has expired before the stream read it",
            hint=f"start again with a new checkpoint, at snapshot {_earliest(retained)} or a later one",
        )


def _earliest(retained: Mapping[int, Snapshot]) -> int:
    """Return the oldest snapshot after which no snapshot has expired."""
    number = max(retained)
    while number - 1 in retained:
        number -= 1
    return number


def end_of_batch(
    history: Sequence[Snapshot], start: int, limits: BatchLimits, rules: StreamRules = ONLY_APPENDS
) -> int:
    """Return the last snapshot of the next batch; `start` when there is none after it.

    Parameters
    ----------
    history
        The result of `history_between`.
    start
        The last snapshot that was read.
    limits
        Apply only to snapshots that give rows: another one never ends a batch, and never is a batch of its own.
    """
    appends = files = rows = 0
    end = start
    for snapshot in history:
        given = rules.rows_of(snapshot)
        if given is not None:
            appends, files, rows = appends + 1, files + snapshot.added_files, rows + given
            if appends > 1 and limits.exceeded(appends, files, rows):
                break
        end = snapshot.id
    return end


def no_pruning(_: TableState) -> Pruning:
    return NO_PRUNING


def plan_appends(
    history: Sequence[Snapshot],
    load: Callable[[Snapshot], TableState],
    pruning: Callable[[TableState], Pruning] = no_pruning,
) -> tuple[Append, ...]:
    """Return what the snapshots of a range appended, in their order, without commits of which no file is wanted.

    `StorageError` when the state no longer has a file that a commit added.

    Parameters
    ----------
    history
        The result of `history_between`.
    load
        Returns the state at a snapshot. Called for the last snapshot, and for the one before each rollback.
    pruning
        Returns what is pruned of such a state: files without rows that are wanted.
    """
    appends: list[Append] = []
    for is_rollback, run in groupby(history, key=lambda snapshot: snapshot.operation == ROLLBACK):
        snapshots = list(run)
        added_rows = [snapshot for snapshot in snapshots if snapshot.operation == APPEND]
        if added_rows and not is_rollback:
            state = load(snapshots[-1])
            appends += files_appended(state, added_rows, pruning(state))
    return tuple(appends)


def files_appended(state: TableState, snapshots: Sequence[Snapshot], pruning: Pruning = NO_PRUNING) -> Iterator[Append]:
    """Yield what some commits added, from the state at the last of them or a later one; no rollback may lie between.

    Commits of which no file has rows that are wanted are pruned. `StorageError`: as of `plan_appends`.
    """
    added = _references_added(state, snapshots)
    counts = Counter(added["added_snapshot"].to_pylist())
    by_snapshot = _files_by_snapshot(added.filter(_can_have_wanted(added, state, pruning)), state)
    replaced = set(state.files.ready_for_gc["added_snapshot"].to_pylist())
    for snapshot in snapshots:
        by_partition, count = by_snapshot.get(snapshot.id, {}), counts[snapshot.id]
        expected = snapshot.added_files if snapshot.added_references is None else snapshot.added_references
        if count != expected:
            raise StorageError(
                f"snapshot {snapshot.id} added {expected:,} references to files, but metadata has {count:,} of them",
                hint=(CHECK, " shows what is wrong"),
            )
        leaves = tuple(PlannedLeaf(state.tree[name], tuple(files)) for name, files in by_partition.items())
        if not leaves and pruning != NO_PRUNING:
            continue
        yield Append(snapshot.id, leaves, kept_by=snapshot.id if snapshot.id in replaced else state.snapshot_id)


_COLUMNS = (
    "filename",
    "partition_id",
    "rows",
    "bytes",
    "rows_exact",
    "only_this_partition",
    "added_snapshot",
    "checksum",
    "status",
    *(column.name for column in DELETION_COLUMNS),
)


def _references_added(state: TableState, snapshots: Sequence[Snapshot]) -> pa.Table:
    ids = pa.array([snapshot.id for snapshot in snapshots], pa.int64())
    ends = [f"{end}_{key.name}" for key in state.schema.row_keys for end in ("min", "max")]
    both = state.files.active, state.files.ready_for_gc
    references = pa.concat_tables([each.select([*_COLUMNS, *ends]) for each in both])
    return references.filter(pc.is_in(references["added_snapshot"], ids))


def _can_have_wanted(references: pa.Table, state: TableState, pruning: Pruning) -> pa.Array | pa.ChunkedArray:
    """Return for each reference whether its file can have wanted rows; statistics tell it of active files only."""
    wanted: pa.Array | pa.ChunkedArray = pa.repeat(pa.scalar(True), references.num_rows)  # noqa: FBT003 - a value
    if pruning.regions is not None:
        reached = (keys_in(each, references, state.schema, low="max_", high="min_") for each in pruning.regions)
        wanted = reduce(pc.or_, reached, pa.repeat(pa.scalar(False), references.num_rows))  # noqa: FBT003 - a value
        wanted = pc.fill_null(wanted, fill_value=True)  # a file that waits for the collector has no ends
    met = prune_files(pruning.predicate, state)
    if met is not state:
        active, left = (each.files.active["filename"] for each in (state, met))
        left_out = active.filter(pc.invert(pc.is_in(active, value_set=left)))
        is_active = pc.equal(references["status"], ACTIVE)  # what statistics say can be of fewer rows than an append's
        is_left_out = pc.is_in(references["filename"], value_set=left_out)
        wanted = pc.and_(wanted, pc.invert(pc.and_(is_active, is_left_out)))
    return wanted


def _files_by_snapshot(added: pa.Table, state: TableState) -> dict[int, dict[str, list[PlannedFile]]]:
    by_snapshot: dict[int, dict[str, list[PlannedFile]]] = {}
    for row in added.to_pylist():
        by_partition = by_snapshot.setdefault(row["added_snapshot"], {})
        by_partition.setdefault(row["partition_id"], []).append(_planned_file(row, state))
    return by_snapshot


def _planned_file(row: dict[str, Any], state: TableState) -> PlannedFile:
    region = None if row["only_this_partition"] else state.tree[row["partition_id"]].region
    whole = row["filename"], row["rows"], row["bytes"]
    return PlannedFile(*whole, region, row["rows_exact"], row["checksum"], DeletionVector.of(row))
