"""The first rows of an answer, the line below them, and the limit on the size of what a notebook saves."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime
from types import NoneType
from typing import TYPE_CHECKING, Self

from sleeper_nb.clock import Clock
from sleeper_nb.display.figure import clip
from sleeper_nb.read.scan_plan import ScanPlan
from sleeper_nb.report import (
    LEAST_CELL_BYTES,
    MOST_SHOWN,
    Bytes,
    Data,
    Display,
    Grid,
    cell_text,
    counted,
    data_rows,
    duration_text,
)

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_DISPLAY = Display()


@dataclass(frozen=True, slots=True)
class Reads:
    """What an answer reads from its tables; a table that is named twice counts twice.

    An engine skips columns and row groups that it does not need, so the bytes are an upper bound.
    """

    partitions: int
    partitions_of: int
    files: int
    files_of: int
    bytes: int

    @classmethod
    def of(cls, plans: Iterable[ScanPlan]) -> Self:
        """Return the sum of what some scans read."""
        found = tuple(plans)
        return cls(
            sum(len(plan.leaves) for plan in found),
            sum(plan.leaves_of for plan in found),
            sum(len({file.filename for file in plan.files}) for plan in found),
            sum(plan.files_of for plan in found),
            sum(plan.bytes for plan in found),
        )

    def __str__(self) -> str:
        """``3/16 partitions, 5/20 files, at most 42.1 MiB``; empty when no table is read."""
        if not self.partitions_of:
            return ""
        partitions = f"{self.partitions:,}/{self.partitions_of:,} partitions"
        return f"{partitions}, {self.files:,}/{self.files_of:,} files, at most {Bytes(self.bytes)}"

    @property
    def in_short(self) -> str:
        """``5 of 20 files, 42.1 MiB``; empty when no table is read."""
        return f"{self.files:,} of {self.files_of:,} files, {Bytes(self.bytes)}" if self.partitions_of else ""


class FirstRows:
    """The first rows of an answer: read on the first access and kept.

    `seconds` is how long the answer took from `began` until they were read, without the time in between.
    """

    __slots__ = ("_before", "_clock", "_full", "_kept", "seconds")

    def __init__(self, clock: Clock, began: datetime) -> None:
        self._clock, self._before = clock, clock.now() - began
        self._kept: pa.Table | None = None
        self._full = False
        self.seconds = 0.0

    def upto(self, read: Callable[[int], pa.Table], rows: int) -> pa.Table:
        """Return up to `rows` rows, which `read` reads when they are not kept.

        `read` refers to the answer that has these rows: kept here, the two would be a cycle, freed late.
        """
        kept = self._kept
        if kept is not None and (self._full or rows <= kept.num_rows):
            return kept.slice(0, rows)
        began = self._clock.now()
        found = read(rows)
        if rows <= MOST_SHOWN + 1:  # a longer answer is for a program, which keeps it itself
            self._kept, self._full = found, found.num_rows < rows
            self.seconds = (self._before + self._clock.now() - began).total_seconds()
        return found

    def grid(self, read: Callable[[int], pa.Table], display: Display, *what: object, total: int | None = None) -> Grid:
        """Return the rows to show; the footer says what they are of and how long it took."""
        rows = self.upto(read, display.rows + 1)
        took = duration_text(self.seconds) if display.timed else ""
        return preview(rows, " · ".join(filter(None, (*map(str, what), took))), limit=display.rows, total=total)


def preview(rows: pa.Table, footer: str, *, limit: int = DEFAULT_DISPLAY.rows, total: int | None = None) -> Grid:
    """Return the first rows of a result as a grid; the line below has their number and `footer`.

    `rows` has up to one row more than is shown, which tells whether there are more without counting them. `total` is
    the number of rows, when metadata has it. A grid that is too large to save is cut, and the footer says so.
    """
    if not rows.column_names:  # the answer of a statement that is not a query; its number of rows means nothing
        return Grid((), (), footer=f"no rows · {footer}")
    shown = rows.slice(0, limit)
    if rows.num_rows <= limit:
        count = counted(rows.num_rows, "row")
    elif not limit:
        count = "no row is shown" if total is None else f"no row is shown of {counted(total, 'row')}"
    else:
        count = (
            f"first {counted(limit, 'row')}; there are more" if total is None else f"first {limit:,} of {total:,} rows"
        )
    cells = data_rows(shown)
    return whole_or_bounded(Grid(tuple(shown.column_names), cells, footer=f"{count} · {footer}"))


_LONGEST = 200  # characters of a value in an answer that would be too large
_SURELY_SHORT = _LONGEST // 2  # a line break is shown as two characters
_SHORT_TYPES = (int, float, date, Bytes, NoneType)
MAX_BYTES = 65_536  # about so many bytes of HTML are saved for one answer
_LEAST_ROWS = 5  # the fewest rows of a wide answer, before columns are left out


def largest(count: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to `count` that fits, at least 1; any smaller number must fit too."""
    return max(1, bisect_left(range(1, count + 1), 1, key=lambda number: not fits(number)))


def bounded(grid: Grid, limit: int = MAX_BYTES) -> Grid:
    """Return a grid whose HTML has at most about `limit` bytes; the footer says what was left out."""
    return bounded_with_html(grid, limit)[0]


def bounded_with_html(grid: Grid, limit: int = MAX_BYTES) -> tuple[Grid, str]:
    """Return what `bounded` does, and its HTML."""
    cells = tuple(tuple(map(_cut, row)) for row in grid.rows)
    if cells != grid.rows:
        words = f"values cut to {_LONGEST} characters (output limit)"
        grid = replace(grid, rows=cells, footer=" · ".join(filter(None, (grid.footer, words))))
    if _may_fit(grid, limit):
        whole = grid.html()
        if len(whole.encode()) <= limit:
            return grid, whole

    def first(rows: int, across: int) -> Grid:
        counts = ((rows, len(cells), "rows"), (across, len(grid.columns), "columns"))
        cut = " and ".join(f"{count:,} of {of:,} {what}" for count, of, what in counts if count < of)
        footer = " · ".join(filter(None, (grid.footer, f"showing {cut} (output limit)" if cut else "")))
        return Grid(grid.columns[:across], tuple(row[:across] for row in cells[:rows]), grid.title, footer)

    least = min(len(cells), _LEAST_ROWS)
    most = min(len(grid.columns), max(1, limit // (LEAST_CELL_BYTES * max(1, least))))
    across = largest(most, lambda columns: _fits(first(least, columns), limit))
    rows = largest(len(cells), lambda rows: _fits(first(rows, across), limit))
    shown = first(rows, across)
    return shown, shown.html()


def _cut(value: object) -> object:
    inner = value.value if isinstance(value, Data) else value
    if isinstance(inner, _SHORT_TYPES) or (isinstance(inner, str) and len(inner) < _SURELY_SHORT):
        return value
    text = cell_text(value)
    return value if len(text) <= _LONGEST else clip(text, _LONGEST)


def _fits(grid: Grid, limit: int) -> bool:
    return _may_fit(grid, limit) and len(grid.html().encode()) <= limit


def _may_fit(grid: Grid, limit: int) -> bool:
    """Return whether a grid of empty cells would fit: a large one is not written only to see that it is too large."""
    return LEAST_CELL_BYTES * len(grid.columns) * len(grid.rows) <= limit


def whole_or_bounded(grid: Grid) -> Grid:
    """Return a grid with its long cells while it is small enough to save; otherwise as `bounded` does."""
    return grid if _fits(grid, MAX_BYTES) else bounded(grid)
