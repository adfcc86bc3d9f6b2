"""The base of the widgets that the front end draws: it asks, the kernel answers; a picture stays in the saved file.

`sleeper_nb.widgets.request_lanes` has what is done with a request, ``frontend/src/protocol.ts`` what there is to ask.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anywidget
import traitlets
from IPython.display import display

from sleeper_nb.progress import Watch
from sleeper_nb.widgets.request_lanes import Answer, Background, Message, Method, RequestLanes, run_in_thread
from sleeper_nb.widgets.static_picture import StaticPicture, static_bundle

if TYPE_CHECKING:
    from sleeper_nb.widgets.explorer_answers import Notebook

_STATIC: Final = Path(__file__).parent / "static"
_SCRIPT, _STYLE = _STATIC / "explorer.js", _STATIC / "explorer.css"


class AskedWidget(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget is built on ipywidgets, which ships no types
    """A widget whose page asks for what it shows: `methods` answer its requests, by their ``do``."""

    _esm = _STATIC / "loader.js"
    build = traitlets.Unicode().tag(sync=True)  # names the front end's files: the widgets of a page load them once
    start = traitlets.Dict().tag(sync=True)  # what the page draws first, as `start_of` makes it
    # What is selected, in step with the page; ``frontend/src/protocol.ts`` says what it has.
    selection = traitlets.Dict().tag(sync=True)
    _requests: RequestLanes | None = None  # ipywidgets closes a widget that could not be made, too

    def __init__(
        self,
        methods: Mapping[str, Method],
        start: Mapping[str, Any],
        selection: Mapping[str, Any],
        background: Background = run_in_thread,
    ) -> None:
        super().__init__(build=_build(), start=dict(start), selection=dict(selection))
        self.methods = {"source": _source, **methods}
        self._requests = lanes = RequestLanes(self.methods, self.send, background)
        self.on_msg(lambda _, message, __: lanes.take(message))

    def close(self) -> None:
        """Remove the widget from the page, and stop what it reads."""
        if self._requests is not None:
            self._requests.close()
        super().close()

    def picture(self) -> StaticPicture:
        """Return what stays in a saved notebook."""
        raise NotImplementedError  # pragma: no cover - each widget has its own

    def _ipython_display_(self) -> None:
        """Display the static picture as an output of its own, then the live widget.

        A notebook that is opened again cannot show the widget, and the front-end puts an error in its place.
        """
        display(static_bundle(self.picture()), raw=True)
        bundle = self._repr_mimebundle_()
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        display({**data, "text/plain": repr(self)}, raw=True)


def _build() -> str:
    stats = (each.stat() for each in (_SCRIPT, _STYLE))
    return " ".join(f"{each.st_size}-{each.st_mtime_ns}" for each in stats)


def _source(asked: Message, watch: Watch) -> Answer:  # noqa: ARG001 - as all methods
    """Return the front end: notebooks save what a widget's ``_esm`` has, which would be 900 KB for each."""
    return {"script": _SCRIPT.read_text("utf-8"), "style": _STYLE.read_text("utf-8")}


def start_of(mode: str, answers: Mapping[str, Any], notebook: Notebook, keywords: Sequence[str] = ()) -> dict[str, Any]:
    """Return what the page needs to draw for the first time, without a request.

    The mode is ``"explorer"``, ``"one table"``, or ``"answer"``: the grid and chart of one SQL answer only. Answers of
    the first requests are by `request_key`, and the keywords are those of SQL.
    """
    return {
        "mode": mode,
        "answers": dict(answers),
        "canWrite": notebook.write is not None,
        "canKeep": notebook.variables is not None,
        "keywords": list(keywords),
    }


def request_key(what: str, asked: Mapping[str, Any]) -> str:
    """Return the text that names a request, as `requestKey` in ``frontend/src/kernel.ts`` makes it."""
    return f"{what} {json.dumps(asked, ensure_ascii=False, sort_keys=True, separators=(',', ':'))}"
