"""The first rows of a stream of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


def limited(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the first `limit` rows of batches, and read no batch after them; None for all rows."""
    if limit is None:
        yield from batches
        return
    rows_left = limit
    if rows_left == 0:
        return
    for batch in batches:
        yield batch.slice(0, rows_left)
        rows_left -= min(batch.num_rows, rows_left)
        if rows_left == 0:
            return
