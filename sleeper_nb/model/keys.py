"""Values of row keys: checked against their field, read from text, and written for people."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from sleeper_nb.arguments import described
from sleeper_nb.errors import InvalidInput

if TYPE_CHECKING:
    from sleeper_nb.model.schema import Field

KeyValue = int | str | bytes
"""A value of a row key. Python orders the three as Parquet and Arrow do: strings as their UTF-8, bytes unsigned."""

_LIMITS = {"int": 2**31, "long": 2**63}


def check_key(field: Field, value: Any, *, what: str = "value") -> KeyValue:
    """Return `value` when row key `field` can hold it.

    Raises
    ------
    InvalidInput
        When it is of another type or out of range; `what` names it in the message.
    """
    kind = field.type.name
    if kind in _LIMITS and isinstance(value, int) and not isinstance(value, bool):
        if -_LIMITS[kind] <= value < _LIMITS[kind]:
            return value
        raise InvalidInput(f"{what} {value} is out of range for row key {field.name!r}", hint=f"it is {kind}")
    if kind == "string" and isinstance(value, str):
        if any("\ud800" <= c <= "\udfff" for c in value):
            raise InvalidInput(
                f"{what} {value!r} of row key {field.name!r} has half a character", hint="it must be UTF-8"
            )
        return value
    if kind == "bytearray" and isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    shown = repr(value) if isinstance(value, str | bytes) else described(value)
    raise InvalidInput(
        f"{what} {shown} is no value of row key {field.name!r}", hint=f"it is {kind}, not {type(value).__name__}"
    )


def parse_key(field: Field, text: str, *, what: str = "value") -> KeyValue:
    """Read a value of row key `field` from text: decimal numbers, strings as they are, byte arrays in base64.

    The same rule as Sleeper's split points files.
    """
    kind = field.type.name
    if kind == "string":
        return check_key(field, text, what=what)
    try:
        return check_key(field, base64.b64decode(text, validate=True) if kind == "bytearray" else int(text), what=what)
    except (ValueError, binascii.Error) as error:
        if isinstance(error, InvalidInput):
            raise
        need = "base64" if kind == "bytearray" else "a whole number"
        raise InvalidInput(f"{what} {text!r} is no value of row key {field.name!r}", hint=f"write {need}") from error


def key_text(value: KeyValue | None) -> str:
    """Return a key for people: bytes in hexadecimal, an unbounded end as ``∞``."""
    if value is None:
        return "∞"
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)


def key_after(field: Field, value: KeyValue) -> KeyValue | None:
    """Return the least value greater than `value` that row key `field` can hold; None when there is none."""
    if isinstance(value, int):
        return None if value == _LIMITS[field.type.name] - 1 else value + 1
    return value + "\0" if isinstance(value, str) else value + b"\0"
