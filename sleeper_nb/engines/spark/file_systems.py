"""Which files Spark's own reader opens: local ones, and those of a bucket that Spark's own S3 file system reaches.

A Spark session can have an S3 file system of Hadoop, with settings and keys of its own: those of EMR and Databricks do,
PySpark as it is installed does not. It is used when it opens the same file as we do, with the same size. Otherwise
Python tasks read with our storage. Nothing is set for it, so none of our keys gets into a setting of Spark.
"""

from __future__ import annotations

import logging
import re
import threading
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sleeper_nb.engines.spark.gateway import java_context, jvm_of
from sleeper_nb.read.scan_plan import ScanPlan
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

SCHEMES: tuple[str, ...] = ("s3a", "s3")
"""The names that S3 file systems have in Spark: Hadoop's own, and that of vendors."""
_PATTERN = re.compile(r"[*?\[\]{}\\,=]")
_FOUND: dict[tuple[str, str], str | None] = {}
_LOCK = threading.Lock()


def is_plain(address: str) -> bool:
    """Return whether Spark's own reader takes an address as it is: it has no patterns and no partitions."""
    return not _PATTERN.search(address)


def scheme_for(spark: SparkSession, plan: ScanPlan, storage: Storage) -> str | None:
    """Return how Spark's own reader opens the files of a plan: "" by their paths, ``s3a`` or ``s3``.

    None where Python tasks read them: Spark cannot open them, or the rows of several files are merged. Spark is asked
    once about each bucket, for the first file.
    """
    if not plan.processing.only_filters:
        return None
    if storage.local:
        return "" if is_plain(storage.root) else None
    located = [storage.locate(file.filename) for file in plan.files]
    if not located or not all(map(is_plain, located)):
        return None
    # files that were added from other buckets are read by tasks
    buckets = {urlsplit(address).netloc for address in located}
    if len(buckets) > 1:
        return None
    key = (spark.sparkContext.applicationId or "", buckets.pop())
    with _LOCK:
        if key not in _FOUND:
            _FOUND[key] = _reaching(spark, located[0], plan.files[0].bytes)
        return _FOUND[key]


def opened_by(scheme: str, located: str) -> str:
    return f"{scheme}{located.removeprefix('s3')}" if scheme else located


def reader_words(spark: SparkSession, plan: ScanPlan, storage: Storage) -> str:
    """Return who reads the files of a plan on Spark, for the line below an answer; "" for a folder, or no file."""
    if storage.local or not plan.files:
        return ""
    scheme = scheme_for(spark, plan, storage)
    return f"files by Spark's {scheme}" if scheme else "files by Python workers"


def _reaching(spark: SparkSession, located: str, size: int) -> str | None:
    """Return the scheme of Spark's file system that finds a file with this size."""
    jvm, configuration = jvm_of(spark), java_context(spark.sparkContext).hadoopConfiguration()
    for scheme in SCHEMES:
        try:
            path = jvm.org.apache.hadoop.fs.Path(opened_by(scheme, located))
            found = path.getFileSystem(configuration).getFileStatus(path).getLen()
        except Exception as error:  # noqa: BLE001 - no such file system, or its keys, server, region or network differ
            logger.info("Spark's %s does not open %s: %s", scheme, located, _short(error))
        else:
            if found == size:
                logger.info("Spark's own %s reads the files of %s", scheme, located.rpartition("/")[0])
                return scheme
            logger.info("Spark's %s finds another file at %s", scheme, located)
    return None


def _short(error: Exception) -> str:
    """Return what a Java exception is, without its text, which may hold an address with keys."""
    java = getattr(error, "java_exception", None)
    return str(java.getClass().getName()) if java is not None else type(error).__name__
