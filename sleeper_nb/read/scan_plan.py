"""Plan a scan: which files it opens, and how they are divided among the tasks of an engine. Pure.

A scan opens the files of the leaves that overlap its regions, and files that the ancestors of those leaves still hold
after a split; files whose recorded minimum and maximum keys lie outside the regions are pruned. Three refinements
follow: `plan_first_rows` keeps only files that can hold the first rows, `groups_of` says which files must be read
together, and `packed` and `merged_groups` divide groups among tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import repeat
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.arguments import described, plain_integer
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.deletions import DeletionVector, vectors_of
from sleeper_nb.model.keys import KeyValue, arrow_value, check_key, key_after
from sleeper_nb.model.partitions import Partition, Range, Region, parse_region
from sleeper_nb.model.processing import NOTHING, DataProcessing
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.read.file_statistics import prune_files
from sleeper_nb.read.predicate import NO_PRUNING, Pruning, Regions, hull_of
from sleeper_nb.report import Bytes, Grid, TableReport

FileContent = tuple[str, DeletionVector | None, DeletionVector | None]
"""A data file, the vector of rows that do not count, and the vector of rows that alone count."""


class PlannedFile(NamedTuple):
    """A file to open. Only its rows in `region` count, all of them when `region` is None; and no deleted one.

    With `only`, which comparisons of versions set, just those rows count whose positions are in that vector.
    """

    filename: str
    rows: int
    bytes: int
    region: Region | None
    rows_exact: bool = True
    checksum: str | None = None
    deletions: DeletionVector | None = None
    only: DeletionVector | None = None

    @property
    def content(self) -> FileContent:
        """What is read of the file, whichever regions count: the same for all parts that are read together."""
        return self.filename, self.deletions, self.only

    @property
    def only_this_partition(self) -> bool:
        return self.region is None


@dataclass(frozen=True, slots=True)
class PlannedLeaf:
    """One leaf's part of a scan: the files that hold its rows, each file in key order."""

    partition: Partition
    files: tuple[PlannedFile, ...]

    @property
    def rows(self) -> int | None:
        """The number of rows that the files hold for the leaf; None if metadata does not tell."""
        is_known = all(file.rows_exact and file.region in {None, self.partition.region} for file in self.files)
        return sum(file.rows for file in self.files) if is_known else None


@dataclass(frozen=True, slots=True)
class OpenedGroups:
    """The row groups and bytes that a scan reads from the files it opens; `of` is their total number of row groups."""

    of: int
    row_groups: int
    bytes: int


@dataclass(frozen=True, repr=False)
class ScanPlan(TableReport):
    """What a scan reads and what it skips, as a funnel from the whole table down to row groups.

    Parameters
    ----------
    schema, snapshot_id
        The schema and id of the version that is scanned.
    leaves
        The leaves that the scan reaches, each with its files.
    leaves_of, files_of, bytes_of
        The total number of leaves, data files and bytes in the table.
    processing
        The filters, iterator and aggregations that the rows go through.
    opened
        The row groups that are read, according to the files' footers; None if the footers were not read (`Scan.plan`
        reads them).
    """

    schema: Schema
    snapshot_id: int
    leaves: tuple[PlannedLeaf, ...]
    leaves_of: int
    files_of: int
    bytes_of: int
    processing: DataProcessing = NOTHING
    opened: OpenedGroups | None = None

    @cached_property
    def files(self) -> tuple[PlannedFile, ...]:
        """All files, leaf by leaf; a file with rows in two leaves appears twice, with a different region each time."""
        return tuple(file for leaf in self.leaves for file in leaf.files)

    @property
    def rows(self) -> int | None:
        """The number of rows that the scan returns; None if metadata does not tell."""
        counts = [leaf.rows for leaf in self.leaves]
        known = [count for count in counts if count is not None]
        return sum(known) if self.processing.is_nothing and len(known) == len(counts) else None

    def by_region_and_deletions(self) -> dict[tuple[Region | None, bool], list[PlannedFile]]:
        """Return all files by the region they are filtered to, and by whether they have deletion vectors."""
        files: dict[tuple[Region | None, bool], list[PlannedFile]] = {}
        for file in self.files:
            files.setdefault((file.region, file.deletions is not None), []).append(file)
        return files

    @cached_property
    def filenames(self) -> tuple[str, ...]:
        """The names of the files, each once; the number of a file in it is what `FILE_NUMBER` says."""
        return tuple(dict.fromkeys(file.filename for file in self.files))

    @cached_property
    def bytes(self) -> int:
        """The total size of the files that are opened."""
        return sum({f.filename: f.bytes for f in self.files}.values())

    def cells(self) -> tuple[tuple[str, ...], Sequence[Sequence[object]]]:
        """Return the funnel without its bars."""
        return ("what", "before", "after"), [row[:3] for row in self.grid().rows]

    def grid(self) -> Grid:
        """Return the funnel."""
        files = len({file.filename for file in self.files})
        rows: list[tuple[str, int | Bytes, int | Bytes, str]] = [
            ("partitions", self.leaves_of, len(self.leaves), _bar(len(self.leaves), self.leaves_of)),
            ("files", self.files_of, files, _bar(files, self.files_of)),
        ]
        read = self.bytes
        if self.opened is not None:
            read = self.opened.bytes
            bar = _bar(self.opened.row_groups, self.opened.of)
            rows.append(("row groups of these files", self.opened.of, self.opened.row_groups, bar))
        rows.append(("bytes", Bytes(self.bytes_of), Bytes(read), _bar(read, self.bytes_of)))
        processed = "" if self.processing.is_nothing else f"rows go through {self.processing}"
        return Grid(("", "before", "after", ""), tuple(rows), f"scan of snapshot {self.snapshot_id}", processed)


