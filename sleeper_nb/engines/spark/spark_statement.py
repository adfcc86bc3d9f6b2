"""Run a query on Spark: judge it, choose what it reads, name its tables; and its rows, a DataFrame.

Spark plans the statement over empty frames first. DuckDB then reads the keys of small inputs, without a job of Spark.

Functions of the time have one value, however often the rows of a statement are read. Spark takes the time of each
execution, when it optimizes a plan. Its own rule for this is applied here, once, to the analyzed plans of frames that
need the same time: of a statement, and of the same statement over empty frames.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import pyarrow as pa

from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.duckdb.dynamic_pruning import dynamic_pruning_of, large_tables
from sleeper_nb.engines.engine import EngineName, EngineQuery
from sleeper_nb.engines.spark import frames
from sleeper_nb.engines.spark.frame_joins import joined_keys_in
from sleeper_nb.engines.spark.gateway import frame_of_plan, java_class, query_execution
from sleeper_nb.engines.spark.spark_pushdown import EmptyFrame, push_down, why_not_planned, with_whole_lists
from sleeper_nb.engines.spark.spark_reads import check_reads, is_command
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.errors import DEEP_CHECK, Cancelled, InvalidInput, SleeperError
from sleeper_nb.model.deletions import FILE_NUMBER, POSITION
from sleeper_nb.model.schema import Field, is_utf8
from sleeper_nb.read.predicate import PushedPredicates
from sleeper_nb.read.scan_plan import TableRows
from sleeper_nb.sql.binding import Bound
from sleeper_nb.sql.bound_lakes import BoundLake, LakeColumn
from sleeper_nb.sql.chart_sums import ChartQuery, ChartValue
from sleeper_nb.sql.references import lists_columns
from sleeper_nb.sql.variables import BoundVariable
from sleeper_nb.tabular import tables_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


logger = logging.getLogger(__name__)

T = TypeVar("T")

_PLACES: Final = ((FILE_NUMBER, "int"), (POSITION, "bigint"))


def _columns(fields: Iterable[Field | LakeColumn]) -> list[tuple[str, str]]:
    return [(field.name, frames.type_text(field.type)) for field in fields]


@dataclass(frozen=True, eq=False)
class SparkStatement:
    """A statement that Spark runs.

    Parameters
    ----------
    query
        The statement, which reads whole tables, and the values of its parameters.
    session_id
        Identifies the session, where several share one Spark.
    """

    query: EngineQuery
    database: Database
    spark: SparkSession
    local_files: bool
    session_id: str

    @cached_property
    def _stand_ins(self) -> dict[str, EmptyFrame]:
        """The empty frames that stand in for the tables, and for variables with rows in memory, by generated name."""
        bound = self.query.bound
        mark, found = bound.unused_mark, dict[str, EmptyFrame]()
        for name, rows in bound.tables.items():
            places = _PLACES if name in bound.with_places else ()
            found[name] = EmptyFrame.of(len(found), mark, [*_columns(rows.state.schema.fields), *places])
        for name, lake in bound.lakes.items():
            found[name] = EmptyFrame.of(len(found), mark, _columns(lake.fields))
        for name, what in bound.by_name.items():
            if isinstance(what, BoundVariable) and what.spark_frame is None:
                try:
                    empty = frames.of_variable(self.spark, replace(what, rows=what.to_arrow().slice(0, 0)))
                except InvalidInput as error:  # which the statement itself raises after this
                    logger.debug("no keys of %s are read first: %s", what, error)
                    continue
                found[name] = EmptyFrame.of(len(found), mark, empty.dtypes)
        return found

    def rows(self) -> tuple[Bound, str, DataFrame]:
        """Return the statement without what its plan excludes, which keys were read first, and its rows."""
        bound = self.query.bound
        for statement in bound.statements:
            check_reads(self.spark, statement, local_files=self.local_files)
        why = self.query.why_whole or why_not_planned(bound.statements)
        if not why and is_command(bound.statement):  # which may change something, such as a variable, each time
            why = "the statement is a command of Spark"
        if not (bound.tables or bound.lakes) or why:
            read = bound.pruned(PushedPredicates({}, why)) if bound.tables else bound
            return read, "", self._frame(read)
        stand_ins = self._stand_ins.items()
        empty = self._frame(bound, {name: each.frame(self.spark) for name, each in stand_ins})
        if _asks_for_time(empty):
            return self._at_one_moment(empty)
        read, keys = self._pruned(empty)
        return read, keys, self._frame(read)

    def _at_one_moment(self, empty: DataFrame) -> tuple[Bound, str, DataFrame]:
        """Return a statement that asks for the time, and its rows, as of one moment.

        The files are chosen before there is a frame of rows, whose time is later; what it needs then is compared with
        them.
        """
        read, keys = self._pruned(empty)
        now, empty_now = _both_at_this_moment(self._frame(read), empty)
        needed, _ = self._pruned(empty_now)
        if all(set(needed.tables[name].plan.files) <= set(read.tables[name].plan.files) for name in read.tables):
            return read, keys, now
        read = self.query.bound.pruned(PushedPredicates({}, "its conditions change with the time"))
        frame = self._frame(read)
        return read, "", frame_of_plan(self.spark, _at_now(frame, _analyzed(frame)))

    def _pruned(self, empty: DataFrame) -> tuple[Bound, str]:
        """Return the statement with less to read, and which keys were read for that; `empty` is over the stand-ins."""
        with with_whole_lists(self.spark):
            pushed = push_down(empty, self._stand_ins)
            read = self.query.bound.pruned(pushed)
            if not large_tables(read, pushed):
                return read, ""
            joined = joined_keys_in(empty, self._stand_ins)
        found = dynamic_pruning_of(read, joined, pushed)
        return found.pruned(read, pushed, self.database, dry_run=self.query.dry_run)

    def _frame(self, bound: Bound, instead: Mapping[str, DataFrame] | None = None) -> DataFrame:
        """Return the rows of a bound statement, with frames `instead` of tables, by generated name."""
        return self._of(bound, self.query.values, instead or {})

    def _of(self, bound: Bound, values: Mapping[str, Any], instead: Mapping[str, DataFrame]) -> DataFrame:
        spark, named = self.spark, dict[str, Any]()
        for name, what in bound.named.items():
            if isinstance(what, Bound):
                named[name] = self._of(what, {}, instead)
            elif name in instead:
                named[name] = instead[name]
            elif isinstance(what, BoundVariable):
                named[name] = frames.of_variable(spark, what)
            elif isinstance(what, BoundLake):
                named[name] = frames.of_lake(spark, what)
            elif isinstance(what.rows, TableRows):
                rows = frames.data_frame(spark, what.rows.plan, what.storage, with_places=what.with_places)
                is_listed = lists_columns(bound.statement, name)
                named[name] = frames.commented(rows, what.rows.state.schema) if is_listed else rows
            else:
                named[name] = frames.of_arrow(spark, what.rows.columns())
        return frames.query(spark, bound.statement, named, values, session_id=self.session_id)


def _asks_for_time(frame: DataFrame) -> bool:
    """Return whether a frame's plan, with the views in it, has a function of the time."""
    plan = _analyzed(frame)
    return not _at_now(frame, plan).fastEquals(plan)


