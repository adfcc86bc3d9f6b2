"""What a load did, and what it would do: the answers of `ingest`, `bulk_import` and `add_files`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from sleeper_nb.errors import Action, Hint, hint_text
from sleeper_nb.load.conform import Difference
from sleeper_nb.model.jobs import DoneBefore
from sleeper_nb.model.load_hints import QUARANTINE
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.read.request_estimate import RequestEstimate
from sleeper_nb.report import Bytes, Grid, Report, TableReport, counted

LEAF_COLUMNS: Final = ("keys", "partition", "rows")
_DIFFERENCE_COLUMNS: Final = ("column", "what is wrong", "values", "example", "first at", "what to change")


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class LoadReport(TableReport):
    """What a load did; of a dry run, what it would do.

    Parameters
    ----------
    snapshot_id
        The version that has the rows; the current one when none was added, and of a dry run.
    snapshot
        The version that the load made, or that an earlier run of its job made; None of a dry run, and when no row was
        added.
    rows
        The rows that the load added; of a dry run, the rows that it would add.
    plan
        Of a dry run, what would be done: leaves and files, and what does not fit.
    done_before
        What became of a job with the same id, after which the load added nothing; "" if there was none.
    kept_back
        The number of rows that were kept back.
    quarantine
        The file that has them; None when there are none.
    savepoint
        The savepoint that was due after the load.
    notes
        What else happened, for users.
    runs
        What became of the sorted runs of a bulk load that was not to merge them; "" for other loads.
    to_merge
        What merges the files that such a load added; None where there is nothing to merge.
    """

    snapshot_id: int
    snapshot: Snapshot | None = None
    rows: int = 0
    plan: IngestPlan | AddFilesPlan | None = None
    done_before: str = ""
    kept_back: int = 0
    quarantine: str | None = None
    savepoint: Savepoint | None = None
    notes: tuple[str, ...] = ()
    runs: str = ""
    to_merge: Action | None = None
    prefix: str = ""

    @classmethod
    def of(cls, snapshot: Snapshot) -> LoadReport:
        """Return the report of a load that made a snapshot."""
        return cls(snapshot_id=snapshot.id, snapshot=snapshot, rows=snapshot.added_rows)

    @classmethod
    def of_no_rows(cls, current: Snapshot) -> LoadReport:
        """Return the report of a load that had no rows to add."""
        return cls(snapshot_id=current.id)

    @classmethod
    def of_done(cls, done: DoneBefore) -> LoadReport:
        """Return the report of a load whose job was done before."""
        return cls(snapshot_id=done.snapshot.id, snapshot=done.snapshot, done_before=done.note)

    @classmethod
    def of_plan(cls, plan: IngestPlan | AddFilesPlan, done: DoneBefore | None) -> LoadReport:
        """Return the report of a dry run, which says so when its job was done before."""
        report = cls(snapshot_id=plan.snapshot_id, plan=plan, notes=plan.notes)
        if done is not None:
            return replace(report, done_before=done.note)
        if isinstance(plan, IngestPlan) and plan.quarantine:
            report = replace(report, kept_back=plan.kept_back, quarantine=plan.quarantine)
        return replace(report, rows=0 if plan.is_refused else plan.rows)

    @property
    def dry_run(self) -> bool:
        """Whether nothing was changed."""
        return self.plan is not None

    @property
    def has_added(self) -> bool:
        """Whether the load made a version."""
        return self.snapshot is not None and not self.done_before

    def noted(self, *notes: str) -> LoadReport:
        """Return the report with more notes, without those that are empty."""
        return replace(self, notes=(*self.notes, *filter(None, notes)))

    def grid(self) -> Grid:
        """Return the version as a card, with the notes that its message lacks; of a dry run, the plan."""
        if self.plan is not None:
            return self._planned(self.plan)
        if self.snapshot is None:
            nothing = f"no rows to add: the table stays at snapshot {self.snapshot_id:,}"
            return Grid((), (), footer="\n".join((nothing, *self.notes)))
        card = self.snapshot.grid()
        if self.done_before:
            return replace(card, title=self.done_before)
        lines = (line for note in self.notes for line in note.splitlines())
        notes = [line for line in lines if line not in (self.snapshot.message or "")]
        runs = self.runs if self.to_merge is None else f"{self.runs}: {self.to_merge.text(self.prefix)}"
        return replace(card, footer="\n".join(filter(None, (*notes, runs))))

    def _planned(self, plan: IngestPlan | AddFilesPlan) -> Grid:
        if self.done_before:
            return Grid(LEAF_COLUMNS, (), f"{plan.operation}: would add nothing", self.done_before)
        return replace(plan, prefix=self.prefix, notes=self.notes).grid()


@dataclass(frozen=True, slots=True)
class LeafRows:
    """The number of rows that one leaf gets; `region` describes its keys as text."""

    partition_id: str
    region: str
    rows: int


@dataclass(frozen=True, slots=True, repr=False)
class IngestPlan(Report):
    """What an ingest would do.

    Parameters
    ----------
    snapshot_id
        The version that the plan is based on.
    rows
        Rows in the data.
    leaves
        The leaves that would get rows, in key order; empty when there are differences.
    files
        Number of data files that would be written.
    files_are_most
        Whether there may be fewer files: each sorted run becomes files of the leaves that it has rows of.
    through_spark
        Whether Spark would write the files; if False, this process would.
    strategy
        ``one_file_per_leaf`` or ``one_reference_per_leaf``.
    differences
        Every way in which the data does not fit the table. A run would raise the first and add nothing.
    notes
        What would change although every value fits: NaN in pandas becomes NULL, and columns without data are NULL.
    kept_back
        The number of rows that would be kept back, with `quarantine`.
    reasons
        What is wrong with them, for each column.
    quarantine
        The file that would have them.
    takes_options
        Whether it is of a load that takes `quarantine`, as no statement does.
    broken
        For each expectation that rows break and that counts them: how many, and the first row with its file and line.
    requests
        In S3: about what the load would ask.
    """

    operation: ClassVar = "ingest"

    snapshot_id: int
    rows: int
    leaves: tuple[LeafRows, ...]
    files: int
    through_spark: bool
    strategy: str
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()
    prefix: str = ""
    kept_back: int = 0
    reasons: tuple[Difference, ...] = ()
    quarantine: str = ""
    takes_options: bool = True
    broken: tuple[Difference, ...] = ()
    requests: RequestEstimate | None = None
    files_are_most: bool = False

    @property
    def is_refused(self) -> bool:
        """Whether a run would add nothing."""
        return bool(self.differences)

    def grid(self) -> Grid:
        """Return the leaves and their rows; or what does not fit, if anything, and what to change."""
        if self.differences:
            title = f"ingest: would add nothing ({counted(len(self.differences), 'difference')})"
            kept = hint_text(("to load the rows that fit, and keep the others in a file: ", QUARANTINE), self.prefix)
            footer = kept if self.takes_options and all(each.values for each in self.differences) else ""
            return Grid(_DIFFERENCE_COLUMNS, self._cells(self.differences), title, footer)
        how = "loaded by Spark" if self.through_spark else "loaded by this process"
        most = "up to " if self.files_are_most else ""
        title = f"ingest: would add {counted(self.rows, 'row')} in {most}{counted(self.files, 'file')}, {how}"
        footer = "; ".join((f"on snapshot {self.snapshot_id}; nothing was changed", *self.notes))
        requests = () if self.requests is None else (str(self.requests),)
        footer = "\n".join((*(each.line for each in self.broken), footer, *requests))
        if self.reasons:
            title += f", and keep {counted(self.kept_back, 'row')} back in {self.quarantine}"
            return Grid(_DIFFERENCE_COLUMNS, self._cells(self.reasons), title, footer)
        rows = tuple((leaf.region, leaf.partition_id, leaf.rows) for leaf in self.leaves)
        return Grid(LEAF_COLUMNS, rows, title, footer)

    def _cells(self, differences: Iterable[Difference]) -> tuple[tuple[object, ...], ...]:
        return tuple(
            (d.column, d.kind or d.problem, d.count, d.example, d.first_at, hint_text(d.hint, self.prefix))
            for d in differences
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why some files cannot be added as they are.

    Parameters
    ----------
    problem
        What is wrong, as it follows a file's name.
    hint
        What to do.
    files
        The addresses of these files.
    """

    problem: str
    hint: Hint
    files: tuple[str, ...]

    @property
    def text(self) -> str:
        """The problem, and how many files have it."""
        if len(self.files) == 1:
            return f"{self.files[0]} {self.problem}"
        return f"{len(self.files):,} files, such as {self.files[0]}: each {self.problem}"


