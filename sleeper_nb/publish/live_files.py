"""What of each data file a version reads: all of it, or which rows of it are deleted. Pure, but for key columns.

A file that several leaves use, as after a split, is one file for other engines. Where metadata tells that the leaves
use all of it together, it is listed as it is. Otherwise its row keys are read: rows that no leaf has are deleted rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sleeper_nb.model.deletions import POSITION, DeletionVector
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.keys import key_after
from sleeper_nb.model.partitions import Range, Region
from sleeper_nb.model.state import TableState
from sleeper_nb.read.live_rows import LiveRows, Positions, positions_of
from sleeper_nb.read.scan_plan import PlannedFile, plan_scan
from sleeper_nb.storage.filesystem import Storage


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file, and what a version reads of it."""

    filename: str
    parts: tuple[tuple[str, PlannedFile], ...]  # the file as each leaf reads it, by the leaf's id
    is_covered: bool  # whether the leaves read all rows of it, but for deleted ones

    @property
    def vectors(self) -> frozenset[DeletionVector | None]:
        return frozenset(part.deletions for _, part in self.parts)

    @property
    def is_whole(self) -> bool:
        """Whether no row of it is deleted."""
        return self.is_covered and self.vectors == {None}

    @property
    def _is_one_vector(self) -> bool:
        """Whether one deletion vector has all deleted rows."""
        return self.is_covered and len(self.vectors) == 1

    @property
    def rows(self) -> int | None:
        """The rows of the whole file, deleted ones too; None if metadata does not tell."""
        (_, part), *others = self.parts
        if others or part.region is not None or not part.rows_exact:
            return None
        return part.rows + (part.deletions.rows if part.deletions else 0)

    @property
    def deletes_key(self) -> str:
        """What the deleted rows depend on: equal keys mean equal rows."""
        parts = [each.filename for each in self.vectors if each is not None]
        if not self._is_one_vector:
            parts = sorted(f"{leaf} {part.region} {part.deletions}" for leaf, part in self.parts)
        return hashlib.sha256("\n".join((self.filename, *parts)).encode()).hexdigest()[:32]

    def deleted(self, state: TableState, storage: Storage) -> tuple[int, Positions]:
        """Return the number of rows of the whole file, and the positions of those that no leaf has.

        `AssertionError` when two leaves have the same row.
        """
        if self._is_one_vector:
            (vector,) = self.vectors
            deleted = positions_of(vector, storage)
            return self.rows or rows_in(self.filename, storage), deleted
        count = rows_in(self.filename, storage)
        live = np.zeros(count, np.int8)
        keys = [key.name for key in state.schema.row_keys]
        for _, part in self.parts:
            rows = LiveRows.of(part, state.schema, storage, [part.region])
            for batch in rows.batches(keys, with_positions=True):
                live[batch[POSITION].to_numpy()] += 1
        if (live > 1).any():
            raise AssertionError(f"two leaves have the same row of {self.filename}")
        return count, np.flatnonzero(live == 0)


def rows_in(filename: str, storage: Storage) -> int:
    with storage.input(filename) as stream:
        return int(pq.read_metadata(stream).num_rows)


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """The data files of a version, by name; files without a live row are among them only if metadata does not tell."""

    state: TableState
    files: Mapping[str, LiveFile]
    place: Mapping[str, int] = field(default_factory=dict)  # where each file is in `TableState.files.active`

    @classmethod
    def of(cls, state: TableState, only: Collection[str] | None = None) -> LiveFiles:
        """Return the files of a version, or some of them."""
        if only is not None:
            active = state.files.active
            named = pc.is_in(active["filename"], pa.array(list(only), pa.string()))
            state = replace(state, files=FileReferences.of(active.filter(named)))
        parts: dict[str, tuple[tuple[str, PlannedFile], ...]] = {}
        for leaf in plan_scan(state).leaves:
            for file in leaf.files:
                parts[file.filename] = (*parts.get(file.filename, ()), (leaf.partition.id, file))
        names = state.files.active["filename"].to_pylist()
        place = dict(zip(reversed(names), range(len(names) - 1, -1, -1), strict=True))
        ends = _KeyEnds(state)
        files = {name: LiveFile(name, of, _is_covered(of, ends.leaves(place[name]))) for name, of in parts.items()}
        return cls(state, {name: file for name, file in files.items() if file.rows is None or _has_rows(file)}, place)


def _has_rows(file: LiveFile) -> bool:
    return any(part.rows for _, part in file.parts)


def _is_covered(parts: tuple[tuple[str, PlannedFile], ...], leaves: Iterator[str]) -> bool:
    """Return whether all leaves into which the keys of a file reach read it; a file of one leaf alone is looked up."""
    if len(parts) == 1 and parts[0][1].region is None:
        return True
    return {*leaves} <= {leaf for leaf, _ in parts}


@dataclass(frozen=True, slots=True)
class _KeyEnds:
    """The leaves into which the keys of files reach."""

    state: TableState

    def leaves(self, place: int) -> Iterator[str]:
        state = self.state
        active = state.files.active
        ranges = []
        for key in state.schema.row_keys:
            least, greatest = (_value(active, f"{end}_{key.name}", place) for end in ("min", "max"))
            ranges.append(Range(least, None if greatest is None else key_after(key, greatest)))
        yield from (leaf.id for leaf in state.tree.leaves_in(Region(tuple(ranges))))


def _value(active: Any, name: str, place: int) -> Any:
    return active[name][place].as_py()


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """The files of which other rows may count in a version than in an older one, by what references tell."""

    names: frozenset[str]  # all of them, also those that neither version reads any more
    before: frozenset[str]  # those among them that the older version read

    @classmethod
    def since(cls, state: TableState, older: int) -> ChangedFiles:
        """Return what changed since a version whose files are kept: so no reference of it was forgotten."""
        active, removed = state.files.active, state.files.ready_for_gc
        new = active.filter(pc.greater(active["added_snapshot"], older))
        gone = removed.filter(pc.greater(removed["removed_snapshot"], older))
        names = {*new["filename"].to_pylist(), *gone["filename"].to_pylist()}
        # a file of several leaves may only have got a reference back, and the older version lists it for another
        read = (each.filter(pc.less_equal(each["added_snapshot"], older)) for each in (active, gone))
        before = {name for each in read for name in each["filename"].to_pylist()}
        return cls(frozenset(names), frozenset(names & before))
