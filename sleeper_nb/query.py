"""SQL over tables at any version: names are bound to planned scans, the statement goes to Spark or DuckDB unchanged."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Literal, cast

from sleeper_nb.engines.sql import time_travel
from sleeper_nb.errors import InvalidInput, NotFound, SleeperError
from sleeper_nb.operations.scanning.planning import ScanPlan
from sleeper_nb.operations.versioning.leases import ReadGuard, guarded
from sleeper_nb.report import Answer, Grid, Report, counted, data_rows
from sleeper_nb.scan import PREVIEW_ROWS, as_polars, preview
from sleeper_nb.session_views import changed_view
from sleeper_nb.statement import Binder, Bound, Lookup, Source, explained

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from sleeper_nb.engines.spark.session import SparkEngine

Engine = Literal["spark", "duckdb"]
ENGINES: tuple[Engine, ...] = ("spark", "duckdb")

_SHOW_TABLES = re.compile(r"\s*SHOW\s+TABLES\s*;?\s*", re.IGNORECASE)
_TABLES = "SELECT unnest(CAST(:tables AS VARCHAR[])) AS table_name"
_MADE = "SELECT :view AS view"


class QueryResult(Report, ABC):
    """The rows of a statement, not read yet; in a notebook it shows its first 20.

    Parameters
    ----------
    sources
        Each table and version that the statement reads, in its order.
    engine
        Which engine reads them.
    """

    __slots__ = ("_head", "engine", "sources")

    def __init__(self, sources: tuple[Source, ...], engine: Engine) -> None:
        self.sources, self.engine = sources, engine
        self._head: pa.Table | None = None

    @abstractmethod
    def _first(self, rows: int) -> pa.Table: ...

    @abstractmethod
    def _all(self) -> pa.Table: ...

    def _handed_out(self) -> None:
        """Keep the files of every version that is read, as nobody will say when that has ended."""
        for guard in self._guards():
            guard.until_closed("sql")

    def _guards(self) -> Iterator[ReadGuard]:
        yield from (source.guard for source in self.sources if source.guard is not None)

    def to_arrow(self) -> pa.Table:
        """Read all rows into Arrow."""
        with guarded(self._guards(), "sql"):
            return self._all()

    def to_pandas(self) -> pd.DataFrame:
        """Read all rows into pandas."""
        return cast("pd.DataFrame", self.to_arrow().to_pandas())

    def to_polars(self) -> pl.DataFrame:
        """Read all rows into Polars."""
        return as_polars(self.to_arrow())

    @abstractmethod
    def to_spark(self) -> DataFrame:
        """Return the rows as a Spark DataFrame."""

    def head(self, rows: int = PREVIEW_ROWS) -> pa.Table:
        """Return the first rows, in the statement's order."""
        if self._head is None or rows > PREVIEW_ROWS:
            with guarded(self._guards(), "sql"):
                found = self._first(max(rows, PREVIEW_ROWS + 1))
            if self._head is None:
                self._head = found.slice(0, PREVIEW_ROWS + 1)
            return found.slice(0, rows)
        return self._head.slice(0, rows)

    def grid(self) -> Grid:
        """Return the first rows, and which versions they are of."""
        self.head()
        assert self._head is not None  # noqa: S101 - `head` fills it
        read = ", ".join(dict.fromkeys(map(str, self.sources)))
        return preview(self._head, " · ".join(filter(None, (read, self.engine))))

    def answer(self, footer: str) -> Answer:
        """Read all rows, to be shown as a whole; below them how many they are, and `footer`."""
        rows = self.to_arrow()
        cells = data_rows(column.to_pylist() for column in rows.columns)
        return Answer(Grid(tuple(rows.column_names), cells, footer=f"{counted(rows.num_rows, 'row')} · {footer}"))

    def to_dict(self) -> dict[str, Any]:
        """Return all rows, a list of values per column."""
        return dict(self.to_arrow().to_pydict())


class DuckDBResult(QueryResult):
    """Rows that DuckDB reads; it holds its own in-memory database, so no other query disturbs it."""

    __slots__ = ("_rows", "_spark")

    def __init__(
        self, sources: tuple[Source, ...], rows: duckdb.DuckDBPyRelation, spark: Callable[[], SparkEngine]
    ) -> None:
        super().__init__(sources, "duckdb")
        self._rows, self._spark = rows, spark

    def _first(self, rows: int) -> pa.Table:
        from sleeper_nb.engines.duckdb import relations

        return relations.to_arrow(self._rows.limit(rows))

    def _all(self) -> pa.Table:
        from sleeper_nb.engines.duckdb import relations

        return relations.to_arrow(self._rows)

    def to_duckdb(self) -> duckdb.DuckDBPyRelation:
        """Return the relation itself."""
        self._handed_out()
        return self._rows

    def to_spark(self) -> DataFrame:  # noqa: D102 - the contract is in QueryResult
        return self._spark().session().createDataFrame(self.to_arrow())


