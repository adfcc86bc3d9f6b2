"""Convert file references and partitions to and from items of the three tables of `DynamoDBStateStore`.

`active-files` and `ready-for-gc-files` have an item for each file reference, with key `partition|file|snapshot`;
`partitions` has one for each partition, with key `partition|snapshot`. The snapshot is the one that added the
reference or partition, because a rollback can add the same one again. Every item records the commit that wrote it and
the snapshots in which it is live; `staged` items count only once their commit has won. Keys in `active-files` that
begin with `!` are commits in progress that have staged items.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog
from sleeper_nb.catalog.dynamodb.client import Rows
from sleeper_nb.catalog.dynamodb.items import Item, KeyedTable
from sleeper_nb.model.deletions import DELETION_COLUMNS, DELETION_FILE
from sleeper_nb.model.file_reference import ACTIVE, READY_FOR_GC, key_names, without_statistics
from sleeper_nb.model.keys import KeyValue, key_from_json, key_to_json
from sleeper_nb.model.partitions import Partition, PartitionTree, Range, Region
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import from_micros, to_micros
from sleeper_nb.model.statistics import ColumnStatistics, from_text, of_references, to_text

REFERENCE, PARTITION = "reference", "partition"
LAYOUT = "state-store-layout"
"""The catalog item that records whether a Sleeper table has its own three DynamoDB tables, as in the older of the two
specifications, or shares those of its instance."""
KEY = ("partition_id", "filename", "added_snapshot")
"""The columns that form the range key of a reference."""
Items = Mapping[str, Item]
"""Items by their range keys."""


_NAMES = (("active-files", REFERENCE), ("ready-for-gc-files", REFERENCE), ("partitions", PARTITION))
"""What the names of the three tables end with, and their range keys."""


def shared_tables(catalog: DynamoDBCatalog) -> tuple[KeyedTable, ...]:
    return tuple(KeyedTable(catalog.table_name(suffix), "table_id", key) for suffix, key in _NAMES)


@dataclass(frozen=True, slots=True)
class Tables:
    """The rows of one Sleeper table in each of the three DynamoDB tables."""

    active: Rows
    ready: Rows
    partitions: Rows
    own: bool = False
    """Whether no other Sleeper table has items there."""

    @classmethod
    def of(cls, catalog: DynamoDBCatalog, table_id: str) -> Tables:
        """Return the tables that were chosen when the Sleeper table was moved to this store."""
        chosen = catalog.rows(table_id).get(LAYOUT)
        own = f"table-{table_id}-" if chosen is not None and chosen["own"] else ""
        tables = (KeyedTable(catalog.table_name(f"{own}{suffix}"), "table_id", key) for suffix, key in _NAMES)
        active, ready, partitions = (Rows(catalog.db, table, table_id) for table in tables)
        return cls(active, ready, partitions, own=bool(own))

    @classmethod
    def choose_for(cls, catalog: DynamoDBCatalog, table_id: str) -> Tables:
        """Choose the tables by the instance's setting, once for the life of the Sleeper table, and create them."""
        catalog.make()
        rows = catalog.rows(table_id)
        rows.db.transact([rows.put(LAYOUT, {"own": catalog.own_tables}, new=True)])  # an earlier choice stays
        tables = cls.of(catalog, table_id)
        catalog.db.make_tables([each.table for each in tables.all], catalog.on_create)
        return tables

    @property
    def all(self) -> tuple[Rows, Rows, Rows]:
        """The three tables in reading order: a reference only ever moves to a later one."""
        return self.active, self.ready, self.partitions

    def erase(self) -> None:
        if self.own:
            self.active.db.drop_tables([rows.table for rows in self.all])
            return
        for rows in self.all:
            rows.write_each({}, [item[rows.table.range] for item in rows.query(columns=f"#{rows.table.range}")])


def reference_key(partition_id: str, filename: str, added_snapshot: int) -> str:
    return f"{partition_id}|{filename}|{added_snapshot}"


def reference_items(rows: pa.Table | pa.RecordBatch, commit_id: str, **changes: Any) -> dict[str, Item]:
    """Return items for rows of `FileReferences`; `changes` are set in each."""
    keys, plain = key_names(rows.schema), without_statistics(rows).to_pylist()
    return {
        reference_key(*(row[name] for name in KEY)): {**_reference_item(row, keys, commit_id, of_file), **changes}
        for row, of_file in zip(plain, of_references(rows), strict=True)
    }


