"""What a text means as a value of a type: one grammar for CSV, JSON, and columns of texts. Pure.

Numbers are decimal, and keep every digit that is written: ``9007199254740993`` is no double, nor is ``1e400``. Spaces
around a value count nothing. A moment without a zone is UTC.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_ZONED = r"[Tt ]\d\d.*([Zz]|[+-]\d\d(:?\d\d)?)$"
_FAR = r"^(-\d{4,}|\d{5,})-\d\d-\d\d"
_ANY_YEAR = re.compile(r"(?P<year>-\d{4,7}|\d{5,7})(?P<rest>-\d\d-\d\d.*)", re.ASCII)
_MICROSECONDS_IN_400_YEARS = 146_097 * 86_400_000_000
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_NAMED = re.compile(r"nan|[+-]?inf(inity)?", re.IGNORECASE)
_SURE_DIGITS = {pa.float64(): 15, pa.float32(): 6}
_SMALL = {pa.float64(): 1e-290, pa.float32(): 1e-30}


def to_int(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Return whole numbers; a fraction of zeros counts nothing.

    Raises
    ------
    ArrowInvalid
        As all functions here do for a text that means no such value.
    """
    texts = pc.utf8_trim_whitespace(texts)
    if not _any(pc.match_substring_regex(texts, "[^-0-9]")):  # Arrow also reads 0x10
        return texts.cast(target)
    return pa.array([None if text is None else _whole(text) for text in texts.to_pylist()], target)


def _whole(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise pa.ArrowInvalid(f"{text!r} is no number")
    number = Decimal(text)
    if number.adjusted() > 20 or number != number.to_integral_value():
        raise pa.ArrowInvalid(f"{text!r} is no whole number")
    return int(number)


def to_float(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Return the nearest floats, when they have all digits that are written."""
    texts = pc.utf8_trim_whitespace(texts)
    numbers = texts.cast(target)
    long = pc.greater(pc.utf8_length(texts), _SURE_DIGITS[target])
    if _any(long):
        long = pc.and_(long, pc.not_equal(numbers.cast(pa.string()), texts))
    small = pc.and_(pc.less(pc.abs(numbers), _SMALL[target]), pc.match_substring(texts, "e", ignore_case=True))
    doubtful = pc.or_(pc.or_(long, small), pc.invert(pc.is_finite(numbers)))
    for text, number in zip(texts.filter(doubtful).to_pylist(), numbers.filter(doubtful).to_pylist(), strict=True):
        if not _keeps_digits(text, number):
            raise pa.ArrowInvalid(f"{text!r} has more digits than the type")
    return numbers


def _keeps_digits(text: str, number: float) -> bool:
    if _NAMED.fullmatch(text):
        return True
    if not _NUMBER.fullmatch(text):
        return False
    written = Decimal(text)
    digits = len("".join(map(str, written.as_tuple().digits)).strip("0")) or 1
    return Decimal(f"{number:.{digits - 1}e}") == written


def to_decimal(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Return decimals; zeros behind the last digit count nothing."""
    texts = pc.utf8_trim_whitespace(texts)
    if _any(pc.match_substring_regex(texts, "[^-0-9.]")) or _any(pc.greater(pc.utf8_length(texts), 38)):
        return pa.array([None if text is None else _decimal(text) for text in texts.to_pylist()], target)
    return texts.cast(target)


def _decimal(text: str) -> Decimal:
    number = Decimal(text) if _NUMBER.fullmatch(text) else None
    if number is None or abs(number.adjusted()) > 76:
        if number == 0:
            return Decimal(0)
        raise pa.ArrowInvalid(f"{text!r} is no decimal")
    return _stripped(number)


def _stripped(number: Decimal) -> Decimal:
    """Return a number without zeros behind its last digit, whatever the context's precision."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)  # noqa: S101 - it is finite
    text = "".join(map(str, digits))
    kept = text.rstrip("0") or "0"
    return Decimal(f"{'-' if sign else ''}{kept}E{exponent + len(text) - len(kept)}")


def to_boolean(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Return truth of ``true``, ``false``, ``1`` and ``0``, in any case."""
    return pc.utf8_lower(pc.utf8_trim_whitespace(texts)).cast(target)


def to_date(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Return days of ``2026-11-21``, or of the first moment of a day; years can have more digits, and a sign."""
    texts = pc.utf8_trim_whitespace(texts)
    if not _any(pc.match_substring_regex(texts, "[^-0-9]|^-|^[0-9]{5}")):
        return texts.cast(target)
    if _any(pc.match_substring_regex(texts, _FAR)):
        return pa.array([None if text is None else _day(text) for text in texts.to_pylist()], pa.int32()).cast(target)
    moments = to_timestamp(texts, pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    days = moments.cast(target)
    if _any(pc.not_equal(days.cast(pa.timestamp("us")), moments)):
        raise pa.ArrowInvalid("a day has no time")
    return days


def _day(text: str) -> int:
    """Return the days since 1970 of any year."""
    found = _ANY_YEAR.fullmatch(text)
    year = int(found["year"]) if found else 0
    near = 2000 + year % 400  # after 400 years the calendar repeats
    days = to_date(pa.array([f"{near}{found['rest']}" if found else text]), pa.date32())
    return int(days.cast(pa.int32())[0].as_py()) + ((year - near) // 400 * 146_097 if found else 0)


def to_timestamp(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Return moments of ISO 8601, with a space or a ``T``, in UTC where they name no zone."""
    texts = pc.utf8_trim_whitespace(texts)
    texts = pc.replace_substring_regex(texts, r"(\.\d{6})0+", r"\1")  # nine digits of a second, the last three zero
    if _any(pc.match_substring_regex(texts, _FAR)):
        return pa.array([None if text is None else _moment(text, target) for text in texts.to_pylist()]).cast(target)
    zoned = pc.match_substring_regex(texts, _ZONED)
    none = pa.scalar(None, pa.string())
    with_zone = pc.if_else(zoned, texts, none).cast(target)
    without = pc.if_else(zoned, none, texts).cast(pa.timestamp("us")).cast(pa.int64()).cast(target)
    return pc.coalesce(with_zone, without)


def _moment(text: str, target: pa.DataType) -> int:
    """Return the microseconds since 1970 of a moment whose year may be one that Arrow does not read."""
    found = _ANY_YEAR.fullmatch(text)
    if found is None:
        moment = to_timestamp(pa.array([text]), target)
        return int(moment.cast(pa.int64())[0].as_py())
    year = int(found["year"])
    near = 2000 + year % 400  # after 400 years the calendar repeats
    moved = to_timestamp(pa.array([f"{near}{found['rest']}"]), target)
    return int(moved.cast(pa.int64())[0].as_py()) + (year - near) // 400 * _MICROSECONDS_IN_400_YEARS


def from_base64(text: str) -> bytes:
    """Return the bytes of base64, and of nothing else."""
    return base64.b64decode(text, validate=True)


def as_written(text: str) -> str | bytes:
    """Return the bytes that a text had in its file, where they are not UTF-8; else the text."""
    if not any("\udc80" <= each <= "\udcff" for each in text):
        return text
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text


def _any(found: Any) -> bool:
    return bool(pc.any(found, skip_nulls=True).as_py())


PARSERS: Mapping[str, Callable[[pa.Array, pa.DataType], pa.Array]] = {
    "int": to_int, "long": to_int, "float": to_float, "double": to_float, "decimal": to_decimal, "boolean": to_boolean,
    "date": to_date, "timestamp": to_timestamp,
}  # fmt: skip
"""By field type."""
