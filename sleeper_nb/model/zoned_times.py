"""A time as text: in ISO format, behind it UTC, an offset or the name of a zone, or nothing, which is UTC too."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from sleeper_nb.errors import InvalidInput

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
