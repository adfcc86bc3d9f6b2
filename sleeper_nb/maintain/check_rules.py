"""The rules that the catalog's rows and the state of a version must obey. Part of a check. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.catalog.checked_rows import CatalogRows
from sleeper_nb.errors import SleeperError
from sleeper_nb.maintain.findings import CheckedVersion, Suspicion, key_of
from sleeper_nb.model.file_totals import data_files
from sleeper_nb.model.partitions import PartitionTree, Region
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState


def catalog_faults(rows: CatalogRows) -> Iterator[Suspicion]:
    """Yield which rows of the catalog were changed, are missing or contradict each other."""
    means = "the version cannot be read, or is read wrongly: restore the catalog from a copy"
    versions: list[CheckedVersion] = [*rows.snapshots, *rows.savepoints]
    decoded = {key_of(version) for version in versions}
    for row in rows.damaged:
        key = row.kind, row.id
        yield Suspicion("catalog row", row.error, means, key if key in decoded else None)
    oldest_first = rows.snapshots[::-1]
    yield from _sequence_faults(oldest_first)
    yield from _current_faults(oldest_first, rows.current, rows.current_commit)


def _sequence_faults(oldest_first: Sequence[Snapshot]) -> Iterator[Suspicion]:
    for before, after in pairwise(oldest_first):
        if after.id != before.id + 1:
            missing = f"{before.id + 1}–{after.id - 1}" if after.id > before.id + 2 else f"{before.id + 1}"
            yield Suspicion("history", f"no snapshot {missing}", "those versions can no longer be read")
        if after.time <= before.time:
            means = "a timestamp may resolve to a version that was not current then"
            yield Suspicion("time", f"snapshot {after.id} is not later than {before.id}", means, key_of(after))


def _current_faults(
    oldest_first: Sequence[Snapshot], current: int | None, current_commit: str | None
) -> Iterator[Suspicion]:
    """Yield how the current snapshot that the table's own row names differs from the retained snapshots."""
    if current is None:
        yield Suspicion("current", "the current snapshot is not in the catalog", "the table can no longer be used")
        return
    if current not in {snapshot.id for snapshot in oldest_first}:
        means = "the table and its history disagree"
        yield Suspicion("current", f"snapshot {current} is current but not retained", means)
    means = "the table cannot be used until its row in the catalog is restored: a newer version would be hidden"
    if oldest_first and oldest_first[-1].id > current:
        what = f"snapshot {oldest_first[-1].id} is newer than the current one, {current}"
        yield Suspicion("current", what, means)
    for snapshot in oldest_first:
        if snapshot.id == current and snapshot.commit_id != current_commit:
            what = f"the current snapshot {current} has commit {snapshot.commit_id}, the table's row {current_commit}"
            yield Suspicion("current", what, means)


def state_faults(state: TableState, version: CheckedVersion, judged: pa.Table | None = None) -> Iterator[Suspicion]:
    """Yield which rules the state of a version breaks.

    Parameters
    ----------
    state, version
        The version as its metadata was read, and as the catalog records it.
    judged
        The active references whose partitions and keys are not known to be right; all of them when None.
    """
    active = state.files.active
    judged = active if judged is None else judged
    files, size = data_files(active)
    tree_fault = _tree_fault(state)
    if tree_fault is not None:
        means = "keys may belong to no leaf, or to two: do not write to the table"
        yield Suspicion("partitions", tree_fault, means, key_of(version))
    elif active.num_rows:  # with a broken tree, every reference would look wrong
        faults = [*_partition_faults(state, judged)]
        if files < active.num_rows:
            faults += _shared_file_faults(state)
        faults += _region_faults(state, judged)
        yield from (Suspicion("reference", what, means, key_of(version)) for what, means in faults)
    yield from _total_faults(state, version, files, size)


def _total_faults(state: TableState, version: CheckedVersion, files: int, size: int) -> Iterator[Suspicion]:
    references, rows, size_of_references = state.files.totals
    if isinstance(version, Savepoint):
        totals = [("rows", version.record_count, rows)]
    elif version.references is None:  # an earlier build counted each reference as a file
        totals = [("rows", version.rows, rows), ("files", version.files, references)]
        totals += [("bytes", version.bytes, size_of_references)]
    else:
        totals = [("rows", version.rows, rows), ("files", version.files, files), ("bytes", version.bytes, size)]
        totals += [("references", version.references, references)]
    for name, recorded, actual in totals:
        if recorded != actual:
            what = f"the catalog says {recorded:,} {name}, its references have {actual:,}"
            means = "history and status do not show what a scan reads"
            yield Suspicion("totals", what, means, key_of(version))


