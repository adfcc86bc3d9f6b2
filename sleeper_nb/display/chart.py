"""The chart of an answer: what it draws, as a line of text, and as Vega-Lite and a picture for a notebook.

A notebook gets Vega-Lite, which JupyterLab draws itself, without a network, and a picture of it for every other viewer
and for the saved file. The converter is imported when the chart is displayed; Altair only for `Chart.altair`.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sleeper_nb.display.chart_marks import ChartColumns, ChartKind, Point, span
from sleeper_nb.display.vega import altair_chart, at_full_width, picture_of, specification_of, with_properties
from sleeper_nb.errors import InvalidInput
from sleeper_nb.report import Grid, cell_text

if TYPE_CHECKING:
    from altair import Chart as AltairChart
    from altair import FacetChart as AltairFacets
    from altair import LayerChart as AltairLayers

VEGA_LITE = "application/vnd.vegalite.v5+json"
_BLOCKS = "▁▂▃▄▅▆▇█"
_SAVED_AS: dict[str, Literal["png", "svg", "pdf", "json"]] = {
    ".png": "png", ".svg": "svg", ".pdf": "pdf", ".json": "json",
}  # fmt: skip
_TO = " to "  # in the label of a range
_MOST_BLOCKS, _MOST_TEXT_LINES = 80, 10
_LENGTHS, _BELOW = "▏▎▍▌▋▊▉█", "▐█"
_BAR_BLOCKS, _MOST_NAMED_BARS, _LONGEST_NAME = 40, 20, 40


@dataclass(frozen=True, slots=True, repr=False)
class Chart:
    """Rows of a result as a picture; `grid` has the points, `altair` the chart to go on from.

    Parameters
    ----------
    columns
        The kind of the chart and its columns.
    points
        From left to right; of a scatter in the order of the rows.
    notes
        What was left out, and what the rows are of.
    styled
        The chart of Altair with other properties; None while they are ours.
    is_wide
        Whether it takes the width of its cell; not when a width was chosen.
    """

    columns: ChartColumns
    points: tuple[Point, ...]
    notes: tuple[str, ...]
    styled: AltairChart | AltairLayers | AltairFacets | None = field(default=None, compare=False)
    is_wide: bool = field(default=True, compare=False)

    @property
    def kind(self) -> ChartKind:
        """Which chart it is."""
        return self.columns.kind

    @property
    def x(self) -> str:
        """The column along the horizontal axis."""
        return self.columns.x

    @property
    def y(self) -> str:
        """The column along the vertical axis; of a histogram ``rows``."""
        return self.columns.y

    def grid(self) -> Grid:
        """Return the points."""
        table = self.to_dict()
        return Grid(tuple(table), tuple(zip(*table.values(), strict=True)), footer=" · ".join(self.notes))

    def to_dict(self) -> dict[str, Any]:
        """Return a list of values for each column: the labels, the heights, and the values of colours and facets."""
        values: dict[str, Any] = {self.x: [point.label for point in self.points]}
        if self.columns.facet is not None:
            values = {self.columns.facet: [point.facet for point in self.points], **values}
        if self.columns.color is not None:
            values = {self.columns.color: [point.series for point in self.points], **values}
        values[self.y] = [point.y for point in self.points]
        if self.is_of_bands:
            values[f"least {self.y}"] = [point.least for point in self.points]
            values[f"greatest {self.y}"] = [point.greatest for point in self.points]
        return {**values, "rows": [point.rows for point in self.points]} if self.is_summed else values

    @property
    def is_summed(self) -> bool:
        """Whether each mark stands for many rows."""
        return any(point.rows is not None for point in self.points)

    @property
    def is_of_bands(self) -> bool:
        """Whether marks have a least and a greatest height around their mean."""
        return any(point.least is not None for point in self.points)

    @property
    def title(self) -> str:
        """``flights by month``."""
        return self.columns.title

    @property
    def altair(self) -> AltairChart | AltairLayers | AltairFacets:
        """A new chart of Altair, to change or save; its columns are ``x``, ``y`` and ``label``, perhaps ``series``.

        A line has two layers. Altair displays a chart with scripts from the internet, unless
        ``altair.renderers.enable("mimetype")`` was run.
        """
        return altair_chart(specification_of(self)) if self.styled is None else self.styled.copy()

    def properties(self, **changed: Any) -> Chart:
        """Return the chart with other properties of Altair's charts, such as ``width=400``, ``height`` and ``title``.

        It is displayed as this one is: without a network, and with a picture in the saved notebook.

        Raises
        ------
        InvalidInput
            When a chart has no such property, or it cannot have that value.
        """
        styled = with_properties(self.altair, changed)
        return replace(self, styled=styled, is_wide=self.is_wide and "width" not in changed)

    def save(self, path: str | Path) -> None:
        """Write the chart to a file, which is replaced: ``.png``, ``.svg``, ``.pdf``, or its specification, ``.json``.

        Raises
        ------
        InvalidInput
            When the file has another ending.
        """
        ending = Path(path).suffix.lower()
        if ending not in _SAVED_AS:
            endings = ", ".join(_SAVED_AS)
            raise InvalidInput(f"a chart is not saved as {str(path)!r}", hint=f"end the name with one of {endings}")
        self.altair.save(str(path), format=_SAVED_AS[ending], scale_factor=2 if ending == ".png" else 1)

    def __repr__(self) -> str:
        if not self.points:
            return "\n".join([self.title, " · ".join(("no rows", *self.notes))])
        return "\n".join([self.title, *self._text_lines(), " · ".join((self.range_text(), *self.notes))])

    def _text_lines(self) -> list[str]:
        """Return the heights as blocks, a line for each series or named bar; of a scatter, where its points are."""
        if self._has_named_bars:
            return _named_bars(sorted(self.points, key=lambda point: point.x))
        if self.kind == "scatter":
            ends = sorted(self.points, key=lambda point: point.x)
            return [f"{self.x} from {ends[0].label.split(_TO)[0]} to {ends[-1].label.split(_TO)[-1]}"]
        series: dict[tuple[object, ...], list[Point]] = {}
        for point in self.points:
            series.setdefault((point.facet, point.series), []).append(point)
        heights = [self._height(point.y) for point in self.points]
        low, high = span(heights, with_zero=not self.columns.is_log("y"))
        lines = []
        for names, points in series.items():
            name = " ".join(str(name) for name in names if name is not None)
            lines.append(f"{_blocks([self._height(p.y) for p in points], low, high)} {name}".rstrip())
        more = [f"… and {len(lines) - _MOST_TEXT_LINES} more"] if len(lines) > _MOST_TEXT_LINES else []
        ends = sorted(self.points, key=lambda point: point.x)
        return [*lines[:_MOST_TEXT_LINES], *more, f"{ends[0].label} … {ends[-1].label}"]

    @property
    def _has_named_bars(self) -> bool:
        is_single = self.columns.color is None and self.columns.facet is None and not self.columns.is_log("y")
        names_fit = len(self.points) <= _MOST_NAMED_BARS and max(len(p.label) for p in self.points) <= _LONGEST_NAME
        return self.kind == "bar" and is_single and names_fit

    def _height(self, y: float) -> float:
        return math.log10(y) if self.columns.is_log("y") and y > 0 else y

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: ARG002
        """Return the chart for notebooks: as Vega-Lite, as a picture of that, and as text.

        There is no HTML among them: JupyterLab would prefer it to Vega-Lite.
        """
        bundle: dict[str, Any] = {"text/plain": repr(self)}
        if not self.points:
            return bundle, {}
        specification = specification_of(self) if self.styled is None else self.styled.to_dict()
        bundle[VEGA_LITE] = at_full_width(specification) if self.is_wide else specification
        picture = picture_of(specification)
        if picture is None:
            return bundle, {}
        bundle["image/png"] = base64.b64encode(picture.png).decode()
        return bundle, {"image/png": {"width": picture.width, "height": picture.height}}

    def range_text(self) -> str:
        """Return ``flights from 25 to 29``."""
        low = min(point.y if point.least is None else point.least for point in self.points)
        high = max(point.y if point.greatest is None else point.greatest for point in self.points)
        return f"{self.y} from {cell_text(low)} to {cell_text(high)}"


def _named_bars(points: Sequence[Point]) -> list[str]:
    """Return a line for each point: its name, a bar as long as it is high, to the left below zero, and its height."""
    low, high = span([point.y for point in points])
    names, heights = max(len(point.label) for point in points), [cell_text(point.y) for point in points]
    zero = _BAR_BLOCKS * _share(0, low, high)
    below = [_bar(zero - _BAR_BLOCKS * _share(min(point.y, 0), low, high), _BELOW)[::-1] for point in points]
    above = [_bar(_BAR_BLOCKS * _share(max(point.y, 0), low, high) - zero, _LENGTHS) for point in points]
    left, right, digits = (max(map(len, each)) for each in (below, above, heights))
    axis = "│" if low < 0 else ""
    return [
        f"{point.label:<{names}}  {to_left:>{left}}{axis}{to_right:<{right}}  {height:>{digits}}"
        for point, to_left, to_right, height in zip(points, below, above, heights, strict=True)
    ]


def _bar(length: float, steps: str) -> str:
    """Return a bar so many characters long; the last of them is one of the steps to a whole."""
    whole, part = divmod(round(len(steps) * length), len(steps))
    return steps[-1] * whole + (steps[part - 1] if part else "")


def _blocks(heights: Sequence[float], low: float, high: float) -> str:
    step = max(1, -(-len(heights) // _MOST_BLOCKS))
    highest = [max(heights[i : i + step]) for i in range(0, len(heights), step)]
    return "".join(_BLOCKS[round((len(_BLOCKS) - 1) * _share(y, low, high))] for y in highest)


def _share(value: float, low: float, high: float) -> float:
    """Return how high a value is, from 0 to 1; by halves, as the whole way can be more than a number can be."""
    return (value / 2 - low / 2) / (high / 2 - low / 2)
