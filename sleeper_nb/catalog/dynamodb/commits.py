"""Commits in DynamoDB: one transaction that wins or loses, and the answer to which of both it was.

A request can arrive late: its client was told nothing, gave up and asks whether the commit won. "No" must stay true
then, since whoever hears it deletes the metadata that the commit names. So that question writes the commit's id to the
item that the commit must change, under `refused`, which every commit's condition looks at. The next commit clears the
list: behind it a late one fails anyway, since it expects another current snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sleeper_nb.catalog.dynamodb import jobs
from sleeper_nb.catalog.dynamodb.items import CURRENT, LOG, REFUSED, SNAPSHOT, Item, numbered, snapshot_item
from sleeper_nb.catalog.dynamodb.rows import Rows
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.snapshots import Snapshot

LOG_BYTES = 3_500_000
"""What the entries of one commit's log can hold together; a transaction of DynamoDB has at most 4 MB."""
PAGE = 200


def current_values(*new: Snapshot) -> Item:
    """Return the attributes of the item `current` behind a commit: its last snapshot, and the ids of all."""
    ids = frozenset(snapshot.commit_id for snapshot in new)
    return {"id": new[-1].id, "commit_id": new[-1].commit_id, "commits": ids}


def commit(
    rows: Rows,
    expected: Snapshot,
    new: Sequence[Snapshot],
    log: Sequence[bytes],
    also: Sequence[Mapping[str, Any]],
    max_items: int,
) -> bool:
    """Make the last of `new` current when `expected` still is; return whether it was, and all of `also` could be."""
    parts = [_make_current(rows, expected, new)]
    parts += [rows.put(numbered(SNAPSHOT, s.id), snapshot_item(rows.owner, s, new[0].id), new=True) for s in new]
    entries = zip(new, log, strict=True) if log else ()
    parts += [rows.put(numbered(LOG, s.id), {"id": s.id, "entry": entry}, new=True) for s, entry in entries]
    parts += jobs.ids(rows, new)
    parts += [dict(part) for part in also]
    size = sum(map(len, log))
    if len(parts) > max_items or size > LOG_BYTES:
        most = f"{max_items} items and {LOG_BYTES:,} bytes of log"
        hint = "commit less at once"
        raise InvalidInput(f"a commit of {len(parts)} items and {size:,} bytes; it takes {most}", hint=hint)
    lost = rows.db.transact(parts)
    if lost is None:
        return True
    # An earlier try whose answer was lost may have won, and others may have committed on top of it.
    met = lost.items[: 1 + len(new)]
    return any(item is not None and item.get("commit_id") == new[-1].commit_id for item in met)


def _make_current(rows: Rows, expected: Snapshot, new: Sequence[Snapshot]) -> Item:
    ids = {f"c{at}": snapshot.commit_id for at, snapshot in enumerate(new)}
    condition = " AND ".join(["#commit_id = :expected", *(f"NOT contains(#refused, :{name})" for name in ids)])
    change = "SET #id = :id, #commit_id = :commit_id, #commits = :commits REMOVE #refused"
    return rows.update(CURRENT, change, condition, expected=expected.commit_id, **ids, **current_values(*new))


def has_commit(rows: Rows, commit_id: str) -> bool:
    """Return whether a snapshot carries the commit id; when none does, none ever will."""
    if _shows(rows, commit_id):
        return True
    one, absent = frozenset({commit_id}), "attribute_exists(#item) AND NOT contains(#commits, :commit)"
    lost = rows.db.transact([rows.update(CURRENT, "ADD #refused :one", absent, one=one, commit=commit_id)])
    if lost is not None and lost.items[0] is not None:
        return True  # it is the current one, and did not show yet
    if lost is not None:  # the commit may be the one that makes the table
        rows.db.transact([rows.put(REFUSED + commit_id, {})])
    return _shows(rows, commit_id)


def _shows(rows: Rows, commit_id: str) -> bool:
    found = rows.query(SNAPSHOT, newest_first=True, where="#commit_id = :commit", page=PAGE, commit=commit_id)
    return next(found, None) is not None
