"""Run actions on Spark in threads of their own, watch their jobs, and cancel them on an interrupt."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from sleeper_nb.engines.spark.gateway import java_context
from sleeper_nb.progress import unchecked

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from pyspark import SparkContext, SparkStageInfo, StatusTracker
    from pyspark.sql import SparkSession

    from sleeper_nb.progress import Progress

logger = logging.getLogger(__name__)

T = TypeVar("T")

_POLL_SECONDS: Final = 0.2
_CANCEL_SECONDS: Final = 0.1
ENDING_SECONDS: Final = 5.0
"""How long Spark takes to end the tasks of a job that failed: it looks every 2 s, and then gives them 2 s."""
PATIENCE_SECONDS: Final = 10.0
"""How long tasks have to end after a cancel: Spark sets a flag, which compiled loops may not look at."""


class OwnThread(Generic[T]):
    """Work in a thread of its own, which goes on when the thread that waits for it is interrupted.

    It ends by a plain lock: an interrupt can come between any two steps of Python, and would leave an `Event` locked.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work, self._results, self._errors = work, list[T](), list[BaseException]()
        self.has_ended, self._end = False, threading.Lock()
        self._end.acquire()
        threading.Thread(target=self._run, name="sleeper-spark", daemon=True).start()

    def _run(self) -> None:
        try:
            self._results.append(self._work())
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            self._errors.append(error)
        self.has_ended = True
        self._end.release()

    def ends(self) -> bool:
        """Wait a moment for the end, and return whether it has come."""
        return self.has_ended or self._end.acquire(timeout=_POLL_SECONDS)

    def result(self) -> T:
        """Return what the work returned, or raise what it raised; call it after the end."""
        if self._errors:
            raise self._errors[0]
        return self._results[0]


class WatchedAction(Generic[T]):
    """An action on Spark in a thread of its own, and a watcher that counts its tasks and can cancel them.

    Only these two threads talk to the JVM. An interrupt hits the calling thread; if that thread used the connection,
    half an answer would be left in it.

    Parameters
    ----------
    description
        What Spark calls the jobs.
    tag
        How the name of the job group begins.
    patience
        How many seconds tasks have to end after a cancel.

    Attributes
    ----------
    left
        How many tasks still run after the cancel: Spark calls a job cancelled before its tasks have ended.
    is_unresponsive
        Whether the action or its tasks still ran when `cancel` returned.
    """

    def __init__(
        self,
        session: SparkSession,
        action: Callable[[SparkSession], T],
        description: str,
        tag: str,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._patience, self.left, self.is_unresponsive = patience, 0, False
        self._session, self._action, self.description = session, action, description
        # Unique while the watcher lives, which could otherwise cancel the jobs of a later action.
        self._tag = f"{tag}-{id(self):x}"
        self._result: list[T] = []
        self._error: BaseException | None = None
        self.done = self.total = 0
        self.waiting = False
        self._cancel, self._quiet = threading.Event(), threading.Event()
        self._cancelled = False
        self.ended = threading.Event()

    def start(self) -> None:
        from pyspark import InheritableThread

        InheritableThread(target=self._act, daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()

    def cancel(self) -> None:
        """Cancel the jobs, and wait until none of their tasks runs, or the patience has ended."""
        logger.info("cancels the Spark jobs of %s", self.description)
        self._cancelled = True
        self._cancel.set()
        with contextlib.suppress(KeyboardInterrupt):  # a second interrupt: the user does not wait
            self._quiet.wait(self._patience)
        self.is_unresponsive = not self._quiet.is_set()
        if self.is_unresponsive:
            logger.warning("%s still runs on Spark after its cancel: %d tasks", self.description, self.left)

    def result(self) -> T:
        """Return what the action returned, or raise what it raised; call it after the action has ended."""
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
        """Count tasks until the action ends; after an interrupt, cancel its jobs until it ends."""
        context = self._session.sparkContext
        tracker = context.statusTracker()
        try:
            while not self.ended.is_set() and not self._cancel.wait(_POLL_SECONDS):
                stages = _stages(tracker, self._tag).values()
                self.done, self.total = sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages)
                self.waiting = self.done == 0 < self.total and not _has_workers(context)
            # Repeatedly: an action may submit another job after one was cancelled. Also after success: Spark may find
            # an answer while a stage that it does not need still runs.
            while not self.ended.wait(_CANCEL_SECONDS) or _is_active(tracker, self._tag):
                context.cancelJobGroup(self._tag)
                self.left = _running(tracker, self._tag)
            while self._cancelled and (left := _running(tracker, self._tag)):
                self.left = left
                threading.Event().wait(_CANCEL_SECONDS)
            self.left = 0
        except Exception:  # the JVM is gone, which the action itself reports
            logger.debug("can no longer watch %s on Spark", self.description, exc_info=True)
        finally:
            self._quiet.set()


def run_watched(watched: WatchedAction[T], progress: Progress, detail: Callable[[int, int], str] = lambda *_: "") -> T:
    """Run an action, and show five times a second how many tasks of its jobs are done; an interrupt cancels them.

    The progress also says what `detail` returns for these numbers, and
    when a cluster has no workers for the session: Spark waits for them without a limit.
    """
    description = watched.description
    try:
        progress.update(description)
        watched.start()
        while not watched.ended.wait(_POLL_SECONDS):
            waits = ", which waits for workers of the cluster" if watched.waiting else ""
            more = detail(watched.done, watched.total)
            progress.update(f"{description}{more}{waits}", watched.done, watched.total)
    except BaseException:
        watched.cancel()
        raise
    finally:
        progress.finish("")
    return watched.result()


def run_each(
    watched: WatchedAction[None], results: SimpleQueue[T], check: Callable[[], None] = unchecked
) -> Generator[T]:
    """Run actions by `run_in_parallel`, and yield each result as soon as it exists.

    An interrupt, an error that `check` raises, or leaving the loop early cancels the running actions. After a failure,
    no other action is started.
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


def run_in_parallel(
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
    threads = [InheritableThread(target=work, daemon=True) for _ in range(count)]  # they inherit the job group
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def any_stage_again(context: SparkContext) -> bool:
    """Return whether Spark ran a stage of this thread's jobs again: its tasks then count their attempts from 0.

    It does so when a task finds that what another one stored for the shuffle is lost, as with a worker.
    """
    stages = _stages(context.statusTracker(), context.getLocalProperty("spark.jobGroup.id") or "")
    return any(stage.currentAttemptId > 0 for stage in stages.values())


def _running(tracker: StatusTracker, tag: str) -> int:
    return sum(info.numActiveTasks for info in _stages(tracker, tag).values())


def _stages(tracker: StatusTracker, tag: str) -> dict[int, SparkStageInfo]:
    """Return the stages of the group's jobs by their ids, as several jobs share a stage."""
    jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(tag)))
    infos = {stage: tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds}
    return {stage: info for stage, info in infos.items() if info is not None}


def _has_workers(context: SparkContext) -> bool:
    """Return whether anything runs tasks: the driver itself on a local Spark, another process on a cluster."""
    if re.match(r"local(\[|$)", context.master or ""):
        return True
    return java_context(context).sc().getExecutorMemoryStatus().size() > 1  # type: ignore[no-any-return]


def _is_active(tracker: StatusTracker, tag: str) -> bool:
    infos = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(tag))
    return any(info is not None and info.status == "RUNNING" for info in infos)
