"""Which files the appends of a range of snapshots added, as one state tells of a thousand commits. Pure.

Why one state is enough, in steps:

1. A reference keeps the number of the snapshot that added it, active or not. A compaction, and a split, add references
   of their own and mark those that they replace as ready for garbage collection, where they stay in the state.
2. The garbage collector forgets a reference only when no retained snapshot lies in its [added, removed). Every snapshot
   of the range must be retained, so the one that added it is, and nothing that the range appended was forgotten.
3. Partitions are only ever added to the tree, so that of the state at the end has the leaf that a reference was added
   to. A rollback may take partitions away: the range is cut there, and each part is told of by a state of its own.
4. The number of references that is found is compared with what each commit said of itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import CHECK, NotFound, StateRuleBroken, StorageError
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
from sleeper_nb.operations.scanning.scan_plan import PlannedFile, PlannedLeaf

APPEND: Final = AddFiles.operation
"""The operation of snapshots that added rows and did nothing else, however they were loaded."""
SAME_ROWS: Final = frozenset(
    kind.operation
    for kind in (ReplaceFileReferences, SplitPartitions, DeleteFiles, MigrateStateStore, SetSchema, SetProcessing)
)
"""Operations of snapshots behind which the table has the same rows."""
ROLLBACK: Final = Rollback.operation
SKIP_ROLLBACKS: Final = "streaming.skip-rollbacks"
"""The option by which a reader passes over rollbacks."""


@dataclass(frozen=True, slots=True)
class Append:
    """The rows that one commit added.

    Parameters
    ----------
    snapshot_id
        The snapshot that the commit made.
    leaves
        The leaves of that moment that got rows, each with its new files; a file that feeds several leaves is in each of
        them, cut to its region.
    kept_by
        A snapshot in which every one of the files is active: while it is kept, garbage collection leaves them.
    """

    snapshot_id: int
    leaves: tuple[PlannedLeaf, ...]
    kept_by: int

    @property
    def bytes(self) -> int:
        """The sizes of the files that it added."""
        return sum(file.bytes for leaf in self.leaves for file in leaf.files)


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How much one batch of a stream may hold; None is no limit. The first append is taken however large it is.

    Parameters
    ----------
    snapshots, files, rows
        Appends; file references that they add; their rows.
    """

    snapshots: int | None = None
    files: int | None = None
    rows: int | None = None

    def exceeded(self, snapshots: int, files: int, rows: int) -> bool:
        """Return whether one of the three is too many."""
        pairs = ((snapshots, self.snapshots), (files, self.files), (rows, self.rows))
        return any(most is not None and count > most for count, most in pairs)


def history_between(
    snapshots: Sequence[Snapshot], after: int, until: int, *, table: str, skip_rollbacks: bool = False
) -> tuple[Snapshot, ...]:
    """Return the snapshots `after` < id <= `until`, oldest first.

    Parameters
    ----------
    snapshots
        All that are retained, in any order.
    table
        Its name, for errors.
    skip_rollbacks
        Whether a rollback is passed over: what it took away was appended all the same, and what it brought back was
        appended before.

    Raises
    ------
    NotFound
        When one has expired, so that nobody can tell what it appended. Names the earliest snapshot that can be reached.
    StateRuleBroken
        When one did something that rows alone cannot tell of: a rollback, or what a later release wrote.
    """
    retained = {snapshot.id: snapshot for snapshot in snapshots}
    found = []
    for number in range(after + 1, until + 1):
        if number not in retained:
            raise NotFound(
                f"snapshot {number} of table {table!r} has expired before the stream read it",
                hint=f"begin anew, with another checkpoint, at snapshot {_earliest(retained)} or a later one",
            )
        found.append(retained[number])
        _check(retained[number], table, skip_rollbacks)
    return tuple(found)


def _earliest(retained: dict[int, Snapshot]) -> int:
    """Return the oldest snapshot behind which no other has expired."""
    number = max(retained)
    while number - 1 in retained:
        number -= 1
    return number


