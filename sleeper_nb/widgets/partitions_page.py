"""The explorer's tab for partitions: their picture, in which a range can be chosen, and below it the range's rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets

from sleeper_nb.render import LEAF
from sleeper_nb.widgets.live import along, same_as, steps
from sleeper_nb.widgets.model import Preview, Ranges

_NONE = ("none: choose one to see its rows", "")


class PartitionsPage(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets ships no types
    """The picture of the partitions, with a list of their ranges; a click into the picture chooses one too.

    Parameters
    ----------
    chosen
        Is told of each choice: of the id of a leaf, empty for none.
    """

    def __init__(self, chosen: Callable[[Any], None]) -> None:
        self._line, self._picture, self._more, self._rows, self._listing = (ipywidgets.HTML() for _ in range(5))
        # The keyboard uses the list and its buttons: nobody wants to go through all leaves by tab.
        self._boxes = ipywidgets.HBox()
        self._list = ipywidgets.Select(description="Range of keys", options=[_NONE])
        map_ = ipywidgets.VBox([self._picture, self._boxes])
        super().__init__(
            [self._line, map_, self._list, steps("range", along(self._list)), self._more, self._rows, self._listing]
        )
        for widget, name in ((map_, "map"), (self._boxes, "leaves"), (self._list, "range"), (self._rows, "found")):
            widget.add_class(f"sleeper-{name}")
        self._list.observe(chosen, "value")

    def show(self, shown: Preview, ranges: Ranges | None, chosen: str, rows: Preview | None) -> None:
        """Show partitions, and of the chosen one the rows; nothing at all when there are no ranges."""
        self._line.value, self._listing.value = (same_as(shown.line) if shown.line else ""), shown.listing
        self._picture.value = shown.picture
        line = same_as(rows.line) if rows is not None and rows.line else ""
        self._rows.value = "" if rows is None else f'{line}<div role="status">{rows.html}</div>'
        named = {} if ranges is None else ranges.named
        options = (_NONE, *((words, name) for name, words in named.items()))
        if self._list.options != options:
            self._list.options, self._list.rows = options, min(len(options), 7)
            self._boxes.children = () if ranges is None else self._made(ranges)
        self._list.value = chosen if chosen in named else ""
        cut = ranges is not None and ranges.leaves > len(named)
        self._more.value = f"first {len(named):,} of {ranges.leaves:,} ranges" if ranges is not None and cut else ""

    def _made(self, ranges: Ranges) -> tuple[ipywidgets.Button, ...]:
        """Return a button over each leaf of the picture."""
        self._boxes.layout = {"top": f"{ranges.top}px", "height": f"{LEAF}px"}
        boxes = []
        for name in ranges.drawn:
            box = ipywidgets.Button(tooltip=f"rows of {ranges.named[name]}", tabbable=False)
            box.on_click(lambda _, name=name: setattr(self._list, "value", name))
            boxes.append(box)
        return tuple(boxes)
