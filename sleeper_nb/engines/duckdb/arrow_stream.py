"""Rows that DuckDB reads from a stream of Arrow; an error that the stream raises is kept for whoever asked for them."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from sleeper_nb.errors import SleeperError

_MOST_KEPT: Final = 16


class RaisedErrors:
    """The last errors of this package that streams raised: DuckDB reads them in threads of its own, and keeps texts."""

    def __init__(self) -> None:
        self._errors: deque[SleeperError] = deque(maxlen=_MOST_KEPT)

    def keep(self, error: SleeperError) -> None:
        """Keep an error without its stack, whose frames have rows."""
        self._errors.append(copy.copy(error))

    def quoted_in(self, text: str) -> SleeperError | None:
        """Return the error that the text of an error of DuckDB ends with; None when no stream raised it."""
        for error in reversed(self._errors):
            if f"{type(error).__module__}.{type(error).__qualname__}: {error}" in text:
                return copy.copy(error)
        return None


RAISED: Final = RaisedErrors()


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
