"""`Session`: an instance of a warehouse, its tables, and SQL over them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sleeper_nb.background import BackgroundJobs
from sleeper_nb.catalog.base import Catalog
from sleeper_nb.clock import Clock
from sleeper_nb.components import Components
from sleeper_nb.errors import AlreadyExists, InvalidInput, NotFound
from sleeper_nb.lookup import lookup_in
from sleeper_nb.model.jobs import Job
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.properties import STATE_STORE, STATE_STORES, TableProperties
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.operations.partitioning.first_splits import initial_split_points
from sleeper_nb.operations.processing.processing import Processor
from sleeper_nb.operations.scanning.planning import files_of
from sleeper_nb.operations.tracking import job_listing
from sleeper_nb.operations.upkeep.maintaining import MaintenanceReport
from sleeper_nb.operations.versioning import migration
from sleeper_nb.operations.versioning.leases import Leases
from sleeper_nb.progress import Progress
from sleeper_nb.query import ENGINES, Engine, QueryResult, run_query
from sleeper_nb.report import Bytes, Listing
from sleeper_nb.retry import Retry
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.state_store.opening import open_state_store
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sleeper_nb.engines.spark.session import SparkEngine

_NAME = re.compile(r"[^\W\d][\w-]*")


class Session:
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
        on_spark: Callable[[SparkSession], object] = lambda _: None,
    ) -> None:
        self.instance = instance
        self._storage = storage
        self._given_spark, self._spark_config, self._on_spark = spark, dict(spark_config), on_spark
        self._spark: SparkEngine | None = None
        self._lock = threading.Lock()
        self._stores: dict[str, StateStore] = {}
        self._views: dict[Engine, dict[str, str]] = {engine: {} for engine in ENGINES}
        leases = Leases(catalog, clock, author)
        self.components = Components(catalog, clock, progress, self.spark, author, BackgroundJobs(), leases)
        if spark is not None:
            self.spark()  # a session that is handed in knows ``format("sleeper")`` from now on

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Session({self.location!r}, {len(self.components.catalog.tables())} tables)"

    @property
    def location(self) -> str:
        """Where the instance lies: an absolute folder, or ``s3://bucket/prefix/instance``."""
        return self._storage.root

    def close(self) -> None:
        """Cancel work in the background and wait for it, stop Spark if it was started here, and let go of the rest."""
        self.components.background.close()
        if self._spark is not None:
            self._spark.stop()
        self.components.leases.close()
        self.components.catalog.close()

    def spark(self) -> SparkEngine:
        """Return what runs Spark; Spark itself starts with the first work for it."""
        with self._lock:
            if self._spark is None:
                from sleeper_nb.engines.spark.session import SparkEngine

                self._spark = SparkEngine(
                    self._given_spark,
                    config=self._spark_config,
                    clock=self.components.clock,
                    progress=self.components.progress,
                    on_session=self._on_spark,
                )
            return self._spark

    def create_table(
        self,
        name: str,
        schema: Schema,
        split_points: Iterable[Any] = (),
        *,
        state_store: str = "S3StateStore",
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """Make a table.

        Parameters
        ----------
        name
            Starts with a letter; then letters, digits, - and _.
        schema
            Its row keys, sort keys and values.
        split_points
            Values of the first row key at which the table is cut into partitions, in increasing order; numbers may be
            given as text, and byte arrays in base64. They can stand in a file instead, one a line: the properties
            ``sleeper.table.splits.file`` and ``sleeper.table.splits.base64.encoded``. None gives one partition.
        state_store
            Where its metadata is kept: ``S3StateStore``, full metadata as Parquet with each commit;
            ``TransactionLogStateStore``, a log with full metadata now and then, for many files or frequent commits; or
            ``DynamoDBStateStore``, items of DynamoDB, in a warehouse at ``s3://…``.
        properties
            Values of table properties (`sleeper_nb.model.properties`); the others have their defaults.

        Raises
        ------
        AlreadyExists
            When the name is taken. Nothing is changed by this or any other error.
        InvalidInput, NotFound
            When a property has no such value, or one that does not fit the schema.
        """
        if not _NAME.fullmatch(name):
            raise InvalidInput(
                f"no table can be called {name!r}", hint="start with a letter; then letters, digits, - _"
            )
        if name.casefold() in {entry.name.casefold() for entry in self.components.catalog.tables()}:
            raise AlreadyExists(f"table {name!r} is there already", hint="choose another name, or use that table")
        settings = TableProperties({STATE_STORE: state_store, **(properties or {})})
        Processor.of(DataProcessing.of(settings, schema, self.components.clock.now()), schema)  # or raises
        points = initial_split_points(schema, split_points, settings, self._storage)
        tree = PartitionTree.from_split_points(schema, points, self.components.clock.new_id)
        table_id = self.components.clock.new_id()[:8]
        store = self._store(table_id, settings, settings[STATE_STORE])
        self._storage.write(paths.table_properties(table_id), settings.to_text().encode())
        try:
            store.create(name, schema, tree, author=self.components.author)
        except AlreadyExists:
            self._storage.delete(paths.table_properties(table_id))
            raise
        return self.table(name)

    def migrate_state_store(self, name: str, to: str, *, message: str | None = None) -> Snapshot:
        """Move the metadata of a table to another state store; sessions that use the table follow by themselves.

        One commit moves it. Snapshots and savepoints stay, and can be read as before.

        Parameters
        ----------
        name
            The table.
        to
            The class of the state store: as `create_table` takes it.
        message
            What history shows of it.

        Raises
        ------
        InvalidInput
            When its metadata is there already; nothing is changed.
        NotFound
            When there is no such class; the nearest one is named.
        """
        table_id = self.table(name).entry.id
        store, properties = self._stores[table_id], paths.table_properties(table_id)
        # also of a move whose process ended behind its commit
        migration.note_state_store(self._storage, properties, store.head().state_store)
        snapshot = migration.migrate_state_store(store, to, author=self.components.author, message=message)
        migration.note_state_store(self._storage, properties, snapshot.state_store)
        self._stores[table_id] = store.named(snapshot.state_store)
        return snapshot

    def table(self, name: str) -> Table:
        """Return a table by its name, in any case; `NotFound` names the nearest."""
        entries = self.components.catalog.tables()
        found = [e for e in entries if e.name == name] or [e for e in entries if e.name.casefold() == name.casefold()]
        if not found:
            raise NotFound.of("table", name, [entry.name for entry in entries])
        entry = found[0]
        path = paths.table_properties(entry.id)
        settings = TableProperties.from_text(self._storage.read(path).decode(), self._storage.locate(path))
        return Table(entry, self._store(entry.id, settings), self.components, settings)

    def store_of(self, name: str) -> StateStore:
        """Return what keeps the versions of a table, for readers that plan by themselves."""
        return self._stores[self.table(name).entry.id]

    def tables(self) -> Listing[Table]:
        """Return all tables, by name."""
        found = tuple(self.table(entry.name) for entry in self.components.catalog.tables())
        heads = [self.components.catalog.current(table.entry.id) for table in found]
        states = [table.state for table in found]
        sizes = map(files_of, states)  # a snapshot counts a file once for each partition that uses it
        cells = tuple(
            (t.name, h.id, h.rows, files, Bytes(size), len(state.tree.leaves), h.time)
            for t, h, state, (files, size) in zip(found, heads, states, sizes, strict=True)
        )
        columns = ("table", "snapshot", "rows", "files", "bytes", "partitions", "last change")
        offline = ", ".join(table.name for table in found if not table.entry.online)
        footer = f"offline, so no maintenance touches them: {offline}" if offline else ""
        return Listing(found, columns, cells, f"tables of {self.instance}", footer)

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

    def maintain(self, dry_run: bool = False) -> MaintenanceReport:
        """Do on each table that is online what is due now; as `Table.maintain` otherwise."""
        entries = self.components.catalog.tables()
        done = [self.table(entry.name).maintain(dry_run) for entry in entries if entry.online]
        steps = tuple(step for report in done for step in report.steps)
        return MaintenanceReport(steps, dry_run, tuple(entry.name for entry in entries if not entry.online))

    def sql(self, statement: str, *, engine: Engine = "spark", params: Mapping[str, Any] | None = None) -> QueryResult:
        """Run a query over tables at any version.

        Parameters
        ----------
        statement
            One statement of the engine's SQL. Behind a table: ``VERSION AS OF 12``, ``'snapshot.12'``,
            ``'savepoint.1'`` or ``'savepoint.<name>'``, or ``TIMESTAMP AS OF '2026-11-01 10:00:00'``. Behind its name,
            without a space, a system table (`sleeper_nb.operations.system_tables`): ``flights$savepoints``,
            ``$snapshots``, ``$files``, ``$partitions``, ``$schemas``, ``$properties``, ``$jobs``; a version may follow.
            ``CREATE TEMP VIEW v AS …`` makes a view that the session keeps, for the engine that made it.
        engine
            ``"spark"`` or ``"duckdb"``.
        params
            Values of ``:name`` in the statement; they are bound, never pasted.
        """
        if engine not in ENGINES:
            raise InvalidInput(f"no engine {engine!r}", hint="the engines are spark and duckdb")
        return run_query(
            statement,
            engine=engine,
            parameters=params or {},
            lookup=lookup_in(self.table),
            tables=tuple(entry.name for entry in self.components.catalog.tables()),
            spark=self.spark,
            views=self._views[engine],
        )

    def _store(self, table_id: str, settings: TableProperties, kind: str | None = None) -> StateStore:
        """Return the store of a table, always the same, so that what it remembers serves every use of the table."""
        if table_id not in self._stores:
            c = self.components
            if kind is None:
                try:
                    kind = c.catalog.current(table_id).state_store
                except NotFound:  # in a damaged catalog, which `Table.check` can still tell of
                    kind = STATE_STORES[0]
            storage = self._storage.below(table_id)
            self._stores[table_id] = open_state_store(kind, table_id, c.catalog, storage, c.clock, _retry(settings))
        return self._stores[table_id]


def _retry(settings: TableProperties) -> Retry:
    prefix = "sleeper.table.statestore.commit"
    first, most = (settings[f"{prefix}.{name}.retry.wait.ceiling.ms"] / 1000 for name in ("first", "max"))
    return Retry(settings[f"{prefix}.max.attempts"], first, most)
