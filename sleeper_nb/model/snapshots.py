"""Snapshots as values, and references to versions: ``12``, ``snapshot.12``, ``savepoint.fix``, a time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.expectations import counts_line, counts_of
from sleeper_nb.model.times import TIME_HINT, read_time
from sleeper_nb.report import Bytes, Grid, Report, counted

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_micros(moment: datetime) -> int:
    """Return microseconds since 1970 in UTC, in which catalogs store times exactly."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def files_text(files: int, references: int | None) -> str:
    """Return a number of data files, and of references when that differs: ``1 file (8 references)``."""
    return counted(files, "file") + (f" ({references:,} references)" if references not in {None, files} else "")


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Snapshot(Report):
    """One committed version of a table.

    Parameters
    ----------
    id
        1, 2, 3 …, without gaps.
    commit_id
        Unique to the commit: a writer whose answer was lost looks for its own id to learn whether it succeeded.
    time
        When it was committed, UTC; later than every smaller id.
    operation
        ``create``, ``ingest``, ``compact``, ``collect-garbage``.
    message, author
        The user's message, and who committed.
    schema_id
        The schema with which the snapshot is read.
    files, rows, bytes
        Data files of the table at the snapshot, its rows, and the bytes of the files. A file counts once for any number
        of references.
    added_files, removed_files, added_rows
        What this commit changed. A split adds no file and removes none.
    files_path, partitions_path
        The Parquet files with the full metadata, below the table's folder; None while the state store keeps the
        snapshot in another way.
    state_store
        The class name of the state store that keeps the snapshot, without its module.
    job_id
        The job id that the user gave; a job makes at most one snapshot of the table.
    references, added_references, removed_references
        References of partitions to data files. None in a snapshot that an earlier release made, whose files and bytes
        count every reference.
    files_checksum, partitions_checksum, schema_checksum
        Checksums of the two metadata files and of the schema's file; None where none was recorded.
    processing
        How its rows are processed, as in `TableState`.
    leaves
        Leaf partitions of the table at the snapshot; None in a snapshot that an earlier release made.
    inserted_rows, updated_rows, deleted_rows
        Of a change of rows; None for other operations. `added_rows` is the first minus the last.
    expectations
        JSON with how many of the rows that the commit added break each expectation of the table; None when it had none.
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
    references: int | None = None
    added_references: int | None = None
    removed_references: int | None = None
    files_checksum: str | None = None
    partitions_checksum: str | None = None
    schema_checksum: str | None = None
    processing: str | None = None
    leaves: int | None = None
    inserted_rows: int | None = None
    updated_rows: int | None = None
    deleted_rows: int | None = None
    expectations: str | None = None

    @property
    def number(self) -> int:
        """The number of this version."""
        return self.id

    @property
    def committed(self) -> datetime:
        """When the version was committed."""
        return self.time

    @property
    def changed_rows(self) -> Mapping[str, int]:
        """How many rows a change inserted, updated and deleted, by these words; empty for other operations."""
        counts = (("inserted", self.inserted_rows), ("updated", self.updated_rows), ("deleted", self.deleted_rows))
        return {verb: count for verb, count in counts if count is not None}

    @property
    def broken_expectations(self) -> Mapping[str, int]:
        """How many of the rows that the commit added break each expectation that the table had, by its condition."""
        return counts_of(self.expectations)

    def grid(self) -> Grid:
        """Return the commit as a card."""
        change = f"files +{self.added_files} −{self.removed_files}, rows {self.added_rows:+,}"
        rows: list[tuple[object, ...]] = [
            ("operation", self.operation),
            ("time", self.time),
            ("change", change),
            ("table", f"{counted(self.rows, 'row')} in {files_text(self.files, self.references)}, {Bytes(self.bytes)}"),
        ]
        if self.inserted_rows is not None:
            rows.append(("rows", ", ".join(f"{count:,} {verb}" for verb, count in self.changed_rows.items())))
        if self.expectations is not None:
            line = counts_line(self.broken_expectations)
            rows.append(("expectations", f"broken by rows: {line}" if line else "met by all rows"))
        if self.message:
            rows.append(("message", self.message))
        if self.job_id:
            rows.append(("job id", self.job_id))
        return Grid(("", ""), tuple(rows), title=f"snapshot {self.id}", result=self._result)

    @property
    def _result(self) -> str:
        """What the commit did, in one sentence; its message is part of it."""
        done = (
            f"{self.added_rows:+,} rows"
            if self.added_rows
            else ", ".join(f"{count:,} {verb}" for verb, count in self.changed_rows.items() if count)
        )
        where = f" in {counted(self.added_files, 'file')}" if done and self.added_files else ""
        why = f": {self.message}" if self.message else ""
        return f"{self.operation} of {done}{where}{why}" if done else f"{self.operation}{why}"


@dataclass(frozen=True, slots=True)
class SnapshotReference:
    """A version referred to by the number of its snapshot."""

    id: int

    def __str__(self) -> str:
        return f"snapshot.{self.id}"


@dataclass(frozen=True, slots=True)
class SavepointReference:
    """A version referred to by a savepoint's id or name."""

    id_or_name: int | str

    def __str__(self) -> str:
        return f"savepoint.{self.id_or_name}"


