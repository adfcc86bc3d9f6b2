"""Reads and writes the versions of a table's state: Parquet metadata, or older metadata and the transaction log."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from sleeper_nb.catalog.catalog_base import Catalog, snapshot_not_kept, unknown_table_id
from sleeper_nb.clock import Clock
from sleeper_nb.errors import NetworkError, NotFound
from sleeper_nb.last_used import LastUsed
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.savepoints import SavedLog, Savepoint
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.storage import metadata as metadata_files
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage

logger = logging.getLogger(__name__)

_KEPT: Final = 8
"""How many states of a table are kept by snapshot id; they never change."""
REPLAYED_AT_MOST = 1000
"""The most entries replayed on a cached state; for more, a newer checkpoint is read."""
SAVED_LOG_BYTES = 4 << 20
"""The longest log of a savepoint; instead of a longer one, which each reader would replay, full metadata is written."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """Where the metadata of a version is, below the table's folder."""

    # files_path, partitions_path: Parquet files with all file references and all partitions
    files_path: str
    partitions_path: str
    # the transactions from the files to the version; None when the files are the version's own
    log: SavedLog | None = None
    # files_checksum, partitions_checksum: checksums of the two files; None where none was recorded
    files_checksum: str | None = None
    partitions_checksum: str | None = None

    @classmethod
    def of(cls, version: Snapshot | Savepoint) -> Metadata | None:
        if isinstance(version, Savepoint):
            lists = version.full_manifest_list, version.partitions_path
            return cls(*lists, version.log, version.files_checksum, version.partitions_checksum)
        if version.files_path is None or version.partitions_path is None:
            return None
        checksums = version.files_checksum, version.partitions_checksum
        return cls(version.files_path, version.partitions_path, None, *checksums)

    @classmethod
    def kept(cls, version: Snapshot | Savepoint) -> Metadata:
        """Return where the metadata of a version is that certainly has files, such as a checkpoint."""
        metadata = cls.of(version)
        assert metadata is not None  # noqa: S101 - a checkpoint has files, and so has a version that was just written
        return metadata

    def on(self, snapshot: Snapshot) -> Snapshot:
        return replace(
            snapshot,
            files_path=self.files_path,
            partitions_path=self.partitions_path,
            files_checksum=self.files_checksum,
            partitions_checksum=self.partitions_checksum,
        )

    @property
    def paths(self) -> frozenset[str]:
        return frozenset({self.files_path, self.partitions_path, *([self.log.path] if self.log else [])})


