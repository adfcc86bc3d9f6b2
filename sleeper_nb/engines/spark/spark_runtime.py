"""The one Spark session: started on first use, watched while it works, stopped by the last session that uses it."""

from __future__ import annotations

import atexit
import contextlib
import gc
import logging
import tempfile
import threading
import weakref
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, TypeVar

from sleeper_nb.engines.cache_folder import cache_folder
from sleeper_nb.engines.spark.actions import (
    PATIENCE_SECONDS,
    OwnThread,
    WatchedAction,
    run_each,
    run_in_parallel,
    run_watched,
)
from sleeper_nb.engines.spark.gateway import (
    activate,
    active_context,
    active_session,
    attached,
    build_session,
    check_classic,
    delete_with_jvm,
    detach_pyspark,
    is_running,
    silence_pyspark,
)
from sleeper_nb.engines.spark.jvm import find_java, launch_jvm, plan_jvm
from sleeper_nb.engines.spark.jvm_archive import ARCHIVE, archive_of, make_in_background
from sleeper_nb.engines.spark.spark_errors import explain
from sleeper_nb.engines.spark.spark_settings import ignored_settings, logged_settings, own_settings
from sleeper_nb.engines.spark.spark_workers import equip_workers
from sleeper_nb.errors import EngineError
from sleeper_nb.progress import Progress, unchecked
from sleeper_nb.storage.local import remove_abandoned

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from sleeper_nb.clock import Clock
    from sleeper_nb.engines.spark.jvm import Jvm

logger = logging.getLogger(__name__)

T = TypeVar("T")

STARTS_AND_STOPS: Final = threading.RLock()
"""Held while Spark starts, gets another user or ends, as a process can have only one."""

