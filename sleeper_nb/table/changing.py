"""Change the rows of a table by a statement: on the newest version, in one commit, or as a dry run."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa

from sleeper_nb.change.apply_edits import EditSettings
from sleeper_nb.change.change import ChangeReport, RowEditor
from sleeper_nb.change.edit_list import EditList
from sleeper_nb.change.purge import PurgeOfRows
from sleeper_nb.engines.components import OpenTable
from sleeper_nb.errors import Action, ConfirmationNeeded, InvalidInput, NotFound
from sleeper_nb.load.conform import (
    Conversion,
    RawColumns,
    by_statement,
    compare,
    for_table,
    name_table_in_hints,
    no_place,
    raise_first,
    row_number,
    without_options,
)
from sleeper_nb.load.row_checks import NOT_JUDGED, JudgedRows, opened_checks
from sleeper_nb.model.jobs import MadeBefore, check_job_id
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.properties import CHANGE_ISOLATION, SAVEPOINT_INTERVAL
from sleeper_nb.model.snapshots import Snapshot, VersionReference
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import EditCounts
from sleeper_nb.query.condition_types import check_are_conditions
from sleeper_nb.query.queries import Queries
from sleeper_nb.query.result import QueryResult
from sleeper_nb.query.row_edits import EditFinder, FoundRows
from sleeper_nb.read import job_tracking
from sleeper_nb.read.scan_plan import FILE_NUMBER, POSITION, TableRows, plan_scan
from sleeper_nb.sql.binding import BoundSource
from sleeper_nb.sql.composition import Composition
from sleeper_nb.sql.delete_update import DeleteRows, UpdateRows
from sleeper_nb.sql.expressions import names_in
from sleeper_nb.sql.found_rows import ACTION, SOURCE_ROW, TARGET, source_rows
from sleeper_nb.sql.insertion import OverwriteRows, ReplacedAll, ReplacedWhere
from sleeper_nb.sql.merge_rows import MergeRows
from sleeper_nb.sql.statement import Slice, SqlText, Statement
from sleeper_nb.sql.tokens import unquote
from sleeper_nb.sql.writes import RowChange as Change
from sleeper_nb.sql.writes import read_writing_statement
from sleeper_nb.table_at import TableAt
from sleeper_nb.versions.leases import ReadGuard
from sleeper_nb.versions.periodic_savepoints import LoadedAndSaved, save_after_load
from sleeper_nb.versions.resolve import Resolved

_MOST_WATCHED: Final = 64
"""So many regions of a change are remembered one by one."""
_TYPES: Final = {FILE_NUMBER: pa.int32(), POSITION: pa.int64(), ACTION: pa.int32(), SOURCE_ROW: pa.int64()}


_OPERATIONS: Final[Mapping[type, str]] = {
    DeleteRows: "delete", UpdateRows: "update", MergeRows: "merge", OverwriteRows: "overwrite",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class RowStatement:
    """A statement that changes rows, as a user gave it.

    Parameters
    ----------
    text, statement, change
        The statement as it was written, as it was read, and what it says.
    queries
        Run its queries.
    conversion
        How a value becomes one of another type, for hints.
    """

    text: SqlText
    statement: Statement
    change: Change
    queries: Queries
    conversion: Conversion = by_statement

    @property
    def operation(self) -> str:
        """What history calls it."""
        return _OPERATIONS[type(self.change)]

    @classmethod
    def of(cls, sql: str, queries: Queries, conversion: Conversion = by_statement) -> RowStatement:
        """Return the statement of a text that this package wrote around parts of a user's."""
        text = SqlText(sql)
        writing = read_writing_statement(text.whole("spark" if queries.engine == "spark" else "duckdb"))
        assert writing is not None  # noqa: S101 - the text begins like one
        assert isinstance(writing.change, Change)  # noqa: S101
        return cls(text, writing.statement, writing.change, queries, conversion)


