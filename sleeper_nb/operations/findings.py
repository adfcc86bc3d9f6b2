"""What a check finds: one thing that is wrong, the rules of one version's state, and the report of all of them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.catalog.checked_rows import CatalogRows
from sleeper_nb.errors import Action, SleeperError
from sleeper_nb.model.files import data_files
from sleeper_nb.model.partitions import PartitionTree, Region
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.report import SHOWN_ROWS, Bytes, Grid, Report, counted
from sleeper_nb.storage.places import StoredFile

CheckedVersion = Snapshot | Savepoint
VersionKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Parameters
    ----------
    kind
        In one or two words, always the same for the same fault.
    what
        The file, partition or number that is wrong.
    where
        The versions that it is wrong in.
    means
        What comes of it.
    """

    kind: str
    what: str
    where: str
    means: str


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What looks wrong in one version, or (``version`` None) in the catalog; an older look may be overtaken."""

    kind: str
    what: str
    means: str
    version: VersionKey | None = None
    filename: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class CheckReport(Report):
    """What a check found.

    Parameters
    ----------
    table, snapshot_id
        What was checked, and its current snapshot.
    versions, files
        Snapshots and savepoints, and data files that were looked at.
    deep
        Whether the data files were read.
    findings
        What is wrong; empty when all is well.
    orphans
        Old files that nothing names: they take room, and are no fault.
    without_checksum
        Data files of releases that kept no checksums: a changed bit in them can go unseen.
    rows_without_checksum
        Rows of snapshots and savepoints in the catalog, and after a deep check entries of the transaction log, that
        earlier builds wrote without checksums.
    """

    table: str
    snapshot_id: int
    versions: int
    files: int
    deep: bool
    findings: tuple[Finding, ...]
    orphans: tuple[StoredFile, ...]
    without_checksum: int = 0
    rows_without_checksum: int = 0
    prefix: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def grid(self) -> Grid:
        """Return one row a finding: the first ones, and below them how many there are when that is not all."""
        count = len(self.findings)
        verdict = f"{counted(count, 'thing')} wrong" if count else "all is well"
        read = "read whole" if self.deep else "looked up"
        footer = f"{counted(self.versions, 'version')}, {counted(self.files, 'data file')} {read}"
        sweep = Action(f"sweep-orphans {self.table}", "table.sweep_orphans()")
        compact = Action(f"compact {self.table} --strategy all", "table.compact('all')")
        if self.orphans:
            size = Bytes(sum(file.bytes for file in self.orphans))
            unnamed = f"{counted(len(self.orphans), 'file')} of {size}"
            footer += f"; nothing names {unnamed} (no fault): {sweep.text(self.prefix)} lists them"
        if self.without_checksum:
            old = counted(self.without_checksum, "data file")
            footer += f"; {old} of an older release without a checksum: {compact.text(self.prefix)} adds it"
        if self.rows_without_checksum:
            footer += (
                f"; {counted(self.rows_without_checksum, 'row')} in the catalog of an earlier build without a checksum"
            )
        if count > SHOWN_ROWS:
            footer = f"first {SHOWN_ROWS} of {count:,} · {footer}"
        rows = tuple((f.kind, f.what, f.where, f.means) for f in self.findings[:SHOWN_ROWS])
        title = f"check of {self.table} at snapshot {self.snapshot_id}: {verdict}"
        columns = ("wrong", "what", "where", "means") if rows else ("",)
        return Grid(columns, rows, title, footer)


def key_of(version: CheckedVersion) -> VersionKey:
    """Return what names a version, whatever the catalog says of it later."""
    return ("savepoint" if isinstance(version, Savepoint) else "snapshot", version.id)


def to_findings(suspicions: Iterable[Suspicion]) -> tuple[Finding, ...]:
    """Return what stands, with the versions of the same fault together."""
    found: dict[tuple[str, str, str], list[VersionKey]] = defaultdict(list)
    for s in suspicions:
        found[s.kind, s.what, s.means] += [] if s.version is None else [s.version]
    return tuple(Finding(kind, what, where_text(keys), means) for (kind, what, means), keys in found.items())


def where_text(keys: Sequence[VersionKey]) -> str:
    """Return versions for people: ``snapshots 3–9 and 12, savepoint 1``."""
    parts = []
    for kind in ("snapshot", "savepoint"):
        runs: list[list[int]] = []
        for number in sorted({number for k, number in keys if k == kind}):
            if runs and runs[-1][-1] == number - 1:
                runs[-1][1:] = [number]
            else:
                runs.append([number])
        texts = ["–".join(map(str, run)) for run in runs]
        if texts:
            plural = "s" * (len(texts) > 1 or "–" in texts[0])
            parts.append(f"{kind}{plural} {', '.join(texts)}")
    return ", ".join(parts) or "the catalog"


def catalog_faults(rows: CatalogRows) -> Iterator[Suspicion]:
    """Yield which rows of the catalog were changed, are missing or disagree. Pure."""
    means = "the version cannot be read, or is read wrongly: restore the catalog from a copy"
    versions: list[CheckedVersion] = [*rows.snapshots, *rows.savepoints]
    decoded = set(map(key_of, versions))
    for row in rows.damaged:
        key = row.kind, row.id
        yield Suspicion("catalog row", row.error, means, key if key in decoded else None)
    yield from sequence_faults(rows.snapshots, rows.current, rows.current_commit)


def sequence_faults(
    snapshots: Sequence[Snapshot], current: int | None, current_commit: str | None
) -> Iterator[Suspicion]:
    """Yield where the retained snapshots, newest first, leave out a number, step back in time or are not current.

    Parameters
    ----------
    snapshots
        The retained snapshots.
    current, current_commit
        The number and commit id that the table's own row names.
    """
    ordered = snapshots[::-1]
    for before, after in pairwise(ordered):
        if after.id != before.id + 1:
            missing = f"{before.id + 1}–{after.id - 1}" if after.id > before.id + 2 else f"{before.id + 1}"
            yield Suspicion("history", f"no snapshot {missing}", "those versions can no longer be read")
        if after.time <= before.time:
            means = "a timestamp may give another version than was current then"
            yield Suspicion("time", f"snapshot {after.id} is not later than {before.id}", means, key_of(after))
    if current is None:
        yield Suspicion("current", "the current snapshot is not in the catalog", "the table can no longer be used")
    elif current not in {s.id for s in ordered}:
        means = "the table and its history disagree"
        yield Suspicion("current", f"snapshot {current} is current but not retained", means)
    means = "the table cannot be used before its row in the catalog is restored: a newer version would be hidden"
    if current is not None and ordered and ordered[-1].id > current:
        what = f"snapshot {ordered[-1].id} is newer than the current one, {current}"
        yield Suspicion("current", what, means)
    for snapshot in ordered:
        if snapshot.id == current and snapshot.commit_id != current_commit:
            what = f"the current snapshot {current} has commit {snapshot.commit_id}, the table's row {current_commit}"
            yield Suspicion("current", what, means)


def state_faults(state: TableState, version: CheckedVersion, judged: pa.Table | None = None) -> Iterator[Suspicion]:
    """Yield which rules the state of a version breaks. Pure.

    Parameters
    ----------
    state, version
        What was read of the version, and what the catalog says of it.
    judged
        The active references whose partitions and keys are not known to be right; all of them when None.
    """
    key = key_of(version)
    files, size = data_files(state.files.active)
    tree_fault = _tree_fault(state)
    if tree_fault is not None:
        means = "keys may belong to no leaf, or to two: do not write to the table"
        yield Suspicion("partitions", tree_fault, means, key)
    elif state.files.active.num_rows:  # in a broken tree everything would look wrong
        judged = state.files.active if judged is None else judged
        shared = _shared_faults(state) if files < state.files.active.num_rows else ()
        for what, means in (*_reference_faults(state, judged), *shared, *_region_faults(state, judged)):
            yield Suspicion("reference", what, means, key)
    references, rows, size_of_references = state.files.totals
    if not isinstance(version, Snapshot) or version.references is None:  # an earlier build counted references
        files, size = references, size_of_references
    told = [("rows", version.record_count if isinstance(version, Savepoint) else version.rows, rows)]
    if isinstance(version, Snapshot):
        told += [("files", version.files, files), ("bytes", version.bytes, size)]
        told += [("references", references if version.references is None else version.references, references)]
    for name, said, found in told:
        if said != found:
            means = "what history and status show is not what a scan reads"
            yield Suspicion("totals", f"the catalog says {said:,} {name}, its references have {found:,}", means, key)


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
    return f"partition {strays[0]} hangs in the tree {counts[strays[0]]} times" if strays else None


def _below_root(tree: PartitionTree) -> list[str]:
    found: list[str] = []
    waiting = [tree.root]
    while waiting and len(found) <= len(tree.partitions):
        node = waiting.pop()
        found.append(node.id)
        waiting += [tree[child] for child in node.child_ids]
    return found


def changed_rows(before: pa.Table, after: pa.Table) -> pa.Table:
    """Return `after` without the longest runs at its start and at its end that `before` has there, too."""
    shared = min(before.num_rows, after.num_rows)
    first = _longest(shared, lambda rows: after.slice(0, rows).equals(before.slice(0, rows)))
    last = _longest(
        shared - first, lambda rows: after.slice(after.num_rows - rows).equals(before.slice(before.num_rows - rows))
    )
    return after.slice(first, after.num_rows - first - last)


def _longest(most: int, is_same: Callable[[int], bool]) -> int:
    """Return the largest number up to `most` for which a test holds that holds for every smaller one, too."""
    if is_same(most):
        return most
    return bisect_left(range(most), 1, key=lambda rows: not is_same(rows + 1))


def _reference_faults(state: TableState, judged: pa.Table) -> Iterator[tuple[str, str]]:
    """Yield references to partitions that are not there."""
    known = pa.array([p.id for p in state.tree.partitions], pa.string())
    feeds = judged["partition_id"]
    for name in pc.unique(feeds.filter(pc.invert(pc.is_in(feeds, known)))).to_pylist():
        yield f"files feed partition {name}, which is not in the tree", "their rows are not found"


def _shared_faults(state: TableState) -> Iterator[tuple[str, str]]:
    """Yield files that feed one key twice."""
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
    for row in (
        active.filter(pc.and_(pc.fill_null(wrong, fill_value=False), whole))
        .select(["filename", "partition_id"])
        .to_pylist()
    ):
        what = f"the keys of {row['filename']} are not all in partition {row['partition_id']}"
        yield what, "a query for those keys misses its rows"
