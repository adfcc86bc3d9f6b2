"""SQL over tables at any version: names are bound to planned scans, the statement goes to Spark or DuckDB unchanged."""

from __future__ import annotations

import html
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sleeper_nb.arguments import checked
from sleeper_nb.clock import Clock
from sleeper_nb.display.chart import (
    KINDS,
    MOST_POINTS,
    RANGES,
    Chart,
    ChartKind,
    chart,
    column_of_histogram,
    histogram,
)
from sleeper_nb.display.preview import DEFAULT_DISPLAY, FirstRows, Reads
from sleeper_nb.engines.components import Engines
from sleeper_nb.errors import DEEP_CHECK, InvalidInput, NotFound, SleeperError
from sleeper_nb.model.schema import is_utf8
from sleeper_nb.operations.scanning.scan_plan import ScanPlan
from sleeper_nb.operations.scanning.to_frames import as_dict, as_pandas, as_polars
from sleeper_nb.operations.versioning.leases import ReadGuard, guarded
from sleeper_nb.report import Answer, Bytes, Grid, Report, counted, data_rows
from sleeper_nb.sql import statement as time_travel
from sleeper_nb.sql.metadata_answers import lists_columns, name_of_count
from sleeper_nb.sql.parameters import plain_values
from sleeper_nb.sql.statement import Binder, Bound, BoundSource, Lookup, explained
from sleeper_nb.sql.views import changed_view
from sleeper_nb.storage.paths import DATA, STATE_STORE

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from sleeper_nb.engines.duckdb.duckdb_reads import Query
    from sleeper_nb.engines.spark.engine import SparkEngine


# What a statement would read, and how its engine would go about it: what is asked before a query is run.

_PLANS = ("analyzed_plan", "logical_opt", "logical_plan", "physical_plan")


@dataclass(frozen=True, slots=True, repr=False)
class QueryCost(Report):
    """What a statement reads of each table and version; no row was read to know it.

    Parameters
    ----------
    sources
        The tables and versions, in the statement's order; one that is named twice is read twice.
    engine
        What reads them.

    Notes
    -----
    Bytes are those of the files that are opened. An engine leaves out columns and row groups of them that the statement
    has no use for.
    """

    sources: tuple[BoundSource, ...]
    engine: str

    @property
    def bytes(self) -> int:
        """The sizes of the files of all sources."""
        return sum(source.bytes for source in self.sources)

    def grid(self) -> Grid:
        """Return a row for each source."""
        rows = tuple((f"{source}", *_cells(source)) for source in self.sources)
        footer = f"{self.engine} would answer; no row was read"
        return Grid(("reads", "partitions", "files", "bytes at most"), rows, footer=footer)

    def to_dict(self) -> dict[str, Any]:
        """Return the sources, as they are shown, and the engine."""
        names = ("source", "partitions", "files", "bytes")
        cells = [(str(source), *_counts(source)) for source in self.sources]
        return {"engine": self.engine, "reads": [dict(zip(names, each, strict=True)) for each in cells]}


def _counts(source: BoundSource) -> tuple[int | None, int | None, int]:
    if not isinstance(source.rows, ScanPlan):  # a system table: metadata that is there already
        return None, None, 0
    return len(source.rows.leaves), len({file.filename for file in source.rows.files}), source.bytes


def _cells(source: BoundSource) -> tuple[object, ...]:
    partitions, files, size = _counts(source)
    if not isinstance(source.rows, ScanPlan):
        return "metadata", None, None
    return f"{partitions:,} of {source.rows.leaves_of:,}", f"{files:,} of {source.rows.files_of:,}", Bytes(size)


