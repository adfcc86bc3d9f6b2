"""The Spark that a session of this process started: the sessions that use it, the last of which ends it."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.engines.spark.gateway import detach_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sleeper_nb.engines.spark.jvm import Jvm
    from sleeper_nb.engines.spark.spark_runtime import SparkRuntime

STARTS_AND_STOPS: Final = threading.RLock()
"""Held while Spark starts, gets another user or ends, as a process can have only one."""

_ATTRIBUTE: Final = "_sleeper_nb_started"


class StartedSpark:
    """A Spark that was started here, and the engines that use it; its `SparkContext` keeps it.

    Parameters
    ----------
    jvm
        The JVM that was started for it; None if this process had one.
    """

    def __init__(self, jvm: Jvm | None) -> None:
        self.jvm = jvm
        self._users: weakref.WeakSet[SparkRuntime] = weakref.WeakSet()

    @classmethod
    def of(cls, session: SparkSession) -> StartedSpark | None:
        """Return what was kept with the context of a session; None for a Spark that was not started here."""
        return getattr(session.sparkContext, _ATTRIBUTE, None)

    def keep_with(self, session: SparkSession) -> None:
        """Keep this with the context of a session, where other engines find it."""
        context: Any = session.sparkContext
        setattr(context, _ATTRIBUTE, self)

    def join(self, user: SparkRuntime) -> None:
        """Count an engine as a user until it leaves, or is dropped."""
        self._users.add(user)

    def leave(self, user: SparkRuntime) -> None:
        """Count an engine no longer."""
        self._users.discard(user)

    def others(self, user: SparkRuntime) -> tuple[SparkRuntime, ...]:
        """Return the other engines that use it."""
        if len(self._users) > 1:
            gc.collect()  # a session that was dropped without a close is in a cycle, and would count
        return tuple(each for each in self._users if each is not user)


def detach_from_dead() -> None:
    """Make PySpark forget a Spark that an engine started and whose JVM has ended: every question to it would fail."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext

    started: StartedSpark | None = getattr(getattr(SparkContext, "_active_spark_context", None), _ATTRIBUTE, None)
    if started is not None and started.jvm is not None and not started.jvm.alive:
        detach_pyspark(started.jvm.port)
