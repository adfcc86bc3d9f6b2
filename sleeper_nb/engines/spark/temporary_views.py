"""Temporary views for one statement of Spark, without the commands that make and drop views.

PySpark makes a view by a command, which Spark plans and executes as any other: that takes fifteen times as long as to
put the view into the session's catalog, and longer than to read a small table.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sleeper_nb.engines.spark.gateway import java_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)


class TemporaryViews:
    """Makes and drops temporary views of one Spark session.

    What Spark's catalog has for the first view serves for all later ones, each with a plan of its own: a query takes
    nothing else of it. Commands such as ``DESCRIBE`` show its name and columns.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._pattern: Any = None
        self._has_pattern = True

    @contextlib.contextmanager
    def named(self, frames: Mapping[str, DataFrame], *, for_query: bool) -> Iterator[None]:
        """Give frames names, which statements find until the block ends.

        Parameters
        ----------
        frames
            By names that nothing else in the session has.
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
                self._catalog.dropTempView(name)  # not PySpark's, which would also uncache a frame of the user's

    @cached_property
    def _catalog(self) -> Any:
        return self._spark._jsparkSession.sessionState().catalog()  # noqa: SLF001 - PySpark's own makes commands

    def _put(self, name: str, frame: DataFrame) -> bool:
        """Put a view into the catalog; return False where this Spark must make it by a command."""
        from py4j.protocol import Py4JError

        if not self._has_pattern:
            return False
        option, plan = java_class(self._spark, "scala.Option"), frame._jdf.queryExecution().analyzed()  # noqa: SLF001
        try:
            if self._pattern is None:
                frame.createOrReplaceTempView(name)
                made = self._catalog.getRawTempView(name).get()
                self._pattern = made.copy(made.tableMeta(), option.empty())
            view = self._pattern.copy(self._pattern.tableMeta(), option.apply(plan))
            self._catalog.createTempView(name, view, True)  # noqa: FBT003 - of Java
        except Py4JError as error:
            logger.info("views are made by commands: the catalog of this Spark is another one (%s)", error)
            self._has_pattern = False
        return self._has_pattern