_BAR = 20


def _bar(part: int, whole: int) -> str:
    """Return a share as a bar of block characters for text and HTML; a share above zero is always visible."""
    if not part or not whole:
        return ""
    return "█" * round(_BAR * part / whole) or "▏"


def plan_scan(
    state: TableState,
    regions: Sequence[Region] | None = None,
    processing: DataProcessing = NOTHING,
    pruning: Pruning = NO_PRUNING,
) -> ScanPlan:
    """Plan a scan.

    Parameters
    ----------
    regions
        The regions whose rows are returned, which must not overlap; the whole table when None.
    pruning
        What is pruned. Other files are returned whole, as the reader filters each row again. Statistics of value
        columns prune files unless rows are combined or changed before they are filtered.
    """
    all_files, all_bytes = files_of(state)
    is_row_by_row = not processing.aggregations and processing.iterator is None
    read = prune_files(pruning.predicate, state) if is_row_by_row else state
    if regions is None and pruning.regions is None:
        leaves = _leaves_of_all(read)
    elif regions is None and pruning.regions is not None:
        leaves = _leaves_reached(read, pruning.regions)
    else:
        leaves = _leaves_of(read, regions or (), pruning.regions)
    if read is not state:  # a leaf whose files were all pruned is not read
        leaves = [leaf for leaf in leaves if leaf.files]
    return ScanPlan(
        state.schema, state.snapshot_id, tuple(leaves), len(state.tree.leaves), all_files, all_bytes, processing
    )


