"""The tables of an open instance: found by name, opened, and listed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sleeper_nb.catalog.catalog_base import TableEntry
from sleeper_nb.clock import Retry
from sleeper_nb.engines.components import Components, OpenTable
from sleeper_nb.errors import CatalogDamaged, NotFound
from sleeper_nb.model.properties import STATE_STORES, TableProperties
from sleeper_nb.model.snapshots import Snapshot, SnapshotReference, VersionReference
from sleeper_nb.read.scan_plan import files_of
from sleeper_nb.report import Bytes, Listing, OnDemand
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.state_store.state_stores import open_state_store
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.table_at import TableAt, version_of

if TYPE_CHECKING:
    from sleeper_nb.session.session import Session
    from sleeper_nb.table import Table

logger = logging.getLogger(__name__)


class TableOpener:
    """Finds and opens the tables of one instance.

    A table has one store in a session, so that what the store remembers serves every use of the table.
    """

    def __init__(self, components: Components, storage: Storage) -> None:
        self.components, self.storage = components, storage
        self._stores: dict[str, StateStore] = {}

    def names(self) -> tuple[str, ...]:
        return tuple(entry.name for entry in self.components.catalog.tables())

    def entry(self, name: str) -> TableEntry:
        entry = self.components.catalog.find_table(name)
        if entry is None:
            raise NotFound.of("table", name, self.names())
        return entry

    def named(self, name: str) -> OpenTable:
        return self.open(self.entry(name))

    def find(self, name: str) -> Table | None:
        """Open a table by its name, in any case; None when there is none."""
        entry = self.components.catalog.find_table(name)
        return None if entry is None else self._table(self.open(entry))

    def table(self, name: str) -> Table:
        return self._table(self.named(name))

    def version(self, name: str, asked: VersionReference | None) -> TableAt | None:
        """Return a table at the version that a statement asks for; None when there is no table of the name."""
        entry = self.components.catalog.find_table(name)
        return None if entry is None else version_of(self.open(entry), asked)

    def open(self, entry: TableEntry) -> OpenTable:
        """Open a table: read its property file, and take its store."""
        properties = self.components.property_files.of_entry(entry)
        return OpenTable(entry, self.store(entry.id, properties), self.components, properties)

    def open_present(self, entry: TableEntry) -> OpenTable:
        """Open a table; when it was deleted meanwhile, `NotFound` says so by its name."""
        try:
            return self.open(entry)
        except NotFound:
            if self.components.catalog.has_table(entry.id):
                raise
            raise NotFound(f"no table {entry.name!r}", hint="it was deleted meanwhile") from None

    def store(self, table_id: str, properties: TableProperties, kind: str | None = None) -> StateStore:
        """Return the state store of a table, always the same one; `kind` is its class when that is known."""
        if table_id not in self._stores:
            c = self.components
            storage = c.property_files.storage_of(table_id, properties)
            kind = kind or self._kind_of(table_id)
            self._stores[table_id] = open_state_store(kind, table_id, c.catalog, storage, c.clock, _retry(properties))
        return self._stores[table_id]

    def store_of(self, entry: TableEntry) -> StateStore:
        """Return the state store of a table, whose properties are not read when it was opened before."""
        return self._stores.get(entry.id) or self.open(entry).store

    def replace_store(self, store: StateStore) -> None:
        self._stores[store.table_id] = store

    def allow_outside(self) -> None:
        """Let the open tables read files in all places that the user has allowed by now."""
        for store in self._stores.values():
            store.storage.outside = self.components.property_files.outside

    def forget(self, table_id: str) -> None:
        self._stores.pop(table_id, None)

    @staticmethod
    def _table(opened: OpenTable) -> Table:
        from sleeper_nb.table import Table  # a query does without it, and all that it can do

        return Table(opened)

    def _kind_of(self, table_id: str) -> str:
        try:
            return self.components.catalog.current(table_id).state_store
        except (NotFound, CatalogDamaged) as error:  # still opened, so that a check can report on it
            logger.warning("table %s: its current snapshot cannot be read: %s", table_id, error.message)
            return STATE_STORES[0]

    def listing(self, instance: str) -> Listing[Table]:
        """Return all tables by name, with the totals of each one's current snapshot; each is opened when it is used."""
        catalog = self.components.catalog
        entries, heads = catalog.tables(), catalog.current_of_all()
        present = tuple(entry for entry in entries if entry.id in heads or self._is_damaged(entry))
        tables = OnDemand(present, lambda entry: self._table(self.open_present(entry)), NotFound)
        cells = tuple(self._cells(entry, heads[entry.id]) for entry in present)
        columns = ("table", "snapshot", "rows", "files", "bytes", "partitions", "last change", "id")
        offline = ", ".join(entry.name for entry in present if not entry.online)
        footer = f"offline, so maintenance skips them: {offline} · " if offline else ""
        footer += f"properties: {self.components.property_files.path('<id>')}"
        return Listing(tables, columns, cells, f"tables of {instance}", footer)

    def _is_damaged(self, entry: TableEntry) -> bool:
        """Return False for a table that was deleted meanwhile; raise when the catalog has lost its newest snapshot."""
        if self.components.catalog.has_table(entry.id):
            self.components.catalog.current(entry.id)
        return False

    def _cells(self, entry: TableEntry, head: Snapshot) -> tuple[object, ...]:
        files, size, leaves = head.files, head.bytes, head.leaves
        if leaves is None or head.references is None:  # written by an earlier version, which counted each reference
            state = version_of(self.open_present(entry), SnapshotReference(head.id)).state
            (files, size), leaves = files_of(state), len(state.tree.leaves)
        return (entry.name, head.id, head.rows, files, Bytes(size), leaves, head.time, entry.id)


def opener_of(session: Session) -> TableOpener:
    """Return what opens the tables of a session, for the modules of this folder."""
    return session._tables  # noqa: SLF001 - as its own modules do


def _retry(properties: TableProperties) -> Retry:
    prefix = "sleeper.table.statestore.commit"
    first, most = (properties[f"{prefix}.{name}.retry.wait.ceiling.ms"] / 1000 for name in ("first", "max"))
    return Retry(properties[f"{prefix}.max.attempts"], first, most)
