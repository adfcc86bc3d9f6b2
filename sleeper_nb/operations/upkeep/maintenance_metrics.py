"""Metrics of maintenance in the text format of Prometheus: counters of the service, and gauges of the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sleeper_nb.operations.alerts import InstanceStatus
from sleeper_nb.operations.status import TableStatus
from sleeper_nb.operations.upkeep.maintain import NOTHING_DUE, MaintenanceReport

_GAUGES = {
    "rows": ("rows", "Rows of the current snapshot."),
    "bytes": ("bytes", "Bytes of the current snapshot's data files."),
    "files": ("files", "Data files of the current snapshot."),
    "leaves": ("leaves", "Leaf partitions."),
    "snapshots": ("snapshots", "Snapshots that are retained."),
    "savepoints": ("savepoints", "Savepoints."),
    "waiting_files": ("unused_files", "Data files that no version needs and that still exist."),
    "waiting_bytes": ("unused_bytes", "Their size."),
}


@dataclass(slots=True)
class MaintenanceMetrics:
    """What one process has done, and how the tables are.

    Parameters
    ----------
    instance
        The label of each sample.
    holds_lease
        Whether the process holds the lease of the service.
    rounds, failed_rounds
        Rounds that ended, and those of them in which something failed.
    began, ended, succeeded
        When the newest round began and ended, and when the newest round without a failure ended.
    steps
        How many steps there were by table, step and outcome.
    tables
        The status of each table; empty before the first round.
    unreadable
        Tables whose status could not be read.
    """

    instance: str
    holds_lease: bool = False
    rounds: int = 0
    failed_rounds: int = 0
    began: datetime | None = None
    ended: datetime | None = None
    succeeded: datetime | None = None
    steps: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    tables: tuple[TableStatus, ...] = ()
    unreadable: tuple[str, ...] = ()

    def count(self, report: MaintenanceReport, began: datetime, ended: datetime) -> None:
        """Add a round that has ended."""
        self.rounds, self.began, self.ended = self.rounds + 1, began, ended
        if report.failed:
            self.failed_rounds += 1
        else:
            self.succeeded = ended
        for step in report.steps:
            is_idle = step.summary.startswith(NOTHING_DUE)
            outcome = "failed" if step.error is not None else "nothing_due" if is_idle else "done"
            self.steps[step.table, step.step, outcome] += 1

    def take(self, status: InstanceStatus | None) -> None:
        """Replace the status of all tables; None where another process watches them."""
        known = () if status is None else status.tables
        names = {each.table for each in known}
        wrong = () if status is None else status.of_level("error")
        self.tables, self.unreadable = known, tuple(sorted({each.table for each in wrong} - names))

    def text(self) -> str:
        """Return all samples, each metric with its help and type."""
        return "".join(f"{line}\n" for line in (*self._of_service(), *self._of_tables()))

    def _of_service(self) -> Iterator[str]:
        yield from self._family("maintenance_lease_held", "gauge", "Whether this process holds the lease.",
                                [({}, int(self.holds_lease))])  # fmt: skip
        yield from self._family("maintenance_rounds_total", "counter", "Rounds that ended.", [({}, self.rounds)])
        yield from self._family("maintenance_failed_rounds_total", "counter", "Rounds in which something failed.",
                                [({}, self.failed_rounds)])  # fmt: skip
        times = {"began": self.began, "ended": self.ended, "succeeded": self.succeeded}
        samples = [({"event": name}, time.timestamp()) for name, time in times.items() if time is not None]
        yield from self._family("maintenance_round_timestamp_seconds", "gauge", "When the newest round began and "
                                "ended, and the newest without a failure ended.", samples)  # fmt: skip
        steps = sorted(self.steps.items())
        yield from self._family("maintenance_steps_total", "counter", "Steps that ended.", [
            ({"table": table, "step": step, "outcome": outcome}, count) for (table, step, outcome), count in steps
        ])  # fmt: skip

    def _of_tables(self) -> Iterator[str]:
        readable = [({"table": each.table}, 1) for each in self.tables]
        readable += [({"table": name}, 0) for name in self.unreadable]
        yield from self._family("table_readable", "gauge", "Whether the status could be read.", readable)
        online = [({"table": each.table}, int(each.online)) for each in self.tables]
        yield from self._family("table_online", "gauge", "Whether maintenance may change the table.", online)
        for name, (metric, text) in _GAUGES.items():
            samples = [({"table": each.table}, getattr(each, name)) for each in self.tables]
            yield from self._family(f"table_{metric}", "gauge", text, samples)
        overdue = [({"table": each.table, "step": step.command}, 1) for each in self.tables for step in each.overdue]
        yield from self._family("table_step_overdue", "gauge", "Steps of maintenance that are overdue.", overdue)

    def _family(
        self, name: str, kind: str, text: str, samples: Iterable[tuple[Mapping[str, str], float]]
    ) -> Iterator[str]:
        lines = [
            f"sleeper_{name}{{{_labels({'instance': self.instance, **labels})}}} {value}" for labels, value in samples
        ]
        if lines:
            yield f"# HELP sleeper_{name} {text}"
            yield f"# TYPE sleeper_{name} {kind}"
            yield from lines


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
