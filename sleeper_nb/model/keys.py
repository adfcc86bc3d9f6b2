"""Values of row keys: check them against their field, read them from text, write them as text; split points files.

A split points file is Sleeper's: one value of the first row key per line, in ascending order. Numbers are decimal,
strings are plain text or the base64 of their UTF-8, byte arrays are always base64. Sleeper has no dates and timestamps
as row keys; here they are ISO text, ``2013-01-31`` and ``2013-01-31T12:00:00Z``.
"""

from __future__ import annotations

import base64
import binascii
import csv
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.arguments import described
from sleeper_nb.errors import Action, InvalidInput, SleeperError
from sleeper_nb.model.schema import Field
from sleeper_nb.model.times import TIME_HINT, read_time

if TYPE_CHECKING:
    import pyarrow as pa

KeyValue = int | str | bytes | date | datetime
"""A value of a row key; a timestamp is a `datetime` in UTC.

Python orders all of them as Parquet and Arrow do: strings by their UTF-8, bytes unsigned.
"""

_LIMITS = {"int": 2**31, "long": 2**63}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TICK: Final = timedelta(microseconds=1)
_TIMES: Final = {
    "date": "write 2013-01-31",
    "timestamp": "write 2013-01-31T12:00:00Z; without a zone it is UTC",
}
"""The row keys that are times, and how to write them."""
_BELOW_MICROSECONDS: Final = re.compile(r"[.,]\d{6}\d*[1-9]")
OUT_OF_YEARS: Final = "a row key lies in the years 1 to 9999"
"""Python, text and both engines have the same dates only in these years."""


def arrow_value(value: KeyValue, kind: pa.DataType | None = None) -> pa.Scalar[Any]:
    """Return a value as Arrow holds it in a column of a type, by default of texts.

    `pyarrow.scalar` would import pandas first, which takes longer than a small query.
    """
    import pyarrow as pa

    kind = kind or pa.string()
    if isinstance(value, date):
        value = plain_time(value)
    if isinstance(value, int):
        buffers = [None, pa.py_buffer(struct.pack("=i" if kind.bit_width == 32 else "=q", value))]
    else:
        data = value.encode() if isinstance(value, str) else value
        buffers = [None, pa.py_buffer(struct.pack("=ii", 0, len(data))), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, 1, buffers)[0]


def plain_time(value: date) -> int:
    """Return a date as days, or an instant as microseconds, since 1970."""
    if isinstance(value, datetime):
        return (value - _EPOCH) // _TICK
    return (value - _EPOCH.date()).days


def first_and_last(kind: str) -> tuple[date, date] | None:
    """Return the least and the greatest value that a row key of a type can have; None where its type allows any."""
    if kind == "date":
        return date.min, date.max
    return (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)) if kind == "timestamp" else None


def check_key(field: Field, value: Any, *, what: str = "value") -> KeyValue:
    """Return `value` if row key `field` can hold it.

    A date or a timestamp may be ISO text; a timestamp may also be a date, whose midnight it is, and is UTC without a
    zone.

    `InvalidInput` when it has another type or is out of range; the message calls it `what`.
    """
    kind = field.type.name
    if kind in _LIMITS and isinstance(value, int) and not isinstance(value, bool):
        if -_LIMITS[kind] <= value < _LIMITS[kind]:
            return value
        raise InvalidInput(f"{what} {value} is out of range for row key {field.name!r}", hint=f"it is {kind}")
    if kind == "string" and isinstance(value, str):
        if any("\ud800" <= c <= "\udfff" for c in value):
            raise InvalidInput(
                f"{what} {value!r} of row key {field.name!r} has an unpaired surrogate", hint="it must be valid UTF-8"
            )
        return value
    if kind == "bytearray" and isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if kind in _TIMES and isinstance(value, str | date):
        return _time(field, value, what)
    shown = repr(value) if isinstance(value, str | bytes) else described(value)
    raise InvalidInput(
        f"{what} {shown} is not a value of row key {field.name!r}",
        hint=f"the row key is {kind}, not {type(value).__name__}",
    )


