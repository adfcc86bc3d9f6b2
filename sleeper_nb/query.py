"""SQL over tables at any version: names are bound to planned scans, the statement goes to Spark or DuckDB unchanged."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from sleeper_nb.engines.sql import time_travel
from sleeper_nb.engines.sql.time_travel import TableReference, VersionClause
from sleeper_nb.errors import InvalidInput, NotFound, SleeperError
from sleeper_nb.model.snapshots import VersionReference, parse_moment, parse_reference, parse_version
from sleeper_nb.operations.scanning.planning import ScanPlan
from sleeper_nb.operations.versioning.versions import Resolved
from sleeper_nb.report import Grid, Report
from sleeper_nb.scan import PREVIEW_ROWS, as_polars, preview
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from sleeper_nb.engines.spark.session import SparkEngine

Engine = Literal["spark", "duckdb"]
ENGINES: tuple[Engine, ...] = ("spark", "duckdb")

_SHOW_TABLES = re.compile(r"\s*SHOW\s+TABLES\s*;?\s*", re.IGNORECASE)
_TABLES = "SELECT unnest(CAST(:tables AS VARCHAR[])) AS table_name"
# Spark keeps a view's text, not its rows, and the names that stand for our tables end with the statement.
_VIEW = re.compile(r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:GLOBAL\s+)?(?:TEMP(?:ORARY)?\s+)?VIEW\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Source:
    """A table at a version, ready to be read."""

    table: str
    resolved: Resolved
    plan: ScanPlan
    storage: Storage

    def __str__(self) -> str:
        return f"{self.table} at {self.resolved}"


Lookup = Callable[[str, VersionReference | None], Source | None]
"""Returns the source of a table's name at a version; None when there is no table of that name."""


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
    def to_arrow(self) -> pa.Table:
        """Read all rows into Arrow."""

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

    def to_arrow(self) -> pa.Table:  # noqa: D102 - the contract is in QueryResult
        from sleeper_nb.engines.duckdb import relations

        return relations.to_arrow(self._rows)

    def to_duckdb(self) -> duckdb.DuckDBPyRelation:
        """Return the relation itself."""
        return self._rows

    def to_spark(self) -> DataFrame:  # noqa: D102
        return self._spark().session().createDataFrame(self.to_arrow())


class SparkResult(QueryResult):
    """Rows that Spark reads."""

    __slots__ = ("_frame", "_spark")

    def __init__(self, sources: tuple[Source, ...], frame: DataFrame, spark: SparkEngine) -> None:
        super().__init__(sources, "spark")
        self._frame, self._spark = frame, spark

    def _first(self, rows: int) -> pa.Table:
        return self._spark.run(lambda _: self._frame.limit(rows).toArrow(), "query")

    def to_arrow(self) -> pa.Table:  # noqa: D102 - the contract is in QueryResult
        return self._spark.run(lambda _: self._frame.toArrow(), "query")

    def to_spark(self) -> DataFrame:  # noqa: D102
        return self._frame


def run_query(
    sql: str,
    *,
    engine: Engine,
    parameters: Mapping[str, Any],
    lookup: Lookup,
    tables: tuple[str, ...],
    spark: Callable[[], SparkEngine],
) -> QueryResult:
    """Bind the versions that a statement names, and hand the statement to an engine.

    Raises
    ------
    NotFound
        When a table, version or parameter is unknown, naming the nearest.
    InvalidInput
        When the engine cannot read the statement.
    """
    if _SHOW_TABLES.fullmatch(sql):  # an engine knows only its own, and would say that there are none
        return _on_duckdb(_TABLES, {}, {"tables": list(tables)}, spark)
    references = time_travel.table_references(sql, dialect=engine)
    bound: dict[TableReference, Source] = {}
    for reference in references:
        source = lookup(reference.name, _version(reference.clause, engine, parameters, spark))
        if source is not None and reference.role == "write":
            raise InvalidInput(f"SQL cannot change table {source.table!r}", hint="use ingest, compact or delete")
        if source is not None:
            bound[reference] = source
        elif reference.clause is not None:
            raise NotFound.of("table", reference.name, tables)
    _check_lasting(sql, references, engine, reads_ours=bool(bound))
    views = {reference: f"__sleeper_{i}" for i, reference in enumerate(bound)}
    text = time_travel.splice(sql, views, dialect=engine)
    values = _parameters(text, parameters, engine)
    run = _on_duckdb if engine == "duckdb" else _on_spark
    try:
        return run(text, {views[reference]: source for reference, source in bound.items()}, values, spark)
    except SleeperError as error:
        unknown = [r for r in references if r not in bound and r.role == "read"]
        ours = [r for r in unknown if len(r.parts) == 1 or r.parts[-1] in tables]
        missing = next((r.name for r in ours if _blames(error, r.parts[-1])), None)
        if missing is not None:
            raise NotFound.of("table", missing, tables) from error
        raise


