"""Progress as one line of text that is written over itself, and leaves nothing or one line behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

WIDTH = 79


class LineProgress:
    """A watcher that writes to a stream.

    Parameters
    ----------
    stream
        Returns where to write; asked each time, as notebooks and tests replace their streams.
    enabled
        Returns whether anybody sees a line move.
    lasting
        Returns whether to write the lines that stay; by default as `enabled`.
    """

    def __init__(
        self, stream: Callable[[], TextIO], enabled: Callable[[], bool], lasting: Callable[[], bool] | None = None
    ) -> None:
        self._stream, self._enabled, self._lasting, self._shown = stream, enabled, lasting or enabled, ""

    def update(self, text: str, done: int = 0, total: int = 0) -> None:
        """Replace the line, when it says something new."""
        line = (f"{text} {done}/{total}" if total else text)[:WIDTH]
        if line != self._shown and self._enabled():
            self._write("\r" + line.ljust(len(self._shown)))
            self._shown = line

    def finish(self, text: str = "") -> None:
        """Take the line away, and leave `text` when there is one."""
        gone = f"\r{' ' * len(self._shown)}\r" if self._shown else ""
        self._shown = ""
        left = f"{text}\n" if text and self._lasting() else ""
        if gone or left:
            self._write(gone + left)

    def _write(self, text: str) -> None:
        stream = self._stream()
        stream.write(text)
        stream.flush()
