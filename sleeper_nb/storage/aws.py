"""What S3 and DynamoDB have in common: whole answers, and requests that are made again when one was lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from sleeper_nb.clock import Clock, Retry
from sleeper_nb.progress import SILENT, Progress

logger = logging.getLogger(__name__)

# Requests that are made again when their answers are lost: within bounds, and not in silence.

_T = TypeVar("_T")

WAITS = Retry(first_wait=0.02, max_wait=2.0)
PATIENCE = timedelta(seconds=60)
"""No request is made again after so long."""
QUOTA = 300
LOST, ANSWERED = 10, 1
"""What a lost answer takes from the quota, and what an answer gives back to it."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What an error of a request means.

    Parameters
    ----------
    tries
        How often the request may be made in all; 1 when the same request cannot succeed later.
    lost
        Whether the answer was lost, so that nobody knows whether the request was done.
    why
        The reason in a few words, for the line of progress.
    """

    tries: int
    lost: bool
    why: str


class Network:
    """The way of one session to S3 and DynamoDB.

    A request whose answer was lost is made again. A quota bounds how often that happens in all: each lost answer takes
    10 of 300, each answer gives 1 back, and a minute without a lost answer gives back all. So work goes on for as long
    as it takes while one answer in 25 is lost, and a network that has failed ends it after 30 lost answers, not after
    hours.

    Parameters
    ----------
    clock
        Gives times, waits and jitter.
    progress
        Shows each request that is made again, and why, until it has ended.
    quota
        As above.
    """

    def __init__(self, clock: Clock | None = None, progress: Progress = SILENT, quota: int = QUOTA) -> None:
        self.clock, self._progress = clock or Clock(), progress
        self._quota = self._left = quota
        self._last_lost = self.clock.now()
        self._lock = threading.Lock()

    def ask(
        self,
        what: str,
        send: Callable[[], _T],
        judge: Callable[[Exception], Judgement],
        give_up: Callable[[Exception, int], _T],
    ) -> _T:
        """Return the answer to a request, which is made again as far as `judge` and the bounds allow.

        Parameters
        ----------
        what
            The service and the operation: ``"DynamoDB Query"``.
        send
            Makes the request once.
        judge
            Says what an error of `send` means.
        give_up
            Is given the last error and the number of tries; raises what the caller should see, or returns an answer.
        """
        end, tries = self.clock.now() + PATIENCE, 0
        try:
            while True:
                try:
                    answer = send()
                except Exception as error:  # noqa: BLE001 - what it means is for `judge`
                    tries += 1
                    said = judge(error)
                    if tries >= said.tries or self.clock.now() >= end or not self._may_go_on(lost=said.lost):
                        logger.debug("%s failed after %d tries: %s", what, tries, said.why)
                        return give_up(error, tries)
                    logger.warning("%s: retrying, attempt %d of %d (%s)", what, tries + 1, said.tries, said.why)
                    self._progress.update(f"{what}: try {tries + 1} of {said.tries} ({said.why})")
                    WAITS.wait(self.clock, tries - 1)
                else:
                    self._answered()
                    return answer
        finally:
            if tries:
                self._progress.finish()

    def _may_go_on(self, *, lost: bool) -> bool:
        if not lost:
            return True
        with self._lock:
            now = self.clock.now()
            before = self._quota if now - self._last_lost > PATIENCE else self._left
            self._left, self._last_lost = max(0, before - LOST), now
            return self._left > 0

    def _answered(self) -> None:
        with self._lock:
            self._left = min(self._quota, self._left + ANSWERED)
