"""How Spark's tasks reach data: with our own storage, which each opens by itself; no S3 jars are needed.

A task on a cluster finds keys as boto3 does there: by its machine's role, profile or environment. A local Spark is this
machine, but its workers have the environment of the moment it started; so they are handed the AWS variables of now.
Keys never leave this machine. A folder is the same one for all only where machines share it, so what tasks of a cluster
wrote to a folder is looked for before anything refers to it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sleeper_nb.engines.spark.jvm import is_local
from sleeper_nb.errors import StorageError
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
    if all(storage.local for storage in storages) or not _on_this_machine(spark):
        return
    for name in {name for name in (*context.environment, *os.environ) if name.startswith("AWS_")}:
        # one key at a time, never empty in between: compaction jobs make their tasks side by side
        if name in os.environ:
            context.environment[name] = os.environ[name]
        else:
            context.environment.pop(name, None)


def check_written(spark: SparkSession, storage: Storage, files: Iterable[str]) -> None:
    """Make sure that files which tasks wrote are where this process sees them.

    Raises
    ------
    StorageError
        When a machine of a cluster wrote into a folder of its own, naming the file.
    """
    if not storage.local or _on_this_machine(spark):
        return
    for file in files:
        if not storage.has(file):
            raise StorageError(
                f"a worker of Spark wrote {storage.locate(file)}, which is not on this machine",
                hint="keep the warehouse at s3://…, or in a folder that all machines share",
            )


def _on_this_machine(spark: SparkSession) -> bool:
    return is_local(spark.sparkContext.master)
