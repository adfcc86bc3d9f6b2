"""`SavepointManager`: where a table's savepoints are, and which there are (the proposal of savepoints for Paimon)."""

from __future__ import annotations

from typing import Protocol

from sleeper_nb.arguments import checked
from sleeper_nb.errors import NotFound
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.manifest_list import ManifestList


class HasStore(Protocol):
    """What a manager of savepoints is made of: a table (`sleeper_nb.table.Table`)."""

    @property
    def store(self) -> StateStore: ...  # noqa: D102 - what keeps the table's versions


class SavepointManager:
    """Finds the savepoints of one table: ``SavepointManager(table)``, or ``table.savepoint_manager``.

    The rows of the catalog are the truth: a file ``savepoint/savepoint-<id>`` without a row is of a creation that
    crashed, or of a deletion, and its savepoint does not exist. The file is written before the row and removed after
    it, so every savepoint that exists has its file, for tools that know nothing of the catalog.

    Parameters
    ----------
    table
        The table.
    """

    def __init__(self, table: HasStore) -> None:
        store = table.store
        self._catalog, self._table_id = store.catalog, store.table_id
        self.files = store.storage
        self.manifest_list = ManifestList(store.storage)

    def savepoint_directory(self) -> str:
        """Return the folder of the savepoints' files: an absolute path, or ``s3://bucket/…``."""
        return self.files.locate(paths.SAVEPOINTS)

    @checked
    def savepoint_path(self, savepoint_id: int) -> str:
        """Return the qualified path of a savepoint's file, whether the savepoint exists or not."""
        return self.files.locate(paths.savepoint(savepoint_id))

    @checked
    def savepoint(self, savepoint_id: int) -> Savepoint:
        """Return a savepoint.

        Raises
        ------
        NotFound
            When it does not exist, or no more; the hint says which do.
        """
        found = self._all()
        for savepoint in found:
            if savepoint.id == savepoint_id:
                return savepoint
        raise NotFound.of("savepoint", savepoint_id, [savepoint.id for savepoint in found])

    @checked
    def savepoint_exists(self, savepoint_id: int) -> bool:
        """Return whether a savepoint was made and not deleted."""
        return any(savepoint.id == savepoint_id for savepoint in self._all())

    def earliest_savepoint_id(self) -> int | None:
        """Return the least id of all savepoints; None when there is no savepoint."""
        return min((savepoint.id for savepoint in self._all()), default=None)

    def latest_savepoint_id(self) -> int | None:
        """Return the greatest id of all savepoints; None when there is no savepoint."""
        return max((savepoint.id for savepoint in self._all()), default=None)

    def _all(self) -> tuple[Savepoint, ...]:
        return self._catalog.savepoints(self._table_id)
