"""Run the queries that one statement consists of: with the same engine, parameters, tables, views and variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from sleeper_nb.clock import Clock
from sleeper_nb.engines.components import Engines
from sleeper_nb.query.engine_choice import EngineChoice
from sleeper_nb.query.result import QueryResult
from sleeper_nb.query.run import run_query
from sleeper_nb.sql.binding import Lookup
from sleeper_nb.sql.statement import SqlText, Statement
from sleeper_nb.sql.variables import Variables


@dataclass(frozen=True, slots=True)
class Queries:
    """Runs queries.

    Parameters
    ----------
    engine
        Which engine runs them.
    engines, clock
        Run them; tells how long an answer took.
    lookup, tables
        Finds a table at a version; returns the names of all.
    parameters
        Values of ``:name``.
    data
        What they may read by name besides tables and views.
    views
        The queries of the session's views, by name in lower case; None when none are kept.
    dry_run
        Whether nothing may change, not even the views.
    """

    engine: EngineChoice
    engines: Engines
    clock: Clock
    lookup: Lookup
    tables: Callable[[], tuple[str, ...]]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    views: MutableMapping[str, Statement] | None = None
    dry_run: bool = False

    def run(self, text: SqlText) -> QueryResult:
        """Return the result of a query; parameters and errors as of `run_query`."""
        return run_query(
            text,
            engine=self.engine,
            parameters=self.parameters,
            lookup=self.lookup,
            tables=self.tables,
            engines=self.engines,
            clock=self.clock,
            views=self.views,
            variables=Variables(self.data),
            dry_run=self.dry_run,
        )
