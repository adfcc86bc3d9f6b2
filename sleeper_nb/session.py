"""`Session`: an instance of a warehouse, its tables, and SQL over them."""

from __future__ import annotations

import contextlib
import getpass
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sleeper_nb.arguments import checked
from sleeper_nb.catalog.catalog_base import Catalog, TableEntry
from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.clock import Clock, Retry
from sleeper_nb.engines.components import Components, Engines
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.spark.source_options import InstancePlace
from sleeper_nb.errors import (
    CatalogDamaged,
    ConfirmationNeeded,
    InvalidInput,
    NotFound,
    OutcomeUnknown,
    SessionClosed,
    SleeperError,
    StorageError,
)
from sleeper_nb.model.checksums import checksum_of
from sleeper_nb.model.jobs import Job
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.permissions import NOTHING_ALLOWED, IteratorNames, Permissions
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.properties import (
    INSTANCE_PROPERTIES,
    LOCAL_FILES,
    OWN_TABLES,
    STATE_STORE,
    STATE_STORES,
    SYNC,
    TABLE_SCHEMA,
    TRANSACTION_ITEMS,
    InstanceProperties,
    TableProperties,
    schema_line,
)
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.operations import job_tracking as job_listing
from sleeper_nb.operations.administration import apply as applying
from sleeper_nb.operations.administration import delete as deletion
from sleeper_nb.operations.administration import migrate as migration
from sleeper_nb.operations.administration import property_listing
from sleeper_nb.operations.administration import reinitialise as reinitialising
from sleeper_nb.operations.administration.apply import declarations_of
from sleeper_nb.operations.administration.delete import finish_deletions
from sleeper_nb.operations.administration.instances import (
    check_instance_name,
    check_table_name,
)
from sleeper_nb.operations.administration.property_files import PropertyFiles, read_text
from sleeper_nb.operations.row_processing import Processor
from sleeper_nb.operations.scanning.scan_plan import files_of
from sleeper_nb.operations.split import initial_split_points, with_splits
from sleeper_nb.operations.upkeep.maintain import MaintenanceReport
from sleeper_nb.operations.versioning.leases import Leases
from sleeper_nb.progress import SILENT, BackgroundJobs, Progress
from sleeper_nb.query import ENGINES, Engine, QueryResult, run_query
from sleeper_nb.report import CONFIRM, Bytes, Listing, OnDemand
from sleeper_nb.sql.statement import lookup_in
from sleeper_nb.state_store.registry import open_state_store
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.aws import Network
from sleeper_nb.storage.filesystem import Storage, open_near, open_storage
from sleeper_nb.storage.local import LocalPlace
from sleeper_nb.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sleeper_nb.engines.spark.engine import SparkEngine
    from sleeper_nb.engines.spark.source_table import SourceTable


# `Administration`: what makes the tables of an instance, and changes what is not their rows.


