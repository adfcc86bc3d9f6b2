"""Which planned files must be read together, and how they are shared out among the tasks of an engine. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import repeat
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.keys import KeyValue, check_key, key_after
from sleeper_nb.model.partitions import Partition, Range, Region, parse_region
from sleeper_nb.model.processing import NOTHING, DataProcessing
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.report import Bytes, Grid, Report

# Which files a scan opens: those of leaves that overlap its region, and of their ancestors, pruned by keys. Pure.


class PlannedFile(NamedTuple):
    """A file to open; of its rows only those in `region` count, all of them when it is None."""

    filename: str
    rows: int
    bytes: int
    region: Region | None
    rows_exact: bool = True
    checksum: str | None = None

    @property
    def only_this_partition(self) -> bool:
        """Whether all of its rows count."""
        return self.region is None


@dataclass(frozen=True, slots=True)
class PlannedLeaf:
    """One leaf's part of a scan: its files hold its rows, each file in key order."""

    partition: Partition
    files: tuple[PlannedFile, ...]

    @property
    def rows(self) -> int | None:
        """How many rows its files hold for it, where metadata alone tells; None where they must be read to know."""
        told = all(file.rows_exact and file.region in {None, self.partition.region} for file in self.files)
        return sum(file.rows for file in self.files) if told else None


@dataclass(frozen=True, slots=True)
class OpenedGroups:
    """What a scan reads of the files that it opens: row groups and bytes, out of how many row groups there are."""

    of: int
    row_groups: int
    bytes: int


@dataclass(frozen=True, slots=True, repr=False)
class ScanPlan(Report):
    """What a scan reads, and what it leaves unread, as a funnel from the whole table to what is read of each file.

    Parameters
    ----------
    leaves
        The leaves that the scan reaches, each with its files.
    leaves_of, files_of, bytes_of
        How many leaves, data files and bytes of these the table has.
    opened
        What is read of the files, as their footers tell; None when nobody has looked (`Scan.plan` does).
    """

    schema: Schema
    snapshot_id: int
    leaves: tuple[PlannedLeaf, ...]
    leaves_of: int
    files_of: int
    bytes_of: int
    processing: DataProcessing = NOTHING
    opened: OpenedGroups | None = None

    @property
    def files(self) -> tuple[PlannedFile, ...]:
        """All files, leaf by leaf; a file that feeds two leaves is there twice, with another region each time."""
        return tuple(file for leaf in self.leaves for file in leaf.files)

    @property
    def rows(self) -> int | None:
        """How many rows the scan gives, where metadata alone tells; None where rows must be read to know."""
        counts = [leaf.rows for leaf in self.leaves]
        told = [count for count in counts if count is not None]
        return sum(told) if self.processing.is_nothing and len(told) == len(counts) else None

    def by_region(self) -> dict[Region | None, list[str]]:
        """Return the names of the files by the region that they are cut to, None for whole files."""
        found: dict[Region | None, list[str]] = {}
        for file in self.files:
            found.setdefault(file.region, []).append(file.filename)
        return found

    @property
    def bytes(self) -> int:
        """The size of the files that are opened."""
        return sum({f.filename: f.bytes for f in self.files}.values())

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
    """Return a share as a bar of letters, which reads in text and in HTML; what is not nothing is seen."""
    return "█" * round(_BAR * part / whole) or "▏" if part and whole else ""


def plan_scan(
    state: TableState, regions: Sequence[Region] | None = None, processing: DataProcessing = NOTHING
) -> ScanPlan:
    """Plan a scan of some regions; of the whole table when None. Regions must not overlap."""
    all_files, all_bytes = files_of(state)
    leaves = _leaves_of_all(state) if regions is None else _leaves_of(state, regions)
    return ScanPlan(
        state.schema, state.snapshot_id, tuple(leaves), len(state.tree.leaves), all_files, all_bytes, processing
    )


def _leaves_of(state: TableState, regions: Sequence[Region]) -> list[PlannedLeaf]:
    leaves = []
    reached = {leaf.id for region in regions for leaf in state.tree.leaves_in(region)}
    for leaf in (leaf for leaf in state.tree.leaves if leaf.id in reached):
        inside = [part for region in regions if (part := leaf.region.intersect(region)) is not None]
        files = tuple(file for part in inside for file in files_in(state, leaf, part))
        if inside:
            leaves.append(PlannedLeaf(leaf, files))
    return leaves


