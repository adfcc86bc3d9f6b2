"""Durations as people and tools write them: ``7 d``, ``6 hours``, ``1d``, ``PT30M``."""

from __future__ import annotations

import re
from datetime import timedelta

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
