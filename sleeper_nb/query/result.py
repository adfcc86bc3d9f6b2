"""The result of a query: its first rows for display, all rows in any form; nothing is read before it is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from sleeper_nb.arguments import checked
from sleeper_nb.clock import Clock
from sleeper_nb.display.chart_marks import KINDS, ChartKind, LogAxes
from sleeper_nb.display.preview import DEFAULT_DISPLAY, FirstRows, Reads
from sleeper_nb.engines.components import Engines
from sleeper_nb.engines.engine import EngineName, EngineRows
from sleeper_nb.engines.rows_to_load import RowsToLoad
from sleeper_nb.errors import NotFound
from sleeper_nb.query.cost import EnginePlan, QueryCost
from sleeper_nb.query.engine_choice import ChosenEngine
from sleeper_nb.report import Answer, Grid, Report, counted, data_rows
from sleeper_nb.sql.binding import BoundSource
from sleeper_nb.tabular import Tabular, as_dict, as_rows, with_distinct_names
from sleeper_nb.versions.leases import ReadGuard, hold_versions

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from sleeper_nb.display.chart import Chart
ROWS_AT_ONCE = 2_000
"""About how many rows `QueryResult.batches` fetches at a time."""
_FIRST_BATCHES = 3
"""How many batches an iteration reads at once: from an answer of one, these are all, with an empty one and the end."""


@dataclass(frozen=True, slots=True)
class QueryOrigin:
    """What a statement reads, each table and version in its order; by which engine; when it began, by which clock.

    A `note` is shown below the rows, as are the `variables` that it reads.
    """

    sources: tuple[BoundSource, ...]
    engine: ChosenEngine
    began: datetime
    clock: Clock
    note: str = ""
    variables: tuple[str, ...] = ()


class QueryResult(Report, Tabular):
    """The rows of a statement, not read yet; a notebook shows the first rows, as many as `display` says.

    Parameters
    ----------
    rows
        The rows, as an engine has them.
    origin
        What the statement reads, by which engine, and when it began.
    engines
        Those of the session, for the caller's program.

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

    __slots__ = ("_engines", "_head", "_known_count", "_note", "_rows", "chosen", "display", "sources", "variables")

    def __init__(self, rows: EngineRows, origin: QueryOrigin, engines: Engines) -> None:
        self._rows, self._engines = rows, engines
        self.sources, self.variables = origin.sources, origin.variables
        self.chosen, self.display = origin.engine, DEFAULT_DISPLAY
        self._head, self._note = FirstRows(origin.clock, origin.began), origin.note
        self._known_count: int | None = None

    @property
    def engine(self) -> EngineName:
        """Which engine reads it."""
        return self.chosen.name

    def cost(self) -> QueryCost:
        """Return what the statement reads of each table and version; no row is read."""
        return QueryCost(self.sources, self.chosen, self.variables)

    def explain(self) -> EnginePlan:
        """Return how the engine would run the statement; no row is read."""
        return EnginePlan(self.engine, self._rows.plan())

    def again(self) -> QueryResult:
        """Return the same rows of the same versions, read apart from these: a cancel stops only one of the two."""
        same = copy(self)
        same._rows = self._rows.again()  # noqa: SLF001 - of the same class
        return same

    def cancel(self) -> None:
        """Stop reading the rows, from another thread: what reads them raises `Cancelled`, as every later read does.

        A statement of DuckDB is interrupted, jobs of Spark are cancelled.
        """
        self._rows.cancel()

    def _keep_files(self) -> None:
        """Protect the files of each version until the session closes: the caller may read them at any time."""
        for guard in self._guards():
            guard.until_closed("sql")

    def _guards(self) -> tuple[ReadGuard, ...]:
        return tuple(source.guard for source in self.sources if source.guard is not None)

    def to_arrow(self) -> pa.Table:
        """Read all rows into Arrow."""
        with hold_versions(self._guards(), "sql"):
            rows = self._rows.all()
        self._known_count = rows.num_rows
        return rows

    def __len__(self) -> int:
        if self._known_count is None:
            with hold_versions(self._guards(), "sql"):
                self._known_count = self._rows.count()
        return self._known_count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        batches = self._counted_batches()
        # begun here, not with the first row: list() asks for the number next, which runs the statement once more
        first = [as_rows(batch) for batch in islice(batches, _FIRST_BATCHES)]
        return chain.from_iterable(chain(first, map(as_rows, batches)))

    def _counted_batches(self) -> Iterator[pa.Table]:
        """Yield all rows in batches, and know their number at the end; their files are protected until then."""
        number = 0
        with hold_versions(self._guards(), "sql"), closing(self._rows.batches_to_iterate(ROWS_AT_ONCE)) as batches:
            for batch in batches:
                number += batch.num_rows
                yield batch
        self._known_count = number

    @property
    def kinds(self) -> tuple[str, ...]:
        """The type of each column, in the words of the engine."""
        return self._rows.kinds

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order; no row is read."""
        return self._rows.names

    def to_duckdb(self) -> duckdb.DuckDBPyRelation:
        """Return a DuckDB relation of the rows.

        DuckDB's own answer is read when the relation is, and a program can write it to files; any other is read now.
        """
        relation = self._engines.relation_of(self._rows)
        if relation is None:
            return Tabular.to_duckdb(self)
        self._keep_files()
        return relation

    def to_spark(self) -> DataFrame:
        """Return a Spark DataFrame of the rows; Spark's own answer is read when the frame is, any other one now."""
        frame = self._engines.frame_of(self._rows)
        if frame is None:
            return self._engines.frame_of_arrow(self.to_arrow())
        self._keep_files()
        return frame

    @contextmanager
    def rows_to_load(self, names: Sequence[str]) -> Iterator[RowsToLoad | DataFrame]:
        """Yield the rows as a load takes them, under other names; they are read once.

        Their files are protected until the load ends. An error of the query is raised as such, whatever the load made
        of it.
        """
        rows = self._rows.to_load(names)
        try:
            with self._rows.placing(), hold_versions(self._guards(), "sql"):
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
            return self._rows.first(rows)

    def grid(self) -> Grid:
        """Return the first rows, and below them the versions, what is read of each, and how long it took."""
        plans = (source.plan for source in self.sources if source.plan is not None)
        return self._head.grid(self._guarded_first, self.display, self.source_text, self._note, Reads.of(plans))

    def _answered_plan(self) -> EnginePlan | None:
        """Return the plan that ``EXPLAIN`` answers, all lines in one value; None for any other statement."""
        text = self._rows.plan_in(self._head.upto(self._guarded_first, self.display.rows + 1))
        return None if text is None else EnginePlan(self.engine, text)

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
        yield from self._rows.batches(ROWS_AT_ONCE)

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
        from sleeper_nb.display.chart_points import MOST_POINTS, can_draw, chart_of_rows, columns_of_chart
        from sleeper_nb.display.chart_ranges import chart_of_sums, query_of_chart

        if kind is not None and kind not in KINDS:
            raise NotFound.of("chart", kind, KINDS)
        with hold_versions(self._guards(), "sql"):
            rows = with_distinct_names(self._rows.first(0) if kind == "hist" else self.head(MOST_POINTS + 1))
            columns = columns_of_chart(rows.schema, kind, x, y, color=color, facet=facet, log=log)
            is_chosen = x is not None and (y is not None or columns.kind == "hist")
            footer = self.source_text if is_chosen else columns.with_not_drawn(rows.column_names, self.source_text)
            if can_draw(rows, columns):
                return chart_of_rows(rows, columns, footer)
            return chart_of_sums(self._rows.summed(*query_of_chart(columns)), columns, footer)

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
