"""Split partitions: leaves with too many rows at the median of a row key; a new table at given or sampled points.

Splitting rewrites no data: the references of a leaf's files move to the new leaves. Readers and other writers are not
disturbed, for these reasons:

1. The files of a leaf are read for its medians, and for the exact number of rows of each file in each new leaf.
2. One commit splits all leaves and moves all references, provided that every file still has the same rows in its leaf.
   A leaf that another writer changed meanwhile is read again, and the commit is retried.
3. A file with rows in several new leaves is read by each of them, filtered to its own region, until compaction rewrites
   it.
4. A leaf whose files a compaction job has claimed is left for later; otherwise that job's work would be lost.

The initial split points of a new table are values, their texts, a file that the table's properties name, or estimates
from a sample of the data's row keys.

Before a large bulk import, the only leaf of a table is split, so that rows are sorted and written in parallel. Sleeper
extends the partitions of a table that has fewer leaves than ``sleeper.table.bulk.import.min.leaf.partitions``. Here the
leaf is split at even shares of a sample of the data. The files of the new leaves are written first; then one commit
splits the leaf, and the next one adds the files. An import that fails while it writes leaves the partitions as they
were.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.catalog.catalog_base import FileClaim, read_consistently
from sleeper_nb.errors import Action, InvalidInput, NotFound, StateRuleBroken
from sleeper_nb.load.casts import BAD_VALUE, plain_chunks, plain_values
from sleeper_nb.load.data_columns import DataColumn, first_values
from sleeper_nb.load.file_formats import key_pieces, open_parquet
from sleeper_nb.load.load_options import Matching
from sleeper_nb.load.source_files import SourceFile, find_files
from sleeper_nb.load.sources import IngestSource, InMemory
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.keys import (
    KeyValue,
    check_key,
    key_text,
    parse_key,
    read_split_points,
)
from sleeper_nb.model.partitions import MOST_LEAVES, Partition, PartitionSplit, PartitionTree, even_tree
from sleeper_nb.model.properties import (
    IMPORT_MIN_LEAVES,
    SPLITS_BASE64,
    SPLITS_FILE,
    SPLITTING_MIN_ROWS,
    TableProperties,
)
from sleeper_nb.model.schema import KEY_TYPES, Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import SplitPartitions
from sleeper_nb.progress import Progress
from sleeper_nb.read.leaf_keys import LeafKeys, leaf_keys
from sleeper_nb.report import Grid, TableReport, counted, notes_line
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.places import lies_within

logger = logging.getLogger(__name__)

MOST_PARTS = 256
"""The most parts that one run splits a leaf into; the next run splits those that are still too large."""


@dataclass(frozen=True, slots=True)
class SplitRequest:
    """Which leaves to split, and where.

    Parameters
    ----------
    threshold
        Leaves with at least this many rows are split, until each part has fewer
        (``sleeper.table.partition.splitting.threshold``).
    at
        Split at this value instead, regardless of the number of rows.
    dimension
        The index of the row key that `at` is a value of.
    """

    threshold: int
    at: KeyValue | None = None
    dimension: int = 0
    partition_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeafSplit:
    """How one leaf is split.

    Parameters
    ----------
    partition_id, region, rows
        The leaf, its keys as text, and its number of rows.
    parts
        The new leaves in key order: id, keys as text, and exact number of rows.
    """

    partition_id: str
    region: str
    rows: int
    splits: tuple[PartitionSplit, ...]
    parts: tuple[tuple[str, str, int], ...]
    references: tuple[FileReference, ...]


@dataclass(frozen=True, slots=True)
class Unsplit:
    """A leaf that is not split although it has too many rows, and why."""

    partition_id: str
    region: str
    rows: int
    why: str


@dataclass(frozen=True, slots=True, repr=False)
class SplitReport(TableReport):
    """What splitting did; for a dry run, what it would do.

    Parameters
    ----------
    splits
        The leaves that were split.
    left
        The leaves that have too many rows but were not split.
    threshold
        The number of rows from which a leaf is split.
    snapshot
        The new snapshot; None for a dry run, and when there was nothing to split.
    dry_run
        Whether the splits were only planned.
    """

    splits: tuple[LeafSplit, ...]
    left: tuple[Unsplit, ...]
    threshold: int
    snapshot: Snapshot | None
    dry_run: bool

    def grid(self) -> Grid:
        """Return one row per new leaf; the footer names leaves that are still too large."""
        title = f"splitting: no leaf has {counted(self.threshold, 'row')} or more"
        if self.splits or self.left:
            verb = "would be split" if self.dry_run else "split"
            parts = sum(len(leaf.parts) for leaf in self.splits)
            title = f"splitting: {counted(len(self.splits), 'leaf partition')} {verb} into {parts:,}"
        if self.snapshot is not None:
            title += f" (snapshot {self.snapshot.id})"
        columns, rows = self.cells()
        split = [leaf.region for leaf in self.splits for _ in leaf.parts]
        again = [before == now for before, now in pairwise(["", *split])]
        shown = tuple(("", None, *row[2:]) if is_again else row for row, is_again in zip(rows, again, strict=True))
        footer = notes_line(*(f"{leaf.region} stays with {leaf.rows:,} rows: {leaf.why}" for leaf in self.left))
        return Grid(columns, shown, title, footer)

    def cells(self) -> tuple[tuple[str, ...], Sequence[tuple[object, ...]]]:
        """Return a row for each new leaf, with the leaf that it was a part of."""
        rows = [(leaf.region, leaf.rows, region, rows) for leaf in self.splits for _, region, rows in leaf.parts]
        return ("leaf", "had rows", "now", "rows"), rows


def split_partitions(
    store: StateStore, request: SplitRequest, *, dry_run: bool, progress: Progress, author: str | None = None
) -> SplitReport:
    """Split all leaves that a request selects in one commit; for a dry run, only plan.

    Raises `NotFound` or `InvalidInput` when the partition does not exist or is not a leaf, or the value splits no leaf;
    `StateRuleBroken` when other writers changed every leaf that was to be split.
    """
    planner = _Planner(store, request, progress)

    def planned(_: Snapshot) -> tuple[TableState, SplitReport]:
        # From the same moment: a claim that ends in between would leave its old inputs in the state, free to be split.
        state, claims = read_consistently(store.load, planner.claims)
        return state, planner.plan(state, claims)

    state, plan = store.on_head(planned)  # plans again if other writers delete the files that it reads
    if dry_run or not plan.splits:
        return replace(plan, dry_run=dry_run)

    def change(newest: TableState) -> SplitPartitions:
        nonlocal plan
        if newest.snapshot_id != state.snapshot_id:
            logger.info(
                "table %s: snapshot %d came first; planning the splits of snapshot %d again",
                store.table_id, newest.snapshot_id, state.snapshot_id,
            )  # fmt: skip
            plan = planner.plan(newest, planner.claims())
        if not plan.splits:
            raise StateRuleBroken("other writers changed every leaf that was to be split", hint="split again")
        splits = tuple(split for leaf in plan.splits for split in leaf.splits)
        return SplitPartitions(splits, tuple(each for leaf in plan.splits for each in leaf.references))

    snapshot = store.commit(change, author=author)
    return replace(plan, snapshot=snapshot)


class _Planner:
    """Plans the splits of a state, and again of a newer one without reading unchanged leaves twice."""

    def __init__(self, store: StateStore, request: SplitRequest, progress: Progress) -> None:
        self._store, self._request, self._progress = store, request, progress
        self._table_id = store.table_id
        self._known: dict[tuple[str, tuple[str, ...]], LeafSplit | Unsplit] = {}

    def claims(self) -> tuple[FileClaim, ...]:
        return self._store.catalog.claims(self._table_id, self._store.clock.now())

    def plan(self, state: TableState, claims: Iterable[FileClaim]) -> SplitReport:
        claimed_by = {claim.partition_id: claim.job_id for claim in claims}
        chosen = list(selected_leaves(state, self._request))
        plans: list[LeafSplit | Unsplit] = []
        with ThreadPoolExecutor(self._store.storage.at_once) as pool:
            for i, (leaf, rows) in enumerate(chosen):
                self._progress.update("splitting", i, len(chosen))
                if leaf.id in claimed_by:
                    job_id = claimed_by[leaf.id]
                    logger.info("table %s: leaf %s not split: job %s has its files", self._table_id, leaf.id, job_id)
                    why = f"compaction job {job_id} has its files"
                    plans.append(Unsplit(leaf.id, leaf.region.text(state.schema), rows, why))
                else:
                    plans.append(self._plan_leaf(state, leaf, pool))
        splits = tuple(each for each in plans if isinstance(each, LeafSplit))
        left = tuple(each for each in plans if isinstance(each, Unsplit))
        return SplitReport(splits, left, self._request.threshold, None, dry_run=False)

    def _plan_leaf(self, state: TableState, leaf: Partition, pool: Executor) -> LeafSplit | Unsplit:
        references = state.files.active_in({leaf.id})
        known = leaf.id, tuple(name for reference in references for name in reference.filenames)
        if known not in self._known:
            keys = leaf_keys(self._store.storage, state.schema, leaf, references, pool=pool)
            self._known[known] = plan_leaf(state, leaf, references, keys, self._request, self._store.clock.new_id)
        return self._known[known]


def selected_leaves(state: TableState, request: SplitRequest) -> Iterator[tuple[Partition, int]]:
    """Yield the leaves that a request selects, each with its number of rows.

    Sleeper counts only the rows of files that belong to one partition alone; here every count is exact, so all files
    count.
    """
    rows = {name: totals.rows for name, totals in state.files.by_partition().items()}
    if request.partition_id is not None:
        state.tree.check_is_leaf(request.partition_id)
    leaves = [leaf for leaf in state.tree.leaves if request.partition_id in {None, leaf.id}]
    if request.at is None:
        yield from ((leaf, rows[leaf.id]) for leaf in leaves if rows.get(leaf.id, 0) >= request.threshold)
        return
    ranges = [(leaf, leaf.region.ranges[request.dimension]) for leaf in leaves]
    divided = [leaf for leaf, wanted in ranges if request.at in wanted and request.at != wanted.min]
    if not divided:
        key = state.schema.row_keys[request.dimension].name
        raise InvalidInput(
            f"{key} {key_text(request.at)} does not split any leaf",
            hint="give a value inside a leaf: a leaf already begins or ends at this one",
        )
    yield from ((leaf, rows.get(leaf.id, 0)) for leaf in divided)


def plan_leaf(
    state: TableState,
    leaf: Partition,
    references: Sequence[FileReference],
    keys: LeafKeys,
    request: SplitRequest,
    new_id: Callable[[], str],
) -> LeafSplit | Unsplit:
    """Return how one leaf is split: at the requested value, or at medians until each part is small enough."""
    region, rows = leaf.region.text(state.schema), sum(reference.rows for reference in references)
    splits, parts = _split_leaf(state, leaf, keys, request, new_id)
    if not splits:
        return Unsplit(leaf.id, region, rows, "all of its rows have the same key")
    counts = keys.counts([part.region for part in parts])
    moved: list[FileReference] = []
    for reference in references:
        moved += moved_references(reference, parts, counts[reference.filename])
    described: list[tuple[str, str, int]] = []
    for i, part in enumerate(parts):
        part_rows = sum(rows_in_parts[i] for rows_in_parts in counts.values())
        described.append((part.id, part.region.text(state.schema), part_rows))
    return LeafSplit(leaf.id, region, rows, splits, tuple(described), tuple(moved))


def _split_leaf(
    state: TableState, leaf: Partition, keys: LeafKeys, request: SplitRequest, new_id: Callable[[], str]
) -> tuple[tuple[PartitionSplit, ...], tuple[Partition, ...]]:
    """Return the splits of a leaf, and the new leaves in key order."""

    def unused_id() -> str:
        partition_id = new_id()[:8]
        while partition_id in state.tree:
            partition_id = new_id()[:8]
        return partition_id

    def split(part: Partition, dimension: int, point: KeyValue) -> PartitionSplit:
        return PartitionSplit(part.id, dimension, point, (unused_id(), unused_id()))

    tree = PartitionTree((leaf,))
    if request.at is not None:
        splits = [split(leaf, request.dimension, request.at)]
        return tuple(splits), tree.with_splits(splits).leaves
    splits = []
    waiting = [leaf]
    while waiting and len(splits) < MOST_PARTS - 1:
        part = waiting.pop(0)
        point = _split_point(part, keys, request.threshold)
        if point is not None:
            splits.append(split(part, *point))
            tree = tree.with_splits(splits[-1:])
            waiting += [tree[child] for child in splits[-1].child_ids]
    return tuple(splits), tree.leaves


def _split_point(part: Partition, keys: LeafKeys, threshold: int) -> tuple[int, KeyValue] | None:
    """Return the row key's index and the value at which a part is split; None if it is small or cannot be split.

    The point is the median of the first row key that has a median above its minimum. If in every row key at least half
    of the rows have the minimum, it is the second smallest value of the first row key that has two.
    """
    if keys.rows(part.region) < threshold:
        return None
    for find in (keys.median, keys.second):
        for dimension in range(len(part.region.ranges)):
            point = find(dimension, part.region)
            if point is not None:
                return dimension, point
    return None


def moved_references(
    reference: FileReference, parts: Sequence[Partition], counts: Sequence[int]
) -> Iterator[FileReference]:
    """Yield the references to a file of the new leaves that have rows in it."""
    for part, rows in zip(parts, counts, strict=True):
        if rows:
            is_inside = reference.min_key in part.region and reference.max_key in part.region
            yield replace(reference, partition_id=part.id, rows=rows, rows_exact=True, only_this_partition=is_inside)


def request_of(
    state: TableState, threshold: int, *, at: Any = None, key: str | None = None, partition_id: str | None = None
) -> SplitRequest:
    """Return a user's request after checking it.

    Raises `NotFound` when there is no such row key; `InvalidInput` when the threshold is too small, or `at` is missing
    or not a value of the row key.

    Parameters
    ----------
    threshold
        The number of rows from which a leaf is split; at least 2.
    at
        The value, or its text, to split at instead.
    key
        The row key that `at` is a value of; the first when None.
    """
    if threshold < 2:
        raise InvalidInput(f"a leaf cannot be split at {threshold:,} rows", hint="give 2 rows or more")
    fields = {field.name: i for i, field in enumerate(state.schema.row_keys)}
    if key is not None and key not in fields:
        raise NotFound.of("row key", key, fields)
    if key is not None and at is None:
        raise InvalidInput(
            f"row key {key!r} is given without a value to split at",
            hint=("add the value: ", Action("--at VALUE", "at=VALUE")),
        )
    dimension = fields[key] if key else 0
    field = state.schema.row_keys[dimension]
    point = parse_key(field, at, what="split point") if isinstance(at, str) else at
    point = None if point is None else check_key(field, point, what="split point")
    return SplitRequest(threshold, point, dimension, partition_id)


def with_splits(properties: TableProperties, given: bool, file: str | None, strings_base64: bool) -> TableProperties:
    """Return properties that name a new table's split points file; without one if points are given as values."""
    if file is None and not given:
        return properties
    texts = {name: text for name, text in properties.texts.items() if name not in {SPLITS_FILE, SPLITS_BASE64}}
    if file is not None:
        texts |= {SPLITS_FILE: file, SPLITS_BASE64: "true" if strings_base64 else "false"}
    return replace(properties, texts=texts)


