"""Load rows into a table, in process or through Spark (`LoadWork` says how); a dry run returns the plan."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from sleeper_nb.admin import property_files
from sleeper_nb.arguments import described
from sleeper_nb.engines.components import OpenTable
from sleeper_nb.errors import Action, EngineError, InvalidInput, NotFound, SleeperError
from sleeper_nb.load import add_files as adding
from sleeper_nb.load import ingest, sources
from sleeper_nb.load.add_files import MovingRules
from sleeper_nb.load.bulk_load import WrittenLoad, ending_at_first
from sleeper_nb.load.data_columns import check_named_columns, materialised
from sleeper_nb.load.ingest import IngestSettings, message_with, plan_of_counts, remember_files
from sleeper_nb.load.load_options import LoadOptions, Matching
from sleeper_nb.load.load_report import AddFilesPlan, IngestPlan, LoadReport
from sleeper_nb.load.quarantine import QuarantineFile, SortedOut, sort_out
from sleeper_nb.load.sorted_runs import RunFiles, unmerged_note
from sleeper_nb.load.source_files import SourceFile, hidden_note
from sleeper_nb.load.sources import IngestSource, InMemory
from sleeper_nb.load.split import (
    LeavesWanted,
)
from sleeper_nb.maintain.compaction_plan import StrategySettings, plan_compaction
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.jobs import DoneBefore, JobKind, check_job_id
from sleeper_nb.model.load_hints import for_table, name_table_in_hints
from sleeper_nb.model.properties import INGEST_STRATEGY, SAVEPOINT_INTERVAL
from sleeper_nb.model.state import TableState
from sleeper_nb.progress import finishing
from sleeper_nb.read import job_tracking
from sleeper_nb.read.request_estimate import CommitCosts
from sleeper_nb.report import counted
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.state_store.state_stores import open_state_store
from sleeper_nb.storage.data_files import DataFileSettings
from sleeper_nb.table.load_work import LoadEngine, LoadWork
from sleeper_nb.table.publishing import note_after
from sleeper_nb.versions.periodic_savepoints import save_after

logger = logging.getLogger(__name__)


def load(
    table: OpenTable,
    data: Any,
    options: LoadOptions,
    *,
    message: str | None,
    job_id: str | None,
    dry_run: bool,
    quarantine: str | Path | None = None,
    engine: LoadEngine | None = None,
    merge: bool | None = None,
) -> LoadReport:
    """Add rows to a table, or say what would be added; parameters, result and errors are those of `Table.ingest`.

    With `engine`, the load is a bulk import, whatever its size. `merge` is that of `Table.bulk_import`.
    """
    progress, home = table.components.progress, table.store.storage
    with ExitStack() as until_loaded:
        try:
            rows = until_loaded.enter_context(sources.opened_sources(data, home, options, progress))
        except NotFound:
            if dry_run or (made := _done_before(table, job_id)) is None:
                raise
            return LoadReport.of_done(made)
        note = hidden_note(each for each in rows if isinstance(each, SourceFile))
        if quarantine is not None:
            file = QuarantineFile.of(quarantine, home)
            load = _CheckedIngest(table, _readable_again(rows), options.matching, file)
            done = _planned(table, load.plan(), job_id) if dry_run else load.run(message, job_id)
            return _remembered(table, rows, done, job_id).noted(note)
        settings = IngestSettings.of(table.properties)
        settings = settings if merge is None else replace(settings, merge=merge)
        work = LoadWork.of(table.components, rows, options.matching, engine)
        done = _load(table, work, settings, message=message, job_id=job_id, dry_run=dry_run)
        return _remembered(table, rows, done, job_id).noted(note)


def _remembered(table: OpenTable, rows: Iterable[IngestSource], done: LoadReport, job_id: str | None) -> LoadReport:
    if done.has_added:
        remember_files(table.store, rows, done.snapshot_id, job_id)
    return done


def _load(
    table: OpenTable,
    work: LoadWork,
    settings: IngestSettings,
    *,
    message: str | None,
    job_id: str | None,
    dry_run: bool,
) -> LoadReport:
    state = table.store.load()
    check_named_columns(work.rows, work.matching, state.schema)
    if dry_run:
        return _planned(table, _plan(table, state, work, settings), job_id)
    if work.in_bulk:
        how = "through Spark" if work.by_spark else "by threads"
        logger.info("table %s: loading %s (%d bytes of files)", table.name, how, sources.bytes_of(work.rows))
    notes = property_files.pending_settings(table.properties, state, table.name, table.properties_path)
    with name_table_in_hints(table.name):
        add = _bulk_import if work.in_bulk else _ingest
        loaded = add(table, state, work, settings, message, job_id)
    return _after_load(table, loaded, notes)


def _after_load(table: OpenTable, loaded: LoadReport, notes: Iterable[str] = ()) -> LoadReport:
    """Show notes and make a savepoint if one is due; an error would make the caller load the rows again."""
    for note in notes:
        table.components.progress.finish(f"note: {note}")
    if loaded.done_before:
        return loaded
    made = loaded.snapshot or table.store.head()
    saved = save_after(table.store, made, table.properties[SAVEPOINT_INTERVAL], table.components.author)
    note = note_after(table, made, saved.savepoint)
    return replace(loaded, savepoint=saved.savepoint).noted(saved.note).noted(note)


def _readable_again(rows: Sequence[IngestSource]) -> Sequence[IngestSource]:
    if sources.is_spark(rows):
        hint = "write them to files first and load these, or leave out the quarantine"
        raise InvalidInput("rows of a Spark DataFrame cannot be kept back: Spark loads all of them, or none", hint=hint)
    return materialised(rows)


@dataclass(frozen=True, slots=True)
class _CheckedIngest:
    """A load that keeps rows back. It runs in this process, whatever its size."""

    table: OpenTable
    data: Sequence[IngestSource]
    matching: Matching
    quarantine: QuarantineFile

    def plan(self) -> IngestPlan:
        table, state = self.table, self.table.store.load()
        check_named_columns(self.data, self.matching, state.schema)
        self.quarantine.check_new()
        sorted_out = self._sorted_out(state)
        rows, strategy = sorted_out.rows, table.properties[INGEST_STRATEGY]
        by_leaf = ingest.rows_by_leaf(rows, state.tree, state.schema)
        plan = plan_of_counts(state, rows.num_rows, by_leaf, (), strategy=strategy, through_spark=False)
        reasons = tuple(replace(each, hint=for_table(each.hint, table.name)) for each in sorted_out.reasons)
        notes = sorted_out.notes if reasons else (*sorted_out.notes, "no rows would be kept back")
        count, address = sorted_out.count, self.quarantine.address
        return replace(plan, notes=notes, kept_back=count, reasons=reasons, quarantine=address)

    def run(self, message: str | None, job_id: str | None) -> LoadReport:
        """Load the rows that fit, and keep the others in the file."""
        table, state = self.table, self.table.store.load()
        check_named_columns(self.data, self.matching, state.schema)
        notes = property_files.pending_settings(table.properties, state, table.name, table.properties_path)
        done: list[SortedOut] = []

        def add() -> LoadReport:
            self.quarantine.check_new()
            done.append(self._sorted_out(state))
            return self._added(state, done[-1], message, job_id)

        def kept() -> str:
            return self.quarantine.note(done[-1].count) if done[-1].count else ""

        with name_table_in_hints(table.name):
            loaded = add() if job_id is None else _once(table, "ingest", job_id, add, outcome=kept)
        if loaded.done_before:
            return loaded
        loaded, count = _after_load(table, loaded, notes), done[-1].count
        file = self.quarantine.address if count else None
        # Only in the answer: a value in the history would outlive a purge.
        return replace(loaded, kept_back=count, quarantine=file).noted(self.quarantine.note(count), done[-1].why)

    def _sorted_out(self, state: TableState) -> SortedOut:
        checks = self.table.load_checks(state.schema)
        return sort_out(self.data, state, self.table.store.storage, self.matching, checks)

    def _added(self, state: TableState, sorted_out: SortedOut, message: str | None, job_id: str | None) -> LoadReport:
        table, count = self.table, sorted_out.count
        note = self.quarantine.note(count)
        with finishing(table.components.progress) as progress:
            progress.update(f"writing {counted(sorted_out.rows.num_rows, 'row')}")
            with self.quarantine.write_kept_rows(sorted_out, state.schema, self.matching):
                loaded = ingest.ingest_arrow(
                    table.store,
                    sorted_out.rows,
                    message=message_with(message, note if count else ""),
                    author=table.components.author,
                    job_id=job_id,
                    settings=IngestSettings.of(table.properties),
                    rows_schema=state.schema,
                    judged=sorted_out.judged,
                )
            progress.finish("; ".join((*sorted_out.notes, note)))
            return loaded


def add_files(
    table: OpenTable,
    files: str | Path | Iterable[str | Path],
    *,
    copy: bool,
    move: bool,
    message: str | None,
    job_id: str | None,
    dry_run: bool,
) -> LoadReport:
    """Refer to files where they are; parameters, result and errors are those of `Table.add_files`."""
    given = _addresses(files)
    if copy and move:
        hint = "leave one out: copied files stay where they are, moved ones become files of the table"
        raise InvalidInput("files cannot be both copied and moved", hint=hint)
    if copy:
        return load(table, given, LoadOptions(), message=message, job_id=job_id, dry_run=dry_run)
    try:
        found = adding.find_parquet(table.store, given)
    except NotFound:  # the files that an earlier run moved have no names there any more
        if (made := _done_before(table, job_id)) is None:
            raise
        nothing = AddFilesPlan(made.snapshot.id, 0, 0, 0, (), ())
        return LoadReport.of_plan(nothing, made) if dry_run else LoadReport.of_done(made)
    note = hidden_note(found.values())
    statistics, progress = DataFileSettings.of(table.properties).statistics, table.components.progress
    row_checks = table.load_checks
    rules = MovingRules.of(_stores_of_all(table), table.store.storage.root, found) if move else None
    if dry_run:
        plan = adding.plan_files(table.store, table.store.load(), found, statistics, progress, row_checks, rules)
        refused = tuple(replace(each, hint=for_table(each.hint, table.name)) for each in plan.refused)
        return _planned(table, replace(plan, refused=refused), job_id).noted(note)
    author = table.components.author

    def add() -> LoadReport:
        with finishing(progress) as under_way:
            return adding.add_files(
                table.store,
                found,
                statistics,
                under_way,
                message=message,
                author=author,
                job_id=job_id,
                row_checks=row_checks,
                rules=rules,
            )

    with name_table_in_hints(table.name):
        added = add() if job_id is None else _once(table, "ingest", job_id, add)
    return _after_load(table, _remembered(table, found.values(), added, job_id)).noted(note)


def _addresses(files: str | Path | Iterable[str | Path]) -> list[str | Path]:
    given = [files] if isinstance(files, str | Path) else list(files)
    strange = next((each for each in given if not isinstance(each, str | Path)), None)
    if strange is not None or not given:
        what = described(strange) if given else "an empty list"
        hint = "give paths, globs or s3:// addresses of Parquet files; rows in memory are ingested"
        raise InvalidInput(f"files cannot be {what}", hint=hint)
    return given


def _stores_of_all(table: OpenTable) -> dict[str, StateStore]:
    of, stores = table.components, {table.name: table.store}
    for entry in of.catalog.tables():
        if entry.id == table.entry.id:
            continue
        try:
            storage = of.property_files.storage_of(entry.id, of.property_files.of_entry(entry))
            kind = of.catalog.current(entry.id).state_store
        except NotFound:
            if of.catalog.has_table(entry.id):
                raise
            continue  # it was deleted meanwhile
        stores[entry.name] = open_state_store(kind, entry.id, of.catalog, storage, of.clock, table.store.retry)
    return stores


def _plan(table: OpenTable, state: TableState, work: LoadWork, settings: IngestSettings) -> IngestPlan:
    storage, checks = table.store.storage, table.load_checks(state.schema)
    plan = work.plan(state, storage, settings.strategy, checks)
    plan = replace(plan, through_spark=work.by_spark)
    if work.in_bulk and plan.files:
        writer = work.writer(storage, settings, table.load_checks)
        plan = _with_run_files(plan, writer.planned(state.schema, state.tree))
    if work.in_bulk and not plan.differences and not any(isinstance(each, InMemory) for each in work.rows):
        leaves = LeavesWanted.of(table.properties).leaves(state, plan.rows)
        if leaves > 1:
            plan = replace(plan, notes=(*plan.notes, f"the only leaf would be split into up to {leaves:,} first"))
    differences = tuple(replace(each, hint=for_table(each.hint, table.name)) for each in plan.differences)
    costs = None if differences else CommitCosts.of(table.store, state)
    return replace(plan, differences=differences, requests=None if costs is None else costs.ingest(plan.files))


def _with_run_files(plan: IngestPlan, runs: RunFiles) -> IngestPlan:
    """Return the plan of a bulk load with its files when each sorted run becomes files, and what is said about them."""
    note = runs.note or unmerged_note(runs.expected)
    files = plan.files * max(1, runs.expected)
    notes = (*plan.notes, note) if note else plan.notes
    return replace(plan, files=files, files_are_most=runs.expected > 1, notes=notes)


def _ingest(
    table: OpenTable,
    state: TableState,
    work: LoadWork,
    settings: IngestSettings,
    message: str | None,
    job_id: str | None,
) -> LoadReport:
    schema = state.schema

    def add() -> LoadReport:
        with finishing(table.components.progress) as progress:
            progress.update("reading")
            read = sources.read_sources(work.rows, schema, work.matching, checks=table.load_checks(schema))
            progress.update(f"writing {counted(read.rows.num_rows, 'row')}")
            loaded = ingest.ingest_arrow(
                table.store,
                read.rows,
                message=message,
                author=table.components.author,
                job_id=job_id,
                settings=settings,
                rows_schema=schema,
                judged=read.judged,
            )
            if read.notes:
                progress.finish("; ".join(read.notes))
            return loaded.noted(*read.notes_of_some)

    return add() if job_id is None else _once(table, "ingest", job_id, add)


def _bulk_import(
    table: OpenTable,
    state: TableState,
    work: LoadWork,
    settings: IngestSettings,
    message: str | None,
    job_id: str | None,
) -> LoadReport:
    of, store = table.components, table.store

    def add() -> LoadReport:
        with finishing(of.progress) as progress:
            load = work.bulk_load(store, settings, table.load_checks)
            with ending_at_first(work.rows):
                split = work.split(store, state, LeavesWanted.of(table.properties))
            loaded = load.imported(message=message, author=of.author, job_id=job_id, split=split, progress=progress)
            return replace(loaded, runs=load.runs_note, to_merge=_merging(table) if load.is_unmerged else None)

    if job_id is None:
        return _tracked(table, "bulk-import", table.components.clock.new_id(), add)
    return _once(table, "bulk-import", job_id, add)


def _merging(table: OpenTable) -> Action:
    """Return the compaction that merges files of the table: with its own strategy, if that would merge any now."""
    store, settings = table.store, StrategySettings.of(table.properties)
    strategy = table.properties["sleeper.table.compaction.strategy.class"]
    try:
        plan = plan_compaction(store.load(), strategy, settings, (), store.clock, store.most_compaction_inputs)
    except SleeperError as error:  # the rows are loaded: an error would make the caller load them again
        logger.warning("table %s: cannot plan the compaction after a load: %s", store.table_id, error.message)
        plan = None
    if plan is not None and plan.jobs:
        return Action(f"compact {table.name}", "table.maintenance.compact()")
    return Action(f"compact {table.name} --strategy all", "table.maintenance.compact('all')")


def add_written(table: OpenTable, load: WrittenLoad, write: Callable[[], Iterable[FileReference]]) -> LoadReport:
    """Add files that tasks of Spark wrote: `AddWritten` of the data source for a table."""

    def add() -> LoadReport:
        return ingest.write_and_commit(
            table.store,
            lambda *_: write(),
            message=load.message,
            author=table.components.author,
            job_id=load.job_id,
            rows_schema=load.schema,
            judged=lambda: load.judged,
        )

    if load.job_id is None:
        loaded = _tracked(table, "bulk-import", load.run_id, add, load.began)
    else:
        loaded = _once(table, "bulk-import", load.job_id, add, load.began)
    for note in load.judged.notes:
        table.components.progress.finish(note)
    return _after_load(table, loaded)


def record_failure(table: OpenTable, job_id: str, began: datetime, reason: str) -> None:
    """Record that files were written for a job, but not added."""

    def fail() -> LoadReport:
        raise EngineError(reason)

    with suppress(EngineError):
        _tracked(table, "bulk-import", job_id, fail, began)


def _planned(table: OpenTable, plan: IngestPlan | AddFilesPlan, job_id: str | None) -> LoadReport:
    return LoadReport.of_plan(plan, _done_before(table, job_id))


def _done_before(table: OpenTable, job_id: str | None) -> DoneBefore | None:
    return None if job_id is None else job_tracking.done_before(table.store, check_job_id(job_id))


def _once(
    table: OpenTable,
    kind: JobKind,
    job_id: str,
    add: Callable[[], LoadReport],
    began: datetime | None = None,
    outcome: Callable[[], str] = str,
) -> LoadReport:
    check_job_id(job_id)
    made = job_tracking.add_once(table.store, job_id, lambda: _tracked(table, kind, job_id, add, began, outcome))
    return LoadReport.of_done(made) if isinstance(made, DoneBefore) else made


def _tracked(
    table: OpenTable,
    kind: JobKind,
    job_id: str,
    add: Callable[[], LoadReport],
    began: datetime | None = None,
    outcome: Callable[[], str] = str,
) -> LoadReport:
    return job_tracking.run_tracked(table.store, kind, job_id, table.components.author, add, began, outcome)