@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of a version that a statement reads; which files that takes is planned when it is asked for.

    Parameters
    ----------
    pruning
        As in `plan_scan`.
    """

    state: TableState
    processing: DataProcessing = NOTHING
    pruning: Pruning = NO_PRUNING

    @cached_property
    def plan(self) -> ScanPlan:
        return plan_scan(self.state, None, self.processing, self.pruning)

    @property
    def narrowed(self) -> ScanPlan:
        """The same plan, of which only rows between the least and the greatest key that is wanted are read."""
        regions = self.pruning.regions
        if not regions:
            return self.plan
        return replace(self.plan, leaves=tuple(within_region(self.plan.leaves, hull_of(regions))))

    @property
    def rows(self) -> int | None:
        """The number of rows; None if metadata does not tell. Files are not planned where their sum is enough."""
        active = self.state.files.active
        if self.pruning != NO_PRUNING or not self.processing.is_nothing or not _has_leaf_files_only(self.state):
            return self.plan.rows
        exact = pc.all(active["rows_exact"], min_count=0).as_py()
        return int(pc.sum(active["rows"], min_count=0).as_py()) if exact else self.plan.rows

    def pruned(self, pruning: Pruning) -> TableRows:
        """Return the rows that are left when files are pruned."""
        return replace(self, pruning=pruning)


def _leaves_of(state: TableState, regions: Sequence[Region], reached: Regions | None = None) -> list[PlannedLeaf]:
    ids = _ids_in(state, regions) if reached is None else _ids_in(state, regions) & _ids_in(state, reached)
    leaves = []
    for leaf in (leaf for leaf in state.tree.leaves if leaf.id in ids):
        inside = [part for region in regions if (part := leaf.region.intersect(region)) is not None]
        files = tuple(file for part in inside for file in files_in(state, leaf, part, reached))
        if inside:
            leaves.append(PlannedLeaf(leaf, files))
    return leaves


def _ids_in(state: TableState, regions: Sequence[Region]) -> set[str]:
    return {leaf.id for region in regions for leaf in state.tree.leaves_in(region)}


def _leaves_reached(state: TableState, reached: Regions) -> list[PlannedLeaf]:
    """Return the leaves that some regions reach, with their files that reach into one of them.

    Where a region covers a whole leaf, no file of it can be pruned: such leaves are planned together, by columns.
    """
    ids = _ids_in(state, reached)
    covered = {id_ for id_ in ids if any(region.covers(state.tree[id_].region) for region in reached)}
    whole: dict[str, PlannedLeaf] = {}
    if len(covered) >= FEW_LEAVES:
        whole = {leaf.partition.id: leaf for leaf in _leaves_of_all(state) if leaf.partition.id in covered}
    return [
        whole.get(leaf.id) or PlannedLeaf(leaf, tuple(files_in(state, leaf, leaf.region, reached)))
        for leaf in state.tree.leaves
        if leaf.id in ids
    ]


def _leaves_of_all(state: TableState) -> list[PlannedLeaf]:
    """Return all leaves. If each file belongs to one leaf, work by columns: there may be 100,000s of files."""
    leaves = state.tree.leaves
    if not _no_file_is_shared(state) or not _has_leaf_files_only(state):
        return _leaves_of(state, [Region.whole(state.schema)])
    files = files_by_partition(state)
    return [PlannedLeaf(leaf, tuple(files.get(leaf.id, ()))) for leaf in leaves]


def files_by_partition(state: TableState) -> dict[str, list[PlannedFile]]:
    """Return the files of each partition that has any; a file shared with others is filtered to the partition."""
    active = state.files.active
    names = ("filename", "partition_id", "rows", "bytes", "only_this_partition", "rows_exact", "checksum")
    filenames, owners, rows, sizes, unshared, exact, checksums = (active[name].to_pylist() for name in names)
    vectors = vectors_of(active)
    regions: Iterable[Region | None] = repeat(None)
    if not all(unshared):
        regions = (None if each else state.tree[owner].region for each, owner in zip(unshared, owners, strict=True))
    files = list(map(PlannedFile, filenames, rows, sizes, regions, exact, checksums, vectors))
    return {name: files[begin:end] for name, begin, end in state.files.runs}


def _has_leaf_files_only(state: TableState) -> bool:
    return all(name in state.tree.leaf_ids for name, _, _ in state.files.runs)


def _no_file_is_shared(state: TableState) -> bool:
    return not state.files.shared.uses


def files_of(state: TableState) -> tuple[int, int]:
    """Return the number and total bytes of a state's data files; a file shared by several partitions counts once."""
    files, _, size = state.files.data_totals
    return files, size