def initial_split_points(
    schema: Schema, given: Iterable[Any] | None, properties: TableProperties, home: Storage
) -> list[Any]:
    """Return the split points of a new table: values of the first row key, or none.

    Parameters
    ----------
    given
        Values, or their texts as in a split points file; None means no points.
    properties
        ``sleeper.table.splits.file`` names a file or ``s3://`` object; ``sleeper.table.splits.base64.encoded`` says
        that strings in it are encoded in base64.

    Raises
    ------
    NotFound
        When the file does not exist.
    InvalidInput
        When points are given both as values and in a file, or one is not a value of the row key; for a file, the error
        names the line.
    """
    field, values, file = schema.row_keys[0], list(() if given is None else given), properties[SPLITS_FILE]
    if not file:
        return [parse_key(field, value, what="split point") if isinstance(value, str) else value for value in values]
    if values:
        raise InvalidInput(f"split points are given both as values and in the file {file}", hint="omit one of them")
    try:
        files = find_files(file, home)
    except NotFound as error:
        raise NotFound(f"split points file {file!r} does not exist", hint="give the path of a file") from error
    if len(files) != 1:
        raise InvalidInput(f"{file} matches {len(files)} files", hint="give the path of one split points file")
    try:
        text = files[0].storage.read(files[0].path).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8", hint="write the split points in UTF-8, or in base64") from error
    # A property may name some other file by mistake: errors show the lines only of files in the warehouse.
    in_warehouse = lies_within(file, home.root.rpartition("/")[0])
    points = read_split_points(
        text, field, strings_base64=properties[SPLITS_BASE64], source=file, shows_lines=in_warehouse
    )
    return list(points)


