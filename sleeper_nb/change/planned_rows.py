"""The rows that a dry run found: those that would go, read where they are, and those that would come."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.change.edit_list import EditList
from sleeper_nb.errors import NotFound
from sleeper_nb.model.state import TableState
from sleeper_nb.read.live_rows import NO_POSITIONS, LiveRows
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.versions.row_differences import RowDifference, kind_column
from sleeper_nb.versions.row_images import image_kinds

Held = Callable[[TableState], AbstractContextManager[None]]
"""Protects the files of a version while a block reads them."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRows:
    """The rows of an edit list, not read yet.

    Parameters
    ----------
    edits, state
        The edit list, and the version on which it was found.
    storage, held
        The table's folder, and what protects the version's files while they are read.
    """

    edits: EditList
    state: TableState
    storage: Storage
    held: Held

    def read(self) -> pa.Table:
        """Return the rows in key order, each with its kind in a first column; of one key, those that go come first.

        Raises
        ------
        NotFound, StorageError
            When a file of the version was deleted meanwhile or cannot be read.
        """
        schema = self.state.schema
        parts = (self._removed(), self.edits.rows.select(schema.names))
        keys = [_one_batch(part.select(schema.sort_order)) for part in parts]
        rows = pa.concat_tables(parts)
        kinds = pa.field(kind_column(schema.names), pa.string(), nullable=False)
        found = rows.add_column(0, kinds, image_kinds(RowDifference(*keys), schema.sort_order))
        order = [(key, "ascending") for key in schema.sort_order]
        return found.take(pc.sort_indices(rows.select(schema.sort_order), sort_keys=order))  # a stable sort

    def _removed(self) -> pa.Table:
        schema = self.state.schema
        found: list[pa.RecordBatch] = []
        try:
            with self.held(self.state):
                for name, positions in self.edits.removed.items():
                    found += LiveRows(name, NO_POSITIONS, schema, self.storage, only=positions).batches()
        except NotFound as error:
            gone = f"files of snapshot {self.state.snapshot_id}, on which rows were found, are gone"
            raise NotFound(gone, hint="make the dry run again") from error
        return pa.Table.from_batches(found, schema.arrow)


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], rows.schema)
