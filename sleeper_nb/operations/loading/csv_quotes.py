"""Quotes of a CSV file: a quoted value ends at its closing quote, which a delimiter or the end of the line follows.

Arrow reads ``"a" b`` as ``a b``. So the quotes of a file are looked at while Arrow reads it, a block at a time. Where
all of them open or close a value, or are doubled within one, the file is well-formed. Where one does not, as in
``5" disk``, the caller lets Python's parser decide.
"""

from __future__ import annotations

import numpy as np

_QUOTE = ord('"')


class Quotes:
    """The quotes of a file, seen block by block.

    Parameters
    ----------
    delimiter
        What separates values.

    Attributes
    ----------
    regular
        Whether every quote that was seen opens or closes a value, or is doubled.
    """

    def __init__(self, delimiter: str) -> None:
        separator = delimiter.encode()
        self._opens, self._closes = _table(separator[-1]), _table(separator[0])
        self._seen, self._before, self._last = 0, b"\n", b""
        self.regular = True

    def see(self, block: bytes) -> None:
        """Look at the next block."""
        if not self.regular or not block:
            return
        text = self._before + self._last + block  # the last byte of a block is judged when the next one is known
        codes = np.frombuffer(text, np.uint8)
        places = np.flatnonzero(codes[1:-1] == _QUOTE) + 1
        opening, closing = places[self._seen % 2 :: 2], places[1 - self._seen % 2 :: 2]
        self.regular = bool(self._opens[codes[opening - 1]].all() and self._closes[codes[closing + 1]].all())
        self._seen += len(places)
        self._before, self._last = text[-2:-1], text[-1:]

    def end(self) -> None:
        """Look at the end of the file."""
        self.see(b"\n")


def _table(separator: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return by byte whether it may stand outside of a quote that opens or closes a value."""
    table = np.zeros(256, np.bool_)
    table[[separator, _QUOTE, ord("\n"), ord("\r")]] = True
    return table