SAMPLED_KEYS = 20_000
"""Keys in a sample; more for many leaves, so that each has at least `_KEYS_PER_LEAF`."""
_KEYS_PER_LEAF = 1_000
ROWS_PER_LEAF = 2_000_000
"""About how many rows each leaf of a new table gets, where the user does not say."""
_MOST_LEAVES_UNASKED = 64
LOOKED_AT = 1_000_000
"""Rows that are looked at to propose keys."""
_SEED = 0


@dataclass(frozen=True, slots=True)
class KeySample:
    """Some of the row keys of data.

    Parameters
    ----------
    keys
        A column for each row key, with its field's type; nulls are left out.
    rows
        The number of rows of the data.
    """

    keys: pa.Table
    rows: int


def sample_size(leaves: int | None) -> int:
    return max(SAMPLED_KEYS, _KEYS_PER_LEAF * min(leaves or 1, MOST_LEAVES))


def default_leaves(rows: int) -> int:
    return min(max(rows // ROWS_PER_LEAF, 1), _MOST_LEAVES_UNASKED)


def sample_of(rows: pa.Table, schema: Schema, size: int) -> KeySample:
    """Return a sample of the row keys of rows in memory; the same rows always give the same sample."""
    keys = rows.select([key.name for key in schema.row_keys])
    return KeySample(some_of(keys, size), rows.num_rows)


def some_of(keys: pa.Table, size: int) -> pa.Table:
    if keys.num_rows <= size:
        return keys
    chosen = np.random.default_rng(_SEED).choice(keys.num_rows, size, replace=False, shuffle=False)
    return keys.take(pa.array(np.sort(chosen)))


def rows_of_parquet(files: Sequence[SourceFile]) -> int:
    rows = 0
    for file in files:
        with open_parquet(file) as opened:
            rows += opened.metadata.num_rows
    return rows


def are_parquet(sources: Sequence[IngestSource]) -> bool:
    """Return whether all sources are Parquet files: of these, a sample reads only the row keys."""
    return all(isinstance(each, SourceFile) and each.format == "parquet" for each in sources)


def sample_of_files(
    files: Sequence[IngestSource], schema: Schema, size: int, matching: Matching, *, refuse: bool = True
) -> KeySample:
    """Return a sample of the row keys of files of any format and of lake tables, whose rows are all counted.

    Raises `InvalidInput` when a row does not fit the schema; unless it is to `refuse` such rows, the rest of their file
    is left out.
    """
    names, kept, rows = [key.name for key in schema.row_keys], _as_nullable(schema).empty_table(), 0
    for file in files:
        assert not isinstance(file, InMemory)  # noqa: S101 - the caller looked
        try:
            for part in key_pieces(file, schema, matching):
                rows += part.num_rows
                # a part keeps as large a share as all parts before it, so that early rows have no more weight
                share = some_of(part.select(names), -(-size * part.num_rows // max(rows, 1)))
                kept = some_of(pa.concat_tables([kept, share.cast(kept.schema)]), size)
        except InvalidInput:
            if refuse:
                raise
    return KeySample(kept, rows)


def _as_nullable(schema: Schema) -> pa.Schema:
    return pa.schema([key.arrow.with_nullable(nullable=True) for key in schema.row_keys])


@dataclass(frozen=True, slots=True)
class KeyCandidate:
    """A column that may be a row key, judged by the first rows of the data.

    Parameters
    ----------
    distinct, nulls
        How many different values, and how many nulls, there are; 0 where values are not compared.
    compared
        Whether its values can be compared: lists, maps, structs and values of several types cannot.
    """

    column: DataColumn
    distinct: int
    nulls: int
    rows: int
    compared: bool = True

    @property
    def fits(self) -> bool:
        of_key_type = self.column.type is not None and self.column.type.name in KEY_TYPES
        return of_key_type and self.compared and not self.nulls


def key_candidates(sources: Sequence[IngestSource], columns: Sequence[DataColumn]) -> tuple[KeyCandidate, ...]:
    """Return the columns as possible row keys: those that can be one first, then by the number of different values."""
    first = dict(first_values(sources[0], LOOKED_AT))
    found, rows = [], max(map(len, first.values()), default=0)
    for each in columns:
        values = _comparable(first.get(each.name_in_data))
        try:
            distinct = None if values is None else pc.count_distinct(values).as_py()
        except pa.ArrowException:  # lists, maps and structs are not compared
            distinct = None
        nulls = 0 if values is None else values.null_count
        found.append(KeyCandidate(each, distinct or 0, nulls, rows, compared=distinct is not None))
    return tuple(sorted(found, key=lambda each: (not each.fits, -each.distinct)))


def _comparable(values: Any) -> pa.Array | pa.ChunkedArray | None:
    """Return the values of a column as plain Arrow values; None when they are of several types."""
    if values is None:
        return None
    try:
        found = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, from_pandas=True)
        return plain_chunks(found) if isinstance(found, pa.ChunkedArray) else plain_values(found)
    except BAD_VALUE:
        return None


_TIMES_LARGER = 10
"""How many times the rows of the table a load must have: a sample of the load tells nothing about other rows."""


@dataclass(frozen=True, slots=True)
class LeavesWanted:
    """How many leaves a table should have before rows are imported."""

    most: int
    least_rows: int

    @classmethod
    def of(cls, properties: TableProperties) -> LeavesWanted:
        return cls(properties[IMPORT_MIN_LEAVES], properties[SPLITTING_MIN_ROWS])

    @property
    def first_rows(self) -> int:
        """The fewest rows for which a leaf may be split."""
        return 2 * self.least_rows

    def leaves(self, state: TableState, rows: int) -> int:
        """Return how many leaves a table of a state gets before so many rows are added; 1 if it is not split."""
        if len(state.tree.leaves) > 1 or state.totals().rows * _TIMES_LARGER > rows:
            return 1
        return max(1, min(self.most, rows // self.least_rows))


@dataclass(frozen=True, slots=True)
class SplitBefore:
    """The splits of the only leaf of a table, and the partitions after them."""

    leaf_id: str
    splits: tuple[PartitionSplit, ...]
    tree: PartitionTree

    @property
    def note(self) -> str:
        return f"the only leaf was split into {counted(len(self.tree.leaves), 'leaf partition')} first"

    def commit(self, store: StateStore, author: str | None) -> Snapshot:
        """Split the leaf, and move its references to the new leaves.

        Raises `StateRuleBroken` when another writer split the leaf in the meantime.
        """

        def change(newest: TableState) -> SplitPartitions:
            if self.leaf_id not in newest.tree or not newest.tree[self.leaf_id].is_leaf:
                raise StateRuleBroken(
                    "the table's partitions were changed while the rows were written", hint="run the import again"
                )
            return SplitPartitions(self.splits, tuple(self._moved(store, newest)))

        snapshot = store.commit(change, author=author)
        logger.info("table %s: %s", store.table_id, self.note)
        return snapshot

    def _moved(self, store: StateStore, state: TableState) -> Iterator[FileReference]:
        references = state.files.active_in({self.leaf_id})
        if not references:
            return
        parts: Sequence[Partition] = self.tree.leaves
        keys = leaf_keys(store.storage, state.schema, state.tree[self.leaf_id], references)
        counts = keys.counts([part.region for part in parts])
        for reference in references:
            yield from moved_references(reference, parts, counts[reference.filename])


def split_before(
    store: StateStore, state: TableState, wanted: LeavesWanted, rows: int, sample: Callable[[Schema, int], KeySample]
) -> SplitBefore | None:
    """Return how the only leaf of a table is split before rows are imported; None when it is not.

    Parameters
    ----------
    sample
        Returns a sample of about so many row keys of the data; only called for a large import.
    """
    if wanted.leaves(state, rows) < 2:
        return None
    if store.catalog.claims(store.table_id, store.clock.now()):
        logger.info("table %s: not split before the import: a compaction job has files of it", store.table_id)
        return None
    keys = sample(state.schema, sample_size(wanted.leaves(state, rows)))
    leaves = wanted.leaves(state, keys.rows)
    made = even_tree(state.schema, keys.keys, leaves, store.clock.new_id)
    names = {made.root.id: state.tree.root.id}
    splits = tuple(
        PartitionSplit(
            names.get(node.id, node.id), node.dimension, made.split_point(node), (node.child_ids[0], node.child_ids[1])
        )
        for node in made.partitions
        if not node.is_leaf
    )
    return SplitBefore(state.tree.root.id, splits, state.tree.with_splits(splits)) if splits else None