class SparkResult(QueryResult):
    """Rows that Spark reads."""

    __slots__ = ("_frame", "_spark")

    def __init__(self, sources: tuple[Source, ...], frame: DataFrame, spark: SparkEngine) -> None:
        super().__init__(sources, "spark")
        self._frame, self._spark = frame, spark

    def _first(self, rows: int) -> pa.Table:
        return self._spark.run(lambda _: self._frame.limit(rows).toArrow(), "query")

    def _all(self) -> pa.Table:
        return self._spark.run(lambda _: self._frame.toArrow(), "query")

    def to_spark(self) -> DataFrame:  # noqa: D102 - the contract is in QueryResult
        self._handed_out()
        return self._frame


def run_query(
    sql: str,
    *,
    engine: Engine,
    parameters: Mapping[str, Any],
    lookup: Lookup,
    tables: tuple[str, ...],
    spark: Callable[[], SparkEngine],
    views: MutableMapping[str, str] | None = None,
) -> QueryResult:
    """Bind the versions that a statement names, and hand the statement to an engine.

    Parameters
    ----------
    sql
        One statement.
    engine
        Which engine runs it.
    parameters
        Values of ``:name`` in it, and of ``$name`` on DuckDB.
    lookup, tables
        Finds a table at a version; the names of all.
    spark
        Returns what runs Spark.
    views
        The queries of the views that were made for the engine, by name in small letters; a statement may change them.
        None when nobody keeps any.

    Raises
    ------
    NotFound
        When a table, version or parameter is unknown, naming the nearest.
    InvalidInput
        When the engine cannot read the statement.
    """
    if _SHOW_TABLES.fullmatch(sql):  # an engine knows only its own, and would say that there are none
        return _Runner("duckdb", (), {"tables": list(tables)}, spark).run(Bound(_TABLES, {}, ()))
    runner = _Runner(engine, tables, parameters, spark)
    binder = Binder(engine, lookup, tables, lambda text: runner.value(binder.bind(text)), views or {})
    references = time_travel.table_references(sql, dialect=engine)
    change = changed_view(sql, references, binder)
    if change is None:
        return runner.run(binder.bind(sql, references))
    if views is None:
        raise InvalidInput(f"{change.name!r} would be gone after the statement", hint="write WITH … AS (…) SELECT …")
    if change.query is not None:
        runner.run(binder.without(change.key).bind(change.query))  # or it raises, and nothing is changed
    change.apply(views)
    return _Runner("duckdb", (), {"view": change.name}, spark).run(Bound(_MADE, {}, ()))


class _Runner:
    """Hands a bound statement to an engine, and before it the expressions of its version clauses."""

    def __init__(
        self, engine: Engine, tables: tuple[str, ...], parameters: Mapping[str, Any], spark: Callable[[], SparkEngine]
    ) -> None:
        self.engine, self.tables, self.parameters, self.spark = engine, tables, parameters, spark
        self._duckdb: duckdb.DuckDBPyConnection | None = None

    def run(self, bound: Bound) -> QueryResult:
        names = time_travel.bind_names(bound.text, dialect=self.engine)
        for name in names:
            if name not in self.parameters:
                raise NotFound.of("parameter", name, self.parameters)
        values = {name: self.parameters[name] for name in names}
        try:
            return self._on_duckdb(bound, values) if self.engine == "duckdb" else _on_spark(bound, values, self.spark)
        except SleeperError as error:
            told = explained(error, bound.unknown, self.tables)
            if told is error:
                raise
            raise told from error

    def value(self, bound: Bound) -> Any:
        return self.run(bound).to_arrow().column(0)[0].as_py()

    def _on_duckdb(self, bound: Bound, values: Mapping[str, Any]) -> QueryResult:
        from sleeper_nb.engines.duckdb import relations

        if self._duckdb is None:  # one for the whole statement: to open one takes longer than a small query
            self._duckdb = relations.connect()
        _name_on_duckdb(self._duckdb, bound)
        rows = relations.query(self._duckdb, time_travel.to_duckdb_parameters(bound.text), values)
        if rows is None:
            raise InvalidInput("the statement gives no rows", hint="write a query; tables are changed by commands")
        return DuckDBResult(bound.sources, rows, self.spark)


def _name_on_duckdb(connection: duckdb.DuckDBPyConnection, bound: Bound) -> None:
    from sleeper_nb.engines.duckdb import relations

    for name, what in bound.named.items():
        if isinstance(what, Bound):
            _name_on_duckdb(connection, what)
            relations.name_query(connection, name, what.text)
        elif isinstance(what.rows, ScanPlan):
            relations.relation(connection, what.rows, what.storage).create_view(name)
        else:
            relations.system_table(connection, what.rows).create_view(name)


def _on_spark(bound: Bound, values: Mapping[str, Any], spark: Callable[[], SparkEngine]) -> QueryResult:
    engine, sources = spark(), bound.sources
    size = sum(source.bytes for source in sources)
    frame = engine.run(lambda session: _frame(session, bound, values), "query", expected_bytes=size)
    return SparkResult(sources, frame, engine)


def _frame(session: SparkSession, bound: Bound, values: Mapping[str, Any] | None = None) -> DataFrame:
    from sleeper_nb.engines.spark import frames

    named: dict[str, DataFrame] = {}
    for name, what in bound.named.items():
        if isinstance(what, Bound):
            named[name] = _frame(session, what)
        elif isinstance(what.rows, ScanPlan):
            named[name] = frames.data_frame(session, what.rows, what.storage)
        else:
            named[name] = frames.system_table(session, what.rows)
    return frames.query(session, bound.text, named, values)
