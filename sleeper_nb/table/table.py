"""`Table`, what a user calls on an open table, and `TableInspect`. Methods hand their work to the part that does it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from sleeper_nb.admin.alter import AlterReport
from sleeper_nb.arguments import checked
from sleeper_nb.catalog.catalog_base import read_consistently, retained
from sleeper_nb.changes import Changes
from sleeper_nb.display.listings import Pictured
from sleeper_nb.display.timeline_picture import timeline, timeline_lines
from sleeper_nb.edit.row_editor import ChangeReport
from sleeper_nb.engines.components import OpenTable
from sleeper_nb.errors import Action, ConfirmationNeeded, HintParts, InvalidInput, hint_text
from sleeper_nb.load.load_options import LoadArguments, LoadOptions
from sleeper_nb.load.load_report import LoadReport
from sleeper_nb.maintain.maintain import MaintenanceReport
from sleeper_nb.maintain.status import Housekeeping, TableStatus, table_status
from sleeper_nb.model.evolution import (
    AddCheck,
    DropCheck,
    DropColumn,
    RenameColumn,
    SchemaAlteration,
    SetComment,
    SetDefault,
    SetNotNull,
    SetUniqueKeys,
    WidenColumn,
    additions,
)
from sleeper_nb.model.expectations import counts_line
from sleeper_nb.model.jobs import Job, Lease
from sleeper_nb.model.property_guide import PropertyValue, list_values, table_values
from sleeper_nb.model.savepoints import RetainedVersions, Savepoint, savepoint_label, savepoints_by_snapshot
from sleeper_nb.model.schema import Check, Field, Schema, parse_type
from sleeper_nb.model.snapshots import (
    SavepointReference,
    Snapshot,
    VersionReference,
    parse_moment,
    parse_reference,
    parse_version,
)
from sleeper_nb.progress import finishing
from sleeper_nb.publish.publish import PublishReport
from sleeper_nb.publish.published import UnpublishReport, check_unpublishing, unpublish
from sleeper_nb.query import EngineName
from sleeper_nb.read.column_profile import ColumnProfile
from sleeper_nb.read.export import ExportReport
from sleeper_nb.read.job_tracking import LISTED_JOBS, Which, jobs_of, list_jobs
from sleeper_nb.report import CONFIRM, Grid, Listing, Report, Stacked
from sleeper_nb.scan import Scan
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.table import configuring, loading
from sleeper_nb.table.edit_methods import EditMethods, MergeBuilder
from sleeper_nb.table.folder_watch import DEFAULT_EVERY, FolderWatch, WatchedFolder, WatchReport
from sleeper_nb.table.publishing import publish_after, publish_version, with_published
from sleeper_nb.table.table_maintenance import Maintenance, maintain
from sleeper_nb.table_at import Inspect, TableAt, current_version, version_of
from sleeper_nb.versions.comparison import ComparedRows, compare, newer_schema
from sleeper_nb.versions.create_savepoint import create_savepoint, save_current, savepoint_named
from sleeper_nb.versions.delete_savepoint import SavepointDeletion, delete_savepoint, plan_savepoint_deletion
from sleeper_nb.versions.diff import Diff
from sleeper_nb.versions.expire import Retention
from sleeper_nb.versions.roll_back import RollbackReport, roll_back
from sleeper_nb.versions.savepoint_manager import SavepointManager, list_savepoints

if TYPE_CHECKING:
    from sleeper_nb.widgets.explorer import Explorer


class Table(Report):
    """A table: every call reads or changes its current version.

    Made by `Session.create_table` and `Session.table`. A table has versions: each read takes one with `at`, and all of
    its answer comes from that version. Two calls may read two versions; to ask several things of one version, keep
    what `at` returns.
    """

    def __init__(self, opened: OpenTable) -> None:
        self._opened = opened
        self.entry, self.name = opened.entry, opened.entry.name
        self.notes: tuple[HintParts, ...] = ()
        """What its report says below, of how it was made; each face writes the actions in it after `prefix`."""
        self.prefix = ""

    @property
    def _store(self) -> StateStore:
        return self._opened.store

    @property
    def inspect(self) -> TableInspect:
        """Lists of what the current version is made of, of jobs and of readers."""
        return TableInspect(self._opened)

    @property
    def maintenance(self) -> Maintenance:
        """The single steps of maintenance: `maintain` does those that are due."""
        return Maintenance(self._opened)

    # The current version, and others.

    @checked
    def at(
        self,
        version: int | str | VersionReference | None = None,
        *,
        timestamp: datetime | str | None = None,
        schema: Literal["own", "current"] = "own",
    ) -> TableAt:
        """Return the table at one version.

        Parameters
        ----------
        version
            What can follow ``@``: ``12``, ``"snapshot.12"``, a savepoint's name, or ``"savepoint.3"``; also parsed
            already. The current version when None.
        timestamp
            Instead: the newest version at or before a moment; UTC unless it has a zone.
        schema
            ``"own"`` reads the version with the schema that it had; ``"current"`` with the current one.
        """
        asked = _reference(version, timestamp)
        at = version_of(self._opened, asked)
        # The current version has the current schema: looking that up again could find a later one.
        return at if asked is None or schema == "own" else at.in_schema(schema)

    @property
    def schema(self) -> Schema:
        """The schema of the current version."""
        return current_version(self._opened).schema

    # Read the current version.

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

        Those two and `schema` are as in `at`, the other parameters as in `TableAt.scan`.
        """
        at = self.at(version, timestamp=timestamp, schema=schema)
        return at.scan(columns, where, keys=keys, region=region, limit=limit)

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
        return current_version(self._opened).export(
            destination, file_format, columns=columns, where=where,
            delimiter=delimiter, null_text=null_text, header=header,
        )  # fmt: skip

    def profile(self, columns: Sequence[str] | None = None, where: str | None = None) -> Listing[ColumnProfile]:
        """Return what the values of each column of the current version are like, as `TableAt.profile` does."""
        return current_version(self._opened).profile(columns, where)

    def describe(self) -> Stacked:
        """Return the newest commit, the totals of its version, and the first ten rows."""
        return current_version(self._opened).describe()

    def grid(self) -> Grid:
        """Return the totals of the current version."""
        grid = current_version(self._opened).grid()
        footer = "\n".join(filter(None, (grid.footer, *(hint_text(each, self.prefix) for each in self.notes))))
        return replace(grid, footer=footer)

    def to_dict(self) -> dict[str, Any]:
        """Return the schema and the totals of the current version."""
        return current_version(self._opened).to_dict()

    # List, pin, restore and compare versions.

    @checked
    def history(self, limit: int | None = None) -> Pictured[Snapshot]:
        """Return the retained snapshots, newest first, below a timeline of all snapshots and savepoints.

        Parameters
        ----------
        limit
            The most snapshots to list; all when None.

        Raises
        ------
        InvalidInput
            When the limit is less than 1.
        """
        if limit is not None and limit < 1:
            raise InvalidInput(f"cannot list {limit} snapshots", hint="give a limit of 1 or more")
        return _history(self._opened, limit)

    @property
    def savepoint_manager(self) -> SavepointManager:
        """Finds savepoints by id, and their files (the proposal of savepoints for Paimon)."""
        return SavepointManager(self)

    @checked
    def savepoints(self, with_bytes: bool = False) -> Listing[Savepoint]:
        """Return the savepoints, oldest first.

        Parameters
        ----------
        with_bytes
            Show how many data files, and bytes, only this savepoint keeps: what deleting it would free. This reads the
            current metadata.
        """
        return list_savepoints(self._store, self.name, with_bytes=with_bytes)

    @checked
    def create_savepoint(
        self,
        name: str | None = None,
        message: str | None = None,
        snapshot: int | str | None = None,
        *,
        if_not_exists: bool = False,
    ) -> Savepoint:
        """Pin a version: it does not expire until you delete the savepoint.

        Parameters
        ----------
        name
            Starts with a letter, was never used before in this table, and is not a reference to another version, such
            as ``v1`` or ``savepoint.1``.
        message
            Why it was made.
        snapshot
            The snapshot to save; the current one when None.
        if_not_exists
            Return the savepoint that has the name, if there is one, whatever version it keeps.
        """
        if if_not_exists and name is not None and (present := savepoint_named(self._store, name)) is not None:
            return present
        author = self._opened.components.author
        if snapshot is None:
            made = save_current(self._store, name=name, message=message, author=author)
        else:
            made = create_savepoint(self._store, self.at(snapshot).resolved, name=name, message=message, author=author)
        publish_after(self._opened, saved=made)
        return made

    @checked
    def delete_savepoint(
        self, savepoint: int | str | SavepointReference, *, dry_run: bool = False, force: bool = False
    ) -> SavepointDeletion:
        """Delete a savepoint by its id or name; neither is used again.

        Parameters
        ----------
        savepoint
            ``3``, ``"before-fix"`` or ``"savepoint.3"``; a `SavepointReference` when the text is a name in any case.
        dry_run
            Only return what would be deleted.
        force
            Delete it even when nothing else keeps its version, which can then never be read again.

        Raises
        ------
        ConfirmationNeeded
            When nothing else keeps the version, and neither `force` nor `dry_run` is set; it has the plan.
        """
        reference: VersionReference
        if isinstance(savepoint, SavepointReference):
            reference = savepoint
        else:
            text = str(savepoint)
            reference = parse_version(text if text.startswith("savepoint.") else f"savepoint.{text}")
        version = self.at(reference).resolved.version
        assert isinstance(version, Savepoint)  # noqa: S101 - a savepoint's reference resolves to nothing else
        plan = plan_savepoint_deletion(self._store, version, Retention.of(self._opened.properties))
        if dry_run:
            return plan
        if plan.needs_confirmation and not force:
            raise ConfirmationNeeded(
                f"this deletes snapshot {version.saved_snapshot_id} of table {self.name!r} for good: "
                f"only savepoint {version.name or version.id!r} keeps it",
                hint=CONFIRM,
                plan=plan,
            )
        delete_savepoint(self._store, version)
        return replace(plan, dry_run=False)

    @checked
    def rollback(
        self,
        version: int | str | VersionReference | None = None,
        *,
        timestamp: datetime | str | None = None,
        dry_run: bool = False,
        message: str | None = None,
    ) -> RollbackReport:
        """Restore a version's contents by one more snapshot; history is preserved, and no file is rewritten.

        Rows, files and partitions become those of the version; properties and columns stay. Commits that others make
        meanwhile are undone too. An ingest with a job id still counts as done: to load the same rows again, give the
        job another id.

        Parameters
        ----------
        version
            What can follow ``@``: ``12``, ``"snapshot.12"``, a savepoint's name, or ``"savepoint.3"``.
        timestamp
            Instead: the newest version at or before a moment.
        dry_run
            Only return what would change.
        message
            The commit's message in history; it names the version when None.
        """
        reference = _reference(version, timestamp)
        if reference is None:
            raise InvalidInput(
                "no version to roll back to", hint=(Action(f"history {self.name}", "table.history()"), " lists them")
            )
        target, author = self.at(reference).resolved, self._opened.components.author
        report = roll_back(self._store, target, dry_run=dry_run, author=author, message=message)
        publish_after(self._opened, report.snapshot)
        return report

    @checked
    def publish(self, version: int | str | VersionReference | None = None, *, force: bool = False) -> PublishReport:
        """Publish a version as Iceberg metadata: other engines read it by the table's address, and no row is copied.

        The newest published version is what they read unless they are given another; each published savepoint is a tag
        of its name. Expiry and garbage collection keep the files of published versions: of one that a newer one has
        superseded for the time of the property ``sleeper.table.iceberg.time-retained``, if it is one of the newest 100
        of these; of a savepoint until the first publication after it is deleted. The property
        ``sleeper.table.iceberg`` publishes each savepoint, or each commit, by itself.

        Parameters
        ----------
        version
            What can follow ``@``: ``12``, ``"snapshot.12"``, a savepoint's name, or ``"savepoint.3"``; the current
            version when None.
        force
            Hide the versions that another engine has written into the same metadata meanwhile.

        Returns
        -------
        What was published, with a line for each engine that reads it.

        Raises
        ------
        InvalidInput
            When other engines would read wrong rows; the hint says what cures that.
        ConfirmationNeeded
            When another engine has written into the metadata, and no `force`. Nothing is changed then.
        NotInstalled
            When a package of the extra ``iceberg`` is missing.
        """
        return publish_version(self._opened, self.at(version).resolved, force=force)

    @checked
    def unpublish(self, *, force: bool = False) -> UnpublishReport:
        """Take all published versions away: the metadata for other engines is deleted, and their files are released.

        Parameters
        ----------
        force
            Delete also the versions that another engine has written into the same metadata meanwhile.

        Raises
        ------
        ConfirmationNeeded
            When another engine has written into the metadata, and no `force`. Nothing is changed then.
        """
        if not force:
            check_unpublishing(self._store, self.name)
        return unpublish(self._store)

    @checked
    def changes(
        self,
        from_version: int | str,
        to_version: int | str | None = None,
        *,
        where: str | None = None,
        keys: Any = None,
        region: Mapping[str, tuple[Any, Any]] | str | None = None,
        images: bool = False,
    ) -> Changes:
        """Return the rows that were added and removed from one version to another, not read yet.

        Compaction, splitting, garbage collection and migration change no rows. The rows are those that queries return
        at the moment of this call; with the versions swapped, added and removed are swapped.

        Parameters
        ----------
        from_version, to_version
            What can follow ``@``: ``12``, ``"snapshot.12"``, ``"savepoint.3"``, a savepoint's name, or a time such as
            ``"2026-11-01 10:00"``, which is UTC. The current version when `to_version` is None.
        where, keys, region
            Only the rows among them that meet a condition, and have some keys, as in `scan`; with the columns of the
            newer version. Partitions and files that cannot have such rows are not read.
        images
            Whether ``rows()`` says which rows are the images of an update: where a key, of the row keys and sort keys,
            has exactly one removed and one added row, they are ``update_preimage`` and ``update_postimage``.

        Raises
        ------
        NotFound
            When there is no such version; the error names those that exist.
        InvalidInput
            When the condition, the keys or the region do not fit the schema.
        """
        before, after, opened = self.at(from_version), self.at(to_version), self._opened
        old, new, components = before.state, after.state, opened.components
        now = components.clock.now()  # one moment for both: a row must not become too old between them
        schema, are_all = newer_schema(old, new), where is None and keys is None and region is None
        condition = None if where is None else components.engines.condition(where, schema)
        rows = ComparedRows.of(schema, keys, region, condition)
        comparison = compare(old, new, opened.processing_of(old, now), opened.processing_of(new, now), rows)
        guards = tuple(version.guard(version.state.totals().bytes) for version in (before, after))
        resolved, storage = (before.resolved, after.resolved), self._store.storage
        return Changes(self.name, *resolved, (old, new), comparison, storage, guards, images, are_all)

    @checked
    def diff(
        self,
        a: int | str,
        b: int | str | None = None,
        *,
        where: str | None = None,
        keys: Any = None,
        region: Mapping[str, tuple[Any, Any]] | str | None = None,
        images: bool = False,
    ) -> Diff:
        """Return what changed from one version to another: rows, columns, files and partitions, by number and name.

        Row counts are exact. Where files were only added, as by ingests, metadata is enough; where each version has
        files that the other does not, as after a compaction, those are read and compared. Versions, errors and the
        choice of the rows that are counted are those of `changes`; files and partitions are those of the whole table.
        With `images`, the report also says how many rows were inserted, updated and deleted, by key.
        """
        found = self.changes(a, b, where=where, keys=keys, region=region, images=images)
        with finishing(self._opened.components.progress) as progress:
            return found.diff(progress=progress)

    # Load rows.

    @checked
    def ingest(
        self,
        data: Any,
        *,
        message: str | None = None,
        job_id: str | None = None,
        quarantine: str | Path | None = None,
        dry_run: bool = False,
        **options: Unpack[LoadArguments],
    ) -> LoadReport:
        """Add rows: in memory where they are in memory or small, otherwise as a bulk import.

        Parameters
        ----------
        data
            pandas, Arrow, Polars, DuckDB or Spark rows, a list of dictionaries; the path, folder, glob, ``s3://`` or
            ``https://`` address of Parquet, CSV, JSON (one object a line, or one array) or Excel files; a table of
            another format, ``delta:PATH@12`` or ``iceberg:PATH@tag`` (or a branch, or a snapshot id), at its newest
            version without ``@``, or as an object of deltalake or PyIceberg; or a list of any of these. CSV and JSON
            may be compressed (``.gz``, ``.zst``, ``.bz2``). Folders named as in ``year=2013/`` give a column. Files of
            folders and globs are left out if a name below the folder begins with ``.`` or ``_``; those in tables of
            Delta, Iceberg, Hudi, Paimon and DuckLake are refused. Files of 256 MiB and more in all, and Spark
            DataFrames, are loaded as by `bulk_import`.
        message
            The commit's message in history.
        job_id
            A name for this load, such as ``2026-11-21/flights``. A load whose id has added rows before adds nothing,
            however often it runs and in whichever process. Ids are kept as long as the table is. A load without rows
            does not use up its id.
        quarantine
            A new Parquet file, a path or ``s3://`` address, for rows that do not fit: with values that cannot be
            converted, NULL in a column that has none, a CHECK that is false, a row key that is taken where keys are
            unique, or, in a CSV file, too many or too few values. The other rows are loaded, in this process whatever
            their size. The file has all columns of the data, as text where the data has several types, and the columns
            ``_reason``, ``_file`` and ``_row``, the row's number or line; ``_text`` has whole lines of CSV files with
            too many or too few values. It is written before the commit, and deleted if that fails; none is written when
            all rows fit. Columns that are missing, unknown or of a wrong kind are errors all the same.
        dry_run
            Only return what would be done: rows, leaves, files, and every difference between data and schema.
        **options
            What the load forgives:

            - ``ignore_extra``: whether columns that the table lacks are left out. The last line says which.
            - ``cast``: whether numbers, booleans, dates and times also become text in a string column, and words such
              as ``yes`` booleans. Without it, values are cast between types where nothing is lost, such as 2.0 to 2 or
              the text ``2026-11-21`` to a date. Nothing is ever rounded.
            - ``by_name``: whether names also match that differ only in case, spaces and punctuation:
              ``Pickup Time`` and ``pickup_time``. Columns are matched by name in any order without it.
            - ``columns``: the table's names for the data's columns, in the order of the data; or a dictionary from
              names of the data to names of the table.

            How CSV files are written (``header``, ``null_text`` and ``skip_lines`` also count for Excel):

            - ``delimiter``: what separates values: one character, or ``"tab"``; a comma when None, a tab in ``.tsv``.
            - ``null_text``: the text or texts, without quotes, that stand for NULL; the empty text when None. In JSON
              files, texts that stand for NULL; none when None.
            - ``header``: whether the first line names the columns; otherwise they are `columns`, or the table's.
            - ``quote``, ``escape``: the character around values, or ``"none"``, and the one before a quote inside.
            - ``comment``, ``skip_lines``: with what the lines begin that are left out, and how many come first.
            - ``encoding``: such as ``cp1252`` or ``utf-16``; UTF-8 when None.
            - ``decimal``: the decimal mark, ``"."`` or ``","``.
            - ``thousands``: what separates groups of three digits in numbers: ``,``, ``.``, ``'``, ``_`` or ``space``.
            - ``date_format``, ``timestamp_format``: such as ``"%d.%m.%Y"``, as of ``strptime``; ISO 8601 when None.
            - ``sheet``: the sheet of an Excel file that has several.
            - ``format``: ``"csv"``, ``"tsv"``, ``"json"``, ``"parquet"`` or ``"excel"``, for all files whatever their
              names, also those of folders. Otherwise a name says it, or for a file of another name its content.

        Returns
        -------
        What was loaded: its `snapshot` is the version with the rows, None when there were none. For a job that was
        done before, it says so. The same report of a dry run has the `plan`.

        Raises
        ------
        InvalidInput
            When a column is missing, unknown, has a value that its type cannot hold exactly, or nulls where it must
            not. Nothing is added. A dry run returns all such differences instead.
        AlreadyExists
            When there is a file at `quarantine`.
        """
        given = LoadOptions.of(options)
        return loading.load(
            self._opened, data, given, message=message, job_id=job_id, dry_run=dry_run, quarantine=quarantine
        )

    append = ingest
    """The word of other table formats for `ingest`."""

    @checked
    def watch(
        self,
        folder: str | Path,
        *,
        once: bool = False,
        every: timedelta = DEFAULT_EVERY,
        quarantine: str | Path | None = None,
        skip_bad: bool = False,
        message: str | None = None,
        job_id: str | None = None,
        **options: Unpack[LoadArguments],
    ) -> WatchReport:
        """Load each file of a folder once, and go on with those that come, until an interrupt.

        Each file is one commit, in the order of the names, by a job id that names the file: a later watch does not load
        it again, in any process, nor one that another load of this table has added. A file that is empty, or that
        changed between two looks, may still be written and is left alone; so are hidden files, and those whose names
        begin with ``_`` or have no ending of data. Writers that rename a whole file into the folder are always safe.
        Objects of a bucket are loaded at once.

        Parameters
        ----------
        folder
            A folder with all folders below it, an ``s3://`` prefix, or a glob.
        once
            Whether to load what is there and return, as a cron job does: after one look, or two, if files are new.
        every
            The time between two looks.
        quarantine
            A folder elsewhere, in which each file with rows that do not fit gets a file with them, as in `ingest`; a
            number in its name where there is such a file already.
        skip_bad
            Whether to go on after a file that cannot be loaded; it is reported, and loaded once it has changed.
        message
            The beginning of each commit's message, before the file's name.
        job_id
            The beginning of the job ids of the files. The address of the folder when None: give one where the folder
            may be moved, or is seen by other addresses on other machines.
        **options
            As in `ingest`.

        Returns
        -------
        What became of each file that was not loaded before. A file without rows, or in which no row fits, is read again
        once it has changed. A file that was loaded and has changed since is named, and not loaded again: its time of
        change is later than its load, or it changed while this watch ran. A file whose rows were rolled back is not
        loaded again either; `ingest` loads it by its name.

        Raises
        ------
        NotFound
            When there is no such folder.
        InvalidInput
            When a file cannot be loaded and `skip_bad` is not given; nothing of the file is added.
        KeyboardInterrupt
            At an interrupt; a note says what was done. Files that were loaded stay loaded.
        """
        given = LoadOptions.of(options)
        place = WatchedFolder(str(folder), self._store.storage, every=given.format is not None)
        kept_in = None if quarantine is None else str(quarantine)
        watch = FolderWatch(self._opened, place, given, every, kept_in, skip_bad, message, job_id or place.root)
        return watch.run(once=once)

    @checked
    def bulk_import(
        self,
        data: Any,
        *,
        engine: Literal["auto", "spark", "local"] = "auto",
        merge: bool | None = None,
        message: str | None = None,
        job_id: str | None = None,
        dry_run: bool = False,
        **options: Unpack[LoadArguments],
    ) -> LoadReport:
        """Add rows in bulk, whatever their size; otherwise as `ingest`.

        Rows are sorted in parallel, each task with the memory of ``sleeper.table.bulk.import.task.memory.bytes``, and
        with temporary files where that is not enough. A leaf with many rows gets several files.

        Parameters
        ----------
        engine
            ``"spark"`` loads by tasks of Spark, ``"local"`` by threads of this process. ``"auto"`` takes Spark for its
            own DataFrames and on a cluster, and this process for the rest: on one machine it is faster.
        merge
            Whether the sorted runs of a leaf are merged into its file. With False, each run becomes a file of each
            leaf, which compaction merges later: the load itself takes less time. A leaf gets at most about 20 files,
            and the table 10,000; where there would be more, the runs are merged, and the result says so. None takes
            the property ``sleeper.table.bulk.import.merge``.
        """
        given = LoadOptions.of(options)
        return loading.load(
            self._opened, data, given, message=message, job_id=job_id, dry_run=dry_run, engine=engine, merge=merge
        )

    @checked
    def add_files(
        self,
        files: str | Path | Iterable[str | Path],
        *,
        copy: bool = False,
        move: bool = False,
        message: str | None = None,
        job_id: str | None = None,
        dry_run: bool = False,
    ) -> LoadReport:
        """Add sorted Parquet files where they are, in one commit: the table refers to them, and copies nothing.

        Each file must have the table's columns and types, in its order, and be sorted by row keys, then sort keys. A
        file whose rows are in several leaves is read by each of them for its rows. The files must stay as they are: a
        read refuses one that was changed or deleted. The table never changes or deletes them; compaction writes files
        of its own, and drops the references. With `move` they become files of the table instead.

        Parameters
        ----------
        files
            The path, folder, glob or ``s3://`` address of Parquet files, or a list of these. Files outside the
            warehouse must be in folders that the session may use: ``session.allow(data_paths=[…])``.
        copy
            Ingest the files instead: their rows are sorted and converted into files of the table.
        move
            Move local files into the table's folder, without a copy: they are files of the table from then on, and
            garbage collection deletes them when no version needs them any more. Other tables of the instance must not
            use them; those of other instances are not known. After an error all files are where they were.
        message, job_id
            As those of `ingest`.
        dry_run
            Only return what would be done: leaves and rows, and what is wrong with which files.

        Returns
        -------
        As of `ingest`.

        Raises
        ------
        InvalidInput
            When a file cannot be a data file of the table; nothing is added. A dry run returns all reasons instead.
        AlreadyExists
            When the table has one of the files.
        NotAllowed
            When a file is outside the warehouse, in a folder that the session may not use.
        """
        return loading.add_files(
            self._opened, files, copy=copy, move=move, message=message, job_id=job_id, dry_run=dry_run
        )

    # Change rows.

    @checked
    def delete(
        self,
        where: str | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        engine: EngineName = "duckdb",
        message: str | None = None,
        job_id: str | None = None,
        dry_run: bool = False,
        force: bool = False,
    ) -> ChangeReport:
        """Delete the rows that meet a condition, in one commit; older versions keep them until they expire.

        `Maintenance.purge` deletes rows for good.

        Parameters
        ----------
        where
            The condition, in the engine's SQL. It may name the table, its versions, and `data`. All rows when None.
        params
            Values of ``:name`` in it.
        data
            Data frames and the like that it may read by name.
        engine
            Which engine finds the rows: ``"duckdb"`` or ``"spark"``.
        message, job_id
            As those of `ingest`.
        dry_run
            Change nothing; return how many rows, files and bytes would be touched. `ChangeReport.changed_rows` reads
            these rows.
        force
            Confirm that all rows are meant, where no condition names a column of the table.

        Raises
        ------
        ConfirmationNeeded
            When all rows are meant, and no `force`; it has the plan.
        InvalidInput
            When the condition is wrong, or queries filter or combine the table's rows.
        ConflictError
            When other writers changed the same rows in each of ten attempts.
        """
        change = EditMethods(self._opened, engine, params, data).delete(where)
        return change.run(dry_run=dry_run, force=force, message=message, job_id=job_id)

    @checked
    def update(
        self,
        updates: Mapping[str, Any] | None = None,
        where: str | None = None,
        *,
        new_values: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        engine: EngineName = "duckdb",
        message: str | None = None,
        job_id: str | None = None,
        dry_run: bool = False,
        force: bool = False,
    ) -> ChangeReport:
        """Set columns of the rows that meet a condition, in one commit.

        Parameters
        ----------
        updates
            For each column an expression of SQL, which sees the row as it was: ``{"fare": "fare * 1.1"}``. A text is
            written ``"'text'"``; or use `new_values`. A struct is set as a whole: ``{"s": "{'a': 1, 'b': s.b}"}``.
        where
            The condition; all rows when None.
        new_values
            For each column a Python value.
        params, data, engine, message, job_id, dry_run, force
            As those of `delete`.

        Raises
        ------
        ConfirmationNeeded, InvalidInput, ConflictError
            As `delete`; also when a new value does not fit its column, or breaks a rule of the table.
        """
        methods = EditMethods(self._opened, engine, params, data)
        change = methods.update(updates or {}, new_values or {}, where)
        return change.run(dry_run=dry_run, force=force, message=message, job_id=job_id)

    @checked
    def upsert(
        self,
        data: Any,
        *,
        on: Sequence[str] | None = None,
        engine: EngineName = "duckdb",
        message: str | None = None,
        job_id: str | None = None,
        dry_run: bool = False,
        **options: Unpack[LoadArguments],
    ) -> ChangeReport:
        """Update the rows that have the keys of new rows, and insert the other new rows, in one commit.

        Parameters
        ----------
        data
            The new rows: what `ingest` takes, without a Spark DataFrame. Columns that all of them lack keep their
            values in rows that are updated.
        on
            The columns by which rows match. When None, the row keys, where the table promises that they are unique;
            otherwise row keys and sort keys.
        engine, message, job_id, dry_run
            As those of `delete`.
        **options
            What is forgiven, and how files are read, as of `ingest`.

        Raises
        ------
        InvalidInput
            When two new rows have the same values by which rows match, such a value is null, or a value does not fit;
            when some dictionaries lack a key that others have.
        ConflictError
            As `delete`. Rows that others add meanwhile are seen: two upserts never both insert a key.
        """
        change = EditMethods(self._opened, engine).upsert(data, on, LoadOptions.of(options))
        return change.run(dry_run=dry_run, force=True, message=message, job_id=job_id)

    @checked
    def merge(
        self,
        data: Any,
        on: Sequence[str] | None = None,
        *,
        predicate: str | None = None,
        engine: EngineName = "duckdb",
    ) -> MergeBuilder:
        """Begin a merge of new rows; its clauses say what happens to rows that match, and to those that do not.

        ``table.merge(df).when_matched_update_all().when_not_matched_insert_all().execute()`` is an upsert.

        Parameters
        ----------
        data
            The new rows, as in `upsert`; clauses call them ``source``, and the table ``target``.
        on
            The columns by which rows match; when None, as in `upsert`.
        predicate
            Instead: which rows match, as SQL: ``"source.id = target.id AND target.day >= '2026-01-01'"``.
        engine
            Which engine finds the rows.
        """
        return EditMethods(self._opened, engine).merge(data, on, predicate)

    @checked
    def overwrite(
        self,
        data: Any,
        where: str | None = None,
        *,
        keys: Any = None,
        region: Mapping[str, tuple[Any, Any]] | str | None = None,
        params: Mapping[str, Any] | None = None,
        engine: EngineName = "duckdb",
        message: str | None = None,
        job_id: str | None = None,
        dry_run: bool = False,
        force: bool = False,
        **options: Unpack[LoadArguments],
    ) -> ChangeReport:
        """Replace the rows of a part of the table, or all, by new rows, in one commit.

        Parameters
        ----------
        data
            The new rows, as in `upsert`; what a dictionary lacks is the column's default or NULL, as in `ingest`. Each
            row must be in the part that is replaced. Without rows, the part is deleted.
        where, params
            The part, as a condition; or
        keys, region
            as in `scan`. The whole table without any of these.
        engine, message, job_id, dry_run, force
            As those of `delete`.
        **options
            As of `upsert`.

        Raises
        ------
        ConfirmationNeeded, InvalidInput, ConflictError
            As `delete`; also when a new row is outside the part, or does not fit the table.
        """
        statement = EditMethods(self._opened, engine, params)
        change = statement.overwrite(data, where, keys, region, LoadOptions.of(options))
        return change.run(dry_run=dry_run, force=force, message=message, job_id=job_id)

    # Change properties and columns.

    @checked
    def properties(self, names: Iterable[str] = ()) -> Listing[PropertyValue]:
        """Return properties with their values, their defaults, and where each was set; all when no name is given."""
        return list_values(table_values(self._opened.properties, names), f"properties of {self.name}")

    @checked
    def set_properties(self, changes: Mapping[str, str | None]) -> Listing[PropertyValue]:
        """Set properties of the table, all or none, and return those that were named.

        Comments, order and other lines of its file stay as they are. Of two changes at the same time the later one may
        undo the earlier. The new values apply to this object, and to every `Session.table` from now on; how often
        commits are tried applies from the next session on.

        Parameters
        ----------
        changes
            Texts by the names of properties; None unsets one, so that the instance's value or the default applies. For
            ``sleeper.table.schema``, None writes the table's schema into the file.

        Raises
        ------
        NotFound
            When there is no such property; the hint names the nearest.
        InvalidInput
            When a value is not valid or does not fit the schema, or when the property cannot be changed by itself, such
            as the class of the state store: the hint says what to do instead. Nothing is changed then.
        """
        self._opened = configuring.set_properties(self._opened, changes)
        return self.properties(changes)

    def accept_properties(self) -> Listing[PropertyValue]:
        """Accept the table's property file as it is, after it was changed by hand; return what it sets.

        Filters, iterator and aggregations apply from a new snapshot on; older versions keep theirs.

        Raises
        ------
        InvalidInput, NotFound
            When the file cannot be read, or does not fit the schema. Nothing is changed then.
        """
        self._opened = configuring.accept_properties(self._opened)
        set_here = [name for name in self._opened.properties.defined if name in self._opened.properties.texts]
        return self.properties(set_here)

    @checked
    def alter(
        self,
        add_columns: Mapping[str, Any] | Iterable[Field] | None = None,
        rename_columns: Mapping[str, str] | None = None,
        drop_columns: Iterable[str] = (),
        *,
        types: Mapping[str, str] | None = None,
        defaults: Mapping[str, Any] | None = None,
        not_null: Mapping[str, bool] | None = None,
        checks: Mapping[str, str | None] | None = None,
        comments: Mapping[str, str | None] | None = None,
        comment: str | None = None,
        unique_keys: bool | None = None,
        dry_run: bool = False,
        message: str | None = None,
    ) -> AlterReport:
        """Change value columns, their types, rules and comments, by one commit that changes only metadata.

        Older versions keep their columns, and so do queries of them; `at` with ``schema="current"`` reads them with the
        current ones. Loads and compactions that run meanwhile are not disturbed, except that a load without a new rule
        is refused, and can be run again.

        Parameters
        ----------
        add_columns
            Names with their types, which must be nullable: ``{"note": "string?"}``, or with a default and a comment:
            ``{"n": {"type": "int?", "default": 0}}``. Existing rows have NULL there, also when there is a default.
            ``{"address.zip": "string?"}`` adds a field to a struct, also to those of a list.
        rename_columns
            New names by current names.
        drop_columns
            Names. Columns are dropped first, then renamed, then added, then widened: so a name can be used again. The
            other parameters use the new names.
        types
            Wider types by names: ``{"n": "long", "address.code": "int"}``. A type becomes one that holds all of its
            values: tinyint, smallint, int, long, decimal; float, double; a decimal with more digits. Older files are
            read with the wider type. Row keys and sort keys keep their types: partitions and the order of files depend
            on them.
        defaults
            Constants by columns, for rows whose load does not name the column: ``{"fare": 0}``; None drops a default.
        not_null
            Whether a column refuses NULL: ``{"fare": True}``.
        checks
            Conditions on each row by name: ``{"fare_positive": "fare >= 0"}``; None drops the check of that name. A
            check whose column gets a wider type is checked again.
        comments, comment
            Texts by columns, None to drop one; the text of the table, "" to drop it.
        unique_keys
            Whether no two rows may have the same row keys. New rules are checked by the rows that exist; of all their
            files only those are read that may break them.
        dry_run
            Only return what would change.
        message
            The commit's message in history.

        Raises
        ------
        NotFound
            When there is no such column or check; the hint names the nearest.
        AlreadyExists
            When the new name is taken, in any case of its letters.
        InvalidInput
            When no change is given; when a key is named, or a column that the table's filters, aggregations or checks
            use; when a new column is not nullable, or a type cannot hold all values; when a row breaks a new rule, or a
            check is no condition on one row. Nothing is changed by this or any other error.
        """
        changes: list[SchemaAlteration] = [DropCheck(name) for name, text in (checks or {}).items() if text is None]
        changes += [DropColumn(name) for name in drop_columns]
        changes += [RenameColumn(name, to) for name, to in (rename_columns or {}).items()]
        changes += additions({} if add_columns is None else add_columns)
        changes += [WidenColumn(name, parse_type(text)) for name, text in (types or {}).items()]
        changes += [SetDefault(name, default) for name, default in (defaults or {}).items()]
        changes += [SetNotNull(name, is_set) for name, is_set in (not_null or {}).items()]
        changes += [AddCheck(Check(name, text)) for name, text in (checks or {}).items() if text is not None]
        changes += [SetComment(name, text) for name, text in (comments or {}).items()]
        changes += [] if comment is None else [SetComment(None, comment)]
        changes += [] if unique_keys is None else [SetUniqueKeys(unique_keys)]
        report = configuring.alter(self._opened, changes, dry_run=dry_run, message=message)
        publish_after(self._opened, report.snapshot)
        return report

    # Maintain the table.

    @checked
    def maintain(self, *, dry_run: bool = False) -> MaintenanceReport:
        """Do what is due now: splitting, compaction as the strategy proposes, a savepoint, expiry, garbage collection.

        Last, periodic savepoints that are too old or too many are deleted.

        A step that fails does not stop the others; the report shows it, and its `failed` has the errors. Each step uses
        the table's properties. Leaves that one run splits are compacted by the next.

        Parameters
        ----------
        dry_run
            Only return what would be done.
        """
        return maintain(self._opened, dry_run=dry_run)

    # Look at the table in a notebook.

    @checked
    def explore(self, version: int | str | None = None) -> Explorer:
        """Return a widget that shows the table at any of its versions: rows, changes, schema, partitions, SQL.

        Parameters
        ----------
        version
            What it begins with, as in `at`; the newest version when None.

        Raises
        ------
        NotFound
            When there is no such version.
        EngineError
            When a package of the widget is not installed.
        """
        explorer: Explorer = self._opened.components.explore(self.name, version, "rows")
        return explorer

    def timeline(self) -> Explorer:
        """Return the widget of `explore`, opened on what changed between the last two versions."""
        explorer: Explorer = self._opened.components.explore(self.name, None, "changes")
        return explorer


