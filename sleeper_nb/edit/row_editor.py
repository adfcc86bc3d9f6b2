"""Change rows in one commit: find them on the newest version, write, commit; again when somebody else was faster.

A change is computed on one version. If others commit meanwhile, it may still be committed, as `EditRows` says;
otherwise what was written is deleted, and the change is computed again on the newest version, a bounded number of
times. Its source was read once before, so it does not change between attempts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.edit.apply_edits import EditSettings, EditsWriter
from sleeper_nb.edit.edit_list import EditList, Held, PlannedRows
from sleeper_nb.errors import (
    UNCHANGED_FIRST,
    Action,
    ConfirmationNeeded,
    ConflictError,
    InvalidInput,
    NetworkError,
    NotFound,
    OutcomeUnknown,
    StateRuleBroken,
    StorageError,
)
from sleeper_nb.load.ingest import check_still_fits, discard_files
from sleeper_nb.load.row_checks import UniqueKeysOfLoad
from sleeper_nb.model.file_reference import key_ranges
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import EditCounts, EditRows
from sleeper_nb.progress import Progress
from sleeper_nb.read.request_estimate import CommitCosts, RequestEstimate
from sleeper_nb.report import Bytes, Grid, Report, TableReport, counted, duration_text, notes_line, nothing_done
from sleeper_nb.state_store.state_store_base import StateStore

logger = logging.getLogger(__name__)

ATTEMPTS = 10
"""How often a change is computed before `ConflictError` is raised."""

_VERBS = {"delete": "delete", "update": "update", "merge": "delete", "overwrite": "replace"}
"""What changes that are confirmed do to all rows."""

Find = Callable[[TableState], EditList]
"""Finds the rows of a version that a change is about."""


@dataclass(frozen=True, slots=True, repr=False)
class ChangeReport(TableReport):
    """What a change of rows did; of a dry run, what it would do.

    Parameters
    ----------
    operation, table
        ``delete``, ``update``, ``upsert``, ``merge`` or ``overwrite``, and the table's name.
    snapshot
        The version that the change made; None of a dry run, and when no row was changed.
    since
        The snapshot on which the rows were found.
    counts
        How many rows were inserted, updated and deleted.
    source_rows, matched
        The rows of the source, and how many of them match a row of the table; None for a change without one, and
        `matched` of an overwrite.
    files, bytes
        The data files that have rows which go, and their bytes.
    leaves
        The leaf partitions with rows that go or come.
    files_written, bytes_written
        The data files and deletion vectors that were written; None of a dry run.
    vectors
        How many of these are deletion vectors; None of a dry run.
    seconds
        How long it took.
    dry_run
        Whether nothing was changed.
    note
        What else happened, for users.
    is_about_all_rows
        Whether it has no condition, or one that names no column of the table and that all rows meet: it needs a
        confirmation.
    found
        What users should know of the rows that were found: by which columns rows match.
    again
        How to do what was planned: the whole line, where a command made the plan.
    planned
        Of a dry run, the rows that it found, for `changed_rows`.
    requests
        Of a dry run in S3: about what the change would ask.
    """

    operation: str
    table: str
    snapshot: Snapshot | None
    since: int
    counts: EditCounts
    source_rows: int | None = None
    matched: int | None = None
    files: int = 0
    bytes: int = 0
    leaves: int = 0
    files_written: int | None = None
    bytes_written: int | None = None
    vectors: int | None = None
    seconds: float = 0.0
    dry_run: bool = False
    note: str = ""
    is_about_all_rows: bool = False
    found: str = ""
    again: str = ""
    prefix: str = ""
    planned: PlannedRows | None = field(default=None, compare=False)
    requests: RequestEstimate | None = None

    @property
    def inserted(self) -> int:
        """Rows that were inserted."""
        return self.counts.inserted

    @property
    def updated(self) -> int:
        """Rows that were updated; each counts once."""
        return self.counts.updated

    @property
    def deleted(self) -> int:
        """Rows that were deleted."""
        return self.counts.deleted

    @property
    def needs_confirmation(self) -> bool:
        """Whether it is done only with ``force=True``."""
        return self.is_about_all_rows

    def changed_rows(self) -> pa.Table:
        """Read the rows that a dry run would change, in key order, each with its kind in a first column.

        The kinds are those of `Changes.rows` with images: ``"removed"``, ``"added"``, ``"update_preimage"`` and
        ``"update_postimage"``. The column is ``change``; ``_change`` in a table that has such a column.

        Raises
        ------
        InvalidInput
            When this is no dry run: `Table.changes` compares the versions before and after a change.
        NotFound
            When the version's files were deleted meanwhile.
        """
        if self.planned is not None:
            return self.planned.read()
        hint = "nothing was changed"
        if self.snapshot is not None:
            hint = f"table.changes({self.since}, {self.snapshot.id}, images=True).rows() has its rows"
        raise InvalidInput(f"this {self.operation} is no dry run", hint=hint)

    def to_dict(self) -> dict[str, Any]:
        """Return the report's fields as a new dictionary; without the rows that a dry run found."""
        found = Report.to_dict(self)
        del found["planned"]
        return found

    def cells(self) -> tuple[tuple[str, ...], tuple[tuple[object, ...], ...]]:
        """Return one row with the counts."""
        columns = ["table", "operation", "inserted", "updated", "deleted", "files", "bytes"]
        row: list[object] = [self.table, self.operation, self.inserted, self.updated, self.deleted, self.files]
        row.append(Bytes(self.bytes))
        if self.source_rows is not None:
            columns.insert(2, "source rows")
            row.insert(2, self.source_rows)
        if self.files_written is not None:
            columns += ["files written", "bytes written"]
            row += [self.files_written, Bytes(self.bytes_written or 0)]
        if self.snapshot is not None:
            columns += ["snapshot", "rows"]
            row += [self.snapshot.id, self.snapshot.rows]
        return tuple(columns), (tuple(row),)

    def grid(self) -> Grid:
        """Return the counts, and what was written."""
        columns, rows = self.cells()
        if self.note and self.files_written is None:
            return Grid(columns, rows, footer=self.note)
        if self.dry_run:
            footer = "\n".join(filter(None, (self.found, self._requests, self._next_step)))
            return Grid(columns, rows, self._title, footer, self._result)
        if self.snapshot is None:
            nothing = f"no row to change: the table stays at snapshot {self.since}"
            return Grid(columns, rows, footer=notes_line(self.found, nothing), result=self._result)
        vectors = f"{counted(self.vectors or 0, 'deletion vector')}" if self.vectors else ""
        footer = notes_line(self.found, vectors, duration_text(self.seconds), self.note)
        return Grid(columns, rows, footer=footer, result=self._result)

    @property
    def _result(self) -> str:
        """The counts in one sentence: ``delete from flights: 47 rows deleted in 1 file, snapshot 18``."""
        would = "would be " if self.dry_run else ""
        done = ", ".join(f"{count:,} {would}{verb}" for verb, count in asdict(self.counts).items() if count) or "no row"
        made = f", snapshot {self.snapshot.id:,}" if self.snapshot else ""
        return f"{self.operation} of {self.table}: {done} in {counted(self.files, 'file')}{made}"

    @property
    def _title(self) -> str:
        return f"{self.operation}: what would change in snapshot {self.since}"

    @property
    def _requests(self) -> str:
        return "" if self.requests is None else str(self.requests)

    @property
    def _next_step(self) -> str:
        if not (self.inserted or self.updated or self.deleted):
            return "no row to change"
        in_python = "force=True" if self.is_about_all_rows else "the same without dry_run=True"
        return nothing_done(Action(self.again, in_python), self.prefix)


