"""`Table`: a table at its current version, and everything that changes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sleeper_nb.catalog.base import TableEntry
from sleeper_nb.components import Components
from sleeper_nb.errors import InvalidInput
from sleeper_nb.loading import Loading
from sleeper_nb.maintenance import Maintenance
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot, VersionReference, parse_moment, parse_version
from sleeper_nb.operations.versioning import savepoints, versions
from sleeper_nb.operations.versioning.savepoint_manager import SavepointManager
from sleeper_nb.operations.versioning.savepoints import SavepointDeletion
from sleeper_nb.operations.versioning.versions import Resolved
from sleeper_nb.report import Listing
from sleeper_nb.scan import Scan
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.table_at import TableAt


class Table(Loading, Maintenance, TableAt):
    """A table: every call reads or changes its current version.

    Made by `Session.create_table` and `Session.table`.
    """

    def __init__(
        self, entry: TableEntry, store: StateStore, components: Components, properties: TableProperties
    ) -> None:
        self.entry, self.properties = entry, properties
        self._store, self._components = store, components
        self.name = entry.name

    @property
    def resolved(self) -> Resolved:  # type: ignore[override]
        """The current version, looked up each time."""
        return Resolved(self._store.head())

    @property
    def state_store(self) -> str:
        """The class that keeps the table's metadata, as the current snapshot says."""
        return self._store.head().state_store

    def at(self, version: int | str | None = None, *, timestamp: datetime | str | None = None) -> TableAt:
        """Return the table at one version.

        Parameters
        ----------
        version
            ``12``, ``"snapshot.12"``, ``"savepoint.3"`` or ``"savepoint.<name>"``.
        timestamp
            The newest version at or before a moment; without a zone it is UTC.
        """
        return self.at_reference(_reference(version, timestamp))

    def at_reference(self, asked: VersionReference | None) -> TableAt:
        """Return the table at a version that was parsed already; at the current one when None."""
        found = versions.resolve(self._components.catalog, self.entry.id, self.name, asked)
        return TableAt(self.name, found, self._store, self._components, self.properties)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        keys: Any = None,
        region: Mapping[str, tuple[Any, Any]] | str | None = None,
        limit: int | None = None,
        version: int | str | None = None,
        timestamp: datetime | str | None = None,
    ) -> Scan:
        """Return rows, not read yet: of the current version, or of the one that `version` or `timestamp` names.

        The other parameters are those of `TableAt.scan`.
        """
        at = self.at(version, timestamp=timestamp)
        return at.scan(columns, where, keys=keys, region=region, limit=limit)

    def snapshots(self) -> Listing[Snapshot]:
        """Return the retained snapshots, newest first."""
        found = self._components.catalog.snapshots(self.entry.id)
        saved: dict[int, list[str]] = {}
        for point in self._components.catalog.savepoints(self.entry.id):
            saved.setdefault(point.saved_snapshot_id, []).append(point.name or str(point.id))
        cells = tuple(
            (s.id, s.time, s.operation, s.added_files, s.removed_files, s.added_rows, s.rows, s.files,
             ", ".join(saved.get(s.id, ())), s.message)
            for s in found
        )  # fmt: skip
        columns = ("snapshot", "time", "operation", "+files", "−files", "+rows", "rows", "files",
                   "savepoint", "message")  # fmt: skip
        return Listing(found, columns, cells, f"history of {self.name}")

    @property
    def savepoint_manager(self) -> SavepointManager:
        """What finds savepoints by their ids, and their files (the proposal of savepoints for Paimon)."""
        return SavepointManager(self._components.catalog, self.entry.id, self._store.storage)

    def savepoints(self, with_bytes: bool = False) -> Listing[Savepoint]:
        """Return the savepoints, oldest first.

        Parameters
        ----------
        with_bytes
            Show the data files that each alone keeps, and their bytes: what deleting it would free. This reads the
            current metadata.
        """
        return savepoints.list_savepoints(self._store, self.name, with_bytes=with_bytes)

    def create_savepoint(
        self, name: str | None = None, message: str | None = None, snapshot: int | str | None = None
    ) -> Savepoint:
        """Keep a version until it is deleted, whatever expires.

        Parameters
        ----------
        name
            A name that starts with a letter and was never used before in this table.
        message
            Why it was made.
        snapshot
            The snapshot to save; the current one when None.
        """
        found = versions.resolve(self._components.catalog, self.entry.id, self.name, _reference(snapshot, None))
        author = self._components.author
        return savepoints.create_savepoint(self._store, found, name=name, message=message, author=author)

    def delete_savepoint(self, savepoint: int | str, dry_run: bool = False) -> SavepointDeletion:
        """Delete a savepoint by its id or name; they are never given again.

        Parameters
        ----------
        savepoint
            ``3``, ``"before-fix"``, ``"savepoint.3"``.
        dry_run
            Only return what would go with it.
        """
        asked = parse_version(savepoint if str(savepoint).startswith("savepoint.") else f"savepoint.{savepoint}")
        found = versions.resolve(self._components.catalog, self.entry.id, self.name, asked).version
        assert isinstance(found, Savepoint)  # noqa: S101 - a savepoint's reference resolves to nothing else
        plan = savepoints.plan_deletion(self._store, found)
        if dry_run:
            return plan
        savepoints.delete_savepoint(self._store, found)
        return replace(plan, dry_run=False)


def _reference(version: int | str | None, timestamp: datetime | str | None) -> VersionReference | None:
    if version is not None and timestamp is not None:
        raise InvalidInput("a version and a timestamp were given", hint="give one of them")
    if timestamp is not None:
        return parse_moment(timestamp)
    return None if version is None else parse_version(version)
