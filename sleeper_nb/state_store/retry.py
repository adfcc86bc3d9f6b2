"""How often, and how patiently, a commit that lost is tried again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retry:
    """Bounds of a commit's tries; each wait is a random part of a ceiling that doubles ("full jitter").

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
        return float(min(self.max_wait, self.first_wait * 2**attempt))