def _reference_item(
    row: Mapping[str, Any], keys: Sequence[str], commit_id: str, statistics: Sequence[ColumnStatistics]
) -> Item:
    same = ("filename", "partition_id", "rows", "rows_exact", "only_this_partition", "bytes", "job_id", "checksum")
    moment = to_micros(row["updated_at"])
    return {
        **{name: row[name] for name in same},
        "min_key": _cells(row[f"min_{key}"] for key in keys),
        "max_key": _cells(row[f"max_{key}"] for key in keys),
        "commit": commit_id,
        "added": row["added_snapshot"],
        "added_time": moment,
        "removed": row["removed_snapshot"],
        "removed_time": None if row["removed_snapshot"] is None else moment,
        **({each.name: row[each.name] for each in DELETION_COLUMNS} if row[DELETION_FILE] else {}),
        **({"statistics": to_text(statistics)} if statistics else {}),
    }


def reference_row(item: Item, schema: Schema, snapshot_id: int) -> dict[str, Any]:
    """Return the row of a reference as it was at a snapshot, without statistics."""
    gone = item.get("removed") is not None and item["removed"] <= snapshot_id
    names = [key.name for key in schema.row_keys]
    same = ("filename", "partition_id", "rows", "rows_exact", "only_this_partition", "bytes")
    # a removed reference may have other row keys
    least, greatest = ([None] * len(names),) * 2 if gone else (_values(item["min_key"]), _values(item["max_key"]))
    return {
        **{name: item[name] for name in same},
        "job_id": item.get("job_id"),
        "checksum": item.get("checksum"),
        **{each.name: item.get(each.name) for each in DELETION_COLUMNS},
        "status": READY_FOR_GC if gone else ACTIVE,
        "added_snapshot": item["added"],
        "removed_snapshot": item["removed"] if gone else None,
        "updated_at": from_micros(item["removed_time"] if gone else item["added_time"]),
        **{f"min_{name}": value for name, value in zip(names, least, strict=True)},
        **{f"max_{name}": value for name, value in zip(names, greatest, strict=True)},
    }


def statistics_of(item: Item, snapshot_id: int) -> tuple[ColumnStatistics, ...]:
    """Return the statistics of an active reference's file; none of a reference that is removed at a snapshot."""
    gone = item.get("removed") is not None and item["removed"] <= snapshot_id
    return () if gone or not item.get("statistics") else from_text(item["statistics"])


def partition_items(
    partitions: Iterable[Partition], snapshot_id: int, commit_id: str, *, first: int = 0
) -> dict[str, Item]:
    """Return the items of partitions that are live from a snapshot on; `first` is the index of the first in the tree.

    An item never changes. A partition has been split in the snapshots in which its children are live; a later snapshot
    that adds a root starts a new tree (see `partition_tree`).
    """
    return {
        f"{p.id}|{snapshot_id}": {
            "partition_id": p.id,
            "position": position,
            "parent_id": p.parent_id,
            "min": _cells(r.min for r in p.region.ranges),
            "max": _cells(r.max for r in p.region.ranges),
            "commit": commit_id,
            "added": snapshot_id,
        }
        for position, p in enumerate(partitions, first)
    }


def partition_tree(partitions: Iterable[Item]) -> PartitionTree:
    """Return the tree of the partition items up to a snapshot: the newest root, and the partitions added since.

    `InvalidInput`, `NotFound`, `ValueError` when a part of a tree is missing.
    """
    items = list(partitions)
    newest = max(item["added"] for item in items if item["position"] == 0)
    ordered = sorted((item for item in items if item["added"] >= newest), key=lambda item: item["position"])
    regions = {item["partition_id"]: _region(item) for item in ordered}
    children: dict[str, list[str]] = defaultdict(list)
    for item in ordered:  # a left child comes before its right one
        if item.get("parent_id") is not None:
            children[item["parent_id"]].append(item["partition_id"])
    tree = PartitionTree(tuple(_partition(item, regions, children) for item in ordered))
    tree.check()
    return tree


def _partition(item: Item, regions: Mapping[str, Region], children: Mapping[str, Sequence[str]]) -> Partition:
    name, dimension = item["partition_id"], -1
    below = tuple(children.get(name, ()))
    if below:
        ranges = zip(regions[name].ranges, regions[below[0]].ranges, strict=True)
        dimension = next((i for i, (here, part) in enumerate(ranges) if here != part), -1)
    return Partition(name, regions[name], item.get("parent_id"), below, dimension)


def _region(item: Item) -> Region:
    bounds = zip(_values(item["min"]), _values(item["max"]), strict=True)
    return Region(tuple(Range(low, high) for low, high in bounds))


def _cells(values: Iterable[KeyValue | None]) -> list[list[Any]]:
    """Return values for a list in an item: each as a list of one value, or an empty list for None."""
    return [[] if value is None else [value if isinstance(value, bytes) else key_to_json(value)] for value in values]


def _values(cells: Iterable[Sequence[Any]]) -> list[KeyValue | None]:
    return [key_from_json(cell[0]) if cell else None for cell in cells]
