"""Times and durations as text.

A time is in ISO format, followed by ``UTC``, an offset, the name of a zone, or nothing, which means UTC too. A duration
is written as ``7 d``, ``6 hours``, ``1d`` or ``PT30M``.
"""

from __future__ import annotations

import re
from calendar import month_name, monthrange
from datetime import MINYEAR, UTC, datetime, timedelta

from sleeper_nb.errors import InvalidInput

DURATION = "a duration, such as 7 d, 6 h or PT30M"
"""What to write as a duration."""

_SECONDS = {
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("min", "m", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
}
"""The units of Flink, as in the savepoint proposal. A bare number, which Flink takes for milliseconds, is refused."""
_PLAIN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.ASCII)
_ISO = re.compile(
    r"p(?=[\dt])(?:(?P<weeks>\d+)w|(?:(?P<days>\d+)d)?"
    r"(?:t(?=\d)(?:(?P<hours>\d+)h)?(?:(?P<minutes>\d+)m)?(?:(?P<seconds>\d+(?:[.,]\d+)?)s)?)?)",
    re.ASCII,
)


def parse_duration(text: str) -> timedelta:
    """Read a duration: ``7 d``, ``6h``, ``30 minutes``, ``500 ms``; or in ISO 8601, ``P1D``, ``PT30M``, ``P2W``.

    Years and months are refused, since they differ in length.

    `ValueError` when the text is not a duration.
    """
    word = text.strip().lower()
    plain, iso = _PLAIN.fullmatch(word), _ISO.fullmatch(word)
    try:
        if plain is not None and plain[2] in _SECONDS:
            return timedelta(seconds=float(plain[1]) * _SECONDS[plain[2]])
        if iso is not None:
            return timedelta(**{unit: float((n or "0").replace(",", ".")) for unit, n in iso.groupdict().items()})
    except OverflowError as error:
        raise ValueError(text) from error
    raise ValueError(text)


_DAY = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?!\d)")


def days_of_month(text: str) -> str:
    """Return how many days a month has, for a text such as ``2026-02-30`` that names a later one; "" for any other."""
    day = _DAY.match(text)
    if day is None or not 1 <= int(day[2]) <= 12 or not int(day[1]) >= MINYEAR:
        return ""
    year, month = int(day[1]), int(day[2])
    last = monthrange(year, month)[1]
    return f"{month_name[month]} {year} has {last} days" if int(day[3]) > last else ""


TIME_HINT = "write '2026-11-01 10:00:00'; without a zone it is UTC"
_NAMED = re.compile(r"(?P<time>.*\d)\s*(?P<zone>[A-Za-z][\w+/-]*)", re.DOTALL)


def read_time(text: str) -> datetime:
    """Read a time: ``2026-11-01``, ``2026-11-01 10:00:00+01:00``, ``… Europe/London``.

    `InvalidInput` when it is not a time; and when it occurs twice or never in its zone, because the clocks change
    there. Engines silently choose one moment then, which may hide an hour of commits; here the hint names both.
    """
    plain = text.strip().removesuffix("UTC").strip()
    try:
        moment = datetime.fromisoformat(plain)
    except ValueError as error:
        named = _NAMED.fullmatch(plain)
        local = named and _local(named["time"])
        if named is None or local is None:
            raise InvalidInput(f"{text!r} is not a time", hint=TIME_HINT) from error
        return _in_zone(local, named["zone"])
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _local(text: str) -> datetime | None:
    try:
        local = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if local.tzinfo else local


def _in_zone(local: datetime, name: str) -> datetime:
    from zoneinfo import ZoneInfo  # zone files are needed only when a zone is named

    try:
        zone = ZoneInfo(name)
    except (LookupError, OSError, ValueError) as error:
        hint = "write a name such as Europe/London, an offset such as +01:00, or nothing for UTC"
        raise InvalidInput(f"unknown time zone {name!r}", hint=hint) from error
    before = local.replace(tzinfo=zone, fold=0)
    after = local.replace(tzinfo=zone, fold=1)
    if before.utcoffset() == after.utcoffset():  # no change of the clocks at this time
        return before
    first, last = sorted((before.astimezone(UTC), after.astimezone(UTC)))
    occurs = "occurs twice" if first == before.astimezone(UTC) else "does not occur"
    hint = f"write '{first:%Y-%m-%d %H:%M:%S} UTC' or '{last:%Y-%m-%d %H:%M:%S} UTC'"
    raise InvalidInput(f"{local} {occurs} in {name}, because the clocks change then", hint=hint)
