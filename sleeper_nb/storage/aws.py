"""Bounded retries of requests to S3 and DynamoDB, shown to the user and logged."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from sleeper_nb.clock import Clock, Retry
from sleeper_nb.errors import StorageError, first_line
from sleeper_nb.progress import SILENT, Progress

logger = logging.getLogger(__name__)


def in_short(error: Exception) -> str:
    """Return the first line of an error; its kind where botocore repeats what its HTTP client was given."""
    if type(error).__name__ == "HTTPClientError" and type(error).__module__ == "botocore.exceptions":
        return f"its HTTP client failed ({type(_cause_of(error)).__name__})"
    return first_line(error)


def _cause_of(error: Exception) -> object:
    return getattr(error, "kwargs", {}).get("error")


def is_of_header(error: Exception) -> bool:
    """Return whether a request was not sent, because a header, which only keys can do, has a wrong character."""
    from botocore.exceptions import HTTPClientError

    cause = _cause_of(error) if type(error) is HTTPClientError else None
    return isinstance(cause, UnicodeEncodeError) or (
        isinstance(cause, ValueError) and str(cause).startswith("Invalid header")
    )


_T = TypeVar("_T")

WAITS = Retry(first_wait=0.02, max_wait=2.0)
PATIENCE = timedelta(seconds=60)
"""After this time a request is not sent again."""
QUOTA = 300
LOST, ANSWERED = 10, 1
"""What a lost answer takes from the quota, and what an answer returns to it."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What an error of a request means.

    Parameters
    ----------
    tries
        How often the request may be sent in all; 1 when the same request cannot succeed later.
    lost
        Whether the answer was lost, so that it is unknown whether the request was processed.
    """

    tries: int
    lost: bool
    why: str


class Network:
    """The connection of one session to S3 and DynamoDB.

    A request whose answer was lost is sent again. A quota bounds how often that happens in all: each lost answer takes
    10 of 300, each answer returns 1, and a minute without a lost answer returns all. So an operation continues as long
    as it needs while one answer in 25 is lost, and a failed network ends it after 30 lost answers, not after hours.

    Parameters
    ----------
    progress
        Shows each request that is sent again, and why, until it has ended.
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
        """Return the answer to a request, which is retried as far as `judge` and the bounds allow.

        Parameters
        ----------
        what
            The service and the operation: ``"DynamoDB Query"``.
        judge
            Returns what an error of `send` means.
        give_up
            Takes the last error and the number of attempts; raises the error for the caller, or returns an answer.
        """
        end, tries = self.clock.now() + PATIENCE, 0
        try:
            while True:
                try:
                    answer = send()
                except Exception as error:  # noqa: BLE001 - `judge` decides what it means
                    if is_of_header(error):
                        hint = "set it again without it; look at the end of AWS_SESSION_TOKEN and AWS_ACCESS_KEY_ID"
                        message = "an AWS key or token has a character, such as a line end, that a request cannot have"
                        raise StorageError(message, hint=hint) from None
                    tries += 1
                    meaning = judge(error)
                    if tries >= meaning.tries or self.clock.now() >= end or not self._may_go_on(lost=meaning.lost):
                        logger.debug("%s failed after %d tries: %s", what, tries, meaning.why)
                        return give_up(error, tries)
                    logger.warning("%s: retrying, attempt %d of %d (%s)", what, tries + 1, meaning.tries, meaning.why)
                    self._progress.update(f"{what}: attempt {tries + 1} of {meaning.tries} ({meaning.why})")
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
