"""Find and list the savepoints of a table: `list_savepoints`, and `SavepointManager` of the proposal for Paimon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sleeper_nb.arguments import checked
from sleeper_nb.catalog.catalog_base import retained
from sleeper_nb.errors import NotFound
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.report import Bytes, Listing
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.metadata import ManifestList
from sleeper_nb.versions.delete_savepoint import NOTHING_KEPT, kept_by_each

if TYPE_CHECKING:
    from sleeper_nb.table.table import Table


def list_savepoints(store: StateStore, table: str, *, with_bytes: bool) -> Listing[Savepoint]:
    """Return the savepoints of a table, oldest first; with the files and bytes that each alone keeps, on request."""
    if with_bytes:
        now = retained(store.catalog, store.table_id)
        savepoints, kept = now.savepoints, kept_by_each(store, now)
    else:
        savepoints, kept = store.catalog.savepoints(store.table_id), {}
    cells: list[tuple[object, ...]] = []
    for each in savepoints:
        made = "periodically" if each.periodic else "by hand"
        row: tuple[object, ...] = (
            each.id, each.name, each.saved_snapshot_id, each.record_count, each.save_time, made, each.author,
            each.message,
        )  # fmt: skip
        if with_bytes:
            alone = kept.get(each.id, NOTHING_KEPT)
            row += (alone.files, Bytes(alone.bytes))
        cells.append(row)
    columns: tuple[str, ...] = ("savepoint", "name", "snapshot", "rows", "save time", "made", "author", "message")
    if with_bytes:
        columns += ("keeps alone: files", "bytes")
    return Listing(savepoints, columns, tuple(cells), f"savepoints of {table}")


class SavepointManager:
    """Finds the savepoints of one table: ``SavepointManager(table)``, or ``table.savepoint_manager``.

    A savepoint exists when the catalog has its row. A file ``savepoint/savepoint-<id>`` without a row was left by an
    interrupted creation or deletion, and does not count. The file is written before the row and deleted after it, so
    every savepoint that exists has its file, for tools that do not know the catalog.
    """

    def __init__(self, table: Table) -> None:
        store = table._store  # noqa: SLF001 - no user needs it
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
            When it does not exist or was deleted; the hint names those that exist.
        """
        savepoints = self._all()
        for savepoint in savepoints:
            if savepoint.id == savepoint_id:
                return savepoint
        raise NotFound.of("savepoint", savepoint_id, [savepoint.id for savepoint in savepoints])

    @checked
    def savepoint_exists(self, savepoint_id: int) -> bool:
        """Return whether a savepoint was created and not deleted."""
        return any(savepoint.id == savepoint_id for savepoint in self._all())

    def earliest_savepoint_id(self) -> int | None:
        """Return the smallest id of all savepoints; None when there is no savepoint."""
        return min((savepoint.id for savepoint in self._all()), default=None)

    def latest_savepoint_id(self) -> int | None:
        """Return the greatest id of all savepoints; None when there is no savepoint."""
        return max((savepoint.id for savepoint in self._all()), default=None)

    def _all(self) -> tuple[Savepoint, ...]:
        return self._catalog.savepoints(self._table_id)
