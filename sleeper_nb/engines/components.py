"""What an open session, and each table that it has opened, works with: frozen values that are handed down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from sleeper_nb.admin.property_files import PropertyFiles
from sleeper_nb.catalog.catalog_base import Catalog, TableEntry
from sleeper_nb.clock import Clock
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.duckdb.duckdb_engine import DuckDBEngine
from sleeper_nb.engines.engine import (
    DEFAULT_ENGINE,
    ClaimingEngine,
    Engine,
    EngineName,
    EngineRows,
    EngineSettings,
    ScanRows,
    TaskEngine,
)
from sleeper_nb.engines.spark.spark_engine import SparkEngine
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.expectations import Expectation
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.progress import BackgroundJobs, Progress
from sleeper_nb.read.predicate import Condition
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.leases import Leases

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyRelation
    from pyspark.sql import DataFrame, SparkSession

    from sleeper_nb.load.row_checks import RowCheck, Rule
    from sleeper_nb.read.column_profile import ColumnProfile
    from sleeper_nb.sql.variables import BoundVariable


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of a session, by name; and what only one of them does, for callers that ask for that."""

    duckdb: DuckDBEngine
    spark: SparkEngine
    by_name: Mapping[EngineName, Engine]

    @classmethod
    def of(cls, settings: EngineSettings, on_session: Callable[[SparkSession], object]) -> Engines:
        """Return the engines of a session; none is started. `on_session` is called with each Spark session."""
        database = Database()
        duckdb = DuckDBEngine(database, settings.local_files)
        spark = SparkEngine(settings, database, on_session)
        return cls(duckdb, spark, {duckdb.name: duckdb, spark.name: spark})

    def __getitem__(self, name: EngineName) -> Engine:
        return self.by_name[name]

    @property
    def default(self) -> Engine:
        return self[DEFAULT_ENGINE]

    @property
    def others(self) -> tuple[ClaimingEngine, ...]:
        """The other engines, in the order in which they may claim a statement."""
        return (self.spark,)

    @property
    def local_files(self) -> bool:
        """Whether SQL may read files of this machine."""
        return self.duckdb.local_files

    @property
    def with_tasks(self) -> TaskEngine:
        return self.spark

    def owner_of(self, variable: BoundVariable) -> Engine | None:
        """Return the engine whose data frame a variable is; None for rows that each engine can read."""
        return None if variable.spark_frame is None else self.spark

    def own_names(self) -> frozenset[str]:
        """Return the names, in lower case, of what the engines themselves have, and a statement reads first."""
        return frozenset().union(*(each.own_names() for each in self.others))

    def close(self) -> None:
        """Stop Spark if it is ours, and release DuckDB's databases; later work is refused."""
        self.spark.close()
        self.duckdb.close()

    def relation_of(self, rows: EngineRows) -> DuckDBPyRelation | None:
        """Return the rows as DuckDB's relation; None for those of another engine."""
        return rows.native if rows.engine == self.duckdb.name else None

    def frame_of(self, rows: EngineRows) -> DataFrame | None:
        """Return the rows as Spark's DataFrame; None for those of another engine."""
        return rows.native if rows.engine == self.spark.name else None

    def relation_of_scan(self, rows: ScanRows) -> DuckDBPyRelation:
        """Return the rows of a scan as DuckDB's relation, which reads when it is executed."""
        return self.duckdb.scan(rows)

    def frame_of_scan(self, rows: ScanRows) -> DataFrame:
        """Return the rows of a scan as Spark's DataFrame, which reads when it is used."""
        return self.spark.scan(rows)

    def profiles(self, rows: ScanRows, progress: Progress) -> list[ColumnProfile]:
        return self.duckdb.profiles(rows, progress)

    def frame_of_arrow(self, rows: pa.Table) -> DataFrame:
        return self.spark.runtime().session().createDataFrame(rows)

    def condition(self, text: str, schema: Schema, *, repeatable: bool = False) -> Condition:
        """Return a user's condition, parsed and checked against a schema; `InvalidInput` says what is wrong with it.

        With `repeatable`, it is also refused when it may be another for the same row later.
        """
        from sleeper_nb.engines.duckdb.conditions import DuckDBCondition

        return DuckDBCondition.of(text, schema, self.duckdb.database, repeatable=repeatable)

    def row_checks(self, schema: Schema) -> tuple[RowCheck, ...]:
        """Return the CHECKs of a schema, each parsed and bound: what a warehouse says is only ever a condition.

        Raises
        ------
        InvalidInput
            When one is not a condition on one row of the schema, or may be another for the same row later; names it.
        """
        return tuple(self.row_check(check, schema) for check in schema.checks)

    def row_check(self, check: Rule, schema: Schema, *, planned: bool = False) -> RowCheck:
        """Return one CHECK or expectation as `row_checks` does; if `planned`, it tells which files can have such."""
        from sleeper_nb.engines.duckdb.conditions import DuckDBCondition

        try:
            condition = DuckDBCondition.broken(check.condition, schema, self.duckdb.database, planned=planned)
        except InvalidInput as error:
            kind, message = "check", error.message
            if isinstance(check, Expectation):  # its name is the condition, which the message repeats
                kind, message = "expectation", message.removeprefix(f"cannot read the condition {check.condition!r}: ")
            raise InvalidInput(f"{kind} {check.name!r}: {message}", hint=error.hint_parts) from error
        from sleeper_nb.load.row_checks import RowCheck

        return RowCheck(check, condition)

    def load_checks(self, schema: Schema, properties: TableProperties) -> tuple[RowCheck, ...]:
        """Return what the rows of a load are held against: the CHECKs of a schema, and the table's expectations.

        Raises
        ------
        InvalidInput
            As `row_checks`; it names the expectation.
        """
        return (*self.row_checks(schema), *self.bound_expectations(schema, properties))

    def bound_expectations(self, schema: Schema, properties: TableProperties) -> tuple[RowCheck, ...]:
        """Return the expectations of a table, each parsed and bound, as `row_checks` does with CHECKs."""
        return tuple(self.row_check(each, schema) for each in properties.expectations)


@dataclass(frozen=True, slots=True)
class Components:
    """What a session shares with all of its tables.

    Parameters
    ----------
    explore
        Returns the widget that shows a table at a version, on a tab; it is above all layers, so the session hands it
        down.
    """

    catalog: Catalog
    clock: Clock
    progress: Progress
    engines: Engines
    author: str | None
    background: BackgroundJobs
    leases: Leases
    property_files: PropertyFiles
    explore: Callable[[str, int | str | None, Literal["rows", "changes"]], Any]


@dataclass(frozen=True, slots=True)
class OpenTable:
    """One open table: what its reads, loads, maintenance and settings have in common.

    Parameters
    ----------
    entry
        Its id and name, as the catalog had them when the table was opened.
    properties
        Its properties, as its file had them when the table was opened.
    """

    entry: TableEntry
    store: StateStore
    components: Components
    properties: TableProperties

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def properties_path(self) -> str:
        return self.components.property_files.path(self.entry.id)

    def load_checks(self, schema: Schema) -> tuple[RowCheck, ...]:
        """Return what the rows of a load are held against, as `Engines.load_checks` does."""
        return self.components.engines.load_checks(schema, self.properties)

    def processing_of(self, state: TableState, now: datetime | None = None) -> DataProcessing:
        """Return the filters, iterator and aggregations that a version records; ages count at `now`."""
        return DataProcessing.at(self.properties, state, now or self.components.clock.now())
