"""What a scan needs of a user's condition on rows. What the condition means is up to an engine, DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

import pyarrow as pa


class RowTest(Protocol):
    """A condition that is ready to be evaluated, as often as a read needs it."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it needs."""

    def met(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield those rows of a stream that meet the condition, in their order, with all their columns.

        Raises
        ------
        InvalidInput
            When the condition cannot be computed for some row.
        """


class Condition(Protocol):
    """A condition that was checked against a schema."""

    @property
    def text(self) -> str:
        """The condition in SQL."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it needs."""

    def elsewhere(self) -> Condition:
        """Return the condition for tasks in other processes."""

    def opened(self) -> AbstractContextManager[RowTest]:
        """Return the condition, ready for one read: throughout the read, functions such as `now()` give one value."""
