"""From the comparisons that Spark hands to a data source to regions of row keys, so that other files stay unread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.keys import KeyValue, check_key, key_after
from sleeper_nb.model.partitions import Range, Region
from sleeper_nb.model.schema import Field, Schema

MOST_REGIONS: Final = 100
"""So many regions at most; a longer list of values counts as the range from its least to its greatest."""


def regions_of(filters: Sequence[Filter], schema: Schema) -> list[Region] | None:
    """Return regions that hold every row that meets all filters.

    Comparisons of other columns, and with values that no key can have, are passed over: Spark applies every filter
    itself once more.

    Parameters
    ----------
    filters
        As Spark hands them over: all of them must be met.
    schema
        The table's.

    Returns
    -------
    list[Region] | None
        Regions that do not overlap, none when no key can meet the filters; None when they tell nothing.
    """
    found = [Region.whole(schema)]
    told = False
    for each in filters:
        names = [key.name for key in schema.row_keys]
        attribute: tuple[str, ...] = getattr(each, "attribute", ())
        if len(attribute) != 1 or attribute[0] not in names:
            continue
        place = names.index(attribute[0])
        ranges = _ranges(each, schema.row_keys[place])
        if ranges is None:
            continue
        told = True
        if len(found) * len(ranges) > MOST_REGIONS:
            ranges = [Range(ranges[0].min, ranges[-1].max)]
        wanted = [Region.whole(schema).narrowed(place, part) for part in ranges]
        found = [both for region in found for part in wanted if (both := region.intersect(part)) is not None]
    return found if told else None


def _ranges(each: Filter, key: Field) -> list[Range] | None:
    """Return the ranges of a key in which a filter can be met, in order; None when it does not tell."""
    value: Any = getattr(each, "value", None)
    try:
        if isinstance(each, In):
            values = {check_key(key, one) for one in value if one is not None}
            return [_exactly(key, one) for one in sorted(values)]
        return None if value is None else _range(each, key, check_key(key, value))
    except InvalidInput:  # of another type, which Spark compares by rules of its own
        return None


def _range(each: Filter, key: Field, value: KeyValue) -> list[Range] | None:
    after = key_after(key, value)
    match each:
        case EqualTo() | EqualNullSafe():
            return [Range(value, after)]
        case GreaterThanOrEqual():
            return [Range(value, None)]
        case GreaterThan():
            return [] if after is None else [Range(after, None)]
        case LessThan():
            return [Range(None, value)]
        case LessThanOrEqual():
            return [Range(None, after)]
        case StringStartsWith() if isinstance(value, str):
            return [Range(value, _behind_prefix(value))]
    return None


def _exactly(key: Field, value: KeyValue) -> Range:
    return Range(value, key_after(key, value))


def _behind_prefix(prefix: str) -> str | None:
    """Return the least text behind all that begin with a prefix; None when there is none."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    last = ord(kept[-1])
    # no character is between the two: they are halves of others
    return kept[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)