@dataclass(frozen=True, slots=True, repr=False)
class EnginePlan(Report):
    """The plan of a statement in its engine's own words; `to_dict` has them whole."""

    engine: str
    text: str

    @classmethod
    def told(cls, engine: str, rows: pa.Table) -> EnginePlan | None:
        """Return the plan that the rows of ``EXPLAIN`` are; None of other rows."""
        if rows.column_names == ["explain_key", "explain_value"]:
            if not rows.num_rows or not all(key in _PLANS for key in rows.column(0).to_pylist()):
                return None
        elif engine != "spark" or rows.column_names != ["plan"] or rows.num_rows != 1:
            return None
        texts = rows.column(rows.num_columns - 1).to_pylist()
        if not all(isinstance(text, str) for text in texts) or (engine == "spark" and not texts[0].startswith("== ")):
            return None
        return cls(engine, "\n".join(texts).rstrip())

    def grid(self) -> Grid:
        """Return the plan, line by line."""
        return Grid((f"plan of {self.engine}",), tuple((line,) for line in self.text.splitlines()))

    def __repr__(self) -> str:
        return f"plan of {self.engine}\n{self.text}"

    def _repr_html_(self) -> str:
        return f"<div><b>plan of {html.escape(self.engine)}</b></div><pre>{html.escape(self.text)}</pre>"


# The rows of a statement, not read yet: first rows for whoever looks, all rows in the form that is asked for.

T = TypeVar("T")

Engine = Literal["spark", "duckdb"]
ENGINES: tuple[Engine, ...] = ("spark", "duckdb")
BATCH_ROWS = 2_000
"""About so many rows are fetched at a time by who goes through an answer."""


def told_apart(rows: pa.Table) -> pa.Table:
    """Return rows as they are, for who finds columns by their names; an error when two of them have the same."""
    twice = next((name for name, times in Counter(rows.column_names).items() if times > 1), None)
    if twice is not None:
        raise InvalidInput(f"two columns are called {twice!r}", hint=f"give one another name: {twice} AS {twice}_2")
    return rows


@dataclass(frozen=True, slots=True)
class Asked:
    """What a bound statement reads, each table and version in its order, and when it began by what clock.

    A `note` is shown below its rows.
    """

    sources: tuple[BoundSource, ...]
    began: datetime
    clock: Clock
    note: str = ""