def files_in(state: TableState, leaf: Partition, part: Region, reached: Regions | None = None) -> list[PlannedFile]:
    """Return the files that hold rows of one part of a leaf; files with keys beyond it are filtered to it.

    With `reached`, only those whose keys reach into one of these regions.
    """
    above = [partition.id for partition in state.tree.ancestors(leaf.id)]
    rows = state.files.active_rows_in([leaf.id, *above])
    near = None if reached is None else [each for each in reached if leaf.region.intersect(each) is not None]
    if not rows.num_rows or near == []:
        return []
    # a file of one leaf alone has only keys of that leaf
    may_reach_beyond = part != leaf.region or not _no_file_is_shared(state) or any(map(state.files.has_any, above))
    masks = [_overlap(part, rows, state.schema)] if may_reach_beyond else []
    if near is not None and not any(each.covers(leaf.region) for each in near):
        masks.append(reduce(pc.or_, (_overlap(each, rows, state.schema) for each in near)))
    if masks and not pc.all(inside := reduce(pc.and_, masks), skip_nulls=False).as_py():
        rows = rows.filter(inside)  # all columns: this takes longer than to test the keys
    named = ("filename", "rows", "bytes", "rows_exact", "checksum")
    filenames, counts, sizes, exact, checksums = (rows[name].to_pylist() for name in named)
    parts: Iterable[Region | None] = repeat(None)
    if may_reach_beyond:
        whole = keys_in(part, rows, state.schema, low="min_", high="max_").to_pylist()
        parts = (None if each else part for each in whole)
    return list(map(PlannedFile, filenames, counts, sizes, parts, exact, checksums, vectors_of(rows)))


def _overlap(region: Region, rows: pa.Table, schema: Schema) -> pa.ChunkedArray:
    return keys_in(region, rows, schema, low="max_", high="min_")


def keys_in(region: Region, rows: pa.Table, schema: Schema, *, low: str = "", high: str = "") -> pa.ChunkedArray:
    """Return for each row whether its row keys lie in a region.

    If the rows describe key ranges instead (columns ``min_<key>`` and ``max_<key>``), `low` and `high` are the prefixes
    of the columns compared with the region's lower and upper bound: ``low="min_", high="max_"`` tests whether the range
    lies inside the region, ``low="max_", high="min_"`` whether it overlaps the region.
    """
    masks = []
    for key, r in zip(schema.row_keys, region.ranges, strict=True):
        if r.min is not None:
            masks.append(pc.greater_equal(rows[f"{low}{key.name}"], arrow_value(r.min, key.type.arrow)))
        if r.max is not None:
            masks.append(pc.less(rows[f"{high}{key.name}"], arrow_value(r.max, key.type.arrow)))
    if not masks:
        return pa.chunked_array([pa.repeat(pa.scalar(True), rows.num_rows)])  # noqa: FBT003 - a value
    return reduce(pc.and_, masks)


def regions_of(schema: Schema, keys: Any = None, region: Mapping[str, Any] | str | None = None) -> list[Region] | None:
    """Return the regions for the keys or key ranges that a user gave; None for the whole table.

    `InvalidInput` when both are given, a name is not a row key, or a value has the wrong type.

    Parameters
    ----------
    keys
        One key or a list of keys. A key is a value of the first row key, or a tuple of values for the first few row
        keys.
    region
        A mapping from row keys to ``(min, max)``: min is included, max excluded, and None means unbounded. Or the same
        as text (see `parse_region`).
    """
    if keys is not None and region is not None:
        raise InvalidInput("a scan takes keys or a region, not both", hint="omit one of them")
    if keys is not None:
        checked = dict.fromkeys(keys_given(schema, keys))
        # A key that starts with another given key lies in the other's region already; no row may be read twice.
        return [
            _region_of_key(schema, key) for key in checked if not any(key[:n] in checked for n in range(1, len(key)))
        ]
    if region is None:
        return None
    if isinstance(region, str):
        region = parse_region(schema, region)
    names = [key.name for key in schema.row_keys]
    wanted_region = Region.whole(schema)
    for name, bounds in region.items():
        if name not in names:
            raise InvalidInput(f"{name!r} is not a row key", hint=f"the row keys are {', '.join(names)}")
        i = names.index(name)
        if not isinstance(bounds, tuple | list) or len(bounds) != 2:
            raise InvalidInput(f"{bounds!r} is not a range of {name!r}", hint="give (min, max); None means unbounded")
        low, high = (None if b is None else check_key(schema.row_keys[i], b) for b in bounds)
        wanted_region = wanted_region.narrowed(i, Range(low, high))
    return [wanted_region]


def _region_of_key(schema: Schema, key: tuple[KeyValue, ...]) -> Region:
    region = Region.whole(schema)
    for i, value in enumerate(key):
        region = region.narrowed(i, Range(value, key_after(schema.row_keys[i], value)))
    return region


