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
                self._catalog.dropTempView(name)  # not PySpark's, which would also uncache the user's frame

    @cached_property
    def _catalog(self) -> Any:
        return self._spark._jsparkSession.sessionState().catalog()  # noqa: SLF001 - PySpark's own makes commands

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
            plan = java_class(self._spark, "scala.Option").apply(frame._jdf.logicalPlan())  # noqa: SLF001
            self._catalog.createTempView(name, self._pattern.copy(self._pattern.tableMeta(), plan), True)  # noqa: FBT003
        except Py4JError as error:
            logger.info("views are made by commands, as Spark's catalog lacks the methods for it: %s", error)
            self.is_quick = False
        return self.is_quick
