"""`Table`: a table at its current version, and everything that changes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from sleeper_nb.altering import Altering
from sleeper_nb.arguments import checked
from sleeper_nb.catalog.base import TableEntry
from sleeper_nb.catalog.steady import retained, steady
from sleeper_nb.changes import Changes
from sleeper_nb.components import Components
from sleeper_nb.errors import ConfirmationNeeded, InvalidInput
from sleeper_nb.loading import Loading
from sleeper_nb.maintenance import Maintenance
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.snapshots import (
    SavepointReference,
    Snapshot,
    VersionReference,
    parse_moment,
    parse_reference,
    parse_version,
)
from sleeper_nb.model.state import TableState
from sleeper_nb.operations.scanning.exporting import ExportReport
from sleeper_nb.operations.scanning.planning import ScanPlan
from sleeper_nb.operations.versioning import changes, rollback, savepoints, versions
from sleeper_nb.operations.versioning.comparison import Comparison, compare
from sleeper_nb.operations.versioning.diff import Diff, diff
from sleeper_nb.operations.versioning.leases import ReadGuard, guarded
from sleeper_nb.operations.versioning.rollback import RollbackReport
from sleeper_nb.operations.versioning.savepoint_manager import SavepointManager
from sleeper_nb.operations.versioning.savepoints import SavepointDeletion
from sleeper_nb.operations.versioning.versions import Resolved
from sleeper_nb.render import Pictured
from sleeper_nb.render_timeline import timeline, timeline_lines
from sleeper_nb.report import CONFIRM, Answer, Grid, Listing, Report, Stacked
from sleeper_nb.scan import Scan
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.statement import Source
from sleeper_nb.table_at import TableAt


class Table(Loading, Maintenance, Altering, Report):
    """A table: every call reads or changes its current version.

    Made by `Session.create_table` and `Session.table`. A table has versions: each read takes one with `at`, and all of
    its answer comes from that version. Two calls may read two versions; to ask several things of one version, keep
    what `at` returns.
    """

    def __init__(
        self, entry: TableEntry, store: StateStore, components: Components, properties: TableProperties
    ) -> None:
        self.entry, self.properties = entry, properties
        self._store, self._components = store, components
        self.name = entry.name

    @property
    def resolved(self) -> Resolved:
        """The current version, looked up each time."""
        return Resolved(self._store.head())

    @property
    def state(self) -> TableState:
        """The partitions and file references of the current version."""
        return self.at().state

    @property
    def schema(self) -> Schema:
        """The schema of the current version."""
        return self.at().schema

    @property
    def partitions(self) -> PartitionTree:
        """The partition tree of the current version."""
        return self.at().partitions

    @property
    def processing(self) -> DataProcessing:
        """The filters, iterator and aggregations that queries apply to the rows."""
        return self.at().processing

    @property
    def online(self) -> bool:
        """Whether maintenance may work on the table; offline, it can still be read and loaded."""
        return self.at().online

    @property
    def store(self) -> StateStore:
        """What keeps the versions of the table, for readers that plan by themselves."""
        return self._store

    @property
    def state_store(self) -> str:
        """The class that keeps the table's metadata, as the current snapshot says."""
        return self._store.head().state_store

    @checked
    def at(
        self,
        version: int | str | None = None,
        *,
        timestamp: datetime | str | None = None,
        schema: Literal["own", "current"] = "own",
    ) -> TableAt:
        """Return the table at one version.

        Parameters
        ----------
        version
            What can stand behind ``@``: ``12``, ``"snapshot.12"``, a savepoint's name, or ``"savepoint.3"``.
        timestamp
            The newest version at or before a moment; without a zone it is UTC.
        schema
            ``"own"`` reads the version with the schema that it had; ``"current"`` with the one of now.
        """
        return self.at_reference(_reference(version, timestamp), schema)

    @checked
    def at_reference(self, asked: VersionReference | None, schema: Literal["own", "current"] = "own") -> TableAt:
        """Return the table at a version that was parsed already; at the current one when None. Otherwise as `at`."""
        found = versions.resolve(self._components.catalog, self.entry.id, self.name, asked)
        at = TableAt(self.name, found, self._store, self._components, self.properties)
        # The current version has the current schema: looking that up again could find a later one.
        return at.in_schema("own" if asked is None and schema == "current" else schema)

    @checked
    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        keys: Any = None,
        region: Mapping[str, tuple[Any, Any]] | str | None = None,
        limit: int | None = None,
        version: int | str | None = None,
        timestamp: datetime | str | None = None,
        schema: Literal["own", "current"] = "own",
    ) -> Scan:
        """Return rows, not read yet: of the current version, or of the one that `version` or `timestamp` names.

        Those three are as `at` takes them, the other parameters as `TableAt.scan` does.
        """
        at = self.at(version, timestamp=timestamp, schema=schema)
        return at.scan(columns, where, keys=keys, region=region, limit=limit)

    @checked
    def snapshots(self, limit: int | None = None) -> Pictured[Snapshot]:
        """Return the retained snapshots, newest first, below a picture of them all and of the savepoints.

        Parameters
        ----------
        limit
            List so many at most, the newest.

        Raises
        ------
        InvalidInput
            When the limit is less than 1.
        """
        if limit is not None and limit < 1:
            raise InvalidInput(f"cannot list {limit} snapshots", hint="give a limit of 1 or more")
        kept = retained(self._components.catalog, self.entry.id)
        found, points = kept.snapshots, kept.savepoints
        saved: dict[int, list[str]] = {}
        for point in points:
            saved.setdefault(point.saved_snapshot_id, []).append(point.name or str(point.id))
        cells = tuple(
            (s.id, s.time, s.operation, s.added_files, s.removed_files, s.added_rows, s.rows, s.files,
             s.references, ", ".join(saved.get(s.id, ())), s.message)
            for s in found[:limit]
        )  # fmt: skip
        columns = ("snapshot", "time", "operation", "+files", "−files", "+rows", "rows", "files",
                   "references", "savepoint", "message")  # fmt: skip
        cut = f"the newest {len(cells):,} of {len(found):,} snapshots" if len(cells) < len(found) else ""
        listing = Listing(found[:limit], columns, cells, f"history of {self.name}", cut)
        picture, lines = (draw(found, points, name=self.name) for draw in (timeline, timeline_lines))
        return Pictured(listing, picture, lines)

    @checked
    def export(
        self,
        destination: str | Path,
        file_format: Literal["parquet", "csv", "tsv"] | None = None,
        *,
        delimiter: str | None = None,
        null_text: str | None = None,
        header: bool = True,
        columns: Sequence[str] | None = None,
        where: str | None = None,
    ) -> ExportReport:
        """Write the rows of the current version to files, as `TableAt.export` does."""
        return self.at().export(
            destination, file_format, columns=columns, where=where,
            delimiter=delimiter, null_text=null_text, header=header,
        )  # fmt: skip

    def plan(self) -> ScanPlan:
        """Return what a query of the whole current version opens."""
        return self.at().plan()

    def fields(self) -> Listing[Field]:
        """Return the fields of the current version: their roles and types, and which may be null."""
        return self.at().fields()

    def files(self) -> Pictured[dict[str, Any]]:
        """Return the files that the current version reads, as `TableAt.files` does."""
        catalog, now = self._components.catalog, self._components.clock.now()
        # A compaction that commits in between would leave its old inputs without the claim on them.
        at, claims = steady(self.at, lambda: catalog.assignments(self.entry.id, now))
        return at.files_beside(claims)

    def leaves(self) -> Pictured[dict[str, Any]]:
        """Return the leaf partitions of the current version, as `TableAt.leaves` does."""
        return self.at().leaves()

    def source(self) -> Source:
        """Return the rows of the current version as SQL reads them."""
        return self.at().source()

    @checked
    def system_table(self, suffix: str) -> Source:
        """Return the rows of a system table at the current version, as `TableAt.system_table` does."""
        return self.at().system_table(suffix)

    @checked
    def inspect(self, sql: str, params: Mapping[str, Any] | None = None) -> Answer:
        """Ask DuckDB about the metadata of the current version, as `TableAt.inspect` does."""
        return self.at().inspect(sql, params)

    def card(self) -> Stacked:
        """Return the newest commit, what the table is there, and its first ten rows."""
        return self.at().card()

    def grid(self) -> Grid:
        """Return what the current version is, in a few lines."""
        return self.at().grid()

    def to_dict(self) -> dict[str, Any]:
        """Return the schema and the totals of the current version."""
        return self.at().to_dict()

    @property
    def savepoint_manager(self) -> SavepointManager:
        """What finds savepoints by their ids, and their files (the proposal of savepoints for Paimon)."""
        return SavepointManager(self)

    @checked
    def savepoints(self, with_bytes: bool = False) -> Listing[Savepoint]:
        """Return the savepoints, oldest first.

        Parameters
        ----------
        with_bytes
            Show the data files that each alone keeps, and their bytes: what deleting it would free. This reads the
            current metadata.
        """
        return savepoints.list_savepoints(self._store, self.name, with_bytes=with_bytes)

    @checked
    def create_savepoint(
        self, name: str | None = None, message: str | None = None, snapshot: int | str | None = None
    ) -> Savepoint:
        """Keep a version until it is deleted, whatever expires.

        Parameters
        ----------
        name
            A name that starts with a letter, was never used before in this table, and means no other version, as
            ``v1`` and ``savepoint.1`` do.
        message
            Why it was made.
        snapshot
            The snapshot to save; the current one when None.
        """
        author = self._components.author
        if snapshot is None:
            return savepoints.save_current(self._store, name=name, message=message, author=author)
        found = self.at_reference(_reference(snapshot, None)).resolved
        return savepoints.create_savepoint(self._store, found, name=name, message=message, author=author)

    @checked
    def rollback(
        self,
        version: int | str | None = None,
        *,
        timestamp: datetime | str | None = None,
        dry_run: bool = False,
        message: str | None = None,
    ) -> RollbackReport:
        """Make the table what it was at a version, by one more snapshot; history goes on, and no file is rewritten.

        Rows, files and partitions are those of then; properties and columns stay. What others commit meanwhile is
        undone too. An ingest with a job id stays done: the same load is given another id to be taken in again.

        Parameters
        ----------
        version
            What can stand behind ``@``: ``12``, ``"snapshot.12"``, a savepoint's name, or ``"savepoint.3"``.
        timestamp
            Instead: the newest version at or before a moment.
        dry_run
            Only return what would change.
        message
            What history shows of it; None names the version.
        """
        asked = _reference(version, timestamp)
        if asked is None:
            raise InvalidInput("no version to roll back to", hint=f"%sleeper history {self.name} shows them")
        return self.rollback_to(asked, dry_run=dry_run, message=message)

    @checked
    def rollback_to(
        self, asked: VersionReference, *, dry_run: bool = False, message: str | None = None
    ) -> RollbackReport:
        """Roll back to a version that was parsed already; otherwise as `rollback`."""
        found = self.at_reference(asked).resolved
        author = self._components.author
        return rollback.roll_back(self._store, found, dry_run=dry_run, author=author, message=message)

    @checked
    def delete_savepoint(
        self, savepoint: int | str | SavepointReference, dry_run: bool = False, *, force: bool = False
    ) -> SavepointDeletion:
        """Delete a savepoint by its id or name; they are never given again.

        Parameters
        ----------
        savepoint
            ``3``, ``"before-fix"``, ``"savepoint.3"``; a `SavepointReference` for what is a name and nothing else.
        dry_run
            Only return what would go with it.
        force
            Do it also when nothing else keeps the version, which can then never be read again.

        Raises
        ------
        ConfirmationNeeded
            When nothing else keeps the version, and neither `force` nor `dry_run` is set; it has the plan.
        """
        asked: VersionReference
        if isinstance(savepoint, SavepointReference):
            asked = savepoint
        else:
            asked = parse_version(savepoint if str(savepoint).startswith("savepoint.") else f"savepoint.{savepoint}")
        found = self.at_reference(asked).resolved.version
        assert isinstance(found, Savepoint)  # noqa: S101 - a savepoint's reference resolves to nothing else
        plan = savepoints.plan_deletion(self._store, found)
        if dry_run:
            return plan
        if plan.loses_version and not force:
            gone = f"this deletes snapshot {found.saved_snapshot_id} of table {self.name!r} for good"
            kept = f"nothing but savepoint {found.name or found.id!r} keeps it"
            raise ConfirmationNeeded(f"{gone}: {kept}", hint=CONFIRM, plan=plan)
        savepoints.delete_savepoint(self._store, found)
        return replace(plan, dry_run=False)

    @checked
    def changes(self, from_version: int | str, to_version: int | str | None = None) -> Changes:
        """Return the rows that were added and removed from one version to another, not read yet.

        Compaction, splitting, garbage collection and migration change no rows. The rows are those that queries give at
        the moment of this call; in the other order of the versions, added and removed change places.

        Parameters
        ----------
        from_version, to_version
            What can stand behind ``@``: ``12``, ``"snapshot.12"``, ``"savepoint.3"``, a savepoint's name, or a time
            such as ``"2026-11-01 10:00"``, which is UTC. The current version when `to_version` is None.

        Raises
        ------
        NotFound
            When there is no such version, naming those that there are.
        """
        before, after = self._at(from_version), self._at(to_version)
        comparison, guards = self._comparison(before, after), _guards(before, after)
        return Changes(self.name, before.resolved, after.resolved, comparison, self._store.storage, guards)

    @checked
    def diff(self, a: int | str, b: int | str | None = None) -> Diff:
        """Return what changed from one version to another: rows, columns, files and partitions, by number and name.

        Rows are counted exactly. Where files were only added, as by ingests, metadata tells; where both versions have
        files that the other has not, as behind a compaction, those are read and compared. Versions and errors are those
        of `changes`.
        """
        before, after = self._at(a), self._at(b)
        comparison, progress = self._comparison(before, after), self._components.progress
        try:
            with guarded(_guards(before, after), "diff"):
                rows = changes.count(comparison, self._store.storage, progress=progress)
        finally:
            progress.finish()
        return diff(
            self.name,
            (before.resolved, before.state),
            (after.resolved, after.state),
            rows,
            processed=after.is_processed,
        )

    def _at(self, version: int | str | None) -> TableAt:
        return self.at_reference(None if version is None else parse_reference(version))

    def _comparison(self, before: TableAt, after: TableAt) -> Comparison:
        now = self._components.clock.now()  # one for both: no row may become too old between them
        processing = (
            DataProcessing.of(self.properties.processed_as(each.state.processing), each.schema, now)
            for each in (before, after)
        )
        return compare(before.state, after.state, *processing)


def _guards(*versions: TableAt) -> tuple[ReadGuard, ...]:
    return tuple(each.guard(each.state.totals().bytes) for each in versions)


def _reference(version: int | str | None, timestamp: datetime | str | None) -> VersionReference | None:
    if version is not None and timestamp is not None:
        raise InvalidInput("a version and a timestamp were given", hint="give one of them")
    if timestamp is not None:
        return parse_moment(timestamp)
    return None if version is None else parse_reference(version)
