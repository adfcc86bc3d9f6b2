"""The file that describes a published table: its schemas, and its snapshots by number and by the names of savepoints.

Section "Table Metadata" of the Iceberg specification, format version 2. Two properties tell our files from those of
another engine, which copies them: `OWN_NAME` is the name of the file itself, and `PUBLICATION` the id of who wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from sleeper_nb.model.snapshots import from_micros, to_micros
from sleeper_nb.publish.iceberg_schema import NAME_MAPPING, FieldIds

OWN_NAME: Final = "sleeper.metadata"
PUBLICATION: Final = "sleeper.publication"
OUR_SNAPSHOT: Final = "sleeper.snapshot"
"""In the summary of a snapshot: the number of the version, by which it is known as ours."""
PUBLISHED_AT: Final = "sleeper.published-at"
"""In the summary: when the version was published, in microseconds since 1970."""
MAIN: Final = "main"


@dataclass(frozen=True, slots=True)
class PublishedSnapshot:
    """A published version."""

    id: int
    parent: int | None  # the version published before it that is older; None for none
    sequence: int
    committed: datetime  # when the version was made, and when it was published
    published: datetime
    schema_id: int
    manifest_list: str  # the address of the list of its manifests
    operation: str
    # the numbers of data files, files of deletes, deleted positions, and rows with deleted ones
    totals: tuple[int, int, int, int]

    @property
    def rows(self) -> int:
        """The rows of the version."""
        return self.totals[3] - self.totals[2]

    def to_json(self) -> dict[str, Any]:
        summary = {
            "operation": self.operation,
            OUR_SNAPSHOT: str(self.id),
            PUBLISHED_AT: str(to_micros(self.published)),
            **{name: str(total) for name, total in zip(_TOTALS, self.totals, strict=True)},
        }
        own = {
            "snapshot-id": self.id,
            "sequence-number": self.sequence,
            "timestamp-ms": to_micros(self.committed) // 1000,
            "manifest-list": self.manifest_list,
            "summary": summary,
            "schema-id": self.schema_id,
        }
        return own | ({} if self.parent is None else {"parent-snapshot-id": self.parent})

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> PublishedSnapshot:
        summary = body["summary"]
        return cls(
            id=body["snapshot-id"],
            parent=body.get("parent-snapshot-id"),
            sequence=body["sequence-number"],
            committed=from_micros(body["timestamp-ms"] * 1000),
            published=from_micros(int(summary[PUBLISHED_AT])),
            schema_id=body["schema-id"],
            manifest_list=body["manifest-list"],
            operation=summary["operation"],
            totals=tuple(int(summary[name]) for name in _TOTALS),  # type: ignore[arg-type]
        )


_TOTALS: Final = ("total-data-files", "total-delete-files", "total-position-deletes", "total-records")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMetadata:
    """All that one metadata file says."""

    uuid: str  # of the table, for caches of readers
    address: str
    sequence: int = 0
    updated: datetime
    ids: FieldIds = field(default_factory=FieldIds)
    schemas: tuple[Mapping[str, Any], ...] = ()  # Iceberg's JSON of the schemas of the snapshots
    orders: tuple[Mapping[str, Any], ...] = ()  # Iceberg's JSON of the orders of rows
    snapshots: tuple[PublishedSnapshot, ...] = ()  # in the order of publication
    tags: Mapping[str, int] = field(default_factory=dict)  # the names of savepoints, and the snapshots that they name
    main: int | None = None  # the snapshot that engines read unless they are told another
    log: tuple[tuple[datetime, int], ...] = ()  # when which snapshot became `main`

    def snapshot(self, snapshot_id: int) -> PublishedSnapshot | None:
        return next((each for each in self.snapshots if each.id == snapshot_id), None)

    def schema(self, schema_id: int) -> Mapping[str, Any]:
        return next(each for each in self.schemas if each["schema-id"] == schema_id)

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(each.id for each in self.snapshots)

    def nearest(self, number: int) -> PublishedSnapshot | None:
        """Return the newest snapshot before a version, or else the oldest: it has most of its files."""
        older = [each for each in self.snapshots if each.id < number]
        if older:
            return max(older, key=lambda each: each.id)
        return min(self.snapshots, key=lambda each: each.id, default=None)

    def with_log(self) -> TableMetadata:
        """Return the metadata with a log that ends with `main`, without schemas and orders that no snapshot has."""
        newest = self.snapshot(self.main) if self.main is not None else None
        if newest is None or (self.log and self.log[-1][1] == newest.id):
            return self
        at = max(newest.committed, self.log[-1][0]) if self.log else newest.committed
        return replace(self, log=(*self.log, (at, newest.id)), updated=max(self.updated, at))

    def with_only(self, ids: set[int]) -> TableMetadata:
        """Return the metadata without the other snapshots; a snapshot whose parent goes has none."""
        kept = tuple(
            each if each.parent in ids else replace(each, parent=None) for each in self.snapshots if each.id in ids
        )
        used = {each.schema_id for each in kept}
        return replace(
            self,
            snapshots=kept,
            schemas=tuple(each for each in self.schemas if each["schema-id"] in used),
            tags={name: number for name, number in self.tags.items() if number in ids},
            main=self.main if self.main in ids else None,
            log=tuple(each for each in self.log if each[1] in ids),
        )

    def to_json(self, name: str, publication: str) -> bytes:
        """Return the content of the metadata file of a name."""
        newest = self.snapshot(self.main) if self.main is not None else None
        current = self.schemas[-1] if newest is None else self.schema(newest.schema_id)
        named = {MAIN: {"snapshot-id": self.main, "type": "branch"}} if newest else {}
        tags = {tag: {"snapshot-id": number, "type": "tag"} for tag, number in self.tags.items()}
        body = {
            "format-version": 2,
            "table-uuid": self.uuid,
            "location": self.address,
            "last-sequence-number": self.sequence,
            "last-updated-ms": to_micros(self.updated) // 1000,
            "last-column-id": self.ids.last,
            "current-schema-id": current["schema-id"],
            "schemas": list(self.schemas),
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "last-partition-id": 999,
            "default-sort-order-id": self.orders[-1]["order-id"],
            "sort-orders": list(self.orders),
            "properties": {NAME_MAPPING: self.ids.to_mapping(), OWN_NAME: name, PUBLICATION: publication},
            "current-snapshot-id": -1 if newest is None else newest.id,
            "refs": named | tags,
            "snapshots": [each.to_json() for each in self.snapshots],
            "snapshot-log": [{"timestamp-ms": to_micros(at) // 1000, "snapshot-id": each} for at, each in self.log],
            "metadata-log": [],
        }
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> TableMetadata:
        """Return what a metadata file of ours says; `KeyError`, `TypeError` or `ValueError` for another."""
        refs = dict(body["refs"])
        main = refs.pop(MAIN, None)
        return cls(
            uuid=body["table-uuid"],
            address=body["location"],
            sequence=body["last-sequence-number"],
            updated=from_micros(body["last-updated-ms"] * 1000),
            ids=FieldIds.from_mapping(body["properties"][NAME_MAPPING]),
            schemas=tuple(body["schemas"]),
            orders=tuple(body["sort-orders"]),
            snapshots=tuple(map(PublishedSnapshot.of, body["snapshots"])),
            tags={name: each["snapshot-id"] for name, each in refs.items()},
            main=None if main is None else main["snapshot-id"],
            log=tuple((from_micros(each["timestamp-ms"] * 1000), each["snapshot-id"]) for each in body["snapshot-log"]),
        )
