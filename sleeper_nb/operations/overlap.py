"""Which files of each leaf cover which of its keys, and which of them compaction jobs merge: bars to draw. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from sleeper_nb.model.keys import KeyValue
from sleeper_nb.model.partitions import Partition, Range
from sleeper_nb.model.state import TableState
from sleeper_nb.operations.compaction_plan import CompactionJob

MOST_COLUMNS, MOST_BARS = 16, 12


@dataclass(frozen=True, slots=True)
class Bar:
    """A file; or several, where there are too many to be told apart.

    Parameters
    ----------
    letters
        What the bars have in common that one job merges; ``K–M`` for all of several jobs, nothing for files that stay.
    files, rows, bytes
        How many, and what they hold.
    begin, end
        From where to where its keys lie in those of its column, from 0 to 1: by the order of the ends of all bars
        there, as strings have no distance.
    low, high
        The least and the greatest value of the first row key; None where that is not known.
    name
        The name of the file; empty when they are several.
    """

    letters: str
    files: int
    rows: int
    bytes: int
    begin: float
    end: float
    low: KeyValue | None
    high: KeyValue | None
    name: str


class OverlapColumn(NamedTuple):
    """A leaf, or some neighbours, with the bars of their files."""

    leaves: tuple[Partition, ...]
    bars: tuple[Bar, ...]


class _Use(NamedTuple):
    """A leaf's use of a file; `job` is the number of the job that merges it, or of one more than there are."""

    job: int
    low: KeyValue | None
    high: KeyValue | None
    added: int
    name: str
    rows: int
    bytes: int


def overlap(state: TableState, jobs: Sequence[CompactionJob]) -> tuple[OverlapColumn, ...]:
    """Return the bars of a state's files from left to right, in each column those first that are merged together.

    More than 16 leaves are taken together as neighbours; of each such column, and of a leaf with more than 12 files,
    the files that are merged alike are one bar.
    """
    leaves = state.tree.leaves
    step = -(-len(leaves) // MOST_COLUMNS)
    uses = _uses(state, jobs)
    columns = []
    for i in range(0, len(leaves), step):
        group = leaves[i : i + step]
        above = (partition.id for leaf in group for partition in state.tree.ancestors(leaf.id))
        owners = dict.fromkeys((*(leaf.id for leaf in group), *above))  # what a split partition keeps feeds its leaves
        held = [use for name in owners for use in uses.get(name, ())]
        few = len(held) <= MOST_BARS
        parts = [[use] for use in sorted(held, key=_place)] if few else _taken_together(held, len(jobs), step)
        columns.append(OverlapColumn(group, _bars(parts, group, len(jobs))))
    return tuple(columns)


def letters(number: int) -> str:
    """Return how a job is called in a picture: A, B … Z, AA, AB …."""
    word = ""
    while number >= 0:
        word, number = chr(ord("A") + number % 26) + word, number // 26 - 1
    return word


def _place(use: _Use) -> tuple[object, ...]:
    return use.job, use.low is not None, use.low, use.added, use.name


def _uses(state: TableState, jobs: Sequence[CompactionJob]) -> dict[str, list[_Use]]:
    """Return the uses of files by leaf. By columns, as there may be hundreds of thousands."""
    job_of = {(job.partition_id, name): i for i, job in enumerate(jobs) for name in job.filenames}
    active, key = state.files.active, state.schema.row_keys[0].name
    names = (f"min_{key}", f"max_{key}", "added_snapshot", "filename", "rows", "bytes")
    owners, *values = (active[name].to_pylist() for name in ("partition_id", *names))
    merged = [job_of.get(pair, len(jobs)) for pair in zip(owners, values[3], strict=True)]
    uses = list(map(_Use, merged, *values))
    return {name: uses[begin:end] for name, begin, end in state.files.runs()}


def _taken_together(held: Sequence[_Use], jobs: int, step: int) -> list[list[_Use]]:
    """Return the files that each job merges, those of the last jobs as one where there are too many; then the rest."""
    merged = sorted((use for use in held if use.job < jobs), key=itemgetter(0))
    parts = [merged] if step > 1 else [list(part) for _, part in groupby(merged, key=itemgetter(0))]
    most = MOST_BARS - 1
    if len(parts) > most:
        parts[most - 1 :] = [[use for part in parts[most - 1 :] for use in part]]
    return [part for part in (*parts, [use for use in held if use.job == jobs]) if part]


def _bars(parts: Iterable[Sequence[_Use]], group: Sequence[Partition], jobs: int) -> tuple[Bar, ...]:
    within = Range.hull([leaf.region.ranges[0] for leaf in group])
    ends = [_ends(part, within) for part in parts]
    values = sorted({value for pair in ends for value in pair if value is not None})
    rank = {value: i for i, value in enumerate(values)}
    across = max(1, len(values))
    return tuple(
        Bar(
            "" if part[0].job == jobs else "–".join(dict.fromkeys(letters(use.job) for use in (part[0], part[-1]))),
            len(part),
            sum(use.rows for use in part),
            sum(use.bytes for use in part),
            0 if low is None else rank[low] / across,
            1 if high is None else (rank[high] + 1) / across,
            _least(min, (use.low for use in part)),
            _least(max, (use.high for use in part)),
            part[0].name if len(part) == 1 else "",
        )
        for part, (low, high) in zip(parts, ends, strict=True)
    )


def _ends(part: Sequence[_Use], within: Range) -> tuple[KeyValue | None, KeyValue | None]:
    """Return where the keys of some files begin and end; a file that other leaves use too is cut to the column."""
    low, high = _least(min, (use.low for use in part)), _least(max, (use.high for use in part))
    if low is not None and within.min is not None:
        low = max(low, within.min)
    if high is not None and within.max is not None:
        high = min(high, within.max)
    return low, high


def _least(choose: Callable[..., KeyValue], values: Iterable[KeyValue | None]) -> KeyValue | None:
    known = list(values)
    return None if None in known else choose(known)
