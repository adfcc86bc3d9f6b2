"""The only source of time, ids, randomness and waiting: all other code takes them from a `Clock`."""

from __future__ import annotations

import logging
import random  # noqa: TID251 - this is where randomness is taken from
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

logger = logging.getLogger(__name__)


class Clock:
    """The system's clock; tests use a `ManualClock` instead."""

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
        time.sleep(seconds)  # noqa: TID251


class ManualClock(Clock):
    """A clock that moves only when it is moved, and whose ids and jitter are a seeded sequence.

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
        self._now += by

    def new_id(self) -> str:
        """Return the next id of the seeded sequence."""
        return f"{self._random.getrandbits(128):032x}"

    def jitter(self, ceiling: float) -> float:
        """Return the next number of the seeded sequence."""
        return self._random.uniform(0, ceiling)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._now += timedelta(seconds=seconds)


_MOST_DOUBLINGS = 60


@dataclass(frozen=True, slots=True)
class Retry:
    """How often to retry, and how long to wait; each wait is a random part of a ceiling that doubles ("full jitter").

    The defaults are those of commits.
    """

    max_attempts: int = 40  # tries in all (``sleeper.table.statestore.commit.max.attempts``)
    # ceilings of the wait after the first try and of any, in seconds (``….first.retry.wait.ceiling.ms`` and
    # ``….max.retry.wait.ceiling.ms``, as Sleeper calls them for its transaction log)
    first_wait: float = 0.02
    max_wait: float = 2.0

    def ceiling(self, attempt: int) -> float:
        """Return the longest wait after try number `attempt`, counted from 0."""
        return float(min(self.max_wait, self.first_wait * 2 ** min(attempt, _MOST_DOUBLINGS)))

    def attempts(self, clock: Clock) -> Iterator[int]:
        """Yield the numbers of the tries, from 0, and wait before each but the first."""
        for attempt in range(self.max_attempts):
            if attempt:
                self.wait(clock, attempt - 1)
            yield attempt

    def wait(self, clock: Clock, attempt: int) -> None:
        """Wait a random part of `ceiling` before the next try."""
        seconds = clock.jitter(self.ceiling(attempt))
        logger.debug("try %d of at most %d did not succeed; waiting %.3f s", attempt + 1, self.max_attempts, seconds)
        clock.sleep(seconds)
