"""The split points that a new table is cut at: as values, as their texts, or in the file that its properties name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from sleeper_nb.catalog.catalog_base import FileClaim, steady
from sleeper_nb.errors import InvalidInput, NotFound, StateRuleBroken
from sleeper_nb.model.files import FileReference
from sleeper_nb.model.keys import (
    KeyValue,
    check_key,
    key_text,
    parse_key,
    read_split_points,
)
from sleeper_nb.model.partitions import Partition, PartitionSplit, PartitionTree
from sleeper_nb.model.properties import SPLITS_BASE64, SPLITS_FILE, TableProperties
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import SplitPartitions
from sleeper_nb.operations.leaf_keys import LeafKeys, leaf_keys
from sleeper_nb.operations.loading.source_files import find_files
from sleeper_nb.progress import Progress
from sleeper_nb.report import Grid, Report, counted
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.places import lies_within

# Splitting: leaves with too many rows are cut at the median of a row key; references move, no data is rewritten.
#
# Why no reader or writer is disturbed, in steps:
#
# 1. The files of a leaf are read for its medians, and for the exact rows of each file in each new leaf. 2. One commit
# cuts all leaves and moves all their references. Its rules hold every file to be there still, row for row,    so a
# leaf that another writer changed meanwhile is read again, and the commit tried again. 3. A file whose rows lie in
# several new leaves is read by each through its own region, until compaction parts it. 4. A leaf whose files a
# compaction job has claimed is left for later, as the job would have worked in vain.

MOST_PARTS = 256
"""A leaf is cut into so many at once at most; what is still too big then is split by the next run."""


@dataclass(frozen=True, slots=True)
class SplitRequest:
    """Which leaves to split, and where.

    Parameters
    ----------
    threshold
        Leaves with so many rows are split, until each part has fewer (``sleeper.table.partition.splitting.threshold``).
    at
        Split here instead, whatever the rows.
    dimension
        The place in the schema of the row key that `at` is a value of.
    partition_id
        Only this leaf.
    """

    threshold: int
    at: KeyValue | None = None
    dimension: int = 0
    partition_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeafSplit:
    """What becomes of one leaf.

    Parameters
    ----------
    partition_id, region, rows
        The leaf, its keys in words, and its rows.
    splits
        One after the other.
    parts
        The new leaves from left to right: id, keys in words, and rows, counted.
    references
        Of the new leaves.
    """

    partition_id: str
    region: str
    rows: int
    splits: tuple[PartitionSplit, ...]
    parts: tuple[tuple[str, str, int], ...]
    references: tuple[FileReference, ...]


@dataclass(frozen=True, slots=True)
class Unsplit:
    """A leaf that stays as it is although it has too many rows, and why."""

    partition_id: str
    region: str
    rows: int
    why: str


@dataclass(frozen=True, slots=True, repr=False)
class SplitReport(Report):
    """What a splitting did; of a dry run, what it would do.

    Parameters
    ----------
    splits
        The leaves that were split.
    left
        Those that have too many rows and stay.
    threshold
        How many rows are too many.
    snapshot
        What the commit made; None for a dry run, and when there was nothing to split.
    """

    splits: tuple[LeafSplit, ...]
    left: tuple[Unsplit, ...]
    threshold: int
    snapshot: Snapshot | None
    dry_run: bool

    def grid(self) -> Grid:
        """Return one row a new leaf, and below them which leaves stay too big."""
        title = f"splitting: no leaf has {counted(self.threshold, 'row')} or more"
        if self.splits or self.left:
            verb = "would be split" if self.dry_run else "split"
            parts = sum(len(leaf.parts) for leaf in self.splits)
            title = f"splitting: {counted(len(self.splits), 'leaf partition')} {verb} into {parts:,}"
        if self.snapshot is not None:
            title += f" (snapshot {self.snapshot.id})"
        rows = tuple(
            (leaf.region if i == 0 else "", leaf.rows if i == 0 else None, region, rows)
            for leaf in self.splits
            for i, (_, region, rows) in enumerate(leaf.parts)
        )
        footer = " · ".join(f"{each.region} stays with {each.rows:,} rows: {each.why}" for each in self.left)
        return Grid(("leaf", "had rows", "now", "rows"), rows, title, footer)


def split_partitions(
    store: StateStore, request: SplitRequest, *, dry_run: bool, progress: Progress, author: str | None = None
) -> SplitReport:
    """Split what is due in one commit, or only say what that would be.

    Raises
    ------
    InvalidInput, NotFound
        When the partition is not there, or the value splits no leaf.
    """
    planner = _Planner(store, request, progress)

    def planned(_: Snapshot) -> tuple[TableState, SplitReport]:
        # Of one moment: claims that end in between leave their old inputs in the state, free to be split.
        state, claims = steady(store.load, planner.claims)
        return state, planner.plan(state, claims)

    state, plan = store.on_head(planned)  # other writers may replace and delete what it reads
    if dry_run or not plan.splits:
        return replace(plan, dry_run=dry_run)

    def change(newest: TableState) -> SplitPartitions:
        nonlocal plan
        if newest.snapshot_id != state.snapshot_id:
            plan = planner.plan(newest, planner.claims())
        if not plan.splits:
            raise StateRuleBroken("other writers changed every leaf that was to be split", hint="split again")
        splits = tuple(split for leaf in plan.splits for split in leaf.splits)
        return SplitPartitions(splits, tuple(each for leaf in plan.splits for each in leaf.references))

    snapshot = store.commit(change, author=author)
    return replace(plan, snapshot=snapshot)


class _Planner:
    """Plans a splitting of one state, and again of a newer one without reading twice what did not change."""

    def __init__(self, store: StateStore, request: SplitRequest, progress: Progress) -> None:
        self._store, self._request, self._progress = store, request, progress
        self._known: dict[tuple[str, tuple[str, ...]], LeafSplit | Unsplit] = {}

    def claims(self) -> tuple[FileClaim, ...]:
        """Return which files compaction jobs have claimed."""
        return self._store.catalog.claims(self._store.table_id, self._store.clock.now())

    def plan(self, state: TableState, claims: Iterable[FileClaim]) -> SplitReport:
        """Return what becomes of the leaves of a state."""
        busy = {claim.partition_id: claim.job_id for claim in claims}
        chosen = list(chosen_leaves(state, self._request))
        found: list[LeafSplit | Unsplit] = []
        with ThreadPoolExecutor(self._store.storage.at_once) as pool:
            for i, (leaf, rows) in enumerate(chosen):
                self._progress.update("splitting", i, len(chosen))
                if leaf.id in busy:
                    why = f"compaction job {busy[leaf.id]} has its files"
                    found.append(Unsplit(leaf.id, leaf.region.text(state.schema), rows, why))
                else:
                    found.append(self._leaf(state, leaf, pool))
        splits = tuple(each for each in found if isinstance(each, LeafSplit))
        left = tuple(each for each in found if isinstance(each, Unsplit))
        return SplitReport(splits, left, self._request.threshold, None, dry_run=False)

    def _leaf(self, state: TableState, leaf: Partition, pool: Executor) -> LeafSplit | Unsplit:
        references = state.files.active_in({leaf.id})
        known = leaf.id, tuple(reference.filename for reference in references)
        if known not in self._known:
            keys = leaf_keys(self._store.storage, state.schema, leaf, references, pool=pool)
            self._known[known] = plan_leaf(state, leaf, references, keys, self._request, self._store.clock.new_id)
        return self._known[known]


def chosen_leaves(state: TableState, request: SplitRequest) -> Iterator[tuple[Partition, int]]:
    """Yield the leaves that a request is about, each with its rows. Pure.

    Sleeper counts only rows of files that belong to one partition alone; here every count is exact, so all do.
    """
    rows = {name: totals.rows for name, totals in state.files.by_partition().items()}
    if request.partition_id is not None and not state.tree[request.partition_id].is_leaf:
        raise InvalidInput(f"partition {request.partition_id!r} is no leaf", hint="name one that partitions lists")
    leaves = [leaf for leaf in state.tree.leaves if request.partition_id in {None, leaf.id}]
    if request.at is None:
        yield from ((leaf, rows[leaf.id]) for leaf in leaves if rows.get(leaf.id, 0) >= request.threshold)
        return
    ranges = [(leaf, leaf.region.ranges[request.dimension]) for leaf in leaves]
    cut = [leaf for leaf, r in ranges if request.at in r and request.at != r.min]
    if not cut:
        key = state.schema.row_keys[request.dimension].name
        raise InvalidInput(f"{key} {key_text(request.at)} splits no leaf", hint="a leaf begins or ends there already")
    yield from ((leaf, rows.get(leaf.id, 0)) for leaf in cut)


def plan_leaf(
    state: TableState,
    leaf: Partition,
    references: Sequence[FileReference],
    keys: LeafKeys,
    request: SplitRequest,
    new_id: Callable[[], str],
) -> LeafSplit | Unsplit:
    """Return what becomes of one leaf: cut at the asked value, or at medians until each part is small enough."""
    words, rows = leaf.region.text(state.schema), sum(reference.rows for reference in references)

    def fresh() -> str:
        name = new_id()[:8]
        while name in state.tree:
            name = new_id()[:8]
        return name

    tree = PartitionTree((leaf,))
    splits: list[PartitionSplit] = []
    waiting = [leaf]
    while waiting and len(splits) < MOST_PARTS - 1:
        part = waiting.pop(0)
        cut = _cut(part, keys, request) if splits or request.at is None else (request.dimension, request.at)
        if cut is None:
            continue
        splits.append(PartitionSplit(part.id, *cut, (fresh(), fresh())))
        tree = tree.with_splits(splits[-1:])
        if request.at is not None:
            break
        waiting += [tree[child] for child in splits[-1].child_ids]
    if not splits:
        return Unsplit(leaf.id, words, rows, "all of its rows have one key")
    parts = tree.leaves
    counts = keys.counts([part.region for part in parts])
    moved = tuple(each for reference in references for each in _moved(reference, parts, counts[reference.filename]))
    held = [sum(of_file[i] for of_file in counts.values()) for i in range(len(parts))]
    described = ((part.id, part.region.text(state.schema), total) for part, total in zip(parts, held, strict=True))
    return LeafSplit(leaf.id, words, rows, tuple(splits), tuple(described), moved)


def _cut(part: Partition, keys: LeafKeys, request: SplitRequest) -> tuple[int, KeyValue] | None:
    """Return where a part that is too big is cut: at the median of the first row key that has one.

    Where the least value of each row key has half of the rows or more, that value is parted from the others.
    """
    if keys.rows(part.region) < request.threshold:
        return None
    for find in (keys.median, keys.second):
        for dimension in range(len(part.region.ranges)):
            point = find(dimension, part.region)
            if point is not None:
                return dimension, point
    return None


def _moved(reference: FileReference, parts: Sequence[Partition], counts: Sequence[int]) -> Iterator[FileReference]:
    """Yield the references to a file of the new leaves that have rows of it."""
    for part, rows in zip(parts, counts, strict=True):
        if rows:
            alone = reference.min_key in part.region and reference.max_key in part.region
            yield replace(reference, partition_id=part.id, rows=rows, rows_exact=True, only_this_partition=alone)


def request_of(
    state: TableState, threshold: int, *, at: Any = None, key: str | None = None, partition_id: str | None = None
) -> SplitRequest:
    """Return a user's request, checked; `key` names the row key that `at` is a value of, the first when None."""
    if threshold < 2:
        raise InvalidInput(f"no leaf can be split until it has fewer than {threshold} rows", hint="give 2 or more")
    fields = {field.name: i for i, field in enumerate(state.schema.row_keys)}
    if key is not None and key not in fields:
        raise NotFound.of("row key", key, fields)
    if key is not None and at is None:
        raise InvalidInput(f"row key {key!r} is to be split at no value", hint="say at which: --at VALUE")
    dimension = fields[key] if key else 0
    field = state.schema.row_keys[dimension]
    point = parse_key(field, at, what="split point") if isinstance(at, str) else at
    point = None if point is None else check_key(field, point, what="split point")
    return SplitRequest(threshold, point, dimension, partition_id)


