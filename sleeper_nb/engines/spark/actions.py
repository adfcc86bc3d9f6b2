"""Runs actions on Spark in threads of their own, watches their jobs, and cancels them on an interrupt."""

from __future__ import annotations

import contextlib
import re
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from sleeper_nb.progress import unchecked

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from pyspark import SparkContext, SparkStageInfo, StatusTracker
    from pyspark.sql import SparkSession

    from sleeper_nb.progress import Progress

T = TypeVar("T")

_POLL_SECONDS = 0.2
_CANCEL_SECONDS = 0.1


PATIENCE_SECONDS: Final = 10.0
"""How long tasks have to end after a cancel: Spark sets a flag in them, which compiled loops may not look at."""


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
    patience
        How many seconds tasks have to end after a cancel.

    Attributes
    ----------
    left
        How many tasks run, once the action was cancelled: Spark calls a job cancelled before its tasks have ended.
    is_deaf
        Whether the action or its tasks ran on when `cancel` returned.
    """

    def __init__(
        self,
        session: SparkSession,
        action: Callable[[SparkSession], T],
        description: str,
        tag: str,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._patience, self.left, self.is_deaf = patience, 0, False
        self._session, self._action, self.description = session, action, description
        # One of its own for as long as its watcher lives, who could else cancel the jobs of an action behind it.
        self._tag = f"{tag}-{id(self):x}"
        self._result: list[T] = []
        self._error: BaseException | None = None
        self.done = self.total = 0
        self.waiting = False
        self._cancel, self._quiet = threading.Event(), threading.Event()
        self._cancelled = False
        self.ended = threading.Event()

    def start(self) -> None:
        """Begin."""
        from pyspark import InheritableThread

        InheritableThread(target=self._act, daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()

    def cancel(self) -> None:
        """Cancel the jobs, and wait until no task of them runs any more, or patience has ended."""
        self._cancelled = True
        self._cancel.set()
        with contextlib.suppress(KeyboardInterrupt):  # a second one: the user has no patience
            self._quiet.wait(self._patience)
        self.is_deaf = not self._quiet.is_set()

    def result(self) -> T:
        """Return what the action returned, or raise what it raised; call it once it has ended."""
        self._cancel.set()
        if self._error is not None:
            raise self._error
        return self._result[0]

    def _act(self) -> None:
        try:
            self._session.sparkContext.setJobGroup(self._tag, self.description, interruptOnCancel=True)
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
            while not self.ended.wait(_CANCEL_SECONDS) or _is_active(tracker, self._tag):
                context.cancelJobGroup(self._tag)
                self.left = _running(tracker, self._tag)
            while self._cancelled and (left := _running(tracker, self._tag)):
                self.left = left
                threading.Event().wait(_CANCEL_SECONDS)
            self.left = 0
        except Exception:  # noqa: BLE001, S110 - the JVM is gone, of which the action itself tells
            pass
        finally:
            self._quiet.set()


def run_watched(watched: WatchedAction[T], progress: Progress) -> T:
    """Run an action, and show five times a second how many tasks of its jobs are done; an interrupt cancels them.

    A cluster that has no workers for the session, which Spark waits for without an end, is told of meanwhile.
    """
    description = watched.description
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
    watched: WatchedAction[None], results: SimpleQueue[T], check: Callable[[], None] = unchecked
) -> Generator[T]:
    """Run `side_by_side` actions and yield each result as it is there.

    An interrupt, an error that `check` raises, or leaving the loop early, cancels those that run. After a failure no
    other action is begun.
    """
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


def side_by_side(
    session: SparkSession, actions: Sequence[Callable[[SparkSession], T]], results: SimpleQueue[T]
) -> None:
    """Run actions, as many at once as Spark has cores, and put each result into a queue."""
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
    stages = _stages(tracker, tag).values()
    return sum(info.numCompletedTasks for info in stages), sum(info.numTasks for info in stages)


def _running(tracker: StatusTracker, tag: str) -> int:
    """Return how many tasks of the group's jobs run, also of jobs that were cancelled."""
    return sum(info.numActiveTasks for info in _stages(tracker, tag).values())


def _stages(tracker: StatusTracker, tag: str) -> dict[int, SparkStageInfo]:
    """Return the stages of the group's jobs by their ids, as several jobs share a stage."""
    jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(tag)))
    found = {stage: tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds}
    return {stage: info for stage, info in found.items() if info is not None}


def _has_workers(context: SparkContext) -> bool:
    """Whether anything runs tasks: the driver itself where Spark is local, else another process."""
    if re.match(r"local(\[|$)", context.master or ""):
        return True
    return context._jsc.sc().getExecutorMemoryStatus().size() > 1  # type: ignore[no-any-return]  # noqa: SLF001


def _is_active(tracker: StatusTracker, tag: str) -> bool:
    """Whether a job of the group still runs."""
    infos = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(tag))
    return any(info is not None and info.status == "RUNNING" for info in infos)
