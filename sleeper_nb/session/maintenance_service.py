"""Maintenance of all tables of an instance: once, or round after round as a service that one process at a time runs.

A table that fails does not stop the others, and is tried again after 1, 2, 4 … at most 32 rounds. `MetricsFile` has the
metrics of the service, for a collector such as Prometheus' node exporter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from sleeper_nb.admin.delete import finish_deletions
from sleeper_nb.catalog.catalog_base import TableEntry
from sleeper_nb.clock import Clock
from sleeper_nb.engines.components import OpenTable
from sleeper_nb.errors import NotFound, SleeperError
from sleeper_nb.maintain.maintain import (
    DELETED_TABLES,
    NOTHING_DUE,
    MaintenanceReport,
    Proceed,
    StepReport,
    always,
    failed_step,
)
from sleeper_nb.maintain.maintenance_metrics import MaintenanceMetrics
from sleeper_nb.maintain.service_lease import MAINTENANCE, RENEWED_AFTER, HeldService
from sleeper_nb.model.jobs import ServiceLease
from sleeper_nb.report import counted
from sleeper_nb.session.table_opener import TableOpener
from sleeper_nb.storage.local import whole_file
from sleeper_nb.table.table_maintenance import maintain

if TYPE_CHECKING:
    from sleeper_nb.session.session import Session

logger = logging.getLogger(__name__)

_MOST_DOUBLINGS = 5


def maintain_each(
    tables: TableOpener, entries: Iterable[TableEntry], *, dry_run: bool, proceed: Proceed = always
) -> Iterator[tuple[TableEntry, tuple[StepReport, ...]]]:
    """Yield the steps of each table; a table that cannot be opened or maintained has one failed step.

    Tables that are deleted meanwhile are left out. `proceed` is asked before each step.
    """

    def run(table: OpenTable) -> tuple[StepReport, ...]:
        return maintain(table, dry_run=dry_run, proceed=proceed).steps

    for entry in entries:
        if not proceed():
            return
        try:
            yield entry, run(tables.open(entry))
        except NotFound as error:
            if tables.components.catalog.has_table(entry.id):
                yield entry, (failed_step(entry.name, MAINTENANCE, error),)
        except Exception as error:  # noqa: BLE001 - the other tables are due all the same; the report has the error
            yield entry, (failed_step(entry.name, MAINTENANCE, error),)


def finished_deletions(tables: TableOpener) -> tuple[StepReport, ...]:
    """Finish interrupted deletions of tables; return the failed step if that fails."""
    c = tables.components
    try:
        finish_deletions(c.catalog, c.property_files, c.clock)
    except Exception as error:  # noqa: BLE001 - the tables that are left are due all the same
        return (failed_step(DELETED_TABLES, "delete", error),)
    return ()


@runtime_checkable
class Stop(Protocol):
    """Tells a service to stop, as `threading.Event` does."""

    def is_set(self) -> bool:
        """Return whether to stop after the step that runs."""

    def wait(self, timeout: float) -> bool:
        """Wait for some seconds, or until the service is told to stop; return whether it is."""


@dataclass(frozen=True, slots=True)
class MaintenanceRound:
    """One round of the service."""

    report: MaintenanceReport  # what was done; without any step when another process holds the lease
    began: datetime  # UTC
    ended: datetime
    other: ServiceLease | None = None  # the lease of the other process that maintains the instance
    stopped: bool = False  # whether it was told to stop, so that tables or steps may be left
    waiting: tuple[str, ...] = ()  # tables that failed in earlier rounds, and were left out of this one

    @property
    def succeeded(self) -> bool:
        """Whether each step of each table that is online was run, and none failed."""
        return self.other is None and not (self.report.failed or self.stopped or self.waiting)


class MaintenanceService:
    """Maintains the tables of an instance while it holds the lease of the service.

    Parameters
    ----------
    tables
        The instance's tables.
    holder
        This process in words, for others.
    stop
        Told by a signal; the step that runs is finished.
    after_round
        Called after each round, while the lease is held, with whether it is kept; errors of the file system are logged.
    """

    def __init__(
        self, tables: TableOpener, holder: str, stop: Stop, after_round: Callable[[MaintenanceRound, bool], None]
    ) -> None:
        self._tables, self._stop, self._after_round = tables, stop, after_round
        self._lease = HeldService(tables.components.catalog, self._clock, MAINTENANCE, holder)
        self._backoff = BackOff()
        self._waits_for: str | None = None

    @property
    def _clock(self) -> Clock:
        return self._tables.components.clock

    def once(self) -> MaintenanceRound:
        """Do one round, and release the lease."""
        try:
            return self._round(keeps_lease=False)
        finally:
            self._release()

    def serve(self, every: timedelta) -> None:
        """Begin a round every so often until told to stop; an error of the catalog ends only its round."""
        try:
            while not self._stop.is_set():
                began = self._clock.now()
                pause = every
                try:
                    if self._round(keeps_lease=True).other is not None:
                        pause = min(every, RENEWED_AFTER)
                except SleeperError as error:
                    logger.error(  # noqa: TRY400 - a traceback says nothing about the network
                        "the round failed, and the next one tries again: %s", error.message, extra=_event("round fails")
                    )
                spent = self._clock.now() - began
                self._stop.wait(max(0.0, (pause - spent).total_seconds()))
            logger.info("stopping: a signal asked for it", extra=_event("stopping"))
        finally:
            self._release()

    def _round(self, *, keeps_lease: bool) -> MaintenanceRound:
        began = self._clock.now()
        other = self._lease.take()
        if other is None:
            self._waits_for = None
            done = self._maintain(began)
        else:
            if self._waits_for != other.owner:
                logger.info("standing by: %s maintains the instance", other.holder,
                            extra=_event("standing by", holder=other.holder))  # fmt: skip
            self._waits_for = other.owner
            done = MaintenanceRound(MaintenanceReport((), dry_run=False), began, began, other)
        try:
            self._after_round(done, keeps_lease and self._lease.held)
        except OSError as error:
            logger.error("cannot write the metrics: %s", error,  # noqa: TRY400 - its text has the path
                         extra=_event("metrics fail"))  # fmt: skip
        return done

    def _maintain(self, began: datetime) -> MaintenanceRound:
        steps = list(finished_deletions(self._tables))
        entries = self._tables.components.catalog.tables()
        online = [entry for entry in entries if entry.online]
        due = self._backoff.due(online)
        waiting = tuple(entry.name for entry in online if entry not in due)
        logger.info("round begins: %d of %s", len(due), counted(len(entries), "table"),
                    extra=_event("round begins", tables=len(due)))  # fmt: skip
        names = set()
        for entry, done in maintain_each(self._tables, due, dry_run=False, proceed=self._proceed):
            self._backoff.note(entry.id, failed=any(step.error is not None for step in done))
            names.add(entry.id)
            steps += done
            _log_steps(done)
        stopped = not self._proceed()
        ended, offline = self._clock.now(), tuple(entry.name for entry in entries if not entry.online)
        report = MaintenanceReport(tuple(steps), dry_run=False, offline=offline)
        seconds = (ended - began).total_seconds()
        logger.info("round ends: %s, %s failed, %.1f s", counted(len(names), "table"),
                    counted(len(report.failed), "step"), seconds,
                    extra=_event("round ends", tables=len(names), failed=len(report.failed), seconds=seconds,
                                 stopped=stopped, waiting=waiting))  # fmt: skip
        return MaintenanceRound(report, began, ended, stopped=stopped, waiting=waiting)

    def _proceed(self) -> bool:
        return not self._stop.is_set() and self._lease.held

    def _release(self) -> None:
        try:
            self._lease.release()
        except SleeperError as error:
            logger.warning("the lease could not be released, and ends by itself: %s", error.message)


class BackOff:
    """Tries a table that has failed again after 1 round, and then after 2, 4 … at most 32."""

    def __init__(self) -> None:
        self._failures: dict[str, int] = {}
        self._left_out: dict[str, int] = {}

    def due(self, entries: Collection[TableEntry]) -> tuple[TableEntry, ...]:
        """Return the tables of the next round."""
        known = {entry.id for entry in entries}
        self._failures = {each: count for each, count in self._failures.items() if each in known}
        waiting = {each for each in known if self._left_out.get(each, 0) > 0}
        self._left_out = {each: self._left_out[each] - 1 for each in waiting}
        return tuple(entry for entry in entries if entry.id not in waiting)

    def note(self, table_id: str, *, failed: bool) -> None:
        """Note the outcome of a table's round."""
        if not failed:
            self._failures.pop(table_id, None)
            return
        self._failures[table_id] = count = self._failures.get(table_id, 0) + 1
        self._left_out[table_id] = 2 ** min(count - 1, _MOST_DOUBLINGS) - 1


