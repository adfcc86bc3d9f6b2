"""What a session hands to its tables: objects that do things, kept apart from settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.clock import Clock
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations.administration.property_files import PropertyFiles
from sleeper_nb.operations.scanning.row_condition import Condition
from sleeper_nb.operations.versioning.leases import Leases
from sleeper_nb.progress import BackgroundJobs, Progress

if TYPE_CHECKING:
    from sleeper_nb.engines.spark.engine import SparkEngine


@dataclass(frozen=True, slots=True)
class Engines:
    """What runs Spark, started with its first work; the session's DuckDB; and whether SQL may read local files."""

    spark: Callable[[], SparkEngine]
    duckdb: Database
    local_files: bool = True

    def condition(self, text: str, schema: Schema) -> Condition:
        """Return a condition of a user, checked against a schema; `InvalidInput` says what is wrong with it."""
        from sleeper_nb.engines.duckdb.conditions import DuckDBCondition

        return DuckDBCondition.of(text, schema, partial(self.duckdb.connect_confined, ()))


@dataclass(frozen=True, slots=True)
class Components:
    """The catalog, the clock, who watches, what runs statements and jobs, and who history names.

    `background` is the work that goes on beside the notebook's, `leases` what keeps the files of long readers,
    `property_files` what tables and their instance are told.
    """

    catalog: Catalog
    clock: Clock
    progress: Progress
    engines: Engines
    author: str | None
    background: BackgroundJobs
    leases: Leases
    property_files: PropertyFiles
