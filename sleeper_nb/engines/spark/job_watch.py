"""Runs actions on Spark in threads of their own, watches their jobs, and cancels them on an interrupt."""

from __future__ import annotations

import re
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

from sleeper_nb.progress import unchecked

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from pyspark import SparkContext, StatusTracker
    from pyspark.sql import SparkSession

    from sleeper_nb.progress import Progress

T = TypeVar("T")

_POLL_SECONDS = 0.2
_CANCEL_SECONDS = 0.1
_GIVE_UP_SECONDS = 10


class WatchedAction(Generic[T]):
    """An action on Spark in a thread of its own, and a watcher that counts its tasks and can cancel them.

    Only these two threads talk to the JVM. An interrupt hits the calling thread, and would leave half an answer in its
    connection if that were in use.

    Parameters
    ----------
    session
        The session that the action is given.
    action
        What to do.
    description
        What Spark calls the jobs.
    tag
        How the name of the group of jobs begins.
    """

    def __init__(self, session: SparkSession, action: Callable[[SparkSession], T], description: str, tag: str) -> None:
        self._session, self._action, self._description = session, action, description
        # One of its own for as long as its watcher lives, who could else cancel the jobs of an action behind it.
        self._tag = f"{tag}-{id(self):x}"
        self._result: list[T] = []
        self._error: BaseException | None = None
        self.done = self.total = 0
        self.waiting = False
        self._cancel, self._quiet = threading.Event(), threading.Event()
        self.ended = threading.Event()

    def start(self) -> None:
        """Begin."""
        from pyspark import InheritableThread

        InheritableThread(target=self._act, daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()

    def cancel(self) -> None:
        """Cancel the jobs, and wait until none runs any more."""
        self._cancel.set()
        self._quiet.wait(_GIVE_UP_SECONDS)

    def result(self) -> T:
        """Return what the action returned, or raise what it raised; call it once it has ended."""
        self._cancel.set()
        if self._error is not None:
            raise self._error
        return self._result[0]

    def _act(self) -> None:
        try:
            self._session.sparkContext.setJobGroup(self._tag, self._description, interruptOnCancel=True)
            self._result.append(self._action(self._session))
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            self._error = error
        finally:
            self.ended.set()

    def _watch(self) -> None:
        """Count tasks until the action ended; after an interrupt, cancel until it has."""
        context = self._session.sparkContext
        tracker = context.statusTracker()
        try:
            while not self.ended.is_set() and not self._cancel.wait(_POLL_SECONDS):
                self.done, self.total = _tasks(tracker, self._tag)
                self.waiting = self.done == 0 < self.total and not _has_workers(context)
            # Again and again: an action may submit another job after one was cancelled.
            while not self.ended.wait(_CANCEL_SECONDS):
                context.cancelJobGroup(self._tag)
            while _is_active(tracker, self._tag) and not threading.Event().wait(_CANCEL_SECONDS):
                context.cancelJobGroup(self._tag)
        except Exception:  # noqa: BLE001, S110 - the JVM is gone, of which the action itself tells
            pass
        finally:
            self._quiet.set()


def run_watched(
    session: SparkSession, action: Callable[[SparkSession], T], description: str, *, tag: str, progress: Progress
) -> T:
    """Run an action, and show five times a second how many tasks of its jobs are done; an interrupt cancels them.

    A cluster that has no workers for the session, which Spark waits for without an end, is told of meanwhile.
    """
    watched = WatchedAction(session, action, description, tag)
    try:
        progress.update(description)
        watched.start()
        while not watched.ended.wait(_POLL_SECONDS):
            waits = ", which waits for workers of the cluster" if watched.waiting else ""
            progress.update(f"{description}{waits}", watched.done, watched.total)
    except BaseException:
        watched.cancel()
        raise
    finally:
        progress.finish("")
    return watched.result()


def run_each(
    session: SparkSession,
    actions: Sequence[Callable[[SparkSession], T]],
    description: str,
    *,
    tag: str,
    check: Callable[[], None] = unchecked,
) -> Generator[T]:
    """Run actions side by side, as many as Spark has cores, and yield each result as it is there.

    An interrupt, an error that `check` raises, or leaving the loop early, cancels those that run. After a failure no
    other action is begun.
    """
    results: SimpleQueue[T] = SimpleQueue()
    watched = WatchedAction(session, lambda running: _side_by_side(running, actions, results), description, tag)
    try:
        watched.start()
        while not watched.ended.wait(_CANCEL_SECONDS) or not results.empty():
            check()
            while not results.empty():
                yield results.get()
    except BaseException:
        watched.cancel()
        raise
    watched.result()


def _side_by_side(
    session: SparkSession, actions: Sequence[Callable[[SparkSession], T]], results: SimpleQueue[T]
) -> None:
    from pyspark import InheritableThread

    waiting: SimpleQueue[Callable[[SparkSession], T]] = SimpleQueue()
    for action in actions:
        waiting.put(action)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            while not errors:
                results.put(waiting.get_nowait()(session))
        except Empty:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    count = min(len(actions), session.sparkContext.defaultParallelism)
    threads = [InheritableThread(target=work, daemon=True) for _ in range(count)]  # they inherit the group of jobs
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _tasks(tracker: StatusTracker, tag: str) -> tuple[int, int]:
    """Return how many of how many tasks are done, over all stages of the group's jobs."""
    stages = {}
    for job in tracker.getJobIdsForGroup(tag):
        known = tracker.getJobInfo(job)
        for stage in known.stageIds if known else ():
            if info := tracker.getStageInfo(stage):
                # By its id, as several jobs share a stage.
                stages[stage] = (info.numCompletedTasks, info.numTasks)
    return sum(done for done, _ in stages.values()), sum(total for _, total in stages.values())


def _has_workers(context: SparkContext) -> bool:
    """Whether anything runs tasks: the driver itself where Spark is local, else another process."""
    if re.match(r"local(\[|$)", context.master or ""):
        return True
    return context._jsc.sc().getExecutorMemoryStatus().size() > 1  # type: ignore[no-any-return]  # noqa: SLF001


def _is_active(tracker: StatusTracker, tag: str) -> bool:
    """Whether a job of the group still runs."""
    infos = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(tag))
    return any(info is not None and info.status == "RUNNING" for info in infos)