_ATTRIBUTE: Final = "_sleeper_nb_started"


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Raise Spark's errors as ours, in one line, with Spark's own error as the cause."""
    try:
        yield
    except Exception as error:
        explained = explain(error)
        if explained is None or explained is error:
            raise
        raise explained from error


class SparkRuntime:
    """Spark, started with its first use.

    Parameters
    ----------
    session
        A session to use as it is; it is never stopped here. By default the active session of this process is used;
        if there is none, one is started. The last engine that uses a session that an engine started stops it.
    config
        Settings of Spark that override ours, and one more: ``spark.sleeper.archive`` (``true``, or ``false`` to keep no
        class-data archive in the cache folder).
    on_session
        Called once with each session that is used, before its first work.
    """

    def __init__(
        self,
        session: SparkSession | None = None,
        *,
        config: Mapping[str, str] | None = None,
        clock: Clock,
        progress: Progress,
        on_session: Callable[[SparkSession], object] = lambda _: None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._session, self._on_session, self._patience = session, on_session, patience
        self._config = dict(config or {})
        self._clock = clock
        self._progress = progress
        self._jvm: Jvm | None = None
        self._shared: StartedSpark | None = None
        self._given = session is not None
        self._after_first_answer: Callable[[], object] | None = None
        self._maker: object = None
        self._lock = threading.RLock()
        self._start: OwnThread[SparkSession] | None = None
        self._is_starting = False
        if session is not None:
            with STARTS_AND_STOPS:
                self._use(session)
            self._adapt_to(session)

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def started(self) -> bool:
        """Whether there is a session that answers."""
        session = self._session
        if session is None or (self._jvm is not None and not self._jvm.alive):
            return False
        return is_running(session)

    def session(self) -> SparkSession:
        """Return the session, started first when there is none.

        Raises
        ------
        EngineError
            There is no Java, Spark did not start, or the session that was passed in was stopped.
        """
        if threading.current_thread() is not threading.main_thread():  # only that gets interrupts
            return self._ready_session()
        start, self._start = self._start, None
        if start is None or start.has_ended:
            with self._lock:
                if self._session is not None and self.started:
                    if start is not None:
                        activate(self._session)
                    return self._session
            start = OwnThread(self._ready_session)
        self._start = start
        return self._awaited(start)

    def _awaited(self, start: OwnThread[SparkSession]) -> SparkSession:
        """Return the session of a start, which goes on after an interrupt: the next use waits for it again.

        An interrupt of PySpark's own requests would leave half an answer in its connection, and two tracebacks.
        """
        is_shown = False
        try:
            while not start.ends():
                if self._is_starting:
                    is_shown = True
                    self._progress.update("Starting Spark…")
        finally:
            if is_shown:
                self._progress.finish("")
        self._start = None
        session = start.result()
        activate(session)
        return session

    def _ready_session(self) -> SparkSession:
        """Return the session, which this thread starts when there is none."""
        with self._lock:
            if self._session is not None and self.started:
                return self._session
            if self._given:
                raise EngineError("the Spark session that was passed in was stopped", hint="pass another one")
            with STARTS_AND_STOPS:
                self._forget()
                detach_from_dead()
                active = active_session()
                session = self._new_session() if active is None else active
                self._use(session)
            if active is None:
                equip_workers(session)
                self._on_session(session)
            else:
                self._adapt_to(session)
            return session

    def run(
        self,
        action: Callable[[SparkSession], T],
        description: str,
        *,
        detail: Callable[[int, int], str] = lambda *_: "",
    ) -> T:
        """Run an action with the session, show its progress, and cancel its jobs when it is interrupted.

        Parameters
        ----------
        description
            The text of the progress, and the name of the jobs in Spark.
        detail
            Returns what the progress says after the description, when so many of so many tasks are done.

        Raises
        ------
        KeyboardInterrupt
            The user interrupted; no task of the action runs any more, or a note of the error says which still do.
        SleeperError
            Spark failed: in one line, with Spark's own error as its cause.
        """
        with _explained(), self._noted(self._watched(action, description)) as watched:
            result = run_watched(watched, self._progress, detail)
        self._answered()
        return result

    def run_each(
        self,
        actions: Sequence[Callable[[SparkSession], T]],
        description: str,
        *,
        check: Callable[[], None] = unchecked,
    ) -> Generator[T]:
        """Run actions side by side and yield each result as soon as it exists; otherwise as `run`, without progress.

        `check` is called repeatedly; when it raises, all jobs are cancelled.
        """
        results: SimpleQueue[T] = SimpleQueue()
        together = partial(run_in_parallel, actions=actions, results=results)
        with _explained(), self._noted(self._watched(together, description)) as watched:
            yield from run_each(watched, results, check)
        self._answered()

    def _watched(self, action: Callable[[SparkSession], T], description: str) -> WatchedAction[T]:
        return WatchedAction(self.session(), action, description, self._clock.new_id(), self._patience)

    @contextlib.contextmanager
    def _noted(self, watched: WatchedAction[T]) -> Iterator[WatchedAction[T]]:
        """Say in a note of the error when an action still runs after its cancel."""
        try:
            yield watched
        except BaseException as error:
            if watched.is_unresponsive:
                what = f"{watched.left} tasks" if watched.left > 1 else "a task" if watched.left else "the driver"
                how = "stop that Spark session" if self._jvm is None else "close the session"
                note = (
                    f"Still running: {what} of Spark, which did not react to the stop. Later statements wait for their "
                    f"cores. To end them, {how}."
                )
                error.add_note(note)
                if not isinstance(error, KeyboardInterrupt):
                    self._progress.finish(note)
            raise

    def _answered(self) -> None:
        """Start what waited for the first answer."""
        with self._lock:
            after, self._after_first_answer = self._after_first_answer, None
        if after is not None:
            self._maker = after()  # kept, as Python warns about a process without a reference

    def stop(self) -> None:
        """Stop Spark and its JVM if an engine started them and no other one uses them; a later use starts another."""
        with self._lock, STARTS_AND_STOPS:
            if self._shared is None or self._given or self._shared.others(self):
                self._jvm = None  # it is not for this engine to end it
            elif self._session is not None and self.started:
                self._session.stop()
                logger.info("Spark stopped")
            self._forget()

    def _adapt_to(self, session: SparkSession) -> None:
        """Work with a session as it is, and note the settings in which it differs from one started here."""
        if self.started:
            names = sorted(ignored_settings(session, self._config))
            logger.info("uses the Spark session of this process; settings that differ: %s", " ".join(names) or "none")
            if requested := [name for name in names if name in self._config]:
                self._progress.finish(f"Spark runs already, and ignores {', '.join(requested)}")
            equip_workers(session)
            self._on_session(session)

    def _use(self, session: SparkSession) -> None:
        """Work with a session from now on, as one of its users if an engine started it."""
        check_classic(session)
        silence_pyspark()
        self._session, self._shared = session, StartedSpark.of(session)
        if self._shared is not None:
            self._shared.users.add(self)
            self._jvm = None if self._given else self._shared.jvm

    def _forget(self) -> None:
        """Drop the session, and end the JVM if it was started here."""
        if self._jvm is not None:
            atexit.unregister(self._jvm.release)
            detach_pyspark(self._jvm.port)
            self._jvm.stop()
        if self._shared is not None:
            self._shared.users.discard(self)
        self._session, self._jvm, self._shared = None, None, None
        self._after_first_answer = None

    def _new_session(self) -> SparkSession:
        """Start Spark; other engines of this process can then use it, too."""
        self._is_starting = True
        try:
            session = self._started_session()
        finally:
            self._is_starting = False
        setattr(session.sparkContext, _ATTRIBUTE, StartedSpark(self._jvm))  # where other engines find it
        return session

    def _started_session(self) -> SparkSession:
        """Start a JVM unless PySpark has one already, and a session in it."""
        folder = Path(tempfile.mkdtemp(prefix="sleeper_nb-spark-"))
        conf = own_settings(folder, self._config)
        if attached():
            logger.info("Spark starts in the JVM that this process has: %s", logged_settings(conf))
            session = build_session(conf)
            delete_with_jvm(session, folder)
            return session
        cache = cache_folder()
        remove_abandoned(cache, self._clock.now())  # archives that were not written to the end
        plan, log = plan_jvm(find_java(), conf), cache / "spark.log"
        archive = archive_of(plan, cache) if conf.get(ARCHIVE, "true") == "true" else None
        began = self._clock.now()
        logger.info("Spark starts on Java %s (%s): %s", plan.java.version, plan.java.origin, logged_settings(plan.conf))
        try:
            self._jvm = jvm = launch_jvm(plan, folder, log, flags=archive.flags if archive else ())
            atexit.register(jvm.release)
            import pyspark.sql  # noqa: F401 - loads while the JVM starts

            jvm.wait_ready()
            with jvm.attach_next_session():
                session = build_session(dict(plan.conf))
            delete_with_jvm(session, folder)
        except BaseException:
            self._forget()
            raise
        logger.info("Spark started in %.1f s", (self._clock.now() - began).total_seconds())
        if archive is not None:
            self._after_first_answer = lambda: make_in_background(plan, archive, log)
        return session


@dataclass(frozen=True, slots=True, eq=False)
class StartedSpark:
    """A Spark that was started here, and the engines that use it; its `SparkContext` keeps it.

    Parameters
    ----------
    jvm
        The JVM that was started for it; None if this process had one.
    """

    jvm: Jvm | None
    users: weakref.WeakSet[SparkRuntime] = field(default_factory=weakref.WeakSet)

    @classmethod
    def of(cls, session: SparkSession) -> StartedSpark | None:
        """Return what was kept with the context of a session; None for a Spark that was not started here."""
        return getattr(session.sparkContext, _ATTRIBUTE, None)

    def others(self, user: SparkRuntime) -> tuple[SparkRuntime, ...]:
        if len(self.users) > 1:
            gc.collect()  # a session that was dropped without a close is in a cycle, and would count
        return tuple(each for each in self.users if each is not user)


def detach_from_dead() -> None:
    """Make PySpark forget a Spark that an engine started and whose JVM has ended: every question to it would fail."""
    started: StartedSpark | None = getattr(active_context(), _ATTRIBUTE, None)
    if started is not None and started.jvm is not None and not started.jvm.alive:
        detach_pyspark(started.jvm.port)
