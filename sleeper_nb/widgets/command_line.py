"""A command with a button that copies it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import anywidget
import traitlets

_STATIC: Final = Path(__file__).parent / "static"


class CommandLine(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget is built on ipywidgets, which ships no types
    """A command as text that one click selects, and a Copy button.

    Attributes
    ----------
    word
        What stands before it.
    line
        The command; nothing is drawn while it is empty.
    """

    _esm = _STATIC / "command_line.js"
    _css = _STATIC / "command_line.css"
    word = traitlets.Unicode("same as").tag(sync=True)
    line = traitlets.Unicode().tag(sync=True)

    def __init__(self, word: str = "same as", line: str = "") -> None:
        super().__init__(word=word, line=line)

    def __repr__(self) -> str:
        return f"CommandLine({self.line!r})"
