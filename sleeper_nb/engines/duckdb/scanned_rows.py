"""The rows of a scan as a relation of DuckDB, and what their columns are like."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Any, Final

import duckdb

from sleeper_nb.engines.duckdb import relations
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.duckdb.duckdb_errors import explained
from sleeper_nb.engines.duckdb.interrupts import interruptible
from sleeper_nb.engines.duckdb.relations import column, counted_in_ranges
from sleeper_nb.engines.engine import ScanRows
from sleeper_nb.model.schema import Field
from sleeper_nb.progress import Progress, finishing
from sleeper_nb.read.column_profile import RANGES, ColumnProfile


def relation(connection: duckdb.DuckDBPyConnection, scan: ScanRows) -> duckdb.DuckDBPyRelation:
    """Return the rows on a connection."""
    with scan.guard.explained():
        names = scan.plan.schema.names
        is_whole = not scan.where and scan.limit is None and 2 * len(scan.columns or names) >= len(names)
        read = tuple(dict.fromkeys(scan.columns)) if scan.columns and not scan.where else None
        rows = relations.relation(connection, scan.plan, scan.storage, columns=read, is_whole=is_whole)
    rows = relations.filtered(rows, scan.where) if scan.where else rows
    rows = rows.select(*map(relations.column, scan.columns)) if scan.columns else rows
    return rows if scan.limit is None else rows.limit(scan.limit)


def profiles(database: Database, scan: ScanRows, progress: Progress) -> list[ColumnProfile]:
    """Return what the values of each column are like; the columns are read one after the other."""
    names = scan.columns or scan.plan.schema.names
    fields = {field.name: field for field in scan.plan.schema.fields}
    found = []
    with closing(database.connect()) as connection, scan.guard.during("profile"), finishing(progress) as shown:
        rows = relation(connection, scan)
        for done, name in enumerate(names):
            shown.update(f"profiling column {name}", done, len(names))
            found.append(interruptible(connection, partial(column_profile, rows, fields[name])))
    return found


_NUMBERS: Final = frozenset({"tinyint", "smallint", "int", "long", "float", "double", "decimal"})
_TIMES: Final = frozenset({"date", "timestamp", "time"})
_NESTED: Final = frozenset({"list", "map", "struct"})
_MOST_COUNTED: Final = 1_000_000
"""Rows; of more, distinct values are estimated, as counting them can take more memory than there is."""


def column_profile(rows: duckdb.DuckDBPyRelation, field: Field) -> ColumnProfile:
    """Return the profile of one column; `SleeperError` when its rows cannot be read."""
    try:
        return _profile(rows.select(column(field.name).alias("v")), field)
    except duckdb.Error as error:
        raise explained(error) from error


def _profile(values: duckdb.DuckDBPyRelation, field: Field) -> ColumnProfile:
    kind = field.type.name
    count, known = _row(values, "count(*), count(v)")
    is_exact = known <= _MOST_COUNTED
    (distinct,) = _row(values, "count(DISTINCT v)" if is_exact else "approx_count_distinct(v)")
    profile = ColumnProfile(field.name, str(field.type), count, count - known, distinct, is_exact)
    if kind in _NESTED or not known:
        return profile
    least, greatest = _row(values, "min(v), max(v)")
    has_quartiles = kind in _NUMBERS | _TIMES
    quartiles = _row(values, "quantile_disc(v, [0.25, 0.5, 0.75])")[0] if has_quartiles else ()
    bars = _histogram(values, kind) if has_quartiles else _most_frequent(values)
    return ColumnProfile(
        field.name, str(field.type), count, count - known, distinct, is_exact, least, greatest, tuple(quartiles), bars
    )


def _row(values: duckdb.DuckDBPyRelation, expressions: str) -> tuple[Any, ...]:
    (row,) = values.aggregate(expressions).fetchall()
    return tuple(row)


def _histogram(values: duckdb.DuckDBPyRelation, kind: str) -> tuple[int, ...]:
    numbers = values.select(duckdb.SQLExpression("epoch(v)").alias("v")) if kind in _TIMES else values
    counts = counted_in_ranges(numbers, "v", RANGES)
    found = dict(zip(counts["place"].to_pylist(), counts["n"].to_pylist(), strict=True))
    return tuple(found.get(number, 0) for number in range(RANGES))


def _most_frequent(values: duckdb.DuckDBPyRelation) -> tuple[int, ...]:
    known = values.filter(duckdb.SQLExpression("v IS NOT NULL"))
    counts = known.aggregate("v, count(*) AS n", "v").order("n DESC").limit(RANGES).fetchall()
    return tuple(count for _, count in counts)
