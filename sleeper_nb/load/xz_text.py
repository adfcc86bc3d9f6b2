"""Read ``.xz`` files to their last byte: what follows the end of a stream must be another stream."""

from __future__ import annotations

import io
from lzma import LZMADecompressor, LZMAError
from typing import Any

_BLOCK_BYTES = 1 << 20
_PADDING = 4  # between and after streams, null bytes in groups of four


class XzText(io.RawIOBase):
    """The decompressed bytes of all streams of a file.

    Python's ``lzma`` ignores anything after a stream that does not begin another one, so that the rows of a damaged
    stream would be missing without an error.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream, self._rest = stream, b""
        self._decompressor: LZMADecompressor | None = LZMADecompressor()

    def readable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Close the file too."""
        self._stream.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes into a buffer, and return their number; 0 at the end.

        Raises
        ------
        EOFError
            When the file ends within a stream.
        LZMAError
            When a stream is damaged, or something else follows it.
        """
        while self._decompressor is not None or self._begins_another():
            text = self._decompressed(len(buffer))
            buffer[: len(text)] = text
            if text:
                return len(text)
        return 0

    def _decompressed(self, size: int) -> bytes:
        """Return at most `size` of the next bytes of the current stream; none at its end."""
        current = self._decompressor
        while current is not None:
            block = b""
            if current.needs_input:
                block, self._rest = self._rest or self._stream.read(_BLOCK_BYTES), b""
                if not block:
                    raise EOFError("the file ends before the end of its compressed data")
            text = current.decompress(block, size)
            if current.eof:
                self._decompressor, self._rest = None, current.unused_data
                return text
            if text:
                return text
        return b""

    def _begins_another(self) -> bool:
        """Return whether another stream follows the one that ended, and begin to read it; skips padding."""
        padding, block = 0, self._rest or self._stream.read(_BLOCK_BYTES)
        while block and not (rest := block.lstrip(b"\0")):
            padding, block = padding + len(block), self._stream.read(_BLOCK_BYTES)
        self._rest = rest if block else b""
        padding += len(block) - len(self._rest)
        if padding % _PADDING:
            raise LZMAError("something that is not compressed data follows its end")
        self._decompressor = LZMADecompressor() if self._rest else None
        return bool(self._rest)