class QueryResult(Report, ABC):
    """The rows of a statement, not read yet; in a notebook it shows its first rows, as many as `display` says.

    Parameters
    ----------
    asked
        What the statement reads, and since when.
    engine
        Which engine reads it.

    Attributes
    ----------
    sources
        Each table and version that the statement reads, in its order.
    display
        How many rows are shown, and whether with the time that they took.
    """

    __slots__ = ("_head", "_note", "display", "engine", "sources")

    def __init__(self, asked: Asked, engine: Engine) -> None:
        self.sources, self.engine, self.display = asked.sources, engine, DEFAULT_DISPLAY
        self._head, self._note = FirstRows(self._guarded_first, asked.clock, asked.began), asked.note

    @abstractmethod
    def _first(self, rows: int) -> pa.Table: ...

    @abstractmethod
    def _all(self) -> pa.Table: ...

    @abstractmethod
    def _batches(self, rows: int) -> Iterator[pa.Table]: ...

    @abstractmethod
    def _in_ranges(self, column: str) -> pa.Table: ...

    @abstractmethod
    def _plan(self) -> str: ...

    def cost(self) -> QueryCost:
        """Return what the statement reads of each table and version; no row is read for it."""
        return QueryCost(self.sources, self.engine)

    def explain(self) -> EnginePlan:
        """Return how the engine would go about it; no row is read for it."""
        return EnginePlan(self.engine, self._plan())

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
        """Read all rows into pandas; integers with NULLs are its ``Int32`` and ``Int64``."""
        return as_pandas(self.to_arrow())

    def to_polars(self) -> pl.DataFrame:
        """Read all rows into Polars."""
        return as_polars(told_apart(self.to_arrow()))

    @abstractmethod
    def to_spark(self) -> DataFrame:
        """Return the rows as a Spark DataFrame."""

    @checked
    def head(self, rows: int = DEFAULT_DISPLAY.rows) -> pa.Table:
        """Return the first rows, in the statement's order."""
        return self._head.upto(max(rows, self.display.rows + 1)).slice(0, rows)

    def _guarded_first(self, rows: int) -> pa.Table:
        with guarded(self._guards(), "sql"):
            return self._first(rows)

    def grid(self) -> Grid:
        """Return the first rows, which versions they are of, what is read of these, and how long it took."""
        plans = (source.rows for source in self.sources if isinstance(source.rows, ScanPlan))
        return self._head.grid(self.display, self.source_text, self._note, Reads.of(plans))

    def _told_plan(self) -> EnginePlan | None:
        """Return the answer of ``EXPLAIN``, whose lines are all in one value; None of any other statement."""
        return EnginePlan.told(self.engine, self._head.upto(self.display.rows + 1))

    def __repr__(self) -> str:
        plan = self._told_plan()
        return self.grid().text() if plan is None else repr(plan)

    def _repr_html_(self) -> str:
        plan = self._told_plan()
        return self.grid().html() if plan is None else plan._repr_html_()

    def batches(self) -> Iterator[pa.Table]:
        """Yield all rows, in the statement's order, some at a time, each read when it is asked for.

        DuckDB goes on where it was, and until that has ended nothing else of the result can be read. Spark computes
        the answer once and keeps it on its side for as long.
        """
        self._handed_out()
        yield from self._batches(BATCH_ROWS)

    @checked
    def plot(self, kind: ChartKind, x: str | None = None, y: str | None = None) -> Chart:
        """Return a chart of the rows; parameters and errors as `sleeper_nb.render_chart.chart`.

        A histogram is of all rows, which the engine counts; a line or bars are of the first 10,000.
        """
        if kind not in KINDS:
            raise NotFound.of("chart", kind, KINDS)
        if kind != "hist":
            return chart(told_apart(self.head(MOST_POINTS + 1)), kind, x, y, footer=self.source_text)
        with guarded(self._guards(), "sql"):
            column = column_of_histogram(told_apart(self._first(0)).schema, x, y)
            return histogram(self._in_ranges(column), column, footer=self.source_text)

    @property
    def source_text(self) -> str:
        """What the rows are of: ``flights at snapshot 12 · duckdb``."""
        read = ", ".join(dict.fromkeys(map(str, self.sources)))
        return " · ".join(filter(None, (read, self.engine)))

    @checked
    def answer(self, footer: str) -> Answer:
        """Read all rows, to be shown as a whole; below them how many they are, and `footer`."""
        rows = self.to_arrow()
        cells = data_rows(rows)
        return Answer(Grid(tuple(rows.column_names), cells, footer=f"{counted(rows.num_rows, 'row')} · {footer}"))

    def to_dict(self) -> dict[str, Any]:
        """Return all rows, a list of values per column."""
        return as_dict(told_apart(self.to_arrow()))


class DuckDBResult(QueryResult):
    """Rows that DuckDB reads; its connection, and the names in it, are its own.

    Parameters
    ----------
    asked
        What the statement reads, and since when.
    connection
        One that can open nothing but the files of the statement.
    rows
        The rows, of that connection.
    free_rows
        Returns the same rows of a connection without limits, for the caller's program.
    spark
        Returns what runs Spark.
    """

    __slots__ = ("_connection", "_free_rows", "_rows", "_spark")

    def __init__(
        self,
        asked: Asked,
        connection: duckdb.DuckDBPyConnection,
        rows: duckdb.DuckDBPyRelation,
        free_rows: Callable[[], duckdb.DuckDBPyRelation],
        spark: Callable[[], SparkEngine],
    ) -> None:
        super().__init__(asked, "duckdb")
        self._connection, self._rows, self._free_rows, self._spark = connection, rows, free_rows, spark

    def _first(self, rows: int) -> pa.Table:
        from sleeper_nb.engines.duckdb import relations

        return self._run(lambda: relations.to_arrow(self._rows.limit(rows)))

    def _all(self) -> pa.Table:
        from sleeper_nb.engines.duckdb import relations

        return self._run(lambda: relations.to_arrow(self._rows))

    def _batches(self, rows: int) -> Iterator[pa.Table]:
        from sleeper_nb.engines.duckdb import relations

        with closing(relations.batches(self._rows, rows)) as batches:
            while (batch := self._run(lambda: next(batches, None))) is not None:
                yield batch

    def _in_ranges(self, column: str) -> pa.Table:
        from sleeper_nb.engines.duckdb import relations

        return self._run(lambda: relations.counted_in_ranges(self._rows, column, RANGES))

    def _plan(self) -> str:
        return self._run(lambda: self._rows.explain().rstrip())

    def _run(self, action: Callable[[], T]) -> T:
        from sleeper_nb.engines.duckdb.database import interruptible

        return interruptible(self._connection, action)

    def to_duckdb(self) -> duckdb.DuckDBPyRelation:
        """Return a relation of the rows, which the program may go on from, and may write to files."""
        self._handed_out()
        return self._free_rows()

    def to_spark(self) -> DataFrame:  # noqa: D102 - the contract is in QueryResult
        return self._spark().handed_out().createDataFrame(self.to_arrow())


