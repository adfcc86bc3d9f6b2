"""A time as text: in ISO format, behind it UTC, an offset or the name of a zone, or nothing, which is UTC too."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from sleeper_nb.errors import InvalidInput

# Durations as people and tools write them: ``7 d``, ``6 hours``, ``1d``, ``PT30M``.

DURATION = "a duration, such as 7 d, 6 h or PT30M"
"""What to type for one."""

_SECONDS = {
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("min", "m", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
}
"""The units of Flink, as the savepoint proposal's durations are Flink's; a bare number, its milliseconds, is none."""
_PLAIN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.ASCII)
_ISO = re.compile(
    r"p(?=[\dt])(?:(?P<weeks>\d+)w|(?:(?P<days>\d+)d)?"
    r"(?:t(?=\d)(?:(?P<hours>\d+)h)?(?:(?P<minutes>\d+)m)?(?:(?P<seconds>\d+(?:[.,]\d+)?)s)?)?)",
    re.ASCII,
)


def parse_duration(text: str) -> timedelta:
    """Read a duration: ``7 d``, ``6h``, ``30 minutes``, ``500 ms``; or as ISO 8601 has it, ``P1D``, ``PT30M``, ``P2W``.

    Years and months are none, as they differ in length.

    Raises
    ------
    ValueError
        When the text is no duration.
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


TIME_HINT = "write '2026-11-01 10:00:00'; without a zone it is UTC"
_NAMED = re.compile(r"(?P<time>.*\d)\s*(?P<zone>[A-Za-z][\w+/-]*)", re.DOTALL)


def read_time(text: str) -> datetime:
    """Return the moment that a text names: ``2026-11-01``, ``2026-11-01 10:00:00+01:00``, ``… Europe/London``.

    Raises
    ------
    InvalidInput
        When it is no time; and when it is one that comes twice in its zone or never, as clocks are moved there. Engines
        choose a moment then and do not say so, which may be an hour of commits; here the hint names both.
    """
    plain = text.strip().removesuffix("UTC").strip()
    try:
        moment = datetime.fromisoformat(plain)
    except ValueError as error:
        named = _NAMED.fullmatch(plain)
        local = named and _local(named["time"])
        if named is None or local is None:
            raise InvalidInput(f"no time {text!r}", hint=TIME_HINT) from error
        return _in_zone(local, named["zone"])
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _local(text: str) -> datetime | None:
    try:
        local = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if local.tzinfo else local


def _in_zone(local: datetime, name: str) -> datetime:
    from zoneinfo import ZoneInfo  # the files of zones are for who names one

    try:
        zone = ZoneInfo(name)
    except (LookupError, OSError, ValueError) as error:
        hint = "write a name such as Europe/London, an offset such as +01:00, or nothing for UTC"
        raise InvalidInput(f"no time zone {name!r}", hint=hint) from error
    before, behind = (local.replace(tzinfo=zone, fold=fold) for fold in (0, 1))  # the move of the clocks, if there is
    if before.utcoffset() == behind.utcoffset():
        return before
    first, last = sorted(moment.astimezone(UTC) for moment in (before, behind))
    comes = "comes twice" if first == before.astimezone(UTC) else "never comes"
    hint = f"write '{first:%Y-%m-%d %H:%M:%S} UTC' or '{last:%Y-%m-%d %H:%M:%S} UTC'"
    raise InvalidInput(f"{local} {comes} in {name}, as clocks are moved then", hint=hint)
