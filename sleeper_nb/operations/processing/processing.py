"""The processing kernel: filters, an iterator and aggregations over sorted Arrow batches, as a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.model.permissions import Function
from sleeper_nb.model.processing import AgeOff, DataProcessing
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations.processing import iterators
from sleeper_nb.operations.processing.aggregating import aggregated


@dataclass(frozen=True, slots=True)
class Processor:
    """A table's processing, ready to run; the iterator's function travels with it to wherever the rows are.

    Parameters
    ----------
    processing
        What is done.
    schema
        The schema that the rows are read with.
    function
        The iterator's, when there is one.
    """

    processing: DataProcessing
    schema: Schema
    function: Function | None = None

    @classmethod
    def of(cls, processing: DataProcessing, schema: Schema) -> Processor:
        """Find the iterator's function; raises `NotAllowed`, or why it cannot be imported."""
        return cls(processing, schema, iterators.find(processing.iterator) if processing.iterator else None)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the processed rows of one leaf; they stay sorted.

        Parameters
        ----------
        batches
            The leaf's rows in key order, with the columns of `DataProcessing.columns` at least.

        Raises
        ------
        InvalidInput
            When the iterator fails or breaks its promise, or a sum does not fit its field.
        """
        rows: Iterable[pa.RecordBatch] = map(self._conformed, batches)
        for each in self.processing.filters:
            rows = self._younger(rows, each)
        if self.processing.iterator is not None and self.function is not None:
            rows = iterators.iterated(rows, self.function, self.processing.iterator, self.schema)
        if self.processing.aggregations:
            rows = aggregated(rows, self.processing.aggregations, self.schema)
        return (batch for batch in rows if batch.num_rows)

    def _conformed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        # engines have types of their own for texts, and call everything nullable
        return batch.cast(pa.schema([self.schema.arrow.field(name) for name in batch.schema.names]))

    def _younger(self, batches: Iterable[pa.RecordBatch], each: AgeOff) -> Iterator[pa.RecordBatch]:
        kind, oldest = self.schema.arrow.field(each.field).type, each.oldest_kept(self.processing.now)
        if pa.types.is_timestamp(kind):
            oldest = in_microseconds(oldest)
        least = pa.scalar(oldest, pa.int64()).cast(kind)
        for batch in batches:
            kept = pc.fill_null(pc.greater_equal(batch[each.field], least), False)  # noqa: FBT003 - what has no time goes
            yield batch if pc.all(kept).as_py() else batch.filter(kept)


def in_microseconds(milliseconds: int) -> int:
    """Return a time as every engine can hold it: one before all times that there are stays before them."""
    return max(milliseconds, -(2**52)) * 1000
