"""Blocks of a version's rows by row key: where the row at a number is, from metadata alone. Pure.

A block ends where every file that begins before it has ended: no key of a later file is smaller. So the number of rows
before a block is exact, and the rows at a number are found in one block, or a few, without reading the others.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import pyarrow.compute as pc

from sleeper_nb.model.state import TableState


class KeySpan(NamedTuple):
    """Values of the first row key from `low` to `high`, both included, and the number of rows with smaller ones."""

    low: Any
    high: Any
    before: int


@dataclass(frozen=True, slots=True)
class KeyBlocks:
    """The blocks of a version, in the order of the first row key.

    Parameters
    ----------
    spans
        The keys of each block, and the number of rows before it.
    rows
        The number of all rows.
    """

    spans: tuple[KeySpan, ...]
    rows: int

    @classmethod
    def of(cls, state: TableState) -> Self | None:
        """Return the blocks of a version; None when metadata does not tell the number of rows of each file."""
        active = state.files.active
        known = pc.and_(active["rows_exact"], active["only_this_partition"])
        if not pc.all(known, min_count=0).as_py():
            return None
        key = state.schema.row_keys[0].name
        used = active.select([f"min_{key}", f"max_{key}", "rows"]).filter(pc.greater(active["rows"], 0))
        try:
            files = list(zip(*(used[name].to_pylist() for name in used.column_names), strict=True))
        except (OverflowError, ValueError):  # a time that Python does not have
            return None
        return cls._of_files(sorted(files, key=lambda file: file[0]))

    @classmethod
    def _of_files(cls, files: Iterable[tuple[Any, Any, int]]) -> Self:
        spans: list[KeySpan] = []
        rows = 0
        for low, high, count in files:
            if spans and low <= spans[-1].high:
                last = spans[-1]
                spans[-1] = last._replace(high=max(last.high, high))
            else:
                spans.append(KeySpan(low, high, rows))
            rows += count
        return cls(tuple(spans), rows)

    def around(self, first: int, rows: int) -> KeySpan | None:
        """Return the keys of the `rows` rows after the first `first`; None when there are none, or it is all keys."""
        if not rows or first >= self.rows or len(self.spans) < 2:
            return None
        starts = [span.before for span in self.spans]
        begin = bisect_right(starts, first) - 1
        end = bisect_left(starts, first + rows) - 1
        if begin == 0 and end == len(self.spans) - 1:
            return None
        return KeySpan(self.spans[begin].low, self.spans[end].high, starts[begin])