def _check_lasting(sql: str, references: Sequence[TableReference], engine: Engine, *, reads_ours: bool) -> None:
    """Raise `InvalidInput` for a statement that makes what the next one would look for in vain."""
    made = next((reference.name for reference in references if reference.role == "write"), None)
    if made is not None and (engine == "duckdb" or (reads_ours and _VIEW.match(sql))):
        raise InvalidInput(f"{made!r} would be gone after the statement", hint=f"write WITH {made} AS (…) SELECT …")


def _on_duckdb(
    sql: str, sources: Mapping[str, Source], values: Mapping[str, Any], spark: Callable[[], SparkEngine]
) -> QueryResult:
    from sleeper_nb.engines.duckdb import relations

    connection = relations.connect()
    for view, source in sources.items():
        relations.relation(connection, source.plan, source.storage).create_view(view)
    rows = relations.query(connection, time_travel.to_duckdb_parameters(sql), values)
    if rows is None:
        raise InvalidInput("the statement gives no rows", hint="write a query; tables are changed by commands")
    return DuckDBResult(tuple(sources.values()), rows, spark)


def _on_spark(
    sql: str, sources: Mapping[str, Source], values: Mapping[str, Any], spark: Callable[[], SparkEngine]
) -> QueryResult:
    from sleeper_nb.engines.spark import frames

    engine = spark()
    size = sum(source.plan.bytes for source in sources.values())

    def action(session: Any) -> DataFrame:
        views = {view: frames.data_frame(session, source.plan, source.storage) for view, source in sources.items()}
        return frames.query(session, sql, views, values)

    return SparkResult(tuple(sources.values()), engine.run(action, "query", expected_bytes=size), engine)


def _version(
    clause: VersionClause | None, engine: Engine, parameters: Mapping[str, Any], spark: Callable[[], SparkEngine]
) -> VersionReference | None:
    if clause is None:
        return None
    value = clause.literal
    if value is None:
        kind = "TIMESTAMPTZ" if engine == "duckdb" else "TIMESTAMP"
        value = _evaluate(clause.text, kind if clause.kind == "timestamp" else "", engine, parameters, spark)
    if clause.kind == "timestamp":
        return parse_moment(str(value) if isinstance(value, int) else value)
    return parse_version(value) if clause.kind == "version" else parse_reference(value)


def _evaluate(
    expression: str, kind: str, engine: Engine, parameters: Mapping[str, Any], spark: Callable[[], SparkEngine]
) -> Any:
    """Return the value of a constant expression behind AS OF, as the statement's own engine computes it."""
    cast = f"CAST(({expression}) AS {kind})" if kind else f"({expression})"
    statement = f"SELECT {cast} AS value"
    values = _parameters(statement, parameters, engine)
    run = _on_duckdb if engine == "duckdb" else _on_spark
    value = run(statement, {}, values, spark).to_arrow().column("value")[0].as_py()
    if value is None:
        raise InvalidInput(f"{expression!r} behind AS OF is null", hint="write an expression that gives a value")
    return value


def _parameters(sql: str, parameters: Mapping[str, Any], engine: Engine) -> dict[str, Any]:
    names = time_travel.bind_names(sql, dialect=engine)
    for name in names:
        if name not in parameters:
            raise NotFound.of("parameter", name, parameters)
    return {name: parameters[name] for name in names}


def _blames(error: SleeperError, name: str) -> bool:
    text = f"{error.message} {error.hint or ''}".casefold()
    absent = ("no table", "does not exist", "not found", "cannot be found", "table_or_view_not_found")
    return any(words in text for words in absent) and name.casefold() in text