@dataclass(frozen=True, slots=True, eq=False)
class SourceRows:
    """The rows of a change's source, and the tables that they were read from."""

    rows: pa.Table
    read_from: tuple[BoundSource, ...] = ()

    @classmethod
    def of(cls, result: QueryResult) -> SourceRows:
        """Return the rows that a query gives."""
        return cls(result.to_arrow(), result.sources)


AskSource = Callable[[Queries], SourceRows]
"""Reads the rows of a source with queries that read one version of the table that is changed."""


@dataclass(slots=True, eq=False)
class Source:
    """The source of a change: read once, however often the change is computed, unless it reads the table itself.

    Rows that come from the table are read from each version on which the change is computed: with those of an older
    version it would undo what others committed in between.
    """

    ask: AskSource
    _read: SourceRows | None = None

    def on(self, version: SearchedVersion) -> SourceRows:
        """Return the rows for a change of a version."""
        if self._read is not None:
            return self._read
        found = self.ask(version.queries())
        if all(version.read_in(each) is None for each in found.read_from):
            self._read = found
        return found


def change_of(
    table: OpenTable,
    operation: str,
    asked: RowStatement,
    new_rows: AskSource | None = None,
    remarks: Sequence[str] = (),
) -> BoundRowStatement:
    """Return a change of rows, ready to run.

    Parameters
    ----------
    table, operation, asked
        As in `BoundRowStatement`.
    new_rows
        Reads the rows of an overwrite, as the user gave them.
    remarks
        As in `BoundRowStatement`.

    Raises
    ------
    InvalidInput
        When the rows of the table are processed.
    """
    check_unprocessed(table, table.store.load())
    merge = asked.change
    if isinstance(merge, MergeRows):
        query = asked.text.only(source_rows(merge))
        read = Source(lambda queries: SourceRows.of(queries.run(query)))
        return BoundRowStatement(table, operation, asked, read, tuple(remarks))
    source = None if new_rows is None else Source(new_rows)
    return BoundRowStatement(table, operation, asked, source, tuple(remarks))


def check_unprocessed(table: OpenTable, state: TableState) -> None:
    """Raise `InvalidInput` when queries show rows of a version that have no place of their own."""
    processing = table.processing_of(state)
    if not processing.is_nothing:
        raise InvalidInput(
            f"rows of table {table.name!r} cannot be changed: queries show what is left after {processing}",
            hint="load rows that change others, or copy the table: CREATE TABLE … AS SELECT",
        )


@contextmanager
def hints_of_change(table: str, conversion: Conversion | None) -> Iterator[None]:
    """Make the hint of an error about values say what a change of rows of a table takes, not what a load does."""
    try:
        yield
    except InvalidInput as error:
        error.hint = for_table(without_options(error.hint_parts, conversion), table)
        raise


def fitting(table: OpenTable, state: TableState, rows: pa.Table, place: Callable[[int], str] = row_number) -> pa.Table:
    """Return rows as a version of a table has them; they keep its rules. `place` names a row in errors."""
    fit = compare(RawColumns.of(rows, place), state.schema).table(state.schema)
    with opened_checks(table.load_checks(state.schema)) as checks:
        raise_first(tuple(checks.differences(fit, place)))
    return fit


