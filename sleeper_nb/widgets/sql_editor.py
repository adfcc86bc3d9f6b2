"""The field for SQL as a widget: it sends words and earlier queries to the page, and takes what the user types there.

``static/sql_editor.js`` draws. Text and the wish to run it come in one message, so that what runs is what is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anywidget
import traitlets

from sleeper_nb.errors import InvalidInput
from sleeper_nb.sql_text import KEYWORDS

_STATIC: Final = Path(__file__).parent / "static"
Words = tuple[str, tuple[str, ...]]


class SqlEditor(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget is built on ipywidgets, which ships no types
    """A field for a query: coloured, with completion and earlier queries; Ctrl+Enter runs it.

    Parameters
    ----------
    attempt
        Runs an action and shows its error.
    typed, run
        Called with the text: after a pause in typing, and when it is to run.
    words
        Returns the end of a text that is replaced, and the words that may replace it; it gets the text up to the
        cursor, and the whole text.

    Attributes
    ----------
    shown
        The text, how often one ran, and earlier queries.
    offered
        The words for the last request of the page.
    keywords
        The words that are coloured as SQL's.
    """

    _esm = _STATIC / "sql_editor.js"
    _css = _STATIC / "sql_editor.css"
    shown = traitlets.Dict({"serial": 0, "text": "", "ran": 0, "history": []}).tag(sync=True)
    offered = traitlets.Dict().tag(sync=True)
    keywords = traitlets.List(list(KEYWORDS)).tag(sync=True)

    def __init__(
        self,
        attempt: Callable[[Callable[[], None]], None],
        typed: Callable[[str], None],
        run: Callable[[str], None],
        words: Callable[[str, str], Words],
    ) -> None:
        super().__init__()
        self._typed, self._run, self._words = typed, run, words
        self._text, self._serial, self._ran = "", 0, 0
        self.on_msg(lambda _, message, __: attempt(lambda: self.take(message)))

    def __repr__(self) -> str:
        return f"SqlEditor({self._text!r})"

    def show(self, text: str, earlier: Sequence[str]) -> None:
        """Show a text, unless the page has it, and earlier queries."""
        if text != self._text:
            self._text = text
            self._serial += 1
        self.shown = {"serial": self._serial, "text": self._text, "ran": self._ran, "history": list(earlier)}

    def take(self, message: Mapping[str, Any]) -> None:
        """Do what a message from the page says."""
        match message:
            case {"do": "type", "text": str(text)}:
                self._text = text
                self._typed(text)
            case {"do": "run", "text": str(text)}:
                self._text = text
                self._ran += 1
                try:
                    self._run(text)
                finally:
                    self.shown = {**self.shown, "ran": self._ran}
            case {"do": "complete", "before": str(before), "text": str(text), "ask": int(ask)}:
                self.offered = {"ask": ask, "fragment": "", "words": []} | self._found(before, text)
            case _:
                raise InvalidInput(f"the field for SQL cannot do {message.get('do')!r}", hint="reload the page")

    def _found(self, before: str, text: str) -> dict[str, Any]:
        try:
            fragment, words = self._words(before, text)
        except Exception:  # noqa: BLE001 - a letter that offers nothing is better than one that fails
            return {}
        return {"fragment": fragment, "words": list(words)}