@dataclass(frozen=True, slots=True)
class RowEditor:
    """A change of rows of one table.

    `held` protects a version's files while they are read; `remarks` are what users should know of the source: by which
    columns its rows match, what was left out.
    """

    operation: str
    table: str
    store: StateStore
    settings: EditSettings
    find: Find
    held: Held
    progress: Progress
    remarks: tuple[str, ...] = ()

    def plan(self) -> ChangeReport:
        """Return what the change would do to the newest version; nothing is written.

        Raises
        ------
        ConflictError
            When the files of the newest version were deleted during each attempt.
        """
        return self._repeated(self.plan_on)

    def plan_on(self, state: TableState) -> ChangeReport:
        """Return what the change would do to a version; nothing is written."""
        return self._plan(state, self.find(state))

    def _plan(self, state: TableState, edits: EditList) -> ChangeReport:
        report, costs = self._report(state, edits), CommitCosts.of(self.store, state)
        leaves = len(EditsWriter(self.store, state, self.settings).leaves(edits))
        return replace(
            report,
            dry_run=True,
            leaves=leaves,
            requests=None if costs is None else costs.change(report.files, leaves if edits.rows.num_rows else 0),
            planned=PlannedRows(edits, state, self.store.storage, self.held),
        )

    def run(
        self,
        *,
        message: str | None = None,
        author: str | None = None,
        job_id: str | None = None,
        confirmed: bool = True,
    ) -> ChangeReport:
        """Change the rows in one commit.

        Raises
        ------
        ConfirmationNeeded
            When the rows found are all rows, by no condition on them, and it is not `confirmed`; it has the plan.
        ConflictError
            When other writers changed the same rows during each attempt; nothing was changed.
        JobDone
            When the job has changed the table before.
        """

        def attempt(state: TableState) -> ChangeReport | None:
            self.progress.update("finding rows")
            edits = self.find(state)
            if edits.is_about_all_rows and not confirmed:
                raise self._unconfirmed(self._plan(state, edits))
            return self._report(state, edits) if edits.is_empty else self._try(state, edits, message, author, job_id)

        return self._repeated(attempt)

    def _repeated(self, attempt: Callable[[TableState], ChangeReport | None]) -> ChangeReport:
        """Return what an attempt on the newest version gives; again when it gives None."""
        began = self.store.clock.now()
        for number in range(ATTEMPTS):
            if number:
                self.store.retry.wait(self.store.clock, number - 1)
            report = self._attempted(self.store.load(), attempt)
            if report is not None:
                return replace(report, seconds=(self.store.clock.now() - began).total_seconds())
        raise ConflictError(
            f"other writers changed rows of table {self.table!r} during each of {ATTEMPTS} attempts",
            hint=(UNCHANGED_FIRST, "run it again when fewer writers change the table"),
        )

    def _attempted(
        self, state: TableState, attempt: Callable[[TableState], ChangeReport | None]
    ) -> ChangeReport | None:
        """Return what an attempt on a version gives; None when others took a file of the version away meanwhile."""
        try:
            with self.held(state):
                return attempt(state)
        except (OutcomeUnknown, NetworkError):
            raise
        except (NotFound, StorageError) as error:
            if not self.store.catalog.has_table(self.store.table_id) or self.store.head().id == state.snapshot_id:
                raise
            logger.info("table %s: %s is computed again: %s", self.store.table_id, self.operation, error.message)
            return None

    def _try(
        self, state: TableState, edits: EditList, message: str | None, author: str | None, job_id: str | None
    ) -> ChangeReport | None:
        """Write and commit; return None when others were faster, and nothing is left."""
        writer = EditsWriter(self.store, state, self.settings)
        try:
            self.progress.update("writing")
            change = writer.change(self.operation, edits)
            checked = _ValidatedEdit(change, state, edits.watched, UniqueKeysOfLoad.of(self.store, change))
            try:
                snapshot = self.store.commit(
                    checked.after, message=message, author=author, job_id=job_id, expectations=edits.judged.text
                )
            except StateRuleBroken as error:
                logger.info("table %s: %s is computed again: %s", self.store.table_id, self.operation, error.message)
                discard_files(self.store, writer.written)
                return None
        except OutcomeUnknown:
            raise  # the commit may have won: the files must stay
        except BaseException:
            discard_files(self.store, writer.written)
            raise
        return self._report(state, edits, change, snapshot)

    def _report(
        self, state: TableState, edits: EditList, change: EditRows | None = None, snapshot: Snapshot | None = None
    ) -> ChangeReport:
        active, names = state.files.active, pa.array(list(edits.touched), pa.string())
        found = active.filter(pc.is_in(active["filename"], value_set=names))
        touched = dict(zip(found["filename"].to_pylist(), found["bytes"].to_pylist(), strict=True))
        report = ChangeReport(
            operation=self.operation,
            table=self.table,
            snapshot=snapshot,
            since=state.snapshot_id,
            counts=edits.counts,
            source_rows=edits.source_rows,
            matched=edits.matched,
            files=len(touched),
            bytes=sum(touched.values()),
            is_about_all_rows=edits.is_about_all_rows,
            found=self._found(edits),
        )
        if change is None:
            return report
        files = _written(change)
        leaves = {each.partition_id for each in change.replaced} | {each.partition_id for each in change.references}
        vectors = sum(each.deletions is not None for each in change.references)
        return replace(
            report, leaves=len(leaves), files_written=len(files), bytes_written=sum(files.values()), vectors=vectors
        )

    def _unconfirmed(self, plan: ChangeReport) -> ConfirmationNeeded:
        gone = plan.updated + plan.deleted
        rows = "the only row" if gone == 1 else f"all {gone:,} rows"
        return ConfirmationNeeded(
            f"{self.operation} would {_VERBS[self.operation]} {rows} of table {self.table!r}",
            hint=("add a condition on its columns, or confirm: ", Action("--force", "force=True")),
            plan=plan,
        )

    def _found(self, edits: EditList) -> str:
        """Return what users should know of the rows that were found."""
        several = ""
        if self.operation == "upsert" and edits.with_several:
            each = "matched several rows; each of them now has its values"
            if edits.with_several > 1:
                each = "matched several rows each; those now have its values"
            several = f"{counted(edits.with_several, 'source row')} {each}"
        everything = "these are all rows of the table" if edits.is_about_all_rows and edits.removed else ""
        matched = ""
        if self.operation == "merge" and edits.matched is not None:
            matched = f"{edits.matched:,} of {counted(edits.source_rows or 0, 'row')} of the source matched"
        return notes_line(everything, *self.remarks, matched, several, *edits.judged.notes)


