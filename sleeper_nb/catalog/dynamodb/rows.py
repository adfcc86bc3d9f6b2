"""The items under one hash key: reads in the order of their sort key, and parts of transactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sleeper_nb.catalog.dynamodb import items
from sleeper_nb.catalog.dynamodb.client import DynamoDB
from sleeper_nb.catalog.dynamodb.items import (
    DELETED,
    SNAPSHOT,
    Item,
    KeyedTable,
    encode_item,
    expression_parts,
    numbered,
    read_snapshot_item,
)
from sleeper_nb.model.snapshots import Snapshot


@dataclass(frozen=True, slots=True)
class Rows:
    """The items under one hash key of a DynamoDB table: those of one Sleeper table, or one list of the index."""

    db: DynamoDB
    table: KeyedTable
    owner: str

    def key(self, item: str) -> Item:
        return {self.table.hash: self.owner, self.table.range: item}

    def get(self, item: str) -> Item | None:
        return self.db.get(self.table, self.key(item))

    def settled(self, names: Iterable[str]) -> list[Item]:
        """Return those of the items that exist, after every transaction that is under way."""
        return self.db.settled(self.table, map(self.key, names))

    def query(
        self,
        prefix: str = "",
        *,
        between: tuple[str, str] | None = None,
        newest_first: bool = False,
        where: str | None = None,
        columns: str | None = None,
        page: int | None = None,
        **values: Any,
    ) -> Iterator[Item]:
        """Yield items in order of their sort key.

        Parameters
        ----------
        prefix, between
            Which sort keys: those that begin with a prefix, or those from one to another, both included.
        where, values
            A filter expression of DynamoDB on other attributes, and the values that it names.
        page
            The most items in one request, for callers that need only the first ones.
        """
        bounds = {"low": between[0], "high": between[1]} if between else {"low": prefix}
        test = f"#{self.table.range} BETWEEN :low AND :high" if between else f"begins_with(#{self.table.range}, :low)"
        condition = f"#{self.table.hash} = :owner AND {test}" if between or prefix else f"#{self.table.hash} = :owner"
        known = {"owner": self.owner, **(bounds if between or prefix else {}), **values}
        request: dict[str, Any] = {
            "KeyConditionExpression": condition,
            "ScanIndexForward": not newest_first,
            "FilterExpression": where,
            "ProjectionExpression": columns,
            "Limit": page,
            **expression_parts(condition, where, columns, values=known),
        }
        return self.db.query(self.table, **{name: part for name, part in request.items() if part is not None})

    def put(self, item: str, values: Mapping[str, Any], *, new: bool = False) -> Item:
        condition = f"attribute_not_exists(#{self.table.range})" if new else None
        return items.put(self.table, {**values, **self.key(item)}, condition)

    def update(self, item: str, change: str, condition: str | None = None, **values: Any) -> Item:
        return items.update(self.table, self.key(item), change, condition, **values)

    def delete(self, item: str, condition: str | None = None, **values: Any) -> Item:
        return items.delete(self.table, self.key(item), condition, **values)

    def absent(self, item: str) -> Item:
        return items.check(self.table, self.key(item), f"attribute_not_exists(#{self.table.range})")

    def write_each(self, puts: Mapping[str, Mapping[str, Any]], deletes: Iterable[str] = ()) -> None:
        """Write items, then delete others, each by itself and without conditions."""
        written = [{"PutRequest": {"Item": encode_item({**row, **self.key(item)})}} for item, row in puts.items()]
        self.db.write_batches(self.table, written)
        self.db.write_batches(self.table, ({"DeleteRequest": {"Key": encode_item(self.key(one))}} for one in deletes))


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
