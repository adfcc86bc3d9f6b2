"""Savepoints as values: what a savepoint saves, its JSON, and the files that list its data files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.snapshots import (
    SavepointReference,
    Snapshot,
    VersionReference,
    from_micros,
    parse_reference,
    to_micros,
)
from sleeper_nb.report import Grid, Report, counted

if TYPE_CHECKING:  # a tool that reads savepoints has both from `SavepointManager`
    from sleeper_nb.storage.filesystem import Storage
    from sleeper_nb.storage.metadata import ManifestList

_PROPOSED = frozenset({"id", "savedSnapshotId", "schemaId", "fullManifestList", "recordCount"})


@dataclass(frozen=True, slots=True)
class ManifestFileMeta:
    """A file that lists data files of a version; the field names are those of Paimon's manifest specification.

    Parameters
    ----------
    file_name
        The Parquet file, below the table's folder.
    num_added_files
        Data files that the version reads; a file that several partitions share counts once.
    num_deleted_files
        Data files that only older versions read; they are listed until garbage collection deletes them.
    schema_id
        The schema of the keys in the file.
    """

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    schema_id: int


@dataclass(frozen=True, slots=True)
class SavedLog:
    """The transactions from an older version, whose files are listed, to the saved one."""

    path: str  # the file with the transactions, one on each line as in the transaction log, below the table's folder
    after: int  # the snapshot before the first of them
    schema_id: int  # the schema of that snapshot
    # checksum, schema_checksum: checksums of the file and of the schema's file; None where none was recorded
    checksum: str | None = None
    schema_checksum: str | None = None


_LOG = {
    "path": "path", "after": "after", "schemaId": "schema_id", "checksum": "checksum",
    "schemaChecksum": "schema_checksum",
}  # fmt: skip
_LATER = {
    "filesChecksum": "files_checksum", "partitionsChecksum": "partitions_checksum",
    "schemaChecksum": "schema_checksum", "processing": "processing",
}  # fmt: skip
"""The JSON names of fields that are missing in savepoints of older releases."""


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Savepoint(Report):
    """Pins a version: it never expires until the savepoint is deleted (the proposal of savepoints for Paimon).

    Parameters
    ----------
    id
        1, 2, 3 …; the id of a deleted savepoint is never used again.
    saved_snapshot_id, schema_id
        The saved snapshot, and its schema.
    full_manifest_list
        The Parquet file that lists every file of the version, below the table's folder; with a `log`, the list of the
        version at which the log starts.
    partitions_path
        The Parquet file with the partitions of the same version.
    record_count
        Rows of the table at the version.
    save_time
        When the savepoint was made, UTC, to the millisecond.
    name, message, author
        The user's name and message for it, and who created it.
    snapshot_time
        When the saved snapshot was committed, UTC: ``TIMESTAMP AS OF`` uses it after the snapshot has expired.
    periodic
        Whether ``savepoint.create-interval`` created it. Maintenance deletes only such savepoints, according to
        ``savepoint.num-retained.max`` and ``savepoint.time-retained``.
    log
        The commits between the listed version and the saved one; None when they are the same. So a savepoint of a table
        with a million files costs as little as one with ten, on `TransactionLogStateStore` too.
    files_checksum, partitions_checksum, schema_checksum
        Checksums of the two lists and of the schema's file; None where none was recorded.
    processing
        How its rows are processed, as in the snapshot.
    """

    id: int
    saved_snapshot_id: int
    schema_id: int
    full_manifest_list: str
    partitions_path: str
    record_count: int
    save_time: datetime
    snapshot_time: datetime
    name: str | None = None
    message: str | None = None
    author: str | None = None
    periodic: bool = False
    log: SavedLog | None = None
    files_checksum: str | None = None
    partitions_checksum: str | None = None
    schema_checksum: str | None = None
    processing: str | None = None

    @property
    def number(self) -> int:
        """The number of the version that this saves."""
        return self.saved_snapshot_id

    @property
    def committed(self) -> datetime:
        """When the saved version was committed."""
        return self.snapshot_time

    @property
    def reference(self) -> str:
        """How to refer to it after ``@``: its name, or ``savepoint.<id>``.

        ``savepoint.<name>`` where the name alone means another version, which names of older releases can.
        """
        return reference_of(self.id, self.name)

    def data_manifests(self, manifest_list: ManifestList) -> tuple[ManifestFileMeta, ...]:
        """Return the files that list all data files of the savepoint.

        Paimon's list names many manifests, each with a part of the files. Here one Parquet file, `full_manifest_list`,
        lists all of them, with the rows of the system table ``files`` (`sleeper_nb.model.file_reference.files_schema`),
        for any tool that reads Parquet. A savepoint with a `log` has that as its second file: what it adds and removes.

        Parameters
        ----------
        manifest_list
            Reads the table's folder: ```table.savepoint_manager.manifest_list```.
        """
        return manifest_list.read(self)

    def to_json(self) -> str:
        """Return the content of the file ``savepoint/savepoint-<id>``; times in milliseconds since 1970."""
        return json.dumps(
            {
                "id": self.id,
                "savedSnapshotId": self.saved_snapshot_id,
                "schemaId": self.schema_id,
                "fullManifestList": self.full_manifest_list,
                "partitions": self.partitions_path,
                "recordCount": self.record_count,
                "saveTime": to_micros(self.save_time) // 1000,
                "snapshotTimeMicros": to_micros(self.snapshot_time),
                "name": self.name,
                "message": self.message,
                "author": self.author,
                "periodic": self.periodic,
                "log": self.log and {name: getattr(self.log, field) for name, field in _LOG.items()},
                **{name: getattr(self, field) for name, field in _LATER.items()},
            },
            indent=2,
        )

    @classmethod
    def from_json(cls, text: str) -> Savepoint:
        """Read what `to_json` wrote, or a savepoint of the proposal, which has five fields.

        The proposal's fields are ``id``, ``savedSnapshotId``, ``schemaId``, ``fullManifestList`` and ``recordCount``.
        The times of such a savepoint are unknown and become 1970-01-01; it has no file of partitions.

        Raises
        ------
        InvalidInput
            When a field is missing or has a wrong type.
        """
        try:
            body = json.loads(text)
            if not body.keys() - _PROPOSED:
                body = {**body, "partitions": "", "saveTime": 0, "snapshotTimeMicros": 0}
            log = body.get("log")
            return cls(
                id=int(body["id"]),
                saved_snapshot_id=int(body["savedSnapshotId"]),
                schema_id=int(body["schemaId"]),
                full_manifest_list=str(body["fullManifestList"]),
                partitions_path=str(body["partitions"]),
                record_count=int(body["recordCount"]),
                save_time=from_micros(int(body["saveTime"]) * 1000),
                snapshot_time=from_micros(int(body["snapshotTimeMicros"])),
                name=body.get("name"),
                message=body.get("message"),
                author=body.get("author"),
                periodic=body.get("periodic") is True,  # savepoints of older releases have no such field
                log=log and _saved_log(log),
                **{field: body.get(name) for name, field in _LATER.items()},
            )
        except (json.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
            hint = "the file savepoint-<id> may have been changed by hand"
            raise InvalidInput(f"not a savepoint: {error!r}", hint=hint) from error

    @classmethod
    def from_path(cls, files: Storage, path: str) -> Savepoint:
        """Read a savepoint's file.

        The file holds what was saved; whether the savepoint still exists is in the catalog: see `SavepointManager`.

        Parameters
        ----------
        files
            Reads the file: ``table.savepoint_manager.files``, or any `Storage`.
        path
            The file's qualified path (``SavepointManager.savepoint_path``), or its path below the root of `files`.

        Raises
        ------
        NotFound, InvalidInput
            When there is no such file, or it does not hold a savepoint.
        """
        return cls.from_json(files.read(path.removeprefix(f"{files.root}/")).decode(errors="replace"))

    def grid(self) -> Grid:
        """Return the savepoint as a card."""
        named = f" {self.name!r}" if self.name else ""
        rows: list[tuple[object, ...]] = [
            ("saves", f"snapshot {self.saved_snapshot_id}"),
            ("rows", self.record_count),
            ("save time", self.save_time),
        ]
        if self.periodic:
            rows.append(("made", "periodically"))
        if self.message:
            rows.append(("message", self.message))
        kept = f"keeps snapshot {self.saved_snapshot_id}, with {counted(self.record_count, 'row')}, until it is deleted"
        return Grid(("", ""), tuple(rows), title=f"savepoint {self.id}{named}", result=kept)


def savepoints_by_snapshot(savepoints: Iterable[Savepoint]) -> dict[int, tuple[Savepoint, ...]]:
    """Return savepoints by the number of the snapshot that they save; each group keeps its order."""
    groups: dict[int, tuple[Savepoint, ...]] = {}
    for savepoint in savepoints:
        number = savepoint.saved_snapshot_id
        groups[number] = (*groups.get(number, ()), savepoint)
    return groups


def _saved_log(log: Mapping[str, Any]) -> SavedLog:
    return SavedLog(
        path=str(log["path"]),
        after=int(log["after"]),
        schema_id=int(log["schemaId"]),
        checksum=log.get("checksum"),
        schema_checksum=log.get("schemaChecksum"),
    )


def is_file_of(savepoint: Savepoint, content: bytes) -> bool:
    """Return whether a file has the content of a savepoint, as this release or an older one wrote it.

    Older releases wrote fewer fields. Any other difference counts, so every changed byte is detected.
    """
    written = savepoint.to_json()
    if content == written.encode():
        return True
    try:
        body = json.loads(content)
        same = json.dumps(body, indent=2).encode() == content and body.keys() <= json.loads(written).keys()
        return same and Savepoint.from_json(content.decode()) == savepoint
    except (ValueError, AttributeError, InvalidInput):
        return False


NEWEST: Final = frozenset({"current", "head", "latest", "newest", "now"})
"""Words for the newest version in other tools."""
_MOVING: Final = NEWEST | {"earliest", "oldest", "previous", "today", "yesterday"}
"""Words for versions that change with each commit, and a savepoint does not."""

_SAVEPOINT_NAME = re.compile(r"[^\W\d_][\w.-]*")


def check_savepoint_name(name: str) -> str:
    """Return `name` if it is valid for a savepoint: it cannot be read as an id, or as another version.

    `InvalidInput`: naming what it would be read as, and a similar name that is valid.
    """
    if not _SAVEPOINT_NAME.fullmatch(name):
        raise InvalidInput(
            f"{name!r} is not a valid savepoint name", hint="start with a letter; then letters, digits, - _ and ."
        )
    if name.lower() in _MOVING:
        raise InvalidInput(
            f"{name!r} is not a valid savepoint name: readers of T@{name} would expect a version that changes",
            hint="choose a name that says what is kept, such as before-fix",
        )
    meaning = _meaning(name)
    if meaning != SavepointReference(name):
        kind, dot, rest = name.partition(".")
        why = f"it would refer to a {kind}" if meaning is None else f"it refers to {meaning}"
        instead = f"{kind}-{rest}" if dot else f"{name[0]}-{name[1:]}"
        raise InvalidInput(f"{name!r} is not a valid savepoint name: {why}", hint=f"write {instead}")
    return name


@dataclass(frozen=True, slots=True)
class RetainedVersions:
    """The versions of a table that can be read at one moment."""

    snapshots: tuple[Snapshot, ...]  # the retained snapshots, newest first; the first is the current one
    savepoints: tuple[Savepoint, ...]  # the savepoints, oldest first

    @property
    def current(self) -> Snapshot:
        """The current snapshot."""
        return self.snapshots[0]


def reference_of(number: int, name: str | None) -> str:
    """Return how to refer to a savepoint after ``@``; see `Savepoint.reference`."""
    if name is not None and _meaning(name) == SavepointReference(name):
        return name
    return str(SavepointReference(name or number))


def version_words(savepoints: Iterable[tuple[int, str | None]], snapshots: Iterable[int]) -> list[str]:
    points = list(savepoints)
    return [
        *(reference_of(number, name) for number, name in points if name),
        *(f"savepoint.{number}" for number, _ in points),
        *map(str, snapshots),
    ]


def _meaning(name: str) -> VersionReference | None:
    try:
        return parse_reference(name)
    except InvalidInput:
        return None


def savepoint_label(savepoint: Savepoint) -> str:
    return savepoint.name or str(savepoint.id)