class History:
    """Reads and writes the versions of a table, and caches the last ones."""

    def __init__(self, table_id: str, catalog: Catalog, storage: Storage, clock: Clock) -> None:
        self._table_id, self._catalog, self._storage, self._clock = table_id, catalog, storage, clock
        self._schemas: dict[tuple[int, str | None], Schema] = {}
        self._last_tree: tuple[str, PartitionTree] | None = None
        self.states = LastUsed[int, TableState](_KEPT)

    def schema(self, schema_id: int, checksum: str | None = None) -> Schema:
        key = schema_id, checksum
        if key not in self._schemas:
            self._schemas[key] = metadata_files.read_schema(self._storage, schema_id, checksum)
        return self._schemas[key]

    def write_new_schema(self, make: Callable[[int], Schema], above: int) -> tuple[int, Schema]:
        """Write a schema under the next free id above the table's; return both.

        No id is used twice, since no process deletes the file of a greater one.
        """
        for schema_id in itertools.count(above + 1):
            schema = make(schema_id)
            if metadata_files.write_new_schema(self._storage, schema_id, schema):
                return schema_id, schema
        raise AssertionError

    def read(
        self, snapshot_id: int, schema_id: int, metadata: Metadata, schema_checksum: str | None = None
    ) -> TableState:
        """Return the state in metadata files, which must have the recorded checksums."""
        if metadata.log is not None:
            log = metadata.log
            entries = metadata_files.read_saved_log(self._storage, log.path, log.checksum)
            start = self.read(log.after, log.schema_id, replace(metadata, log=None), log.schema_checksum)
            return _replayed(start, entries)
        try:
            schema = self.schema(schema_id, schema_checksum)
            files = metadata_files.read_files(self._storage, metadata.files_path, metadata.files_checksum)
            return TableState(snapshot_id, schema_id, schema, self._tree(metadata, schema), files, schema_checksum)
        except NotFound:
            self._catalog.current(self._table_id)  # raises when the table was deleted
            raise

    def _tree(self, metadata: Metadata, schema: Schema) -> PartitionTree:
        """Return the tree of a partitions file; the last is cached, since many snapshots share one."""
        cached, path = self._last_tree, metadata.partitions_path
        if cached is None or cached[0] != path:
            tree = metadata_files.read_partitions(self._storage, path, schema, metadata.partitions_checksum)
            self._last_tree = cached = path, tree
        return cached[1]

    def replay(self, snapshot: Snapshot) -> TableState:
        """Return the state of a snapshot in the transaction log: an earlier state, and the entries since then."""
        before = max((number for number in self.states if number <= snapshot.id), default=None)
        state = None if before is None else self.states.get(before)
        if state is not None and snapshot.id - state.snapshot_id <= REPLAYED_AT_MOST:
            try:
                return _replayed(state, self._log(state.snapshot_id, snapshot))
            except NotFound:  # the log was cut, or starts, after the state
                logger.debug(
                    "table %s: the log no longer leads from snapshot %d to %d; reading a checkpoint",
                    *(self._table_id, state.snapshot_id, snapshot.id),
                )
        start = self._catalog.checkpoint(self._table_id, snapshot.id)
        while True:
            logger.debug("table %s: reading snapshot %d from checkpoint %d", self._table_id, snapshot.id, start.id)
            try:
                state = self.read(start.id, start.schema_id, Metadata.kept(start), start.schema_checksum)
                return _replayed(state, self._log(start.id, snapshot))
            except NotFound:  # the log may have been cut after a newer checkpoint in the meantime
                last, start = start, self._catalog.checkpoint(self._table_id, snapshot.id)
                if start.id == last.id:
                    raise

    def _log(self, after: int, until: Snapshot) -> tuple[bytes, ...]:
        return self._catalog.log(self._table_id, after, until.id)

    def write(self, state: TableState, before: TableState | None, at: Metadata | None) -> Metadata:
        """Write the metadata of `state` to new files, and return where it is.

        Only what differs from `before` is written; the rest stays in the files of `at`.
        """
        name = self._clock.new_id()
        if before is not None and at is not None and state.tree is before.tree:
            partitions_path, partitions_checksum = at.partitions_path, at.partitions_checksum
        else:
            partitions_path = paths.partitions_metadata(state.snapshot_id, name)
            partitions_checksum = metadata_files.write_partitions(
                self._storage, partitions_path, state.tree, state.schema
            )
        if before is not None and at is not None and state.files is before.files:
            return Metadata(at.files_path, partitions_path, None, at.files_checksum, partitions_checksum)
        files_path = paths.files_metadata(state.snapshot_id, name)
        try:
            files_checksum = metadata_files.write_files(self._storage, files_path, state.files)
        except BaseException:
            if at is None or partitions_path != at.partitions_path:
                self._storage.delete(partitions_path)
            raise
        return Metadata(files_path, partitions_path, None, files_checksum, partitions_checksum)

    def keep_schema(self, state: TableState) -> None:
        """Write the file of a state's schema again if it is missing: the log has the schema, other metadata has not.

        `StorageError` when the file is there, but is another; or when the state has another schema than its version
        had. `NotFound` when the table was deleted in the meantime; no file is left.
        """
        if not self._storage.has(paths.schema(state.schema_id)):
            metadata_files.write_new_schema(self._storage, state.schema_id, state.schema)
            if not self._catalog.has_table(self._table_id):  # or its deletion deletes the file
                self._storage.delete(paths.schema(state.schema_id))
                raise unknown_table_id(self._table_id)
            logger.warning(
                "table %s: the file of schema %d was gone, and is written again", self._table_id, state.schema_id
            )
        metadata_files.read_schema(self._storage, state.schema_id, state.schema_checksum)

    def materialised(self, snapshot: Snapshot, state: TableState) -> Snapshot:
        """Return a snapshot with full Parquet metadata, which is written first when missing.

        `NotFound` when the snapshot has expired in the meantime; no file is left.
        """
        if Metadata.of(snapshot) is not None:
            return snapshot
        self.keep_schema(state)
        written = self.write(state, None, None)
        try:
            if self._catalog.materialise(self._table_id, with_files := written.on(snapshot)):
                logger.info("table %s: wrote a checkpoint at snapshot %d", self._table_id, snapshot.id)
                return with_files
        except NetworkError:  # the request may still arrive and name the files; otherwise a sweep deletes them
            logger.warning(
                "table %s: no answer about the checkpoint at snapshot %d; its files stay", self._table_id, snapshot.id
            )
            raise
        except BaseException:
            self._discard_unless_named(snapshot, written)
            raise
        logger.debug("table %s: snapshot %d has a checkpoint already, or has expired", self._table_id, snapshot.id)
        self.discard(written.paths)
        return self.retained(snapshot.id)

    def retained(self, snapshot_id: int) -> Snapshot:
        """Return a snapshot as the catalog has it now; `NotFound` when it has expired, or the table was deleted."""
        found = next((each for each in self._catalog.snapshots(self._table_id) if each.id == snapshot_id), None)
        if found is None:
            raise snapshot_not_kept(snapshot_id)
        return found

    def _discard_unless_named(self, snapshot: Snapshot, written: Metadata) -> None:
        """Delete what was written, unless the catalog names it and only its answer was lost."""
        try:  # the snapshot may have expired since, and later ones may be read through it
            named = Metadata.of(self._catalog.checkpoint(self._table_id, snapshot.id))
        except NotFound:
            named = None
        if written != named:
            self.discard(written.paths)

    def logged(self, snapshot: Snapshot) -> Metadata | None:
        """Return metadata of a snapshot in the transaction log: the checkpoint before it, and the log since then.

        That part of the log is written to a file of its own, so that the log can be cut. Returns None, and writes
        nothing, when it is too long, or when the checkpoint has expired and may be deleted at any time.
        """
        start = self._catalog.checkpoint(self._table_id, snapshot.id)
        metadata = Metadata.kept(start)
        if start.id == snapshot.id:  # it was written in the meantime
            return metadata
        if self._catalog.snapshot(self._table_id, start.id) is None:
            return None
        try:
            entries = self._log(start.id, snapshot)
        except NotFound:  # it was cut after a newer checkpoint in the meantime
            return None
        if sum(map(len, entries)) > SAVED_LOG_BYTES:
            return None
        path = paths.log_metadata(snapshot.id, self._clock.new_id())
        checksum = metadata_files.write_saved_log(self._storage, path, entries)
        return replace(metadata, log=SavedLog(path, start.id, start.schema_id, checksum, start.schema_checksum))

    def discard(self, written: Iterable[str]) -> None:
        for path in written:
            self._storage.delete(path)


def _replayed(state: TableState, entries: Iterable[bytes]) -> TableState:
    from sleeper_nb.model.transactions import replayed  # a state in metadata files needs no transaction

    return replayed(state, entries)
