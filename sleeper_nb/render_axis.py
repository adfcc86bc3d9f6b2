"""The heights of a chart: how far up each value is, and the lines beside which round values stand."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sleeper_nb.cells import cell_text

AREA = 160
"""How high a drawing is, in px."""
_MOST_WHOLE, _LEAST_SPAN = 1e12, 1e-300  # larger values are written as 1e+12


def y_of(value: float, low: float, high: float) -> str:
    """Return where a value is drawn: in percent of the drawing, from its top."""
    return f"{98 - 96 * share(value, low, high):.2f}"


def share(value: float, low: float, high: float) -> float:
    """Return how high a value is, from 0 to 1; by halves, as the whole way can be more than a number can be."""
    return (value / 2 - low / 2) / (high / 2 - low / 2)


def axis(low: float, high: float) -> tuple[str, float]:
    """Return quiet lines with the values that they stand for; and how many percent of the width these take."""
    values = _ticks(low, high)
    words = [cell_text(int(v) if v.is_integer() and abs(v) < _MOST_WHOLE else v) for v in values]
    lines = []
    for value, word in zip(values, words, strict=True):
        y = AREA * float(y_of(value, low, high)) / 100
        lines.append(f'<line x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" stroke-opacity="0.2"/>')
        lines.append(f'<text y="{y + (10 if y < 12 else -3):.1f}" fill-opacity="0.75">{word}</text>')
    return f'<g font-size="11">{"".join(lines)}</g>', 1 + 0.7 * max(map(len, words))


def _ticks(low: float, high: float) -> list[float]:
    """Return zero and the round values of a span, two to five together."""
    wide = high / 2 - low / 2
    if wide < _LEAST_SPAN:
        return [0.0]
    power = 10.0 ** math.floor(math.log10(wide))
    step = max(n * power for n in (0.5, 1, 2, 5) if n * power <= wide)
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def span(values: Sequence[float]) -> tuple[float, float]:
    """Return the heights of the drawing's edges: zero is always one of them or between."""
    low, high = min([0.0, *values]), max([0.0, *values])
    return low, high if high / 2 > low / 2 else low + 1
