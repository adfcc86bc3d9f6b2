"""What an engine is to the rest of the package: what it can do, and the values that it takes and gives.

An engine is a folder next to this file, of which DuckDB and Spark are two. What is above does not ask which of them it
has.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from sleeper_nb.clock import Clock
from sleeper_nb.errors import SleeperError
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.sql_values import DIALECTS, Dialect
from sleeper_nb.model.state import TableState
from sleeper_nb.progress import Progress
from sleeper_nb.read.predicate import Condition
from sleeper_nb.read.scan_plan import ScanPlan
from sleeper_nb.sql.binding import Bound
from sleeper_nb.sql.statement import Composition, SqlText, Statement
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.versions.leases import ReadGuard

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from sleeper_nb.load.bulk_load import LoadWriter
    from sleeper_nb.load.ingest import IngestSettings
    from sleeper_nb.load.load_options import Matching
    from sleeper_nb.load.load_report import IngestPlan
    from sleeper_nb.load.row_checks import RowCheck
    from sleeper_nb.load.sources import IngestSource
    from sleeper_nb.load.split import KeySample
    from sleeper_nb.maintain.compact import JobRunner
    from sleeper_nb.sql.chart_sums import ChartQuery, ChartValue
    from sleeper_nb.storage.data_files import DataFileSettings

EngineName = Dialect
"""An engine has the name of its SQL."""
ENGINES: Final[tuple[EngineName, ...]] = DIALECTS
DEFAULT_ENGINE: Final = ENGINES[0]
"""The engine that is asked first, and that runs the statements of this package."""

_LONGEST_TEXT: Final = 200_000
_MOST_VALUES: Final = 10_000
"""Of a list. Planning takes about as long as the answer from here on, and so many keys prune little."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What a session gives to its engines.

    Parameters
    ----------
    session_id
        Identifies the session, where several share one Spark.
    spark, spark_config
        The Spark session that the user gave, if any, and settings for one that is started.
    """

    clock: Clock
    progress: Progress
    local_files: bool
    session_id: str
    spark: SparkSession | None
    spark_config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EngineQuery:
    """A query as an engine gets it; of a change of rows, it reads rows with their places (`BoundSource.with_places`).

    Parameters
    ----------
    bound
        The statement, whose tables are read whole.
    dry_run
        Whether no row may be read, not even to plan.
    """

    bound: Bound
    values: Mapping[str, Any]
    dry_run: bool = field(default=False, kw_only=True)

    @property
    def why_whole(self) -> str:
        """Why it is planned only once, when it runs, so that its tables are read whole; "" for one of a usual size."""
        if sum(len(statement.text) for statement in self.bound.statements) > _LONGEST_TEXT:
            return f"the statement has more than {_LONGEST_TEXT:,} characters"
        large = [name for name, value in self.values.items() if isinstance(value, Sized) and len(value) > _MOST_VALUES]
        return f"parameter {large[0]!r} has more than {_MOST_VALUES:,} values" if large else ""


class EngineRows(Protocol):
    """The rows of a query, not read yet; an error of the engine has its place in the statement."""

    @property
    def engine(self) -> EngineName:
        """The name of the engine."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns; no row is read."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The type of each column, in the words of the engine; no row is read."""

    @property
    def native(self) -> Any:
        """The rows as the engine's own object, for the caller's program."""

    def again(self) -> EngineRows:
        """Return the same rows of the same versions, which are read and cancelled apart from these."""

    def cancel(self) -> None:
        """Stop what another thread reads, soon: it raises `Cancelled`, as whatever is read later does."""

    def first(self, rows: int) -> pa.Table:
        """Read the first rows, in the statement's order."""

    def all(self) -> pa.Table:
        """Read all rows."""

    def count(self) -> int:
        """Count the rows."""

    def batches(self, rows: int) -> Generator[pa.Table]:
        """Read all rows, in the statement's order, about so many at a time; at least one batch."""

    def batches_to_iterate(self, rows: int) -> Generator[pa.Table]:
        """Read all rows for a loop that will take them all, in any number of batches."""

    def summed(self, values: Sequence[ChartValue], query: ChartQuery) -> pa.Table:
        """Return the rows summed up for a chart."""

    def plan(self) -> str:
        """Return how the engine would run the statement, in its own words."""

    def plan_in(self, rows: pa.Table) -> str | None:
        """Return the plan in the rows that ``EXPLAIN`` answers; None of other rows."""

    def to_load(self, names: Sequence[str]) -> Any:
        """Return the rows under other names, in the form in which a load takes them from this engine."""

    def placing(self) -> AbstractContextManager[None]:
        """Give errors of the engine, from whatever reads the rows meanwhile, their place in the statement."""