def _written(change: EditRows) -> dict[str, int]:
    """Return the files that a change wrote, and their bytes."""
    kept = {each.filename for each in change.replaced}
    files = {each.filename: each.bytes for each in change.references if each.filename not in kept}
    return files | {
        each.deletions.filename: each.deletions.bytes for each in change.references if each.deletions is not None
    }


@dataclass(frozen=True, slots=True, eq=False)
class _ValidatedEdit:
    """A change that was computed on a version, and what must hold in each version that it may follow.

    It depends on which rows there are in the regions `watched`.
    """

    change: EditRows
    since: TableState
    watched: tuple[Region, ...]
    unique: UniqueKeysOfLoad

    def after(self, newest: TableState) -> EditRows:
        """Return the change; `StateRuleBroken` to compute it again, `InvalidInput` for a repeated unique key."""
        if newest.snapshot_id != self.since.snapshot_id:
            check_still_fits(self.since.schema, newest.schema)
            if newest.processing != self.since.processing:
                raise StateRuleBroken("the table's rows came to be processed otherwise meanwhile", hint="run it again")
            self._check_nothing_left(newest)
        self.unique.check(newest)
        return self.change

    def _check_nothing_left(self, newest: TableState) -> None:
        """Raise when others took rows away that the change has seen: it may have left rows out because of them.

        That rows came is checked by the change itself, in every version.
        """
        if not self.watched:
            return
        gone, _ = self.since.files.unshared(newest.files)
        for name, least, greatest in key_ranges(gone):
            if any(region.overlaps(least, greatest) for region in self.watched):
                raise StateRuleBroken(f"rows of {name} were taken away meanwhile", hint="run it again")
