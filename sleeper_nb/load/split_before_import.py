"""Split the only leaf of a table before a large bulk import, so that its rows are sorted and written in parallel.

Sleeper extends the partitions of a table that has fewer leaves than ``sleeper.table.bulk.import.min.leaf.partitions``.
Here the leaf is split at even shares of a sample of the data. The files of the new leaves are written first; then one
commit splits the leaf, and the next one adds the files. An import that fails while it writes leaves the partitions as
they were.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sleeper_nb.errors import StateRuleBroken
from sleeper_nb.load.key_sample import KeySample, sample_size
from sleeper_nb.load.split import moved_references
from sleeper_nb.model.even_partitions import even_tree
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import Partition, PartitionSplit, PartitionTree
from sleeper_nb.model.properties import IMPORT_MIN_LEAVES, SPLITTING_MIN_ROWS, TableProperties
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import SplitPartitions
from sleeper_nb.read.leaf_keys import leaf_keys
from sleeper_nb.report import counted
from sleeper_nb.state_store.state_store_base import StateStore

logger = logging.getLogger(__name__)

_TIMES_LARGER = 10
"""How many times the rows of the table a load must have: a sample of the load tells nothing about other rows."""


@dataclass(frozen=True, slots=True)
class LeavesWanted:
    """How many leaves a table should have before rows are imported.

    Parameters
    ----------
    most
        ``sleeper.table.bulk.import.min.leaf.partitions``.
    least_rows
        No leaf is made for fewer rows (``sleeper.table.partition.splitting.min.rows``).
    """

    most: int
    least_rows: int

    @classmethod
    def of(cls, properties: TableProperties) -> LeavesWanted:
        """Return what a table's properties say."""
        return cls(properties[IMPORT_MIN_LEAVES], properties[SPLITTING_MIN_ROWS])

    @property
    def first_rows(self) -> int:
        """The fewest rows for which a leaf may be split."""
        return 2 * self.least_rows

    def leaves(self, state: TableState, rows: int) -> int:
        """Return how many leaves a table of a state gets before so many rows are added; 1 if it is not split."""
        if len(state.tree.leaves) > 1 or state.totals().rows * _TIMES_LARGER > rows:
            return 1
        return max(1, min(self.most, rows // self.least_rows))


@dataclass(frozen=True, slots=True)
class SplitBefore:
    """The splits of the only leaf of a table, and the partitions after them.

    Parameters
    ----------
    splits
        In order.
    tree
        The partitions after them.
    """

    leaf_id: str
    splits: tuple[PartitionSplit, ...]
    tree: PartitionTree

    @property
    def note(self) -> str:
        """What was done, in a few words."""
        return f"the only leaf was split into {counted(len(self.tree.leaves), 'leaf partition')} first"

    def commit(self, store: StateStore, author: str | None) -> Snapshot:
        """Split the leaf, and move its references to the new leaves.

        Raises
        ------
        StateRuleBroken
            When another writer split the leaf in the meantime.
        """

        def change(newest: TableState) -> SplitPartitions:
            if self.leaf_id not in newest.tree or not newest.tree[self.leaf_id].is_leaf:
                raise StateRuleBroken(
                    "the table's partitions were changed while the rows were written", hint="run the import again"
                )
            return SplitPartitions(self.splits, tuple(self._moved(store, newest)))

        snapshot = store.commit(change, author=author)
        logger.info("table %s: %s", store.table_id, self.note)
        return snapshot

    def _moved(self, store: StateStore, state: TableState) -> Iterator[FileReference]:
        references = state.files.active_in({self.leaf_id})
        if not references:
            return
        parts: Sequence[Partition] = self.tree.leaves
        keys = leaf_keys(store.storage, state.schema, state.tree[self.leaf_id], references)
        counts = keys.counts([part.region for part in parts])
        for reference in references:
            yield from moved_references(reference, parts, counts[reference.filename])


def split_before(
    store: StateStore, state: TableState, wanted: LeavesWanted, rows: int, sample: Callable[[Schema, int], KeySample]
) -> SplitBefore | None:
    """Return how the only leaf of a table is split before rows are imported; None when it is not.

    Parameters
    ----------
    wanted
        How many leaves it should have.
    rows
        The number of rows to import, or an upper bound.
    sample
        Returns a sample of about so many row keys of the data; only called for a large import.
    """
    if wanted.leaves(state, rows) < 2:
        return None
    if store.catalog.claims(store.table_id, store.clock.now()):
        logger.info("table %s: not split before the import: a compaction job has files of it", store.table_id)
        return None
    keys = sample(state.schema, sample_size(wanted.leaves(state, rows)))
    leaves = wanted.leaves(state, keys.rows)
    made = even_tree(state.schema, keys.keys, leaves, store.clock.new_id)
    names = {made.root.id: state.tree.root.id}
    splits = tuple(
        PartitionSplit(
            names.get(node.id, node.id), node.dimension, made.split_point(node), (node.child_ids[0], node.child_ids[1])
        )
        for node in made.partitions
        if not node.is_leaf
    )
    return SplitBefore(state.tree.root.id, splits, state.tree.with_splits(splits)) if splits else None
