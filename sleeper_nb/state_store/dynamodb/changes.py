"""What a commit of `DynamoDBStateStore` writes to its three tables and deletes from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.catalog.dynamodb.items import Item, put
from sleeper_nb.catalog.dynamodb.rows import Rows
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.clear_table import ClearTable
from sleeper_nb.model.evolution import SetSchema
from sleeper_nb.model.file_reference import PAIR, Addition, FileReference, to_batch
from sleeper_nb.model.snapshots import to_micros
from sleeper_nb.model.transactions import (
    AddFiles,
    DeleteFiles,
    MigrateStateStore,
    ReplaceFileReferences,
    Rollback,
    SetProcessing,
    SplitPartitions,
)
from sleeper_nb.state_store.dynamodb.items import KEY, Items, Tables, partition_items, reference_items, reference_key
from sleeper_nb.state_store.steps import Step

CHANGES_TREE = frozenset({SplitPartitions.operation, Rollback.operation, ClearTable.operation})
"""The operations of which each commit adds items of partitions."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit does to the three tables.

    Parameters
    ----------
    active, ready, partitions
        New items of each table.
    leaving
        References that are active no more; they are among `ready`.
    forgotten
        References that are no longer ready for garbage collection.
    can_be_staged
        Whether it may be larger than one transaction.
    """

    active: Items = field(default_factory=dict)
    ready: Items = field(default_factory=dict)
    partitions: Items = field(default_factory=dict)
    leaving: Sequence[str] = ()
    forgotten: Sequence[str] = ()
    can_be_staged: bool = True

    def parts(self, tables: Tables) -> Iterator[Item]:
        """Yield the parts of the one transaction that does it.

        A staged item with the key of a new one is overwritten: its commit expects the same head or an older one, so it
        loses when this one wins.
        """
        for key in self.leaving:
            yield tables.active.delete(key, f"attribute_exists(#{tables.active.table.range})")
        free = "attribute_not_exists(#{}) OR attribute_exists(#staged)"
        for rows, items in zip(tables.all, (self.active, self.ready, self.partitions), strict=True):
            condition = free.format(rows.table.range)
            for key, item in items.items():
                yield put(rows.table, {**item, **rows.key(key)}, condition)
        for key in self.forgotten:
            yield tables.ready.delete(key)

    def keys(self, tables: Tables) -> dict[Rows, list[str]]:
        """Return the keys of the new items."""
        return dict(zip(tables.all, map(list, (self.active, self.ready, self.partitions)), strict=True))

    @property
    def size(self) -> int:
        """How many items of a transaction it takes."""
        changed = (self.active, self.ready, self.partitions, self.leaving, self.forgotten)
        return sum(map(len, changed))


def difference(step: Step) -> Change:
    """Return what a step changes in a table that this store keeps already."""
    new, files = step.snapshot, step.before.files
    match step.transaction:
        case AddFiles(references):
            return Change(_added(references, step))
        case ReplaceFileReferences(_, partition_id, inputs, output):
            ready = _leaving(_named(files.active_rows_in({partition_id}), inputs), step)
            added = _added([] if output is None else [output], step)
            # the specification bounds the inputs of a compaction by one transaction
            return Change(added, ready, leaving=[*ready], can_be_staged=False)
        case SplitPartitions(_, references) as split:
            ready = _leaving(files.active_rows_in(split.leaves), step)
            known = len(step.before.tree.partitions)
            new_ones = partition_items(step.after.tree.partitions[known:], new.id, new.commit_id, first=known)
            return Change(_added(references, step), ready, new_ones, leaving=[*ready])
        case Rollback(_, removed, references):
            gone = files.active.join(_pairs(removed), list(PAIR), join_type="left semi")
            ready = _leaving(gone, step)
            # the whole tree, also one that is the same: so that readers can tell that they see the commit
            tree = partition_items(step.after.tree.partitions, new.id, new.commit_id)
            return Change(_added(references, step), ready, tree, leaving=[*ready])
        case ClearTable():
            ready = _leaving(files.active, step)
            # the whole tree, as behind a rollback
            tree = partition_items(step.after.tree.partitions, new.id, new.commit_id)
            return Change(ready=ready, partitions=tree, leaving=[*ready])
        case DeleteFiles(filenames):
            gone = _named(files.ready_for_gc, filenames).select(KEY).to_pylist()
            return Change(forgotten=[reference_key(**row) for row in gone])
        case MigrateStateStore() | SetSchema() | SetProcessing():
            return Change()
    raise InvalidInput(f"DynamoDBStateStore cannot keep a change of the kind {type(step.transaction).__name__}")


def everything(step: Step) -> Change:
    """Return all that a step leaves in a table that another store has kept so far."""
    new, files = step.snapshot, step.after.files
    return Change(
        reference_items(files.active, new.commit_id),
        reference_items(files.ready_for_gc, new.commit_id),
        partition_items(step.after.tree.partitions, new.id, new.commit_id),
    )


def _added(references: Iterable[FileReference], step: Step) -> dict[str, Item]:
    new = step.snapshot
    added = [Addition(reference, new.id, new.time) for reference in references]
    return reference_items(to_batch(added, step.before.files.schema), new.commit_id)


def _leaving(rows: pa.Table, step: Step) -> dict[str, Item]:
    new = step.snapshot
    return reference_items(rows, new.commit_id, removed=new.id, removed_time=to_micros(new.time))


def _pairs(references: Sequence[tuple[str, str]]) -> pa.Table:
    columns = zip(*references, strict=True) if references else ((), ())
    return pa.table({name: pa.array(values, pa.string()) for name, values in zip(PAIR, columns, strict=True)})


def _named(rows: pa.Table, filenames: Sequence[str]) -> pa.Table:
    return rows.filter(pc.is_in(rows["filename"], pa.array(filenames, pa.string())))
