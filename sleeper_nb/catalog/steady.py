"""Several answers of a catalog that were all true at one moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sleeper_nb.catalog.base import Catalog
from sleeper_nb.errors import ConflictError, NotFound
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot

MOST_LOOKS = 20

T = TypeVar("T")
Around = TypeVar("Around")


def steady(read: Callable[[], T], around: Callable[[], Around]) -> tuple[T, Around]:
    """Return two answers that were true at the same moment.

    `around` is read before and after `read`. When both times give the same, that was also the answer while `read` ran;
    otherwise both are read again. This needs no lock, and no writer waits for a reader.

    Raises
    ------
    ConflictError
        When `around` changed during each of 20 looks.
    """
    before = around()
    for _ in range(MOST_LOOKS):
        found, after = read(), around()
        if after == before:
            return found, after
        before = after
    raise ConflictError(
        f"the table changed during each of {MOST_LOOKS} looks at its metadata",
        hint="run it again when fewer writers commit at once",
    )


@dataclass(frozen=True, slots=True)
class Retained:
    """The versions of a table that can be read at one moment.

    Parameters
    ----------
    snapshots
        The retained snapshots, newest first; the first is the current one.
    savepoints
        The savepoints, oldest first.
    """

    snapshots: tuple[Snapshot, ...]
    savepoints: tuple[Savepoint, ...]

    @property
    def current(self) -> Snapshot:
        """The current snapshot."""
        return self.snapshots[0]


def retained(catalog: Catalog, table_id: str) -> Retained:
    """Return the snapshots and savepoints of a table at one moment.

    Raises
    ------
    NotFound
        When the table was deleted.
    """
    snapshots, savepoints = steady(lambda: catalog.snapshots(table_id), lambda: catalog.savepoints(table_id))
    if not snapshots:
        catalog.current(table_id)  # raises: a table that exists has a snapshot
        raise NotFound("no snapshot of the table is left in the catalog", hint="check tells what is damaged")
    return Retained(snapshots, savepoints)
