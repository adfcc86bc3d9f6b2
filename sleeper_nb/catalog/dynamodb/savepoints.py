"""Savepoints in DynamoDB: ids and names that are never given again, and the tie to a retained snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from sleeper_nb.catalog.base import deleted_meanwhile, lost_checkpoint
from sleeper_nb.catalog.checked_rows import SavepointRow, savepoint_checksum
from sleeper_nb.catalog.dynamodb.items import (
    DELETED,
    SAVEPOINT,
    SAVEPOINT_COUNTER,
    SAVEPOINT_NAME,
    SNAPSHOT,
    numbered,
    read_savepoint_item,
)
from sleeper_nb.catalog.dynamodb.rows import Rows
from sleeper_nb.errors import AlreadyExists, ConflictError, NotFound
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.retry import Retry

RETRY = Retry(max_attempts=40, first_wait=0.02, max_wait=1.0)


def reserve(rows: Rows) -> int:
    """Return the next id.

    The counter goes up by a transaction, not by DynamoDB's own adding: adding again after a lost answer would skip one.
    """
    for attempt in range(RETRY.max_attempts):
        if attempt:
            RETRY.wait(rows.db.clock, attempt)
        counter = rows.get(SAVEPOINT_COUNTER)
        if counter is None:
            part = rows.put(SAVEPOINT_COUNTER, {"last": 1}, new=True)
        else:
            change, condition = "SET #last = :next", "#last = :last"
            part = rows.update(SAVEPOINT_COUNTER, change, condition, next=counter["last"] + 1, last=counter["last"])
        if rows.db.transact([part]) is None:
            return int(counter["last"]) + 1 if counter else 1
    raise ConflictError(f"others made savepoints in between in each of {RETRY.max_attempts} tries", hint="run it again")


def add(rows: Rows, savepoint: Savepoint, beside: int | None = None) -> None:
    """Add a savepoint, and its id to the items of the snapshots that it builds on; none of those may have expired.

    With `beside` it builds on that savepoint instead, which must not be deleted.
    """
    body = savepoint.to_json()
    kept = {
        "id": savepoint.id,
        "files_path": savepoint.full_manifest_list,
        "partitions_path": savepoint.partitions_path,
        "log_path": savepoint.log and savepoint.log.path,
        "body": body,
        "checksum": savepoint_checksum(rows.owner, body),
    }
    retained = "attribute_exists(#item) AND attribute_not_exists(#expired)"
    ids = frozenset({savepoint.id})
    base = rows.update(numbered(SNAPSHOT, savepoint.saved_snapshot_id), "ADD #saved :ids", retained, ids=ids)
    if beside is not None:
        undeleted = "attribute_exists(#item) AND attribute_not_exists(#deleting)"
        base = rows.update(numbered(SAVEPOINT, beside), "ADD #saved :ids", undeleted, ids=ids)
    parts = [
        base,
        rows.put(numbered(SAVEPOINT, savepoint.id), kept, new=True),
        rows.absent(DELETED),
    ]
    if savepoint.name is not None:
        parts.append(rows.put(SAVEPOINT_NAME + savepoint.name, {"id": savepoint.id}, new=True))
    if savepoint.log is not None:
        listed = f"{retained} AND #files_path = :path"
        start = numbered(SNAPSHOT, savepoint.log.after)
        parts.append(rows.update(start, "ADD #saved :ids", listed, ids=ids, path=savepoint.full_manifest_list))
    lost = rows.db.transact(parts)
    if lost is None or (lost.parts[1] and (lost.items[1] or {}).get("body") == kept["body"]):
        return  # done now, or by an earlier try whose answer was lost
    if beside is not None and lost.parts[0]:
        raise deleted_meanwhile(beside)
    if lost.parts[0] or lost.parts[2]:
        raise NotFound(
            f"snapshot {savepoint.saved_snapshot_id} has expired, so it cannot be saved",
            hint="save a snapshot that history shows",
        )
    if lost.parts[1]:
        raise AlreadyExists(f"savepoint {savepoint.id} is there already", hint="reserve another id")
    if savepoint.log is not None and lost.parts[-1]:
        raise lost_checkpoint(savepoint.log.after)
    raise AlreadyExists(
        f"the savepoint name {savepoint.name!r} was used before",
        hint="choose another; the name of a deleted savepoint is never given again",
    )


def listed(rows: Rows) -> tuple[Savepoint, ...]:
    """Return the savepoints, oldest first; `CatalogDamaged` when an item was changed."""
    return tuple(row.checked() for row in read(rows))


def read(rows: Rows) -> Iterator[SavepointRow]:
    """Yield the rows of the savepoints, oldest first, also damaged ones."""
    found = rows.query(SAVEPOINT, where="attribute_not_exists(#deleting)")
    return (read_savepoint_item(item, rows.table.name) for item in found)


def given_ids(rows: Rows) -> range:
    """Return every id that was given out: no item tells of a savepoint that was deleted, or never added."""
    counter = rows.get(SAVEPOINT_COUNTER)
    return range(1, int(counter["last"]) + 1 if counter else 1)
