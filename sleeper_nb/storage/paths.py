"""Make and recognise every path of the storage layout (design section 7).

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
    <warehouse>/<instance>/<table-id>/metadata/v<number>.metadata.json
    <warehouse>/<instance>/<table-id>/metadata/version-hint.text
    <warehouse>/<instance>/<table-id>/metadata/snap-<snapshot>-<uuid>.avro
    <warehouse>/<instance>/<table-id>/metadata/<uuid>-m<number>.avro
    <warehouse>/<instance>/<table-id>/metadata/<what is deleted>-<uuid>-deletes.parquet

The files in ``metadata`` describe published versions to other engines, in the layout of Apache Iceberg.

If a table's properties set ``sleeper.table.data.path``, its folder is below that path instead.

The functions return paths relative to the table's folder. Metadata records these paths, so a whole warehouse can be
copied elsewhere; only of files that were added where they were (`is_foreign`) it records the whole address. The folder
is named by the table's id, so renaming a table moves nothing.
"""

from __future__ import annotations

import re

CATALOG = "catalog.sqlite"
INSTANCE_PROPERTIES = "config/instance.properties"
TABLES = "config/tables"
CONFIG = ("config", INSTANCE_PROPERTIES, TABLES)
DATA = "data"
STATE_STORE = "statestore"
SAVEPOINTS = "savepoint"
SCHEMAS = "schema"
PUBLISHED = "metadata"
VERSION_HINT = f"{PUBLISHED}/version-hint.text"
FOLDERS = (
    DATA,
    STATE_STORE,
    f"{STATE_STORE}/files",
    f"{STATE_STORE}/partitions",
    f"{STATE_STORE}/log",
    SAVEPOINTS,
    SCHEMAS,
)
"""The folders in a table's folder, except those in ``data``."""
_DATA_FILE = re.compile(rf"{DATA}/partition_[^/]+/[^/]+\.parquet")
_MOVED = "moved-"
_TABLE_METADATA = re.compile(rf"{PUBLISHED}/v(\d+)\.metadata\.json", re.ASCII)
_DELETES = re.compile(rf"{PUBLISHED}/([0-9a-f]+)-[^/]+-deletes\.parquet")
_OF_PUBLICATION = re.compile(
    rf"{PUBLISHED}/(?:snap-\d+-[0-9a-f]{{32}}\.avro|[0-9a-f]{{32}}-m\d+\.avro|[0-9a-f]+-[0-9a-f]{{32}}-deletes\.parquet)"
)
_SCHEMA = re.compile(rf"{SCHEMAS}/schema-(\d+)")
_SAVEPOINT = re.compile(rf"{SAVEPOINTS}/savepoint-(\d+)", re.ASCII)


def data_file(partition_id: str, name: str) -> str:
    """Return the path of a data file; `name` must be unique: the id of the job, or a new id."""
    return f"{DATA}/partition_{partition_id}/{name}.parquet"


def is_data_file(path: str) -> bool:
    return _DATA_FILE.fullmatch(path) is not None


def moved_file(partition_id: str, name: str) -> str:
    """Return the path of a data file that another program wrote, and that was moved into the table's folder."""
    return data_file(partition_id, f"{_MOVED}{name}")


def is_moved(path: str) -> bool:
    return path.rpartition("/")[2].startswith(_MOVED)


def is_foreign(path: str) -> bool:
    """Return whether a data file is not in its table's folder: its path is absolute, or an ``s3://`` address.

    Such a file was there before the table used it. The table reads it, and never changes or deletes it.
    """
    return path.startswith("/") or "://" in path


def is_of_table(path: str) -> bool:
    """Return whether a path is directly in one of the table's folders, or in a folder of ``data``.

    Clean-ups delete nothing deeper: a link in a copied warehouse could lead anywhere.
    """
    folder = path.rpartition("/")[0]
    return folder in FOLDERS or (folder.startswith("data/") and folder.count("/") == 1)


def files_metadata(snapshot_id: int, name: str) -> str:
    return f"{STATE_STORE}/files/{snapshot_id:012d}-{name}-files.parquet"


def partitions_metadata(snapshot_id: int, name: str) -> str:
    return f"{STATE_STORE}/partitions/{snapshot_id:012d}-{name}-partitions.parquet"


def log_metadata(snapshot_id: int, name: str) -> str:
    """Return the path of the transactions, one per line, that lead from older full metadata to a snapshot."""
    return f"{STATE_STORE}/log/{snapshot_id:012d}-{name}-log.jsonl"


def savepoint(savepoint_id: int) -> str:
    return f"{SAVEPOINTS}/savepoint-{savepoint_id}"


def savepoint_id(path: str) -> int | None:
    match = _SAVEPOINT.fullmatch(path)
    return int(match[1]) if match else None


def schema(schema_id: int) -> str:
    return f"{SCHEMAS}/schema-{schema_id}"


def schema_id(path: str) -> int | None:
    match = _SCHEMA.fullmatch(path)
    return int(match[1]) if match else None


def table_properties(table_id: str) -> str:
    return f"{TABLES}/table-{table_id}.properties"


def table_metadata(number: int) -> str:
    return f"{PUBLISHED}/v{number}.metadata.json"


def table_metadata_number(path: str) -> int | None:
    match = _TABLE_METADATA.fullmatch(path)
    return int(match[1]) if match else None


def manifest_list(snapshot_id: int, name: str) -> str:
    return f"{PUBLISHED}/snap-{snapshot_id}-{name}.avro"


def manifest(name: str, number: int) -> str:
    return f"{PUBLISHED}/{name}-m{number}.avro"


def is_of_publication(path: str) -> bool:
    """Return whether a publication wrote a file, other than metadata; those of other programs have other names."""
    return _OF_PUBLICATION.fullmatch(path) is not None


def position_deletes(key: str, name: str) -> str:
    """Return the path of deleted positions, for other engines; `key` says which."""
    return f"{PUBLISHED}/{key}-{name}-deletes.parquet"


def position_deletes_key(path: str) -> str | None:
    """Return which positions are deleted in the file at a path; None for any other path."""
    match = _DELETES.fullmatch(path)
    return match[1] if match else None