def _tree_fault(state: TableState) -> str | None:
    tree = state.tree
    try:
        if not tree.partitions or tree.root.region != Region.whole(state.schema):
            return "the root does not hold every key"
        tree.check()
        reached = _below_root(tree)
    except (SleeperError, ValueError, TypeError) as error:
        return error.message if isinstance(error, SleeperError) else str(error)
    counts = Counter(reached)
    strays = [p.id for p in tree.partitions if counts[p.id] != 1]
    return f"partition {strays[0]} is in the tree {counts[strays[0]]} times" if strays else None


def _below_root(tree: PartitionTree) -> list[str]:
    """Return the ids that the root reaches, as often as it does; cut off soon after a circle."""
    reached: list[str] = []
    waiting = [tree.root]
    while waiting and len(reached) <= len(tree.partitions):
        node = waiting.pop()
        reached.append(node.id)
        waiting += [tree[child] for child in node.child_ids]
    return reached


def changed_rows(before: pa.Table, after: pa.Table) -> pa.Table:
    """Return `after` without the longest runs at its start and at its end that `before` has there as well."""
    shared = min(before.num_rows, after.num_rows)
    first = _longest(shared, lambda rows: after.slice(0, rows).equals(before.slice(0, rows)))
    last = _longest(
        shared - first, lambda rows: after.slice(after.num_rows - rows).equals(before.slice(before.num_rows - rows))
    )
    return after.slice(first, after.num_rows - first - last)


def _longest(most: int, is_same: Callable[[int], bool]) -> int:
    """Return the largest number up to `most` that passes a test which every smaller number passes as well."""
    if is_same(most):
        return most
    return bisect_left(range(most), 1, key=lambda rows: not is_same(rows + 1))


def _partition_faults(state: TableState, judged: pa.Table) -> Iterator[tuple[str, str]]:
    known = pa.array([p.id for p in state.tree.partitions], pa.string())
    owners = judged["partition_id"]
    for name in pc.unique(owners.filter(pc.invert(pc.is_in(owners, known)))).to_pylist():
        yield f"files feed partition {name}, which is not in the tree", "their rows are not found"


def _shared_file_faults(state: TableState) -> Iterator[tuple[str, str]]:
    """Yield files whose rows are read twice."""
    active = state.files.active
    counts = active.group_by("filename").aggregate([("partition_id", "count")])
    shared = counts["filename"].filter(pc.greater(counts["partition_id_count"], 1))
    rows = active.filter(pc.is_in(active["filename"], shared)).select(["filename", "partition_id"])
    uses: dict[str, list[str]] = defaultdict(list)
    for row in rows.to_pylist():
        uses[row["filename"]].append(row["partition_id"])
    for filename, partitions in uses.items():
        inside = [name for name in partitions if name in state.tree]
        above = {p.id for name in inside for p in state.tree.ancestors(name)}
        if len(set(partitions)) < len(partitions) or above.intersection(inside):
            yield f"{filename} feeds a partition twice, or also one above it", "its rows are read twice"


def _region_faults(state: TableState, active: pa.Table) -> Iterator[tuple[str, str]]:
    """Yield files whose recorded keys lie outside the one partition that they feed."""
    ids = pa.array([p.id for p in state.tree.partitions], pa.string())
    places = pc.index_in(active["partition_id"], ids).combine_chunks()
    whole = pc.and_(active["only_this_partition"], pc.greater(active["rows"], 0))
    wrong: Any = None
    for i, field in enumerate(state.schema.row_keys):
        ends = [p.region.ranges[i] for p in state.tree.partitions]
        low = pa.array([r.min for r in ends], field.type.arrow).take(places)
        high = pa.array([r.max for r in ends], field.type.arrow).take(places)
        for outside in (
            pc.less(active[f"min_{field.name}"], low),
            pc.greater_equal(active[f"max_{field.name}"], high),
            pc.greater(active[f"min_{field.name}"], active[f"max_{field.name}"]),
        ):
            wrong = outside if wrong is None else pc.or_kleene(wrong, outside)  # null: the range has no such end
    outside_files = active.filter(pc.and_(pc.fill_null(wrong, fill_value=False), whole))
    for row in outside_files.select(["filename", "partition_id"]).to_pylist():
        what = f"the keys of {row['filename']} are not all in partition {row['partition_id']}"
        yield what, "a query for those keys misses its rows"
