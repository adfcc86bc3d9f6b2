"""Maintain a table: run each step that is due, in order; a step that fails does not stop the others.

What is due is decided at the start: a later step does not work on what an earlier one has just made. Snapshots of the
run itself do not make older ones expire; files that the run replaces, and leaves that it creates, are left to the next
run. So a dry run shows exactly what the run does, and each run does a bounded amount of work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import takewhile
from typing import Any, Protocol, TypeVar

from sleeper_nb.errors import SleeperError
from sleeper_nb.load.split import SplitReport
from sleeper_nb.maintain.collect_garbage import GarbageReport, collect_garbage
from sleeper_nb.maintain.compact import CompactionReport, merged_text
from sleeper_nb.report import Grid, Report, TableReport, counted, notes_line
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.expire import ExpiryReport, Retention, expire_snapshots
from sleeper_nb.versions.periodic_savepoints import (
    PeriodicSavepoint,
    RetiredSavepoints,
    SavepointKeeper,
    SavepointSchedule,
)

logger = logging.getLogger(__name__)

NOTHING_DUE = "nothing due"
DELETED_TABLES = "(deleted tables)"
"""Stands for the name of a table in the report of a deletion that could not be finished."""
_COLUMNS = ("table", "step", "done")
_TICK = timedelta(microseconds=1)


Made_co = TypeVar("Made_co", bound=Report, covariant=True)


class DryRunnable(Protocol[Made_co]):
    """Does work on a table, or only returns what it would do."""

    def __call__(self, *, dry_run: bool) -> Made_co:
        """Do the work, or plan it."""


@dataclass(frozen=True, slots=True)
class MaintenanceStep:
    """One step of a table's maintenance.

    Parameters
    ----------
    run
        Runs the step, or plans it.
    summary
        Returns what a report of the step says in a few words; empty when nothing was due.
    """

    name: str
    run: DryRunnable[Report]
    summary: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class StepReport:
    """The outcome of one step."""

    table: str
    step: str
    summary: str
    report: Report | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True, repr=False)
class MaintenanceReport(TableReport):
    """What maintenance did; of a dry run, what it would do.

    Parameters
    ----------
    steps
        In the order in which they were run.
    offline
        Tables that were skipped because they are offline.
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
        return any(step.report is not None and not step.summary.startswith(NOTHING_DUE) for step in self.steps)

    def __getitem__(self, name: str) -> Any:
        """Return the report of a step by its name, for the first table; None when the step failed or does not exist."""
        return next((step.report for step in self.steps if step.step == name), None)

    def cells(self) -> tuple[tuple[str, ...], Sequence[Sequence[object]]]:
        """Return a row for each step, also for those that were not due."""
        return _COLUMNS, tuple((step.table, step.step, step.summary) for step in self.steps)

    def grid(self) -> Grid:
        """Return a row for each step that did something, failed or was blocked, and how many tables had none."""
        tables = list(dict.fromkeys(step.table for step in self.steps))
        shown = [step for step in self.steps if step.summary != NOTHING_DUE]
        rows = tuple((step.table, step.step, step.summary) for step in shown)
        busy = {step.table for step in shown}
        idle = [table for table in tables if table not in busy]
        who = idle[0] if len(idle) == 1 else counted(len(idle), "table")
        skipped = f"offline, skipped: {', '.join(self.offline)}" if self.offline else ""
        left = notes_line(f"{who}: {NOTHING_DUE}" if idle else "", skipped)
        what = tables[0] if len(tables) == 1 else counted(len(tables), "table")
        title = f"maintenance of {what}" + (" (dry run)" if self.dry_run else "")
        return Grid(_COLUMNS if rows else (), rows, title, left)


