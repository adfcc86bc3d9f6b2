"""The changes that wait in one process, and whose turn it is: one thread commits for all that wait behind it."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sleeper_nb.errors import JobDone
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import Transaction

logger = logging.getLogger(__name__)

MakeTransaction = Transaction | Callable[[TableState], Transaction]


@dataclass(eq=False, slots=True)
class Waiting:
    """A change that somebody waits for: in the end it has a snapshot or an error."""

    change: MakeTransaction
    message: str | None
    author: str | None
    job_id: str | None = None
    snapshot: Snapshot | None = None
    error: BaseException | None = None
    settled: threading.Event = field(default_factory=threading.Event)

    @property
    def said(self) -> tuple[str | None, str | None, str | None]:
        """What history tells of it: message, author, and the id of the job."""
        return self.message, self.author, self.job_id

    def succeed(self, snapshot: Snapshot) -> None:
        """Hand out the snapshot that the change made."""
        self.snapshot = snapshot
        self.settled.set()

    def fail(self, error: BaseException) -> None:
        """Hand out why the change was not made."""
        self.error = error
        self.settled.set()

    def result(self) -> Snapshot:
        """Return the snapshot, or raise the error."""
        if self.error is not None:
            raise self.error
        assert self.snapshot is not None  # noqa: S101 - settled without an error
        return self.snapshot


class CommitQueue:
    """Hands the changes of all threads, in their order, to the thread whose turn it is.

    Parameters
    ----------
    limit
        How many changes one turn may take.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._turn, self._lock = threading.Lock(), threading.Lock()
        self._items: deque[Waiting] = deque()

    def submit(self, item: Waiting, run: Callable[[Sequence[Waiting]], None]) -> Snapshot:
        """Wait until a change is settled, by this thread or by another, and return its snapshot or raise its error.

        `run` settles what it is given, or raises; then what it left goes back in line. An interrupt takes the change
        out of the line; one that another thread has in hand is waited for first, so that nobody undoes what may win.
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
                with self._turn:  # whoever had it in hand has settled it now, or put it back
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
    """Return the first changes, as many as one commit can hold; those whose job has made a snapshot fail.

    Parameters
    ----------
    batch
        Changes in their order. Of two of one job the second stays, to be looked at behind this commit.
    room
        How many snapshots the commit can hold; one of a job takes the room of two.
    done
        Returns which snapshot the job of an id has made.
    """
    taken: list[Waiting] = []
    ids: set[str] = set()
    for waiting in batch:
        job_id = waiting.job_id
        room -= 1 if job_id is None else 2
        if room < 0 and taken:
            break
        if job_id is not None and job_id not in ids and (snapshot := done(job_id)) is not None:
            hint = "nothing was added again"
            waiting.fail(JobDone(f"job {job_id!r} has made snapshot {snapshot:,} before", hint=hint))
        elif job_id is None or job_id not in ids:
            taken.append(waiting)
            ids |= set() if job_id is None else {job_id}
    return taken
