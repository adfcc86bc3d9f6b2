"""Rows as the text of a CSV file that an ingest reads as exactly the same values, or a refusal.

Texts, bytes, lists and maps are always in quotes, and NULL never is. Bytes are base64; lists are JSON, and maps are
lists of pairs; numbers have every digit, moments are in UTC.
"""

from __future__ import annotations

import base64
import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.column_values import values_of
from sleeper_nb.errors import InvalidInput
from sleeper_nb.operations.loading.source_files import CsvFormat

_WRITTEN_DAYS = (-12_687_428, 11_248_737)
"""The years -32767 to 32767: of others Arrow writes none, or a wrong one."""
_DAYS_OF_JSON = (-719_162, 2_932_896)
"""The years 1 to 9999, which dates of Python have."""
_MICROSECONDS = 86_400_000_000


class CsvWriter:
    """Writes batches of rows as CSV, with one header."""

    def __init__(self, stream: Any, schema: pa.Schema, form: CsvFormat) -> None:
        self._stream, self._form = stream, form
        if form.header:
            names = (_quoted(pa.array([name]))[0].as_py() for name in schema.names)
            stream.write(f"{form.separator.join(names)}\n".encode())

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write rows.

        Raises
        ------
        InvalidInput
            For a value that would be read as NULL; for a date or moment outside the years -32767 to 32767, or 1 to
            9999 within a list or map.
        """
        if not batch.num_rows:
            return
        columns = [
            pc.fill_null(_text_of(column, name, self._form), self._form.null)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        separator = pa.scalar(self._form.separator, pa.large_string())
        lines = pc.binary_join_element_wise(*(c.cast(pa.large_string()) for c in columns), separator)
        self._stream.write("\n".join(lines.to_pylist()).encode() + b"\n")

    def close(self) -> None:
        """Do nothing: the stream is closed by its owner."""


def _text_of(column: pa.Array, name: str, form: CsvFormat) -> pa.Array:
    kind = column.type
    if pa.types.is_string(kind):
        return _quoted(column)
    if pa.types.is_binary(kind):
        return _quoted(
            pa.array([None if value is None else _base64(value) for value in column.to_pylist()], pa.string())
        )
    if pa.types.is_nested(kind):
        _check_years_within(column, name)
        texts = pa.array([None if value is None else _json(value) for value in values_of(column)], pa.string())
    else:
        _check_years(column, name, _WRITTEN_DAYS)
        texts = column.cast(pa.string())
    if pc.index(texts, form.null).as_py() >= 0:
        hint = "give another null text"
        raise InvalidInput(f"column {name!r} has the value {form.null}, which is also the text for NULL", hint=hint)
    if pa.types.is_nested(kind):
        return _quoted(texts)
    return pc.if_else(pc.match_substring(texts, form.separator), _quoted(texts), texts)


def _quoted(texts: pa.Array) -> pa.Array:
    quote = pa.scalar('"')
    doubled = pc.replace_substring(texts.cast(pa.string()), '"', '""')
    return pc.binary_join_element_wise(quote, doubled, quote, "")


def _check_years(column: pa.Array, name: str, days: tuple[int, int]) -> None:
    """Raise for a date or moment that is outside of some days since 1970."""
    low, high = days
    if pa.types.is_date(column.type):
        numbers = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        low, high, numbers = low * _MICROSECONDS, (high + 1) * _MICROSECONDS - 1, column.cast(pa.int64())
    else:
        return
    outside = pc.index(pc.or_(pc.less(numbers, low), pc.greater(numbers, high)), True).as_py()
    if outside >= 0:
        value = values_of(column.slice(outside, 1))[0]
        raise InvalidInput(f"column {name!r} has {value}, a date that CSV cannot hold", hint="export to .parquet")


def _check_years_within(column: pa.Array, name: str) -> None:
    kind = column.type
    if pa.types.is_map(kind):
        pairs = column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))).flatten()
        for part in pairs.flatten():
            _check_years_within(part, name)
    elif pa.types.is_nested(kind):
        _check_years_within(column.flatten(), name)
    else:
        _check_years(column, name, _DAYS_OF_JSON)


def _json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; what JSON has no value for is a text."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return _base64(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | Decimal) or (isinstance(value, float) and not -_HUGE < value < _HUGE):
        return str(value)
    return value


_HUGE = float("inf")


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
