"""The moment of a statement on Spark: its functions of the time get one value, however often its rows are read.

Spark takes the time of each execution, when it optimizes a plan. Its own rule for this is applied here, once, to the
analyzed plans of frames that need the same time: of a statement, and of the same statement over empty frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sleeper_nb.engines.spark.gateway import frame_of, java_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def asks_for_time(frame: DataFrame) -> bool:
    """Return whether a frame's plan, with the views in it, has a function of the time."""
    plan = _analyzed(frame)
    return not _at_now(frame, plan).fastEquals(plan)


def at_this_moment(frame: DataFrame) -> DataFrame:
    """Return the frame with the time of this call."""
    return frame_of(frame.sparkSession, _at_now(frame, _analyzed(frame)))


def both_at_this_moment(first: DataFrame, second: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return two frames of a session with one time, that of this call."""
    both = _at_now(first, _analyzed(first.crossJoin(second))).children()  # one plan, so that Spark takes the time once
    return frame_of(first.sparkSession, both.apply(0)), frame_of(first.sparkSession, both.apply(1))


def _analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark shows no plans, here and below


def _at_now(frame: DataFrame, plan: Any) -> Any:
    rule = java_class(frame.sparkSession, "org.apache.spark.sql.catalyst.optimizer.ComputeCurrentTime")
    return rule.apply(plan)
