"""Frames that Spark made before, for later statements: over data files, which never change, and empty ones.

Spark looks up each file when a frame over it is made, which takes longer than a small query.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Final

from sleeper_nb.engines.spark.gateway import frame_of
from sleeper_nb.engines.spark.temporary_views import TemporaryViews
from sleeper_nb.last_used import LastUsed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_MOST_FRAMES: Final = 64
_MOST_FILES: Final = 1000
"""Of one frame that is kept: Spark holds the place and size of each file in memory."""


class KeptFrames:
    """The frames of one Spark session that were used last, and what names them in its statements."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark, self.views = spark, TemporaryViews(spark)
        self._frames = LastUsed[Hashable, "DataFrame"](_MOST_FRAMES)

    def frame(self, key: Hashable, make: Callable[[], DataFrame]) -> DataFrame:
        """Return the frame of a key, which `make` makes when it is not there."""
        found = self._frames.get(key)
        return self._frames.put(key, make()) if found is None else found

    def files(self, columns: str, paths: Sequence[str]) -> DataFrame:
        """Return the rows of Parquet files as a frame with these columns, in Spark's DDL."""

        def read() -> DataFrame:
            return exact_reader(self.spark).schema(columns).parquet(*paths)

        return read() if len(paths) > _MOST_FILES else self.frame((columns, *paths), read)

    def files_apart(self, columns: str, paths: Sequence[str], names: Sequence[str]) -> DataFrame:
        """Return the rows of `files` under other names, with columns that differ from those of any other use of them.

        Spark tells columns by ids, and two frames with the same ids cannot be joined.
        """
        from py4j.protocol import Py4JError

        rows = self.files(columns, paths)
        if rows.columns == list(names):
            with contextlib.suppress(Py4JError):  # an extension of Spark has put another node above the files
                return frame_of(self.spark, rows._jdf.queryExecution().analyzed().newInstance())  # noqa: SLF001
        return rows.toDF(*names)  # takes twice as long


def exact_reader(spark: SparkSession) -> DataFrameReader:
    """Return a reader that gives all rows of its files unchanged, or fails, whatever the session's settings are.

    Settings could skip damaged or missing files, and shift dates before 1582 into another calendar. Parquet's Java
    library takes 0.0 and -0.0 for different values where it compares a condition with the dictionary of a column.
    """
    return spark.read.options(
        **{
            "ignoreCorruptFiles": "false",
            "ignoreMissingFiles": "false",
            "datetimeRebaseMode": "CORRECTED",
            "int96RebaseMode": "CORRECTED",
            "parquet.page.verify-checksum.enabled": "true",
            "parquet.filter.dictionary.enabled": "false",
        }
    )
