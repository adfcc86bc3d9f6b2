"""Blocks of a version's rows by row key: where the row at a number is, from metadata alone. Pure.

A block ends where every file that begins before it has ended: no key of a later file is smaller. So the number of rows
before a block is exact, and the rows at a number are found in one block, or a few, without reading the others.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple, Self

import pyarrow.compute as pc

from sleeper_nb.model.state import TableState
from sleeper_nb.report import values_of


class KeySpan(NamedTuple):
    """Values of the first row key from `low` to `high`, both included, and the number of rows with smaller ones."""

    low: Any
    high: Any
    before: int


@dataclass(frozen=True, slots=True)
class KeyBlocks:
    """The blocks of a version, in the order of the first row key, and the number of all rows."""

    spans: tuple[KeySpan, ...]
    rows: int

    @classmethod
    def of(cls, state: TableState) -> Self | None:
        """Return the blocks of a version; None when metadata does not tell the number of rows of each file."""
        key = state.schema.row_keys[0].name
        active = state.files.active
        if not all(pc.all(active[name], min_count=0).as_py() for name in ("rows_exact", "only_this_partition")):
            return None
        columns = [values_of(active[name]) for name in (f"min_{key}", f"max_{key}", "rows")]
        files = [file for file in zip(*columns, strict=True) if file[2]]
        is_time = state.schema.row_keys[0].type.name in {"date", "timestamp"}
        if is_time and any(isinstance(end, str) for file in files for end in file[:2]):  # that Python does not have
            return None
        return cls._of_files(sorted(files, key=itemgetter(0)))

    @classmethod
    def _of_files(cls, files: Sequence[tuple[Any, Any, int]]) -> Self:
        """Return the blocks of files in the order of their least keys; there may be 100,000s."""
        if not files:
            return cls((), 0)
        spans: list[KeySpan] = []
        (least, greatest, _), before, rows = files[0], 0, 0
        for low, high, count in files:
            if low > greatest:
                spans.append(KeySpan(least, greatest, before))
                least, greatest, before = low, high, rows
            elif high > greatest:
                greatest = high
            rows += count
        return cls((*spans, KeySpan(least, greatest, before)), rows)

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
