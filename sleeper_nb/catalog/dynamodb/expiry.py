"""Forgetting snapshots and savepoints in DynamoDB: many items, so each step leaves what the next run completes.

Why it is safe, in steps:

1. What goes is marked first: a snapshot `expired`, a savepoint `deleting`. A mark is never taken back. From then on
   nobody sees it, and a savepoint of an expired snapshot is refused, since adding one writes to the snapshot's item.
   The current snapshot is never marked: only ids below the newest are, and those can never be current again.
2. Then all snapshots and savepoints are read. A savepoint that was added before the mark is among them: its id is
   on its snapshot's item, and is waited for when it does not show yet. So what nothing unmarked names now, nothing
   ever names again: a commit takes over names of the current snapshot only.
3. Such metadata files become garbage before their items go. A crash in between repeats the step, which changes nothing.
4. Of two that mark at once and read later, at least the second to read sees both marks; so nothing is left over.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from sleeper_nb.catalog.dynamodb.items import GARBAGE, LOG, SAVEPOINT, Item, numbered, paths_of
from sleeper_nb.catalog.dynamodb.rows import Rows, snapshot_rows
from sleeper_nb.model.snapshots import to_micros

MARKS = 25
"""How many items one transaction marks."""


def mark_snapshots(rows: Rows, ids: Collection[int]) -> None:
    """Hide snapshots; never the current one."""
    found, wanted = snapshot_rows(rows), set(ids)
    doomed = [row["item"] for row in found[1:] if row["id"] in wanted and not row.get("expired")]
    # another expiry may have removed some
    marks = (rows.update(item, "SET #expired = :true", "attribute_exists(#item)", true=True) for item in doomed)
    rows.db.transact_each(marks, MARKS)


def mark_savepoint(rows: Rows, savepoint_id: int) -> None:
    """Hide a savepoint; nothing happens when there is none."""
    item = numbered(SAVEPOINT, savepoint_id)
    rows.db.transact([rows.update(item, "SET #deleting = :true", "attribute_exists(#item)", true=True)])


def collect(rows: Rows, now: datetime) -> None:
    """Remove what is marked, and the log behind it; metadata files that nothing else names become garbage."""
    snapshots = snapshot_rows(rows)
    savepoints = _savepoints(rows, snapshots)
    floor = _floor(snapshots)
    # What lies above the floor has no metadata of its own, or some that a later one may be read through.
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
    """Return the snapshot whose full metadata every retained one can be read through."""
    least = min((row["id"] for row in snapshots if not row.get("expired")), default=0)
    return max((row["id"] for row in snapshots if row["id"] <= least and row.get("files_path")), default=0)


def _savepoints(rows: Rows, snapshots: Sequence[Item]) -> list[Item]:
    found = list(rows.query(SAVEPOINT))
    saved = {number for row in snapshots if row.get("expired") for number in row.get("saved", ())}
    unseen = saved - {row["id"] for row in found}
    return [*found, *rows.settled(numbered(SAVEPOINT, number) for number in sorted(unseen))]