def _leaves_of_all(state: TableState) -> list[PlannedLeaf]:
    """Return all leaves: by columns where each file is of one leaf alone, as there may be hundreds of thousands."""
    leaves, owners = state.tree.leaves, {name for name, _, _ in state.files.runs()}
    if not _all_alone(state) or not owners <= {leaf.id for leaf in leaves}:
        return _leaves_of(state, [Region.whole(state.schema)])
    files = files_by_partition(state)
    return [PlannedLeaf(leaf, tuple(files.get(leaf.id, ()))) for leaf in leaves]


def files_by_partition(state: TableState) -> dict[str, list[PlannedFile]]:
    """Return the files of each partition that has any, those cut to it of whose rows others use some."""
    active = state.files.active
    names = ("filename", "partition_id", "rows", "bytes", "only_this_partition", "rows_exact", "checksum")
    filenames, owners, rows, sizes, alone, exact, checksums = (active[name].to_pylist() for name in names)
    regions: Iterable[Region | None] = repeat(None)
    if not all(alone):
        regions = (None if each else state.tree[owner].region for each, owner in zip(alone, owners, strict=True))
    files = list(map(PlannedFile, filenames, rows, sizes, regions, exact, checksums))
    return {name: files[begin:end] for name, begin, end in state.files.runs()}


def _all_alone(state: TableState) -> bool:
    return bool(pc.all(state.files.active["only_this_partition"], min_count=0).as_py())


def files_of(state: TableState) -> tuple[int, int]:
    """Return the number of data files of a state and their bytes; a file that several partitions share counts once."""
    files, _, size = state.files.data_totals
    return files, size


def files_in(state: TableState, leaf: Partition, part: Region) -> list[PlannedFile]:
    """Return the files that hold rows of one part of a leaf, those cut to it that reach beyond."""
    owners = [leaf.id, *(partition.id for partition in state.tree.ancestors(leaf.id))]
    rows = state.files.active_rows_in(owners)
    rows = rows.filter(keys_in(part, rows, state.schema, low="max_", high="min_")) if rows.num_rows else rows
    if not rows.num_rows:
        return []
    named = ("filename", "rows", "bytes", "rows_exact", "checksum")
    filenames, counts, sizes, exact, checksums = (rows[name].to_pylist() for name in named)
    whole = keys_in(part, rows, state.schema, low="min_", high="max_").to_pylist()
    parts = repeat(None) if all(whole) else (None if each else part for each in whole)
    return list(map(PlannedFile, filenames, counts, sizes, parts, exact, checksums))


def keys_in(region: Region, rows: pa.Table, schema: Schema, *, low: str = "", high: str = "") -> pa.ChunkedArray:
    """Return for each row whether its row keys lie in a region.

    Of rows that have a range of each key, `low` and `high` are what stands before a key in the names of the columns
    that are compared with the region's lower and upper ends: ``min_`` and ``max_`` ask whether the range lies in the
    region, ``max_`` and ``min_`` whether it meets it.
    """
    tests = [pa.chunked_array([pa.repeat(pa.scalar(True), rows.num_rows)])]  # noqa: FBT003 - a value
    for key, r in zip(schema.row_keys, region.ranges, strict=True):
        if r.min is not None:
            tests.append(pc.greater_equal(rows[f"{low}{key.name}"], pa.scalar(r.min, key.type.arrow)))
        if r.max is not None:
            tests.append(pc.less(rows[f"{high}{key.name}"], pa.scalar(r.max, key.type.arrow)))
    return reduce(pc.and_, tests)


def regions_of(schema: Schema, keys: Any = None, region: Mapping[str, Any] | str | None = None) -> list[Region] | None:
    """Return the regions that a user's exact keys, or ranges of keys, mean; None for the whole table.

    Parameters
    ----------
    schema
        The table's schema.
    keys
        One key, or a list of keys; a key is a value of the first row key, or a tuple with a value of each of the first
        few row keys.
    region
        For some row keys ``(min, max)``, min included, max excluded, None unbounded; or the same as text
        (`parse_region`).

    Raises
    ------
    InvalidInput
        When a name is no row key or a value has the wrong type.
    """
    if keys is not None and region is not None:
        raise InvalidInput("a scan takes keys or a region, not both", hint="leave one of them out")
    if keys is not None:
        wanted = [key if isinstance(key, tuple) else (key,) for key in (keys if isinstance(keys, list) else [keys])]
        checked = dict.fromkeys(_checked(schema, key) for key in wanted)
        # a key that begins with another key is in the other's region already, and no row may be read twice
        return [_exact(schema, key) for key in checked if not any(key[:n] in checked for n in range(1, len(key)))]
    if region is None:
        return None
    if isinstance(region, str):
        region = parse_region(schema, region)
    names = [key.name for key in schema.row_keys]
    found = Region.whole(schema)
    for name, bounds in region.items():
        if name not in names:
            raise InvalidInput(f"{name!r} is no row key", hint=f"the row keys are {', '.join(names)}")
        i = names.index(name)
        if not isinstance(bounds, tuple | list) or len(bounds) != 2:
            raise InvalidInput(f"{bounds!r} is no range of {name!r}", hint="give (min, max); None is unbounded")
        low, high = (None if b is None else check_key(schema.row_keys[i], b) for b in bounds)
        found = found.narrowed(i, Range(low, high))
    return [found]


