"""Frames that Spark made before, for later statements: over data files, which never change, and empty ones.

Spark looks up each file when a frame over it is made, which takes longer than a small query. PySpark makes a temporary
view of a frame by a command, which takes fifteen times as long as to put the view into the session's catalog.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.engines.spark.gateway import frame_of_plan, java_class, java_frame, query_execution, session_state
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
                return frame_of_plan(self.spark, query_execution(rows).analyzed().newInstance())
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


logger = logging.getLogger(__name__)


class TemporaryViews:
    """Makes and drops temporary views of one Spark session.

    What Spark's catalog has for the first view serves for all later ones, each with a plan of its own: a query takes
    nothing else of it. Commands such as ``DESCRIBE`` show its name and columns.

    Attributes
    ----------
    is_quick
        Whether views are put into the catalog; False once its methods turned out to be others.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._pattern: Any = None
        self.is_quick = True

    @contextlib.contextmanager
    def create(self, frames: Mapping[str, DataFrame], *, for_query: bool) -> Iterator[None]:
        """Give frames names, which statements find until the block ends.

        Parameters
        ----------
        for_query
            Whether the statement is a query, and no command that shows what the catalog has.
        """
        try:
            for name, frame in frames.items():
                if not (for_query and self._put(name, frame)):
                    frame.createOrReplaceTempView(name)
            yield
        finally:
            for name in frames:
                self._catalog.dropTempView(name)  # not PySpark's, which would also uncache the user's frame

    @cached_property
    def _catalog(self) -> Any:
        return session_state(self._spark).catalog()  # PySpark's own makes commands

    def _put(self, name: str, frame: DataFrame) -> bool:
        """Put a view into the catalog; return False where this Spark must make it by a command."""
        from py4j.protocol import Py4JError

        if not self.is_quick:
            return False
        if self._pattern is None:
            frame.createOrReplaceTempView(name)
        try:
            if self._pattern is None:
                made, none = self._catalog.getRawTempView(name).get(), java_class(self._spark, "scala.Option").empty()
                self._pattern = made.copy(made.tableMeta(), none)
            # what the frame's command returned, if it is one: the analyzed plan would run it again
            plan = java_class(self._spark, "scala.Option").apply(java_frame(frame).logicalPlan())
            self._catalog.createTempView(name, self._pattern.copy(self._pattern.tableMeta(), plan), True)  # noqa: FBT003
        except Py4JError as error:
            logger.info("views are made by commands, as Spark's catalog lacks the methods for it: %s", error)
            self.is_quick = False
        return self.is_quick
