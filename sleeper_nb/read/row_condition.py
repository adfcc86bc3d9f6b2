"""The interface of a user's condition on rows, as scans use it; the DuckDB engine implements and evaluates it.

A scan uses a condition three times: the comparisons that it implies prune regions of row keys (`prune_regions`),
`Condition.predicate` prunes more partitions and files, and `RowFilter` filters the rows that are read by the whole
condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

import pyarrow as pa

from sleeper_nb.read.predicate import ColumnPredicate, Predicate


class RowFilter(Protocol):
    """A condition that is open for evaluation during one read."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the condition refers to."""

    def filter(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a stream that meet the condition, in order and with all their columns.

        `InvalidInput` when the condition cannot be evaluated for some row.
        """


class Condition(Protocol):
    """A condition that has been checked against a schema."""

    @property
    def text(self) -> str:
        """The condition in SQL."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the condition refers to."""

    @property
    def implied(self) -> tuple[ColumnPredicate, ...]:
        """Comparisons of integers and texts that hold for every row that meets the condition; other parts are omitted.

        They mean the same to every engine.
        """

    @property
    def is_exact(self) -> bool:
        """Whether a row meets the condition exactly when it meets `implied`."""

    @property
    def predicate(self) -> Predicate:
        """What a row must meet at least, also where alternatives, lists and beginnings of texts say so."""

    def picklable(self) -> Condition:
        """Return the condition in a form that can be sent to tasks in other processes."""

    def opened(self) -> AbstractContextManager[RowFilter]:
        """Open the condition for one read; during the read, functions such as ``now()`` return one value."""
