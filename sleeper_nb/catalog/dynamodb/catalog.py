"""The shared catalog: two DynamoDB tables, for any number of machines.

`sleeper-<instance>-index` lists the Sleeper tables by name and by id, and names the warehouse that they belong to.
`sleeper-<instance>-tables` has everything else under the Sleeper table's id, one item each: `current`, `snapshot#…`,
`log#…`, `savepoint#…`, `garbage#…`, `lease#…`, `job#…` (its claim on files), `run#…` (its record), `job-id#…` and a few
more. What must be true together is written by one conditional transaction, and every read is consistent. Plain reads
can see some items of a transaction a moment before the others; the code says where that matters.

Other modules have what it calls: `retention` (versions, leases, removal), `job_items`, `items` and `client`.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sleeper_nb.catalog.catalog_base import (
    Catalog,
    CommitLimits,
    FileClaim,
    PropertiesNote,
    TableEntry,
    log_was_cut,
    no_checkpoint,
    table_exists,
    unknown_table,
    unknown_table_id,
)
from sleeper_nb.catalog.checked_rows import CatalogRows
from sleeper_nb.catalog.dynamodb import job_items, retention
from sleeper_nb.catalog.dynamodb.client import TRANSACTION_GETS, DynamoDB, Rows
from sleeper_nb.catalog.dynamodb.items import (
    CURRENT,
    DELETED,
    GARBAGE,
    JOB_ID,
    LOG,
    REFUSED,
    SAVEPOINT,
    SAVEPOINT_NAME,
    SNAPSHOT,
    Item,
    KeyedTable,
    numbered,
    read_snapshot_item,
    snapshot_item,
)
from sleeper_nb.catalog.dynamodb.retention import snapshot_row, snapshot_row_as_of, snapshot_rows, to_snapshot
from sleeper_nb.clock import Clock
from sleeper_nb.errors import Action, InvalidInput, NotFound, OfOtherWarehouse, StorageError
from sleeper_nb.last_used import LastUsed
from sleeper_nb.model.jobs import Job, Lease, ServiceLease
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot, from_micros, to_micros
from sleeper_nb.storage.aws import AS_BOTO3_FINDS_IT, AwsTarget, Network

FORMAT_VERSION = 3
MAX_ITEMS = 100
"""The most items in a transaction of DynamoDB."""
LOG_BYTES = 3_500_000
"""The most bytes of log in one commit; a transaction of DynamoDB has at most 4 MB."""
PAGE = 200
_MOST_FOUND = 1_000
"""How many names of tables are remembered with their ids."""
OTHER_INSTANCE = Action("--instance NAME", "instance='NAME'")


class DynamoDBCatalog(Catalog):
    """A catalog in DynamoDB; the first request is made when the first method is called.

    Parameters
    ----------
    instance
        Part of the names of the DynamoDB tables, which are created with the first Sleeper table.
    own_tables
        Whether a new table of `DynamoDBStateStore` gets three DynamoDB tables of its own; otherwise all share three.
    on_create
        Called with the names of DynamoDB tables that are about to be created.
    warehouse
        The address of the instance's warehouse: one that belongs to another is refused. None looks at no address.
    """

    def __init__(
        self,
        instance: str,
        aws: AwsTarget = AS_BOTO3_FINDS_IT,
        *,
        clock: Clock,
        max_items: int = MAX_ITEMS,
        own_tables: bool = False,
        on_create: Callable[[str], None] | None = None,
        network: Network | None = None,
        warehouse: str | None = None,
    ) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,200}", instance):
            hint = "use letters, digits, - _ and ., at most 200"
            raise InvalidInput(f"{instance!r} is not a valid instance name", hint=hint)
        self.instance, self.max_items, self.on_create = instance, max_items, on_create
        self.own_tables, self.warehouse = own_tables, warehouse
        self.db = DynamoDB(aws, clock, network)
        self.limits = CommitLimits(snapshots=(max_items - 1) // 2, entry_bytes=70_000)
        self._index_table = KeyedTable(self.table_name("index"), "kind", "key")
        self._items_table = KeyedTable(self.table_name("tables"), "table_id", "item")
        self._lock, self._found = threading.Lock(), LastUsed[str, str](_MOST_FOUND)
        self._has_tables = self._has_warehouse = False

    def table_name(self, suffix: str) -> str:
        return f"sleeper-{self.instance}-{suffix}"

    @property
    def tables_of_instance(self) -> tuple[KeyedTable, ...]:
        return self._index_table, self._items_table

    def _index(self, kind: str) -> Rows:
        return Rows(self.db, self._index_table, kind)

    def rows(self, table_id: str) -> Rows:
        self._exists()
        return Rows(self.db, self._items_table, table_id)

    def _exists(self) -> bool:
        """Return whether the tables exist, by reading one item; `OfOtherWarehouse` when another warehouse has them."""
        with self._lock:
            if not self._has_tables:
                found = self._index("format").get("catalog")
                self._check_format({} if found is None else found)
                self._has_tables = found is not None
            return self._has_tables

    def _check_format(self, found: Item) -> None:
        version, owner = found.get("version", FORMAT_VERSION), found.get("warehouse")
        if version > FORMAT_VERSION:
            raise StorageError(
                f"the catalog {self.instance!r} has format {version}; this release reads up to {FORMAT_VERSION}",
                hint="upgrade sleeper-nb",
            )
        if owner is not None and self.warehouse not in {None, owner}:
            raise OfOtherWarehouse(
                f"instance {self.instance!r} of this account and region belongs to {owner}",
                hint=("choose another name: ", OTHER_INSTANCE, f"; or open {owner}"),
            )
        self._has_warehouse = owner is not None

    @property
    def lacks_warehouse(self) -> bool:
        """Whether the catalog exists, and an earlier release made it, which recorded no warehouse."""
        return self._exists() and not self._has_warehouse

    def claim(self) -> None:
        """Record the warehouse of a catalog that has none; `OfOtherWarehouse` when another was faster."""
        none_yet = "attribute_exists(#version) AND attribute_not_exists(#warehouse)"
        change = "SET #warehouse = :warehouse"
        self.db.transact([self._index("format").update("catalog", change, none_yet, warehouse=self.warehouse)])
        self._has_tables = False  # read it again
        self._exists()

    def make(self) -> None:
        """Create the catalog's own DynamoDB tables, unless they exist; they belong to this warehouse from then on."""
        if not self._exists():
            self.db.make_tables((self._index_table, self._items_table), self.on_create)
            owner = {} if self.warehouse is None else {"warehouse": self.warehouse}
            self.db.transact([self._index("format").put("catalog", {"version": FORMAT_VERSION, **owner}, new=True)])
        if self.lacks_warehouse and self.warehouse is not None:
            self.claim()

    def create_table(self, entry: TableEntry, first: Snapshot) -> None:
        self.make()
        index_entry: dict[str, Any]
        rows, index_entry = self.rows(entry.id), {"name": entry.name, "online": entry.online, "first": first.commit_id}
        index_entry["properties_checksum"] = entry.properties_checksum
        lost = self.db.transact([
            self._index("name").put(entry.name.casefold(), {"table_id": entry.id}, new=True),
            self._index("id").put(entry.id, index_entry, new=True),
            rows.put(CURRENT, current_values(first), new=True),
            rows.put(numbered(SNAPSHOT, first.id), snapshot_item(entry.id, first, first.id), new=True),
            rows.absent(REFUSED + first.commit_id),
            rows.absent(DELETED),
        ])  # fmt: skip
        if lost is None or (lost.items[1] or {}).get("first") == first.commit_id:
            return  # written now, or by an earlier attempt whose answer was lost
        if lost.parts[4]:
            raise StorageError(
                f"another process gave up table {entry.name!r} while it was created", hint="run it again"
            )
        raise table_exists(entry.name)

    def rename_table(self, table_id: str, old: str, new: str) -> None:
        self._exists()
        names = self._index("name")
        named = self._index("id").update(table_id, "SET #name = :new", "#name = :old", new=new, old=old)
        if old.casefold() == new.casefold():
            if self.db.transact([named]) is not None:
                raise unknown_table(old)
            return
        lost = self.db.transact([
            names.delete(old.casefold(), "#table_id = :id", id=table_id),
            names.put(new.casefold(), {"table_id": table_id}, new=True),
            named,
        ])  # fmt: skip
        if lost is None:
            return
        if lost.parts[1] and (lost.items[1] or {}).get("table_id") != table_id:
            raise table_exists(new)
        raise unknown_table(old)

    def delete_table(self, table_id: str, name: str) -> None:
        # By one transaction, which removes both entries of the index and the item `current`, on which every commit
        # depends, and writes an item that sorts after all snapshots, on which savepoints and leases depend. So the
        # table is deleted for every process at once, though most of its items still exist.
        rows = self.rows(table_id)
        lost = self.db.transact([
            self._index("name").delete(name.casefold(), "#table_id = :id", id=table_id),
            self._index("id").delete(table_id, "#name = :name", name=name),
            self._index("deleted").put(table_id, {}),
            rows.delete(CURRENT),
            rows.put(DELETED, {}),
        ])  # fmt: skip
        if lost is not None:
            raise unknown_table(name)

    def deleted(self) -> tuple[str, ...]:
        self._exists()
        return tuple(row["key"] for row in self._index("deleted").query())

    def forget_deleted(self, table_id: str) -> None:
        if table_id in self.deleted():  # which it stays until the last item is removed
            rows = self.rows(table_id)
            rows.write_each({}, [row["item"] for row in rows.query(columns="#item") if row["item"] != DELETED])
            rows.write_each({}, [DELETED])
            self._index("deleted").write_each({}, [table_id])

    def set_online(self, table_id: str, online: bool) -> None:
        change = self._index("id").update(table_id, "SET #online = :online", "attribute_exists(#name)", online=online)
        if not self._exists() or self.db.transact([change]) is not None:
            raise unknown_table_id(table_id)

    def note_properties(self, table_id: str, note: PropertiesNote) -> bool:
        if not self._exists():
            raise unknown_table_id(table_id)
        lost = self.db.transact([self._noted(table_id, note)])
        if lost is None:
            return True
        if lost.items[0] is None:
            raise unknown_table_id(table_id)
        return lost.items[0].get("properties_checksum") == note.text  # by an attempt whose answer was lost

    def _noted(self, table_id: str, note: PropertiesNote) -> Item:
        known = {} if note.expected is None else {"expected": note.expected}
        as_expected = "#properties_checksum = :expected" if known else "attribute_not_exists(#properties_checksum)"
        change, condition = "SET #properties_checksum = :text", f"attribute_exists(#name) AND {as_expected}"
        return self._index("id").update(table_id, change, condition, text=note.text, **known)

    def tables(self) -> tuple[TableEntry, ...]:
        self._exists()
        # By id: a table that is being renamed has two items under "name" or, for a moment, none.
        return tuple(sorted(map(_entry, self._index("id").query()), key=lambda entry: entry.name.encode()))

    def find_table(self, name: str) -> TableEntry | None:
        if not self._exists():
            return None
        folded = name.casefold()
        before = self._found.get(folded)  # where the name has this id still, both items take one request
        named, row = (self._index("name").get(folded), None) if before is None else self._both(folded, before)
        if named is None:
            return None
        table_id = self._found.put(folded, named["table_id"])
        if row is None or table_id != before:
            row = self._index("id").get(table_id)
        return None if row is None else _entry(row)

    def _both(self, folded: str, table_id: str) -> tuple[Item | None, Item | None]:
        keys = (self._index("name").key(folded), self._index("id").key(table_id))
        rows = {row["kind"]: row for row in self.db.get_batches(self._index_table, keys)}
        return rows.get("name"), rows.get("id")

    def entry(self, table_id: str) -> TableEntry | None:
        row = self._index("id").get(table_id) if self._exists() else None
        return None if row is None else _entry(row)

    def current(self, table_id: str) -> Snapshot:
        # The newest snapshot is the current one: one transaction writes both, so one read is enough. Of several that
        # one commit makes, an earlier one may be visible first: a valid version, on which no commit can succeed.
        rows = self.rows(table_id)
        for row in rows.query(SNAPSHOT, newest_first=True, page=1):
            if row["item"] == DELETED:
                break
            return to_snapshot(rows, row)
        raise unknown_table_id(table_id)

    def current_of_all(self) -> dict[str, Snapshot]:
        ids = [entry.id for entry in self.tables()]
        heads = self._items((table_id, CURRENT) for table_id in ids)
        newest = self._items((row["table_id"], numbered(SNAPSHOT, row["id"])) for row in heads)
        found = {row["table_id"]: to_snapshot(self.rows(row["table_id"]), row) for row in newest}
        # A commit and an expiry in between remove the snapshot that was newest: that table is read again.
        for table_id in {row["table_id"] for row in heads} - found.keys():
            with contextlib.suppress(NotFound):
                found[table_id] = self.current(table_id)
        return found

    def _items(self, keys: Iterable[tuple[str, str]]) -> list[Item]:
        names = (self._items_table.hash, self._items_table.range)
        return self.db.get_batches(self._items_table, (dict(zip(names, key, strict=True)) for key in keys))

    def commit(
        self,
        table_id: str,
        expected: Snapshot,
        *new: Snapshot,
        log: Sequence[bytes] = (),
        properties: PropertiesNote | None = None,
        also: Sequence[Mapping[str, Any]] = (),
    ) -> bool:
        """Make the last of `new` current, as in `Catalog.commit`.

        `also` are more parts of the same transaction, made by `items`; the commit is lost when one of their conditions
        fails.
        """
        rows = self.rows(table_id)
        parts = [_make_current(rows, expected, new)]
        parts += [rows.put(numbered(SNAPSHOT, s.id), snapshot_item(table_id, s, new[0].id), new=True) for s in new]
        entries = zip(new, log, strict=True) if log else ()
        parts += [rows.put(numbered(LOG, s.id), {"id": s.id, "entry": entry}, new=True) for s, entry in entries]
        parts += job_items.new_job_ids(rows, new)
        parts += [dict(part) for part in also]
        parts += [] if properties is None else [self._noted(table_id, properties)]
        size = sum(map(len, log))
        if len(parts) > self.max_items or size > LOG_BYTES:
            most = f"{self.max_items} items and {LOG_BYTES:,} bytes of log"
            message = f"the commit has {len(parts)} items and {size:,} bytes; the most is {most}"
            raise InvalidInput(message, hint="commit less at once")
        lost = self.db.transact(parts)
        if lost is None:
            return True
        # An earlier attempt whose answer was lost may have succeeded, and others may have committed after it.
        existing = lost.items[: 1 + len(new)]
        return any(item is not None and item.get("commit_id") == new[-1].commit_id for item in existing)

    def log(self, table_id: str, after: int, until: int) -> tuple[bytes, ...]:
        if until <= after:
            return ()
        rows = self.rows(table_id)
        found = {row["id"]: row for row in rows.query(between=(numbered(LOG, after + 1), numbered(LOG, until)))}
        unseen = [number for number in range(after + 1, until + 1) if number not in found]
        if 0 < len(unseen) <= TRANSACTION_GETS:  # cut, or of a commit that is being made
            found |= {row["id"]: row for row in rows.settled(numbered(LOG, number) for number in unseen)}
        if len(found) != until - after:
            raise log_was_cut(after)
        return tuple(found[number]["entry"] for number in range(after + 1, until + 1))

    def whole_log(self, table_id: str) -> dict[int, bytes]:
        return {row["id"]: row["entry"] for row in self.rows(table_id).query(LOG)}

    def checkpoint(self, table_id: str, at: int) -> Snapshot:
        rows, bounds = self.rows(table_id), (numbered(SNAPSHOT, 0), numbered(SNAPSHOT, at))
        found = rows.query(between=bounds, newest_first=True, where="attribute_exists(#files_path)", page=PAGE)
        for row in found:
            return to_snapshot(rows, row)
        raise no_checkpoint(at)

    def materialise(self, table_id: str, snapshot: Snapshot) -> bool:
        rows, item = self.rows(table_id), snapshot_item(table_id, snapshot, 0)
        names = ("files_path", "partitions_path", "files_checksum", "partitions_checksum", "checksum")
        known = {name: item[name] for name in names if item[name] is not None}
        bare = "attribute_exists(#item) AND attribute_not_exists(#files_path) AND attribute_not_exists(#expired)"
        change = f"SET {', '.join(f'#{name} = :{name}' for name in known)}"
        lost = self.db.transact([rows.update(item["item"], change, bare, **known), rows.absent(DELETED)])
        return lost is None or (lost.items[0] or {}).get("files_path") == snapshot.files_path

    def audit(self, table_id: str) -> CatalogRows:
        rows = self.rows(table_id)
        head = rows.get(CURRENT)
        if head is None or rows.get(DELETED) is not None:
            raise unknown_table_id(table_id)
        retained = [row for row in snapshot_rows(rows) if not row.get("expired")]
        return CatalogRows.of(
            (head.get("id"), head.get("commit_id")),
            (read_snapshot_item(row, rows.table.name) for row in retained),
            retention.savepoint_rows(rows),
            retention.reserved_savepoint_ids(rows),
        )

    def has_commit(self, table_id: str, commit_id: str) -> bool:
        # before the DynamoDB tables exist, there can be no commit
        return self._exists() and _has_commit(self.rows(table_id), commit_id)

    def snapshots(self, table_id: str) -> tuple[Snapshot, ...]:
        rows = self.rows(table_id)
        return tuple(to_snapshot(rows, row) for row in snapshot_rows(rows) if not row.get("expired"))

    def expire_snapshots(self, table_id: str, ids: Collection[int], now: datetime) -> None:
        rows = self.rows(table_id)
        retention.mark_snapshots(rows, ids)
        retention.remove_marked(rows, now)

    def snapshot(self, table_id: str, snapshot_id: int) -> Snapshot | None:
        rows = self.rows(table_id)
        row = snapshot_row(rows, snapshot_id)
        return None if row is None or row.get("expired") else to_snapshot(rows, row)

    def snapshot_as_of(self, table_id: str, moment: datetime) -> Snapshot | None:
        rows = self.rows(table_id)
        row = snapshot_row_as_of(rows, to_micros(moment), PAGE)
        return None if row is None else to_snapshot(rows, row)

    def savepoints(self, table_id: str) -> tuple[Savepoint, ...]:
        return retention.listed_savepoints(self.rows(table_id))

    def reserve_savepoint_id(self, table_id: str) -> int:
        return retention.reserve_savepoint_id(self.rows(table_id))

    def is_savepoint_name_used(self, table_id: str, name: str) -> bool:
        return self.rows(table_id).get(SAVEPOINT_NAME + name) is not None

    def add_savepoint(self, table_id: str, savepoint: Savepoint, extra_of: int | None = None) -> None:
        retention.add_savepoint(self.rows(table_id), savepoint, extra_of)

    def delete_savepoint(self, table_id: str, savepoint_id: int, now: datetime) -> None:
        rows = self.rows(table_id)
        item = numbered(SAVEPOINT, savepoint_id)
        self.db.transact([rows.update(item, "SET #deleting = :true", "attribute_exists(#item)", true=True)])
        retention.remove_marked(rows, now)

    def garbage(self, table_id: str) -> tuple[tuple[str, datetime], ...]:
        found = self.rows(table_id).query(GARBAGE)
        return tuple((row["item"].removeprefix(GARBAGE), from_micros(row["since"])) for row in found)

    def add_garbage(self, table_id: str, paths: Collection[str], now: datetime) -> None:
        noted = {path for path, _ in self.garbage(table_id)}
        new = {GARBAGE + path: {"since": to_micros(now)} for path in paths if path not in noted}
        self.rows(table_id).write_each(new)

    def forget_garbage(self, table_id: str, paths: Collection[str]) -> None:
        self.rows(table_id).write_each({}, [GARBAGE + path for path in paths])

    def add_lease(self, table_id: str, lease: Lease) -> None:
        retention.add_lease(self.rows(table_id), lease)

    def leases(self, table_id: str) -> tuple[Lease, ...]:
        return retention.listed_leases(self.rows(table_id))

    def renew_lease(self, table_id: str, lease: Lease, until: datetime) -> bool:
        return retention.renew_lease(self.rows(table_id), lease, until)

    def release_lease(self, table_id: str, lease: Lease) -> bool:
        return retention.release_lease(self.rows(table_id), lease)

    def claim_files(self, table_id: str, claim: FileClaim, now: datetime, job: Job | None = None) -> bool:
        return job_items.claim_files(self.rows(table_id), claim, now, self.max_items, job)

    def claims(self, table_id: str, now: datetime) -> tuple[FileClaim, ...]:
        return job_items.claims_under_way(self.rows(table_id), now)

    def release_claim(self, table_id: str, job_id: str) -> None:
        job_items.release_claim(self.rows(table_id), job_id)

    def put_job(self, table_id: str, job: Job) -> None:
        self.db.transact([job_items.job_record(self.rows(table_id), job)])

    def jobs(self, table_id: str, limit: int) -> tuple[Job, ...]:
        return job_items.newest_jobs(self.rows(table_id), limit)

    def prune_jobs(self, table_id: str, before: datetime, keep: int) -> None:
        job_items.delete_old_jobs(self.rows(table_id), before, keep)

    def snapshot_of_job(self, table_id: str, job_id: str) -> int | None:
        item = self.rows(table_id).get(JOB_ID + job_id)
        return None if item is None else int(item["id"])

    def job_ids(self, table_id: str) -> tuple[str, ...]:
        return tuple(row["item"].removeprefix(JOB_ID) for row in self.rows(table_id).query(JOB_ID, columns="#item"))

    def remember_jobs(self, table_id: str, job_ids: Sequence[str], snapshot_id: int) -> None:
        rows = self.rows(table_id)
        parts = (job_items.remembered_job(rows, job_id, snapshot_id) for job_id in job_ids)
        self.db.transact_each(parts, self.max_items)

    def take_service(self, lease: ServiceLease, now: datetime) -> ServiceLease:
        if not self._exists():
            return lease  # an instance without tables has no work to share
        return job_items.take_service(self._index("service"), lease, now)

    def service(self, name: str) -> ServiceLease | None:
        item = self._index("service").get(name) if self._exists() else None
        return None if item is None else job_items.to_service(name, item)

    def release_service(self, lease: ServiceLease) -> None:
        if self._exists():
            owned = self._index("service").delete(lease.service, "#owner = :owner", owner=lease.owner)
            self.db.transact([owned])

    def close(self) -> None:
        self.db.close()


