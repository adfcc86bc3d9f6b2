"""A session of Spark for one load, with settings of its own: those of the user's session stay, also for other threads.

A DataFrame is computed in a copy of its own session, as settings like ANSI, the time zone, the parser of times and old
casts decide what its values are, and the session of the engine may have others.

Spark hands rows to Python in batches of 10,000, which costs a fifth more CPU time than larger ones. Batches are limited
by bytes as well, so that wide rows and packed pieces take no more memory.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.engines.spark.gateway import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

_BATCH_ROWS: Final = 65_536
_ROWS, _BYTES = "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch"


def load_session(spark: SparkSession, batch_bytes: int, frame: DataFrame | None = None) -> SparkSession:
    """Return a session with the settings and views of another, except for the most that a batch of rows may have.

    The other is that of `frame`, which decides what its values are; `spark` for other rows.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:  # the JVM knows the session: PySpark may name another for a frame that the JVM made
        other = spark._jsparkSession if frame is None else frame._jdf.sparkSession()  # noqa: SLF001 - no other way
        own = _wrapped(spark, other.cloneSession())
    except (Py4JError, PySparkException) as error:
        logger.debug(
            "a Spark that cannot copy its session loads with the batches that it has: %s", type(error).__name__
        )
        return spark if frame is None else frame.sparkSession
    own.conf.set(_ROWS, _BATCH_ROWS)
    own.conf.set(_BYTES, batch_bytes)
    return own


def _wrapped(spark: SparkSession, session: Any) -> SparkSession:
    """Return a session of the JVM as PySpark has it; `RDD.toDF` stays that of the user's session."""
    from pyspark import RDD
    from pyspark.sql import SparkSession

    before = RDD.toDF
    try:
        return SparkSession(spark.sparkContext, session)
    finally:
        RDD.toDF = before  # type: ignore[method-assign]  # PySpark gives it to the latest session


def in_session(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """Return a DataFrame as one of `spark`, a copy of its session: its plan is computed with the settings of that."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if frame.sparkSession is spark:
        return frame
    try:
        # not the analyzed plan: a command would run again
        return frame_of(spark, frame._jdf.logicalPlan())  # noqa: SLF001 - PySpark has no other way
    except (Py4JError, PySparkException, TypeError) as error:
        logger.debug("Spark computes a DataFrame with the settings of its session: %s", type(error).__name__)
        return frame
