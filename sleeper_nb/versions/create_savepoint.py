"""Create a savepoint: pin a snapshot under an id and a name, so that it never expires until the savepoint is deleted.

The savepoint's file ``savepoint/savepoint-<id>`` is written first, then the catalog row that makes it exist. The row is
added on the condition that the snapshot is still retained, so a savepoint made while snapshots expire either fails or
keeps its data. A crash between the two steps leaves a file whose id is never used again.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sleeper_nb.errors import (
    SAVE_RETAINED,
    Action,
    AlreadyExists,
    ConflictError,
    Hint,
    NetworkError,
    NotFound,
    StorageError,
)
from sleeper_nb.model.savepoints import Savepoint, check_savepoint_name
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.state_store.history import Metadata
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.versions.resolve import Resolved

logger = logging.getLogger(__name__)


def save_current(store: StateStore, *, name: str | None, message: str | None, author: str | None) -> Savepoint:
    """Save the current version; if it expires in the meantime, the one after it. Otherwise as `create_savepoint`."""
    return store.on_head(
        lambda head: create_savepoint(store, Resolved(head), name=name, message=message, author=author)
    )


def create_savepoint(
    store: StateStore,
    saved: Resolved,
    *,
    name: str | None,
    message: str | None,
    author: str | None,
    periodic: bool = False,
) -> Savepoint:
    """Save a version, whose snapshot may have expired when another savepoint still keeps it.

    `NotFound` when the version is no longer retained. `AlreadyExists` when a savepoint has, or had, that name.
    """
    if name is not None:
        check_savepoint_name(name)
    version = saved.version
    _check_new(store, version, name)  # before an id is reserved: ids are never reused
    if isinstance(version, Savepoint):
        savepoint = _save_again(store, version, name=name, message=message, author=author, periodic=periodic)
    else:
        savepoint = _save_snapshot(store, version, name=name, message=message, author=author, periodic=periodic)
    logger.info("table %s: savepoint %d keeps snapshot %d", store.table_id, savepoint.id, savepoint.number)
    return savepoint


def _check_new(store: StateStore, version: Snapshot | Savepoint, name: str | None) -> None:
    if isinstance(version, Snapshot) and store.catalog.snapshot(store.table_id, version.id) is None:
        raise NotFound(f"snapshot {version.id} has expired, so it cannot be saved", hint=SAVE_RETAINED)
    if name is not None and store.catalog.is_savepoint_name_used(store.table_id, name):
        present = savepoint_named(store, name)
        hint: Hint = "choose another; the name of a deleted savepoint is never given again"
        if present is not None:
            kept = f"savepoint {present.id} of snapshot {present.saved_snapshot_id} has it; to keep that one: "
            hint = (kept, Action("--if-not-exists", "if_not_exists=True"))
        raise AlreadyExists(f"the savepoint name {name!r} was used before", hint=hint)


def savepoint_named(store: StateStore, name: str) -> Savepoint | None:
    return next((each for each in store.catalog.savepoints(store.table_id) if each.name == name), None)


def _save_snapshot(
    store: StateStore, snapshot: Snapshot, *, name: str | None, message: str | None, author: str | None, periodic: bool
) -> Savepoint:
    metadata = store.savable(snapshot)
    savepoint = Savepoint(
        id=store.catalog.reserve_savepoint_id(store.table_id),
        saved_snapshot_id=snapshot.id,
        schema_id=snapshot.schema_id,
        full_manifest_list=metadata.files_path,
        partitions_path=metadata.partitions_path,
        record_count=snapshot.rows,
        save_time=_to_the_millisecond(store.clock.now()),
        snapshot_time=snapshot.time,
        name=name,
        message=message,
        author=author,
        periodic=periodic,
        log=metadata.log,
        files_checksum=metadata.files_checksum,
        partitions_checksum=metadata.partitions_checksum,
        schema_checksum=snapshot.schema_checksum,
        processing=snapshot.processing,
    )
    try:
        _add(store, savepoint)
    except ConflictError:
        # The snapshot from which the savepoint's log starts has expired in the meantime; the saved one has not.
        logger.warning(
            "table %s: the log of savepoint %d starts at a snapshot that expired; saving full metadata instead",
            store.table_id,
            savepoint.id,
        )
        savepoint = _with_full_metadata(savepoint, Metadata.kept(store.materialised(snapshot)))
        _add(store, savepoint)
    return savepoint


def _save_again(
    store: StateStore, first: Savepoint, *, name: str | None, message: str | None, author: str | None, periodic: bool
) -> Savepoint:
    """Save a version whose snapshot has expired and that another savepoint still keeps.

    The new savepoint has metadata files of its own, so that either can be deleted first.
    """
    metadata = store.history.write(store.load(first), None, None)
    try:
        second = _with_full_metadata(
            first,
            metadata,
            id=store.catalog.reserve_savepoint_id(store.table_id),
            save_time=_to_the_millisecond(store.clock.now()),
            name=name,
            message=message,
            author=author,
            periodic=periodic,
        )
        _add(store, second, kept_by=first.id)
    except NotFound:
        # The first savepoint was deleted in the meantime. After any other error the row may exist: the files stay.
        store.history.discard(metadata.paths)
        raise
    return second


def _with_full_metadata(savepoint: Savepoint, metadata: Metadata, **changes: Any) -> Savepoint:
    return replace(
        savepoint,
        full_manifest_list=metadata.files_path,
        partitions_path=metadata.partitions_path,
        files_checksum=metadata.files_checksum,
        partitions_checksum=metadata.partitions_checksum,
        log=None,
        **changes,
    )


def _add(store: StateStore, savepoint: Savepoint, kept_by: int | None = None) -> None:
    """Write the savepoint's file, then its row; when the row was not added, delete the file again.

    `kept_by` is the id of the savepoint that must still keep the version; for None, its snapshot must be retained.
    """
    path = paths.savepoint(savepoint.id)
    try:
        store.storage.write(path, savepoint.to_json().encode())
        store.catalog.add_savepoint(store.table_id, savepoint, kept_by)
    except BaseException as error:
        # A failure or an interrupt can lose the answer although the row was added.
        was_added = savepoint.id in {kept.id for kept in store.catalog.savepoints(store.table_id)}
        # A request that the network lost may still arrive and name these files; if it does not, a sweep deletes them.
        if not was_added and not isinstance(error, NetworkError):
            store.storage.delete(path)
            if savepoint.log is not None:
                store.storage.delete(savepoint.log.path)
        if not was_added or not isinstance(error, StorageError):
            raise
        logger.warning("table %s: savepoint %d was added, but the answer was lost", store.table_id, savepoint.id)


def _to_the_millisecond(time: datetime) -> datetime:
    return time - timedelta(microseconds=time.microsecond % 1000)