def _log_steps(steps: Iterable[StepReport]) -> None:
    for step in steps:
        facts = _event("step", table=step.table, step=step.step, summary=step.summary)
        if step.error is None and not step.summary.startswith(NOTHING_DUE):
            logger.info("table %s: %s: %s", step.table, step.step, step.summary, extra=facts)


def _event(event: str, **facts: object) -> dict[str, object]:
    """Return what a line of the log in JSON has besides its text."""
    return {"facts": {"event": event, **facts}}


class MetricsFile:
    """The file of metrics of a process, written after each round; without a path nothing is written.

    Its counters and times go on. A process that `stays` says that it stands by; one that ends leaves the file to the
    process that works.
    """

    def __init__(self, session: Session, path: Path | None, *, stays: bool) -> None:
        self._session, self._path, self._stays = session, path, stays
        self._metrics: MaintenanceMetrics | None = None
        self.failed = False

    @staticmethod
    def can_replace(path: Path) -> bool:
        """Return whether a file may be replaced: it is not there, is empty, or is a file of metrics."""
        text = _text_of(path)
        return not text.strip() or text.startswith("# HELP sleeper_")

    def write(self, done: MaintenanceRound, holds_lease: bool) -> None:
        """Write what was done, and how the tables are; `failed` says whether that raised an error."""
        if self._path is None or (done.other is not None and not self._stays):
            return
        self.failed = True
        metrics = self._metrics = self._metrics or self._resumed(self._path)
        metrics.holds_lease = holds_lease
        if done.other is None:
            metrics.count(done.report, done.began, done.ended, succeeded=done.succeeded)
            metrics.take(self._session.status())
        else:
            metrics.take(None)
        with whole_file(self._path) as file:
            file.write_text(metrics.text(), encoding="utf-8")
            file.chmod(0o644)  # a collector runs as another user
        self.failed = False

    def _resumed(self, path: Path) -> MaintenanceMetrics:
        metrics = MaintenanceMetrics(self._session.instance)
        metrics.resume(_text_of(path))  # only now that the lease is held, as another process may have written it
        return metrics


def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
