"""Progress as one line of text that is overwritten in place, and at the end cleared or replaced by one line."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from sleeper_nb.errors import visible, visible_line

WIDTH = 79


class LineProgress:
    """A progress callback that writes to a stream.

    Parameters
    ----------
    stream
        Returns the stream; called each time, as notebooks and tests replace their streams.
    enabled
        Returns whether the stream shows a line that is overwritten.
    lasting
        Returns whether to write the final lines; by default as `enabled`.
    """

    def __init__(
        self,
        stream: Callable[[], TextIO | None],
        enabled: Callable[[], bool],
        lasting: Callable[[], bool] | None = None,
    ) -> None:
        self._stream, self._enabled, self._lasting, self._shown = stream, enabled, lasting or enabled, ""

    def update(self, text: str, done: int = 0, total: int = 0) -> None:
        """Replace the line, if its text changed."""
        line = visible_line(f"{text} {done}/{total}" if total else text)[:WIDTH]
        if line != self._shown and self._enabled():
            self._write("\r" + line.ljust(len(self._shown)))
            self._shown = line

    def finish(self, text: str = "") -> None:
        """Clear the line, and write `text` instead if there is one."""
        gone = f"\r{' ' * len(self._shown)}\r" if self._shown else ""
        self._shown = ""
        left = f"{visible(text)}\n" if text and self._lasting() else ""
        if gone or left:
            self._write(gone + left)

    def _write(self, text: str) -> None:
        stream = self._stream()
        if stream is None:
            return
        with suppress(OSError):  # a terminal that was closed, or a full disk, stops no work
            stream.write(text)
            stream.flush()
