"""Snapshots and savepoints as values, and the words that name them: ``12``, ``snapshot.12``, ``savepoint.fix``."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.zoned_times import TIME_HINT, read_time
from sleeper_nb.report import Bytes, Grid, Report, counted

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_micros(moment: datetime) -> int:
    """Return microseconds since 1970 in UTC: how catalogs keep a moment, exactly."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    """Return the moment that `to_micros` wrote."""
    return EPOCH + timedelta(microseconds=micros)


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Snapshot(Report):
    """One committed version of a table.

    Parameters
    ----------
    id
        1, 2, 3 …, without gaps.
    commit_id
        Unique to the commit: a writer whose answer was lost finds its own id and knows that it won.
    time
        The moment of the commit, UTC; later than that of every smaller id.
    operation
        ``create``, ``ingest``, ``compact``, ``collect-garbage``.
    message, author
        What the user said of it, and who.
    schema_id
        The schema that the snapshot is read with.
    files, rows, bytes
        Totals of the table at the snapshot.
    added_files, removed_files, added_rows
        What this commit changed.
    files_path, partitions_path
        The Parquet files with the full metadata, below the table's folder; None while the state store keeps the
        snapshot in another way.
    state_store
        The class of the state store that keeps the snapshot, by its name without a module.
    job_id
        The id that the user gave to what made it, which makes no other snapshot of the table.
    """

    id: int
    commit_id: str
    time: datetime
    operation: str
    schema_id: int
    files: int
    rows: int
    bytes: int
    added_files: int
    removed_files: int
    added_rows: int
    files_path: str | None
    partitions_path: str | None
    state_store: str
    message: str | None = None
    author: str | None = None
    job_id: str | None = None

    @property
    def number(self) -> int:
        """The number of the version that this is."""
        return self.id

    @property
    def committed(self) -> datetime:
        """When the version was committed."""
        return self.time

    def grid(self) -> Grid:
        """Return the commit as a card."""
        change = f"files +{self.added_files} −{self.removed_files}, rows {self.added_rows:+,}"
        rows: list[tuple[object, ...]] = [
            ("operation", self.operation),
            ("time", self.time),
            ("change", change),
            ("table", f"{counted(self.rows, 'row')} in {counted(self.files, 'file')}, {Bytes(self.bytes)}"),
        ]
        if self.message:
            rows.append(("message", self.message))
        if self.job_id:
            rows.append(("job id", self.job_id))
        return Grid(("", ""), tuple(rows), title=f"snapshot {self.id}")


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Savepoint(Report):
    """A version that is kept until it is deleted, whatever expires (the proposal of savepoints for Paimon).

    Parameters
    ----------
    id
        1, 2, 3 …; the id of a deleted savepoint is never given again.
    saved_snapshot_id, schema_id
        What it saves.
    full_manifest_list
        The Parquet file that lists every file of the version, below the table's folder.
    partitions_path
        The Parquet file with the version's partitions.
    record_count
        Rows of the table at the version.
    save_time
        When the savepoint was made, UTC, to the millisecond.
    name, message, author
        What the user said of it, and who.
    snapshot_time
        When the saved snapshot was committed, UTC: ``TIMESTAMP AS OF`` falls back on it.
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

    @property
    def number(self) -> int:
        """The number of the version that this saves."""
        return self.saved_snapshot_id

    @property
    def committed(self) -> datetime:
        """When the saved version was committed."""
        return self.snapshot_time

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
            },
            indent=2,
        )

    @classmethod
    def from_json(cls, text: str) -> Savepoint:
        """Read what `to_json` wrote.

        Raises
        ------
        InvalidInput
            When a field is missing or of a wrong type.
        """
        try:
            body = json.loads(text)
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
            )
        except (json.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
            hint = "was the file savepoint-<id> changed by hand?"
            raise InvalidInput(f"not a savepoint: {error!r}", hint=hint) from error

    def grid(self) -> Grid:
        """Return the savepoint as a card."""
        named = f" {self.name!r}" if self.name else ""
        rows: list[tuple[object, ...]] = [
            ("saves", f"snapshot {self.saved_snapshot_id}"),
            ("rows", self.record_count),
            ("save time", self.save_time),
        ]
        if self.message:
            rows.append(("message", self.message))
        return Grid(("", ""), tuple(rows), title=f"savepoint {self.id}{named}")


@dataclass(frozen=True, slots=True)
class SnapshotReference:
    """A version named by the number of its snapshot."""

    id: int

    def __str__(self) -> str:
        return f"snapshot.{self.id}"


@dataclass(frozen=True, slots=True)
class SavepointReference:
    """A version named by a savepoint's id or name."""

    id_or_name: int | str

    def __str__(self) -> str:
        return f"savepoint.{self.id_or_name}"


@dataclass(frozen=True, slots=True)
class Moment:
    """The version that was current at a moment: the newest one at or before it."""

    time: datetime

    def __str__(self) -> str:
        return f"{self.time:%Y-%m-%d %H:%M:%S.%f}".rstrip("0").rstrip(".") + " UTC"


VersionReference = SnapshotReference | SavepointReference | Moment


def parse_version(version: int | str) -> SnapshotReference | SavepointReference:
    """Read what follows ``VERSION AS OF``: ``12``, ``'snapshot.12'``, ``'savepoint.3'`` or ``'savepoint.name'``.

    Raises
    ------
    InvalidInput
        When it is none of them.
    """
    if isinstance(version, int) and not isinstance(version, bool):
        return SnapshotReference(version)
    text = str(version).strip()
    kind, dot, rest = text.partition(".")
    if text.isascii() and text.isdigit():
        return SnapshotReference(int(text))
    if dot and kind == "snapshot" and rest.isascii() and rest.isdigit():
        return SnapshotReference(int(rest))
    if dot and kind == "savepoint" and rest:
        return SavepointReference(int(rest) if rest.isascii() and rest.isdigit() else rest)
    raise InvalidInput(f"no version {version!r}", hint="write 12, 'snapshot.12', 'savepoint.3' or 'savepoint.<name>'")


def parse_moment(moment: datetime | str) -> Moment:
    """Read what follows ``TIMESTAMP AS OF``: a time as `read_time` takes it; without a zone it is UTC."""
    if isinstance(moment, str):
        moment = read_time(moment)
    try:
        return Moment(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC))
    except (AttributeError, OverflowError) as error:  # a date, or a moment before the year 1
        raise InvalidInput(f"no time {moment!r}", hint=TIME_HINT) from error


def parse_reference(reference: int | str) -> VersionReference:
    """Read what follows ``@``: a version, ``v12``, a savepoint's bare name, or a time that starts with its year."""
    text = str(reference).strip()
    if re.fullmatch(r"v\d+", text, re.ASCII):
        return SnapshotReference(int(text[1:]))
    if re.match(r"\d{4}-", text, re.ASCII):
        return parse_moment(text)
    if re.match(r"[^\W\d_]", text) and not text.startswith(("snapshot.", "savepoint.")):
        return SavepointReference(text)
    return parse_version(text)


_SAVEPOINT_NAME = re.compile(r"[^\W\d_][\w.-]*")


def check_savepoint_name(name: str) -> str:
    """Return `name` when a savepoint can have it: it starts with a letter, so that it can never be read as an id."""
    if not _SAVEPOINT_NAME.fullmatch(name):
        raise InvalidInput(
            f"no savepoint can be called {name!r}", hint="start with a letter; then letters, digits, - _ and ."
        )
    return name
