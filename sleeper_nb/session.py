"""`Session`: an instance of a warehouse, its tables, and SQL over them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sleeper_nb.arguments import checked
from sleeper_nb.background import BackgroundJobs
from sleeper_nb.catalog.base import Catalog, TableEntry
from sleeper_nb.cells import Bytes
from sleeper_nb.clock import Clock
from sleeper_nb.components import Components, Engines
from sleeper_nb.declaring import Declaring
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.errors import CatalogDamaged, InvalidInput, NotFound, SessionClosed
from sleeper_nb.lookup import lookup_in
from sleeper_nb.model.jobs import Job
from sleeper_nb.model.permissions import NOTHING_ALLOWED, IteratorNames, Permissions
from sleeper_nb.model.properties import LOCAL_FILES, STATE_STORES, InstanceProperties, TableProperties
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.operations.administration.deletion import finish_deletions
from sleeper_nb.operations.administration.property_files import PropertyFiles
from sleeper_nb.operations.scanning.planning import files_of
from sleeper_nb.operations.tracking import job_listing
from sleeper_nb.operations.upkeep.maintaining import MaintenanceReport
from sleeper_nb.operations.versioning.leases import Leases
from sleeper_nb.progress import Progress
from sleeper_nb.query import run_query
from sleeper_nb.query_result import ENGINES, Engine, QueryResult
from sleeper_nb.report import Listing, OnDemand
from sleeper_nb.retry import Retry
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.state_store.opening import open_state_store
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sleeper_nb.engines.spark.session import SparkEngine

T = TypeVar("T")


class Session(Declaring):
    """An open instance: its tables, and the one Spark session that works on them. Made by `sleeper_nb.connect`."""

    def __init__(
        self,
        instance: str,
        storage: Storage,
        catalog: Catalog,
        *,
        clock: Clock,
        progress: Progress,
        author: str | None,
        spark: SparkSession | None,
        spark_config: Mapping[str, str],
        on_spark: Callable[[SparkSession, Permissions], object] = lambda *_: None,
        properties: InstanceProperties | None = None,
        permissions: Permissions = NOTHING_ALLOWED,
    ) -> None:
        self.instance = instance
        self._storage = storage
        self._given_spark, self._spark_config, self._on_spark = spark, dict(spark_config), on_spark
        self._spark: SparkEngine | None = None
        self._lock, self._closed = threading.Lock(), False
        self._stores: dict[str, StateStore] = {}
        self._views: dict[Engine, dict[str, str]] = {engine: {} for engine in ENGINES}
        leases = Leases(catalog, clock, author)
        settings = properties or InstanceProperties({})
        files = PropertyFiles(storage, settings, permissions, catalog)
        self._database = Database()
        engines = Engines(self.spark, self._database, settings[LOCAL_FILES])
        self.components = Components(catalog, clock, progress, engines, author, BackgroundJobs(), leases, files)
        if spark is not None:
            self.spark()  # a session that is handed in knows ``format("sleeper")`` from now on

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        tables = "closed" if self.closed else f"{len(self.components.catalog.tables())} tables"
        return f"Session({self.location!r}, {tables})"

    @property
    def location(self) -> str:
        """Where the instance lies: an absolute folder, or ``s3://bucket/prefix/instance``."""
        return self._storage.root

    @property
    def closed(self) -> bool:
        """Whether it was closed; its tables cannot be read by it any more."""
        return self._closed

    def close(self) -> None:
        """Cancel work in the background and wait for it, stop Spark if it was started here, and let go of the rest."""
        self._closed = True
        self.components.background.close()
        if self._spark is not None:
            self._spark.stop()
        self._database.close()
        self.components.leases.close()
        self.components.catalog.close()

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosed.of(f"the instance {self.location}")

    def spark(self) -> SparkEngine:
        """Return what runs Spark; Spark itself starts with the first work for it."""
        self._check_open()
        with self._lock:
            if self._spark is None:
                from sleeper_nb.engines.spark.session import SparkEngine

                self._spark = SparkEngine(
                    self._given_spark,
                    config=self._spark_config,
                    clock=self.components.clock,
                    progress=self.components.progress,
                    on_session=self._register,
                )
            return self._spark

    @property
    def spark_session(self) -> SparkSession:
        """The session's `pyspark.sql.SparkSession`, started by the first use; it knows ``format("sleeper")``.

        A JVM that this starts is one for long jobs. If it runs already and was started for a quick first answer, a
        warning names the setting that makes it otherwise: ``spark.sleeper.jit``.
        """
        return self.spark().handed_out()

    @checked
    def allow(self, iterators: IteratorNames = (), data_paths: Iterable[str | Path] = ()) -> None:
        """Allow more iterators and places outside the warehouse, for the tables that are opened from now on.

        Parameters
        ----------
        iterators, data_paths
            As `sleeper_nb.connect` takes them.
        """
        self._check_open()
        files = self.components.property_files
        files.permissions = files.permissions.with_more(Permissions.of(iterators, data_paths))
        if self._spark is not None and self._spark.started:
            self._register(self._spark.session())

    def _register(self, spark: SparkSession) -> None:
        self._on_spark(spark, self.components.property_files.permissions)

    @checked
    def table(self, name: str) -> Table:
        """Return a table by its name, in any case; `NotFound` names the nearest."""
        return self._opened(self._entry(name))

    def _find(self, name: str) -> Table | None:
        found = self.components.catalog.find_table(name)
        return None if found is None else self._opened(found)

    def _names(self) -> tuple[str, ...]:
        return tuple(entry.name for entry in self.components.catalog.tables())

    def _opened(self, entry: TableEntry) -> Table:
        settings = self.components.property_files.of_entry(entry)
        return Table(entry, self._store(entry.id, settings), self.components, settings)

    @checked
    def store_of(self, name: str) -> StateStore:
        """Return what keeps the versions of a table, for readers that plan by themselves."""
        return self._stores[self.table(name).entry.id]

    def tables(self) -> Listing[Table]:
        """Return all tables, by name."""
        catalog = self.components.catalog
        entries, heads = catalog.tables(), catalog.current_of_all()
        there = tuple(entry for entry in entries if entry.id in heads or self._is_damaged(entry))
        found = OnDemand(there, self._opened_or_gone, NotFound)
        cells = tuple(self._cells_of(entry, heads[entry.id]) for entry in there)
        columns = ("table", "snapshot", "rows", "files", "bytes", "partitions", "last change", "id")
        offline = ", ".join(entry.name for entry in there if not entry.online)
        footer = f"offline, so no maintenance touches them: {offline} · " if offline else ""
        footer += f"properties: {self.components.property_files.path('<id>')}"
        return Listing(found, columns, cells, f"tables of {self.instance}", footer)

    def _is_damaged(self, entry: TableEntry) -> bool:
        """Return False for a table that was deleted meanwhile; raise when the catalog has lost its newest snapshot."""
        if self.components.catalog.has_table(entry.id):
            self.components.catalog.current(entry.id)
        return False

    def _cells_of(self, entry: TableEntry, head: Snapshot) -> tuple[object, ...]:
        files, size, leaves = head.files, head.bytes, head.leaves
        if leaves is None or head.references is None:  # an earlier build made it, which counted each reference
            state = self._opened_or_gone(entry).at(head.id).state
            (files, size), leaves = files_of(state), len(state.tree.leaves)
        return (entry.name, head.id, head.rows, files, Bytes(size), leaves, head.time, entry.id)

    def _opened_or_gone(self, entry: TableEntry) -> Table:
        try:
            return self._opened(entry)
        except NotFound:
            if self.components.catalog.has_table(entry.id):
                raise
            raise NotFound(f"no table {entry.name!r}", hint="it was deleted meanwhile") from None

    @checked
    def jobs(self, which: job_listing.Which = "all", *, limit: int = job_listing.SHOWN) -> Listing[Job]:
        """Return the newest runs of the jobs of all tables, newest first; as `Table.jobs` otherwise."""
        catalog, now = self.components.catalog, self.components.clock.now()
        found = (
            (entry, job)
            for entry in catalog.tables()
            for job in job_listing.jobs_of(catalog, entry.id, which, limit, now)
        )
        newest = job_listing.newest(found, limit)
        return job_listing.listing(f"jobs of {self.instance}", newest, now, with_table=True)

    @checked
    def maintain(self, dry_run: bool = False) -> MaintenanceReport:
        """Do on each table that is online what is due now; as `Table.maintain` otherwise.

        Before it, what is left of deleted tables goes.
        """
        if not dry_run:
            finish_deletions(self.components.catalog, self.components.property_files, self.components.clock)
        entries = self.components.catalog.tables()
        online = [entry for entry in entries if entry.online]
        done = list(self._each(online, lambda table: table.maintain(dry_run)))
        steps = tuple(step for report in done for step in report.steps)
        return MaintenanceReport(steps, dry_run, tuple(entry.name for entry in entries if not entry.online))

    @checked
    def sql(
        self,
        statement: str,
        *,
        engine: Engine = "spark",
        params: Mapping[str, Any] | None = None,
        dry_run: bool = False,
    ) -> QueryResult:
        """Run a query over tables at any version.

        Parameters
        ----------
        statement
            One statement of the engine's SQL. Behind a table: ``VERSION AS OF 12``, ``'snapshot.12'``,
            ``'savepoint.1'`` or ``'savepoint.<name>'``, or ``TIMESTAMP AS OF '2026-11-01 10:00:00'``. Behind its name,
            without a space, a system table (`sleeper_nb.operations.system_tables`): ``flights$savepoints``,
            ``$snapshots``, ``$files``, ``$partitions``, ``$schemas``, ``$properties``, ``$jobs``; a version may follow.
            ``CREATE TEMP VIEW v AS …`` makes a view that the session keeps, for the engine that made it. Nothing is
            written: a statement that could is refused (``REFERENCE.md``, "What SQL reads").
        engine
            ``"spark"`` or ``"duckdb"``.
        params
            Values of ``:name`` in the statement; they are bound, never pasted.
        dry_run
            Whether a statement that changes a view is refused, for who only asks what a statement costs: rows are
            read when they are asked for, and `QueryResult.cost` and `QueryResult.explain` ask for none.
        """
        self._check_open()
        if engine not in ENGINES:
            raise InvalidInput(f"no engine {engine!r}", hint="the engines are spark and duckdb")
        return run_query(
            statement,
            engine=engine,
            parameters=params or {},
            lookup=lookup_in(self._find),
            tables=self._names,
            engines=self.components.engines,
            clock=self.components.clock,
            views=self._views[engine],
            dry_run=dry_run,
        )

    def _each(self, entries: Iterable[TableEntry], use: Callable[[Table], T]) -> Iterator[T]:
        """Yield what is made of each table; one that is deleted meanwhile is passed over."""
        for entry in entries:
            try:
                yield use(self._opened(entry))
            except NotFound:
                if self.components.catalog.has_table(entry.id):
                    raise

    def _entry(self, name: str) -> TableEntry:
        found = self.components.catalog.find_table(name)
        if found is None:
            raise NotFound.of("table", name, self._names())
        return found

    def _store(self, table_id: str, settings: TableProperties, kind: str | None = None) -> StateStore:
        """Return the store of a table, always the same, so that what it remembers serves every use of the table."""
        if table_id not in self._stores:
            c = self.components
            if kind is None:
                try:
                    kind = c.catalog.current(table_id).state_store
                except (NotFound, CatalogDamaged):  # in a damaged catalog, which `Table.check` can still tell of
                    kind = STATE_STORES[0]
            storage = c.property_files.storage_of(table_id, settings)
            self._stores[table_id] = open_state_store(kind, table_id, c.catalog, storage, c.clock, _retry(settings))
        return self._stores[table_id]


def _retry(settings: TableProperties) -> Retry:
    prefix = "sleeper.table.statestore.commit"
    first, most = (settings[f"{prefix}.{name}.retry.wait.ceiling.ms"] / 1000 for name in ("first", "max"))
    return Retry(settings[f"{prefix}.max.attempts"], first, most)
