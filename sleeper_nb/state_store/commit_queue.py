"""The queue of changes in one process: one thread at a time commits for all that wait."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from sleeper_nb.catalog.catalog_base import PropertiesNote
from sleeper_nb.errors import JobDone
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState

if TYPE_CHECKING:  # reading a table needs no transaction
    from sleeper_nb.model.transactions import Transaction

logger = logging.getLogger(__name__)

MakeTransaction: TypeAlias = "Transaction | Callable[[TableState], Transaction]"

Announce = Callable[[Snapshot], PropertiesNote]
"""Takes a snapshot right before it is committed; returns what its commit records of the table's properties file."""


@dataclass(eq=False, slots=True)
class Waiting:
    """A queued change, for which a thread waits: in the end it has a snapshot or an error."""

    change: MakeTransaction
    message: str | None
    author: str | None
    job_id: str | None = None
    expectations: str | None = None
    announce: Announce | None = None
    snapshot: Snapshot | None = None
    error: BaseException | None = None
    settled: threading.Event = field(default_factory=threading.Event)

    @property
    def description(self) -> tuple[str | None, str | None, str | None, str | None]:
        return self.message, self.author, self.job_id, self.expectations

    def succeed(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.settled.set()

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.settled.set()

    def result(self) -> Snapshot:
        if self.error is not None:
            raise self.error
        assert self.snapshot is not None  # noqa: S101 - settled without an error
        return self.snapshot


class CommitQueue:
    """Gives the changes of all threads, in order and at most `limit` at a time, to the one thread that commits."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._turn, self._lock = threading.Lock(), threading.Lock()
        self._items: deque[Waiting] = deque()

    def submit(self, item: Waiting, run: Callable[[Sequence[Waiting]], None]) -> Snapshot:
        """Wait until a change is settled, by this thread or another, and return its snapshot or raise its error.

        `run` settles the changes that it is given, or raises; unsettled ones then return to the queue. An interrupt
        removes the change from the queue; if another thread is committing it, that is waited for first, so that the
        caller does not undo what may succeed.
        """
        with self._lock:
            self._items.append(item)
        try:
            while not item.settled.is_set():
                with self._turn:
                    if not item.settled.is_set():
                        self._run_a_batch(item, run)
        except BaseException as error:
            logger.debug("a queued change is withdrawn: %s", type(error).__name__)
            if not self._withdraw(item):
                with self._turn:  # the thread that was committing it has settled it now, or put it back
                    self._withdraw(item)
            raise
        return item.result()

    def _withdraw(self, item: Waiting) -> bool:
        with self._lock:
            if item not in self._items:
                return False
            self._items.remove(item)
            return True

    def _run_a_batch(self, mine: Waiting, run: Callable[[Sequence[Waiting]], None]) -> None:
        with self._lock:
            batch = [self._items.popleft() for _ in range(min(self._limit, len(self._items)))]
        if len(batch) > 1:
            logger.debug("one thread commits %d queued changes", len(batch))
        try:
            run(batch)
        finally:
            left = [item for item in batch if not item.settled.is_set() and item is not mine]
            with self._lock:
                self._items.extendleft(reversed(left))


def fitting(batch: Sequence[Waiting], room: int, done: Callable[[str], int | None]) -> list[Waiting]:
    """Return the first changes, as many as one commit can hold; a change whose job has made a snapshot fails.

    Parameters
    ----------
    batch
        Changes in order. Of two with one job id the second stays queued until after this commit.
    room
        How many snapshots the commit can hold; one with a job id counts as two.
    done
        Returns the snapshot that the job with an id has made.
    """
    fits: list[Waiting] = []
    ids: set[str] = set()
    for waiting in batch:
        job_id = waiting.job_id
        room -= 1 if job_id is None else 2
        if room < 0 and fits:
            break
        if job_id is not None and job_id not in ids and (snapshot := done(job_id)) is not None:
            hint = "nothing was changed again"
            waiting.fail(JobDone(f"job {job_id!r} has already made snapshot {snapshot:,}", hint=hint))
        elif job_id is None or job_id not in ids:
            fits.append(waiting)
            ids |= set() if job_id is None else {job_id}
    return fits