def steps_of(
    store: StateStore,
    split: DryRunnable[SplitReport],
    compact: Callable[[Collection[str]], DryRunnable[CompactionReport]],
    schedule: SavepointSchedule,
    retention: Retention,
    gc_delay: timedelta,
    author: str | None,
) -> tuple[MaintenanceStep, ...]:
    """Return the steps of a table's maintenance in order: steps that make versions come before steps that delete them.

    Parameters
    ----------
    store
        The table's store; what is due is decided by its current head and clock.
    split
        Splits the leaves that have too many rows, or only plans it.
    compact
        Returns what runs the jobs that the table's strategy proposes, except for the given leaves, or only plans them.
    schedule
        When periodic savepoints are created and deleted. Files that only a deleted one kept are collected by the next
        run.
    retention, gc_delay
        How long snapshots are retained, and how long files are kept after nothing refers to them.
    """
    began, head = store.clock.now(), store.head()
    forgotten: list[int] = []
    split_leaves: set[str] = set()
    keeper = SavepointKeeper(store, schedule, head, began, author)

    def split_first(*, dry_run: bool) -> SplitReport:
        report = split(dry_run=dry_run)
        for each in report.splits:  # a dry run still finds the old leaf, a real run finds the new ones
            split_leaves.add(each.partition_id)
            split_leaves.update(part for part, _, _ in each.parts)
        return report

    def expire(*, dry_run: bool) -> ExpiryReport:
        report = expire_snapshots(store, retention, dry_run=dry_run, until=head.id)
        forgotten.extend(snapshot.id for snapshot in report.expired)
        return report

    def collect(*, dry_run: bool) -> GarbageReport:
        delay = max(gc_delay, _TICK)  # so that files of this very run are too young
        return collect_garbage(store, delay=delay, dry_run=dry_run, author=author, now=began, forgotten=forgotten)

    return (
        MaintenanceStep("split", split_first, _split_summary),
        MaintenanceStep("compact", compact(split_leaves), _compaction_summary),
        MaintenanceStep("create-savepoint", keeper.save, _own_summary),
        MaintenanceStep("expire", expire, _own_summary),
        MaintenanceStep("collect-garbage", collect, _own_summary),
        MaintenanceStep("delete-savepoint", keeper.retire, _own_summary),
    )


def _split_summary(report: SplitReport) -> str:
    verb = "would split" if report.dry_run else "split"
    return f"{verb} {counted(len(report.splits), 'leaf partition')}" if report.splits else ""


def _compaction_summary(report: CompactionReport) -> str:
    parts = []
    if report.jobs:
        verb = "would merge" if report.dry_run else "merged"
        parts.append(f"{verb} {merged_text(report.jobs)} into {len(report.jobs):,}")
    if report.refused:
        parts.append(f"{counted(len(report.refused), 'job')} came too late")
    if report.blocked_by:
        parts.append(report.blocked_text if parts else f"{NOTHING_DUE}: {report.blocked_text}")
    return "; ".join(parts)


def _own_summary(report: PeriodicSavepoint | ExpiryReport | GarbageReport | RetiredSavepoints) -> str:
    return report.summary


Proceed = Callable[[], bool]
"""Asked before each step: whether the run goes on. A step that has begun is finished."""


def always() -> bool:
    return True


def run_steps(
    table: str, steps: Sequence[MaintenanceStep], *, dry_run: bool, proceed: Proceed = always
) -> MaintenanceReport:
    """Run one step after the other. The error of a step is part of its report; an interrupt ends the run."""
    return MaintenanceReport(
        tuple(_run_step(table, step, dry_run=dry_run) for step in takewhile(lambda _: proceed(), steps)), dry_run
    )


def failed_step(table: str, step: str, error: Exception) -> StepReport:
    message = error.message if isinstance(error, SleeperError) else repr(error)
    logger.warning("table %s: the maintenance step %s failed: %s", table, step, message,
                   extra={"facts": {"event": "step fails", "table": table, "step": step}})  # fmt: skip
    return StepReport(table, step, f"failed: {message}", error=error)


def _run_step(table: str, step: MaintenanceStep, *, dry_run: bool) -> StepReport:
    try:
        report = step.run(dry_run=dry_run)
    except Exception as error:  # noqa: BLE001 - the other steps are due all the same; the report has the error
        return failed_step(table, step.name, error)
    summary = step.summary(report) or NOTHING_DUE
    logger.debug("table %s: the maintenance step %s: %s", table, step.name, summary)
    return StepReport(table, step.name, summary, report=report)
