"""The list of tables in DynamoDB: an item by name and one by id, always changed together; and those that were deleted.

Deleting a table is one transaction after which it is no more, then the removal of its many items, in any number of
runs. The transaction takes both entries of the list away and the item `current`, on which every commit depends, and
writes an item behind those of all snapshots, on which savepoints and leases depend: so a table is gone for everyone at
once, though most of its items are still there. The list of the deleted has its id until the last of them is gone.
"""

from __future__ import annotations

from dataclasses import dataclass

from sleeper_nb.catalog.base import TableEntry
from sleeper_nb.catalog.dynamodb.items import CURRENT, DELETED, Item
from sleeper_nb.catalog.dynamodb.rows import Rows
from sleeper_nb.errors import AlreadyExists, NotFound


@dataclass(frozen=True, slots=True)
class Index:
    """The tables by name, whose case does not count, by id, and the deleted ones of which something may be left."""

    names: Rows
    ids: Rows
    deleted: Rows

    def entries(self) -> tuple[TableEntry, ...]:
        """Return all tables, by name."""
        # By id: a table that is just being renamed has two items under "name" or, for a moment, none.
        entries = [_entry(row) for row in self.ids.query()]
        return tuple(sorted(entries, key=lambda entry: entry.name.encode()))

    def find(self, name: str) -> TableEntry | None:
        """Return the table of a name, in any case."""
        named = self.names.get(name.casefold())
        row = None if named is None else self.ids.get(named["table_id"])
        return None if row is None else _entry(row)

    def entry(self, table_id: str) -> TableEntry | None:
        """Return the table of an id."""
        row = self.ids.get(table_id)
        return None if row is None else _entry(row)

    def rename(self, table_id: str, old: str, new: str) -> None:
        """Give a table another name; errors as `Catalog.rename_table`."""
        named = self.ids.update(table_id, "SET #name = :new", "#name = :old", new=new, old=old)
        if old.casefold() == new.casefold():
            if self.ids.db.transact([named]) is not None:
                raise _gone(old)
            return
        lost = self.ids.db.transact([
            self.names.delete(old.casefold(), "#table_id = :id", id=table_id),
            self.names.put(new.casefold(), {"table_id": table_id}, new=True),
            named,
        ])  # fmt: skip
        if lost is None:
            return
        if lost.parts[1] and (lost.items[1] or {}).get("table_id") != table_id:
            raise AlreadyExists(f"table {new!r} is there already", hint="choose another name")
        raise _gone(old)

    def delete(self, rows: Rows, name: str) -> None:
        """Make the table that has these rows be no more; `NotFound` when it has another name, or is gone."""
        lost = rows.db.transact([
            self.names.delete(name.casefold(), "#table_id = :id", id=rows.owner),
            self.ids.delete(rows.owner, "#name = :name", name=name),
            self.deleted.put(rows.owner, {}),
            rows.delete(CURRENT),
            rows.put(DELETED, {}),
        ])  # fmt: skip
        if lost is not None:
            raise _gone(name)

    def forget(self, rows: Rows) -> None:
        """Remove every item of a deleted table, then the one that says so, and last its id from the list."""
        rows.write_each({}, [row["item"] for row in rows.query(columns="#item") if row["item"] != DELETED])
        rows.write_each({}, [DELETED])
        self.deleted.write_each({}, [rows.owner])


def _entry(row: Item) -> TableEntry:
    return TableEntry(row["key"], row["name"], row["online"], row.get("properties_checksum"))


def _gone(name: str) -> NotFound:
    return NotFound(f"no table {name!r}", hint="it was renamed or deleted meanwhile")
