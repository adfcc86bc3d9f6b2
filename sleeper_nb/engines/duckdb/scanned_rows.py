"""The rows of a scan as a relation of DuckDB, and what their columns are like."""

from __future__ import annotations

from contextlib import closing
from functools import partial

import duckdb

from sleeper_nb.engines.duckdb import relations
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.duckdb.interrupts import interruptible
from sleeper_nb.engines.duckdb.profiling import column_profile
from sleeper_nb.engines.engine import ScanRows
from sleeper_nb.progress import Progress, finishing
from sleeper_nb.read.column_profile import ColumnProfile


def relation(connection: duckdb.DuckDBPyConnection, scan: ScanRows) -> duckdb.DuckDBPyRelation:
    """Return the rows on a connection."""
    with scan.guard.explained():
        names = scan.plan.schema.names
        is_whole = not scan.where and scan.limit is None and 2 * len(scan.columns or names) >= len(names)
        rows = relations.relation(connection, scan.plan, scan.storage, is_whole=is_whole)
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