def with_splits(properties: TableProperties, given: bool, file: str | None, strings_base64: bool) -> TableProperties:
    """Return a table's properties with another split points file, or with none when points are given by themselves."""
    if file is None and not given:
        return properties
    texts = {name: text for name, text in properties.texts.items() if name not in {SPLITS_FILE, SPLITS_BASE64}}
    if file is not None:
        texts |= {SPLITS_FILE: file, SPLITS_BASE64: "true" if strings_base64 else "false"}
    return replace(properties, texts=texts)


def initial_split_points(
    schema: Schema, given: Iterable[Any] | None, properties: TableProperties, home: Storage
) -> list[Any]:
    """Return values of the first row key; none where neither points nor a file is given.

    Parameters
    ----------
    schema
        The table's schema.
    given
        Values, or texts of values as they stand in a split points file; None is none.
    properties
        ``sleeper.table.splits.file`` names a file, or ``s3://`` object; ``sleeper.table.splits.base64.encoded`` says
        that strings in it are in base64.
    home
        Where the warehouse is: its region and server are those of other buckets too.

    Raises
    ------
    NotFound
        When there is no such file.
    InvalidInput
        When points are given twice, or one cannot be; the line of a file is named.
    """
    field, points, file = schema.row_keys[0], list(() if given is None else given), properties[SPLITS_FILE]
    if not file:
        return [parse_key(field, point, what="split point") if isinstance(point, str) else point for point in points]
    if points:
        raise InvalidInput(f"split points are given, and the file {file} too", hint="leave one of them out")
    try:
        found = find_files(file, home)
    except NotFound as error:
        raise NotFound(f"no split points file {file!r}", hint="give the path of a file") from error
    if len(found) != 1:
        raise InvalidInput(f"{file} is {len(found)} files", hint="give the path of one file of split points")
    try:
        text = found[0].storage.read(found[0].path).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is no UTF-8", hint="write the split points in UTF-8, or in base64") from error
    # of a file elsewhere, which a property may name by mistake, errors show no line
    within = lies_within(file, home.root.rpartition("/")[0])
    return list(
        read_split_points(text, field, strings_base64=properties[SPLITS_BASE64], source=file, shows_lines=within)
    )
