"""The settings of Spark that a statement may change: those that change how a query runs, and not what it answers."""

from __future__ import annotations

from typing import Final

from sleeper_nb.errors import InvalidInput

CHANGEABLE: Final = frozenset(
    {
        "spark.sql.shuffle.partitions",
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.broadcastTimeout",
        "spark.sql.cbo.enabled",
        "spark.sql.cbo.joinReorder.enabled",
        "spark.sql.codegen.wholeStage",
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        "spark.sql.files.maxPartitionBytes",
        "spark.sql.files.maxPartitionNum",
        "spark.sql.files.minPartitionNum",
        "spark.sql.files.openCostInBytes",
        "spark.sql.inMemoryColumnarStorage.batchSize",
        "spark.sql.inMemoryColumnarStorage.compressed",
        "spark.sql.join.preferSortMergeJoin",
        "spark.sql.adaptive.enabled",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes",
        "spark.sql.adaptive.autoBroadcastJoinThreshold",
        "spark.sql.adaptive.coalescePartitions.enabled",
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum",
        "spark.sql.adaptive.coalescePartitions.minPartitionSize",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst",
        "spark.sql.adaptive.forceOptimizeSkewedJoin",
        "spark.sql.adaptive.localShuffleReader.enabled",
        "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold",
        "spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled",
        "spark.sql.adaptive.rebalancePartitionsSmallPartitionFactor",
        "spark.sql.adaptive.skewJoin.enabled",
        "spark.sql.adaptive.skewJoin.skewedPartitionFactor",
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes",
    }
)
"""Not among them: names of classes (a catalog, a cost evaluator), what makes a damaged file answer fewer rows
(``spark.sql.files.ignoreCorruptFiles``), and what gives a query another meaning (``spark.sql.session.timeZone``,
``spark.sql.ansi.enabled``, ``spark.sql.caseSensitive``)."""

_TIME_ZONE: Final = "spark.sql.session.timeZone"


def check_change(key: str | None) -> None:
    """Make sure that SQL may change a setting, or take a change of it back.

    Parameters
    ----------
    key
        The setting; None for all of them.

    Raises
    ------
    InvalidInput
        Naming the setting and where it can be set.
    """
    if key is None:
        raise InvalidInput("SQL cannot reset all settings", hint="name one: RESET spark.sql.shuffle.partitions")
    if key in CHANGEABLE:
        return
    hint = f"start with connect(…, spark_config={{{key!r}: …}}), or set it on a Spark session of your own"
    if key == _TIME_ZONE:
        hint = f"write from_utc_timestamp(COLUMN, 'Europe/London'), or {hint}"
    raise InvalidInput(f"SQL cannot change setting {key!r}", hint=hint)