def only_with_deletions(plan: ScanPlan) -> ScanPlan:
    """Return the plan of those rows alone that are in files with deletion vectors; nothing processes them."""
    leaves = (replace(leaf, files=tuple(f for f in leaf.files if f.deletions is not None)) for leaf in plan.leaves)
    return replace(plan, leaves=tuple(leaf for leaf in leaves if leaf.files), processing=NOTHING)


FEW_LEAVES = 16
"""So many leaves are planned one by one."""
FEW_FILES = 8
"""A leaf with at most this many files is not pruned for its first rows."""


def within_region(leaves: Iterable[PlannedLeaf], region: Region) -> Iterator[PlannedLeaf]:
    """Yield the leaves that reach into a region, each file restricted to it."""
    for leaf in leaves:
        inside = leaf.partition.region.intersect(region)
        if inside == leaf.partition.region:
            yield leaf
        elif inside is not None:
            parts = [(file, (file.region or inside).intersect(inside)) for file in leaf.files]
            files = tuple(file._replace(region=part) for file, part in parts if part is not None)
            yield PlannedLeaf(leaf.partition, files)


def plan_first_rows(plan: ScanPlan, state: TableState, rows: int) -> ScanPlan:
    """Return a plan without the files that hold none of its first `rows` rows.

    Goes by the minimum and maximum keys recorded for each file. A plan whose rows are processed is returned unchanged.

    Parameters
    ----------
    plan
        A scan of `state`, which returns rows leaf by leaf, in key order within each.
    """
    if not plan.processing.is_nothing:
        return plan
    leaves: list[PlannedLeaf] = []
    for leaf in plan.leaves:
        if rows <= 0:
            break
        leaves.append(replace(leaf, files=_first_files(leaf, state, rows)))
        rows -= sum(file.rows for file in leaf.files if _is_counted(file))
    return replace(plan, leaves=tuple(leaves))


def _is_counted(file: PlannedFile) -> bool:
    return file.rows_exact and file.region is None


def _first_files(leaf: PlannedLeaf, state: TableState, rows: int) -> tuple[PlannedFile, ...]:
    """Return the files of a leaf that can hold one of its first `rows` rows.

    Order the files whose rows all count by their maximum key. The first few of them hold `rows` rows up to some key, so
    a file whose minimum key is greater than that one cannot hold any of the first rows.
    """
    if len(leaf.files) <= FEW_FILES:
        return leaf.files
    owners = [leaf.partition.id, *(above.id for above in state.tree.ancestors(leaf.partition.id))]
    used, key = state.files.active_rows_in(owners), state.schema.row_keys[0].name
    counted = pa.array([file.filename for file in leaf.files if _is_counted(file)], pa.string())
    whole = used.filter(pc.and_(pc.is_in(used["filename"], counted), pc.is_valid(used[f"max_{key}"])))
    whole = whole.sort_by(f"max_{key}")
    at = pc.index(pc.greater_equal(pc.cumulative_sum(whole["rows"]), rows), pa.scalar(True)).as_py()  # noqa: FBT003
    if at < 0:
        return leaf.files
    has_early_keys = pc.less_equal(used[f"min_{key}"], whole[f"max_{key}"][at])
    early = set(used["filename"].filter(pc.fill_null(has_early_keys, fill_value=True)).to_pylist())
    return tuple(file for file in leaf.files if file.filename in early)


FileGroup = tuple[PlannedFile, ...]
"""Files whose rows are read together."""

TASK_BYTES: Final = 128 << 20
"""The most bytes that a task of several groups reads, as Spark's ``spark.sql.files.maxPartitionBytes``."""
OPEN_BYTES: Final = 1 << 20
"""The cost of opening a file, in bytes read: a quarter of Spark's, as the scan opens many small files together."""

MERGED_FILES: Final = 64
"""The most small files of one task that are read as one group: opening each on its own takes longer than a merge."""
MERGED_BYTES: Final = 16 << 20
"""The most bytes of such a group."""


