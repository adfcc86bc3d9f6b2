"""SQL over tables at any version: names are bound to planned scans, the statement goes to Spark or DuckDB unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sleeper_nb.clock import Clock
from sleeper_nb.components import Engines
from sleeper_nb.engines.sql import time_travel
from sleeper_nb.engines.sql.metadata_answers import lists_columns, name_of_count
from sleeper_nb.engines.sql.parameters import plain_values
from sleeper_nb.errors import InvalidInput, SleeperError
from sleeper_nb.operations.scanning.planning import ScanPlan
from sleeper_nb.query_result import Asked, DuckDBResult, Engine, QueryResult, SparkResult
from sleeper_nb.session_views import changed_view
from sleeper_nb.statement import Binder, Bound, Lookup, Source, explained
from sleeper_nb.storage.paths import DATA, STATE_STORE

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import DataFrame, SparkSession

    from sleeper_nb.engines.duckdb.statements import Query

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
        return _Runner("duckdb", tables, {"tables": list(tables())}, engines, clock).run(Bound(_TABLES, {}, ()))
    sql = time_travel.statement_alone(sql, dialect=engine)
    runner = _Runner(engine, tables, parameters, engines, clock)
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
    return _Runner("duckdb", tables, {"view": change.name}, engines, clock).run(Bound(_MADE, {}, ()))


class _Runner:
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
        from sleeper_nb.engines.duckdb.interrupts import interruptible
        from sleeper_nb.engines.duckdb.local_files import named_files

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
    if not isinstance(source, Source) or not isinstance(source.rows, ScanPlan) or source.rows.rows is None:
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
    if not isinstance(source, Source) or not isinstance(source.rows, ScanPlan):
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
