"""A session of Spark for one load, with settings of its own: those of the user's session stay, also for other threads.

Spark hands rows to Python in batches of 10,000, which costs a fifth more CPU time than larger ones. Batches are limited
by bytes as well, so that wide rows and packed pieces take no more memory.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

_BATCH_ROWS: Final = 65_536
_ROWS, _BYTES = "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch"


def load_session(spark: SparkSession, batch_bytes: int) -> SparkSession:
    """Return a session with the settings and views of another, except for the most that a batch of rows may have."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        own = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())  # noqa: SLF001 - no other way
    except (Py4JError, PySparkException) as error:
        logger.debug(
            "a Spark that cannot copy its session loads with the batches that it has: %s", type(error).__name__
        )
        return spark
    own.conf.set(_ROWS, _BATCH_ROWS)
    own.conf.set(_BYTES, batch_bytes)
    return own


def in_session(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """Return a DataFrame of another session as one of `spark`: its plan is computed with the settings of that."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql.classic.dataframe import DataFrame as OfPlan

    if frame.sparkSession is spark:
        return frame
    try:
        of = spark._jvm.org.apache.spark.sql.classic.Dataset  # type: ignore[union-attr]  # noqa: SLF001 - no other way
        plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - as above
        return OfPlan(of.ofRows(spark._jsparkSession, plan), spark)  # noqa: SLF001 - as above
    except (Py4JError, PySparkException, TypeError) as error:
        logger.debug("Spark computes a DataFrame with the settings of its session: %s", type(error).__name__)
        return frame