class SparkResult(QueryResult):
    """Rows that Spark reads."""

    __slots__ = ("_frame", "_spark")

    def __init__(self, asked: Asked, frame: DataFrame, spark: SparkEngine) -> None:
        super().__init__(asked, "spark")
        self._frame, self._spark = frame, spark

    def _first(self, rows: int) -> pa.Table:
        return self._collected(self._frame.limit(rows))

    def _all(self) -> pa.Table:
        return self._collected(self._frame)

    def _collected(self, frame: DataFrame) -> pa.Table:
        try:
            found = self._spark.run(lambda _: frame.toArrow(), "query")
        except SleeperError:
            raise
        except ValueError as error:  # of the types, as Arrow has none for what an empty list holds
            hint = "cast it: CAST(array() AS array<string>)"
            raise InvalidInput(f"Arrow has no type for a column of Spark's answer: {error}", hint=hint) from error
        for name, column in zip(found.column_names, found.columns, strict=True):
            if not is_utf8(column):  # Spark does not check it
                hint = f"take its bytes: CAST(`{name}` AS binary); a deep check names the data file: "
                raise InvalidInput(f"column {name!r} has text that is not UTF-8", hint=(hint, DEEP_CHECK))
        return found

    def _batches(self, rows: int) -> Iterator[pa.Table]:
        kept = self._frame.persist()  # or each batch would be computed anew, perhaps in another order
        try:
            for first in count(0, rows):
                found = self._collected(kept.offset(first).limit(rows))
                yield found
                if found.num_rows < rows:
                    return
        finally:
            kept.unpersist()

    def _in_ranges(self, column: str) -> pa.Table:
        from sleeper_nb.engines.spark import frames

        return self._spark.run(lambda _: frames.counted_in_ranges(self._frame, column, RANGES), "histogram")

    def _plan(self) -> str:
        from sleeper_nb.engines.spark import frames

        return frames.plan_of(self._frame)

    def to_spark(self) -> DataFrame:  # noqa: D102 - the contract is in QueryResult
        self._handed_out()
        self._spark.warn_when_quick()
        return self._frame


_SHOW_TABLES = re.compile(r"\s*SHOW\s+TABLES\s*;?\s*", re.IGNORECASE)
_TABLES = "SELECT unnest(CAST(:tables AS VARCHAR[])) AS table_name"
_MADE = "SELECT :view AS view"
_COLUMNS = """
SELECT * EXCLUDE (required, row_keys, sort_keys) REPLACE (
  CASE WHEN list_contains(required, column_name) THEN 'NO' ELSE 'YES' END AS "null",
  CASE WHEN list_contains(row_keys, column_name) THEN 'row key'
       WHEN list_contains(sort_keys, column_name) THEN 'sort key' END AS "key")
FROM (DESCRIBE {table}), (SELECT CAST(:required AS VARCHAR[]) AS required,
                                 CAST(:row_keys AS VARCHAR[]) AS row_keys,
                                 CAST(:sort_keys AS VARCHAR[]) AS sort_keys)
"""


