"""Rows that DuckDB reads from a stream of Arrow; an error that the stream raises is kept for whoever asked for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from sleeper_nb.errors import RAISED, SleeperError


@dataclass(frozen=True, slots=True, eq=False)
class ArrowStream:
    """Rows as an Arrow stream: DuckDB opens a new one each time it scans the relation."""

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, self._kept()).__arrow_c_stream__(requested_schema)

    def _kept(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.batches()
        except SleeperError as error:
            RAISED.keep(error)
            raise
