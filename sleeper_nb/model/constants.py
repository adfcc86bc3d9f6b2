"""Constants of a column's type, such as its default: from Python or from text, without loss. Pure."""

from __future__ import annotations

import math
import re
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

import pyarrow as pa

from sleeper_nb.errors import InvalidInput

_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_TIME = re.compile(r"\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?")
_UUID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ZONE = re.compile(r"(?:Z|[-+]\d{2}(?::?\d{2})?)$")


def constant(value: Any, kind: pa.DataType, type_name: str) -> Any:
    """Return a constant, or its text such as ``"0.5"``, ``"2026-01-31"`` or hexadecimal bytes, as a column has it.

    `InvalidInput` when the type has no constants, such as a list, or cannot hold the value exactly.
    """
    if pa.types.is_nested(kind):
        raise InvalidInput(f"a {type_name} column cannot have a default", hint="load the values with the rows")
    try:
        if pa.types.is_binary(kind):
            return _bytes(value)
        if type_name == "uuid":
            return _uuid(value)
        if pa.types.is_string(kind):
            return _utf8(value)
        if pa.types.is_time(kind):
            return _time(value)
        text = _text(value, kind)
        made = pa.scalar(text).cast(kind)
        if pa.types.is_floating(kind):
            _check_digits(text, made)
        return made.as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError, InvalidOperation) as error:
        raise InvalidInput(
            f"no {type_name} is exactly {_shown(value)}", hint=f"write a constant of type {type_name}"
        ) from error


def constant_text(value: Any, kind: pa.DataType) -> str:
    """Return a constant as text, from which `constant` makes the same value."""
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, str) else str(pa.scalar(value, kind).cast(pa.string()).as_py())


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _utf8(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    value.encode()  # a surrogate is no text
    return value


def _uuid(value: Any) -> str:
    """Return the text of a UUID as loads store it."""
    text = str(value).lower() if isinstance(value, str | UUID) else ""
    if not _UUID.fullmatch(text):
        raise ValueError("not a UUID")
    return str(UUID(text))


def _time(value: Any) -> time:
    text = value.isoformat() if isinstance(value, time) else value
    if not isinstance(text, str) or not _TIME.fullmatch(text.strip()):
        raise ValueError("not a time of day")
    return time.fromisoformat(text.strip())


def _bytes(value: Any) -> bytes:
    if isinstance(value, str) and _HEX.fullmatch(value):
        return bytes.fromhex(value)
    if isinstance(value, bytes):
        return value
    raise TypeError("not bytes")


def _text(value: Any, kind: pa.DataType) -> str:
    """Return the text of a value, which Arrow casts; raise for a value of another kind than the type's."""
    types = pa.types
    allowed: tuple[type, ...] = (str,)
    if types.is_boolean(kind):
        allowed = (str, bool)
    elif types.is_integer(kind):
        allowed = (str, int)
    elif types.is_floating(kind) or types.is_decimal(kind):
        allowed = (str, int, float, Decimal)
    elif types.is_date(kind):
        allowed = (str, date)
    elif types.is_timestamp(kind):
        allowed = (str, datetime)
    is_other = isinstance(value, bool) and not types.is_boolean(kind)
    if is_other or not isinstance(value, allowed) or (types.is_date(kind) and isinstance(value, datetime)):
        raise TypeError("a value of another type")
    if isinstance(value, date):
        value = value.isoformat()
    text = str(value).strip()
    if (types.is_integer(kind) or types.is_decimal(kind)) and not _NUMBER.fullmatch(text):
        raise ValueError("not a number")
    if types.is_timestamp(kind):
        text = text.removesuffix("UTC").strip()
    if types.is_timestamp(kind) and not _ZONE.search(text[10:]):
        return f"{text if len(text) > 10 else f'{text} 00:00:00'}Z"  # without a zone it is UTC
    return text.lower() if types.is_boolean(kind) else text.removeprefix("+")


def _check_digits(text: str, made: pa.Scalar[Any]) -> None:
    """Raise when a floating-point column does not hold the digits that are written."""
    number = made.as_py()
    if math.isnan(number):
        raise ValueError("NULL, not NaN, is no value")
    if math.isinf(number):
        if "inf" not in text.lower():
            raise OverflowError(text)
    elif pa.types.is_float32(made.type) and float(text) == number:
        return  # all that a double has of it: the value of a default that was made before
    elif Decimal(made.cast(pa.string()).as_py()) != Decimal(text):
        raise ValueError("digits would be lost")
