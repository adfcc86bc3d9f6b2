"""Run the steps of a table's maintenance in order, and report them; a step that fails does not stop the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from sleeper_nb.errors import SleeperError
from sleeper_nb.load.split import SplitReport
from sleeper_nb.maintain.compact import CompactionReport, merged_text
from sleeper_nb.report import Grid, Report, TableReport, counted, notes_line

logger = logging.getLogger(__name__)

NOTHING_DUE = "nothing due"
DELETED_TABLES = "(deleted tables)"
"""Stands for the name of a table in the report of a deletion that could not be finished."""
_COLUMNS = ("table", "step", "done")

Step = tuple[str, Callable[[], Report]]
"""A step of a table's maintenance: its name, and what runs it, or plans it."""


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


def _summary(report: Any) -> str:
    """Return what a step did, in a few words; empty when nothing was due."""
    parts = []
    if isinstance(report, SplitReport):
        verb = "would split" if report.dry_run else "split"
        return f"{verb} {counted(len(report.splits), 'leaf partition')}" if report.splits else ""
    if not isinstance(report, CompactionReport):
        return str(report.summary)
    if report.jobs:
        verb = "would merge" if report.dry_run else "merged"
        parts.append(f"{verb} {merged_text(report.jobs)} into {len(report.jobs):,}")
    if report.refused:
        parts.append(f"{counted(len(report.refused), 'job')} came too late")
    if report.blocked_by:
        parts.append(report.blocked_text if parts else f"{NOTHING_DUE}: {report.blocked_text}")
    return "; ".join(parts)


Proceed = Callable[[], bool]
"""Asked before each step: whether the run goes on. A step that has begun is finished."""


def always() -> bool:
    return True


def run_steps(table: str, steps: Iterable[Step], *, dry_run: bool, proceed: Proceed = always) -> MaintenanceReport:
    """Run one step after the other. The error of a step is part of its report; an interrupt ends the run."""
    return MaintenanceReport(tuple(_run_step(table, *step) for step in takewhile(lambda _: proceed(), steps)), dry_run)


def failed_step(table: str, step: str, error: Exception) -> StepReport:
    message = error.message if isinstance(error, SleeperError) else repr(error)
    logger.warning("table %s: the maintenance step %s failed: %s", table, step, message,
                   extra={"facts": {"event": "step fails", "table": table, "step": step}})  # fmt: skip
    return StepReport(table, step, f"failed: {message}", error=error)


def _run_step(table: str, name: str, run: Callable[[], Report]) -> StepReport:
    try:
        report = run()
    except Exception as error:  # noqa: BLE001 - the other steps are due all the same; the report has the error
        return failed_step(table, name, error)
    summary = _summary(report) or NOTHING_DUE
    logger.debug("table %s: the maintenance step %s: %s", table, name, summary)
    return StepReport(table, name, summary, report=report)
