"""Runs one action on Spark in a thread of its own, watches its jobs, and cancels them on an interrupt."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import SparkContext, StatusTracker
    from pyspark.sql import SparkSession

    from sleeper_nb.progress import Progress

T = TypeVar("T")

_POLL_SECONDS = 0.2
_CANCEL_SECONDS = 0.1
_GIVE_UP_SECONDS = 10


@dataclass(slots=True)
class _Box(Generic[T]):
    """What the threads of one action tell each other."""

    result: list[T] = field(default_factory=list)
    error: BaseException | None = None
    done: int = 0
    total: int = 0
    cancel: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    quiet: threading.Event = field(default_factory=threading.Event)


def run_watched(
    session: SparkSession, action: Callable[[SparkSession], T], description: str, *, tag: str, progress: Progress
) -> T:
    """Run an action, and show how many tasks of its jobs are done.

    Only the two threads that are started here talk to the JVM. An interrupt hits the calling thread, and would leave
    half an answer in its connection if that were in use.

    Parameters
    ----------
    session
        The session that the action is given.
    action
        What to do.
    description
        What the progress says, and what Spark calls the jobs.
    tag
        The name of the group of jobs, used once.
    progress
        Told five times a second.
    """
    from pyspark import InheritableThread

    box: _Box[T] = _Box()
    context = session.sparkContext

    def act() -> None:
        try:
            context.setJobGroup(tag, description, interruptOnCancel=True)
            box.result.append(action(session))
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            box.error = error
        finally:
            box.ended.set()

    actor = InheritableThread(target=act, daemon=True)
    watcher = threading.Thread(target=_watch, args=(context, tag, box), daemon=True)
    try:
        progress.update(description)
        actor.start()
        watcher.start()
        while not box.ended.wait(_POLL_SECONDS):
            progress.update(description, box.done, box.total)
    except BaseException:
        box.cancel.set()
        box.quiet.wait(_GIVE_UP_SECONDS)
        raise
    finally:
        box.cancel.set()
        progress.finish("")
    if box.error is not None:
        raise box.error
    return box.result[0]


def _watch(context: SparkContext, tag: str, box: _Box[T]) -> None:
    """Count tasks until the action ended; after an interrupt, cancel until it has."""
    tracker = context.statusTracker()
    try:
        while not box.ended.is_set() and not box.cancel.wait(_POLL_SECONDS):
            box.done, box.total = _tasks(tracker, tag)
        # Again and again: an action may submit another job after one was cancelled.
        while not box.ended.wait(_CANCEL_SECONDS):
            context.cancelJobGroup(tag)
        while _is_active(tracker, tag) and not threading.Event().wait(_CANCEL_SECONDS):
            context.cancelJobGroup(tag)
    except Exception:  # noqa: BLE001, S110 - the JVM is gone, of which the action itself tells
        pass
    finally:
        box.quiet.set()


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


def _is_active(tracker: StatusTracker, tag: str) -> bool:
    """Whether a job of the group still runs."""
    infos = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(tag))
    return any(info is not None and info.status == "RUNNING" for info in infos)
