"""Reading the transaction log in DynamoDB, and the full metadata that it is replayed from."""

from __future__ import annotations

from sleeper_nb.catalog.dynamodb.client import TRANSACTION_GETS
from sleeper_nb.catalog.dynamodb.items import LOG, SNAPSHOT, numbered
from sleeper_nb.catalog.dynamodb.rows import Rows, to_snapshot
from sleeper_nb.errors import NotFound
from sleeper_nb.model.snapshots import Snapshot

PAGE = 200


def entries(rows: Rows, after: int, until: int) -> tuple[bytes, ...]:
    """Return the entries of the snapshots `after` < id <= `until`; `NotFound` when one is missing."""
    if until <= after:
        return ()
    found = {row["id"]: row for row in rows.query(between=(numbered(LOG, after + 1), numbered(LOG, until)))}
    unseen = [number for number in range(after + 1, until + 1) if number not in found]
    if 0 < len(unseen) <= TRANSACTION_GETS:  # cut, or of a commit that is just being made
        found |= {row["id"]: row for row in rows.settled(numbered(LOG, number) for number in unseen)}
    if len(found) != until - after:
        raise NotFound(f"the transaction log was cut behind snapshot {after}", hint="read a retained snapshot")
    return tuple(found[number]["entry"] for number in range(after + 1, until + 1))


def checkpoint(rows: Rows, at: int) -> Snapshot:
    """Return the newest snapshot at or before `at` that has its full metadata as Parquet."""
    bounds = (numbered(SNAPSHOT, 0), numbered(SNAPSHOT, at))
    found = rows.query(between=bounds, newest_first=True, where="attribute_exists(#files_path)", page=PAGE)
    for row in found:
        return to_snapshot(rows, row)
    raise NotFound(f"no metadata of snapshot {at} is left", hint="it has expired; read a retained snapshot")
