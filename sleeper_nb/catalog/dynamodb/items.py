"""The items of the DynamoDB catalog: their keys, their values in DynamoDB's types, and the parts of transactions.

The conversion of values is our own: boto3's `TypeDeserializer` returns decimals and takes 5 to 7 times as long, which
adds 40 % to reading a history of 3,000 snapshots.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sleeper_nb.catalog.checked_rows import SavepointRow, SnapshotRow, row_of, snapshot_checksum
from sleeper_nb.model.snapshots import Snapshot

Item = dict[str, Any]

CURRENT = "current"
SNAPSHOT = "snapshot#"
LOG = "log#"
SAVEPOINT = "savepoint#"
SAVEPOINT_NAME = "savepoint-name#"
SAVEPOINT_COUNTER = "savepoint-counter"
GARBAGE = "garbage#"
CLAIMS = "claims"
JOB = "job#"
REFUSED = "refused#"
RUN = "run#"
JOB_ID = "job-id#"
LEASE = "lease#"
DELETED = f"{SNAPSHOT}~deleted"
"""The item of a deleted table; it sorts after all snapshots, so that a query for the newest one returns it."""


_SNAPSHOT = tuple(field.name for field in fields(Snapshot))


@dataclass(frozen=True, slots=True)
class KeyedTable:
    """A DynamoDB table and the names of its two keys, both strings."""

    name: str
    hash: str
    range: str


def numbered(kind: str, number: int) -> str:
    """Return a sort key by which the items of a kind are in the order of their numbers: `snapshot#000000000012`."""
    return f"{kind}{number:012d}"


def encode(value: Any) -> dict[str, Any]:
    """Convert a value to DynamoDB's types; a frozenset of strings or integers becomes a set, which cannot be empty."""
    match value:
        case bool():
            return {"BOOL": value}
        case int():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case bytes():
            return {"B": value}
        case frozenset():
            numbers = all(isinstance(one, int) for one in value)
            return {"NS" if numbers else "SS": sorted(map(str, value))}
        case list() | tuple():
            return {"L": [encode(one) for one in value]}
        case dict():
            return {"M": {name: encode(one) for name, one in value.items()}}
    raise TypeError(f"an item cannot hold {value!r}")


def decode(typed: Mapping[str, Any]) -> Any:
    ((kind, value),) = typed.items()
    match kind:
        case "N":
            return int(value)
        case "SS":
            return frozenset(value)
        case "NS":
            return frozenset(map(int, value))
        case "L":
            return [decode(one) for one in value]
        case "M":
            return {name: decode(one) for name, one in value.items()}
    return value


def encode_item(item: Mapping[str, Any]) -> Item:
    """Convert an item to DynamoDB's types; attributes that are None are left out."""
    return {name: encode(value) for name, value in item.items() if value is not None}


def decode_item(item: Mapping[str, Any]) -> Item:
    return {name: decode(value) for name, value in item.items()}


def expression_parts(*expressions: str | None, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names and values that expressions refer to: `#word` is the attribute `word`, `:word` a value.

    Every attribute has a `#`, since DynamoDB reserves more than 500 words, `time` and `rows` among them.
    """
    names = {word: word[1:] for text in expressions for word in re.findall(r"#\w+", text or "")}
    parts = {
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": {f":{name}": encode(value) for name, value in values.items()},
    }
    return {name: part for name, part in parts.items() if part}


def action(kind: str, body: dict[str, Any], condition: str | None, values: Mapping[str, Any]) -> Item:
    """Return a part of a transaction; when its condition fails, the answer has the item that is there."""
    if condition is not None:
        body |= {"ConditionExpression": condition, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    return {kind: {**body, **expression_parts(condition, body.get("UpdateExpression"), values=values)}}


def snapshot_item(table_id: str, snapshot: Snapshot, first: int) -> Item:
    """Return the attributes of a snapshot's item; `first` is the id of the first snapshot in the same commit."""
    return {
        **row_of(snapshot),
        "first": first,
        "item": numbered(SNAPSHOT, snapshot.id),
        "checksum": snapshot_checksum(table_id, snapshot),
    }


def read_snapshot_item(item: Item, table: str) -> SnapshotRow:
    values: Item = {name: item.get(name) for name in _SNAPSHOT}
    return SnapshotRow(item["table_id"], f"the DynamoDB table {table}", values, item.get("checksum"))


def read_savepoint_item(item: Item, table: str) -> SavepointRow:
    also = {name: item.get(name) for name in ("id", "files_path", "partitions_path", "log_path")}
    body, checksum = item.get("body"), item.get("checksum")
    return SavepointRow(item["table_id"], f"the DynamoDB table {table}", item.get("id"), body, checksum, also)


def paths_of(item: Item) -> set[str]:
    return {item[name] for name in ("files_path", "partitions_path", "log_path") if item.get(name)}
