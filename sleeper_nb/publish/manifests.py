"""Manifests and manifest lists: Avro files that name data files and files of position deletes.

Sections "Manifests" and "Snapshots" of the Iceberg specification, format version 2. An entry keeps the snapshot and the
sequence number with which it first came into the table; in the manifest that adds it these are left to the list.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeVar

from sleeper_nb.errors import NotInstalled, StorageError, first_line

DATA, DELETES = 0, 1
"""What a manifest lists: data files, or files of deletes."""
EXISTING, ADDED = 0, 1
FILE_PATH_ID, POSITION_ID = 2147483546, 2147483545
"""The field ids of the columns of a file of position deletes."""
DATA_FILE, POSITION_DELETES = 0, 1
MOST_ENTRIES: Final = 10_000
"""The most entries of a manifest."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A data file, or a file of position deletes."""

    address: str  # with its scheme; the deletes of a file name it by exactly this text
    rows: int  # of the whole file, with deleted rows
    size: int
    # for some columns, by field id: the number of NULLs; the least and the greatest value, as bytes
    nulls: Mapping[int, int] = field(default_factory=dict)
    lower: Mapping[int, bytes] = field(default_factory=dict)
    upper: Mapping[int, bytes] = field(default_factory=dict)
    sort_order: int | None = None  # the id of the order of its rows; None for deletes
    deletes_of: str | None = None  # of deletes: the address of the data file
    snapshot_id: int | None = None  # with which the file came; None in the manifest that adds it
    sequence: int | None = None

    def record(self, snapshot_id: int) -> dict[str, Any]:
        is_new = self.sequence is None
        return {
            "status": ADDED if is_new else EXISTING,
            "snapshot_id": snapshot_id if is_new else self.snapshot_id,
            "sequence_number": self.sequence,
            "file_sequence_number": self.sequence,
            "data_file": {
                "content": DATA_FILE if self.deletes_of is None else POSITION_DELETES,
                "file_path": self.address,
                "file_format": "PARQUET",
                "partition": {},
                "record_count": self.rows,
                "file_size_in_bytes": self.size,
                "value_counts": _pairs(dict.fromkeys(self.nulls, self.rows)),
                "null_value_counts": _pairs(self.nulls),
                "lower_bounds": _pairs(self.lower),
                "upper_bounds": _pairs(self.upper),
                "sort_order_id": self.sort_order,
                "referenced_data_file": self.deletes_of,
            },
        }

    @classmethod
    def of(cls, record: Mapping[str, Any], sequence: int) -> ManifestEntry:
        """Return the entry of a record; `sequence` is that of its manifest."""
        found = record["data_file"]
        own = record["sequence_number"]
        maps = (found["null_value_counts"], found["lower_bounds"], found["upper_bounds"])
        nulls, lower, upper = ({each["key"]: each["value"] for each in pairs or ()} for pairs in maps)
        return cls(
            found["file_path"], found["record_count"], found["file_size_in_bytes"], nulls, lower, upper,
            found["sort_order_id"], found["referenced_data_file"], record["snapshot_id"],
            sequence if own is None else own,
        )  # fmt: skip


