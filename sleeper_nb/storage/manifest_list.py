"""The metadata of a savepoint's lists of data files: which files they are, how large, and how much each lists."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.model.file_reference import READY_FOR_GC
from sleeper_nb.model.log_entries import replayed
from sleeper_nb.model.savepoints import ManifestFileMeta, SavedLog, Savepoint
from sleeper_nb.model.state import TableState
from sleeper_nb.storage import metadata_files, saved_log
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

    def read(self, savepoint: Savepoint) -> tuple[ManifestFileMeta, ...]:
        """Return the files that list the data files of a savepoint: one that lists them, and perhaps a log behind it.

        Raises
        ------
        NotFound, StorageError
            When one is not there, or damaged.
        """
        path, log = savepoint.full_manifest_list, savepoint.log
        files = metadata_files.read_files(self._storage, path, savepoint.files_checksum)
        waiting = pc.equal(files.table["status"], READY_FOR_GC)
        read = pc.unique(files.table["filename"].filter(pc.invert(waiting)))
        unread = _without(pc.unique(files.table["filename"].filter(waiting)), read)
        size = self._storage.size(path)
        schema_id = savepoint.schema_id if log is None else log.schema_id
        listed = ManifestFileMeta(path, size, len(read), len(unread), schema_id)
        return (listed,) if log is None else (listed, self._logged(savepoint, log, files, read))

    def _logged(self, savepoint: Savepoint, log: SavedLog, files: Any, before: Any) -> ManifestFileMeta:
        schema = metadata_files.read_schema(self._storage, log.schema_id, log.schema_checksum)
        expected = savepoint.partitions_checksum
        tree = metadata_files.read_partitions(self._storage, savepoint.partitions_path, schema, expected)
        start = TableState(log.after, log.schema_id, schema, tree, files)
        entries = saved_log.read(self._storage, log.path, log.checksum)
        after = pc.unique(replayed(start, entries).files.active["filename"])
        added, gone = _without(after, before), _without(before, after)
        return ManifestFileMeta(log.path, self._storage.size(log.path), len(added), len(gone), savepoint.schema_id)


def _without(names: pa.Array, others: pa.Array) -> pa.Array:
    return names.filter(pc.invert(pc.is_in(names, others)))
