"""Savepoints: pin a snapshot under an id and a name until it is deleted."""

from __future__ import annotations

from datetime import timedelta

from sleeper_nb.errors import NotFound, StorageError
from sleeper_nb.model.snapshots import Savepoint, Snapshot, check_savepoint_name
from sleeper_nb.operations.versioning.versions import Resolved
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.state_store.history import Metadata
from sleeper_nb.storage import paths


def create_savepoint(
    store: StateStore, saved: Resolved, *, name: str | None, message: str | None, author: str | None
) -> Savepoint:
    """Save a snapshot: the file ``savepoint/savepoint-<id>`` first, then the row that makes it count.

    The row is added on the condition that the snapshot is still retained, so a savepoint made while snapshots expire
    either fails or keeps its data. A crash in between leaves a file with an id that is never given again.
    """
    if name is not None:
        check_savepoint_name(name)
    snapshot = saved.version
    if not isinstance(snapshot, Snapshot):
        raise NotFound(f"snapshot {saved.snapshot_id} has expired", hint="it is saved already, see savepoints")
    metadata = Metadata.of(store.materialised(snapshot))
    assert metadata is not None  # noqa: S101 - it was written just now, if it was not there
    now = store.clock.now()
    savepoint = Savepoint(
        id=store.catalog.reserve_savepoint_id(store.table_id),
        saved_snapshot_id=snapshot.id,
        schema_id=snapshot.schema_id,
        full_manifest_list=metadata.files_path,
        partitions_path=metadata.partitions_path,
        record_count=snapshot.rows,
        save_time=now - timedelta(microseconds=now.microsecond % 1000),
        snapshot_time=snapshot.time,
        name=name,
        message=message,
        author=author,
    )
    path = paths.savepoint(savepoint.id)
    try:
        store.storage.write(path, savepoint.to_json().encode())
        store.catalog.add_savepoint(store.table_id, savepoint)
    except BaseException as error:
        # A failure or an interrupt can lose the answer, not the row.
        saved_it = savepoint.id in {kept.id for kept in store.catalog.savepoints(store.table_id)}
        if not saved_it:
            store.storage.delete(path)
        if not saved_it or not isinstance(error, StorageError):
            raise
    return savepoint


def delete_savepoint(store: StateStore, savepoint: Savepoint) -> None:
    """Delete a savepoint: its row first, then its file; what only it kept is then garbage."""
    store.catalog.delete_savepoint(store.table_id, savepoint.id, store.clock.now())
    store.storage.delete(paths.savepoint(savepoint.id))
