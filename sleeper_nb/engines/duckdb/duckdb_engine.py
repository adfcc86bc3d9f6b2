"""DuckDB as an engine: it answers within milliseconds, in this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.engine import EngineName, EngineQuery, ScanRows
from sleeper_nb.sql.statement import Statement

if TYPE_CHECKING:
    import duckdb

    from sleeper_nb.engines.duckdb.duckdb_statement import DuckDBStatement
    from sleeper_nb.progress import Progress
    from sleeper_nb.read.column_profile import ColumnProfile


@dataclass(frozen=True, slots=True)
class DuckDBEngine:
    """Runs queries on DuckDB."""

    database: Database
    local_files: bool = True
    name: ClassVar[EngineName] = "duckdb"
    title: ClassVar[str] = "DuckDB"
    takes_any_condition: ClassVar[bool] = True

    def plan(self, query: EngineQuery) -> DuckDBStatement:
        from sleeper_nb.engines.duckdb.duckdb_statement import planned

        return planned(query, self.database, local_files=self.local_files)

    def check(self, statement: Statement, *, dry_run: bool) -> None:
        """Leave all to DuckDB's parser: nothing has to start."""

    def why_no_condition(self, kind: str) -> str:
        if kind in {"BOOLEAN", '"NULL"'}:
            return ""
        from sleeper_nb.engines.duckdb.conditions import type_name

        return type_name(kind)

    def scan(self, rows: ScanRows) -> duckdb.DuckDBPyRelation:
        from sleeper_nb.engines.duckdb.scanned_rows import relation

        connection = self.database.connection_of_thread()
        rows.guard.while_alive(connection, "relation")
        return relation(connection, rows)

    def profiles(self, rows: ScanRows, progress: Progress) -> list[ColumnProfile]:
        from sleeper_nb.engines.duckdb.scanned_rows import profiles

        return profiles(self.database, rows, progress)

    def close(self) -> None:
        self.database.close()
