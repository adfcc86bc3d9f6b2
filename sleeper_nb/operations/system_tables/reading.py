"""The rows of a system table at a version: a Parquet file that is kept anyway, or columns made of the catalog's rows.

What a version means to each, when one is named:

* ``$files`` and ``$partitions`` are those of the version, to the last value.
* ``$snapshots`` are those up to it that are still retained; ``$schemas`` those that they, and savepoints of them, use.
* ``$savepoints`` are those of snapshots up to it, whenever they were made, so that a savepoint's own version shows it;
  of a moment, only those that were made by then.
* ``$jobs`` are the runs that were created by the moment, or by the version's commit; with what became of them since.
* ``$properties`` are those of now, but for filters, iterator and aggregations, which are the version's.

Without a version they are those of the current version. A statement takes that once, so a snapshot that is committed
while the statement runs is in none of its tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial

import pyarrow as pa

from sleeper_nb.catalog.steady import Retained, retained
from sleeper_nb.errors import ConflictError
from sleeper_nb.model.jobs import KEPT_JOBS, Job
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Moment, Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.operations.system_tables.definitions import SystemTable
from sleeper_nb.operations.tracking.job_listing import jobs_of
from sleeper_nb.operations.versioning.versions import Resolved
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.state_store.history import Metadata
from sleeper_nb.storage.filesystem import Storage


@dataclass(frozen=True, slots=True)
class SystemRows:
    """The rows of a system table, for an engine to read in the one way or the other.

    Parameters
    ----------
    columns
        Returns them as columns; of a million files too, there is no Python object a row.
    path
        The Parquet file that has these very rows, where one is kept: of it an engine reads what a statement needs.
    storage
        Where the file lies.
    """

    columns: Callable[[], pa.Table]
    path: str | None
    storage: Storage


@dataclass(frozen=True)
class KnownAt:
    """What the catalog and the state store know of a table up to a version (`definitions.Known`)."""

    store: StateStore
    resolved: Resolved
    properties: TableProperties

    @property
    def state(self) -> TableState:
        """The partitions and file references of the version."""
        return self.store.load(self.resolved.version)

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """The retained snapshots up to the version, newest first."""
        return tuple(s for s in self._retained.snapshots if s.id <= self.resolved.snapshot_id)

    @property
    def savepoints(self) -> tuple[Savepoint, ...]:
        """The savepoints of snapshots up to the version, oldest first."""
        found, asked = self._retained.savepoints, self.resolved.asked
        if isinstance(asked, Moment):
            found = tuple(point for point in found if point.save_time <= asked.time)
        return tuple(p for p in found if p.saved_snapshot_id <= self.resolved.snapshot_id)

    @cached_property
    def _retained(self) -> Retained:
        """Snapshots and savepoints of one moment, looked up once."""
        found = retained(self.store.catalog, self.store.table_id)
        number = self.resolved.snapshot_id
        if self._is_now and all(snapshot.id != number for snapshot in found.snapshots):
            raise ConflictError(
                f"snapshot {number} expired while the statement read the metadata of the table",
                hint="run it again, on the version that is current now",
            )
        return found

    @property
    def schemas(self) -> Mapping[int, Schema]:
        """The schemas that those snapshots and savepoints are read with, by id."""
        versions = (*self.snapshots, *self.savepoints, self.resolved.version)
        checksums = {version.schema_id: version.schema_checksum for version in versions}
        return {schema_id: self.store.schema(schema_id, checksum) for schema_id, checksum in checksums.items()}

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The records of the runs of jobs that were created by then, newest first."""
        found = jobs_of(self.store.catalog, self.store.table_id, "all", KEPT_JOBS, self.store.clock.now())
        return found if self._is_now else tuple(job for job in found if job.created <= self._moment)

    @property
    def _is_now(self) -> bool:
        return self.resolved.asked is None

    @property
    def _moment(self) -> datetime:
        asked = self.resolved.asked
        return asked.time if isinstance(asked, Moment) else self.resolved.version.committed


def rows_at(table: SystemTable, at: KnownAt) -> SystemRows:
    """Return the rows of a system table, not looked up yet."""
    metadata = Metadata.of(at.resolved.version)
    is_kept = metadata is not None and metadata.log is None and table.kept_as is not None
    path = str(getattr(metadata, table.kept_as)) if is_kept and table.kept_as else None
    return SystemRows(partial(table.rows, at), path, at.store.storage)
