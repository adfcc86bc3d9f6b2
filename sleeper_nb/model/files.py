"""The file references of a snapshot: all of them as columns, so that a million stay fast.

`FileReferences` is such a set; each change returns another one, which shares what stays the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain, groupby
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.model import statistics
from sleeper_nb.model.active_references import (
    ActiveReferences,
    Loaded,
    ReferenceBatches,
    appended,
    batches_with,
    runs_of,
)
from sleeper_nb.model.deletions import DELETION_FILE
from sleeper_nb.model.file_reference import (
    CONTENT,
    READY_FOR_GC,
    TIME,
    VALUE_COLUMNS,
    Addition,
    FileReference,
    Shared,
    Totals,
    contents_of,
    files_schema,
    naming,
    of_other_keys,
    to_batch,
    to_values,
)
from sleeper_nb.model.keys import arrow_value
from sleeper_nb.model.schema import Schema

_FEW: Final = 64
"""How many references may wait to become columns, and how many names to become an array."""


# A large set of file names that is cheap to copy, and answers quickly whether a name may be in it.

Hashes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class FileNames:
    """A set of file names that is cheap to copy; it may rarely claim a name that is not in it.

    Each name is kept as its hash, so a name in the set is always found.
    """

    # sorted hashes. Each array is longer than the next, so that a million single additions leave few arrays.
    arrays: tuple[Hashes, ...] = ()
    recent: frozenset[int] = frozenset()  # the hashes of the names added last; they become an array when there are many

    def with_names(self, names: Iterable[str]) -> FileNames:
        new = [*self.recent, *map(hash, names)]
        if len(new) < _FEW:
            return FileNames(self.arrays, frozenset(new))
        arrays, hashes = list(self.arrays), np.sort(np.array(new, np.int64))
        while arrays and len(arrays[-1]) <= len(hashes):
            hashes = np.sort(np.concatenate([arrays.pop(), hashes]))
        return FileNames((*arrays, hashes))

    def may_hold(self, names: Iterable[str]) -> bool:
        wanted = set(map(hash, names))
        if not self.recent.isdisjoint(wanted):
            return True
        hashes = np.array(list(wanted), np.int64)
        for array in self.arrays:
            places = np.minimum(np.searchsorted(array, hashes), len(array) - 1)
            if (array[places] == hashes).any():
                return True
        return False


# The references of a snapshot.


class WaitingFile(NamedTuple):
    """A data file or deletion vector that versions used from one snapshot until before another; and since when not."""

    filename: str
    bytes: int
    added_snapshot: int
    removed_snapshot: int
    removed_at: datetime


class FileReferences:
    """All references of one snapshot, immutable. The cost of a change depends only on the size of the change.

    The references added last become columns only when they are read: most commits of a log are never read one by one.

    Parameters
    ----------
    active
        The active references as columns, except those in `added`.
    added
        The active references that were added last.
    removed
        References that are ready for garbage collection, in the order of their removal.
    names
        The names of all tracked files; None until first needed.
    shared
        The shared files among the active references; None until first needed, as reading a version does not need them.
    """

    def __init__(
        self,
        active: ActiveReferences,
        added: tuple[Addition, ...],
        removed: ReferenceBatches,
        totals: Totals,
        names: FileNames | None,
        shared: Shared | None = None,
    ) -> None:
        self._held = active, added  # one attribute: threads share a state
        self._removed, self._totals, self._given_names = removed, totals, names
        self._known_shared = shared

    @classmethod
    def none(cls, schema: Schema) -> FileReferences:
        return cls.of(files_schema(schema).empty_table())

    @classmethod
    def of(cls, table: pa.Table) -> FileReferences:
        """Return the references of what `table` returned: active ones first, by partition, then the others."""
        end = pc.index(table["status"], arrow_value(READY_FOR_GC)).as_py()
        active = table if end < 0 else table.slice(0, end)
        removed = () if end < 0 else tuple(table.slice(end).to_batches())
        return cls(ActiveReferences(Loaded(active)), (), removed, Totals().plus(active), None)

    @property
    def schema(self) -> pa.Schema:
        return self._held[0].schema

    @property
    def totals(self) -> Totals:
        return self._totals

    @property
    def shared(self) -> Shared:
        if self._known_shared is None:
            self._known_shared = Shared.of(self.active)
        return self._known_shared

    @property
    def data_totals(self) -> Totals:
        """The totals of data files: like `totals`, but each file counts once."""
        references, rows, size = self._totals
        return Totals(references - self.shared.references, rows, size - self.shared.bytes)

    @property
    def removed_count(self) -> int:
        return sum(batch.num_rows for batch in self._removed)

    @cached_property
    def table(self) -> pa.Table:
        """All rows: the active ones, grouped by partition, then those that are ready for garbage collection."""
        return pa.concat_tables([self.active, self.ready_for_gc])

    @cached_property
    def active(self) -> pa.Table:
        """The rows that a reader uses, grouped by partition, partitions in increasing order."""
        return self._columns.all()

    @property
    def _columns(self) -> ActiveReferences:
        active, added = self._held
        if added:
            active = active.with_added(_by_partition(added, self.schema))
            self._held = active, ()
        return active

    @property
    def ready_for_gc(self) -> pa.Table:
        return self._to_table(self._removed)

    @property
    def out_of_use(self) -> pa.Table:
        """The rows of `ready_for_gc` whose files are not active in any other partition."""
        return self._unused(self.ready_for_gc, "filename")

    def waiting_files(self) -> Iterator[WaitingFile]:
        """Yield each use of a file by removed references, of those that no active reference uses any more."""
        waiting = self.ready_for_gc
        with_vectors = waiting.filter(pc.is_valid(waiting[DELETION_FILE]))
        for rows, columns in (
            (self.out_of_use, ("filename", "bytes")),
            (self._unused(with_vectors, DELETION_FILE), (DELETION_FILE, "deletion_bytes")),
        ):
            names = (*columns, "added_snapshot", "removed_snapshot", "updated_at")
            yield from map(WaitingFile, *(rows[name].to_pylist() for name in names))

    def _unused(self, waiting: pa.Table, name: str) -> pa.Table:
        if not waiting.num_rows:
            return waiting
        used = self.active[name].combine_chunks()
        return waiting.filter(pc.invert(pc.is_in(waiting[name], used)))

    def removed_last(self, count: int) -> set[str]:
        waiting = self.ready_for_gc
        return set(waiting["filename"].slice(waiting.num_rows - count).to_pylist()) if count else set()

    @cached_property
    def runs(self) -> Sequence[tuple[str, int, int]]:
        """Each partition with active references, and where its rows in `active` begin and end."""
        return runs_of(self.active)

    def has_any(self, partition_id: str) -> bool:
        """Return whether a partition has active references, without looking at any other."""
        return self._columns.has_any(partition_id)

    def by_partition(self) -> dict[str, Totals]:
        active = self.active.select(["partition_id", "rows", "bytes"])
        sums = active.group_by("partition_id").aggregate([("rows", "count"), ("rows", "sum"), ("bytes", "sum")])
        columns = (sums[name].to_pylist() for name in ("rows_count", "rows_sum", "bytes_sum"))
        return dict(zip(sums["partition_id"].to_pylist(), map(Totals, *columns), strict=True))

    def active_in(
        self, partition_ids: Collection[str], filenames: Collection[str] | None = None
    ) -> tuple[FileReference, ...]:
        """Return the active references of some partitions, or only those to some files, as values."""
        rows = self.active_rows_in(partition_ids)
        if filenames is not None:
            rows = rows.filter(pc.is_in(rows["filename"], pa.array(list(filenames), pa.string())))
        return tuple(to_values(rows))

    def active_rows_in(self, partition_ids: Collection[str]) -> pa.Table:
        """Return the active rows of some partitions, without looking at any other row."""
        return self._columns.of(partition_ids)

    def with_added(self, references: Iterable[FileReference], snapshot_id: int, time: datetime) -> FileReferences:
        new = tuple(references)
        kinds = statistics.widest_kinds(reference.statistics for reference in new)
        unknown = [(column, kind) for column, kind in kinds if not self._can_hold(column, kind)]
        if unknown:
            return self._with_statistics_of(unknown).with_added(new, snapshot_id, time)
        added = tuple(Addition(reference, snapshot_id, time) for reference in new)
        filenames = list(dict.fromkeys(name for each in new for name in each.filenames))
        totals, names = self._totals.plus_values(new), self._names.with_names(filenames)
        shared = self._known_shared and self._known_shared.changed(
            ((each.filename, each.bytes) for each in new if not each.only_this_partition), 1
        )
        active, waiting = self._held
        if len(waiting) >= _FEW:
            active, waiting = self._columns, ()
        return FileReferences(active, (*waiting, *added), self._removed, totals, names, shared)

    @cached_property
    def _with_statistics(self) -> Mapping[str, str]:
        return dict(statistics.kinds_in(self.schema))

    def _can_hold(self, column: str, kind: str) -> bool:
        """Return whether the statistics of a column need no wider type here; those of another type are ignored."""
        known = self._with_statistics.get(column)
        return known is not None and not (kind != known and statistics.holds(kind, known))

    def _with_statistics_of(self, kinds: Iterable[tuple[str, str]]) -> FileReferences:
        """Return the same references with columns for more statistics, unknown for all of them, or with wider ones."""
        fields = statistics.reference_fields(kinds)
        active, added = self._held
        removed = batches_with(self._removed, fields)
        known = self._totals, self._given_names, self._known_shared
        return FileReferences(active.with_columns(fields), added, removed, *known)

    def with_removed(
        self, filenames: Collection[str], partition_id: str, snapshot_id: int, time: datetime
    ) -> FileReferences:
        before = self._columns.of([partition_id]).combine_chunks()
        gone = pc.is_in(before["filename"], pa.array(list(filenames), pa.string()))
        removed_rows = before.filter(gone)
        new: dict[str, pa.Scalar] = {
            "status": pa.scalar(READY_FOR_GC),
            "removed_snapshot": pa.scalar(snapshot_id, pa.int64()),
            "updated_at": pa.scalar(time, TIME),
            **{f.name: pa.scalar(None, f.type) for f in removed_rows.schema if f.name.startswith(VALUE_COLUMNS)},
        }
        marked = removed_rows
        for name, value in new.items():
            i = removed_rows.schema.get_field_index(name)
            marked = marked.set_column(i, removed_rows.schema.field(i), pa.repeat(value, removed_rows.num_rows))
        removed = self._removed
        for batch in marked.combine_chunks().to_batches():
            removed = appended(removed, batch)
        active = self._columns.with_only(partition_id, before.filter(pc.invert(gone)))
        totals = self._totals.plus(removed_rows, -1)
        shared = self._known_shared
        if shared is not None:
            several = removed_rows.filter(pc.invert(removed_rows["only_this_partition"]))
            pairs = zip(several["filename"].to_pylist(), several["bytes"].to_pylist(), strict=True)
            shared = shared.changed(pairs, -1)
        return FileReferences(active, (), removed, totals, self._given_names, shared)

    def of_schema(self, schema: Schema) -> FileReferences:
        """Return the references with the columns for another schema; there must be no active ones."""
        return FileReferences.of(of_other_keys(self.ready_for_gc, schema))

    def ready_for_gc_naming(self, filenames: Collection[str]) -> pa.Table:
        """Return the removed rows that `without` leaves out."""
        waiting = self.ready_for_gc
        return waiting.filter(naming(waiting, filenames))

    def without(self, filenames: Collection[str]) -> FileReferences:
        """Return the references without any to some files, none of which is active."""
        waiting = self.ready_for_gc
        left = tuple(waiting.filter(pc.invert(naming(waiting, filenames))).combine_chunks().to_batches())
        # The names stay in the set: it may hold too many, and no name is ever used again.
        return FileReferences(*self._held, left, self._totals, self._given_names, self._known_shared)

    def knows(self, *filenames: str) -> bool:
        """Return whether one of the files is tracked, active or not: a data file, or one with a deletion vector."""
        if not self._names.may_hold(filenames):
            return False
        return len(self.untracked(filenames)) < len(set(filenames))

    def untracked(self, filenames: Collection[str]) -> set[str]:
        wanted = pa.array(sorted(set(filenames)), pa.string())
        for name in ("filename", DELETION_FILE):
            wanted = wanted.filter(pc.invert(pc.is_in(wanted, self._all(name).combine_chunks())))
        return set(wanted.to_pylist())

    def _all(self, name: str) -> pa.ChunkedArray:
        return pa.chunked_array(
            [*self.active[name].chunks, *self.ready_for_gc[name].chunks],
            self.schema.field(name).type,
        )

    def unshared(self, others: FileReferences) -> tuple[pa.Table, pa.Table]:
        """Return the active rows of each side that the other side lacks: the partition, the file or its vector."""
        names = self._differing_partitions(others)
        mine, theirs = (each.active_rows_in(names) for each in (self, others))
        my_contents, their_contents = contents_of(mine), contents_of(theirs)
        only_mine = pc.invert(pc.is_in(my_contents, value_set=their_contents))
        only_theirs = pc.invert(pc.is_in(their_contents, value_set=my_contents))
        return mine.filter(only_mine).combine_chunks(), theirs.filter(only_theirs).combine_chunks()

    def _differing_partitions(self, others: FileReferences) -> set[str]:
        rows = [each.active.select(CONTENT).combine_chunks() for each in (self, others)]
        runs = [{name: (begin, end - begin) for name, begin, end in each.runs} for each in (self, others)]
        same = {name for name in runs[0].keys() & runs[1].keys()
                if rows[0].slice(*runs[0][name]).equals(rows[1].slice(*runs[1][name]))}  # fmt: skip
        return (runs[0].keys() | runs[1].keys()) - same

    @property
    def _names(self) -> FileNames:
        if self._given_names is None:
            named = (self._all(name).drop_null().to_pylist() for name in ("filename", DELETION_FILE))
            self._given_names = FileNames().with_names(chain.from_iterable(named))
        return self._given_names

    def _to_table(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches(batches, self.schema)


def _by_partition(added: Iterable[Addition], schema: pa.Schema) -> dict[str, pa.RecordBatch]:
    def owner(each: Addition) -> str:
        return each.reference.partition_id

    return {name: to_batch(list(group), schema) for name, group in groupby(sorted(added, key=owner), key=owner)}