@dataclass(frozen=True, slots=True, repr=False)
class AddFilesPlan(Report):
    """What adding files would do.

    Parameters
    ----------
    snapshot_id
        The version that the plan is based on.
    files, rows, bytes
        The files that would be added, their rows and their size.
    leaves
        The leaves that would get rows, in key order; empty when a file is refused.
    refused
        What is wrong with which files. A run would add none of the files.
    empty
        The number of files without rows, to which the table does not refer.
    notes
        The expectations that rows break: how many, and the first of them.
    moves
        Whether the files would be moved into the table's folder.
    moved_before
        The number of files that an earlier run moved, which would only lose their old names.
    """

    operation: ClassVar = "add-files"

    snapshot_id: int
    files: int
    rows: int
    bytes: int
    leaves: tuple[LeafRows, ...]
    refused: tuple[Refusal, ...]
    empty: int = 0
    notes: tuple[str, ...] = ()
    moves: bool = False
    moved_before: int = 0
    prefix: str = ""

    @property
    def is_refused(self) -> bool:
        """Whether a run would add nothing."""
        return bool(self.refused)

    def grid(self) -> Grid:
        """Return the leaves and their rows; or what is wrong with which files, and what to do."""
        if self.refused:
            count = sum(len(each.files) for each in self.refused)
            cells = tuple(
                (each.problem, len(each.files), each.files[0], hint_text(each.hint, self.prefix))
                for each in self.refused
            )
            title = f"add-files: would add nothing ({counted(count, 'file')} refused)"
            return Grid(("what is wrong", "files", "such as", "what to do"), cells, title)
        how = "move" if self.moves else "refer to"
        title = f"add-files: would {how} {counted(self.files, 'file')}: {counted(self.rows, 'row')}, "
        title += f"{Bytes(self.bytes)}, none copied"
        rows = tuple((leaf.region, leaf.partition_id, leaf.rows) for leaf in self.leaves)
        notes = [f"on snapshot {self.snapshot_id}; nothing was changed"]
        if self.empty:
            notes.append(f"{counted(self.empty, 'file')} without rows left out")
        if self.moves:
            notes.append("garbage collection deletes moved files when no version needs them any more")
        if self.moved_before:
            notes.append(f"{counted(self.moved_before, 'file')} moved before would lose the old name")
        return Grid(LEAF_COLUMNS, rows, title, "; ".join((*notes, *self.notes)))
