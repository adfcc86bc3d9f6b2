"""System tables (``flights$files``): their names, their columns, and their rows at a version.

What each table shows when a version is named:

* ``$files`` and ``$partitions``: those of the version, exactly.
* ``$snapshots``: those up to the version that are still retained; ``$schemas``: those that they and their savepoints
  use.
* ``$savepoints``: those of snapshots up to the version, whenever they were created, so that a savepoint's own version
  shows it; for a moment, only those that were created by then.
* ``$jobs``: the runs that were created by the moment, or by the version's commit, with their state now.
* ``$properties``: the current ones, except for filters, iterator and aggregations, which are the version's.

Without a version they show the current version. A statement resolves it once, so a snapshot that is committed while the
statement runs is in none of its tables.

Every engine, and ``inspect``, reads these definitions. The rows are a Parquet file of the metadata where one has these
very rows, and are otherwise made from the catalog's rows. ``$savepoints`` begins with the columns of the savepoint
proposal, in its order and types; our own times are timestamps in UTC. The name of a table cannot contain ``$``, so no
table can hide a system table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from operator import attrgetter
from typing import Any

import pyarrow as pa

from sleeper_nb.catalog.catalog_base import retained
from sleeper_nb.errors import ConflictError, NotFound
from sleeper_nb.model.jobs import KEPT_JOBS, Job
from sleeper_nb.model.properties import PROPERTIES, TableProperties
from sleeper_nb.model.savepoints import RetainedVersions, Savepoint
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Moment, Snapshot, to_micros
from sleeper_nb.model.state import TableState
from sleeper_nb.state_store.history import Metadata
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.metadata import partitions_table
from sleeper_nb.versions.resolve import Resolved

MARK = "$"
_LONG, _TEXT, _TEXTS, _TRUTH = pa.int64(), pa.string(), pa.list_(pa.string()), pa.bool_()
_TIME = pa.timestamp("us", tz="UTC")
_COUNTS = pa.map_(_TEXT, _LONG)
_FIELDS = pa.list_(pa.struct([("name", _TEXT), ("type", _TEXT), ("role", _TEXT), ("nullable", _TRUTH)]))


@dataclass(frozen=True)
class KnownAt:
    """What the system tables show of a table at a version; each part is looked up on first use.

    Snapshots are those that are retained, newest first; savepoints, oldest first, are those of snapshots up to the
    version; schemas those that both are read with; properties have the filters, iterator and aggregations of the
    version; jobs are the runs that were created by then, newest first.
    """

    store: StateStore
    resolved: Resolved
    properties: TableProperties

    @property
    def state(self) -> TableState:
        return self.store.load(self.resolved.version)

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        return tuple(s for s in self._retained.snapshots if s.id <= self.resolved.snapshot_id)

    @property
    def savepoints(self) -> tuple[Savepoint, ...]:
        savepoints, reference = self._retained.savepoints, self.resolved.reference
        if isinstance(reference, Moment):
            savepoints = tuple(point for point in savepoints if point.save_time <= reference.time)
        return tuple(point for point in savepoints if point.saved_snapshot_id <= self.resolved.snapshot_id)

    @cached_property
    def _retained(self) -> RetainedVersions:
        kept = retained(self.store.catalog, self.store.table_id)
        number = self.resolved.snapshot_id
        if self._is_current and all(snapshot.id != number for snapshot in kept.snapshots):
            raise ConflictError(
                f"snapshot {number} expired while the statement read the metadata of the table",
                hint="run the statement again: it then reads the version that is current now",
            )
        return kept

    @property
    def schemas(self) -> Mapping[int, Schema]:
        versions = (*self.snapshots, *self.savepoints, self.resolved.version)
        checksums = {version.schema_id: version.schema_checksum for version in versions}
        return {schema_id: self.store.schema(schema_id, checksum) for schema_id, checksum in checksums.items()}

    @property
    def jobs(self) -> tuple[Job, ...]:
        from sleeper_nb.read.job_tracking import jobs_of

        jobs = jobs_of(self.store.catalog, self.store.table_id, "all", KEPT_JOBS, self.store.clock.now())
        return jobs if self._is_current else tuple(job for job in jobs if job.created <= self._moment)

    @property
    def _is_current(self) -> bool:
        return self.resolved.reference is None

    @property
    def _moment(self) -> datetime:
        reference = self.resolved.reference
        return reference.time if isinstance(reference, Moment) else self.resolved.version.committed


@dataclass(frozen=True, slots=True)
class SystemColumn:
    """A column of a system table, and how its cell is made from a value."""

    name: str
    type: pa.DataType
    value: Callable[[Any], Any]

    @classmethod
    def of(cls, name: str, kind: pa.DataType, attribute: str | None = None) -> SystemColumn:
        """Return a column that shows the attribute of that name, or the one given."""
        return cls(name, kind, attrgetter(attribute or name))


def columns_of(columns: Sequence[SystemColumn], values: Iterable[Any]) -> pa.Table:
    rows = list(values)
    schema = pa.schema([(column.name, column.type) for column in columns])
    return pa.table([pa.array(map(c.value, rows), c.type) for c in columns], schema=schema)


_SAVEPOINT = (
    SystemColumn.of("savepoint_id", _LONG, "id"),
    SystemColumn.of("saved_snapshot_id", _LONG),
    SystemColumn.of("schema_id", _LONG),
    SystemColumn("save_time", _LONG, lambda savepoint: to_micros(savepoint.save_time) // 1000),
    SystemColumn.of("record_count", _LONG),
    SystemColumn.of("name", _TEXT),
    SystemColumn.of("message", _TEXT),
    SystemColumn.of("author", _TEXT),
    SystemColumn.of("periodic", _TRUTH),
    SystemColumn.of("snapshot_time", _TIME),
    SystemColumn.of("full_manifest_list", _TEXT),
    SystemColumn.of("partitions_path", _TEXT),
    SystemColumn("log_path", _TEXT, lambda savepoint: savepoint.log and savepoint.log.path),
)
_SNAPSHOT = (
    SystemColumn.of("snapshot_id", _LONG, "id"),
    SystemColumn.of("time", _TIME),
    SystemColumn.of("operation", _TEXT),
    SystemColumn.of("message", _TEXT),
    SystemColumn.of("author", _TEXT),
    SystemColumn.of("schema_id", _LONG),
    *(
        SystemColumn.of(name, _LONG)
        for name in (
            *("files", "rows", "bytes", "added_files", "removed_files", "added_rows"),
            *("inserted_rows", "updated_rows", "deleted_rows"),
        )
    ),
    SystemColumn.of("file_references", _LONG, "references"),  # REFERENCES is a keyword of SQL
    *(SystemColumn.of(name, _LONG) for name in ("added_references", "removed_references")),
    SystemColumn(
        "broken_expectations",
        _COUNTS,
        lambda snapshot: snapshot.expectations and [*snapshot.broken_expectations.items()],
    ),
    *(SystemColumn.of(name, _TEXT) for name in ("state_store", "job_id", "commit_id", "files_path", "partitions_path")),
)
_SCHEMA = (
    SystemColumn("schema_id", _LONG, lambda pair: pair[0]),
    SystemColumn("row_keys", _TEXTS, lambda pair: [field.name for field in pair[1].row_keys]),
    SystemColumn("sort_keys", _TEXTS, lambda pair: [field.name for field in pair[1].sort_keys]),
    SystemColumn("fields", _FIELDS, lambda pair: _fields(pair[1])),
    SystemColumn("json", _TEXT, lambda pair: pair[1].to_json()),
)
_JOB = (
    SystemColumn.of("job_id", _TEXT, "id"),
    SystemColumn.of("kind", _TEXT),
    SystemColumn.of("state", _TEXT),
    *(SystemColumn.of(name, _TIME) for name in ("created", "started", "finished")),
    SystemColumn.of("partition_ids", _TEXTS),
    *(SystemColumn.of(name, _LONG) for name in ("files", "rows_read", "rows_written", "snapshot_id")),
    SystemColumn.of("reason", _TEXT),
    SystemColumn.of("author", _TEXT),
)


def _fields(schema: Schema) -> list[dict[str, Any]]:
    return [
        {"name": field.name, "type": str(field.type), "role": schema.role(field.name), "nullable": field.nullable}
        for field in schema.fields
    ]


def _properties(properties: TableProperties) -> pa.Table:
    columns = (
        SystemColumn("key", _TEXT, attrgetter("name")),
        SystemColumn("value", _TEXT, lambda each: properties.text(each.name)),
        SystemColumn("is_set", _TRUTH, lambda each: each.name in properties.texts),
        SystemColumn("default_value", _TEXT, attrgetter("default")),
        SystemColumn("effect", _TEXT, attrgetter("effect")),
    )
    return columns_of(columns, PROPERTIES.values())


@dataclass(frozen=True, slots=True)
class SystemTable:
    """One system table."""

    name: str  # the name after ``$``
    holds: str  # what each row is about
    rows: Callable[[KnownAt], pa.Table]
    # the field of `sleeper_nb.state_store.history.Metadata` that names a Parquet file with these very rows; None
    # when there is no such file. Engines then read from the file what a statement needs
    kept_as: str | None = None


SYSTEM_TABLES: dict[str, SystemTable] = {
    each.name: each
    for each in (
        SystemTable("savepoints", "each savepoint that is kept", lambda at: columns_of(_SAVEPOINT, at.savepoints)),
        SystemTable("snapshots", "each snapshot that is retained", lambda at: columns_of(_SNAPSHOT, at.snapshots)),
        SystemTable("files", "each reference to a data file", lambda at: at.state.files.table, "files_path"),
        SystemTable("partitions", "each partition, leaves and others",
                    lambda at: partitions_table(at.state.tree, at.state.schema), "partitions_path"),
        SystemTable("schemas", "each schema that a version is read with",
                    lambda at: columns_of(_SCHEMA, sorted(at.schemas.items()))),
        SystemTable("properties", "each property, set or not", lambda at: _properties(at.properties)),
        SystemTable("jobs", "each run of a job that is on record", lambda at: columns_of(_JOB, at.jobs)),
    )
}  # fmt: skip


def system_table(suffix: str, table: str) -> SystemTable:
    """Return the system table that a suffix names, in any case; `NotFound`: the hint names the nearest."""
    definition = SYSTEM_TABLES.get(suffix.casefold())
    if definition is None:
        raise NotFound.of("system table", suffix, SYSTEM_TABLES, where=f" of table {table!r}")
    return definition


@dataclass(frozen=True, slots=True)
class SystemRows:
    """The rows of a system table, which an engine reads from a file if there is one, and as columns otherwise."""

    columns: Callable[[], pa.Table]  # Arrow: a million files need no Python object a row
    path: str | None  # the Parquet file that has these very rows; None where there is none
    storage: Storage  # the folder that `path` is below


def rows_at(table: SystemTable, at: KnownAt) -> SystemRows:
    """Return the rows of a system table at a version. Nothing is looked up yet."""
    path = None
    metadata = Metadata.of(at.resolved.version)
    if metadata is not None and metadata.log is None and table.kept_as is not None:
        path = str(getattr(metadata, table.kept_as))
    return SystemRows(partial(table.rows, at), path, at.store.storage)
