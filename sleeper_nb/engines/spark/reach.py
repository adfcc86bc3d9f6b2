"""How Spark's tasks reach buckets: with our own storage, which each opens by itself; no S3 jars are needed.

A task on a cluster finds keys as boto3 does there: by its machine's role, profile or environment. A local Spark is this
machine, but its workers have the environment of the moment it started; so they are handed the AWS variables of now.
Keys never leave this machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATTERN = re.compile(r"[*?\[\]{}\\,=]")


def jvm_opens(address: str) -> bool:
    """Return whether Spark's own reader opens a file: a plain local path, in which it sees no pattern or partition."""
    return not address.startswith("s3://") and not _PATTERN.search(address)


def hand_over_keys(spark: SparkSession, storages: Iterable[Storage]) -> None:
    """Let the Python tasks that are made from here on find this process's keys, where Spark is local."""
    context = spark.sparkContext
    if all(storage.local for storage in storages) or not (context.master or "").startswith("local"):
        return
    for name in {name for name in (*context.environment, *os.environ) if name.startswith("AWS_")}:
        # one key at a time, never empty in between: compaction jobs make their tasks side by side
        if name in os.environ:
            context.environment[name] = os.environ[name]
        else:
            context.environment.pop(name, None)