def _entry(row: Item) -> TableEntry:
    return TableEntry(row["key"], row["name"], row["online"], row.get("properties_checksum"))


# Commits: one transaction that succeeds or fails, and the answer to which of the two happened.
#
# A request can arrive late: its client got no answer, gave up and asks whether the commit succeeded. "No" must stay
# true then, since the client deletes the metadata that the commit names. So that question writes the commit's id to the
# item that the commit must change, under `refused`, which the condition of every commit checks. The next commit clears
# the list: after it a late one fails anyway, since it expects another current snapshot.


def current_values(*new: Snapshot) -> Item:
    """Return the attributes of the item `current` after a commit: its last snapshot, and the commit ids of all."""
    ids = frozenset(snapshot.commit_id for snapshot in new)
    return {"id": new[-1].id, "commit_id": new[-1].commit_id, "commits": ids}


def _make_current(rows: Rows, expected: Snapshot, new: Sequence[Snapshot]) -> Item:
    ids = {f"c{at}": snapshot.commit_id for at, snapshot in enumerate(new)}
    condition = " AND ".join(["#commit_id = :expected", *(f"NOT contains(#refused, :{name})" for name in ids)])
    change = "SET #id = :id, #commit_id = :commit_id, #commits = :commits REMOVE #refused"
    return rows.update(CURRENT, change, condition, expected=expected.commit_id, **ids, **current_values(*new))


def _has_commit(rows: Rows, commit_id: str) -> bool:
    """Return whether a snapshot has the commit id; when none has, none ever will."""
    if _is_visible(rows, commit_id):
        return True
    one, absent = frozenset({commit_id}), "attribute_exists(#item) AND NOT contains(#commits, :commit)"
    lost = rows.db.transact([rows.update(CURRENT, "ADD #refused :one", absent, one=one, commit=commit_id)])
    if lost is not None and lost.items[0] is not None:
        return True  # it is the current one, and was not visible yet
    if lost is not None:  # the commit may be the one that creates the table
        rows.db.transact([rows.put(REFUSED + commit_id, {})])
    return _is_visible(rows, commit_id)


def _is_visible(rows: Rows, commit_id: str) -> bool:
    found = rows.query(SNAPSHOT, newest_first=True, where="#commit_id = :commit", page=PAGE, commit=commit_id)
    return next(found, None) is not None