def _checked(schema: Schema, key: tuple[Any, ...]) -> tuple[KeyValue, ...]:
    if not 1 <= len(key) <= len(schema.row_keys):
        raise InvalidInput(f"key {key!r} has {len(key)} values", hint=f"there are {len(schema.row_keys)} row keys")
    return tuple(check_key(field, value, what="key") for field, value in zip(schema.row_keys, key, strict=False))


def _exact(schema: Schema, key: tuple[KeyValue, ...]) -> Region:
    found = Region.whole(schema)
    for i, value in enumerate(key):
        found = found.narrowed(i, Range(value, key_after(schema.row_keys[i], value)))
    return found


# The files that can hold the first rows of a scan, by the least and greatest keys that are recorded of each.

FEW_FILES = 8
"""So many files of a leaf are opened without asking which of them are needed."""


def plan_first_rows(plan: ScanPlan, state: TableState, rows: int) -> ScanPlan:
    """Return a plan without files that hold none of its first `rows` rows; the plan itself when rows are processed.

    Parameters
    ----------
    plan
        A scan of `state`, which gives rows leaf by leaf, in key order within each.
    state
        The version that is scanned.
    rows
        How many rows are wanted.
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
    """Return the files of a leaf that can hold one of its first rows.

    Of the files of which all rows count, those with the smallest greatest keys hold enough rows up to some key. What a
    file without any key up to that one holds comes later.
    """
    if len(leaf.files) <= FEW_FILES:
        return leaf.files
    owners = [leaf.partition.id, *(above.id for above in state.tree.ancestors(leaf.partition.id))]
    used, key = state.files.active_rows_in(owners), state.schema.row_keys[0].name
    counted = pa.array([file.filename for file in leaf.files if _is_counted(file)], pa.string())
    sure = used.filter(pc.and_(pc.is_in(used["filename"], counted), pc.is_valid(used[f"max_{key}"])))
    sure = sure.sort_by(f"max_{key}")
    at = pc.index(pc.greater_equal(pc.cumulative_sum(sure["rows"]), rows), pa.scalar(True)).as_py()  # noqa: FBT003
    if at < 0:
        return leaf.files
    has_early_keys = pc.less_equal(used[f"min_{key}"], sure[f"max_{key}"][at])
    early = set(used["filename"].filter(pc.fill_null(has_early_keys, fill_value=True)).to_pylist())
    return tuple(file for file in leaf.files if file.filename in early)


FileGroup = tuple[PlannedFile, ...]
"""Files whose rows are read together."""

TASK_BYTES: Final = 128 << 20
"""The most that a task reads, if it is more than one group (Spark's ``spark.sql.files.maxPartitionBytes``)."""
OPEN_BYTES: Final = 1 << 20
"""What opening a file counts for, as bytes that are read meanwhile: a quarter of Spark's own figure, as our kernel
opens many little files in one go."""

MERGED_FILES: Final = 64
MERGED_BYTES: Final = 16 << 20
"""Little files of one task are opened together, up to so many and so large: opening each takes longer than a merge."""


def groups_of(leaves: Iterable[PlannedLeaf], *, apart: bool) -> list[FileGroup]:
    """Return the files of each leaf; each file alone, `apart`, where every row stays as it is or goes."""
    if apart:
        return [(file,) for leaf in leaves for file in leaf.files]
    return [leaf.files for leaf in leaves if leaf.files]


def packed(groups: Sequence[FileGroup], parallelism: int) -> list[tuple[FileGroup, ...]]:
    """Return groups for each task, in order, by Spark's own rule for files: a task each core, or more for much data.

    Parameters
    ----------
    groups
        None is cut.
    parallelism
        How many tasks run at once.
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
    """Return the same files in fewer groups, where every row stays as it is or goes: little files become one group."""
    merged: list[list[PlannedFile]] = []
    size = 0
    for group in groups:
        more = sum(file.bytes for file in group)
        if not merged or len(merged[-1]) + len(group) > MERGED_FILES or size + more > MERGED_BYTES:
            merged.append([])
            size = 0
        merged[-1].extend(group)
        size += more
    return tuple(map(tuple, merged))
