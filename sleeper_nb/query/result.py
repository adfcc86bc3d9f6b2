"""The result of a query: its first rows for display, all rows in any form; nothing is read before it is needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sleeper_nb.arguments import checked
from sleeper_nb.clock import Clock
from sleeper_nb.display.chart import Chart
from sleeper_nb.display.chart_marks import KINDS, ChartKind, LogAxes
from sleeper_nb.display.chart_points import MOST_POINTS, can_draw, chart_of_rows, columns_of_chart
from sleeper_nb.display.chart_ranges import chart_of_sums, query_of_chart
from sleeper_nb.display.preview import DEFAULT_DISPLAY, FirstRows, Reads
from sleeper_nb.engines.duckdb.interrupts import interruptible
from sleeper_nb.engines.undisturbed import undisturbed
from sleeper_nb.errors import DEEP_CHECK, InvalidInput, NotFound, SleeperError
from sleeper_nb.model.schema import is_utf8
from sleeper_nb.query.cost import EnginePlan, QueryCost
from sleeper_nb.query.engine_choice import ChosenEngine, Engine
from sleeper_nb.query.rows_to_load import LOADED_ROWS, RowsToLoad
from sleeper_nb.report import Answer, Grid, Report, counted, data_rows
from sleeper_nb.sql.binding import BoundSource
from sleeper_nb.sql.chart_sums import ChartQuery, ChartValue
from sleeper_nb.sql.error_place import Texts
from sleeper_nb.tabular import Tabular, as_dict, as_rows, tables_of, with_distinct_names
from sleeper_nb.versions.leases import ReadGuard, hold_versions

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from sleeper_nb.engines.spark.engine import SparkEngine

T = TypeVar("T")

_Readable: TypeAlias = "tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyRelation]"
"""A connection, and rows on it."""

ROWS_AT_ONCE = 2_000
"""About how many rows `QueryResult.batches` fetches at a time."""
_FIRST_BATCHES = 3
"""How many batches an iteration reads at once: from an answer of one, these are all, with an empty one and the end."""


@dataclass(frozen=True, slots=True)
class QueryOrigin:
    """What a statement reads, each table and version in its order; by which engine; when it began, by which clock.

    `texts` find the place of an error in it. A `note` is shown below the rows, as are the `variables` that it reads.
    """

    sources: tuple[BoundSource, ...]
    engine: ChosenEngine
    began: datetime
    clock: Clock
    texts: Texts
    note: str = ""
    variables: tuple[str, ...] = ()


class QueryResult(Report, Tabular, ABC):
    """The rows of a statement, not read yet; a notebook shows the first rows, as many as `display` says.

    Parameters
    ----------
    origin
        What the statement reads, by which engine, and when it began.

    Attributes
    ----------
    sources
        Each table and version that the statement reads, in its order.
    variables
        The variables that it reads, as text: ``variable df``.
    chosen
        Which engine reads it, and why.
    display
        How many rows are shown, and whether the time that they took is shown too.
    """

    __slots__ = ("_head", "_known_count", "_note", "_texts", "chosen", "display", "sources", "variables")

    def __init__(self, origin: QueryOrigin) -> None:
        self.sources, self.variables = origin.sources, origin.variables
        self.chosen, self.display, self._texts = origin.engine, DEFAULT_DISPLAY, origin.texts
        self._head, self._note = FirstRows(origin.clock, origin.began), origin.note
        self._known_count: int | None = None

    @property
    def engine(self) -> Engine:
        """Which engine reads it."""
        return self.chosen.name

    @abstractmethod
    def _first(self, rows: int) -> pa.Table: ...

    @abstractmethod
    def _all(self) -> pa.Table: ...

    @abstractmethod
    def _count(self) -> int: ...

    @abstractmethod
    def _batches(self, rows: int) -> Generator[pa.Table]: ...

    @abstractmethod
    def _batches_to_iterate(self) -> Generator[pa.Table]: ...

    @abstractmethod
    def _summed(self, values: Sequence[ChartValue], query: ChartQuery) -> pa.Table: ...

    @abstractmethod
    def _plan(self) -> str: ...

    def cost(self) -> QueryCost:
        """Return what the statement reads of each table and version; no row is read."""
        return QueryCost(self.sources, self.chosen, self.variables)

    def explain(self) -> EnginePlan:
        """Return how the engine would run the statement; no row is read."""
        return EnginePlan(self.engine, self._plan())

    def _keep_files(self) -> None:
        """Protect the files of each version until the session closes: the caller may read them at any time."""
        for guard in self._guards():
            guard.until_closed("sql")

    def _guards(self) -> tuple[ReadGuard, ...]:
        return tuple(source.guard for source in self.sources if source.guard is not None)

    def to_arrow(self) -> pa.Table:
        """Read all rows into Arrow."""
        with hold_versions(self._guards(), "sql"):
            rows = self._all()
        self._known_count = rows.num_rows
        return rows

    def __len__(self) -> int:
        if self._known_count is None:
            with hold_versions(self._guards(), "sql"):
                self._known_count = self._count()
        return self._known_count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        batches = self._counted_batches()
        # begun here, not with the first row: list() asks for the number next, which runs the statement once more
        first = [as_rows(batch) for batch in islice(batches, _FIRST_BATCHES)]
        return chain.from_iterable(chain(first, map(as_rows, batches)))

    def _counted_batches(self) -> Iterator[pa.Table]:
        """Yield all rows in batches, and know their number at the end; their files are protected until then."""
        number = 0
        with hold_versions(self._guards(), "sql"), closing(self._batches_to_iterate()) as batches:
            for batch in batches:
                number += batch.num_rows
                yield batch
        self._known_count = number

    @abstractmethod
    def to_spark(self) -> DataFrame:
        """Return the rows as a Spark DataFrame."""

    @property
    @abstractmethod
    def kinds(self) -> tuple[str, ...]:
        """The type of each column, in the words of the engine."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order; no row is read."""

    @abstractmethod
    def _to_load(self, names: Sequence[str]) -> RowsToLoad | DataFrame: ...

    @contextmanager
    def rows_to_load(self, names: Sequence[str]) -> Iterator[RowsToLoad | DataFrame]:
        """Yield the rows as a load takes them, under other names; they are read once.

        Their files are protected until the load ends. An error of the query is raised as such, whatever the load made
        of it.
        """
        rows = self._to_load(names)
        try:
            with hold_versions(self._guards(), "sql"):
                yield rows
        except BaseException:
            if isinstance(rows, RowsToLoad) and rows.error is not None:
                raise rows.error from None
            raise

    @checked
    def head(self, rows: int = DEFAULT_DISPLAY.rows) -> pa.Table:
        """Return the first rows, in the statement's order."""
        return self._head.upto(self._guarded_first, max(rows, self.display.rows + 1)).slice(0, rows)

    def _guarded_first(self, rows: int) -> pa.Table:
        with hold_versions(self._guards(), "sql"):
            return self._first(rows)

    def grid(self) -> Grid:
        """Return the first rows, and below them the versions, what is read of each, and how long it took."""
        plans = (source.plan for source in self.sources if source.plan is not None)
        return self._head.grid(self._guarded_first, self.display, self.source_text, self._note, Reads.of(plans))

    def _answered_plan(self) -> EnginePlan | None:
        """Return the plan that ``EXPLAIN`` answers, all lines in one value; None for any other statement."""
        return EnginePlan.of_answer(self.engine, self._head.upto(self._guarded_first, self.display.rows + 1))

    def __repr__(self) -> str:
        plan = self._answered_plan()
        return self.grid().text() if plan is None else repr(plan)

    def _repr_html_(self) -> str:
        plan = self._answered_plan()
        return self.grid().html() if plan is None else plan._repr_html_()

    def batches(self) -> Iterator[pa.Table]:
        """Yield all rows, in the statement's order, in batches that are read one by one.

        DuckDB continues where it was. Spark computes the answer once and caches it until the last batch.
        """
        self._keep_files()
        yield from self._batches(ROWS_AT_ONCE)

    @checked
    def plot(
        self,
        kind: ChartKind | None = None,
        x: str | None = None,
        y: str | None = None,
        *,
        color: str | None = None,
        facet: str | None = None,
        log: LogAxes | None = None,
    ) -> Chart:
        """Return a chart of the rows; parameters and errors as `sleeper_nb.display.chart_points.columns_of_chart`.

        Up to 10,000 rows of a line, 2,000 points or 60 bars are drawn one by one. More are summed up by the engine, and
        the chart says how; a histogram always is.
        """
        if kind is not None and kind not in KINDS:
            raise NotFound.of("chart", kind, KINDS)
        with hold_versions(self._guards(), "sql"):
            rows = with_distinct_names(self._first(0) if kind == "hist" else self.head(MOST_POINTS + 1))
            columns = columns_of_chart(rows.schema, kind, x, y, color=color, facet=facet, log=log)
            is_chosen = x is not None and (y is not None or columns.kind == "hist")
            footer = self.source_text if is_chosen else columns.with_not_drawn(rows.column_names, self.source_text)
            if can_draw(rows, columns):
                return chart_of_rows(rows, columns, footer)
            return chart_of_sums(self._summed(*query_of_chart(columns)), columns, footer)

    @property
    def source_text(self) -> str:
        """What was read, and by which engine: ``flights at snapshot 12 · duckdb``, and why if it was chosen."""
        sources = ", ".join(dict.fromkeys((*map(str, self.sources), *self.variables)))
        return f"{sources} · {self.chosen}" if sources else str(self.chosen)

    @checked
    def answer(self, footer: str) -> Answer:
        """Read all rows, to show them all; below them their number, and `footer`."""
        rows = self.to_arrow()
        cells = data_rows(rows)
        shown = Grid(tuple(rows.column_names), cells, footer=f"{counted(rows.num_rows, 'row')} · {footer}")
        return Answer(shown, rows)

    def to_dict(self) -> dict[str, Any]:
        """Return all rows, a list of values per column."""
        return as_dict(self.to_arrow())


