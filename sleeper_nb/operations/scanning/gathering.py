"""Small batches of a stream joined to larger ones, for work that costs more to begin than to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

MOST_ROWS = 65_536
MOST_BYTES = 32 * 2**20


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a stream in batches of 65,536 rows or 32 MiB at least, but for the last; none is empty.

    Parameters
    ----------
    batches
        Batches of one schema.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= MOST_ROWS or size >= MOST_BYTES:
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)
