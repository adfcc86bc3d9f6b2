"""The items of one hash key: reading them in order of their sort key, and naming them in transactions."""

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
    """What lies under one value of a DynamoDB table's hash key: all of one Sleeper table, or one list of the index."""

    db: DynamoDB
    table: KeyedTable
    owner: str

    def key(self, item: str) -> Item:
        """Return the whole key of an item."""
        return {self.table.hash: self.owner, self.table.range: item}

    def get(self, item: str) -> Item | None:
        """Return an item as it is now, or None."""
        return self.db.get(self.table, self.key(item))

    def settled(self, names: Iterable[str]) -> list[Item]:
        """Return those that are there of some items, behind every transaction under way."""
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
            The sort keys wanted: those that begin with a text, or from the first to the last of two.
        newest_first
            Turn the order around.
        where, values
            A condition of DynamoDB on other attributes, and the values that it names.
        columns
            Only these attributes.
        page
            Read so many items at once at most; for who stops at the first.
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
        """Return the part of a transaction that writes an item; when `new`, on the condition that there is none."""
        condition = f"attribute_not_exists(#{self.table.range})" if new else None
        return items.put(self.table, {**values, **self.key(item)}, condition)

    def update(self, item: str, change: str, condition: str | None = None, **values: Any) -> Item:
        """Return the part of a transaction that changes an item."""
        return items.update(self.table, self.key(item), change, condition, **values)

    def delete(self, item: str, condition: str | None = None, **values: Any) -> Item:
        """Return the part of a transaction that removes an item."""
        return items.delete(self.table, self.key(item), condition, **values)

    def absent(self, item: str) -> Item:
        """Return the part of a transaction that holds it to the condition that there is no such item."""
        return items.check(self.table, self.key(item), f"attribute_not_exists(#{self.table.range})")

    def write_each(self, puts: Mapping[str, Mapping[str, Any]], deletes: Iterable[str] = ()) -> None:
        """Write items, then remove others: each for itself, without conditions."""
        written = [{"PutRequest": {"Item": encode_item({**row, **self.key(item)})}} for item, row in puts.items()]
        self.db.write_batches(self.table, written)
        self.db.write_batches(self.table, ({"DeleteRequest": {"Key": encode_item(self.key(one))}} for one in deletes))


def to_snapshot(rows: Rows, item: Item) -> Snapshot:
    """Return the snapshot that an item holds; `CatalogDamaged` when it was changed."""
    return read_snapshot_item(item, rows.table.name).checked()


def snapshot_rows(rows: Rows) -> list[Item]:
    """Return the items of all snapshots, hidden ones too, newest first; none of a table that was deleted.

    The snapshots of one commit can show one after the other, for a moment; those that the newest one came with are
    waited for.
    """
    found = list(rows.query(SNAPSHOT, newest_first=True))
    if found and found[0]["item"] == DELETED:
        return []
    if found:
        unseen = set(range(found[0]["first"], found[0]["id"])) - {row["id"] for row in found}
        found += rows.settled(numbered(SNAPSHOT, number) for number in sorted(unseen))
    return sorted(found, key=lambda row: -row["id"])


def snapshot_row(rows: Rows, snapshot_id: int) -> Item | None:
    """Return the item of a snapshot, hidden or not; one of a commit that is just being made is waited for."""
    name = numbered(SNAPSHOT, snapshot_id)
    return rows.get(name) or next(iter(rows.settled([name])), None)


def snapshot_row_as_of(rows: Rows, micros: int, page: int) -> Item | None:
    """Return the item of the newest snapshot at or before a moment, in microseconds since 1970, that has not expired.

    The snapshots of one commit can show one after the other, for a moment, so the one behind is looked for again.
    """
    where = "#time <= :micros AND attribute_not_exists(#expired)"
    found = next(rows.query(SNAPSHOT, newest_first=True, where=where, page=page, micros=micros), None)
    while found is not None:
        behind = snapshot_row(rows, found["id"] + 1)
        if behind is None or behind.get("expired") or behind["time"] > micros:
            return found
        found = behind
    return None
