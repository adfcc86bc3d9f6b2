"""The only source of time, ids, randomness and waiting; everything else is handed a `Clock`."""

from __future__ import annotations

import random  # noqa: TID251 - this module is where randomness comes from
import secrets
import time
from datetime import UTC, datetime, timedelta


class Clock:
    """The system's clock; tests hand in a `ManualClock` instead."""

    def now(self) -> datetime:
        """Return the current moment, in UTC, to the microsecond."""
        return datetime.now(UTC)  # noqa: TID251

    def new_id(self) -> str:
        """Return 32 hexadecimal digits that were never returned before."""
        return secrets.token_hex(16)

    def jitter(self, ceiling: float) -> float:
        """Return a random number of seconds between 0 and `ceiling` ("full jitter")."""
        return random.uniform(0, ceiling)  # noqa: S311 - spreads retries, guards nothing

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)  # noqa: TID251


class ManualClock(Clock):
    """A clock that moves only when told to, and whose ids and jitter are a seeded sequence.

    Parameters
    ----------
    start
        The first moment.
    seed
        Two clocks with one seed give the same ids.
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC), seed: int = 0) -> None:
        self._now = start
        self._random = random.Random(seed)  # noqa: S311
        self.slept: list[float] = []

    def now(self) -> datetime:
        """Return the moment that the clock was moved to."""
        return self._now

    def advance(self, by: timedelta) -> None:
        """Move the clock."""
        self._now += by

    def new_id(self) -> str:
        """Return the next id of the seeded sequence."""
        return f"{self._random.getrandbits(128):032x}"

    def jitter(self, ceiling: float) -> float:
        """Return the next number of the seeded sequence."""
        return self._random.uniform(0, ceiling)

    def sleep(self, seconds: float) -> None:
        """Move the clock by `seconds` and note it in `slept`, without waiting."""
        self.slept.append(seconds)
        self._now += timedelta(seconds=seconds)
