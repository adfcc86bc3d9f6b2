"""Metrics of maintenance in the text format of Prometheus: counters of the service, and gauges of the tables."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sleeper_nb.maintain.maintain import DELETED_TABLES, NOTHING_DUE, MaintenanceReport
from sleeper_nb.maintain.status import InstanceStatus, TableStatus

_GAUGES = {
    "rows": ("rows", "Rows of the current snapshot."),
    "bytes": ("bytes", "Bytes of the current snapshot's data files."),
    "files": ("files", "Data files of the current snapshot."),
    "leaves": ("leaves", "Leaf partitions."),
    "snapshots": ("snapshots", "Snapshots that are retained."),
    "savepoints": ("savepoints", "Savepoints."),
    "waiting_files": ("unused_files", "Data files that no version needs and that still exist."),
    "waiting_bytes": ("unused_bytes", "Bytes of unused data files."),
}
_SAMPLE = re.compile(r"sleeper_(\w+)\{(.*)\} (\S+)")
_LATEST = 1e11
"""Seconds since 1970 that a time can have; more was not written by us."""
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(slots=True)
class MaintenanceMetrics:
    """What the processes that write one file have done, and how the tables are."""

    instance: str
    holds_lease: bool = False
    rounds: int = 0
    failed_rounds: int = 0  # in which something failed
    began: datetime | None = None
    ended: datetime | None = None
    succeeded: datetime | None = None  # the end of the newest round that did all steps of all tables that are online
    steps: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # by table, step and outcome
    tables: tuple[TableStatus, ...] = ()
    unreadable: tuple[str, ...] = ()

    def resume(self, text: str) -> None:
        """Go on from the counters and times of an earlier text; from none when it is about another instance."""
        samples = [each for each in _samples(text) if each[1].get("instance") == self.instance]
        times = dict[str | None, datetime]()
        for name, labels, value in samples:
            if name == "maintenance_rounds_total":
                self.rounds = int(value)
            elif name == "maintenance_failed_rounds_total":
                self.failed_rounds = int(value)
            elif name == "maintenance_round_timestamp_seconds" and 0 < value < _LATEST:
                times[labels.get("event")] = datetime.fromtimestamp(value, UTC)
            elif name == "maintenance_steps_total" and {"table", "step", "outcome"} <= labels.keys():
                self.steps[labels["table"], labels["step"], labels["outcome"]] = int(value)
        self.began, self.ended, self.succeeded = (times.get(each) for each in ("began", "ended", "succeeded"))

    def count(self, report: MaintenanceReport, began: datetime, ended: datetime, *, succeeded: bool) -> None:
        """Add a round that has ended."""
        self.rounds, self.began, self.ended = self.rounds + 1, began, ended
        if report.failed:
            self.failed_rounds += 1
        if succeeded:
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
        if status is not None:
            kept = {*names, *self.unreadable, DELETED_TABLES}
            self.steps = Counter({each: count for each, count in self.steps.items() if each[0] in kept})

    def text(self) -> str:
        return "".join(f"{line}\n" for line in (*self._of_service(), *self._of_tables()))

    def _of_service(self) -> Iterator[str]:
        yield from self._family("maintenance_lease_held", "gauge", "Whether this process holds the lease.",
                                [({}, int(self.holds_lease))])  # fmt: skip
        yield from self._family("maintenance_rounds_total", "counter", "Rounds that ended.", [({}, self.rounds)])
        yield from self._family("maintenance_failed_rounds_total", "counter", "Rounds in which something failed.",
                                [({}, self.failed_rounds)])  # fmt: skip
        times = {"began": self.began, "ended": self.ended, "succeeded": self.succeeded}
        samples = [({"event": name}, time.timestamp()) for name, time in times.items() if time is not None]
        if self.rounds and self.succeeded is None:
            samples.append(({"event": "succeeded"}, 0.0))
        yield from self._family("maintenance_round_timestamp_seconds", "gauge", "When the newest round began and "
                                "ended, and the newest that did all that is due ended; 0: none.", samples)  # fmt: skip
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


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for line in text.split("\n"):
        sample = _SAMPLE.fullmatch(line)
        try:
            value = math.nan if sample is None else float(sample[3])
        except ValueError:
            continue
        if sample is not None and math.isfinite(value):
            yield sample[1], {name: _unescaped(label) for name, label in _LABEL.findall(sample[2])}, value


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], value)
