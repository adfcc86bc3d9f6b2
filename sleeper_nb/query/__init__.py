"""SQL over tables at any version: a statement's tables become planned scans, and Spark or DuckDB runs it."""

from __future__ import annotations

from sleeper_nb.engines.engine import DEFAULT_ENGINE, ENGINES, EngineName
from sleeper_nb.engines.rows_to_load import RowsToLoad
from sleeper_nb.query.cost import EnginePlan, QueryCost
from sleeper_nb.query.engine_choice import EngineChoice
from sleeper_nb.query.queries import Queries
from sleeper_nb.query.result import QueryResult

__all__ = [
    "DEFAULT_ENGINE", "ENGINES", "EngineChoice", "EngineName", "EnginePlan", "Queries", "QueryCost", "QueryResult",
    "RowsToLoad",
]  # fmt: skip
