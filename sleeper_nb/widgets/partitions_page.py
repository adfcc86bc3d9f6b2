"""The explorer's tab for partitions: their picture, in which a range can be chosen, and below it the range's rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import ipywidgets

from sleeper_nb.render import LEAF
from sleeper_nb.widgets.filtered_list import FilteredList
from sleeper_nb.widgets.live import same_as
from sleeper_nb.widgets.model import Preview, Ranges

_NONE = ("none: choose one to see its rows", "")


class PartitionsPage(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets ships no types
    """The picture of the partitions, with a list of their ranges; a click into the picture chooses one too.

    Parameters
    ----------
    chosen
        Is told of each choice: of the id of a leaf, empty for none.
    quietly
        Within it a choice is told to nobody.
    """

    def __init__(self, chosen: Callable[[Any], None], quietly: Callable[[], AbstractContextManager[None]]) -> None:
        self._line, self._picture, self._rows, self._listing = (ipywidgets.HTML() for _ in range(4))
        # The keyboard uses the list and its buttons: nobody wants to go through all leaves by tab.
        self._boxes = ipywidgets.HBox()
        self._ranges = FilteredList("Range of keys", "range", chosen, quietly, 7, (_NONE,))
        self._list = self._ranges.list
        map_ = ipywidgets.VBox([self._picture, self._boxes])
        super().__init__([self._line, map_, self._ranges, self._rows, self._listing])
        for widget, name in ((map_, "map"), (self._boxes, "leaves"), (self._rows, "found")):
            widget.add_class(f"sleeper-{name}")
        self._shown: Ranges | None = None

    def show(self, shown: Preview, ranges: Ranges | None, chosen: str, rows: Preview | None) -> None:
        """Show partitions, and of the chosen one the rows; nothing at all when there are no ranges."""
        self._line.value, self._listing.value = (same_as(shown.line) if shown.line else ""), shown.listing
        self._picture.value = shown.picture
        line = same_as(rows.line) if rows is not None and rows.line else ""
        self._rows.value = "" if rows is None else f'{line}<div role="status">{rows.html}</div>'
        if self._shown != ranges:
            self._shown = ranges
            self._boxes.children = () if ranges is None else self._made(ranges)
        named = {} if ranges is None else ranges.named
        options = tuple((words, name) for name, words in named.items())
        self._ranges.show(options, chosen if chosen in named else "")

    def _made(self, ranges: Ranges) -> tuple[ipywidgets.Button, ...]:
        """Return a button over each box of the picture: of a group of leaves, it chooses the first."""
        self._boxes.layout = {"top": f"{ranges.top}px", "height": f"{LEAF}px"}
        boxes = []
        for name in ranges.drawn:
            box = ipywidgets.Button(tooltip=f"rows of {ranges.named[name]}", tabbable=False)
            box.on_click(lambda _, name=name: self._ranges.pick(name))
            boxes.append(box)
        return tuple(boxes)