@dataclass(frozen=True, slots=True, eq=False)
class BoundRowStatement:
    """A statement that changes rows of one table, ready to run.

    Parameters
    ----------
    table
        The table.
    operation
        What history calls it: ``delete``, ``update``, ``upsert``, ``merge``, ``overwrite``.
    asked
        The statement, and what runs its queries.
    source
        The source of a merge, or the new rows of an overwrite.
    remarks
        What its report says of the source, besides counts.
    """

    table: OpenTable
    operation: str
    asked: RowStatement
    source: Source | None = None
    remarks: tuple[str, ...] = ()

    def run(self, *, dry_run: bool, force: bool, message: str | None = None, job_id: str | None = None) -> ChangeReport:
        """Change the rows, or return what would be changed.

        Raises
        ------
        ConfirmationNeeded
            When the statement has no condition, or one that names no column of the table and reaches all rows, and
            neither `dry_run` nor `force` is given; it has the plan.
        InvalidInput, NotFound
            When the statement or a new value is wrong; nothing was changed.
        ConflictError
            When other writers changed the same rows in each attempt; nothing was changed.
        """
        with name_table_in_hints(self.table.name):
            return self._run(dry_run=dry_run, force=force, message=message, job_id=job_id)

    def _run(self, *, dry_run: bool, force: bool, message: str | None, job_id: str | None) -> ChangeReport:
        if dry_run and job_id is not None:
            made = job_tracking.done_before(self.table.store, check_job_id(job_id))
            if made is not None:
                return replace(self._done_before(made), dry_run=True)
        if dry_run or (self._is_about_all_rows and not force):
            plan = self._rows_changed().plan()
            if dry_run:
                return plan
            raise ConfirmationNeeded(
                f"{self.operation} without a condition changes every row of table {self.table.name!r}",
                hint=("add a condition, or confirm: ", Action("--force", "force=True")),
                plan=plan,
            )
        author = self.table.components.author
        if job_id is None:
            report = self._rows_changed().run(message=message, author=author, confirmed=force)
        else:
            report = self._once(job_id, message, confirmed=force)
        return self._saved(report)

    @property
    def _is_about_all_rows(self) -> bool:
        match self.asked.change:
            case DeleteRows(_, condition) | UpdateRows(_, _, condition):
                return condition is None
            case OverwriteRows(_, replaced):
                return isinstance(replaced, ReplacedAll)
            case _:
                return False

    def _changes_all(self, edits: EditList, rows: int) -> bool:
        """Return whether a change takes away or updates all rows of a version by conditions that name no column of it.

        Such a condition, for example ``1 = 1``, means what no condition means. One that names a column and that all
        rows meet is not confirmed: a program would stop because of its data.
        """
        match self.asked.change:
            case DeleteRows(condition=Slice() as condition) | OverwriteRows(replaced=ReplacedWhere(condition)):
                conditions, gone = [condition], edits.counts.deleted
            case MergeRows(condition=Slice() as condition, clauses=clauses):
                conditions = [condition, *(each.condition for each in clauses if each.condition is not None)]
                gone = edits.counts.deleted + edits.counts.updated
            case UpdateRows(condition=Slice() as condition):
                conditions, gone = [condition], edits.counts.updated
            case _:
                return False
        columns = {name.casefold() for name in edits.rows.column_names}
        name_none = all(names_in(self.asked.statement, each).isdisjoint(columns) for each in conditions)
        return name_none and 0 < gone == rows

    def _rows_changed(self) -> RowEditor:
        store = self.table.store
        return RowEditor(
            self.operation,
            self.table.name,
            store,
            EditSettings.of(self.table.properties),
            self._find,
            self._held,
            self.table.components.progress,
            self.remarks,
        )

    @contextmanager
    def _held(self, snapshot_id: int) -> Iterator[None]:
        leases, size = self.table.components.leases, self.table.store.load().totals().bytes
        guard = ReadGuard(leases, self.table.store.table_id, snapshot_id, False, size, self.table.name)  # noqa: FBT003
        with guard.during(self.operation):
            yield

    def _find(self, state: TableState) -> EditList:
        with hints_of_change(self.table.name, self.asked.conversion):
            return self._found(state)

    def _found(self, state: TableState) -> EditList:
        check_unprocessed(self.table, state)
        version = SearchedVersion(self.table, self.asked, state)
        source = SourceRows(pa.table({})) if self.source is None else self.source.on(version)
        given = self._fitting(source.rows, state)

        def check() -> None:
            if self.asked.queries.engine != "spark":
                check_are_conditions(self.asked.change, self.asked.statement, state.schema, given, version.unread)

        finder = EditFinder(
            self.asked.change,
            self.asked.statement,
            self.table.name,
            state.schema,
            lambda: plan_scan(state).filenames,
            version.answered,
            partial(fitting, self.table, state),
            given,
            check,
        )
        edits = finder.find()
        watched = (*edits.watched, *version.watched_in(source.read_from))
        is_of_snapshot = self.table.properties[CHANGE_ISOLATION] == "snapshot"
        return replace(
            edits,
            watched=watched,
            judged=self._judged(edits.rows, state),
            ignores_added=is_of_snapshot and isinstance(self.asked.change, DeleteRows | UpdateRows),
            is_about_all_rows=self._is_about_all_rows or self._changes_all(edits, state.totals().rows),
        )

    def _judged(self, rows: pa.Table, state: TableState) -> JudgedRows:
        """Return how many of the rows that come break each expectation; nothing when none comes."""
        if not (rows.num_rows and self.table.properties.expectations):
            return NOT_JUDGED
        with opened_checks(self.table.load_checks(state.schema)) as checks:
            return checks.judged(rows, no_place)

    def purge(self) -> PurgeOfRows:
        """Return the purge of the rows that a deletion is about."""
        asked = self.asked
        tokens = (each for each in asked.statement.tokens if each.kind in {"string", "number"})
        values = {unquote(each, dialect=asked.statement.dialect) for each in tokens}
        values |= {str(each) for each in asked.queries.parameters.values()}
        return PurgeOfRows(self._rows_changed(), self._files_with_rows, frozenset(values), self.table.properties.texts)

    def _files_with_rows(self, state: TableState, searched: TableState) -> frozenset[str]:
        """Return the data files with rows that a deletion is about; what its condition reads besides is of `state`."""
        version = SearchedVersion(self.table, self.asked, state, searched)
        finder = EditFinder(
            self.asked.change,
            self.asked.statement,
            self.table.name,
            searched.schema,
            lambda: plan_scan(searched).filenames,
            version.answered,
            partial(fitting, self.table, state),
        )
        return frozenset(finder.find().removed)

    def _fitting(self, rows: pa.Table, state: TableState) -> pa.Table | None:
        match self.asked.change:
            case OverwriteRows():
                return fitting(self.table, state, rows)
            case MergeRows():
                return rows.append_column(SOURCE_ROW, pa.array(np.arange(rows.num_rows), pa.int64()))
            case _:
                return None

    # What follows a change.

    def _once(self, job_id: str, message: str | None, *, confirmed: bool) -> ChangeReport:
        check_job_id(job_id)
        store, author = self.table.store, self.table.components.author
        reports: list[ChangeReport] = []

        def change() -> Snapshot:
            report = self._rows_changed().run(message=message, author=author, job_id=job_id, confirmed=confirmed)
            reports.append(report)
            return report.snapshot or store.head()

        made = job_tracking.add_once(
            store, job_id, lambda: job_tracking.run_tracked(store, "change", job_id, author, change)
        )
        return reports[0] if reports else self._done_before(made)

    def _done_before(self, made: Snapshot) -> ChangeReport:
        counts = EditCounts(made.inserted_rows or 0, made.updated_rows or 0, made.deleted_rows or 0)
        note = made.note if isinstance(made, MadeBefore) else ""
        return ChangeReport(
            operation=self.operation, table=self.table.name, snapshot=made, since=made.id, counts=counts,
            source_rows=None, matched=None, files=0, bytes=0, leaves=0, files_written=None, bytes_written=None,
            vectors=None, seconds=0.0, dry_run=False, note=note,
        )  # fmt: skip

    def _saved(self, report: ChangeReport) -> ChangeReport:
        self.table.components.progress.finish("")
        if report.snapshot is None or report.note:
            return report
        interval, author = self.table.properties[SAVEPOINT_INTERVAL], self.table.components.author
        snapshot = save_after_load(self.table.store, report.snapshot, interval, author)
        note = snapshot.note if isinstance(snapshot, LoadedAndSaved) else ""
        return replace(report, snapshot=snapshot, note=note)


