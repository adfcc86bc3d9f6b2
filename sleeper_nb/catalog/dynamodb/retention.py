"""Which versions a table keeps in DynamoDB: snapshots, savepoints, leases, and the removal of expired versions.

Removing versions changes many items, so each step leaves a state that the next run completes. Why that is safe:

1. An item to remove is marked first: a snapshot `expired`, a savepoint `deleting`. A mark is never taken back. From
   then on no reader sees it, and a savepoint of an expired snapshot is refused, since adding one writes to the
   snapshot's item. The current snapshot is never marked: only ids below the newest are, and those can never be
   current again.
2. Then all snapshots and savepoints are read. A savepoint that was added before the mark is among them: its id is on
   its snapshot's item, and is waited for when the savepoint is not visible yet. So a file that nothing unmarked names
   now is never named again: a commit reuses only files that the current snapshot names.
3. Such metadata files become garbage before the items that name them go. A crash in between repeats the step, which
   changes nothing.
4. Of two processes that mark at once and read later, at least the second to read sees both marks; so nothing is left.

A lease is written first, and its version is looked at afterwards: when that is still kept, a process that removes it
later and then reads the leases finds this one. So a garbage collection that does not see the version sees the lease. It
releases leases that have ended before it reads the others: while another reader's lease exists, the files do too.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from sleeper_nb.catalog.catalog_base import (
    checkpoint_expired,
    savepoint_deleted,
    savepoint_name_used,
    snapshot_not_kept,
    snapshot_not_saved,
)
from sleeper_nb.catalog.checked_rows import SavepointRow, row_of, savepoint_checksum, value_of
from sleeper_nb.catalog.dynamodb.client import Rows
from sleeper_nb.catalog.dynamodb.items import (
    DELETED,
    GARBAGE,
    LEASE,
    LOG,
    SAVEPOINT,
    SAVEPOINT_COUNTER,
    SAVEPOINT_NAME,
    SNAPSHOT,
    Item,
    numbered,
    paths_of,
    read_savepoint_item,
    read_snapshot_item,
)
from sleeper_nb.clock import Retry
from sleeper_nb.errors import AlreadyExists, ConflictError
from sleeper_nb.model.jobs import Lease
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot, to_micros

logger = logging.getLogger(__name__)

# Snapshots, as their items have them.


def to_snapshot(rows: Rows, item: Item) -> Snapshot:
    return read_snapshot_item(item, rows.table.name).checked()


def snapshot_rows(rows: Rows) -> list[Item]:
    """Return the items of all snapshots, including expired ones, newest first; none of a deleted table.

    The snapshots of one commit can become visible one after another; those of the newest one's commit are waited for.
    """
    snapshots = list(rows.query(SNAPSHOT, newest_first=True))
    if not snapshots or snapshots[0]["item"] == DELETED:
        return []
    newest = snapshots[0]
    unseen = set(range(newest["first"], newest["id"])) - {row["id"] for row in snapshots}
    snapshots += rows.settled(numbered(SNAPSHOT, number) for number in sorted(unseen))
    return sorted(snapshots, key=lambda row: -row["id"])


def snapshot_row(rows: Rows, snapshot_id: int) -> Item | None:
    """Return the item of a snapshot, expired or not; one of a commit that is being made is waited for."""
    name = numbered(SNAPSHOT, snapshot_id)
    return rows.get(name) or next(iter(rows.settled([name])), None)


def snapshot_row_as_of(rows: Rows, micros: int, page: int) -> Item | None:
    """Return the item of the newest retained snapshot at or before a moment, in microseconds since 1970.

    The snapshots of one commit can become visible one after another, so the next one is looked for again.
    """
    where = "#time <= :micros AND attribute_not_exists(#expired)"
    newest = next(rows.query(SNAPSHOT, newest_first=True, where=where, page=page, micros=micros), None)
    while newest is not None:
        following = snapshot_row(rows, newest["id"] + 1)
        if following is None or following.get("expired") or following["time"] > micros:
            return newest
        newest = following
    return None


# Savepoints: ids and names are never used again, and each is tied to a retained snapshot.

RETRY = Retry(max_attempts=40, first_wait=0.02, max_wait=1.0)


def reserve_savepoint_id(rows: Rows) -> int:
    """Return the next savepoint id.

    A conditional update counts, not DynamoDB's ADD: repeating an ADD after a lost answer would skip an id.
    """
    for attempt in RETRY.attempts(rows.db.clock):
        counter = rows.get(SAVEPOINT_COUNTER)
        if counter is None:
            part = rows.put(SAVEPOINT_COUNTER, {"last": 1}, new=True)
        else:
            change, condition = "SET #last = :next", "#last = :last"
            part = rows.update(SAVEPOINT_COUNTER, change, condition, next=counter["last"] + 1, last=counter["last"])
        if rows.db.transact([part]) is None:
            return int(counter["last"]) + 1 if counter else 1
        logger.info("table %s: another writer created a savepoint first, attempt %d", rows.owner, attempt + 1)
    raise ConflictError(
        f"other writers created savepoints during each of {RETRY.max_attempts} attempts", hint="run it again"
    )


def add_savepoint(rows: Rows, savepoint: Savepoint, extra_of: int | None = None) -> None:
    """Add a savepoint, and its id to the items of the snapshots that it depends on; none of them may have expired.

    With `extra_of` it depends on that savepoint instead, which must not be deleted.
    """
    body = savepoint.to_json()
    item = {
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
    if extra_of is not None:
        undeleted = "attribute_exists(#item) AND attribute_not_exists(#deleting)"
        base = rows.update(numbered(SAVEPOINT, extra_of), "ADD #saved :ids", undeleted, ids=ids)
    parts = [
        base,
        rows.put(numbered(SAVEPOINT, savepoint.id), item, new=True),
        rows.absent(DELETED),
    ]
    if savepoint.name is not None:
        parts.append(rows.put(SAVEPOINT_NAME + savepoint.name, {"id": savepoint.id}, new=True))
    if savepoint.log is not None:
        unchanged = f"{retained} AND #files_path = :path"
        start = numbered(SNAPSHOT, savepoint.log.after)
        parts.append(rows.update(start, "ADD #saved :ids", unchanged, ids=ids, path=savepoint.full_manifest_list))
    lost = rows.db.transact(parts)
    if lost is None or (lost.parts[1] and (lost.items[1] or {}).get("body") == body):
        return  # written now, or by an earlier attempt whose answer was lost
    if extra_of is not None and lost.parts[0]:
        raise savepoint_deleted(extra_of)
    if lost.parts[0] or lost.parts[2]:
        raise snapshot_not_saved(savepoint.saved_snapshot_id)
    if lost.parts[1]:
        raise AlreadyExists(f"savepoint {savepoint.id} already exists", hint="reserve another id")
    if savepoint.log is not None and lost.parts[-1]:
        raise checkpoint_expired(savepoint.log.after)
    raise savepoint_name_used(savepoint.name)


def listed_savepoints(rows: Rows) -> tuple[Savepoint, ...]:
    return tuple(row.checked() for row in savepoint_rows(rows))


def savepoint_rows(rows: Rows) -> Iterator[SavepointRow]:
    for item in rows.query(SAVEPOINT, where="attribute_not_exists(#deleting)"):
        yield read_savepoint_item(item, rows.table.name)


def reserved_savepoint_ids(rows: Rows) -> range:
    """Return every reserved id; a savepoint that was deleted, or never added, has no item."""
    counter = rows.get(SAVEPOINT_COUNTER)
    return range(1, int(counter["last"]) + 1 if counter else 1)


# Leases of readers.


def add_lease(rows: Rows, lease: Lease) -> None:
    rows.write_each({LEASE + lease.id: row_of(lease)})
    if not _is_kept(rows, lease):
        logger.info("table %s: lease %s is for snapshot %d, which has expired", rows.owner, lease.id, lease.snapshot_id)
        rows.write_each({}, [LEASE + lease.id])
        raise snapshot_not_kept(lease.snapshot_id)
    logger.debug("table %s: lease %s on snapshot %d", rows.owner, lease.id, lease.snapshot_id)


def _is_kept(rows: Rows, lease: Lease) -> bool:
    if rows.get(DELETED) is not None:
        return False
    snapshot = rows.get(numbered(SNAPSHOT, lease.snapshot_id))
    if snapshot is not None and not snapshot.get("expired"):
        return True
    if any(savepoint.saved_snapshot_id == lease.snapshot_id for savepoint in listed_savepoints(rows)):
        return True
    return any(other.snapshot_id == lease.snapshot_id and other.id != lease.id for other in listed_leases(rows))


def listed_leases(rows: Rows) -> tuple[Lease, ...]:
    return tuple(sorted(map(_to_lease, rows.query(LEASE)), key=lambda lease: (lease.since, lease.id)))


def renew_lease(rows: Rows, lease: Lease, until: datetime) -> bool:
    change = rows.update(
        LEASE + lease.id,
        "SET #until = :later",
        "#until = :until",
        later=to_micros(until),
        until=to_micros(lease.until),
    )
    lost = rows.db.transact([change])
    if lost is None or (lost.items[0] or {}).get("until") == to_micros(until):
        return True
    logger.warning("table %s: lease %s could not be renewed: it was released or renewed", rows.owner, lease.id)
    return False


def release_lease(rows: Rows, lease: Lease) -> bool:
    part = rows.delete(LEASE + lease.id, "#until = :until", until=to_micros(lease.until))
    return rows.db.transact([part]) is None


def _to_lease(item: Item) -> Lease:
    return value_of(Lease, item)


# Removal of expired snapshots and deleted savepoints.

MARKED_AT_ONCE = 25
"""How many items one transaction marks."""


def mark_snapshots(rows: Rows, ids: Collection[int]) -> None:
    wanted = set(ids)
    expiring = [row["item"] for row in snapshot_rows(rows)[1:] if row["id"] in wanted and not row.get("expired")]
    # the condition: another process may have removed some already
    marks = (rows.update(item, "SET #expired = :true", "attribute_exists(#item)", true=True) for item in expiring)
    rows.db.transact_each(marks, MARKED_AT_ONCE)


def remove_marked(rows: Rows, now: datetime) -> None:
    """Remove marked items and the log before them; metadata files that nothing else names become garbage at `now`."""
    snapshots = snapshot_rows(rows)
    savepoints = _savepoints(rows, snapshots)
    floor = _floor(snapshots)
    # An expired snapshot above the floor goes only when it has no metadata that a later one is read from.
    gone = [row for row in snapshots if row.get("expired") and (row["id"] < floor or not row.get("files_path"))]
    gone += [row for row in savepoints if row.get("deleting")]
    leaving = {row["item"] for row in gone}
    named = {path for row in (*snapshots, *savepoints) if row["item"] not in leaving for path in paths_of(row)}
    unnamed = {path for row in gone for path in paths_of(row)} - named
    if unnamed:
        unnamed -= {row["item"].removeprefix(GARBAGE) for row in rows.query(GARBAGE)}
    rows.write_each({GARBAGE + path: {"since": to_micros(now)} for path in sorted(unnamed)}, sorted(leaving))
    cut = rows.query(between=(numbered(LOG, 0), numbered(LOG, floor)), columns="#item")
    rows.write_each({}, [row["item"] for row in cut])


def _floor(snapshots: Sequence[Item]) -> int:
    least = min((row["id"] for row in snapshots if not row.get("expired")), default=0)
    return max((row["id"] for row in snapshots if row["id"] <= least and row.get("files_path")), default=0)


def _savepoints(rows: Rows, snapshots: Sequence[Item]) -> list[Item]:
    """Return the items of all savepoints; those that an expired snapshot names are waited for when not visible."""
    visible = list(rows.query(SAVEPOINT))
    saved = {number for row in snapshots if row.get("expired") for number in row.get("saved", ())}
    unseen = saved - {row["id"] for row in visible}
    return [*visible, *rows.settled(numbered(SAVEPOINT, number) for number in sorted(unseen))]
