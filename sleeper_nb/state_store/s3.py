"""`S3StateStore`: each update writes new Parquet files with the full metadata; the catalog says which are current.

"S3" is any storage and "DynamoDB" any catalog, so this is also the embedded default. A commit costs time in proportion
to the number of files of the table; a compaction can have any number of inputs, as everything is rewritten anyway.
"""

from __future__ import annotations

from sleeper_nb.model.state import TableState
from sleeper_nb.state_store.base import Metadata, StateStore
from sleeper_nb.storage import metadata_files, paths


class S3StateStore(StateStore):
    """The full metadata of every snapshot, as one Parquet file for references and one for partitions."""

    def read(self, metadata: Metadata, snapshot_id: int, schema_id: int) -> TableState:
        schema = self.schema(schema_id)
        tree = metadata_files.read_partitions(self.storage, metadata.partitions_path, schema)
        files = metadata_files.read_files(self.storage, metadata.files_path)
        return TableState(snapshot_id, schema_id, schema, tree, files)

    def write(self, state: TableState, before: TableState | None, at: Metadata | None) -> Metadata:
        name = self.clock.new_id()
        if before is not None and at is not None and state.tree is before.tree:
            partitions_path = at.partitions_path
        else:
            partitions_path = paths.partitions_metadata(state.snapshot_id, name)
            metadata_files.write_partitions(self.storage, partitions_path, state.tree, state.schema)
        if before is not None and at is not None and state.files is before.files:
            files_path = at.files_path
        else:
            files_path = paths.files_metadata(state.snapshot_id, name)
            try:
                metadata_files.write_files(self.storage, files_path, state.files)
            except BaseException:
                if at is None or partitions_path != at.partitions_path:
                    self.storage.delete(partitions_path)
                raise
        return Metadata(files_path, partitions_path)