@dataclass(frozen=True, slots=True, eq=False)
class SearchedVersion:
    """The version of a table on which a change of its rows is computed.

    Parameters
    ----------
    table, asked, state
        The table, the statement, and the version.
    searched
        The rows that are looked for, when they are others than the version's: those of a purge.
    """

    table: OpenTable
    asked: RowStatement
    state: TableState
    searched: TableState | None = None

    def queries(self, rows: Mapping[str, pa.Table] = MappingProxyType({})) -> Queries:
        """Return what runs queries that read this version of the table, and some rows by name."""
        queries, own = self.asked.queries, self._source()

        def found(name: str, version: VersionReference | None) -> BoundSource | None:
            if name == TARGET:
                return replace(own if self.searched is None else self._searched(own), with_places=True)
            has_name = name.casefold() == self.table.name.casefold()
            if has_name and self.searched is not None:
                # after the deletion it would be answered otherwise, and mean other rows of older versions
                hint = "read the values first, and name them in the condition: k IN (1, 2)"
                raise InvalidInput(f"the condition of a purge cannot read table {name!r} itself", hint=hint)
            return own if has_name and version is None else queries.lookup(name, version)

        return replace(queries, lookup=found, data=ChainMap({**rows}, queries.data))  # type: ignore[arg-type]  # only read

    def _source(self) -> BoundSource:
        store, number = self.table.store, self.state.snapshot_id
        snapshot = store.catalog.snapshot(store.table_id, number)
        if snapshot is None:
            raise NotFound(f"snapshot {number} of table {self.table.name!r} expired meanwhile", hint="run it again")
        return TableAt(self.table, Resolved(snapshot)).source()

    def _searched(self, own: BoundSource) -> BoundSource:
        assert self.searched is not None  # noqa: S101 - as in `queries`
        return replace(own, rows=TableRows(self.searched), reader=None)

    def read_in(self, source: BoundSource) -> TableRows | None:
        """Return what a source of a query reads of this version; None when it is another version or table."""
        rows = source.rows
        if not isinstance(rows, TableRows) or source.table != self.table.name:
            return None
        return rows if rows.state.snapshot_id == self.state.snapshot_id else None

    def watched_in(self, sources: Iterable[BoundSource]) -> tuple[Region, ...]:
        """Return where sources of a query read this version: what others add there changes the answer."""
        found = [_watched(rows) for each in sources if (rows := self.read_in(each)) is not None]
        return tuple(dict.fromkeys(region for regions in found for region in regions))

    def unread(self, query: Composition, rows: Mapping[str, pa.Table]) -> QueryResult:
        """Return the result of a query about some rows by name, also of the table that is changed."""
        queries = self.queries(rows)
        lookup = queries.lookup

        def found(name: str, version: VersionReference | None) -> BoundSource | None:
            return None if name in rows else lookup(name, version)

        return replace(queries, lookup=found, dry_run=True).run(self.asked.text.only(query))

    def answered(self, query: Composition, rows: Mapping[str, pa.Table]) -> FoundRows:
        """Answer a query about the rows of the version."""
        result = self.queries(rows).run(self.asked.text.only(query))
        answer = result.to_arrow()
        for name in set(_TYPES) & set(answer.column_names):
            at = answer.column_names.index(name)
            answer = answer.set_column(at, name, answer[name].cast(_TYPES[name]))
        target = next((each for each in result.sources if each.with_places), None)
        filenames = () if target is None or target.plan is None else target.plan.filenames
        return FoundRows(answer, filenames, self.watched_in(result.sources))


def _watched(rows: TableRows) -> tuple[Region, ...]:
    """Return where rows were looked for: rows that others add there may be ones that the change is about."""
    regions = rows.pruning.regions
    if regions is None:
        return (Region.whole(rows.state.schema),)
    if len(regions) > _MOST_WATCHED:
        leaves = {leaf.id: leaf.region for region in regions for leaf in rows.state.tree.leaves_in(region)}
        regions = tuple(leaves.values())
    return tuple(regions) if len(regions) <= _MOST_WATCHED else (Region.whole(rows.state.schema),)
