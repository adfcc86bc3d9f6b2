"""All that is private to PySpark and Py4J: which session and JVM they hold, the Java objects, and what they log.

No other module names a private member of theirs, so one that a release renames is mended here (a test says so).
"""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import TYPE_CHECKING, Any

from sleeper_nb.engines.undisturbed import undisturbed
from sleeper_nb.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)


def silence_pyspark() -> None:
    """Keep PySpark and Py4J from logging what they raise, too.

    PySpark writes kilobytes of JSON for each statement that it cannot analyse. Py4J writes a traceback for each
    question to a JVM that has died; what watches a job in the background asks once more than there are answers.
    """
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_is_of_another)


def _is_of_another(record: logging.LogRecord) -> bool:
    return record.filename != "java_gateway.py" or record.msg != "Exception while sending command."


def active_session() -> SparkSession | None:
    """Return the session that this process has, without importing PySpark for it."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    session: SparkSession | None = getattr(SparkSession, "_instantiatedSession", None)
    context = active_context()
    if session is not None and is_running(session):
        return SparkSession.getActiveSession() or session
    # The program made a context without a session: use the session of that context.
    return None if context is None else SparkSession(context)


def active_context() -> SparkContext | None:
    """Return the context that this process has, without importing PySpark for it."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    return getattr(SparkContext, "_active_spark_context", None)


def is_running(session: SparkSession) -> bool:
    """Return whether a session was not stopped, as PySpark itself tells."""
    return getattr(session.sparkContext, "_jsc", None) is not None


def check_classic(session: SparkSession) -> None:
    """Raise `EngineError` for a session of Spark Connect: its Spark is in no process that this one can reach."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise EngineError(
            "a Spark Connect session cannot be used here: it has no SparkContext",
            hint="leave out spark=, as DuckDB and loads need no Spark; or pass a classic SparkSession",
        )


def attached() -> bool:
    """Return whether PySpark has a JVM, whose session was stopped. There can be no second JVM."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext

    return getattr(SparkContext, "_gateway", None) is not None


def build_session(conf: Mapping[str, str]) -> SparkSession:
    """Build a session in the JVM that PySpark is attached to, or attaches to now.

    Not in the main thread, where PySpark would handle interrupts, and talk to the JVM in the middle of a request.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in conf.items():
        builder = builder.config(name, value)
    session: SparkSession = builder.getOrCreate()
    _silence_exit(session)
    return session


@undisturbed()
def activate(session: SparkSession) -> None:
    """Let PySpark's ``SparkSession.getActiveSession()`` return a session that another thread has built, in this one."""
    session_class = java_class(session, "org.apache.spark.sql.classic.SparkSession")
    session_class.setActiveSession(java_session(session))  # as PySpark does where it builds one


def _silence_exit(session: SparkSession) -> None:
    """Keep PySpark from writing a traceback when the JVM ends first: it takes that for a failed accumulator update."""
    server = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is None:
        return
    handle = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if isinstance(sys.exception(), EOFError | ConnectionError):
            logger.debug("Spark's JVM has closed its connection for accumulators")
        else:
            handle(request, address)

    server.handle_error = handle_error


# The Java objects: PySpark shows none of them.


def java_session(session: SparkSession) -> Any:
    return session._jsparkSession  # noqa: SLF001


def session_state(session: SparkSession) -> Any:
    """Return what a session has of its own in the JVM: its catalog, its parser and its settings."""
    return java_session(session).sessionState()


def java_frame(frame: DataFrame) -> Any:
    return frame._jdf  # noqa: SLF001


def query_execution(frame: DataFrame) -> Any:
    """Return the plans of a DataFrame: the analyzed one, the optimized one and the others."""
    return java_frame(frame).queryExecution()


def java_context(context: SparkContext) -> Any:
    return context._jsc  # noqa: SLF001


def jvm_of(session: SparkSession) -> Any:
    return session.sparkContext._jvm  # noqa: SLF001


def gateway_of(session: SparkSession) -> Any:
    return session.sparkContext._gateway  # noqa: SLF001


def java_array(session: SparkSession, *items: Any) -> Any:
    array = gateway_of(session).new_array(java_class(session, "java.lang.Object"), len(items))
    for at, item in enumerate(items):
        array[at] = item
    return array


def java_class(session: SparkSession, name: str) -> Any:
    """Return a class of Java or Scala by its full name.

    ``jvm.org.apache.spark.…`` asks the JVM about each part of a name: six times as many requests as the call itself.
    """
    from py4j.java_gateway import JavaClass

    return JavaClass(name, gateway_of(session)._gateway_client)  # noqa: SLF001


def frame_of_plan(session: SparkSession, plan: Any) -> DataFrame:
    """Return the rows of a plan of Catalyst whose names are resolved."""
    from pyspark.sql import DataFrame

    rows = java_class(session, "org.apache.spark.sql.classic.Dataset").ofRows(java_session(session), plan)
    return DataFrame(rows, session)


def own_views(session: SparkSession) -> tuple[str, ...]:
    # not PySpark's own list: a job computes it, and waits for a core
    views = session_state(session).catalog().listLocalTempViews("*")
    return tuple(views.apply(index).table() for index in range(views.size()))


def has_function(session: SparkSession, name: str) -> bool:
    """Return whether a session can call a function of a name: one of Spark's, or one that was registered."""
    identifier = java_class(session, "org.apache.spark.sql.catalyst.FunctionIdentifier")(name)
    return bool(session_state(session).catalog().functionExists(identifier))


def delete_with_jvm(session: SparkSession, folder: Path) -> None:
    """Have the JVM delete the folder when it ends, in case this process is killed."""
    gateway = gateway_of(session)
    if gateway is not None:
        for path in (folder, folder / "warehouse"):
            gateway.jvm.java.io.File(str(path)).deleteOnExit()


def detach_pyspark(port: int) -> None:
    """Make PySpark forget the JVM of a port, so that the next session of this process, ours or not, starts another."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = getattr(SparkContext, "_gateway", None)
    if gateway is not None:
        if gateway.gateway_parameters.port != port:
            return  # another engine has ended that JVM, and started one
        with contextlib.suppress(Exception):
            gateway.shutdown()
    for owner, names in (
        (SparkContext, ("_gateway", "_jvm", "_active_spark_context")),
        (SparkSession, ("_instantiatedSession", "_activeSession")),
    ):
        for name in names:
            setattr(owner, name, None)
