"""`Administration`: what makes the tables of an instance, and changes what is not their rows."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from sleeper_nb.components import Components
from sleeper_nb.errors import AlreadyExists, InvalidInput
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.properties import STATE_STORE, TableProperties
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.operations.administration import property_listing
from sleeper_nb.operations.partitioning.first_splits import initial_split_points
from sleeper_nb.operations.processing.processing import Processor
from sleeper_nb.operations.versioning import migration
from sleeper_nb.report import Listing
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage, open_near
from sleeper_nb.table import Table

_NAME = re.compile(r"[^\W\d][\w-]*")


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
    def _store(self, table_id: str, settings: TableProperties, kind: str | None = None) -> StateStore: ...

    def create_table(
        self,
        name: str,
        schema: Schema,
        split_points: Iterable[Any] = (),
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
        if not _NAME.fullmatch(name):
            raise InvalidInput(
                f"no table can be called {name!r}", hint="start with a letter; then letters, digits, - _"
            )
        if name.casefold() in {entry.name.casefold() for entry in self.components.catalog.tables()}:
            raise AlreadyExists(f"table {name!r} is there already", hint="choose another name, or use that table")
        files = self.components.property_files
        kind = (properties or {}).get(STATE_STORE) or state_store or files.new({})[STATE_STORE]
        settings = files.new({STATE_STORE: kind, **(properties or {})})
        Processor.of(DataProcessing.of(settings, schema, self.components.clock.now()), schema)  # or raises
        points = initial_split_points(schema, split_points, settings, self._storage)
        tree = PartitionTree.from_split_points(schema, points, self.components.clock.new_id)
        table_id = self.components.clock.new_id()[:8]
        store = self._store(table_id, settings, settings[STATE_STORE])
        files.add(table_id, settings.to_text())
        try:
            store.create(name, schema, tree, author=self.components.author)
        except AlreadyExists:
            self._storage.delete(paths.table_properties(table_id))
            raise
        return self.table(name)

    def warehouse(self) -> Storage:
        """Return the warehouse that the instance is in: its folder, or the bucket's prefix."""
        return open_near(self._storage.root.removesuffix(f"/{self.instance}"), self._storage)

    def property_values(self) -> Listing[property_listing.PropertyValue]:
        """Return the instance's own properties, and the defaults that it sets for its tables; with who set them."""
        values = property_listing.instance_values(self.components.property_files.instance)
        return property_listing.listing(values, f"properties of instance {self.instance}")

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
