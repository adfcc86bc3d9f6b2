"""Plan what a commit changes in the tables of `DynamoDBStateStore`, and stage changes too big for one transaction.

`difference` and `everything` return an `ItemWrites`: the items that a commit writes and deletes. A change that fits
into one transaction is part of the commit's own. A bigger one is staged: written in advance, and invisible until its
commit has won. Why a reader never sees a part of a staged change:

1. An item whose key begins with `!` names the coming commit, and the references that it will move or forget.
2. The new items are written, each marked `staged` with the commit's id. Readers skip them.
3. The commit's own transaction sets `won` on the item of step 1. From then on all staged items count, at once.
4. The marks are removed, the moved and forgotten references are deleted, and finally the item of step 1. A crash before
   the end leaves marks of a commit that won: readers treat the marked items as live, ignore the forgotten references,
   and if a reference exists in both tables, use the one that is ready for garbage collection.

A commit that lost removes its staged items. After a crash, `sweep` does so: it first stops a writer that is still
staging, and asks the catalog whether the commit won, which rejects the commit for ever if it has not.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, zip_longest

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog
from sleeper_nb.catalog.dynamodb.client import Rows, in_chunks
from sleeper_nb.catalog.dynamodb.items import Item
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.file_reference import PAIR, Addition, FileReference, to_batch
from sleeper_nb.model.snapshots import to_micros
from sleeper_nb.model.transactions import (
    AddFiles,
    ClearTable,
    DeleteFiles,
    EditRows,
    MigrateStateStore,
    ReplaceFileReferences,
    ReplaceTable,
    Rollback,
    SetProcessing,
    SetSchema,
    SplitPartitions,
)
from sleeper_nb.state_store.dynamodb.reference_items import (
    KEY,
    Items,
    Tables,
    partition_items,
    reference_items,
    reference_key,
)
from sleeper_nb.state_store.state_store_base import CommitStep

logger = logging.getLogger(__name__)

CHANGES_TREE = frozenset({SplitPartitions.operation, Rollback.operation, ClearTable.operation, ReplaceTable.operation})
"""The operations whose commits add partition items."""


@dataclass(frozen=True, slots=True)
class ItemWrites:
    """What a commit writes to the three tables and deletes from them."""

    # active, ready, partitions: new items of each table
    active: Items = field(default_factory=dict)
    ready: Items = field(default_factory=dict)
    partitions: Items = field(default_factory=dict)
    leaving: Sequence[str] = ()  # keys of references that are no longer active; they are among `ready`
    forgotten: Sequence[str] = ()  # keys of references that are no longer ready for garbage collection
    can_be_staged: bool = True  # whether the change may be larger than one transaction

    def parts(self, tables: Tables) -> Iterator[Item]:
        """Yield the change as parts of one transaction.

        A staged item with the same key as a new one is overwritten: its commit expects the same head or an older one,
        so it loses if this commit wins.
        """
        for key in self.leaving:
            yield tables.active.delete(key, f"attribute_exists(#{tables.active.table.range})")
        free = "attribute_not_exists(#{}) OR attribute_exists(#staged)"
        for rows, items in zip(tables.all, (self.active, self.ready, self.partitions), strict=True):
            condition = free.format(rows.table.range)
            for key, item in items.items():
                yield rows.put(key, item, condition)
        for key in self.forgotten:
            yield tables.ready.delete(key)

    def keys(self, tables: Tables) -> dict[Rows, list[str]]:
        return dict(zip(tables.all, map(list, (self.active, self.ready, self.partitions)), strict=True))

    @property
    def size(self) -> int:
        changed = (self.active, self.ready, self.partitions, self.leaving, self.forgotten)
        return sum(map(len, changed))


def difference(step: CommitStep) -> ItemWrites:
    """Return what a step changes in a table that this store already keeps."""
    new, files = step.snapshot, step.before.files
    match step.transaction:
        case AddFiles(references):
            return ItemWrites(_added(references, step))
        case ReplaceFileReferences(_, partition_id, inputs, output, _):
            ready = _leaving(_named(files.active_rows_in({partition_id}), inputs), step)
            added = _added([] if output is None else [output], step)
            # the specification limits the inputs of a compaction to one transaction
            return ItemWrites(added, ready, leaving=[*ready], can_be_staged=False)
        case SplitPartitions(_, references) as split:
            ready = _leaving(files.active_rows_in(split.leaves), step)
            known = len(step.before.tree.partitions)
            new_ones = partition_items(step.after.tree.partitions[known:], new.id, new.commit_id, first=known)
            return ItemWrites(_added(references, step), ready, new_ones, leaving=[*ready])
        case Rollback(_, removed, references):
            gone = files.active.join(_pairs(removed), list(PAIR), join_type="left semi")
            ready = _leaving(gone, step)
            # the whole tree, even if unchanged: it shows readers that they see the commit
            tree = partition_items(step.after.tree.partitions, new.id, new.commit_id)
            return ItemWrites(_added(references, step), ready, tree, leaving=[*ready])
        case ClearTable() | ReplaceTable():
            ready = _leaving(files.active, step)
            # the whole tree, as for a rollback
            tree = partition_items(step.after.tree.partitions, new.id, new.commit_id)
            references = getattr(step.transaction, "references", ())
            return ItemWrites(_added(references, step), ready, tree, leaving=[*ready])
        case EditRows() as change:
            pairs = [(each.partition_id, each.filename) for each in change.replaced]
            gone = files.active.join(_pairs(pairs), list(PAIR), join_type="left semi")
            ready = _leaving(gone, step)
            return ItemWrites(_added(change.references, step), ready, leaving=[*ready])
        case DeleteFiles(filenames):
            gone = files.ready_for_gc_naming(filenames).select(KEY).to_pylist()
            return ItemWrites(forgotten=[reference_key(**row) for row in gone])
        case MigrateStateStore() | SetSchema() | SetProcessing():
            return ItemWrites()
    raise InvalidInput(f"DynamoDBStateStore does not support the transaction {type(step.transaction).__name__}")


def everything(step: CommitStep) -> ItemWrites:
    """Return the whole state after a step, for a table that another store has kept so far."""
    new, files = step.snapshot, step.after.files
    return ItemWrites(
        reference_items(files.active, new.commit_id),
        reference_items(files.ready_for_gc, new.commit_id),
        partition_items(step.after.tree.partitions, new.id, new.commit_id),
    )


def _added(references: Iterable[FileReference], step: CommitStep) -> dict[str, Item]:
    new = step.snapshot
    added = [Addition(reference, new.id, new.time) for reference in references]
    return reference_items(to_batch(added, step.after.files.schema), new.commit_id)


def _leaving(rows: pa.Table, step: CommitStep) -> dict[str, Item]:
    new = step.snapshot
    return reference_items(rows, new.commit_id, removed=new.id, removed_time=to_micros(new.time))


def _pairs(references: Sequence[tuple[str, str]]) -> pa.Table:
    columns = zip(*references, strict=True) if references else ((), ())
    return pa.table({name: pa.array(values, pa.string()) for name, values in zip(PAIR, columns, strict=True)})


def _named(rows: pa.Table, filenames: Sequence[str]) -> pa.Table:
    return rows.filter(pc.is_in(rows["filename"], pa.array(filenames, pa.string())))


UNDER_WAY = "!"
"""The prefix of the range keys of commits in progress; it sorts before all references."""
NAMES_PER_ITEM = 300
MOST_AT_ONCE = 25
COLLISIONS = 5
_GOING_ON = "attribute_exists(#commit) AND attribute_not_exists(#stopped)"


class Staging:
    """Stages changes of one Sleeper table, and cleans up after commits that won, lost or crashed."""

    def __init__(self, catalog: DynamoDBCatalog, table_id: str, tables: Tables) -> None:
        self._catalog, self._table_id, self._tables = catalog, table_id, tables
        self._most = min(catalog.max_items, MOST_AT_ONCE)

    def stage(self, change: ItemWrites, commit_id: str, number: int) -> Item | None:
        """Write a change in advance; return the part of the commit's transaction that makes it count.

        Returns None when the commit has lost: a reference already exists, or `sweep` has stopped it.
        """
        active = self._tables.active
        forgotten, leaving = (in_chunks(names, NAMES_PER_ITEM) for names in (change.forgotten, change.leaving))
        nothing: list[str] = []
        chunks = list(zip_longest(forgotten, leaving, fillvalue=nothing)) or [(nothing, nothing)]
        for at, (going, moving) in enumerate(chunks):
            named = {"commit": commit_id, "number": number, "forgotten": going, "leaving": moving}
            active.db.transact([active.put(_progress_key(commit_id, at), named)])
        for rows, items in zip(self._tables.all, (change.active, change.ready, change.partitions), strict=True):
            for chunk in in_chunks(items.items(), self._most - 1):
                if not self._write(rows, dict(chunk), commit_id):
                    return None
        return active.update(_progress_key(commit_id, 0), "SET #won = :true", _GOING_ON, true=True)

    def _write(self, rows: Rows, items: Items, commit_id: str) -> bool:
        active = self._tables.active
        parts = [active.check(_progress_key(commit_id, 0), _GOING_ON)]
        new = f"attribute_not_exists(#{rows.table.range}) OR #commit = :commit"  # its own, from an earlier attempt
        for key, item in items.items():
            parts.append(rows.put(key, {**item, "commit": commit_id, "staged": True}, new, commit=commit_id))
        for _ in range(COLLISIONS):
            lost = rows.db.transact(parts)
            if lost is None:
                return True
            conflicts = [item for item in lost.items[1:] if item is not None]
            if lost.parts[0] or not all(item.get("staged") for item in conflicts):
                return False
            logger.info("table %s: another commit has staged the same items", self._table_id)
            # The conflicting items were staged by commits that crashed, or that are now rejected.
            if not all(self._settle(other) for other in {item["commit"] for item in conflicts}):
                return False
        return False

    def finish(self, commit_id: str, keys: Mapping[Rows, Sequence[str]]) -> None:
        """Remove the marks of the staged items of a commit that won, and delete the references it moved or forgot."""
        staged = "attribute_exists(#staged) AND #commit = :commit"
        for rows, names in keys.items():
            marked = (rows.update(name, "REMOVE #staged", staged, commit=commit_id) for name in names)
            rows.db.transact_each(marked, self._most)
        named = list(self._tables.active.query(UNDER_WAY + commit_id))
        for rows, gone in ((self._tables.active, "leaving"), (self._tables.ready, "forgotten")):
            rows.write_each({}, chain.from_iterable(item[gone] for item in named))
        self._forget(named)

    def remove(self, commit_id: str, keys: Mapping[Rows, Sequence[str]]) -> None:
        """Remove the staged items of a commit that can never win."""
        for rows, names in keys.items():
            rows.db.transact_each(map(partial(written_by, rows, commit_id), names), self._most)
        self._forget(list(self._tables.active.query(UNDER_WAY + commit_id)))

    def sweep(self) -> int:
        """Clean up after every commit that has staged items; return how many were rejected.

        A commit in progress is rejected; its writer stages it again.
        """
        commits = {item["commit"]: bool(item.get("won")) for item in reversed(list(self._named()))}
        lost = 0
        for commit_id, won in commits.items():
            logger.info("table %s: removing what commit %s has staged (committed: %s)", self._table_id, commit_id, won)
            if won:
                self.finish(commit_id, self._staged_by(commit_id))
            else:
                lost += self._settle(commit_id)
        return lost

    def _named(self) -> Iterator[Item]:
        return self._tables.active.query(UNDER_WAY)

    def _settle(self, commit_id: str) -> bool:
        """Reject a commit and remove its staged items; return False, and remove nothing, if it has won."""
        active = self._tables.active
        unwon = "attribute_exists(#commit) AND attribute_not_exists(#won)"
        lost = active.db.transact(
            [active.update(_progress_key(commit_id, 0), "SET #stopped = :true", unwon, true=True)]
        )  # from now on it can neither stage more nor win
        if lost is not None and (lost.items[0] or {}).get("won"):
            return False
        if self._catalog.has_commit(self._table_id, commit_id):
            return False
        self.remove(commit_id, self._staged_by(commit_id))
        return True

    def _staged_by(self, commit_id: str) -> dict[Rows, list[str]]:
        mine = "attribute_exists(#staged) AND #commit = :commit"
        return {
            rows: [item[rows.table.range] for item in rows.query(where=mine, commit=commit_id)]
            for rows in self._tables.all
        }

    def _forget(self, named: Sequence[Item]) -> None:
        active = self._tables.active
        # The first item records whether the commit won, so it is deleted last.
        active.write_each({}, [item[active.table.range] for item in reversed(named)])


def _progress_key(commit_id: str, at: int) -> str:
    return f"{UNDER_WAY}{commit_id}#{at:06d}"


def written_by(rows: Rows, commit_id: str, key: str) -> Item:
    return rows.delete(key, "#commit = :commit", commit=commit_id)