class TableInspect(Inspect):
    """Lists what a table's current version has, its jobs and its readers; made by `Table.inspect`."""

    def __init__(self, table: OpenTable) -> None:
        self._opened = table

    def _at(self) -> TableAt:
        return current_version(self._opened)

    def files(self) -> Pictured[dict[str, Any]]:
        """Return the files that the current version reads, as `Inspect.files` does."""
        catalog, table_id, now = self._opened.store.catalog, self._opened.entry.id, self._opened.store.clock.now()
        # A compaction that commits in between would leave its old inputs without the claim on them.
        at, claims = read_consistently(self._at, lambda: catalog.claims(table_id, now))
        return self._files(at, claims)

    @checked
    def jobs(self, which: Which = "all", *, limit: int = LISTED_JOBS) -> Listing[Job]:
        """Return the newest runs of the table's jobs, newest first: compactions, bulk imports, ingests with a job id.

        Parameters
        ----------
        which
            ``"all"``, ``"running"``, or ``"failed"``: those that failed, and those whose process is gone.
        limit
            The most runs to return. Records are kept for 7 days.
        """
        catalog, now = self._opened.store.catalog, self._opened.store.clock.now()
        pairs = [(self._opened.entry, run) for run in jobs_of(catalog, self._opened.entry.id, which, limit, now)]
        return list_jobs(f"jobs of {self._opened.name}", pairs, now, with_table=False)

    def versions(self) -> RetainedVersions:
        """Return the snapshots and the savepoints that can be read, of one moment."""
        return retained(self._opened.store.catalog, self._opened.entry.id)

    def has_changed(self) -> bool:
        """Return whether the table was renamed, dropped, paused, or got other properties since it was opened.

        This costs one request to the catalog.
        """
        opened = self._opened.entry
        now = self._opened.store.catalog.entry(opened.id)
        return now is None or now != opened or now.properties_checksum != opened.properties_checksum

    def status(self) -> TableStatus:
        """Return the table's state, what is due, and what to do next. Nothing is changed, and Spark is not started."""
        current = table_status(self._opened.store, self._opened.name, Housekeeping.of(self._opened.properties))
        notes = configuring.property_notes(self._opened, self._opened.store.load(current.snapshot))
        return with_published(self._opened, replace(current, notes=notes))

    def leases(self) -> Listing[Lease]:
        """Return the versions that long readers hold, oldest first; garbage collection keeps their files."""
        held, now = self._opened.store.catalog.leases(self._opened.entry.id), self._opened.store.clock.now()
        cells = tuple((e.id, e.snapshot_id, e.purpose, e.author, e.since, e.until, e.has_ended(now)) for e in held)
        columns = ("lease", "snapshot", "reader", "who", "since", "until", "ended")
        return Listing(held, columns, cells, f"leases of {self._opened.name}")


