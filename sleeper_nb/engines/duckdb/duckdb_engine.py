"""DuckDB as an engine: it answers within milliseconds, in this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.engine import Capabilities, EngineName, EngineQuery

if TYPE_CHECKING:
    from sleeper_nb.engines.duckdb.duckdb_statement import DuckDBStatement


@dataclass(frozen=True, slots=True)
class DuckDBEngine:
    """Runs queries on DuckDB.

    Parameters
    ----------
    database
        The databases of the session.
    local_files
        Whether SQL may read files of this machine.
    """

    database: Database
    local_files: bool = True
    name: ClassVar[EngineName] = "duckdb"
    capabilities: ClassVar[Capabilities] = Capabilities(answers_at_once=True, takes_any_condition=True)

    def plan(self, query: EngineQuery) -> DuckDBStatement:
        """Judge a query with DuckDB's parser, and plan what it reads; errors as in `Engine`."""
        from sleeper_nb.engines.duckdb.duckdb_statement import planned

        return planned(query, self.database, local_files=self.local_files)

    def close(self) -> None:
        """Release the databases."""
        self.database.close()