def groups_of(leaves: Iterable[PlannedLeaf], *, file_by_file: bool) -> list[FileGroup]:
    """Return the files to read together: those of each leaf; or each file alone, if rows do not depend on others."""
    if file_by_file:
        return [(file,) for leaf in leaves for file in leaf.files]
    return [leaf.files for leaf in leaves if leaf.files]


def packed(groups: Sequence[FileGroup], parallelism: int) -> list[tuple[FileGroup, ...]]:
    """Divide groups among tasks, in order, by Spark's own rule for files: one task per core, more for much data.

    Parameters
    ----------
    groups
        The groups; each goes to one task as a whole.

    Returns
    -------
    The groups of each task.
    """
    costs = [sum(file.bytes + OPEN_BYTES for file in group) for group in groups]
    most = min(TASK_BYTES, max(OPEN_BYTES, -(-sum(costs) // max(1, parallelism))))
    tasks: list[list[FileGroup]] = []
    filled = 0
    for group, cost in zip(groups, costs, strict=True):
        if not tasks or filled + cost > most:
            tasks.append([])
            filled = 0
        tasks[-1].append(group)
        filled += cost
    return [tuple(task) for task in tasks]


def merged_groups(groups: Sequence[FileGroup]) -> tuple[FileGroup, ...]:
    """Return the same files in fewer groups by merging groups of small files; rows must not depend on each other."""
    merged: list[list[PlannedFile]] = []
    size = 0
    for group in groups:
        group_size = sum(file.bytes for file in group)
        if not merged or len(merged[-1]) + len(group) > MERGED_FILES or size + group_size > MERGED_BYTES:
            merged.append([])
            size = 0
        merged[-1].extend(group)
        size += group_size
    return tuple(map(tuple, merged))


# The keys that a scan is given, in any form that Python programs have them in, as a list of tuples.

_TO_LIST: Final = ("tolist", "to_list", "to_pylist")
"""How NumPy and pandas, Polars, and Arrow call it."""


def keys_given(schema: Schema, keys: Any) -> list[tuple[KeyValue, ...]]:
    """Return each key once, as the values of the first row keys.

    `InvalidInput` when a key has too many values, or one that its row key cannot have.

    Parameters
    ----------
    keys
        One key, or several: a list, a set, a range, or a column or array of NumPy, pandas, Polars or Arrow. A key is a
        value of the first row key, or a tuple of values of the first few.
    """
    wanted = (key if isinstance(key, tuple) else (key,) for key in _listed(keys))
    try:
        return list(dict.fromkeys(_checked(schema, key) for key in wanted))
    except InvalidInput as error:
        if isinstance(keys, tuple) and _are_all(schema, keys):
            error.hint = (*error.hint_parts, f"; several keys are a list: {list(keys)!r}")
        raise


def _listed(keys: Any) -> list[Any]:
    if isinstance(keys, list):
        return keys
    if isinstance(keys, AbstractSet | range):
        return list(keys)
    if hasattr(keys, "columns"):
        hint = "write a column of it, such as x['city']; or a list of tuples, one for each row"
        raise InvalidInput(f"keys are values or tuples of values, not {described(keys)}", hint=hint)
    to_list = next((found for name in _TO_LIST if (found := getattr(keys, name, None)) is not None), None)
    found = keys if to_list is None else to_list()
    return found if isinstance(found, list) else [found]


def _checked(schema: Schema, key: tuple[Any, ...]) -> tuple[KeyValue, ...]:
    if not 1 <= len(key) <= len(schema.row_keys):
        count = len(schema.row_keys)
        has = "there is 1 row key" if count == 1 else f"there are {count} row keys"
        raise InvalidInput(f"key {key!r} has {len(key)} values", hint=has)
    if isinstance(key[0], list):
        raise InvalidInput(f"key {key[0]!r} is a list", hint=f"a key of several values is a tuple: {tuple(key[0])!r}")
    return tuple(
        check_key(field, plain_integer(value), what="key") for field, value in zip(schema.row_keys, key, strict=False)
    )


def _are_all(schema: Schema, values: tuple[Any, ...]) -> bool:
    try:
        return all(check_key(schema.row_keys[0], plain_integer(value)) is not None for value in values)
    except InvalidInput:
        return False
