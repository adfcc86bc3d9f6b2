"""The active references of a snapshot as columns, by partition: those that were loaded, and what has changed since."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

ReferenceBatches = tuple[pa.RecordBatch, ...]


@dataclass(frozen=True)
class Loaded:
    """References as they were read, grouped by partition, partitions in increasing order."""

    table: pa.Table

    @cached_property
    def slices(self) -> dict[str, tuple[int, int]]:
        """For each partition, in order, where its rows begin and how many there are."""
        return {name: (begin, end - begin) for name, begin, end in runs_of(self.table)}

    def around(self, others: Mapping[str, pa.Table]) -> list[pa.Table]:
        """Return all references in order, as pieces, with some partitions replaced or added."""
        names, rows = list(self.slices), self.table
        pieces, done = [], 0
        for name in sorted(others):
            at = bisect_left(names, name)
            begin = self.slices[names[at]][0] if at < len(names) else rows.num_rows
            pieces += [rows.slice(done, begin - done), others[name]]
            done = begin + self.slices.get(name, (0, 0))[1]
        return [piece for piece in (*pieces, rows.slice(done)) if piece.num_rows]


@dataclass(frozen=True)
class ActiveReferences:
    """Active references by partition; a change makes another value, which shares what stays the same.

    The loaded references stay as they are. Those of the partitions that have changed since are kept apart, each as a
    few record batches that are merged like the digits of a binary counter: no row is copied more than log2(rows) times.
    """

    loaded: Loaded
    # all references of partitions from which some were removed, instead of the loaded ones
    replaced: Mapping[str, ReferenceBatches] = field(default_factory=dict)
    added: Mapping[str, ReferenceBatches] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        return self.loaded.table.schema

    def all(self) -> pa.Table:
        """Return all references, partitions in increasing order."""
        pieces = self.loaded.around({name: self.of([name]) for name in self.replaced.keys() | self.added.keys()})
        return pa.concat_tables(pieces) if pieces else self.schema.empty_table()

    def of(self, partition_ids: Collection[str]) -> pa.Table:
        """Return the references of some partitions, without looking at any other."""
        pieces = [piece for name in sorted(set(partition_ids)) for piece in self._pieces(name)]
        return pa.concat_tables(pieces) if pieces else self.schema.empty_table()

    def has_any(self, partition_id: str) -> bool:
        before = self.replaced.get(partition_id)
        kept = partition_id in self.loaded.slices if before is None else any(batch.num_rows for batch in before)
        return kept or partition_id in self.added

    def _pieces(self, partition_id: str) -> list[pa.Table]:
        pieces, before = [], self.replaced.get(partition_id)
        if before is None and partition_id in self.loaded.slices:
            pieces.append(self.loaded.table.slice(*self.loaded.slices[partition_id]))
        batches = (*(before or ()), *self.added.get(partition_id, ()))
        return [*pieces, pa.Table.from_batches(batches, self.schema)] if batches else pieces

    def with_added(self, new: Mapping[str, pa.RecordBatch]) -> ActiveReferences:
        grown = {name: appended(self.added.get(name, ()), batch) for name, batch in new.items()}
        return replace(self, added={**self.added, **grown})

    def with_only(self, partition_id: str, kept: pa.Table) -> ActiveReferences:
        others = {name: batches for name, batches in self.added.items() if name != partition_id}
        return replace(self, replaced={**self.replaced, partition_id: tuple(kept.to_batches())}, added=others)

    def with_columns(self, fields: Sequence[pa.Field]) -> ActiveReferences:
        changed = (
            {name: batches_with(each, fields) for name, each in of.items()} for of in (self.replaced, self.added)
        )
        return ActiveReferences(Loaded(_with_columns(self.loaded.table, fields)), *changed)


def _with_columns(rows: pa.Table, fields: Iterable[pa.Field]) -> pa.Table:
    for each in fields:
        if each.name in rows.schema.names:
            rows = rows.set_column(rows.schema.get_field_index(each.name), each, rows[each.name].cast(each.type))
        else:
            rows = rows.append_column(each, pa.nulls(rows.num_rows, each.type))
    return rows


def batches_with(batches: ReferenceBatches, fields: Sequence[pa.Field]) -> ReferenceBatches:
    tables = (_with_columns(pa.Table.from_batches([batch]), fields) for batch in batches)
    return tuple(batch for table in tables for batch in table.to_batches())


def runs_of(grouped: pa.Table) -> list[tuple[str, int, int]]:
    """Return each partition of references that are grouped by partition, and where its rows begin and end."""
    if not grouped.num_rows:
        return []
    runs = pc.run_end_encode(grouped["partition_id"].combine_chunks())
    ends = runs.run_ends.to_pylist()
    return list(zip(runs.values.to_pylist(), [0, *ends[:-1]], ends, strict=True))


def appended(batches: ReferenceBatches, new: pa.RecordBatch) -> ReferenceBatches:
    """Return the batches and a new one; preceding batches that are not longer are merged into it."""
    kept = list(batches)
    while kept and kept[-1].num_rows <= new.num_rows:
        new = pa.concat_batches([kept.pop(), new])
    return (*kept, new)