def _time(field: Field, value: str | date, what: str) -> date:
    kind, shown = field.type.name, repr(value) if isinstance(value, str) else str(value)
    problem = f"{what} {shown} is not a value of row key {field.name!r}"
    try:
        moment = _read_time(value, kind) if isinstance(value, str) else value
        if kind == "timestamp":
            return _instant(moment)
        if not isinstance(moment, datetime):
            return moment
    except OverflowError as error:
        raise InvalidInput(f"{what} {shown} is out of range for row key {field.name!r}", hint=OUT_OF_YEARS) from error
    except InvalidInput as error:  # of a text; the hint may be about its zone
        raise InvalidInput(problem, hint=_TIMES[kind] if error.hint == TIME_HINT else error.hint_parts) from error
    except (ValueError, TypeError) as error:  # a text that is no date; NaT of pandas, or its nanoseconds
        raise InvalidInput(problem, hint=_TIMES[kind]) from error
    raise InvalidInput(problem, hint=f"the row key is a date, not a {type(value).__name__}: {_TIMES[kind]}")


def _read_time(text: str, kind: str) -> date:
    if kind == "date":
        return date.fromisoformat(text)
    if _BELOW_MICROSECONDS.search(text):
        raise InvalidInput(f"{text!r} has nanoseconds", hint="write microseconds at most: 2013-01-31T12:00:00.123456Z")
    return read_time(text)


def _instant(value: date) -> datetime:
    """Return a moment in UTC as a plain `datetime`; `ValueError` when that has no room for its nanoseconds."""
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if getattr(value, "nanosecond", 0):
        raise ValueError("a Timestamp of pandas with nanoseconds")
    clock = (value.hour, value.minute, value.second, value.microsecond)
    moment = datetime(value.year, value.month, value.day, *clock, tzinfo=value.tzinfo, fold=value.fold)
    return moment.replace(tzinfo=UTC) if moment.utcoffset() is None else moment.astimezone(UTC)


def compared_key(field: Field, value: Any) -> KeyValue | None:
    """Return a value with which an engine compares a row key, as a key; None when it may mean something else.

    Engines cast texts, dates, and times without a zone by their own rules; no key has a value that is out of range.
    """
    kind = field.type.name
    if kind in _TIMES:
        has_zone = isinstance(value, datetime) and value.tzinfo is not None
        is_date = isinstance(value, date) and not isinstance(value, datetime)
        if not (has_zone if kind == "timestamp" else is_date):
            return None
    try:
        return check_key(field, value)
    except InvalidInput:
        return None


def parse_key(field: Field, text: str, *, what: str = "value") -> KeyValue:
    """Read a value of row key `field` from text: numbers in decimal, strings as they are, byte arrays in base64.

    The rule is that of Sleeper's split points files. Dates and timestamps are in ISO format.
    """
    kind = field.type.name
    if kind == "string" or kind in _TIMES:
        return check_key(field, text, what=what)
    try:
        return check_key(field, base64.b64decode(text, validate=True) if kind == "bytearray" else int(text), what=what)
    except (ValueError, binascii.Error) as error:
        if isinstance(error, InvalidInput):
            raise
        expected = "base64" if kind == "bytearray" else "a whole number"
        message = f"{what} {text!r} is not a value of row key {field.name!r}"
        raise InvalidInput(message, hint=f"write {expected}") from error


