"""Run a query on Spark: judge it, choose what it reads, name its tables; and its rows, a DataFrame.

Spark plans the statement over empty frames first. DuckDB then reads the keys of small inputs, without a job of Spark.

Functions of the time have one value, however often the rows of a statement are read. Spark takes the time of each
execution, when it optimizes a plan. Its own rule for this is applied here, once, to the analyzed plans of frames that
need the same time: of a statement, and of the same statement over empty frames.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import pyarrow as pa

from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.duckdb.dynamic_pruning import dynamic_pruning_of, large_tables
from sleeper_nb.engines.engine import EngineName
from sleeper_nb.engines.spark import frames
from sleeper_nb.engines.spark.frame_joins import joined_keys_in
from sleeper_nb.engines.spark.gateway import frame_of_plan, java_class
from sleeper_nb.engines.spark.kept_frames import KeptFrames
from sleeper_nb.engines.spark.spark_pushdown import EmptyFrame, push_down, why_not_planned, with_whole_lists
from sleeper_nb.engines.spark.spark_reads import check_reads, is_command
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.errors import DEEP_CHECK, InvalidInput, SleeperError
from sleeper_nb.model.schema import is_utf8
from sleeper_nb.read.predicate import PushedPredicates
from sleeper_nb.read.scan_plan import TableRows
from sleeper_nb.sql.binding import Bound, BoundSource
from sleeper_nb.sql.chart_sums import ChartQuery, ChartValue
from sleeper_nb.sql.references import lists_columns
from sleeper_nb.sql.variables import BoundVariable
from sleeper_nb.tabular import tables_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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


T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class SparkRows:
    """Rows that Spark reads.

    Parameters
    ----------
    bound
        The statement, for the places of errors.
    native
        The rows as a DataFrame.
    runtime
        Runs their jobs.
    """

    bound: Bound
    native: DataFrame
    runtime: SparkRuntime
    engine: ClassVar[EngineName] = "spark"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.native.columns)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for _, kind in self.native.dtypes)

    def first(self, rows: int) -> pa.Table:
        return self._collected(self.native.limit(rows))

    def all(self) -> pa.Table:
        return self._collected(self.native)

    def count(self) -> int:
        return int(self._run(self.native.count))

    def batches(self, rows: int) -> Generator[pa.Table]:
        """Compute the rows once, keep them cached until the last batch, and read them in batches."""
        kept = self._run(self.native.persist)  # otherwise each batch is computed again, perhaps in another order
        try:
            for first in count(0, rows):
                batch = self._collected(kept.offset(first).limit(rows))
                yield batch
                if batch.num_rows < rows:
                    return
        finally:
            kept.unpersist()

    def batches_to_iterate(self, _: int) -> Generator[pa.Table]:
        yield from tables_of(self.all())

    def summed(self, values: Sequence[ChartValue], query: ChartQuery) -> pa.Table:
        made = self.runtime.kept_frames(self.native.sparkSession)
        return self._run(lambda: frames.summed_for_chart(made, self.native, values, query), "chart")

    def plan(self) -> str:
        return self._run(lambda: frames.plan_of(self.native), "plan")

    def plan_in(self, rows: pa.Table) -> str | None:
        if rows.column_names != ["plan"] or rows.num_rows != 1:
            return None
        (text,) = rows.column(0).to_pylist()
        return text.rstrip() if isinstance(text, str) and text.startswith("== ") else None

    def to_load(self, names: Sequence[str]) -> DataFrame:
        return self.native.toDF(*names)

    @contextmanager
    def placing(self) -> Iterator[None]:
        try:
            yield
        except SleeperError as error:
            for source in self.bound.sources:
                source.check_files()
            self.bound.texts.placed(error)
            raise

    def _collected(self, frame: DataFrame) -> pa.Table:
        try:
            rows = self._run(lambda: frames.as_arrow_has_it(frame).toArrow())
        except SleeperError:
            raise
        except ValueError as error:  # Arrow has no type for the elements of an empty list
            hint = "cast it: CAST(array() AS array<string>)"
            raise InvalidInput(f"Arrow has no type for a column of Spark's answer: {error}", hint=hint) from error
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            if not is_utf8(column):  # Spark does not check
                hint = f"take its bytes: CAST(`{name}` AS binary); a deep check names the data file: "
                raise InvalidInput(f"column {name!r} has text that is not UTF-8", hint=(hint, DEEP_CHECK))
        return rows

    def _run(self, action: Callable[[], T], description: str = "query") -> T:
        with self.placing():
            return self.runtime.run(lambda _: action(), description)


def asks_for_time(frame: DataFrame) -> bool:
    """Return whether a frame's plan, with the views in it, has a function of the time."""
    plan = _analyzed(frame)
    return not _at_now(frame, plan).fastEquals(plan)


def at_this_moment(frame: DataFrame) -> DataFrame:
    return frame_of_plan(frame.sparkSession, _at_now(frame, _analyzed(frame)))


def both_at_this_moment(first: DataFrame, second: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return two frames of a session with one time, that of this call."""
    both = _at_now(first, _analyzed(first.crossJoin(second))).children()  # one plan, so that Spark takes the time once
    return frame_of_plan(first.sparkSession, both.apply(0)), frame_of_plan(first.sparkSession, both.apply(1))


def _analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark shows no plans, here and below


def _at_now(frame: DataFrame, plan: Any) -> Any:
    rule = java_class(frame.sparkSession, "org.apache.spark.sql.catalyst.optimizer.ComputeCurrentTime")
    return rule.apply(plan)