class DuckDBResult(QueryResult):
    """Rows that DuckDB reads, on a connection, with names, of their own.

    Parameters
    ----------
    origin
        What the statement reads, and when it began.
    connection
        A connection that can open only the files of the statement.
    rows
        The rows, on that connection.
    has_common_tables
        Whether the statement has a ``WITH``: DuckDB 2.0 can wait for ever when such rows are limited.
    free_rows
        Returns the same rows on another connection, without limits, and that: for the caller's program, and for what is
        asked while batches are being read.
    spark
        Returns the Spark engine.
    """

    __slots__ = ("_connection", "_free_rows", "_has_common_tables", "_is_read", "_rows", "_spark")

    def __init__(
        self,
        origin: QueryOrigin,
        connection: duckdb.DuckDBPyConnection,
        rows: duckdb.DuckDBPyRelation,
        has_common_tables: bool,
        free_rows: Callable[[], _Readable],
        spark: Callable[[], SparkEngine],
    ) -> None:
        super().__init__(origin)
        self._connection, self._rows, self._free_rows, self._spark = connection, rows, free_rows, spark
        self._has_common_tables, self._is_read = has_common_tables, False

    def _first(self, rows: int) -> pa.Table:
        from sleeper_nb.engines.duckdb import relations

        if self._has_common_tables:
            with closing(self._batches(max(rows, 1))) as batches:
                return next(batches).slice(0, rows)
        return self._run(lambda all_rows: relations.to_arrow(all_rows.limit(rows)), self._texts.placed_in_made_rows)

    def _all(self) -> pa.Table:
        from sleeper_nb.engines.duckdb import relations

        return self._run(relations.to_arrow)

    def _count(self) -> int:
        from sleeper_nb.engines.duckdb import relations

        return self._run(relations.count, self._texts.placed_in_made_rows)

    def _batches(self, rows: int) -> Generator[pa.Table]:
        from sleeper_nb.engines.duckdb import relations

        connection, all_rows = self._readable()
        is_own = connection is self._connection
        self._is_read |= is_own
        try:
            with closing(relations.batches(all_rows, rows)) as batches:
                while (batch := self._on(connection, lambda: next(batches, None))) is not None:
                    yield batch
        finally:
            self._is_read &= not is_own

    def _batches_to_iterate(self) -> Generator[pa.Table]:
        return self._batches(ROWS_AT_ONCE)

    def _summed(self, values: Sequence[ChartValue], query: ChartQuery) -> pa.Table:
        from sleeper_nb.engines.duckdb import relations

        summed = partial(relations.summed_for_chart, values=values, query=query)
        return self._run(summed, self._texts.placed_in_made_rows)

    def _plan(self) -> str:
        return self._run(lambda rows: rows.explain().rstrip())

    def _readable(self) -> _Readable:
        """Return the rows and their connection: another one while batches are read from ours, which would end them."""
        return self._free_rows() if self._is_read else (self._connection, self._rows)

    def _run(
        self, action: Callable[[duckdb.DuckDBPyRelation], T], placed: Callable[[SleeperError], object] | None = None
    ) -> T:
        connection, rows = self._readable()
        return self._on(connection, partial(action, rows), placed)

    def _on(
        self,
        connection: duckdb.DuckDBPyConnection,
        action: Callable[[], T],
        placed: Callable[[SleeperError], object] | None = None,
    ) -> T:
        try:
            return interruptible(connection, action)
        except BaseException as error:
            if not isinstance(error, SleeperError):
                raise
            for source in self.sources:  # which names a file that is gone or was changed
                source.check_files()
            (placed or self._texts.placed)(error)
            raise

    @property
    def names(self) -> tuple[str, ...]:  # noqa: D102 - the contract is in QueryResult
        with undisturbed():
            return tuple(self._rows.columns)

    @property
    def kinds(self) -> tuple[str, ...]:  # noqa: D102 - the contract is in QueryResult
        with undisturbed():
            return tuple(map(str, self._rows.types))

    def _to_load(self, names: Sequence[str]) -> RowsToLoad:
        return RowsToLoad(self._batches(LOADED_ROWS), names)

    def to_duckdb(self) -> duckdb.DuckDBPyRelation:
        """Return a relation of the rows, from which a program can go on, and which it can write to files."""
        self._keep_files()
        return self._free_rows()[1]

    def to_spark(self) -> DataFrame:  # noqa: D102 - the contract is in QueryResult
        return self._spark().session().createDataFrame(self.to_arrow())


