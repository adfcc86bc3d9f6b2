"""Every path of the storage layout, in one place and both ways (design section 7).

::

    <warehouse>/<instance>/catalog.sqlite
    <warehouse>/<instance>/config/instance.properties
    <warehouse>/<instance>/config/tables/table-<table-id>.properties
    <warehouse>/<instance>/<table-id>/data/partition_<partition-id>/<uuid>.parquet
    <warehouse>/<instance>/<table-id>/statestore/files/<12-digit snapshot>-<uuid>-files.parquet
    <warehouse>/<instance>/<table-id>/statestore/partitions/<12-digit snapshot>-<uuid>-partitions.parquet
    <warehouse>/<instance>/<table-id>/statestore/log/<12-digit snapshot>-<uuid>-log.jsonl
    <warehouse>/<instance>/<table-id>/savepoint/savepoint-<id>
    <warehouse>/<instance>/<table-id>/schema/schema-<id>

The folder of a table is below ``sleeper.table.data.path`` instead, where its properties say one.

Paths below a table's folder use its id, so renaming a table moves nothing, and they are what metadata records, so a
warehouse can be copied elsewhere whole. The functions return paths below the table's folder.
"""

from __future__ import annotations

import re

CATALOG = "catalog.sqlite"
INSTANCE_PROPERTIES = "config/instance.properties"
CONFIG = ("config", INSTANCE_PROPERTIES, "config/tables")
DATA = "data"
STATE_STORE = "statestore"
SAVEPOINTS = "savepoint"
SCHEMAS = "schema"
FOLDERS = (
    DATA,
    STATE_STORE,
    f"{STATE_STORE}/files",
    f"{STATE_STORE}/partitions",
    f"{STATE_STORE}/log",
    SAVEPOINTS,
    SCHEMAS,
)
"""The folders in a table's folder, but for those in ``data``."""
_DATA_FILE = re.compile(rf"{DATA}/partition_[^/]+/[^/]+\.parquet")
_SCHEMA = re.compile(rf"{SCHEMAS}/schema-(\d+)")
_SAVEPOINT = re.compile(rf"{SAVEPOINTS}/savepoint-(\d+)", re.ASCII)


def data_file(partition_id: str, name: str) -> str:
    """Return the path of a data file; `name` is unique, the id of the job or a new one."""
    return f"{DATA}/partition_{partition_id}/{name}.parquet"


def is_data_file(path: str) -> bool:
    """Return whether a path is one of a data file."""
    return _DATA_FILE.fullmatch(path) is not None


def is_of_table(path: str) -> bool:
    """Return whether a path is where a table has files: right in one of its folders, or in a folder of ``data``.

    Clean-ups delete nothing deeper, where a link that came with a warehouse may lead anywhere.
    """
    folder = path.rpartition("/")[0]
    return folder in FOLDERS or (folder.startswith("data/") and folder.count("/") == 1)


def files_metadata(snapshot_id: int, name: str) -> str:
    """Return the path of the Parquet file with all file references of a snapshot."""
    return f"{STATE_STORE}/files/{snapshot_id:012d}-{name}-files.parquet"


def partitions_metadata(snapshot_id: int, name: str) -> str:
    """Return the path of the Parquet file with the partition tree of a snapshot."""
    return f"{STATE_STORE}/partitions/{snapshot_id:012d}-{name}-partitions.parquet"


def log_metadata(snapshot_id: int, name: str) -> str:
    """Return the path of the transactions that lead from older full metadata to a snapshot, one a line."""
    return f"{STATE_STORE}/log/{snapshot_id:012d}-{name}-log.jsonl"


def savepoint(savepoint_id: int) -> str:
    """Return the path of a savepoint's JSON (the proposal's name)."""
    return f"{SAVEPOINTS}/savepoint-{savepoint_id}"


def savepoint_id(path: str) -> int | None:
    """Return the id of the savepoint whose JSON lies at a path; None for another file."""
    found = _SAVEPOINT.fullmatch(path)
    return int(found[1]) if found else None


def schema(schema_id: int) -> str:
    """Return the path of a schema's JSON."""
    return f"{SCHEMAS}/schema-{schema_id}"


def schema_id(path: str) -> int | None:
    """Return the id of the schema that a path is of; None for any other path."""
    found = _SCHEMA.fullmatch(path)
    return int(found[1]) if found else None


def table_properties(table_id: str) -> str:
    """Return the path of a table's properties; this one is below the instance's folder."""
    return f"config/tables/table-{table_id}.properties"
