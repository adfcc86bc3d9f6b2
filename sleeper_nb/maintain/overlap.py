"""The bars of the file picture: which keys of each leaf its files cover, and which files compaction merges. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from sleeper_nb.maintain.compaction_plan import CompactionJob
from sleeper_nb.model.keys import KeyValue
from sleeper_nb.model.partitions import Partition, Range
from sleeper_nb.model.state import TableState

MOST_COLUMNS = 16
"""With more leaves than this, neighbouring leaves share a column."""
MOST_BARS = 12
"""With more files than this in a column, files that are merged alike share a bar."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A file, or several files if there are too many to draw each."""

    # the letters of the job that merges the files; ``K–M`` for the files of several jobs, "" for files that stay
    letters: str
    files: int
    rows: int
    bytes: int
    # the range of keys that the bar covers, from 0 to 1 within its column. Positions are ranks among the ends of
    # all bars in the column, since strings have no distance
    begin: float
    end: float
    low: KeyValue | None  # the minimum and maximum of the first row key; None if unknown
    high: KeyValue | None
    name: str  # "" for several files


class OverlapColumn(NamedTuple):
    """A leaf, or some neighbouring leaves, and the bars of their files."""

    leaves: tuple[Partition, ...]
    bars: tuple[Bar, ...]


class _Use(NamedTuple):
    """A partition's reference to a file; `job` is the index of the job that merges it, or the number of jobs."""

    job: int
    low: KeyValue | None
    high: KeyValue | None
    added: int
    name: str
    rows: int
    bytes: int


def overlap(state: TableState, jobs: Sequence[CompactionJob]) -> tuple[OverlapColumn, ...]:
    """Return the columns of the picture in key order; in each, the bars of files that are merged together come first.

    With more than 16 leaves, neighbouring leaves share a column. In such a column, and in one with more than 12 files,
    the files that are merged alike are one bar.
    """
    leaves = state.tree.leaves
    step = -(-len(leaves) // MOST_COLUMNS)
    uses = _uses(state, jobs)
    columns = []
    for i in range(0, len(leaves), step):
        group = leaves[i : i + step]
        above = (partition.id for leaf in group for partition in state.tree.ancestors(leaf.id))
        owners = dict.fromkeys(
            (*(leaf.id for leaf in group), *above)
        )  # files of a split partition belong to its leaves
        group_uses = [use for name in owners for use in uses.get(name, ())]
        if len(group_uses) <= MOST_BARS:
            parts = [[use] for use in sorted(group_uses, key=_drawing_order)]
        else:
            parts = _grouped_by_job(group_uses, len(jobs), step)
        columns.append(OverlapColumn(group, _bars(parts, group, len(jobs))))
    return tuple(columns)


def letters(number: int) -> str:
    """Return the letters of a job in the picture: A, B … Z, AA, AB …."""
    word = ""
    while number >= 0:
        word, number = chr(ord("A") + number % 26) + word, number // 26 - 1
    return word


def _drawing_order(use: _Use) -> tuple[object, ...]:
    return use.job, use.low is not None, use.low, use.added, use.name


def _uses(state: TableState, jobs: Sequence[CompactionJob]) -> dict[str, list[_Use]]:
    job_of = {(job.partition_id, name): i for i, job in enumerate(jobs) for name in job.filenames}
    active, key = state.files.active, state.schema.row_keys[0].name
    names = (f"min_{key}", f"max_{key}", "added_snapshot", "filename", "rows", "bytes")
    owners, *values = (active[name].to_pylist() for name in ("partition_id", *names))
    merged = [job_of.get(pair, len(jobs)) for pair in zip(owners, values[3], strict=True)]
    uses = list(map(_Use, merged, *values))
    return {name: uses[begin:end] for name, begin, end in state.files.runs}


def _grouped_by_job(uses: Sequence[_Use], jobs: int, step: int) -> list[list[_Use]]:
    """Return the files of each job, with the last jobs as one group if there are too many; then the files that stay."""
    merged = sorted((use for use in uses if use.job < jobs), key=itemgetter(0))
    parts = [merged] if step > 1 else [list(part) for _, part in groupby(merged, key=itemgetter(0))]
    most = MOST_BARS - 1
    if len(parts) > most:
        parts[most - 1 :] = [[use for part in parts[most - 1 :] for use in part]]
    return [part for part in (*parts, [use for use in uses if use.job == jobs]) if part]


def _bars(parts: Sequence[Sequence[_Use]], group: Sequence[Partition], jobs: int) -> tuple[Bar, ...]:
    column = Range.hull([leaf.region.ranges[0] for leaf in group])
    ends = [_ends(part, column) for part in parts]
    values = sorted({value for pair in ends for value in pair if value is not None})
    rank = {value: i for i, value in enumerate(values)}
    width = max(1, len(values))
    bars = []
    for part, (low, high) in zip(parts, ends, strict=True):
        bar = Bar(
            letters=_letters_of(part, jobs),
            files=len(part),
            rows=sum(use.rows for use in part),
            bytes=sum(use.bytes for use in part),
            begin=0 if low is None else rank[low] / width,
            end=1 if high is None else (rank[high] + 1) / width,
            low=_extreme(min, (use.low for use in part)),
            high=_extreme(max, (use.high for use in part)),
            name=part[0].name if len(part) == 1 else "",
        )
        bars.append(bar)
    return tuple(bars)


def _letters_of(part: Sequence[_Use], jobs: int) -> str:
    first, last = part[0].job, part[-1].job
    if first == jobs:
        return ""
    return letters(first) if first == last else f"{letters(first)}–{letters(last)}"


def _ends(part: Sequence[_Use], column: Range) -> tuple[KeyValue | None, KeyValue | None]:
    low, high = _extreme(min, (use.low for use in part)), _extreme(max, (use.high for use in part))
    if low is not None and column.min is not None:
        low = max(low, column.min)
    if high is not None and column.max is not None:
        high = min(high, column.max)
    return low, high


def _extreme(choose: Callable[..., KeyValue], values: Iterable[KeyValue | None]) -> KeyValue | None:
    known = list(values)
    return None if None in known else choose(known)
