"""Choose how the columns of a data file are encoded, by the rows of its first row group.

A dictionary pays where few values repeat. One that is given up half-way costs its making, and readers its decoding,
for nothing. Whole numbers and times that differ little from one row to the next, such as most keys, counters and
times of events, are kept as their differences: less to compress, to write and to read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DIFFERENCES: Final = "DELTA_BINARY_PACKED"
_BLOCK: Final = 32
"""The rows whose differences Parquet keeps with the same number of bits."""


def encodings(rows: pa.Table, with_dictionary: Collection[str], page_bytes: int, page_version: int) -> dict[str, Any]:
    """Return the options of PyArrow's Parquet writer that choose encodings.

    Parameters
    ----------
    rows
        The first rows of the file.
    with_dictionary
        The columns that may have dictionaries.
    page_bytes
        The most bytes of a dictionary.
    page_version
        The version of the data pages. In those of version 1 numbers are not kept as differences, as readers of that
        version need not know them.
    """
    dictionaries: list[str] = []
    differences = []
    for field, values in zip(rows.schema, rows.columns, strict=True):
        entries, size = _dictionary(values) if field.name in with_dictionary else (len(values), page_bytes + 1)
        fits = size <= page_bytes
        repeats = fits and 2 * entries <= len(values)
        if page_version > 1 and not repeats and _differs_little(values):
            differences.append(field.name)
        elif fits:
            dictionaries += _columns_of(field.name, field.type)
    return {"use_dictionary": dictionaries, "column_encoding": dict.fromkeys(differences, DIFFERENCES) or None}


def _columns_of(path: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the paths of a field's columns in a Parquet file; a nested field has several."""
    if pa.types.is_list(kind):
        yield from _columns_of(f"{path}.list.element", kind.value_type)
    elif pa.types.is_map(kind):
        yield from _columns_of(f"{path}.key_value.key", kind.key_type)
        yield from _columns_of(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _columns_of(f"{path}.{field.name}", field.type)
    else:
        yield path


def _dictionary(values: pa.ChunkedArray) -> tuple[int, int]:
    """Return how many different values there are, and their bytes; 0 of nested ones, whose parts have dictionaries."""
    if pa.types.is_nested(values.type):
        return 0, 0
    different = pc.unique(values)
    return len(different), different.nbytes


def _differs_little(values: pa.ChunkedArray) -> bool:
    """Return whether the differences of whole numbers or times take less than half of the bits that these have."""
    kind = values.type
    is_long = pa.types.is_int64(kind) or pa.types.is_timestamp(kind) or pa.types.is_time64(kind)
    if not (is_long or pa.types.is_int32(kind) or pa.types.is_date32(kind)):
        return False
    width = 64 if is_long else 32
    plain = pa.int64() if is_long else pa.int32()
    numbers = values.combine_chunks().drop_null().view(plain).to_numpy().astype(np.int64, copy=False)
    differences = numbers[1:] - numbers[:-1]  # those that overflow are small again, as in the file
    blocks = differences[: len(differences) // _BLOCK * _BLOCK].reshape(-1, _BLOCK)
    if not len(blocks):
        return False
    spread = (blocks.max(axis=1) - blocks.min(axis=1)).view(np.uint64)
    return float(np.log2(spread.astype(np.float64) + 1).mean()) * 2 < width