class SparkResult(QueryResult):
    """Rows that Spark reads."""

    __slots__ = ("_frame", "_spark")

    def __init__(self, origin: QueryOrigin, frame: DataFrame, spark: SparkEngine) -> None:
        super().__init__(origin)
        self._frame, self._spark = frame, spark

    def _first(self, rows: int) -> pa.Table:
        return self._collected(self._frame.limit(rows))

    def _all(self) -> pa.Table:
        return self._collected(self._frame)

    def _collected(self, frame: DataFrame) -> pa.Table:
        from sleeper_nb.engines.spark import frames

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

    def _count(self) -> int:
        return int(self._run(self._frame.count))

    def _batches_to_iterate(self) -> Generator[pa.Table]:
        yield from tables_of(self._all())  # each batch of Spark is a job

    def _batches(self, rows: int) -> Generator[pa.Table]:
        kept = self._run(self._frame.persist)  # otherwise each batch is computed again, perhaps in another order
        try:
            for first in count(0, rows):
                batch = self._collected(kept.offset(first).limit(rows))
                yield batch
                if batch.num_rows < rows:
                    return
        finally:
            kept.unpersist()

    def _summed(self, values: Sequence[ChartValue], query: ChartQuery) -> pa.Table:
        from sleeper_nb.engines.spark import frames

        made = self._spark.kept_frames(self._frame.sparkSession)
        return self._run(lambda: frames.summed_for_chart(made, self._frame, values, query), "chart")

    def _plan(self) -> str:
        from sleeper_nb.engines.spark import frames

        return self._run(lambda: frames.plan_of(self._frame), "plan")

    def _run(self, action: Callable[[], T], description: str = "query") -> T:
        with self._placing():
            return self._spark.run(lambda _: action(), description)

    @contextmanager
    def _placing(self) -> Iterator[None]:
        """Add the place in the statement to an error of Spark; raise another for a file that is gone or was changed."""
        try:
            yield
        except SleeperError as error:
            for source in self.sources:
                source.check_files()
            self._texts.placed(error)
            raise

    @contextmanager
    def rows_to_load(self, names: Sequence[str]) -> Iterator[RowsToLoad | DataFrame]:  # noqa: D102 - in QueryResult
        with self._placing(), super().rows_to_load(names) as rows:
            yield rows

    @property
    def names(self) -> tuple[str, ...]:  # noqa: D102 - the contract is in QueryResult
        return tuple(self._frame.columns)

    @property
    def kinds(self) -> tuple[str, ...]:  # noqa: D102 - the contract is in QueryResult
        return tuple(kind for _, kind in self._frame.dtypes)

    def _to_load(self, names: Sequence[str]) -> DataFrame:
        return self._frame.toDF(*names)

    def to_spark(self) -> DataFrame:  # noqa: D102 - the contract is in QueryResult
        self._keep_files()
        return self._frame
