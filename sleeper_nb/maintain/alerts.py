"""Alerts: what is wrong with the tables of an instance, by level, for programs that watch it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sleeper_nb.maintain.status import TableStatus
from sleeper_nb.model.jobs import Job, ServiceLease
from sleeper_nb.read.job_tracking import has_failed
from sleeper_nb.report import Bytes, Grid, TableReport, counted

AlertLevel = Literal["warn", "error"]
"""``warn``: a step of maintenance is overdue, or a decision is needed. ``error``: something failed."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One thing that is wrong with a table."""

    level: AlertLevel
    table: str
    what: str


def alerts_of(status: TableStatus, jobs: Sequence[Job]) -> tuple[Alert, ...]:
    """Return what is wrong with a table, errors first. Pure.

    Parameters
    ----------
    jobs
        All its jobs that are kept, newest first; unfinished ones of dead processes have a reason (`jobs_of`).
    """
    compactions = (job for job in jobs if job.kind == "compaction" and (job.ended or has_failed(job)))
    newest, name = next(compactions, None), status.table
    alerts = list[Alert]()
    if newest is not None and has_failed(newest):
        alerts.append(Alert("error", name, f"the newest compaction failed: {newest.reason}"))
    if not status.online:
        alerts.append(Alert("warn", name, "offline: maintenance leaves it alone"))
    alerts += (Alert("warn", name, f"properties: {note}") for note in status.notes)
    alerts += (Alert("warn", name, f"{step.command} is overdue: {step.why}") for step in status.overdue)
    return tuple(alerts)


@dataclass(frozen=True, slots=True, repr=False)
class InstanceStatus(TableReport):
    """The status of the tables of an instance, and what is wrong with them.

    Parameters
    ----------
    instance
        Its name.
    tables
        The status of each table that could be read.
    alerts
        What is wrong.
    maintained_by
        The lease of the maintenance service; None when no process holds it.
    """

    instance: str
    tables: tuple[TableStatus, ...]
    alerts: tuple[Alert, ...]
    maintained_by: ServiceLease | None = None

    def of_level(self, level: AlertLevel) -> tuple[Alert, ...]:
        """Return the alerts of a level and of those above it."""
        return tuple(alert for alert in self.alerts if level == "warn" or alert.level == "error")

    def grid(self) -> Grid:
        """Return a row for each table, and one for each alert."""
        sizes = {each.table: (each.rows, each.files, Bytes(each.bytes)) for each in self.tables}
        wrong: dict[str, list[tuple[object, ...]]] = {name: [] for name in sizes}
        for alert in self.alerts:
            wrong.setdefault(alert.table, []).append((alert.level, alert.what))
        rows = [
            (name, *sizes.get(name, (None, None, None)), *alert)
            for name, alerts in wrong.items()
            for alert in alerts or [("ok", "")]
        ]
        columns = ("table", "rows", "files", "size", "level", "what")
        return Grid(columns, tuple(rows), f"status of {counted(len(wrong), 'table')}", self._footer)

    @property
    def _footer(self) -> str:
        lease = self.maintained_by
        if lease is None:
            return "no maintenance service is running"
        return f"maintained by {lease.holder} since {lease.since:%Y-%m-%d %H:%M:%S} UTC"

    def to_dict(self) -> dict[str, Any]:
        """Return numbers, texts and times only, as JSON can have them; times are in UTC."""
        lease = self.maintained_by
        return {
            "instance": self.instance,
            "level": "error" if self.of_level("error") else "warn" if self.alerts else "ok",
            "alerts": [{"level": each.level, "table": each.table, "what": each.what} for each in self.alerts],
            "tables": [_facts(each) for each in self.tables],
            "maintained_by": None
            if lease is None
            else {"holder": lease.holder, "since": lease.since.isoformat(), "until": lease.until.isoformat()},
        }


def _facts(status: TableStatus) -> dict[str, Any]:
    numbers = (
        "files", "references", "leaves", "rows", "bytes", "metadata_files", "metadata_bytes", "snapshots",
        "savepoints", "log_length", "claims", "waiting_files", "waiting_bytes", "waiting_metadata",
    )  # fmt: skip
    return {
        "table": status.table,
        "online": status.online,
        "snapshot": status.snapshot.id,
        "time": status.snapshot.time.isoformat(),
        **{name: getattr(status, name) for name in numbers},
        "due": [{"step": step.command, "why": step.why} for step in status.next_steps],
        "overdue": [{"step": step.command, "why": step.why} for step in status.overdue],
    }
