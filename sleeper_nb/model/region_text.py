"""A region as people write it, read and written: ``carrier=[AA,DL) flight=[1,100]``, ranges of some row keys."""

from __future__ import annotations

import base64
import re

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.keys import KeyValue, key_after, parse_key
from sleeper_nb.model.partitions import Range, Region
from sleeper_nb.model.schema import Field, Schema

Bounds = tuple[KeyValue | None, KeyValue | None]
"""The least value, included, and the end, excluded; None is unbounded."""

HINT = "write key=[min,max): [ ] with the bound, ( ) without it, nothing for no bound, quotes around , and brackets"

_VALUE = r"""\s*(?:'((?:[^']|'')*)'|"((?:[^"]|"")*)"|([^\s'"\[\](),][^'"\[\](),]*?)?)\s*"""
_BARE = re.compile(r"[\w.+/:-][\w.+/:=-]*")
"""What needs no quotes, for certain."""
_RANGE = re.compile(rf"""\s*([^\s=,;]+)\s*=\s*(?:([\[(]){_VALUE},{_VALUE}([\])])|{_VALUE}(?=[\s,;]|$))\s*[,;]?\s*""")


def parse_region(schema: Schema, text: str) -> dict[str, Bounds]:
    """Read ranges of row keys, parted by blanks, commas or semicolons.

    Parameters
    ----------
    schema
        The table's schema.
    text
        ``key=[a,b)`` for each: square brackets take the bound in, round ones leave it out, and an end that is left
        empty is unbounded; ``key=a`` is one value. A value is written as split points are (byte arrays in base64), with
        quotes around it when it has a blank at an end, a comma, a bracket or nothing in it; a quote in it is doubled.

    Returns
    -------
    For each key that is named ``(min, max)``: min included, max excluded, None unbounded.

    Raises
    ------
    InvalidInput
        When the text is no region, a name is no row key or stands there twice, a value has the wrong type, or no value
        can be in a range.
    """
    fields = {field.name: field for field in schema.row_keys}
    found: dict[str, Bounds] = {}
    at = 0
    while at < len(text.rstrip()):
        match = _RANGE.match(text, at)
        if match is None:
            raise InvalidInput(f"cannot read the region at {text[at:].strip()!r}", hint=HINT)
        name, at = match[1], match.end()
        if name not in fields:
            raise InvalidInput(f"{name!r} is no row key", hint=f"the row keys are {', '.join(fields)}")
        if name in found:
            raise InvalidInput(f"row key {name!r} has two ranges", hint="a region has one range of each key")
        found[name] = _bounds(fields[name], match)
    if not found:
        raise InvalidInput("the region is empty", hint=HINT)
    return found


def write_region(schema: Schema, region: Region) -> str:
    """Write a region as `parse_region` reads it; empty for the region of every key."""
    ranges = zip(schema.row_keys, region.ranges, strict=True)
    return " ".join(f"{field.name}=[{_written(r.min)},{_written(r.max)})" for field, r in ranges if r != Range())


def _written(value: KeyValue | None) -> str:
    if value is None:
        return ""
    text = base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
    return text if _BARE.fullmatch(text) else "'{}'".format(text.replace("'", "''"))


def _bounds(field: Field, match: re.Match[str]) -> Bounds:
    if match[2] is None:
        one = _value(field, match, 10)
        if one is None:
            raise InvalidInput(f"no value stands behind {field.name}=", hint=HINT)
        return one, key_after(field, one)
    low, high = _value(field, match, 3), _value(field, match, 6)
    if low is not None and match[2] == "(":
        low = key_after(field, low)
        if low is None:
            raise InvalidInput(f"no value can be in {match[0].strip()!r}", hint="its lower bound is the greatest value")
    if high is not None and match[9] == "]":
        high = key_after(field, high)
    if low is not None and high is not None and low >= high:  # type: ignore[operator]
        raise InvalidInput(f"no value can be in {match[0].strip()!r}", hint="write the lower bound first")
    return low, high


def _value(field: Field, match: re.Match[str], group: int) -> KeyValue | None:
    """Return the value of three groups: in single quotes, in double quotes, or bare; None when nothing stands there."""
    single, double, bare = match.group(group, group + 1, group + 2)
    if single is not None:
        return parse_key(field, single.replace("''", "'"), what="bound")
    if double is not None:
        return parse_key(field, double.replace('""', '"'), what="bound")
    return None if bare is None else parse_key(field, bare, what="bound")
