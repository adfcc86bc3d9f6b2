"""The active references of a snapshot as columns, by partition: those that were loaded, and what has changed since.

The statistics of loaded references may stay in their file until something needs them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.model.file_reference import without_statistics

ReferenceBatches = tuple[pa.RecordBatch, ...]


class UnreadColumns(Protocol):
    """Columns of references that stay in a file until they are first needed."""

    @property
    def schema(self) -> pa.Schema:
        """Their names and types."""

    def read(self) -> pa.Table:
        """Return them, with as many rows as the references have; `StorageError` when the file is damaged."""


@dataclass(frozen=True)
class Loaded:
    """References as they were read, grouped by partition, partitions in increasing order.

    Parameters
    ----------
    known
        All columns, or all but those of statistics.
    unread
        The statistics that are not in `known`: of these rows, and of others after them.
    """

    known: pa.Table
    unread: UnreadColumns | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        known: pa.Schema = self.known.schema
        return known if self.unread is None else pa.schema([*known, *self.unread.schema])

    @cached_property
    def plain(self) -> pa.Table:
        return without_statistics(self.known)

    @cached_property
    def table(self) -> pa.Table:
        """All columns of all rows; what is unread is read for it."""
        table = self.known
        if self.unread is not None:
            for field, column in zip(self.unread.schema, self.unread.read().columns, strict=True):
                table = table.append_column(field, column.slice(0, table.num_rows))
        return table

    def columns(self, with_statistics: bool) -> pa.Table:
        return self.table if with_statistics else self.plain

    @cached_property
    def slices(self) -> dict[str, tuple[int, int]]:
        """For each partition, in order, where its rows begin and how many there are."""
        return {name: (begin, end - begin) for name, begin, end in runs_of(self.known)}

    def rows(self, partition_id: str, columns: pa.Table) -> pa.Table:
        return columns.slice(*self.slices[partition_id])

    def around(self, others: Mapping[str, pa.Table], columns: pa.Table) -> list[pa.Table]:
        """Return some columns of all references in order, as pieces, with some partitions replaced or added."""
        names = list(self.slices)
        pieces, done = [], 0
        for name in sorted(others):
            at = bisect_left(names, name)
            begin = self.slices[names[at]][0] if at < len(names) else columns.num_rows
            pieces += [columns.slice(done, begin - done), others[name]]
            done = begin + self.slices.get(name, (0, 0))[1]
        return [piece for piece in (*pieces, columns.slice(done)) if piece.num_rows]


@dataclass(frozen=True)
class ActiveReferences:
    """Active references by partition; a change makes another value, which shares what stays the same.

    The loaded references stay as they are. Those of the partitions that have changed since are kept apart, each as a
    few record batches that are merged like the digits of a binary counter: no row is copied more than log2(rows) times.

    Parameters
    ----------
    replaced
        All references of partitions from which some were removed, instead of the loaded ones.
    """

    loaded: Loaded
    replaced: Mapping[str, ReferenceBatches] = field(default_factory=dict)
    added: Mapping[str, ReferenceBatches] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        return self.loaded.schema

    def all(self, *, with_statistics: bool = True) -> pa.Table:
        """Return all references, partitions in increasing order; unread statistics are read only to return them."""
        changed = self.replaced.keys() | self.added.keys()
        others = {name: self.of([name], with_statistics=with_statistics) for name in changed}
        columns = self.loaded.columns(with_statistics)
        pieces = self.loaded.around(others, columns)
        return pa.concat_tables(pieces) if pieces else columns.schema.empty_table()

    def of(self, partition_ids: Collection[str], *, with_statistics: bool = True) -> pa.Table:
        """Return the references of some partitions, without looking at any other."""
        pieces = [piece for name in sorted(set(partition_ids)) for piece in self._pieces(name, with_statistics)]
        if pieces:
            return pa.concat_tables(pieces)
        return self.schema.empty_table() if with_statistics else self.loaded.plain.slice(0, 0)

    def has_any(self, partition_id: str) -> bool:
        before = self.replaced.get(partition_id)
        kept = partition_id in self.loaded.slices if before is None else any(batch.num_rows for batch in before)
        return kept or partition_id in self.added

    def _pieces(self, partition_id: str, with_statistics: bool) -> list[pa.Table]:
        pieces, before = [], self.replaced.get(partition_id)
        if before is None and partition_id in self.loaded.slices:
            pieces.append(self.loaded.rows(partition_id, self.loaded.columns(with_statistics)))
        batches = (*(before or ()), *self.added.get(partition_id, ()))
        if batches:
            rows = pa.Table.from_batches(batches, self.schema)
            pieces.append(rows if with_statistics else rows.select(self.loaded.plain.column_names))
        return pieces

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
