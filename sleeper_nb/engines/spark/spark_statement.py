"""Make the rows of a bound statement on Spark: judge it, choose what it reads, and name its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.engines.spark import frames
from sleeper_nb.engines.spark.one_moment import asks_for_time, at_this_moment, both_at_this_moment
from sleeper_nb.engines.spark.spark_planning import SparkPlanning
from sleeper_nb.engines.spark.spark_pushdown import why_not_planned
from sleeper_nb.engines.spark.spark_reads import check_reads, is_command
from sleeper_nb.read.predicate import PushedPredicates
from sleeper_nb.read.scan_plan import TableRows
from sleeper_nb.sql.binding import Bound, BoundSource
from sleeper_nb.sql.references import lists_columns
from sleeper_nb.sql.variables import BoundVariable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_MOMENTS: Final = 3


@dataclass(frozen=True, slots=True)
class SparkStatement:
    """A statement that Spark runs.

    Parameters
    ----------
    planning
        The statement, and what plans it.
    values
        Those of its parameters.
    local_files
        Whether it may read files of this machine.
    session_id
        Identifies the session, where several share one Spark.
    """

    planning: SparkPlanning
    values: Mapping[str, Any]
    local_files: bool
    session_id: str

    def rows(self, why_whole: str = "") -> tuple[Bound, str, DataFrame]:
        """Return the statement without what its plan excludes, which keys were read first, and its rows.

        `why_whole` says why tables are read whole, without planning.
        """
        bound = self.planning.bound
        for statement in bound.statements:
            check_reads(self.planning.spark, statement, local_files=self.local_files)
        why = why_whole or why_not_planned(bound.statements)
        if not why and is_command(bound.statement):  # which may change something, such as a variable, each time
            why = "the statement is a command of Spark"
        if not bound.tables or why:
            read = bound.pruned(PushedPredicates({}, why)) if bound.tables else bound
            return read, "", self._frame(read)
        empty = self._frame(bound, self.planning.empty_frames())
        if asks_for_time(empty):
            return self._at_one_moment(empty)
        read, keys = self.planning.pruned(empty)
        return read, keys, self._frame(read)

    def _at_one_moment(self, empty: DataFrame) -> tuple[Bound, str, DataFrame]:
        """Return a statement that asks for the time, and its rows, as of one moment.

        The files are chosen before there is a frame of rows, whose time is later; what it needs then is compared with
        them.
        """
        read, keys = self.planning.pruned(empty)
        for _ in range(_MOST_MOMENTS):
            now, empty_now = both_at_this_moment(self._frame(read), empty)
            needed, keys_now = self.planning.pruned(empty_now)
            if all(_has_all_files(read.tables[name], needed.tables[name]) for name in read.tables):
                return read, keys, now
            read, keys = needed, keys_now
        read = self.planning.bound.pruned(PushedPredicates({}, "its conditions change with the time too fast"))
        return read, "", at_this_moment(self._frame(read))

    def _frame(self, bound: Bound, instead: Mapping[str, DataFrame] | None = None) -> DataFrame:
        """Return the rows of a bound statement, with frames `instead` of tables, by generated name."""
        return self._of(bound, self.values, instead or {})

    def _of(self, bound: Bound, values: Mapping[str, Any], instead: Mapping[str, DataFrame]) -> DataFrame:

        spark, named = self.planning.spark, dict[str, Any]()
        for name, what in bound.named.items():
            if isinstance(what, Bound):
                named[name] = self._of(what, {}, instead)
            elif name in instead:
                named[name] = instead[name]
            elif isinstance(what, BoundVariable):
                named[name] = frames.of_variable(spark, what)
            elif isinstance(what.rows, TableRows):
                named[name] = self._table(what, what.rows, with_comments=lists_columns(bound.statement, name))
            else:
                named[name] = frames.system_table(spark, what.rows)
        return frames.query(self.planning.kept, bound.statement, named, values, session_id=self.session_id)

    def _table(self, what: BoundSource, rows: TableRows, *, with_comments: bool) -> DataFrame:

        read = frames.data_frame(self.planning.kept, rows.plan, what.storage, with_places=what.with_places)
        return frames.commented(read, rows.state.schema) if with_comments else read


def _has_all_files(read: TableRows, needed: TableRows) -> bool:
    """Return whether a plan reads all that another plan of the same version needs."""
    return set(needed.plan.files) <= set(read.plan.files)
