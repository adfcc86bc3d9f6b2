"""The system tables: names, columns and how each is made of values. Every engine, and `inspect`, reads these. Pure.

``flights$savepoints`` begins with the columns of the savepoint proposal, in its order and its types; times of ours are
timestamps in UTC. A table's name has no ``$``, so none can hide a system table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol

import pyarrow as pa

from sleeper_nb.errors import NotFound
from sleeper_nb.model.jobs import Job
from sleeper_nb.model.properties import PROPERTIES, TableProperties
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot, to_micros
from sleeper_nb.model.state import TableState
from sleeper_nb.storage.metadata_files import partitions_table

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
class Column:
    """A column of a system table, and what it shows of a value."""

    name: str
    type: pa.DataType
    value: Callable[[Any], Any]

    @classmethod
    def of(cls, name: str, kind: pa.DataType, attribute: str | None = None) -> Column:
        """Return the column that shows an attribute of the same name, unless another is given."""
        return cls(name, kind, attrgetter(attribute or name))


def columns_of(columns: Sequence[Column], values: Iterable[Any]) -> pa.Table:
    """Return one row a value."""
    rows = list(values)
    schema = pa.schema([(column.name, column.type) for column in columns])
    return pa.table([pa.array(map(c.value, rows), c.type) for c in columns], schema=schema)


_SAVEPOINT = (
    Column.of("savepoint_id", _LONG, "id"),
    Column.of("saved_snapshot_id", _LONG),
    Column.of("schema_id", _LONG),
    Column("save_time", _LONG, lambda savepoint: to_micros(savepoint.save_time) // 1000),
    Column.of("record_count", _LONG),
    Column.of("name", _TEXT),
    Column.of("message", _TEXT),
    Column.of("author", _TEXT),
    Column.of("periodic", _TRUTH),
    Column.of("snapshot_time", _TIME),
    Column.of("full_manifest_list", _TEXT),
    Column.of("partitions_path", _TEXT),
    Column("log_path", _TEXT, lambda savepoint: savepoint.log and savepoint.log.path),
)
_SNAPSHOT = (
    Column.of("snapshot_id", _LONG, "id"),
    Column.of("time", _TIME),
    Column.of("operation", _TEXT),
    Column.of("message", _TEXT),
    Column.of("author", _TEXT),
    Column.of("schema_id", _LONG),
    *(Column.of(name, _LONG) for name in ("files", "rows", "bytes", "added_files", "removed_files", "added_rows")),
    Column.of("file_references", _LONG, "references"),  # REFERENCES is a word of SQL
    *(Column.of(name, _LONG) for name in ("added_references", "removed_references")),
    *(Column.of(name, _TEXT) for name in ("state_store", "job_id", "commit_id", "files_path", "partitions_path")),
)
_SCHEMA = (
    Column("schema_id", _LONG, lambda pair: pair[0]),
    Column("row_keys", _TEXTS, lambda pair: [field.name for field in pair[1].row_keys]),
    Column("sort_keys", _TEXTS, lambda pair: [field.name for field in pair[1].sort_keys]),
    Column("fields", _FIELDS, lambda pair: _fields(pair[1])),
    Column("json", _TEXT, lambda pair: pair[1].to_json()),
)
_JOB = (
    Column.of("job_id", _TEXT, "id"),
    Column.of("kind", _TEXT),
    Column.of("state", _TEXT),
    *(Column.of(name, _TIME) for name in ("created", "started", "finished")),
    Column.of("partition_ids", _TEXTS),
    *(Column.of(name, _LONG) for name in ("files", "rows_read", "rows_written", "snapshot_id")),
    Column.of("reason", _TEXT),
    Column.of("author", _TEXT),
)


def _fields(schema: Schema) -> list[dict[str, Any]]:
    return [
        {"name": field.name, "type": str(field.type), "role": schema.role(field.name), "nullable": field.nullable}
        for field in schema.fields
    ]


def _properties(properties: TableProperties) -> pa.Table:
    columns = (
        Column("key", _TEXT, attrgetter("name")),
        Column("value", _TEXT, lambda each: properties.text(each.name)),
        Column("is_set", _TRUTH, lambda each: each.name in properties.texts),
        Column("default_value", _TEXT, attrgetter("default")),
        Column("effect", _TEXT, attrgetter("effect")),
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