def key_text(value: KeyValue | None) -> str:
    """Return a key in readable form: bytes in hexadecimal, control characters escaped, an unbounded end as ``∞``."""
    if value is None:
        return "∞"
    if isinstance(value, bytes):
        return "0x" + value.hex()
    text = value if isinstance(value, str) else written_key(value)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def written_key(value: KeyValue) -> str:
    """Return a key as the text that `parse_key` reads."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else str(value)


def key_to_json(value: KeyValue) -> Any:
    """Return a key as JSON: numbers and strings as they are, others as text under the name of what they are."""
    if isinstance(value, bytes):
        return {"base64": written_key(value)}
    if isinstance(value, date):
        return {"timestamp" if isinstance(value, datetime) else "date": written_key(value)}
    return value


def key_from_json(plain: Any) -> Any:
    """Read what `key_to_json` wrote; anything that is not a mapping stays as it is."""
    if not isinstance(plain, Mapping):
        return plain
    ((kind, text),) = plain.items()
    return _OF_JSON[kind](text)


_OF_JSON: Final[Mapping[str, Callable[[str], KeyValue]]] = {
    "base64": base64.b64decode, "date": date.fromisoformat, "timestamp": datetime.fromisoformat,
}  # fmt: skip


def key_after(field: Field, value: KeyValue) -> KeyValue | None:
    """Return the next greater value that row key `field` can hold; None when there is none."""
    if isinstance(value, date):
        step = _TICK if isinstance(value, datetime) else timedelta(days=1)
        return None if value in (first_and_last(field.type.name) or ())[1:] else value + step
    if isinstance(value, int):
        return None if value == _LIMITS[field.type.name] - 1 else value + 1
    return value + "\0" if isinstance(value, str) else value + b"\0"


def read_split_points(
    text: str,
    field: Field,
    *,
    strings_base64: bool = False,
    source: str = "the split points",
    shows_lines: bool = True,
) -> tuple[KeyValue, ...]:
    """Read the split points in the text of a file.

    `InvalidInput` when a line is blank, is not a value of the key, or is not greater than the line before; the error
    names the first such line. An empty file is valid: it has no split points, and the table has one partition.

    Parameters
    ----------
    text
        One value per line, no header. Windows line endings are accepted.
    strings_base64
        Whether strings are base64 (``sleeper.table.splits.base64.encoded``); byte arrays always are.
    shows_lines
        Whether errors may show the text of a line; they always show its number.
    """
    points: list[KeyValue] = []
    for number, line in _lines(text):
        where = f"line {number} of {source}"
        if not line:
            raise InvalidInput(
                f"{where} is blank", hint="write one value per line; an empty string cannot be a split point"
            )
        try:
            point = _split_point(line, field, where, strings_base64=strings_base64)
        except InvalidInput:
            if shows_lines:
                raise
            hint = f"write one {field.type} per line"
            raise InvalidInput(f"{where} is not a value of {field.name!r}", hint=hint) from None
        if points and point <= points[-1]:  # type: ignore[operator]
            if not shows_lines:
                problem = "it does not come after the line before"
            elif point == points[-1]:
                problem = f"{key_text(point)} occurs twice"
            else:
                problem = f"{key_text(point)} does not come after {key_text(points[-1])}"
            raise InvalidInput(f"{where}: {problem}", hint="write values in increasing order, each once")
        points.append(point)
    return tuple(points)


def typed_split_points(text: str) -> list[str]:
    """Return the texts of split points given in one line, as for ``--splits``: ``g,n,t``; ``"a,b",c``."""
    return next(csv.reader([text], skipinitialspace=True)) if text.strip() else []


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers; only line feeds separate them, as strings may hold any other character."""
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[-1] == "":
        lines.pop()
    for number, line in enumerate(lines, 1):
        yield number, line.removesuffix("\r")


def _split_point(line: str, field: Field, where: str, *, strings_base64: bool) -> KeyValue:
    try:
        if field.type.name == "string" and strings_base64:
            line = base64.b64decode(line, validate=True).decode()
        return parse_key(field, line)
    except SleeperError as error:
        raise InvalidInput(f"{where}: {error.message}", hint=error.hint_parts) from error
    except ValueError as error:
        raise InvalidInput(
            f"{where} is {line!r}, not UTF-8 text in base64", hint="encode it, or leave out base64"
        ) from error


def write_split_points(points: Iterable[KeyValue], field: Field, *, strings_base64: bool = False) -> str:
    """Return the text of a file from which `read_split_points` reads the same points.

    `InvalidInput` when a string would be read back differently, such as one with a line break. Byte arrays are always
    written in base64.
    """
    lines = []
    for point in points:
        if isinstance(point, bytes) or (isinstance(point, str) and strings_base64):
            content = point.encode() if isinstance(point, str) else point
            lines.append(base64.b64encode(content).decode())
        else:
            lines.append(written_key(point))
            if isinstance(point, str) and ("\n" in point or point.endswith("\r") or point.startswith("\ufeff")):
                raise InvalidInput(
                    f"split point {point!r} of {field.name!r} does not fit on a line of text",
                    hint=("add ", Action("--base64", "strings_base64=True")),
                )
    return "".join(f"{line}\n" for line in lines)