def _reference(
    version: int | str | VersionReference | None, timestamp: datetime | str | None
) -> VersionReference | None:
    if version is not None and timestamp is not None:
        raise InvalidInput("a version and a timestamp were given", hint="give one of them")
    if timestamp is not None:
        return parse_moment(timestamp)
    return parse_reference(version) if isinstance(version, int | str) else version


def _history(table: OpenTable, limit: int | None) -> Pictured[Snapshot]:
    """Return the retained snapshots, newest first, below a timeline of them and of the savepoints.

    Where one of them changed rows, three columns say how many were inserted, updated and deleted; where the table had
    expectations, one says how many of the rows that came break which.
    """
    versions = retained(table.components.catalog, table.entry.id)
    shown, total = versions.snapshots[:limit], len(versions.snapshots)
    saved = savepoints_by_snapshot(versions.savepoints)
    has_changes = any(s.inserted_rows is not None for s in shown)
    has_expectations = any(s.expectations is not None for s in shown)
    cells = tuple(
        (s.id, s.time, s.operation, s.message, s.added_rows, s.rows,
         *((s.inserted_rows, s.updated_rows, s.deleted_rows) if has_changes else ()),
         ", ".join(savepoint_label(point) for point in saved.get(s.id, ())),
         *((_judged(s),) if has_expectations else ()), s.added_files, s.removed_files, s.files, s.references)
        for s in shown
    )  # fmt: skip
    columns = ("snapshot", "time", "operation", "message", "+rows", "rows",
               *(("inserted", "updated", "deleted") if has_changes else ()), "savepoint",
               *(("expectations",) if has_expectations else ()), "+files", "−files", "files", "references")  # fmt: skip
    footer = f"the newest {len(shown):,} of {total:,} snapshots" if len(shown) < total else ""
    listing = Listing(shown, columns, cells, f"history of {table.name}", footer)
    picture = timeline(versions.snapshots, versions.savepoints, name=table.name)
    lines = timeline_lines(versions.snapshots, versions.savepoints, name=table.name)
    return Pictured(listing, picture, lines)


def _judged(snapshot: Snapshot) -> str:
    """Return which expectations the rows of a commit break; "met" when none, "" when there were none."""
    return "" if snapshot.expectations is None else counts_line(snapshot.broken_expectations) or "met"
