"""Choose what a statement on Spark reads: by its conditions, and by the keys of small inputs that it joins.

Spark plans the statement over empty frames first. DuckDB then reads the keys of small inputs, without a job of Spark.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.duckdb.dynamic_pruning import dynamic_pruning_of, large_tables
from sleeper_nb.engines.spark import frames
from sleeper_nb.engines.spark.frame_joins import joined_keys_in
from sleeper_nb.engines.spark.kept_frames import KeptFrames
from sleeper_nb.engines.spark.spark_pushdown import EmptyFrame, push_down, with_whole_lists
from sleeper_nb.errors import InvalidInput
from sleeper_nb.sql.binding import Bound
from sleeper_nb.sql.variables import BoundVariable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class SparkPlanning:
    """What one statement is planned with.

    Parameters
    ----------
    bound
        The statement, which reads whole tables.
    database
        Reads the keys of small inputs.
    kept
        The frames that this Spark session has made before; also those that stand in for tables.
    dry_run
        Whether no row may be read.
    """

    bound: Bound
    database: Database
    kept: KeptFrames
    dry_run: bool

    @property
    def spark(self) -> SparkSession:
        """The Spark session."""
        return self.kept.spark

    @cached_property
    def stand_ins(self) -> dict[str, EmptyFrame]:
        """The empty frames that stand in for the tables and variables, by generated name."""
        mark, tables = self.bound.unused_mark, self.bound.tables
        found = {
            name: EmptyFrame.of(at, rows.state.schema, mark, with_places=name in self.bound.with_places)
            for at, (name, rows) in enumerate(tables.items())
        }
        return found | _of_variables(self.spark, self.bound, len(found), mark)

    def empty_frames(self) -> dict[str, DataFrame]:
        """Return the frames, by generated name."""
        return {name: self.kept.frame(each, partial(each.frame, self.spark)) for name, each in self.stand_ins.items()}

    def pruned(self, empty: DataFrame) -> tuple[Bound, str]:
        """Return the statement with less to read, and which keys were read for that, for users.

        Parameters
        ----------
        empty
            The statement over the empty frames.
        """
        with with_whole_lists(self.spark):
            pushed = push_down(empty, self.stand_ins)
            read = self.bound.pruned(pushed)
            if not large_tables(read, pushed):
                return read, ""
            joined = joined_keys_in(empty, self.stand_ins)
        return dynamic_pruning_of(read, joined, pushed).pruned(read, pushed, self.database, dry_run=self.dry_run)


def _of_variables(spark: SparkSession, bound: Bound, first: int, mark: str) -> dict[str, EmptyFrame]:
    """Return stand-ins for variables with rows in memory, by generated name."""
    stand_ins = {}
    for at, (name, what) in enumerate(bound.by_name.items(), first):
        if isinstance(what, BoundVariable) and what.spark_frame is None:
            try:
                rows = frames.of_variable(spark, replace(what, rows=what.to_arrow().slice(0, 0)))
            except InvalidInput as error:  # which the statement itself raises after this
                logger.debug("no keys of %s are read first: %s", what, error)
                continue
            stand_ins[name] = EmptyFrame.like(at, rows, mark)
    return stand_ins
