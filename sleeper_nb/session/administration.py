"""Reinitialise, migrate and declare the tables of an instance; plan them, and maintain all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from sleeper_nb.admin import migrate as migration
from sleeper_nb.admin import reinitialise as reinitialising
from sleeper_nb.admin.create_plan import CreatePlan, SplitPointsEstimate
from sleeper_nb.admin.reinitialise import ReinitialiseReport
from sleeper_nb.arguments import checked
from sleeper_nb.errors import InvalidInput
from sleeper_nb.load.data_columns import SchemaChoice
from sleeper_nb.load.load_options import LoadArguments, LoadOptions
from sleeper_nb.load.split import initial_split_points, with_splits
from sleeper_nb.model.properties import STATE_STORE, TABLE_SCHEMA
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.session import apply as applying
from sleeper_nb.session import creating
from sleeper_nb.session.apply import ApplyReport
from sleeper_nb.session.creating import TableArguments, TableRequest
from sleeper_nb.session.maintenance_service import MaintenanceRound, MaintenanceService, Stop
from sleeper_nb.session.table_opener import TableOpener
from sleeper_nb.table.configuring import check_fit

logger = logging.getLogger(__name__)


class Administration:
    """What is done seldom, and to a table as a whole; made by `Session.admin`."""

    def __init__(self, tables: TableOpener) -> None:
        self._tables = tables

    @checked
    def split_points(
        self,
        data: Any,
        row_keys: Sequence[str],
        leaves: int | None = None,
        *,
        types: Mapping[str, str] | None = None,
        **options: Unpack[LoadArguments],
    ) -> SplitPointsEstimate:
        """Estimate the split points of a table from its data, as Sleeper's ``estimateSplitPoints`` does.

        `create_table` does this by itself; this is for split points that are kept in a file.

        Parameters
        ----------
        data, types, **options
            As `create_table` takes them. Of Parquet files only the row keys are read.
        row_keys
            The row keys; split points are values of the first.
        leaves
            How many leaf partitions the points make; by the number of rows when None.

        Raises
        ------
        InvalidInput, NotFound
            When the data has no such column, or it cannot be a row key.
        """
        choice = SchemaChoice(tuple(row_keys), types=types or {})
        request = TableRequest("table", data=data, choice=choice, leaves=leaves, options=LoadOptions.of(options))
        return creating.estimated_split_points(self._tables, request)

    @checked
    def plan_table(
        self,
        name: str,
        schema: Any = None,
        split_points: Iterable[Any] | None = None,
        **arguments: Unpack[TableArguments],
    ) -> CreatePlan:
        """Return what `Session.create_table` would create with the same arguments.

        The plan has the columns, rows and leaves, and everything that does not fit. Without `row_keys`, it has the
        columns with their numbers of different values and of nulls, to choose from.

        Raises
        ------
        AlreadyExists, InvalidInput, NotFound
            As `Session.create_table`, but for values that do not fit: the plan lists them.
        """
        return creating.plan_table(self._tables, TableRequest.of(name, schema, split_points, arguments))

    @checked
    def reinitialise(
        self,
        name: str,
        *,
        delete_partitions: bool = False,
        split_points: Iterable[Any] | None = None,
        splits_file: str | None = None,
        strings_base64: bool = False,
        force: bool = False,
        dry_run: bool = False,
    ) -> ReinitialiseReport:
        """Delete all contents of a table, in one commit; its name, id and properties stay.

        When the schema in the table's properties file (``sleeper.table.schema``) was changed, the table has that one
        from then on; other row keys need new partitions. Older snapshots are forgotten. Files are deleted by the next
        garbage collection after its delay, so that queries under way can finish. Savepoints stay, keep their files, and
        can be read and rolled back to. An ingest with a job id still counts as done: to load the same rows again, give
        the job another id.

        Parameters
        ----------
        name
            The table.
        delete_partitions
            Create the partitions again; otherwise they stay.
        split_points
            The split points of the new partitions, as `create_table` takes them; those of the table's properties when
            None.
        splits_file, strings_base64
            Instead, a file of them, and whether strings in it are in base64.
        force
            Delete the contents.
        dry_run
            Only return what would be done.

        Raises
        ------
        NotAllowed
            When only the table's properties name the file of split points, and it is outside the warehouse.
        ConfirmationNeeded
            When neither `force` nor `dry_run` is set; it has the plan. Nothing is changed by this or any other error.
        InvalidInput, NotFound, StateRuleBroken
            When the split points or the schema are not valid.
        """
        tables = self._tables
        table, files = tables.named(name), tables.components.property_files
        state = table.store.load()
        written = table.properties[TABLE_SCHEMA]
        schema = None if written in (None, state.schema) else written  # None: the schema stays
        points = None
        if delete_partitions:
            if split_points is None and splits_file is None:
                files.check_splits_file(table.properties)
            settings = with_splits(table.properties, split_points is not None, splits_file, strings_base64)
            points = initial_split_points(schema or state.schema, split_points, settings, tables.storage)
        elif split_points is not None or splits_file is not None:
            raise InvalidInput(
                "split points were given, but the partitions are kept",
                hint="set delete_partitions, or leave the split points out",
            )
        if schema:
            check_fit(table.properties.processed_as(state.processing), schema, tables.components)
            tables.components.engines.row_checks(schema)
        fresh, author = reinitialising.Fresh(schema, points), tables.components.author
        return reinitialising.reinitialise(table.store, table.name, fresh, force=force, dry_run=dry_run, author=author)

    @checked
    def migrate(self, name: str, to: str, *, message: str | None = None) -> Snapshot:
        """Move the metadata of a table to another state store; sessions that use the table follow by themselves.

        One commit moves it. Snapshots and savepoints stay, and can be read as before.

        Parameters
        ----------
        name
            The table.
        to
            The class of the state store: as `create_table` takes it.
        message
            The commit's message in history.

        Raises
        ------
        InvalidInput
            When the table uses that state store already; nothing is changed.
        NotFound
            When there is no such class; the nearest one is named.
        """
        tables = self._tables
        table, files = tables.named(name), tables.components.property_files
        with files.with_commit(table.entry.id, {STATE_STORE: to}) as announce:
            snapshot = migration.migrate_state_store(
                table.store, to, announce=announce, author=tables.components.author, message=message
            )
        tables.replace_store(table.store.named(snapshot.state_store))
        logger.info("table %s: moved to %s in snapshot %d", table.name, snapshot.state_store, snapshot.id)
        return snapshot

    @checked
    def apply(
        self, declared: str | Path | Mapping[str, Any], *, dry_run: bool = False, skip_conflicts: bool = False
    ) -> ApplyReport:
        """Create the declared tables that do not exist yet, and set the declared properties that differ.

        Everything is checked before anything is changed, and a second run changes nothing. Tables that are not
        declared, properties that are not named, and the partitions of existing tables are left alone.

        Parameters
        ----------
        declared
            The path of a TOML file, or its content: ``{"tables": {"trips": {"schema": "city STRING KEY",
            "split-points": ["g"], "properties": {"snapshot.time-retained": "30 d"}}}}``. Instead of ``schema``:
            ``row-keys``, ``sort-keys`` and ``values``, types by names.
        dry_run
            Only return what would be done.
        skip_conflicts
            When a table cannot be made as declared, leave it alone and continue with the others.

        Raises
        ------
        InvalidInput
            When the file cannot be read, naming the line; or, without `skip_conflicts`, when a table cannot be made as
            declared: its schema differs, for instance. Nothing is changed then.
        """
        return applying.apply(self._tables, declared, dry_run=dry_run, skip_conflicts=skip_conflicts)

    @checked
    def maintenance_service(
        self, holder: str, stop: Stop, after_round: Callable[[MaintenanceRound, bool], None]
    ) -> MaintenanceService:
        """Return the service that maintains the instance; the parameters are those of `MaintenanceService`."""
        return MaintenanceService(self._tables, holder, stop, after_round)
