"""How often, and how patiently, something that lost or failed is tried again."""

from __future__ import annotations

from dataclasses import dataclass

from sleeper_nb.clock import Clock

_MOST_DOUBLINGS = 60


@dataclass(frozen=True, slots=True)
class Retry:
    """Bounds of tries, by default a commit's; each wait is a random part of a ceiling that doubles ("full jitter").

    Parameters
    ----------
    max_attempts
        Tries in all (``sleeper.table.statestore.commit.max.attempts``).
    first_wait, max_wait
        Ceilings of the wait after the first try and of any, in seconds (``….first.retry.wait.ceiling.ms`` and
        ``….max.retry.wait.ceiling.ms``, as Sleeper calls them for its transaction log).
    """

    max_attempts: int = 40
    first_wait: float = 0.02
    max_wait: float = 2.0

    def ceiling(self, attempt: int) -> float:
        """Return the longest wait after try number `attempt`, counted from 0."""
        return float(min(self.max_wait, self.first_wait * 2 ** min(attempt, _MOST_DOUBLINGS)))

    def wait(self, clock: Clock, attempt: int) -> None:
        """Wait at most `ceiling` of `attempt`."""
        clock.sleep(clock.jitter(self.ceiling(attempt)))
