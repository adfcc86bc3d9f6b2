"""Maintenance: what is due on a table now, step by step; a step that fails does not keep the others from theirs.

What is due is decided as of the beginning: a later step does not take up what an earlier one has just made. Snapshots
of the run itself push no older one out; files that went out of use in it, and leaves that were made in it, are left to
the next. So a dry run says what the run does, and each run does a bounded amount of work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from operator import attrgetter
from typing import Any

from sleeper_nb.errors import SleeperError
from sleeper_nb.operations.compact import CompactionReport, merged_text
from sleeper_nb.operations.split import SplitReport
from sleeper_nb.operations.upkeep.collect_garbage import GarbageReport, collect_garbage
from sleeper_nb.operations.upkeep.expire import (
    ExpiryReport,
    Retention,
    expire_snapshots,
)
from sleeper_nb.operations.versioning.periodic_savepoints import (
    SavepointKeeper,
    SavepointSchedule,
)
from sleeper_nb.report import Grid, Report, counted
from sleeper_nb.state_store.state_store_base import StateStore

NOTHING_DUE = "nothing due"
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class MaintenanceStep:
    """One step of a table's maintenance.

    Parameters
    ----------
    name
        The command that does it alone.
    run
        Does it, or says what it would do, when it is handed whether this is a dry run.
    said
        Returns what a report of it did, in a few words; empty when nothing was due.
    """

    name: str
    run: Callable[[bool], Report]
    said: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class StepReport:
    """What became of one step.

    Parameters
    ----------
    table, step
        Of which table, and the name of the step.
    said
        What was done, in a few words.
    report
        The step's own report; None when it failed.
    error
        Why it failed; None when it did not.
    """

    table: str
    step: str
    said: str
    report: Report | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True, repr=False)
class MaintenanceReport(Report):
    """What maintenance did; of a dry run, what it would do.

    Parameters
    ----------
    steps
        In the order in which they were done.
    offline
        Tables that were left alone as they are offline.
    """

    steps: tuple[StepReport, ...]
    dry_run: bool
    offline: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[StepReport, ...]:
        """The steps that failed."""
        return tuple(step for step in self.steps if step.error is not None)

    @property
    def due(self) -> bool:
        """Whether anything was done, or would be."""
        return any(step.report is not None and not step.said.startswith(NOTHING_DUE) for step in self.steps)

    def __getitem__(self, name: str) -> Any:
        """Return the report of a step by its name, of the first table; None when it failed or there is none."""
        return next((step.report for step in self.steps if step.step == name), None)

    def grid(self) -> Grid:
        """Return one row a step."""
        tables = list(dict.fromkeys(step.table for step in self.steps))
        rows = tuple((step.table, step.step, step.said) for step in self.steps)
        left = f"offline, left alone: {', '.join(self.offline)}" if self.offline else ""
        what = tables[0] if len(tables) == 1 else counted(len(tables), "table")
        title = f"maintenance of {what}" + (" (dry run)" if self.dry_run else "")
        return Grid(("table", "step", "done"), rows, title, left)


def steps_of(
    store: StateStore,
    split: Callable[[bool], SplitReport],
    compact: Callable[[bool, Collection[str]], CompactionReport],
    schedule: SavepointSchedule,
    retention: Retention,
    gc_delay: timedelta,
    author: str | None,
) -> tuple[MaintenanceStep, ...]:
    """Return what can be due on a table, in its order: what makes versions comes before what forgets them.

    Parameters
    ----------
    store
        The table's; what is due is decided as of its head and its clock now.
    split
        Splits the leaves that have too many rows, or only plans it.
    compact
        Runs the jobs that the table's strategy proposes but for some leaves, or only plans them.
    schedule
        When savepoints are made and retired by themselves. What a retired one alone has kept is collected by the next
        run.
    retention, gc_delay
        How long snapshots stay, and files that nothing refers to.
    author
        Who history says it was.
    """
    began, head = store.clock.now(), store.head()
    forgotten: list[int] = []
    cut: set[str] = set()
    keeper = SavepointKeeper(store, schedule, head, began, author)

    def split_first(dry_run: bool) -> SplitReport:
        report = split(dry_run)
        for one in report.splits:  # a dry run finds the old leaf still, the run itself the new ones
            cut.update({one.partition_id}, (part for part, _, _ in one.parts))
        return report

    def expire(dry_run: bool) -> ExpiryReport:
        report = expire_snapshots(store, retention, dry_run=dry_run, until=head.id)
        forgotten.extend(snapshot.id for snapshot in report.expired)
        return report

    def collect(dry_run: bool) -> GarbageReport:
        delay = max(gc_delay, _TICK)  # so that nothing of this run is old enough
        return collect_garbage(store, delay=delay, dry_run=dry_run, author=author, now=began, forgotten=forgotten)

    return (
        MaintenanceStep("split", split_first, split_said),
        MaintenanceStep("compact", lambda dry_run: compact(dry_run, cut), compaction_said),
        MaintenanceStep("create-savepoint", keeper.save, attrgetter("said")),
        MaintenanceStep("expire", expire, expiry_said),
        MaintenanceStep("collect-garbage", collect, garbage_said),
        MaintenanceStep("delete-savepoint", keeper.retire, attrgetter("said")),
    )


def run_steps(table: str, steps: Sequence[MaintenanceStep], *, dry_run: bool) -> MaintenanceReport:
    """Do one step after the other; an error of one is kept with it, an interrupt ends the run."""
    return MaintenanceReport(tuple(_results(table, steps, dry_run=dry_run)), dry_run)


def _results(table: str, steps: Sequence[MaintenanceStep], *, dry_run: bool) -> Iterator[StepReport]:
    for step in steps:
        result = StepReport(table, step.name, NOTHING_DUE)
        try:
            report = step.run(dry_run)
        except Exception as error:  # noqa: BLE001 - the other steps are due all the same, and the report tells of it
            said = error.message if isinstance(error, SleeperError) else repr(error)
            yield replace(result, said=f"failed: {said}", error=error)
        else:
            yield replace(result, said=step.said(report) or NOTHING_DUE, report=report)


def split_said(report: SplitReport) -> str:
    """Say what a splitting of partitions did."""
    split = "would split" if report.dry_run else "split"
    return f"{split} {counted(len(report.splits), 'leaf partition')}" if report.splits else ""


def compaction_said(report: CompactionReport) -> str:
    """Say what a compaction did."""
    merged = "would merge" if report.dry_run else "merged"
    said = [f"{merged} {merged_text(report.jobs)} into {len(report.jobs):,}"] if report.jobs else []
    said += [f"{counted(len(report.refused), 'job')} came too late"] if report.refused else []
    said += [report.blocked_text if said else f"{NOTHING_DUE}: {report.blocked_text}"] if report.blocked_by else []
    return "; ".join(said)


def expiry_said(report: ExpiryReport) -> str:
    """Say what an expiry did."""
    expired = "would expire" if report.dry_run else "expired"
    return f"{expired} {counted(len(report.expired), 'snapshot')}" if report.expired else ""


def garbage_said(report: GarbageReport) -> str:
    """Say what a garbage collection did."""
    deleted = "would delete" if report.dry_run else "deleted"
    data, metadata = len(report.data_files), len(report.metadata_files)
    files = f"{counted(data, 'data file')} and {counted(metadata, 'metadata file')}"
    return f"{deleted} {files}" if data or metadata else ""
