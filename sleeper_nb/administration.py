"""`Administration`: what makes the tables of an instance, and changes what is not their rows."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sleeper_nb.arguments import checked
from sleeper_nb.catalog.base import TableEntry
from sleeper_nb.components import Components
from sleeper_nb.errors import ConfirmationNeeded, InvalidInput, OutcomeUnknown, SleeperError, StorageError
from sleeper_nb.model.checksums import checksum_of
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.properties import STATE_STORE, TABLE_SCHEMA, TableProperties, schema_line
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.operations.administration import deletion, reinitialising
from sleeper_nb.operations.administration.naming import check_name
from sleeper_nb.operations.partitioning.first_splits import initial_split_points, with_splits
from sleeper_nb.operations.processing.processing import Processor
from sleeper_nb.operations.versioning import migration
from sleeper_nb.report import CONFIRM
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.table import Table


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
        check_name(new, [other for other in catalog.tables() if other.id != entry.id])
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
        plan = deletion.plan_deletion(*of, entry, self.components.clock)
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
        check_name(name, self.components.catalog.tables())
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
