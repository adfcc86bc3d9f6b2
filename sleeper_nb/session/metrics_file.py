"""The file of metrics of the maintenance service, for a collector such as Prometheus' node exporter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sleeper_nb.maintain.maintenance_metrics import MaintenanceMetrics
from sleeper_nb.session.maintenance_service import MaintenanceRound
from sleeper_nb.storage.local import whole_file

if TYPE_CHECKING:
    from sleeper_nb.session.session import Session


class MetricsFile:
    """The file of metrics of a process, written after each round; without a path nothing is written.

    Parameters
    ----------
    session
        Gives the status of the tables.
    path
        The file; its counters and times go on.
    stays
        Whether the process stays, and says that it stands by. One that ends leaves the file to the process that works.
    """

    def __init__(self, session: Session, path: Path | None, *, stays: bool) -> None:
        self._session, self._path, self._stays = session, path, stays
        self._metrics: MaintenanceMetrics | None = None
        self.failed = False

    @staticmethod
    def can_replace(path: Path) -> bool:
        """Return whether a file may be replaced: it is not there, or is a file of metrics."""
        return MaintenanceMetrics.can_replace(_text_of(path))

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
