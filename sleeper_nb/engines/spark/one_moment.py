"""The moment of a statement on Spark: its functions of the time get one value, however often its rows are read.

Spark takes the time of each execution, when it optimizes a plan. Its own rule for this is applied here, once, to the
analyzed plans of frames that need the same time: of a statement, and of the same statement over empty frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def asks_for_time(frame: DataFrame) -> bool:
    """Return whether a frame's plan, with the views in it, has a function of the time."""
    plan = _analyzed(frame)
    return not _at_now(frame, plan).fastEquals(plan)


def at_this_moment(frame: DataFrame) -> DataFrame:
    """Return the frame with the time of this call."""
    return _frame_of(frame, _at_now(frame, _analyzed(frame)))


def both_at_this_moment(first: DataFrame, second: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return two frames of a session with one time, that of this call."""
    both = _at_now(first, _analyzed(first.crossJoin(second))).children()  # one plan, so that Spark takes the time once
    return _frame_of(first, both.apply(0)), _frame_of(second, both.apply(1))


def _analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark shows no plans, here and below


def _at_now(frame: DataFrame, plan: Any) -> Any:
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001
    return jvm.org.apache.spark.sql.catalyst.optimizer.ComputeCurrentTime.apply(plan)


def _frame_of(like: DataFrame, plan: Any) -> DataFrame:
    from pyspark.sql import DataFrame

    session: Any = like.sparkSession
    rows = session._jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)  # noqa: SLF001
    return DataFrame(rows, like.sparkSession)
