"""Tables that the explorer holds open, and the last versions of them that were read; nothing is opened twice.

A click leads to several requests at once, which share one look at the catalog: whether the table's entry is still the
same. A version that is not held costs one more request, and its metadata is read once. Everything is read in process.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sleeper_nb.last_used import LastUsed
from sleeper_nb.widgets.row_grid_model import RowGridModel

if TYPE_CHECKING:
    from sleeper_nb.model.savepoints import RetainedVersions
    from sleeper_nb.session import Session
    from sleeper_nb.table import Table
    from sleeper_nb.table_at import TableAt

logger = logging.getLogger(__name__)

_HELD_TABLES: Final = 8
_HELD_VERSIONS: Final = 2
"""Of a table: the explorer compares two."""
_SAME_CLICK: Final = 1.0
"""Seconds in which requests about a table share one look at the catalog."""


class OpenTables:
    """Opens tables of a session and keeps them open; its methods can be called from several threads.

    `now` returns seconds that never go back.
    """

    def __init__(self, session: Session, now: Callable[[], float] = time.monotonic) -> None:
        self.session, self._now = session, now
        self._lock = threading.Lock()
        self._opened = LastUsed[str, _OpenTable](_HELD_TABLES)

    def names(self) -> tuple[str, ...]:
        """Return the names of all tables; this asks the catalog."""
        return self.session.table_names()

    def table(self, name: str) -> Table:
        """Return a table, which is opened again when it was renamed, dropped, made again or got other properties."""
        return self._open(name).table

    def at(self, name: str, version: int) -> TableAt:
        """Return a version of a table; the last two are kept. Raise `NotFound` for one that has expired."""
        return self._version(name, version).at

    def rows(self, name: str, version: int) -> RowGridModel:
        """Return what answers questions about the rows of a version."""
        return self._version(name, version).rows

    def versions(self, name: str) -> RetainedVersions:
        """Return the snapshots and savepoints of a table that can be read now; this asks the catalog."""
        return self.table(name).inspect.versions()

    def number(self, name: str, version: int | str) -> int:
        """Return the number of the version that ``12`` or ``"savepoint.half-year"`` names; this asks the catalog."""
        return self.table(name).at(version).resolved.snapshot_id

    def forget(self, name: str | None = None) -> None:
        """Let the next request about a table, or about any, look into the catalog."""
        for each in self._opened if name is None else (name,):
            if (held := self._opened.get(each)) is not None:
                held.looked = float("-inf")

    def _open(self, name: str) -> _OpenTable:
        with self._lock:
            held = self._opened.get(name)
            if held is not None and self._now() - held.looked < _SAME_CLICK:
                return held
            if held is None or held.table.inspect.has_changed():
                if held is not None:
                    logger.debug("table %s changed in the catalog; the explorer opens it again", name)
                held = self._opened.put(name, _OpenTable(self.session.table(name)))
            held.looked = self._now()
            return held

    def _version(self, name: str, version: int) -> _OpenVersion:
        opened = self._open(name)
        with opened.lock:
            held = opened.versions.get(version)
            if held is None:
                held = opened.versions.put(version, _OpenVersion(opened.table.at(version)))
        with held.lock:
            _ = held.at.state  # so that of two requests at once only one reads it
        return held


class _OpenTable:
    """A table as it was opened, when the catalog was asked about it last, and the versions that are held."""

    def __init__(self, table: Table) -> None:
        self.table, self.looked = table, float("-inf")
        self.versions = LastUsed[int, _OpenVersion](_HELD_VERSIONS)
        self.lock = threading.Lock()


class _OpenVersion:
    """A version, and what answers questions about its rows."""

    def __init__(self, at: TableAt) -> None:
        self.at, self.rows, self.lock = at, RowGridModel(at), threading.Lock()
