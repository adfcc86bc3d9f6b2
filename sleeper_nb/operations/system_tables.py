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

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, Protocol

import pyarrow as pa

from sleeper_nb.catalog.catalog_base import Retained, retained
from sleeper_nb.errors import ConflictError, NotFound
from sleeper_nb.model.jobs import KEPT_JOBS, Job
from sleeper_nb.model.properties import PROPERTIES, TableProperties
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Moment, Snapshot, to_micros
from sleeper_nb.model.state import TableState
from sleeper_nb.operations.job_tracking import jobs_of
from sleeper_nb.operations.versioning.resolve import Resolved
from sleeper_nb.state_store.history import Metadata
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.metadata import partitions_table

# The system tables: names, columns and how each is made of values. Every engine, and `inspect`, reads these. Pure.
#
# ``flights$savepoints`` begins with the columns of the savepoint proposal, in its order and its types; times of ours
# are timestamps in UTC. A table's name has no ``$``, so none can hide a system table.

MARK = "$"
_LONG, _TEXT, _TEXTS, _TRUTH = pa.int64(), pa.string(), pa.list_(pa.string()), pa.bool_()
_TIME = pa.timestamp("us", tz="UTC")
_FIELDS = pa.list_(pa.struct([("name", _TEXT), ("type", _TEXT), ("role", _TEXT), ("nullable", _TRUTH)]))


class Known(Protocol):
    """What is known of a table at a version; each part is looked up when it is asked for."""

    @property
    def state(self) -> TableState:
        """The partitions and file references of the version."""

    @property
    def snapshots(self) -> Sequence[Snapshot]:
        """The retained snapshots up to the version, newest first."""

    @property
    def savepoints(self) -> Sequence[Savepoint]:
        """The savepoints of snapshots up to the version, oldest first."""

    @property
    def schemas(self) -> Mapping[int, Schema]:
        """The schemas that those snapshots and savepoints are read with, by id."""

    @property
    def properties(self) -> TableProperties:
        """The table's properties, with the filters, iterator and aggregations of the version."""

    @property
    def jobs(self) -> Sequence[Job]:
        """The records of the runs of jobs that were created by then, newest first."""


@dataclass(frozen=True, slots=True)
class SystemColumn:
    """A column of a system table, and what it shows of a value."""

    name: str
    type: pa.DataType
    value: Callable[[Any], Any]

    @classmethod
    def of(cls, name: str, kind: pa.DataType, attribute: str | None = None) -> SystemColumn:
        """Return the column that shows an attribute of the same name, unless another is given."""
        return cls(name, kind, attrgetter(attribute or name))


def columns_of(columns: Sequence[SystemColumn], values: Iterable[Any]) -> pa.Table:
    """Return one row a value."""
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
        for name in ("files", "rows", "bytes", "added_files", "removed_files", "added_rows")
    ),
    SystemColumn.of("file_references", _LONG, "references"),  # REFERENCES is a word of SQL
    *(SystemColumn.of(name, _LONG) for name in ("added_references", "removed_references")),
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
    """One system table.

    Parameters
    ----------
    name
        What stands behind ``$``.
    holds
        What it has a row of.
    rows
        Makes its rows of what is known of a table at a version.
    kept_as
        The part of `sleeper_nb.state_store.history.Metadata` that is a Parquet file with these very rows; None when no
        such file is kept. Engines read the file then, and of it only what a statement needs.
    """

    name: str
    holds: str
    rows: Callable[[Known], pa.Table]
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
    """Return the system table of a table that a suffix names, in any case.

    Raises
    ------
    NotFound
        Naming the nearest.
    """
    found = SYSTEM_TABLES.get(suffix.casefold())
    if found is None:
        raise NotFound.of("system table", suffix, SYSTEM_TABLES, where=f" of table {table!r}")
    return found


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
