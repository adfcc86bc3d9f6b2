"""Change the rows of a table: on the newest version, in one commit, or as a dry run; or delete rows for good."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from sleeper_nb.catalog.catalog_base import check_online
from sleeper_nb.edit.apply_edits import EditSettings
from sleeper_nb.edit.edit_list import EditList
from sleeper_nb.edit.purge import PurgeOfRows, PurgeReport
from sleeper_nb.edit.row_edit import (
    DeleteRows,
    InsertRows,
    MergeRows,
    MergeSource,
    OverwriteRows,
    ReplacedAll,
    ReplacedByColumns,
    ReplacedRegions,
    RowEdit,
    UpdateRows,
    conditions_of,
)
from sleeper_nb.edit.row_editor import ChangeReport, RowEditor
from sleeper_nb.engines.components import OpenTable
from sleeper_nb.errors import Action, ConfirmationNeeded, InvalidInput
from sleeper_nb.load.conform import no_place
from sleeper_nb.load.row_checks import NOT_JUDGED, JudgedRows, opened_checks
from sleeper_nb.model.jobs import DoneBefore, check_job_id
from sleeper_nb.model.load_hints import Conversion, for_change, for_table, name_table_in_hints
from sleeper_nb.model.partitions import Range
from sleeper_nb.model.properties import CHANGE_ISOLATION, SAVEPOINT_INTERVAL
from sleeper_nb.model.sql_values import Slice
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import EditCounts
from sleeper_nb.progress import finishing
from sleeper_nb.query.inserted_rows import inserted_rows
from sleeper_nb.query.queries import Queries
from sleeper_nb.read import job_tracking
from sleeper_nb.report import counted, notes_line
from sleeper_nb.sql.binding import BoundSource
from sleeper_nb.sql.found_rows import SOURCE_ROW, source_rows
from sleeper_nb.sql.grammar import literals_in, names_in
from sleeper_nb.sql.statement import SqlText
from sleeper_nb.table.edit_finder import EditFinder, SearchedVersion
from sleeper_nb.table.publishing import note_after, note_after_all
from sleeper_nb.versions.leases import ReadGuard
from sleeper_nb.versions.periodic_savepoints import save_after

_OPERATIONS: Final[Mapping[type, str]] = {
    DeleteRows: "delete", UpdateRows: "update", MergeRows: "merge", OverwriteRows: "overwrite",
}  # fmt: skip
"""What history calls a statement that changes rows."""


SourceRows = tuple[pa.Table, tuple[BoundSource, ...]]
"""The rows of a change's source, and the tables that they were read from."""


@contextmanager
def hints_of_change(table: str, conversion: Conversion | None) -> Iterator[None]:
    """Make the hint of an error about values say what a change of rows of a table takes, not what a load does."""
    try:
        yield
    except InvalidInput as error:
        error.hint = for_table(for_change(error.hint_parts, conversion), table)
        raise


@dataclass(slots=True, eq=False)
class Source:
    """The source of a merge, or the new rows of an overwrite: read once, however often the change is computed.

    Rows that come from the table itself are read from each version on which the change is computed: with those of an
    older version it would undo what others committed in between.
    """

    change: RowEdit
    _read: SourceRows | None = None

    def on(self, version: SearchedVersion) -> SourceRows:
        """Return the rows for a change of a version; none for a change without new rows."""
        if self._read is not None:
            return self._read
        rows, read_from = self._rows(version)
        if all(version.read_in(each) is None for each in read_from):
            self._read = rows, read_from
        return rows, read_from

    def _rows(self, version: SearchedVersion) -> SourceRows:
        match self.change:
            case MergeRows(source=MergeSource(pa.Table() as rows)) | OverwriteRows(rows=pa.Table() as rows):
                return rows, ()
            case MergeRows(source=MergeSource(Slice() as relation), named_queries=named):
                result = version.queries().run(source_rows(relation, named))
                return result.to_arrow(), result.sources
            case OverwriteRows(rows=InsertRows() as insert):
                text, table = SqlText(insert.written.text), version.table.name
                result, names = inserted_rows(insert, text, table, version.schema, version.queries())
                return result.to_arrow().rename_columns(list(names)), result.sources
            case _:
                return pa.table({}), ()


