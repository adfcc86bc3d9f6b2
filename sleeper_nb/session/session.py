"""`Session`: what a user calls on an open instance. Its tables, their administration, SQL, and the engines."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from sleeper_nb.admin.property_files import PropertyFiles
from sleeper_nb.arguments import checked
from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.clock import Clock
from sleeper_nb.engines.components import Components, Engines
from sleeper_nb.engines.engine import EngineSettings
from sleeper_nb.errors import (
    AlreadyExists,
    ConfirmationNeeded,
    HintParts,
    InvalidInput,
    NotFound,
    SessionClosed,
    SleeperError,
)
from sleeper_nb.load.load_options import LoadArguments
from sleeper_nb.maintain.system_tables import MARK, SystemRows
from sleeper_nb.model.permissions import NOTHING_ALLOWED, IteratorNames, Permissions
from sleeper_nb.model.properties import INSTANCE_PROPERTIES, LOCAL_FILES, InstanceProperties
from sleeper_nb.model.snapshots import VersionReference
from sleeper_nb.progress import BackgroundJobs, Progress
from sleeper_nb.query import EngineChoice, Queries, QueryResult
from sleeper_nb.report import CONFIRM, Listing
from sleeper_nb.session.table_opener import TableOpener
from sleeper_nb.session.warehouse import Warehouse
from sleeper_nb.sql.binding import lookup_in
from sleeper_nb.sql.references import check_takes_no_notes, may_be_ours
from sleeper_nb.sql.statement import SqlText, Statement
from sleeper_nb.sql.variables import readable
from sleeper_nb.storage.aws import AS_BOTO3_FINDS_IT, AwsTarget
from sleeper_nb.storage.filesystem import Storage, open_near
from sleeper_nb.versions.leases import Leases

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import DataFrame, SparkSession

    from sleeper_nb.admin.delete import DeletionReport
    from sleeper_nb.engines.spark.instance_place import InstanceSource
    from sleeper_nb.engines.spark.named_tables import NamedTables
    from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
    from sleeper_nb.maintain.maintain import MaintenanceReport
    from sleeper_nb.maintain.status import InstanceStatus
    from sleeper_nb.model.property_guide import PropertyValue
    from sleeper_nb.session.administration import Administration
    from sleeper_nb.session.diagnosis import DoctorReport
    from sleeper_nb.session.session_inspect import SessionInspect
    from sleeper_nb.sql.writes import WritingStatement
    from sleeper_nb.table import Table
    from sleeper_nb.widgets.explorer import Explorer

logger = logging.getLogger(__name__)

# What a method alone needs is imported in it: the first answer of SQL does not wait for loads, changes and maintenance.


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
        source: InstanceSource | None = None,
        properties: InstanceProperties | None = None,
        permissions: Permissions = NOTHING_ALLOWED,
        aws: AwsTarget = AS_BOTO3_FINDS_IT,
    ) -> None:
        self.instance, self._aws = instance, aws
        self._storage = storage
        self._given_spark, self._spark_config, self._source = spark, dict(spark_config), source
        self._named_tables: NamedTables | None = None
        self._closed = False
        self._views: dict[str, Statement] = {}
        settings = properties or InstanceProperties({})
        self._session_id = clock.new_id()
        given = EngineSettings(clock, progress, settings[LOCAL_FILES], self._session_id, spark, dict(spark_config))
        components = Components(
            catalog=catalog,
            clock=clock,
            progress=progress,
            engines=Engines.of(given, self._register),
            author=author,
            background=BackgroundJobs(),
            leases=Leases(catalog, clock, author),
            property_files=PropertyFiles(storage, settings, permissions, catalog),
            explore=self._explore_table,
        )
        self._tables = TableOpener(components, storage)
        if spark is not None:
            self._spark_engine()  # so that the given Spark session knows ``format("sleeper")`` from now on

    @property
    def _components(self) -> Components:
        """What the session shares with its tables: catalog, clock, engines and more."""
        return self._tables.components

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        tables = "closed" if self.closed else f"{len(self._components.catalog.tables())} tables"
        return f"Session({self.location!r}, {tables})"

    @property
    def location(self) -> str:
        """The instance's address: an absolute folder, or ``s3://bucket/prefix/instance``."""
        return self._storage.root

    @property
    def warehouse(self) -> Warehouse:
        """The warehouse that the instance is in."""
        return Warehouse(open_near(self._storage.root.removesuffix(f"/{self.instance}"), self._storage), self._aws)

    @property
    def inspect(self) -> SessionInspect:
        """Jobs and schemas of all tables."""
        from sleeper_nb.session.session_inspect import SessionInspect

        return SessionInspect(self._tables, self.instance)

    @property
    def admin(self) -> Administration:
        """What is done seldom, and to a table as a whole."""
        from sleeper_nb.session.administration import Administration

        self._check_open()
        return Administration(self._tables)

    @property
    def closed(self) -> bool:
        """Whether the session was closed; its tables can then no longer be read."""
        return self._closed

    def close(self) -> None:
        """Cancel background work and wait for it, stop Spark, and close all connections.

        Spark is stopped if a session of this process started it and no other session uses it, and never by a session
        that was opened with ``spark=``.
        """
        self._closed = True
        self._components.background.close()
        self._components.engines.close()
        self._components.leases.close()
        self._components.catalog.close()

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosed.of(f"the instance {self.location}")

    # Tables.

    @checked
    def table(self, name: str) -> Table:
        """Return a table by its name, in any case; `NotFound` names the nearest."""
        return self._tables.table(name)

    @checked
    def __contains__(self, name: str) -> bool:
        """Return whether there is a table of a name, in any case."""
        return self._components.catalog.find_table(name) is not None

    def table_names(self) -> tuple[str, ...]:
        """Return the names of all tables."""
        return self._tables.names()

    def tables(self) -> Listing[Table]:
        """Return all tables, by name."""
        return self._tables.listing(self.instance)

    @checked
    def create_table(
        self,
        name: str,
        schema: Any = None,
        split_points: Iterable[Any] | None = None,
        *,
        state_store: str | None = None,
        properties: Mapping[str, str] | None = None,
        data: Any = None,
        row_keys: Sequence[str] = (),
        sort_keys: Sequence[str] = (),
        types: Mapping[str, str] | None = None,
        leaves: int | None = None,
        like: str | None = None,
        if_not_exists: bool = False,
        or_replace: bool = False,
        message: str | None = None,
        **options: Unpack[LoadArguments],
    ) -> Table:
        """Create a table: empty with a schema, or with rows, from which it gets its schema and its partitions.

        With rows, the table, its partitions and its rows are one commit: when a row does not fit, there is no table.
        ``session.admin.plan_table`` shows first what would be created.

        Parameters
        ----------
        name
            Starts with a letter; then letters, digits, - and _.
        schema
            Its row keys, sort keys and values. Anything that is no `Schema` is taken as `data`.
        split_points
            Values of the first row key at which the table is split into partitions, in increasing order; numbers may be
            given as text, times as ISO text (UTC without a zone), and byte arrays in base64. They can be in a file
            instead, one a line: the properties ``sleeper.table.splits.file`` and
            ``sleeper.table.splits.base64.encoded``. None gives one partition, or as many as `leaves` says.
        state_store
            Where its metadata is kept: ``S3StateStore``, full metadata as Parquet with each commit;
            ``TransactionLogStateStore``, a log with full metadata now and then, for many files or frequent commits; or
            ``DynamoDBStateStore``, items of DynamoDB, in a warehouse at ``s3://…``. None: what the properties say, or
            the instance, or ``S3StateStore``.
        properties
            Values of table properties (`sleeper_nb.model.properties`); the others are those that the instance sets
            for its tables (``sleeper.default.table.…``), or have their defaults.
        data
            Rows, as `Table.ingest` takes them. Without `schema`, the columns and their types are those of the data: of
            CSV and JSON files, those that hold the first values.
        row_keys, sort_keys
            Columns of the data. The row keys are those by which most reads choose rows; order matters.
        types
            Types of columns, such as ``{"fare": "decimal(10,2)"}``, instead of those that the data suggests.
        leaves
            The number of leaf partitions, which get about equal shares of the data's rows; 1 to 10,000. None gives one
            for each 2 million rows, up to 64.
        like
            A table whose schema, partitions and properties the new one gets, as far as they are not given.
        if_not_exists
            Return the table as it is when it exists, or when another process creates it meanwhile; nothing is loaded
            then.
        or_replace
            When the table exists, give it this schema, these partitions and rows in a new version; older versions stay
            as they are.
        message
            The first snapshot's message in history.
        **options
            How files are read and columns are matched, as in `Table.ingest`. With ``by_name=True`` a name that no
            column can have becomes one: ``Pickup Time`` is ``Pickup_Time``. With ``ignore_extra=True`` columns that no
            field can hold are left out.

        Raises
        ------
        AlreadyExists
            When the name is taken. Nothing is changed by this or any other error.
        InvalidInput, NotFound
            When a property has no such value, or one that does not fit the schema; when the data has no such column, or
            values that no field can hold.
        """
        from sleeper_nb.session import creating
        from sleeper_nb.table import Table

        arguments: creating.TableArguments = {
            **options,
            "state_store": state_store,
            "properties": properties,
            "data": data,
            "row_keys": row_keys,
            "sort_keys": sort_keys,
            "types": types,
            "leaves": leaves,
            "like": like,
            "or_replace": or_replace,
            "message": message,
        }
        request = creating.TableRequest.of(name, schema, split_points, arguments)
        if if_not_exists and or_replace:
            raise InvalidInput(f"table {name!r} is to be left as it is, and replaced", hint="give one of the two")
        notes: tuple[HintParts, ...] = ()
        existing = self._tables.find(name) if if_not_exists else None
        try:
            notes = () if existing is not None else creating.create_table(self._tables, request)
        except AlreadyExists:  # another process was faster
            existing = self._tables.find(name) if if_not_exists else None
            if existing is None:
                raise
        if existing is not None:
            self._components.progress.finish(f"table {name} exists already; nothing was created or loaded")
        opened = self._tables.named(name)
        if existing is None:
            creating.publish_new(opened)
        table = Table(opened)
        table.notes = notes
        return table

    @checked
    def rename_table(self, old: str, new: str) -> Table:
        """Rename a table; data, history and savepoints stay where they are.

        Parameters
        ----------
        old
            Its name, in any case.
        new
            As in `create_table`; it may differ from the old one in case only.

        Raises
        ------
        AlreadyExists
            When another table has the name. Nothing is changed by this or any other error.
        InvalidInput
            When it is not a valid table name.
        NotFound
            When there is no such table, or another process has renamed or deleted it meanwhile: of two renames at the
            same time one wins.
        """
        from sleeper_nb.model.table_names import check_table_name

        entry, catalog = self._tables.entry(old), self._components.catalog
        check_table_name(new, [other.name for other in catalog.tables() if other.id != entry.id])
        catalog.rename_table(entry.id, entry.name, new)
        logger.info("renamed table %s (%s) to %s", entry.name, entry.id, new)
        return self.table(new)

    @checked
    def drop_table(self, name: str, *, force: bool = False, dry_run: bool = False) -> DeletionReport:
        """Drop a table for good, with all its data, metadata, snapshots and savepoints; its name is free again.

        Commits and reads that are under way on the table fail, and their errors say why. A deletion that was
        interrupted is finished by the next one, of any table, and by `Session.maintain`.

        Parameters
        ----------
        name
            The table.
        force
            Delete it.
        dry_run
            Only return what would be deleted: rows, files, snapshots, savepoints by name, and the current readers.

        Raises
        ------
        ConfirmationNeeded
            When neither `force` nor `dry_run` is set; it has the plan.
        NotFound
            When there is no such table, or another process has deleted or renamed it meanwhile.
        StorageError
            When files could not be deleted; the table is gone all the same.
        """
        from sleeper_nb.admin import delete as deletion

        of = self._components
        catalog, files, clock = of.catalog, of.property_files, of.clock
        if force and not dry_run:
            deletion.finish_deletions(catalog, files, clock)
        entry = self._tables.entry(name)
        plan = deletion.plan_table_deletion(catalog, files, entry, clock)
        if dry_run:
            return plan
        if not force:
            message = f"this deletes table {plan.table!r} for good: {plan.summary}"
            raise ConfirmationNeeded(message, hint=CONFIRM, plan=plan)
        deletion.delete_table(catalog, files, entry, clock)
        self._tables.forget(entry.id)
        logger.info("deleted table %s (%s)", entry.name, entry.id)
        return replace(plan, dry_run=False)

    # The instance.

    @checked
    def properties(self, names: Iterable[str] = ()) -> Listing[PropertyValue]:
        """Return properties of the instance, their defaults, and where each was set.

        Parameters
        ----------
        names
            Which; without names, the instance's own, and the defaults that it sets for its tables.
        """
        return self._list_properties(names, "")

    @checked
    def set_properties(self, changes: Mapping[str, str | None]) -> Listing[PropertyValue]:
        """Set properties of the instance, all or none, and return those that were named.

        Other lines of its file ``config/instance.properties`` stay as they are. Defaults of tables take effect at once
        in this session, and all others when the warehouse is next opened.

        Parameters
        ----------
        changes
            Texts by the names of properties; None unsets one, so that its default applies.

        Raises
        ------
        NotFound
            When no instance has such a property; the hint names the nearest.
        InvalidInput
            When a value is not valid for its property. Nothing is changed then.
        """
        self._check_open()
        self._components.property_files.change_instance(changes)
        own = [name for name in changes if name in INSTANCE_PROPERTIES]
        verb = "takes" if len(own) == 1 else "take"
        footer = f"{', '.join(own)} {verb} effect when the warehouse is next opened" if own else ""
        return self._list_properties(changes, footer)

    def _list_properties(self, names: Iterable[str], footer: str) -> Listing[PropertyValue]:
        from sleeper_nb.model.property_guide import instance_values, list_values

        self._check_open()
        values = instance_values(self._components.property_files.instance, names)
        return list_values(values, f"properties of instance {self.instance}", footer)

    @checked
    def allow(self, iterators: IteratorNames = (), data_paths: Iterable[str | Path] = ()) -> None:
        """Allow more iterators and places outside the warehouse, for the tables that are opened from now on.

        Parameters
        ----------
        iterators, data_paths
            As `sleeper_nb.connect` takes them.
        """
        self._check_open()
        files = self._components.property_files
        files.permissions = files.permissions.with_more(Permissions.of(iterators, data_paths))
        self._tables.allow_outside()
        if (spark := self._components.engines.spark.started) is not None:
            self._register(spark)

    @checked
    def maintain(self, *, dry_run: bool = False) -> MaintenanceReport:
        """Do on each table that is online what is due now; otherwise as `Table.maintain`.

        Interrupted deletions of tables are finished first.
        """
        from sleeper_nb.maintain.maintain import MaintenanceReport
        from sleeper_nb.session.maintenance_service import finished_deletions, maintain_each

        steps = [] if dry_run else list(finished_deletions(self._tables))
        entries = self._components.catalog.tables()
        online = [entry for entry in entries if entry.online]
        for _, done in maintain_each(self._tables, online, dry_run=dry_run):
            steps += done
        return MaintenanceReport(tuple(steps), dry_run, tuple(entry.name for entry in entries if not entry.online))

    @checked
    def status(self, *names: str) -> InstanceStatus:
        """Return the status of tables and what is wrong with them. Nothing is changed, and Spark is not started.

        A table whose status cannot be read is an alert, and does not stop the others.

        Parameters
        ----------
        names
            The tables; all when none is given.
        """
        from sleeper_nb.maintain.service_lease import MAINTENANCE, held_lease
        from sleeper_nb.maintain.status import Alert, InstanceStatus, TableStatus, alerts_of
        from sleeper_nb.model.jobs import KEPT_JOBS
        from sleeper_nb.read.job_tracking import jobs_of
        from sleeper_nb.table import Table

        catalog, clock = self._components.catalog, self._components.clock
        entries = [self._tables.entry(name) for name in names] if names else catalog.tables()
        statuses, alerts = list[TableStatus](), list[Alert]()
        for entry in entries:
            try:
                status = Table(self._tables.open(entry)).inspect.status()
                jobs = jobs_of(catalog, entry.id, "all", KEPT_JOBS, clock.now())
            except NotFound as error:
                if catalog.has_table(entry.id):
                    alerts.append(Alert("error", entry.name, error.message))
            except SleeperError as error:
                alerts.append(Alert("error", entry.name, error.message))
            else:
                statuses.append(status)
                alerts += alerts_of(status, jobs)
        held = held_lease(catalog, MAINTENANCE, clock.now())
        return InstanceStatus(self.instance, tuple(statuses), tuple(alerts), held)

    # SQL and the engines.

    @checked
    def sql(
        self,
        statement: str,
        *,
        engine: EngineChoice = "auto",
        params: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        force: bool = False,
        message: str | None = None,
        job_id: str | None = None,
    ) -> QueryResult | Any:
        """Run a query over tables at any version, or a statement that changes the warehouse.

        Parameters
        ----------
        statement
            One statement, in the engine's SQL. After a table: ``VERSION AS OF 12``, ``'snapshot.12'``,
            ``'savepoint.1'`` or ``'savepoint.<name>'``, or ``TIMESTAMP AS OF '2026-11-01 10:00:00'``. After its name,
            without a space, a system table (`sleeper_nb.maintain.system_tables`): ``flights$savepoints``,
            ``$snapshots``, ``$files``, ``$partitions``, ``$schemas``, ``$properties``, ``$jobs``; a version may follow.
            In place of a table, ``delta('path', 12)`` and ``iceberg('path', 'tag')`` are tables of these formats, at
            their newest version without the second argument.
            ``CREATE TEMP VIEW v AS …`` creates a view that the session keeps, for the engine that created it.
            Statements that change the warehouse are ``CREATE TABLE … ROW KEYS (…) [AS SELECT …]``, ``INSERT INTO``,
            ``INSERT OVERWRITE``, ``DELETE FROM``, ``UPDATE``, ``MERGE INTO``, ``ALTER TABLE``, ``DROP TABLE``,
            ``TRUNCATE TABLE``, ``COMMENT ON`` and ``CALL sys.…()``; an engine reads the rows of their query, and finds
            the rows that meet a condition. Any other statement that could write is refused.
        engine
            ``"duckdb"``, ``"spark"``, or ``"auto"``: DuckDB, unless the warehouse names a Spark cluster, only Spark can
            read the statement or keeps a view in it, a variable in it is a Spark DataFrame, or its files have 4 GiB or
            more and both engines answer it alike. The line below the rows says which was chosen, and why.
        params
            Values of ``:name`` in the statement; they are bound, never pasted.
        data
            Data frames and the like that the statement may read by name, ``FROM df``: pandas, Polars, Arrow, DuckDB and
            Spark tables, and everything here that has `to_arrow`. When None, those among the variables of the code that
            calls, first of its function, then of its module; ``data={}`` reads none. A table or view of the same name
            is read instead. A view that reads one reads the variable of that name each time.
        dry_run
            Change nothing: of a statement that changes the warehouse, return what it would do. One that changes a view
            is refused. A query is for callers that only want `QueryResult.cost` or `QueryResult.explain`, neither of
            which reads rows.
        force
            Confirm a deletion, ``DROP TABLE``, ``TRUNCATE TABLE``, and procedures that delete; or a change of all rows,
            such as ``DELETE`` without a condition.
        message, job_id
            A message for the history, and a name that makes a statement change the table only once, also when it is
            run again: of ``INSERT``, ``DELETE``, ``UPDATE`` and ``MERGE``.

        Returns
        -------
        Of a query, its rows, not read yet. Of a statement that changes the warehouse, what the method that does the
        same returns: of ``ALTER TABLE``, for instance, that of `Table.alter`. Of ``INSERT`` and ``CREATE TABLE AS``,
        the number of rows and the new snapshot.

        Raises
        ------
        ConfirmationNeeded
            When a deletion or a change of all rows is not confirmed; it has the plan. Nothing is changed by this or any
            other error.
        InvalidInput, NotFound
            When the statement cannot be read, or something that it names does not exist.
        """
        self._check_open()
        text = SqlText(statement)

        with readable(data) as variables:
            queries = Queries(
                engine=engine,
                engines=self._components.engines,
                clock=self._components.clock,
                lookup=lookup_in(self._tables.version),
                tables=self._tables.names,
                parameters=params or {},
                data=variables,
                views=self._views,
                dry_run=dry_run,
                home=self._tables.storage,
            )
            writing = _writing_statement(text, engine)
            if writing is None:
                check_takes_no_notes(message, job_id)
                return queries.run(text)
            from sleeper_nb.session.sql_writes import SqlWriter

            return SqlWriter(self, writing, text, queries, message, job_id, force=force, dry_run=dry_run).run()

    @checked
    def explore(self, table: str | None = None) -> Explorer:
        """Return a widget that shows the tables at any of their versions: rows, changes, schema, partitions, SQL.

        Parameters
        ----------
        table
            The table to begin with, at its newest version; the first by name when None.

        Raises
        ------
        NotFound
            When there is no such table.
        EngineError
            When a package of the widget is not installed.
        """
        from sleeper_nb import widgets

        self._check_open()
        return widgets.explore(self, table)

    def _explore_table(self, table: str, version: int | str | None, tab: Literal["rows", "changes"]) -> Explorer:
        """Return the widget of `Table.explore` and `Table.timeline`."""
        from sleeper_nb import widgets

        self._check_open()
        return widgets.timeline(self, table) if tab == "changes" else widgets.explore(self, table, version, only=True)

    def _spark_engine(self) -> SparkRuntime:
        """Return the Spark engine; Spark itself starts with its first work."""
        self._check_open()
        return self._components.engines.spark.runtime()

    @checked
    def doctor(self, *, cluster: bool = False) -> DoctorReport:
        """Look at all that the session needs, and at Spark's workers if `cluster`; see `sleeper_nb.doctor`."""
        from sleeper_nb.session.diagnosis import examine, open_patient

        with open_patient(self.warehouse.location, self.instance, self._components.clock, self._aws) as patient:
            config, given = self._spark_config, self._given_spark
            on_spark = replace(patient, spark_config=config, engine=self._spark_engine, given=given)
            return examine(on_spark, cluster=cluster)

    @property
    def spark_session(self) -> SparkSession:
        """The session's `pyspark.sql.SparkSession`, started by the first use; it knows the tables.

        ::

            spark = session.spark_session
            spark.table("flights")
            spark.sql("SELECT count(*) FROM flights VERSION AS OF 'savepoint.before-fix'")
            spark.read.format("sleeper").option("table", "flights").option("scan.snapshot-id", 12).load()
            df.write.format("sleeper").option("table", "flights").mode("append").save()

        Tables have their names in the database ``default``; a query reads the version that is current when it is made,
        also of tables that are created later. After a name, ``VERSION AS OF`` and ``TIMESTAMP AS OF`` as in `sql`. What
        Spark itself has by a name is read instead, and a warning says which. With several sessions on one Spark, the
        names and the format are those of the session that was asked last. Its SQL cannot write to the warehouse.
        """
        spark = self._spark_engine().session()
        self._offer_format(spark)  # another session may have come in between
        self._offer_names(spark)
        return spark

    @property
    def duckdb_connection(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB connection of the relations that scans give in this thread (`Scan.to_duckdb`).

        Whatever is read on it can be joined with them:
        ``session.duckdb_connection.from_arrow(table.inspect.files())``. It runs one statement at a time, has no limits
        and shows times in UTC. `sql` does not use it, so names that are given to it change no answer. For ibis:
        ``ibis.duckdb.from_connection(session.duckdb_connection)``, with relations
        that were named by ``session.duckdb_connection.register("flights", relation)``.
        """
        self._check_open()
        return self._components.engines.duckdb.database.connection_of_thread()

    def _offer_format(self, spark: SparkSession) -> None:
        if self._source is not None:
            self._source.register(spark, self._components.property_files.permissions)

    def _register(self, spark: SparkSession) -> None:
        self._offer_format(spark)
        if spark is self._given_spark or self._named_tables is not None:
            self._offer_names(spark)

    def _offer_names(self, spark: SparkSession) -> None:
        if self._named_tables is None:
            from sleeper_nb.engines.spark.named_tables import NamedTables

            of = self._components
            self._named_tables = NamedTables(
                *(self._session_id, self.location, self._names_while_open, self._frame, of.clock.new_id)
            )
        self._named_tables.offer(spark)

    def _names_while_open(self) -> tuple[str, ...]:
        return () if self._closed else self._tables.names()

    def _frame(self, spark: SparkSession, name: str, version: VersionReference | None) -> DataFrame | None:
        """Return the rows of a table, or of a system table, for Spark."""
        name, mark, suffix = name.partition(MARK)
        table = self._tables.find(name)
        if table is None:
            return None
        at = table.at(version)
        if not mark:
            return at.scan().to_spark()
        from sleeper_nb.engines.spark import frames

        rows = at.system_table(suffix).rows
        assert isinstance(rows, SystemRows)  # noqa: S101 - what a system table has
        return frames.of_arrow(spark, rows.columns())


def _writing_statement(text: SqlText, engine: EngineChoice) -> WritingStatement | None:
    """Return a statement of our own grammar; None for any other, which an engine judges.

    With ``"auto"`` it is read in the first dialect that can read it.
    """
    statement = text.readable() if engine == "auto" else text.whole(engine)
    if statement is None or not may_be_ours(statement):
        return None
    from sleeper_nb.sql.writes import read_writing_statement

    return read_writing_statement(statement)