def _pairs(values: Mapping[int, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """What a manifest list says of a manifest."""

    address: str
    bytes: int
    content: int
    sequence: int  # of the publication that wrote the manifest
    min_sequence: int  # of its oldest entry
    snapshot_id: int  # the snapshot whose publication wrote it
    added: tuple[int, int]  # files that it adds, and their rows
    existing: tuple[int, int]  # files of older manifests, and their rows

    @property
    def files(self) -> int:
        return self.added[0] + self.existing[0]

    @property
    def rows(self) -> int:
        return self.added[1] + self.existing[1]

    def record(self) -> dict[str, Any]:
        return {
            "manifest_path": self.address,
            "manifest_length": self.bytes,
            "partition_spec_id": 0,
            "content": self.content,
            "sequence_number": self.sequence,
            "min_sequence_number": self.min_sequence,
            "added_snapshot_id": self.snapshot_id,
            "added_files_count": self.added[0],
            "existing_files_count": self.existing[0],
            "deleted_files_count": 0,
            "added_rows_count": self.added[1],
            "existing_rows_count": self.existing[1],
            "deleted_rows_count": 0,
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> ManifestFile:
        return cls(
            record["manifest_path"], record["manifest_length"], record["content"], record["sequence_number"],
            record["min_sequence_number"], record["added_snapshot_id"],
            (record["added_files_count"], record["added_rows_count"]),
            (record["existing_files_count"], record["existing_rows_count"]),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Publication:
    """The snapshot that is being published, and what its manifests say of the table."""

    snapshot_id: int
    sequence: int
    schema: Mapping[str, Any]  # Iceberg's JSON of the schema of the version

    def manifest(self, address: str, content: int, entries: Sequence[ManifestEntry]) -> tuple[ManifestFile, bytes]:
        """Return a manifest of some entries: what the list says of it, and its bytes."""
        parts = ([each for each in entries if (each.sequence is None) == is_new] for is_new in (True, False))
        added, existing = ((len(each), sum(entry.rows for entry in each)) for each in parts)
        metadata = {
            "schema": json.dumps(self.schema, ensure_ascii=False),
            "schema-id": str(self.schema["schema-id"]),
            "partition-spec": "[]",
            "partition-spec-id": "0",
            "format-version": "2",
            "content": "data" if content == DATA else "deletes",
        }
        packed = _avro(_MANIFEST, (each.record(self.snapshot_id) for each in entries), metadata)
        oldest = min(self.sequence if each.sequence is None else each.sequence for each in entries)
        size, own = len(packed), (self.sequence, oldest, self.snapshot_id)
        return ManifestFile(address, size, content, *own, added, existing), packed

    def manifest_list(self, manifests: Iterable[ManifestFile], parent: int | None) -> bytes:
        metadata = {
            "snapshot-id": str(self.snapshot_id),
            "parent-snapshot-id": "null" if parent is None else str(parent),
            "sequence-number": str(self.sequence),
            "format-version": "2",
        }
        return _avro(_LIST, (each.record() for each in manifests), metadata)


def entries_in(manifest: ManifestFile, content: bytes) -> list[ManifestEntry]:
    """Return the entries of a manifest, each with its snapshot and sequence number."""
    return [ManifestEntry.of(record, manifest.sequence) for record in _records(content, manifest.address)]


def manifests_in(content: bytes, address: str) -> list[ManifestFile]:
    return [ManifestFile.of(record) for record in _records(content, address)]


def in_parts(values: Iterable[T], most: int) -> Iterator[list[T]]:
    """Yield values in lists of at most so many: entries of a million files would fill the memory."""
    rest = iter(values)
    while part := list(islice(rest, most)):
        yield part


def check_installed() -> None:
    """Raise `NotInstalled` unless Avro files can be written."""
    try:
        import fastavro  # noqa: F401
    except ImportError as error:
        raise NotInstalled.of("publishing as Iceberg", "iceberg") from error


def _avro(schema: Mapping[str, Any], records: Iterator[Mapping[str, Any]], metadata: Mapping[str, str]) -> bytes:
    import fastavro

    stream = io.BytesIO()
    fastavro.writer(stream, schema, records, codec="deflate", metadata=dict(metadata), sync_interval=1 << 20)
    return stream.getvalue()


def _records(content: bytes, address: str) -> Iterator[Mapping[str, Any]]:
    import fastavro

    try:
        yield from fastavro.reader(io.BytesIO(content))
    except (ValueError, EOFError, KeyError, TypeError, IndexError) as error:
        hint = "publish the version again, after you have unpublished the table"
        raise StorageError(f"{address} is not a manifest: {first_line(error)}", hint=hint) from error


def _field(number: int, name: str, kind: Any, *, optional: bool = False) -> dict[str, Any]:
    own = {"name": name, "type": ["null", kind] if optional else kind, "field-id": number}
    return own | ({"default": None} if optional else {})


def _map(number: int, name: str, key: int, value: int, kind: str) -> dict[str, Any]:
    """Return a field that maps field ids to values: Avro's own maps have text as keys.

    It may be empty and is never NULL: a value of a union takes twice as long to write.
    """
    fields = [_field(key, "key", "int"), _field(value, "value", kind)]
    pair = {"type": "record", "name": f"k{key}_v{value}", "fields": fields}
    return _field(number, name, {"type": "array", "items": pair, "logicalType": "map"})


_MANIFEST: Final = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        _field(0, "status", "int"),
        _field(1, "snapshot_id", "long", optional=True),
        _field(3, "sequence_number", "long", optional=True),
        _field(4, "file_sequence_number", "long", optional=True),
        _field(2, "data_file", {
            "type": "record",
            "name": "r2",
            "fields": [
                _field(134, "content", "int"),
                _field(100, "file_path", "string"),
                _field(101, "file_format", "string"),
                _field(102, "partition", {"type": "record", "name": "r102", "fields": []}),
                _field(103, "record_count", "long"),
                _field(104, "file_size_in_bytes", "long"),
                _map(109, "value_counts", 119, 120, "long"),
                _map(110, "null_value_counts", 121, 122, "long"),
                _map(125, "lower_bounds", 126, 127, "bytes"),
                _map(128, "upper_bounds", 129, 130, "bytes"),
                _field(140, "sort_order_id", "int", optional=True),
                _field(143, "referenced_data_file", "string", optional=True),
            ],
        }),
    ],
}  # fmt: skip
_LIST: Final = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        _field(500, "manifest_path", "string"),
        _field(501, "manifest_length", "long"),
        _field(502, "partition_spec_id", "int"),
        _field(517, "content", "int"),
        _field(515, "sequence_number", "long"),
        _field(516, "min_sequence_number", "long"),
        _field(503, "added_snapshot_id", "long"),
        _field(504, "added_files_count", "int"),
        _field(505, "existing_files_count", "int"),
        _field(506, "deleted_files_count", "int"),
        _field(512, "added_rows_count", "long"),
        _field(513, "existing_rows_count", "long"),
        _field(514, "deleted_rows_count", "long"),
    ],
}