@dataclass(frozen=True, slots=True, eq=False)
class ScanRows:
    """The rows of a scan of one version, for an engine's own object of them.

    Parameters
    ----------
    guard
        Protects the files while the object is used.
    columns, where, limit
        As the scan was asked for; None for all columns, and for no condition or limit.
    condition
        The same condition, for readers other than DuckDB.
    """

    plan: ScanPlan
    storage: Storage
    guard: ReadGuard
    columns: tuple[str, ...] | None
    where: str | None
    limit: int | None
    condition: Condition | None


@dataclass(frozen=True, slots=True, eq=False)
class TaskLoad:
    """A load in bulk whose files tasks write.

    Parameters
    ----------
    sources, matching
        What is loaded, and how columns become those of the table.
    settings
        How files are written, and how much memory each task takes.
    row_checks
        Returns the CHECKs and expectations of a table with a schema, which tasks evaluate for their rows.
    is_maintained
        Whether the table is compacted without anybody asking, so that tasks may leave sorted runs.
    """

    storage: Storage
    sources: Sequence[IngestSource]
    matching: Matching
    settings: IngestSettings
    row_checks: Callable[[Schema], Sequence[RowCheck]]
    is_maintained: bool = False


class PlannedQuery(Protocol):
    """A query whose tables are read only where its rows can be.

    Attributes
    ----------
    read
        The statement with what is read of each table.
    keys
        Which keys were read first, for users; "" for none.
    """

    @property
    def read(self) -> Bound: ...

    @property
    def keys(self) -> str: ...

    @property
    def notes(self) -> tuple[str, ...]: ...

    def run(self) -> EngineRows:
        """Name all that the statement reads, and return its rows."""


class Engine(Protocol):
    """What runs queries.

    Attributes
    ----------
    name, title
        Its name, which users give; and in texts.
    takes_any_condition
        Whether it takes a number or text for a condition, so that these are refused before it is asked.
    """

    @property
    def name(self) -> EngineName: ...

    @property
    def title(self) -> str: ...

    @property
    def takes_any_condition(self) -> bool: ...

    def check(self, statement: Statement, *, dry_run: bool) -> None:
        """Raise for a user's statement that the engine would be started for only to refuse it.

        Raises
        ------
        InvalidInput
            It changes what SQL may not change, or with a dry run anything, or is only another engine's.
        """

    def plan(self, query: EngineQuery) -> PlannedQuery:
        """Judge a query, and plan what it reads.

        Raises
        ------
        InvalidInput, NotFound
            When the engine cannot read the statement, or it does more than read.
        """

    def why_no_condition(self, kind: str) -> str:
        """Return the type, as users know it, of values that are no conditions; "" of one that is, or that it refuses.

        Parameters
        ----------
        kind
            The type in the words of the engine (`EngineRows.kinds`).
        """

    def scan(self, rows: ScanRows) -> Any:
        """Return the rows of a scan as the engine's own object, which reads them when it is used."""

    def close(self) -> None:
        """Give back what the engine holds; later work is refused with `SessionClosed`."""


class ClaimingEngine(Engine, Protocol):
    """An engine that runs a statement without being named, where the statement is one for it."""

    def claim(self, sql: SqlText | Composition, views: Mapping[str, Statement]) -> str:
        """Return why a statement whose engine is not named is one for this engine; "" when another may be asked first.

        Parameters
        ----------
        views
            The queries of the session's views, by name in lower case.
        """

    def claim_after(
        self, error: SleeperError, sql: SqlText | Composition, views: Mapping[str, Statement], *, ask: bool
    ) -> str:
        """Return why a statement that another engine refused is one for this engine; "" when nothing shows that.

        With `ask`, the engine is asked which functions it has.
        """

    def own_names(self) -> frozenset[str]:
        """Return the names, in lower case, of the views of the engine's own session; none before it has started."""


class TaskEngine(Engine, Protocol):
    """An engine that also shares work on tables among its tasks."""

    @property
    def on_cluster(self) -> bool:
        """Whether tasks run on other machines, so that everything in bulk is loaded by them."""

    def writer(self, load: TaskLoad) -> LoadWriter:
        """Return what writes the files of a load by tasks."""

    def sample(self, rows: Sequence[IngestSource], schema: Schema, size: int, matching: Matching) -> KeySample:
        """Return a sample of the row keys of what is loaded, and the number of its rows."""

    def plan_load(
        self,
        state: TableState,
        rows: Sequence[IngestSource],
        matching: Matching,
        *,
        strategy: str,
        checks: Sequence[RowCheck],
    ) -> IngestPlan:
        """Return what a load of the engine's own data frame would do."""

    def compaction(
        self,
        storage: Storage,
        writing: DataFileSettings,
        on_start: Callable[[str], None],
        check: Callable[[], None],
    ) -> JobRunner:
        """Return what runs compaction jobs, each as a task; `on_start` and `check` as `run_in_process` takes them."""
