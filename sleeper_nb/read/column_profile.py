"""What the values of a column are like: NULLs, distinct values, least, greatest, quartiles and a small histogram."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sleeper_nb.report import Listing, counted

RANGES: Final = 12
"""How many equal ranges a histogram has; a text or a boolean has a bar for each of its most frequent values instead."""

_BARS: Final = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """What the values of one column are like.

    Parameters
    ----------
    name, type
        The column and its type.
    rows, nulls
        How many rows there are, and in how many of them the column is NULL.
    distinct, is_exact
        How many different values there are besides NULL, and whether that was counted or estimated (within a few
        per cent).
    least, greatest
        The bounds of the values; None for a column without values, and for lists and maps.
    quartiles
        The values below which 25, 50 and 75 % of the values are, each a value of the column; empty for types without a
        meaningful one.
    counts
        The heights of the bars of the histogram.
    """

    name: str
    type: str
    rows: int
    nulls: int
    distinct: int
    is_exact: bool
    least: Any = None
    greatest: Any = None
    quartiles: tuple[Any, ...] = ()
    counts: tuple[int, ...] = ()

    @property
    def bars(self) -> str:
        """The histogram as one line of text; a range with any value has at least the lowest bar."""
        most = max(self.counts, default=0)
        return "".join(_BARS[-(-8 * count // most)] for count in self.counts) if most else ""


_COLUMNS: Final = (
    "column", "type", "histogram", "nulls", "distinct", "least", "25 %", "median", "75 %", "greatest",
)  # fmt: skip


def profile_listing(profiles: Sequence[ColumnProfile], title: str) -> Listing[ColumnProfile]:
    """Return profiles as a table with a row for each column."""
    cells = []
    for each in profiles:
        distinct = each.distinct if each.is_exact else f"≈ {each.distinct:,}"
        quartiles = each.quartiles or (None, None, None)
        cells.append((each.name, each.type, each.bars, each.nulls, distinct, each.least, *quartiles, each.greatest))
    rows = profiles[0].rows if profiles else 0
    footer = f"{counted(rows, 'row')} · histograms: {RANGES} equal ranges, or the most frequent values of texts"
    return Listing(tuple(profiles), _COLUMNS, tuple(cells), title, footer)