class Administration(ABC):
    """The part of `Session` that administers tables."""

    instance: str
    components: Components
    _storage: Storage
    _stores: dict[str, StateStore]

    @abstractmethod
    def table(self, name: str) -> Table:
        """Return a table by its name."""

    @abstractmethod
    def _entry(self, name: str) -> TableEntry: ...

    @abstractmethod
    def _store(self, table_id: str, settings: TableProperties, kind: str | None = None) -> StateStore: ...

    @checked
    def create_table(
        self,
        name: str,
        schema: Schema,
        split_points: Iterable[Any] | None = None,
        *,
        state_store: str | None = None,
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
            ``DynamoDBStateStore``, items of DynamoDB, in a warehouse at ``s3://…``. None: what the properties say, or
            the instance, or ``S3StateStore``.
        properties
            Values of table properties (`sleeper_nb.model.properties`); the others are those that the instance sets
            for its tables (``sleeper.default.table.…``), or have their defaults.

        Raises
        ------
        AlreadyExists
            When the name is taken. Nothing is changed by this or any other error.
        InvalidInput, NotFound
            When a property has no such value, or one that does not fit the schema.
        """
        settings, tree = self._checked(name, schema, split_points, state_store, properties)
        table_id = self.components.clock.new_id()[:8]
        store = self._store(table_id, settings, settings[STATE_STORE])
        content = settings.to_text()
        self.components.property_files.add(table_id, content)
        recorded = {"processing": settings.processing, "properties_checksum": checksum_of(content.encode())}
        try:
            store.create(name, schema, tree, author=self.components.author, **recorded)
        except OutcomeUnknown:
            raise  # the table may be there, and needs the file
        except SleeperError:
            with contextlib.suppress(StorageError):  # the first error is the one to tell
                self.components.property_files.remove(table_id)
            raise
        return self.table(name)

    @checked
    def rename_table(self, old: str, new: str) -> Table:
        """Give a table another name; data, history and savepoints stay where they are.

        Parameters
        ----------
        old
            Its name, in any case.
        new
            As in `create_table`; it may differ from the old one in case only.

        Raises
        ------
        AlreadyExists
            When another table is called so. Nothing is changed by this or any other error.
        InvalidInput
            When is not a valid table name so.
        NotFound
            When there is no such table; or it was renamed or deleted meanwhile, as of two that rename it at once one
            wins.
        """
        entry, catalog = self._entry(old), self.components.catalog
        check_table_name(new, [other for other in catalog.tables() if other.id != entry.id])
        catalog.rename_table(entry.id, entry.name, new)
        return self.table(new)

    @checked
    def delete_table(self, name: str, force: bool = False, dry_run: bool = False) -> deletion.DeletionReport:
        """Delete a table for good, with all its data, metadata, snapshots and savepoints; its name is free again.

        What is under way on the table fails and says so, commits and readers alike. A run that did not end is finished
        by the next one, of any table, and by `Session.maintain`.

        Parameters
        ----------
        name
            The table.
        force
            Do it.
        dry_run
            Only return what would go: rows, files, snapshots, savepoints by name, and who reads now.

        Raises
        ------
        ConfirmationNeeded
            When neither `force` nor `dry_run` is set; it has the plan.
        NotFound
            When there is no such table, or another has deleted or renamed it meanwhile.
        StorageError
            When files could not be deleted; the table is gone all the same.
        """
        of = self.components.catalog, self.components.property_files
        if force and not dry_run:
            deletion.finish_deletions(*of, self.components.clock)
        entry = self._entry(name)
        plan = deletion.plan_table_deletion(*of, entry, self.components.clock)
        if dry_run:
            return plan
        if not force:
            raise ConfirmationNeeded(
                f"this deletes table {plan.table!r} for good: {plan.summary}", hint=CONFIRM, plan=plan
            )
        deletion.delete_table(*of, entry, self.components.clock)
        self._stores.pop(entry.id, None)
        return replace(plan, dry_run=False)

    @checked
    def reinitialise_table(
        self,
        name: str,
        delete_partitions: bool = False,
        split_points: Iterable[Any] | None = None,
        *,
        splits_file: str | None = None,
        strings_base64: bool = False,
        force: bool = False,
        dry_run: bool = False,
    ) -> reinitialising.ReinitialiseReport:
        """Delete all contents of a table, in one commit; its name, id and properties stay.

        When the schema in the table's properties file (``sleeper.table.schema``) was changed, the table has that one
        from then on; other row keys need new partitions. Older snapshots are forgotten. Files go with the next garbage
        collection behind its delay, so that who reads meanwhile ends in peace. Savepoints stay, keep their files, and
        can be read and rolled back to. An ingest with a job id stays done: the same load is given another id.

        Parameters
        ----------
        name
            The table.
        delete_partitions
            Make the partitions anew; if not, they stay.
        split_points
            Where the new ones are cut, as `create_table` takes them. None is as the table's properties say.
        splits_file, strings_base64
            Instead, a file of them, and whether strings in it are in base64.
        force
            Do it.
        dry_run
            Only return what would be done.

        Raises
        ------
        NotAllowed
            When only the table's properties name the file of split points, and it is outside the warehouse.
        ConfirmationNeeded
            When neither `force` nor `dry_run` is set; it has the plan. Nothing is changed by this or any other error.
        InvalidInput, NotFound, StateRuleBroken
            When split points or the schema cannot be.
        """
        table, now = self.table(name), self.components.clock.now()
        written, schema = table.properties[TABLE_SCHEMA], table.schema
        changed = None if written in (None, schema) else written
        points = None
        if delete_partitions:
            if split_points is None and splits_file is None:
                self.components.property_files.check_splits_file(table.properties)
            settings = with_splits(table.properties, split_points is not None, splits_file, strings_base64)
            points = initial_split_points(changed or schema, split_points, settings, self._storage)
        elif split_points is not None or splits_file is not None:
            raise InvalidInput(
                "split points are given, but the partitions stay", hint="set delete_partitions, or leave them out"
            )
        if changed:
            Processor.of(DataProcessing.of(table.at().answering, changed, now), changed)  # or raises
        fresh, author = reinitialising.Fresh(changed, points), self.components.author
        store = self._stores[table.entry.id]
        return reinitialising.reinitialise(store, table.name, fresh, force=force, dry_run=dry_run, author=author)

    def _checked(
        self,
        name: str,
        schema: Schema,
        split_points: Iterable[Any] | None,
        state_store: str | None,
        properties: Mapping[str, str] | None,
    ) -> tuple[TableProperties, PartitionTree]:
        """Return what a new table begins with; raise when it could not be made."""
        check_table_name(name, self.components.catalog.tables())
        files = self.components.property_files
        kind = (properties or {}).get(STATE_STORE) or state_store or files.new({})[STATE_STORE]
        settings = files.new({STATE_STORE: kind, **(properties or {}), TABLE_SCHEMA: schema_line(schema)})
        self._check_fit(schema, settings)
        points = initial_split_points(schema, split_points, settings, self._storage)
        return settings, PartitionTree.from_split_points(schema, points, self.components.clock.new_id)

    def _check_fit(self, schema: Schema, settings: TableProperties) -> None:
        """Raise when properties do not fit a schema."""
        Processor.of(DataProcessing.of(settings, schema, self.components.clock.now()), schema)

    @checked
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
        store, files = self._stores[table_id], self.components.property_files
        # also of a move whose process ended behind its commit
        files.change(table_id, {STATE_STORE: store.head().state_store}, lambda _: None)
        snapshot = migration.migrate_state_store(store, to, author=self.components.author, message=message)
        self._stores[table_id] = store.named(snapshot.state_store)
        try:
            files.change(table_id, {STATE_STORE: snapshot.state_store}, lambda _: None)
        except StorageError as error:
            raise StorageError(
                f"table {name!r} has moved to {snapshot.state_store}, but its properties still name the state store"
                f" before: {error.message}",
                hint=f"nothing reads that line; set {STATE_STORE} in the file once it can be written",
            ) from error
        return snapshot


# `Declaring`: tables as a file declares them, and what an instance says of itself.


class Declaring(Administration):
    """The part of `Session` that compares an instance with what was declared for it."""

    instance: str

    @abstractmethod
    def _check_open(self) -> None:
        """Raise `SessionClosed` when the session was closed."""

    @checked
    def apply(
        self, declared: str | Path | Mapping[str, Any], *, dry_run: bool = False, skip_conflicts: bool = False
    ) -> applying.ApplyReport:
        """Make tables as they are declared: those that are not there, and properties that differ.

        All is checked before anything is changed, and doing it again changes nothing. Tables that are not declared, and
        properties that are not named, are left alone; so are the partitions of a table that is there.

        Parameters
        ----------
        declared
            The path of a TOML file, or what it would say: ``{"tables": {"trips": {"schema": "city STRING KEY",
            "split-points": ["g"], "properties": {"snapshot.time-retained": "30 d"}}}}``. Instead of ``schema``:
            ``row-keys``, ``sort-keys`` and ``values``, types by names.
        dry_run
            Only return what would be done.
        skip_conflicts
            When a table cannot be as it is declared, leave it alone and do the others.

        Raises
        ------
        InvalidInput
            When the file cannot be read, naming the line; or, without `skip_conflicts`, when a table cannot be as it is
            declared: its schema differs, for instance. Nothing is changed then.
        """
        tables = [self.table(entry.name) for entry in self.components.catalog.tables()]
        there = {t.name.casefold(): applying.Existing(t.name, t.schema, t.properties) for t in tables}
        plans = tuple(
            applying.plan_table(
                each,
                there.get(each.name.casefold()),
                lambda new: self._checked(new.name, new.schema, new.split_points, None, new.properties),
                lambda old, settings: self._check_fit(old.schema, settings),
            )
            for each in declarations_of(declared)
        )
        if not dry_run and not skip_conflicts:
            applying.check_all_can(plans)
        named = {each.declared.name.casefold() for each in plans}
        for each in () if dry_run else plans:
            new = each.declared
            if each.action == "create":
                self.create_table(new.name, new.schema, new.split_points, properties=new.properties)
            elif each.action == "change":
                self.table(new.name).set_properties(each.changes)
        return applying.ApplyReport(plans, tuple(t.name for t in tables if t.name.casefold() not in named), dry_run)

    def warehouse(self) -> Storage:
        """Return the warehouse that the instance is in: its folder, or the bucket's prefix."""
        return open_near(self._storage.root.removesuffix(f"/{self.instance}"), self._storage)

    @checked
    def property_values(self, names: Iterable[str] = ()) -> Listing[property_listing.PropertyValue]:
        """Return properties of the instance, their defaults, and who set them.

        Parameters
        ----------
        names
            Which; when none is named, its own, and the defaults that it sets for its tables.
        """
        return self._told(names, "")

    @checked
    def set_properties(self, changes: Mapping[str, str | None]) -> Listing[property_listing.PropertyValue]:
        """Set properties of the instance, all or none, and return those that were named.

        Other lines of its file ``config/instance.properties`` stay as they are. Defaults of tables count from now on in
        this session, and all else when the warehouse is opened the next time.

        Parameters
        ----------
        changes
            Texts by the names of properties; None unsets one, so that its default counts.

        Raises
        ------
        NotFound
            When no instance has such a property; the nearest is named.
        InvalidInput
            When a value is none of its property. Nothing is changed then.
        """
        self._check_open()
        self.components.property_files.change_instance(changes)
        own = [name for name in changes if name in INSTANCE_PROPERTIES]
        later = f"{', '.join(own)} count{'s' * (len(own) == 1)} when the warehouse is opened the next time"
        return self._told(changes, later if own else "")

    def _told(self, names: Iterable[str], footer: str) -> Listing[property_listing.PropertyValue]:
        self._check_open()
        values = property_listing.instance_values(self.components.property_files.instance, names)
        return property_listing.list_values(values, f"properties of instance {self.instance}", footer)


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
                from sleeper_nb.engines.spark.engine import SparkEngine

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


# `connect`: from an address to the storage and the catalog that are there.


@checked
def connect(
    warehouse: str | Path,
    instance: str = "default",
    *,
    region: str | None = None,
    endpoint_url: str | None = None,
    spark: SparkSession | None = None,
    spark_config: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    iterators: IteratorNames = (),
    data_paths: Iterable[str | Path] = (),
    author: str | None = None,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> Session:
    """Open an instance of a warehouse; a new folder is a new warehouse.

    Parameters
    ----------
    warehouse
        A folder, with the catalog in it as a SQLite file; or ``s3://bucket/prefix``, with the catalog in DynamoDB.
    instance
        Its name below the warehouse; instances share nothing. With DynamoDB it is part of the names of its tables, so
        one account and region has one instance of a name.
    region, endpoint_url
        Of S3 and DynamoDB; from the environment or the AWS profile when None. Keys always come from there.
    spark
        A Spark session to use; otherwise one is started when it is first needed.
    spark_config
        Settings for a session that is started.
    properties
        Values of instance properties (`sleeper_nb.model.properties`), for this session; the others are those of the
        instance's file ``config/instance.properties``, or have their defaults.
    iterators
        The iterators that tables of the warehouse may run (``sleeper.table.iterator.class.name``), by name; or a
        mapping of names to functions of (batch, config). Any other is refused: properties of a warehouse that somebody
        else made could name any code of this machine.
    data_paths
        Folders and ``s3://`` addresses outside the warehouse that tables may keep their files in, or below
        (``sleeper.table.data.path``). Any other place outside is refused.
    author
        Who history says it was; the name of the operating system's user when None.
    clock, progress
        For tests and faces.
    """
    check_instance_name(instance)
    clock, progress = clock or Clock(), progress or SILENT
    permissions = Permissions.of(iterators, data_paths)
    whole = _folder(warehouse, region, endpoint_url, Network(clock, progress))
    storage = whole.below(instance)
    PropertyFiles(storage, InstanceProperties({}), permissions).check_own_places()
    settings = _settings(storage, properties or {})
    place = InstancePlace(whole.root, instance, region, endpoint_url)
    if storage.local:
        storage = Storage(LocalPlace(storage.root, sync=settings[SYNC]))
        catalog: Catalog = SqliteCatalog(Path(storage.locate(paths.CATALOG)), sync=settings[SYNC])
    else:
        catalog = _dynamodb(place, settings, clock, progress, whole.place.network)
    return Session(
        instance, storage, catalog, clock=clock, progress=progress, author=author or _user(),
        spark=spark, spark_config=spark_config or {},
        on_spark=_registration(place, storage),
        properties=settings, permissions=permissions,
    )  # fmt: skip


def _dynamodb(
    place: InstancePlace, settings: InstanceProperties, clock: Clock, progress: Progress, network: Network | None
) -> Catalog:
    from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog

    return DynamoDBCatalog(
        place.instance,
        region=place.region,
        endpoint_url=place.endpoint_url,
        clock=clock,
        max_items=settings[TRANSACTION_ITEMS],
        own_tables=settings[OWN_TABLES] == "own",
        on_create=progress.finish,
        network=network,
    )


def _registration(place: InstancePlace, storage: Storage) -> Callable[[SparkSession, Permissions], None]:
    """Return what makes Spark's ``format("sleeper")`` mean the tables of an instance, with what its user allows."""

    def register(spark: SparkSession, permissions: Permissions) -> None:
        from sleeper_nb.engines.spark import source

        source.register(spark, replace(place, permissions=permissions), open_source_table, storage)

    return register


def open_source_table(place: InstancePlace, name: str) -> SourceTable:
    """Open a table for Spark's data source, in a process of Spark; it is closed by its `close`.

    Raises
    ------
    NotFound
        When there is no such table, or no instance at all: a reader makes none.
    """
    from sleeper_nb.engines.spark.source_table import SourceTable

    storage = open_storage(place.warehouse).below(place.instance)
    if storage.local and not Path(storage.locate(paths.CATALOG)).exists():
        raise NotFound(f"no instance {place.instance!r} in {place.warehouse}", hint="check both names")
    session = _open(place)
    try:
        table = session.table(name)
        store = session.store_of(table.name)
    except BaseException:
        session.close()
        raise
    return SourceTable(
        table.name,
        store,
        properties=lambda: session.table(table.name).properties,
        leases=session.components.leases,
        leases_elsewhere=partial(open_leases, place),
        close=session.close,
    )


@contextmanager
def open_leases(place: InstancePlace) -> Iterator[Leases]:
    """Open the leases of an instance in a process of Spark, and release what it holds at the end."""
    with _open(place) as session:
        yield session.components.leases


def _open(place: InstancePlace) -> Session:
    session = connect(
        place.warehouse,
        place.instance,
        region=place.region,
        endpoint_url=place.endpoint_url,
        data_paths=place.permissions.data_paths,
    )
    session.components.property_files.permissions = place.permissions  # with functions that only names stand for
    return session


def _folder(warehouse: str | Path, region: str | None, endpoint_url: str | None, network: Network) -> Storage:
    whole = open_storage(warehouse, region=region, endpoint_url=endpoint_url, network=network)
    if whole.local and Path(whole.root).is_file():
        raise InvalidInput(f"{warehouse} is a file, no folder", hint="give the folder of a warehouse, or a new one")
    return whole


def _settings(storage: Storage, given: Mapping[str, str]) -> InstanceProperties:
    try:
        content = read_text(storage, paths.INSTANCE_PROPERTIES)
    except NotFound:
        return InstanceProperties(given)
    kept = InstanceProperties.from_text(content, storage.locate(paths.INSTANCE_PROPERTIES))
    return InstanceProperties({**kept.texts, **given})


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a user database
        return None