def run_query(
    sql: str,
    *,
    engine: Engine,
    parameters: Mapping[str, Any],
    lookup: Lookup,
    tables: Callable[[], tuple[str, ...]],
    engines: Engines,
    clock: Clock,
    views: MutableMapping[str, str] | None = None,
    dry_run: bool = False,
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
        Finds a table at a version; returns the names of all.
    engines, clock
        Run the statement; tells how long an answer took.
    views
        The queries of the views that were made for the engine, by name in small letters; a statement may change them.
        None when nobody keeps any.
    dry_run
        Whether nothing may change, not even the views.

    Raises
    ------
    NotFound
        When a table, version or parameter is unknown, naming the nearest.
    InvalidInput
        When the engine cannot read the statement.
    """
    if _SHOW_TABLES.fullmatch(sql):  # an engine knows only its own, and would say that there are none
        return _StatementRunner("duckdb", tables, {"tables": list(tables())}, engines, clock).run(
            Bound(_TABLES, {}, ())
        )
    sql = time_travel.statement_alone(sql, dialect=engine)
    runner = _StatementRunner(engine, tables, parameters, engines, clock)
    binder = Binder(engine, lookup, tables, lambda text: runner.value(binder.bind(text)), views or {})
    references = time_travel.table_references(sql, dialect=engine)
    change = changed_view(sql, references, binder)
    if change is None:
        return runner.run(binder.bind(sql, references))
    if views is None:
        raise InvalidInput(f"{change.name!r} would be gone after the statement", hint="write WITH … AS (…) SELECT …")
    if dry_run:
        raise InvalidInput(f"the statement reads nothing, it changes view {change.name!r}", hint="run it as it is")
    if change.query is not None:
        runner.run(binder.without(change.key).bind(change.query))  # or it raises, and nothing is changed
    change.apply(views)
    return _StatementRunner("duckdb", tables, {"view": change.name}, engines, clock).run(Bound(_MADE, {}, ()))


class _StatementRunner:
    """Hands a bound statement to an engine, and before it the expressions of its version clauses."""

    def __init__(
        self,
        engine: Engine,
        tables: Callable[[], tuple[str, ...]],
        parameters: Mapping[str, Any],
        engines: Engines,
        clock: Clock,
    ) -> None:
        self.engine, self.tables, self.parameters, self.engines = engine, tables, parameters, engines
        self.clock, self.began = clock, clock.now()

    def run(self, bound: Bound) -> QueryResult:
        names = time_travel.bind_names(bound.text, dialect=self.engine)
        values = plain_values(bound.text, names, self.parameters, dialect=self.engine)
        try:
            counted = _counted_in_metadata(bound, self.engine)
            if counted is not None:
                return self._on(*counted, note="counted in metadata")
            described = _with_keys(bound) if self.engine == "duckdb" else None
            return self._on(*(described or (bound, values)))
        except SleeperError as error:
            told = explained(error, bound, self.tables)
            if told is error:
                raise
            raise told from error

    def value(self, bound: Bound) -> Any:
        return self.run(bound).to_arrow().column(0)[0].as_py()

    def _on(self, bound: Bound, values: Mapping[str, Any], note: str = "") -> QueryResult:
        run = self._on_duckdb if self.engine == "duckdb" else self._on_spark
        return run(bound, values, note)

    def _on_duckdb(self, bound: Bound, values: Mapping[str, Any], note: str) -> QueryResult:
        from sleeper_nb.engines.duckdb import relations
        from sleeper_nb.engines.duckdb.database import interruptible
        from sleeper_nb.engines.duckdb.duckdb_reads import named_files

        judge, allowed = self.engines.duckdb.connect(), self.engines.local_files
        queries = {
            each.text: relations.parsed(judge, time_travel.to_duckdb_parameters(each.text)) for each in bound.statements
        }
        files = {
            path for query in queries.values() for path in named_files(judge, query, values, allowed=allowed)
        }  # fmt: skip

        def rows(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
            _name_on_duckdb(connection, bound, queries)
            return relations.query(connection, queries[bound.text], values)

        confined = self.engines.duckdb.connect_confined(_folders(bound), files)
        is_eager = any(query.is_eager for query in queries.values())
        found = interruptible(confined, lambda: rows(confined)) if is_eager else rows(confined)
        asked, free = Asked(bound.sources, self.began, self.clock, note), lambda: rows(self.engines.duckdb.connect())
        return DuckDBResult(asked, confined, found, free, self.engines.spark)

    def _on_spark(self, bound: Bound, values: Mapping[str, Any], note: str) -> QueryResult:
        engine, size = self.engines.spark(), _expected_bytes(bound)
        allowed = self.engines.local_files
        frame = engine.run(lambda session: _frame(session, bound, values, allowed), "query", expected_bytes=size)
        return SparkResult(Asked(bound.sources, self.began, self.clock, note), frame, engine)


_UNKNOWN_READS = re.compile(
    r"\b(range|sequence|repeat|stack|inline\w*|explode\w*|posexplode\w*)\s*\(|\bcross\s+join\b"
    r"|\b(parquet|csv|json|orc|text|avro|binaryfile)\s*\.\s*`",
    re.IGNORECASE,
)


def _expected_bytes(bound: Bound) -> int | None:
    """Return how much a statement reads; None where its tables do not tell: rows are made, multiplied or of files."""
    texts = [each.text for each in bound.statements]
    if not bound.sources or any(map(_UNKNOWN_READS.search, texts)):
        return None
    return sum(source.bytes for source in bound.sources)


def _counted_in_metadata(bound: Bound, engine: Engine) -> tuple[Bound, Mapping[str, Any]] | None:
    """Return a statement that opens no file for one that only counts the rows of a table, and its parameters.

    None when it does more, or when rows must be read to be counted.
    """
    if len(bound.named) != 1:
        return None
    ((name, source),) = bound.named.items()
    if not isinstance(source, BoundSource) or not isinstance(source.rows, ScanPlan) or source.rows.rows is None:
        return None
    column = name_of_count(bound.text, name, dialect=engine)
    if column is None:
        return None
    unread = replace(source, rows=replace(source.rows, leaves=()), guard=None)
    return Bound(f"SELECT CAST(:rows AS BIGINT) AS {column}", {name: unread}, ()), {"rows": source.rows.rows}


def _with_keys(bound: Bound) -> tuple[Bound, Mapping[str, Any]] | None:
    """Return a statement for ``DESCRIBE`` that adds keys and nullability to DuckDB's answer, and its parameters.

    DuckDB describes a relation, which has neither. None for any other statement.
    """
    if len(bound.named) != 1:
        return None
    ((name, source),) = bound.named.items()
    if not isinstance(source, BoundSource) or not isinstance(source.rows, ScanPlan):
        return None
    if not lists_columns(bound.text, name, dialect="duckdb"):
        return None
    schema = source.rows.schema
    return replace(bound, text=_COLUMNS.format(table=name)), {
        "required": [field.name for field in schema.fields if not field.nullable],
        "row_keys": [field.name for field in schema.row_keys],
        "sort_keys": [field.name for field in schema.sort_keys],
    }


def _folders(bound: Bound) -> set[str]:
    """Return the local folders of the files that a statement's tables have."""
    return {
        source.storage.locate(DATA if isinstance(source.rows, ScanPlan) else STATE_STORE)
        for source in bound.sources
        if source.storage.local
    }


def _name_on_duckdb(connection: duckdb.DuckDBPyConnection, bound: Bound, queries: Mapping[str, Query]) -> None:
    from sleeper_nb.engines.duckdb import relations

    for name, what in bound.named.items():
        if isinstance(what, Bound):
            _name_on_duckdb(connection, what, queries)
            rows = relations.query(connection, queries[what.text])
        elif isinstance(what.rows, ScanPlan):
            is_whole = queries[bound.text].reads_most_of(what.rows.schema.names)
            rows = relations.relation(connection, what.rows, what.storage, is_whole=is_whole)
        else:
            rows = relations.system_table(connection, what.rows)
        relations.name_rows(connection, name, rows)


def _frame(session: SparkSession, bound: Bound, values: Mapping[str, Any], local_files: bool) -> DataFrame:
    from sleeper_nb.engines.spark import frames

    named: dict[str, DataFrame] = {}
    for name, what in bound.named.items():
        if isinstance(what, Bound):
            named[name] = _frame(session, what, {}, local_files)
        elif isinstance(what.rows, ScanPlan):
            rows = frames.data_frame(session, what.rows, what.storage)
            listed = lists_columns(bound.text, name, dialect="spark")
            named[name] = frames.commented(rows, what.rows.schema) if listed else rows
        else:
            named[name] = frames.system_table(session, what.rows)
    return frames.query(session, bound.text, named, values, local_files=local_files)
