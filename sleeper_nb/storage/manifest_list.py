"""The metadata of a version's list of data files: which Parquet file it is, how large, and how much it lists."""

from __future__ import annotations

import pyarrow.compute as pc

from sleeper_nb.model.file_reference import READY_FOR_GC
from sleeper_nb.model.savepoints import ManifestFileMeta
from sleeper_nb.storage import metadata_files
from sleeper_nb.storage.filesystem import Storage


class ManifestList:
    """Looks at the lists of data files in a table's folder.

    Parameters
    ----------
    storage
        The table's folder.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def read(self, full_manifest_list: str, schema_id: int) -> tuple[ManifestFileMeta, ...]:
        """Return the files that list the data files of a version: here always one, which lists them all.

        Raises
        ------
        NotFound, StorageError
            When it is not there, or damaged.
        """
        listed = metadata_files.read_files(self._storage, full_manifest_list).table.select(["filename", "status"])
        waiting = pc.equal(listed["status"], READY_FOR_GC)
        read = pc.unique(listed["filename"].filter(pc.invert(waiting)))
        left = pc.unique(listed["filename"].filter(waiting))
        unread = left.filter(pc.invert(pc.is_in(left, read)))
        size = self._storage.size(full_manifest_list)
        return (ManifestFileMeta(full_manifest_list, size, len(read), len(unread), schema_id),)