@dataclass(frozen=True, slots=True, eq=False)
class BoundEdit:
    """An edit of rows of one table, ready to run.

    History calls it by its `operation`: ``delete``, ``update``, ``upsert``, ``merge`` or ``overwrite``. `remarks` are
    what its report says of the source, besides counts; `conversion` says in hints how a value gets another type.
    """

    table: OpenTable
    operation: str
    change: RowEdit
    queries: Queries
    remarks: tuple[str, ...] = ()
    conversion: Conversion = "statement"

    def run(self, *, dry_run: bool, force: bool, message: str | None = None, job_id: str | None = None) -> ChangeReport:
        """Change the rows, or return what would be changed.

        `ConfirmationNeeded`, with the plan, when there is no condition, or one that names no column of the table and
        reaches all rows, and neither `dry_run` nor `force` is given. After any error nothing was changed.
        """
        with name_table_in_hints(self.table.name):
            return self._run(dry_run=dry_run, force=force, message=message, job_id=job_id)

    def _run(self, *, dry_run: bool, force: bool, message: str | None, job_id: str | None) -> ChangeReport:
        if dry_run:
            made = None if job_id is None else job_tracking.done_before(self.table.store, check_job_id(job_id))
            return self._rows_changed().plan() if made is None else replace(self._done_before(made), dry_run=True)
        author = self.table.components.author
        if job_id is None:
            report = self._rows_changed().run(message=message, author=author, confirmed=force)
        else:
            report = self._once(job_id, message, confirmed=force)
        return self._saved(report)

    @classmethod
    def of(cls, table: OpenTable, change: RowEdit, queries: Queries) -> BoundEdit:
        return cls(table, _OPERATIONS[type(change)], change, queries)

    @property
    def _is_about_all_rows(self) -> bool:
        match self.change:
            case DeleteRows(_, condition) | UpdateRows(_, _, condition):
                return condition is None
            case OverwriteRows(replaced=replaced):
                return isinstance(replaced, ReplacedAll)
            case _:
                return False

    def _changes_all(self, edits: EditList, rows: int) -> bool:
        """Return whether a change takes away or updates all rows of a version by conditions that name no column of it.

        Such a condition, for example ``1 = 1``, means what no condition means. One that names a column and that all
        rows meet is not confirmed: a program would stop because of its data.
        """
        if not 0 < edits.counts.deleted + edits.counts.updated == rows:
            return False
        match self.change:
            case OverwriteRows(replaced=ReplacedRegions(regions)):
                return all(each == Range() for region in regions for each in region.ranges)
            case OverwriteRows(replaced=ReplacedByColumns()) | MergeRows(condition=None):
                return False
            case change:
                names = frozenset[str]().union(*map(names_in, conditions_of(change)))
                return names.isdisjoint(map(str.casefold, edits.rows.column_names))

    def _rows_changed(self) -> RowEditor:
        settings, progress = EditSettings.of(self.table.properties), self.table.components.progress
        find = partial(self._find, Source(self.change))
        return RowEditor(
            self.operation, self.table.name, self.table.store, settings, find, self._held, progress, self.remarks
        )

    @contextmanager
    def _held(self, state: TableState) -> Iterator[None]:
        leases, size = self.table.components.leases, state.totals().bytes
        guard = ReadGuard(leases, self.table.store.table_id, state.snapshot_id, False, size, self.table.name)  # noqa: FBT003
        with guard.during(self.operation):
            yield

    def _find(self, source: Source, state: TableState) -> EditList:
        version = SearchedVersion(self.table, state, self.queries)
        version.check_unprocessed()
        with hints_of_change(self.table.name, self.conversion):
            rows, read_from = source.on(version)
            edits = EditFinder(self.change, version, self._fitting(rows, version)).find()
        is_of_snapshot = self.table.properties[CHANGE_ISOLATION] == "snapshot"
        return replace(
            edits,
            watched=(*edits.watched, *version.watched_in(read_from)),
            judged=self._judged(edits.rows, state),
            ignores_added=is_of_snapshot and isinstance(self.change, DeleteRows | UpdateRows),
            is_about_all_rows=self._is_about_all_rows or self._changes_all(edits, state.totals().rows),
        )

    def _judged(self, rows: pa.Table, state: TableState) -> JudgedRows:
        """Return how many of the rows that come break each expectation; nothing when none comes."""
        if not (rows.num_rows and self.table.properties.expectations):
            return NOT_JUDGED
        with opened_checks(self.table.load_checks(state.schema)) as checks:
            return checks.judged(rows, no_place)

    def purge(self, *, dry_run: bool, force: bool, message: str | None) -> PurgeReport:
        """Delete rows, and all versions, savepoints and files that have them; or return what would be deleted.

        `ConfirmationNeeded`, with the plan, when versions, savepoints or all rows would go, without `dry_run` or
        `force`.
        """
        table, rows = self.table, self._purge
        if not dry_run:
            check_online(table.components.catalog, table.entry, "purging")
        with finishing(table.components.progress):
            if not dry_run:
                rows.check_links()
            if not dry_run and force:
                return self._purged(rows, message)
            plan = rows.plan()
            if dry_run:
                return plan
            if not plan.needs_confirmation:
                return self._purged(rows, message)
        raise ConfirmationNeeded(
            f"this deletes {counted(plan.deleted, 'row')} of table {table.name!r} for good, with "
            f"{counted(len(plan.expired), 'snapshot')} and {counted(len(plan.savepoints), 'savepoint')}",
            hint=(
                Action("--force", "force=True"),
                " does it; ",
                Action("--dry-run", "dry_run=True"),
                " shows the plan",
            ),
            plan=plan,
        )

    def _purged(self, rows: PurgeOfRows, message: str | None) -> PurgeReport:
        report = rows.run(message=message, author=self.table.components.author)
        return replace(report, note=note_after_all(self.table)) if report.unpublished else report

    @property
    def _purge(self) -> PurgeOfRows:
        change, values = self.change, {str(each) for each in self.queries.parameters.values()}
        if isinstance(change, DeleteRows) and change.condition is not None:
            values |= literals_in(change.condition)
        return PurgeOfRows(self._rows_changed(), self._files_with_rows, frozenset(values), self.table.properties.texts)

    def _files_with_rows(self, state: TableState, searched: TableState) -> frozenset[str]:
        """Return the data files with rows that a deletion is about; what its condition reads besides is of `state`."""
        version = SearchedVersion(self.table, state, self.queries, searched)
        return frozenset(EditFinder(self.change, version, pa.table({})).find().removed)

    def _fitting(self, rows: pa.Table, version: SearchedVersion) -> pa.Table:
        if isinstance(self.change, OverwriteRows):
            return version.fitted(rows)
        return rows.append_column(SOURCE_ROW, pa.array(np.arange(rows.num_rows), pa.int64()))

    # What follows a change.

    def _once(self, job_id: str, message: str | None, *, confirmed: bool) -> ChangeReport:
        check_job_id(job_id)
        store, author = self.table.store, self.table.components.author

        def change() -> ChangeReport:
            return self._rows_changed().run(message=message, author=author, job_id=job_id, confirmed=confirmed)

        made = job_tracking.add_once(
            store, job_id, lambda: job_tracking.run_tracked(store, "change", job_id, author, change)
        )
        return self._done_before(made) if isinstance(made, DoneBefore) else made

    def _done_before(self, done: DoneBefore) -> ChangeReport:
        made = done.snapshot
        counts = EditCounts(made.inserted_rows or 0, made.updated_rows or 0, made.deleted_rows or 0)
        table, note = self.table.name, done.note
        return ChangeReport(self.operation, table, snapshot=made, since=made.id, counts=counts, note=note)

    def _saved(self, report: ChangeReport) -> ChangeReport:
        self.table.components.progress.finish("")
        if report.snapshot is None or report.note:
            return report
        interval, author = self.table.properties[SAVEPOINT_INTERVAL], self.table.components.author
        saved = save_after(self.table.store, report.snapshot, interval, author)
        note = note_after(self.table, report.snapshot, saved.savepoint)
        return replace(report, note=notes_line(saved.note, note))
