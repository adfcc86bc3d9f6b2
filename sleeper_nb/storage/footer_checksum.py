"""A checksum of a Parquet file's footer, kept in the footer itself.

The checksums of a file's pages do not cover its footer: a changed bit there can give a column another name or type, and
the pages are still right. The checksum of the whole file would take longer to compute than the rest of reading it.

The checksum is that of the footer with `BLANK` in its place. While the footer is written, a mark stands there, which
follows from the file's metadata, so that no name or text in the footer is like it.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from sleeper_nb.model.checksums import DIGITS, checksum_of

KEY: Final = b"sleeper_nb.footer"
BLANK: Final = b"-" * DIGITS
_TAIL: Final = 8
"""Bytes at the end of a Parquet file: the length of the footer, and a mark."""
_WRITTEN_TOGETHER: Final = 1 << 20
"""Bytes."""


def write_table(table: pa.Table, stream: pa.NativeFile, **options: Any) -> None:
    """Write a table as a Parquet file whose footer has its own checksum.

    Parameters
    ----------
    table
        The rows; the key `KEY` is added to its metadata.
    """
    stamps = dict(table.schema.metadata or {})
    mark = checksum_of(KEY, *chain.from_iterable(sorted(stamps.items()))).encode()
    stamped = table.replace_schema_metadata({**stamps, KEY: mark})
    sink = _Held(stream)
    # Parquet writes many parts of a few bytes: they are collected before they come to Python
    with (
        pa.BufferedOutputStream(pa.PythonFile(sink, "w"), _WRITTEN_TOGETHER) as collected,
        pq.ParquetWriter(collected, stamped.schema, **options) as writer,
    ):
        writer.write_table(stamped)
        collected.flush()
        sink.holds = True
    footer = sink.held.getvalue()
    stream.write(footer.replace(mark, checksum_of(footer.replace(mark, BLANK)).encode()))


def is_intact(file: pq.ParquetFile, read_end: Callable[[int], bytes]) -> bool:
    """Return whether the footer of a file is as it was written; True of one without a checksum.

    Parameters
    ----------
    read_end
        Returns so many bytes at the end of the file.
    """
    stamp = (file.metadata.metadata or {}).get(KEY)
    if stamp is None:
        return True
    footer = read_end(_TAIL + int.from_bytes(read_end(_TAIL)[:4], "little"))
    return bool(checksum_of(footer.replace(stamp, BLANK)).encode() == stamp)


class _Held:
    """A writable stream that passes everything to another stream, until it `holds` what comes."""

    closed = False

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream, self.held, self.holds = stream, io.BytesIO(), False

    def write(self, part: bytes) -> int:
        (self.held if self.holds else self._stream).write(part)
        return len(part)

    def flush(self) -> None:
        """Do nothing: the stream's owner flushes it."""

    def close(self) -> None:
        """Do nothing: the stream's owner closes it."""