def _check(snapshot: Snapshot, table: str, skip_rollbacks: bool) -> None:
    operation = snapshot.operation
    if operation == ROLLBACK and not skip_rollbacks:
        raise StateRuleBroken(
            f"snapshot {snapshot.id} of table {table!r} is a rollback, and a stream cannot take back what it gave",
            hint=f"set {SKIP_ROLLBACKS}=true to go on behind it, or begin anew with another checkpoint",
        )
    if operation not in SAME_ROWS | {APPEND, ROLLBACK}:
        raise StateRuleBroken(
            f"snapshot {snapshot.id} of table {table!r} is of operation {operation!r}, which a stream cannot follow",
            hint="begin anew behind it, with another checkpoint",
        )


def end_of_batch(history: Sequence[Snapshot], start: int, limits: BatchLimits) -> int:
    """Return the last snapshot of the next batch; `start` when there is none behind it.

    Parameters
    ----------
    history
        What `history_between` gives.
    start
        The last snapshot that was read.
    limits
        Count appends only: snapshots that append nothing never end a batch, and none is left for a batch of its own.
    """
    appends = files = rows = 0
    end = start
    for snapshot in history:
        if snapshot.operation == APPEND:
            appends, files, rows = appends + 1, files + snapshot.added_files, rows + snapshot.added_rows
            if appends > 1 and limits.exceeded(appends, files, rows):
                break
        end = snapshot.id
    return end


def plan_appends(history: Sequence[Snapshot], load: Callable[[Snapshot], TableState]) -> tuple[Append, ...]:
    """Return what the snapshots of a range appended, in their order.

    Parameters
    ----------
    history
        What `history_between` gives.
    load
        Returns the state at a snapshot. It is asked once, for the last one; and once for each rollback, for the one
        before it.

    Raises
    ------
    StorageError
        When a file that a commit added is known no more.
    """
    found: list[Append] = []
    for is_rollback, run in groupby(history, key=lambda snapshot: snapshot.operation == ROLLBACK):
        part = list(run)
        appends = [snapshot for snapshot in part if snapshot.operation == APPEND]
        if appends and not is_rollback:
            found += appended(load(part[-1]), appends)
    return tuple(found)


def appended(state: TableState, appends: Sequence[Snapshot]) -> Iterator[Append]:
    """Yield what some commits added, as the state at the last of them or later tells; no rollback may lie between.

    Parameters
    ----------
    state
        The state.
    appends
        Snapshots that added rows, in order.

    Raises
    ------
    StorageError
        As in `plan_appends`.
    """
    by_snapshot = _rows_of(state, appends)
    replaced = set(state.files.ready_for_gc["added_snapshot"].to_pylist())
    for snapshot in appends:
        rows = by_snapshot.get(snapshot.id, {})
        count = sum(map(len, rows.values()))
        expected = snapshot.added_files if snapshot.added_references is None else snapshot.added_references
        if count != expected:
            raise StorageError(
                f"snapshot {snapshot.id} added {expected:,} references to files, of which {count:,} are known",
                hint=(CHECK, " shows what is wrong"),
            )
        leaves = (PlannedLeaf(state.tree[name], tuple(files)) for name, files in rows.items())
        yield Append(snapshot.id, tuple(leaves), snapshot.id if snapshot.id in replaced else state.snapshot_id)


_READ = ("filename", "partition_id", "rows", "bytes", "rows_exact", "only_this_partition", "added_snapshot", "checksum")


def _rows_of(state: TableState, appends: Sequence[Snapshot]) -> dict[int, dict[str, list[PlannedFile]]]:
    """Return the new files of each snapshot and partition, in the order in which the state has them."""
    ids = pa.array([snapshot.id for snapshot in appends], pa.int64())
    parts = [
        rows.filter(pc.is_in(rows["added_snapshot"], ids)) for rows in (state.files.active, state.files.ready_for_gc)
    ]
    found: dict[int, dict[str, list[PlannedFile]]] = {}
    for row in pa.concat_tables(parts).select(_READ).to_pylist():
        files = found.setdefault(row["added_snapshot"], {}).setdefault(row["partition_id"], [])
        files.append(_planned(row, state))
    return found


def _planned(row: dict[str, Any], state: TableState) -> PlannedFile:
    region = None if row["only_this_partition"] else state.tree[row["partition_id"]].region
    return PlannedFile(row["filename"], row["rows"], row["bytes"], region, row["rows_exact"], row["checksum"])