def _both_at_this_moment(first: DataFrame, second: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return two frames of a session with one time, that of this call."""
    both = _at_now(first, _analyzed(first.crossJoin(second))).children()  # one plan, so that Spark takes the time once
    return frame_of_plan(first.sparkSession, both.apply(0)), frame_of_plan(first.sparkSession, both.apply(1))


def _analyzed(frame: DataFrame) -> Any:
    return query_execution(frame).analyzed()


def _at_now(frame: DataFrame, plan: Any) -> Any:
    rule = java_class(frame.sparkSession, "org.apache.spark.sql.catalyst.optimizer.ComputeCurrentTime")
    return rule.apply(plan)


@dataclass(frozen=True, slots=True, eq=False)
class SparkRows:
    """Rows that Spark reads.

    Parameters
    ----------
    bound
        The statement, for the places of errors.
    """

    bound: Bound
    native: DataFrame
    runtime: SparkRuntime
    _cancelled: threading.Event = field(default_factory=threading.Event)
    engine: ClassVar[EngineName] = "spark"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.native.columns)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for _, kind in self.native.dtypes)

    def again(self) -> SparkRows:
        return replace(self, _cancelled=threading.Event())

    def cancel(self) -> None:
        self._cancelled.set()

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
        return self._run(lambda: frames.summed_for_chart(self.native, values, query), "chart")

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
        self._unless_cancelled()
        with self.placing():
            return self.runtime.run(lambda _: action(), description, detail=self._unless_cancelled)

    def _unless_cancelled(self, *_: int) -> str:
        """Say nothing about a job that runs; raise when it was cancelled, which cancels its tasks."""
        if self._cancelled.is_set():
            raise Cancelled("the query was cancelled", hint="run it again to read its rows")
        return ""
