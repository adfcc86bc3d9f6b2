"""The rows of a query on their way into a table: a stream that is read once, and never in memory as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

LOADED_ROWS: Final = 100_000
"""About how many rows of a query are handed to a load at a time."""


class RowsToLoad:
    """Rows as an Arrow stream that can be taken once.

    Parameters
    ----------
    batches
        The rows; at least one batch, perhaps without rows.

    Attributes
    ----------
    error
        Why the query failed: an Arrow stream passes on only a text of it.
    """

    def __init__(self, batches: Iterator[pa.Table], names: Sequence[str]) -> None:
        self._batches, self._names = batches, list(names)
        self.count = 0
        self.error: BaseException | None = None
        self._first: pa.Table | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns, under their new names; the first batch is read for them, and kept for the load."""
        if self._first is None:
            self._first = self._next()
        assert self._first is not None  # noqa: S101 - there is at least one batch
        return self._first.schema

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.schema, self._all())
        return reader.__arrow_c_stream__(requested_schema)

    def _all(self) -> Iterator[pa.RecordBatch]:
        batch, self._first = self._first, None
        while batch is not None:
            self.count += batch.num_rows
            yield from batch.to_batches()
            batch = self._next()

    def _next(self) -> pa.Table | None:
        try:
            batch = next(self._batches, None)
        except BaseException as error:
            self.error = error
            raise
        return None if batch is None else batch.rename_columns(self._names)