@dataclass(frozen=True, slots=True)
class Moment:
    """The version that was current at a time: the newest one at or before it."""

    time: datetime

    def __str__(self) -> str:
        return f"{self.time:%Y-%m-%d %H:%M:%S.%f}".rstrip("0").rstrip(".") + " UTC"


VersionReference = SnapshotReference | SavepointReference | Moment


def parse_version(version: int | str) -> SnapshotReference | SavepointReference:
    """Read what follows ``VERSION AS OF``: ``12``, ``'v12'``, ``'snapshot.12'``, ``'savepoint.3'`` or ``'name'``.

    `InvalidInput` when it is none of these.
    """
    if isinstance(version, int) and not isinstance(version, bool):
        return SnapshotReference(version)
    text = "" if isinstance(version, bool) else str(version).strip()
    kind, dot, rest = text.partition(".")
    if text.isascii() and text.isdigit():
        return SnapshotReference(int(text))
    if dot and kind == "snapshot" and rest.isascii() and rest.isdigit():
        return SnapshotReference(int(rest))
    if dot and kind == "savepoint" and rest:
        return SavepointReference(int(rest) if rest.isascii() and rest.isdigit() else rest)
    if re.fullmatch(r"v\d+", text, re.ASCII):
        return SnapshotReference(int(text[1:]))
    if re.match(r"[^\W\d_]", text) and not text.startswith(("snapshot.", "savepoint.")):
        return SavepointReference(text)
    hint = "write 12, 'snapshot.12', 'savepoint.3' or a savepoint's name"
    if re.match(r"\d{4}-", text, re.ASCII):
        hint = f"for a time, write TIMESTAMP AS OF '{text}'"
    raise InvalidInput(f"no version {version!r}", hint=hint)


def parse_moment(moment: datetime | str) -> Moment:
    """Read what follows ``TIMESTAMP AS OF``: a time as `read_time` takes it; without a zone it is UTC."""
    if isinstance(moment, str):
        moment = read_time(moment)
    try:
        return Moment(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC))
    except (AttributeError, OverflowError) as error:  # a date, or a moment before the year 1
        raise InvalidInput(f"{moment!r} is not a time", hint=TIME_HINT) from error


def parse_reference(reference: int | str) -> VersionReference:
    """Read what follows ``@``: a version, ``v12``, a savepoint's bare name, or a time that starts with its year."""
    text = str(reference).strip()
    return parse_moment(text) if re.match(r"\d{4}-", text, re.ASCII) else parse_version(text)
