"""The edit list of a statement: which rows of a version go, and which rows come. Nothing is written yet.

An engine finds the rows; everything after that knows no engine. The counts are exact before anything is written, so a
dry run is cheap; it can read the rows that it found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import NotFound
from sleeper_nb.load.row_checks import JudgedRows
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import EditCounts
from sleeper_nb.read.live_rows import NO_POSITIONS, LiveRows, Positions
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.versions.row_differences import RowDifference, kind_column
from sleeper_nb.versions.row_images import image_kinds


@dataclass(frozen=True, slots=True, eq=False)
class EditList:
    """The rows of one version that a change takes away, and the rows that it adds.

    `removed` has positions by data file: of deleted rows, and of the old values of updated ones. The `rows` that come
    are in any order. `watched` is where the change depends on which rows there are, unless it `ignores_added`: then it
    stays right when others add rows there. What is left of the files that are `purged` is written to others.

    Of the rows of a merge's source, `matched` match a row of the version, and `with_several` each update several.
    """

    removed: Mapping[str, Positions]
    rows: pa.Table
    counts: EditCounts
    watched: tuple[Region, ...] = ()
    source_rows: int | None = None
    purged: frozenset[str] = frozenset()
    ignores_added: bool = False
    with_several: int = 0
    matched: int | None = None
    is_about_all_rows: bool = False
    judged: JudgedRows = field(default_factory=JudgedRows)

    def __post_init__(self) -> None:
        gone, new = sum(map(len, self.removed.values())), self.rows.num_rows
        done = self.counts
        assert gone == done.updated + done.deleted, "each row that goes is updated or deleted"  # noqa: S101
        assert new == done.updated + done.inserted, "each row that comes is updated or inserted"  # noqa: S101

    @property
    def touched(self) -> frozenset[str]:
        """The data files that lose rows, or are written again."""
        return self.purged | self.removed.keys()

    @property
    def is_empty(self) -> bool:
        return not (self.touched or self.rows.num_rows)


Held = Callable[[TableState], AbstractContextManager[None]]
"""Protects the files of a version while a block reads them."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRows:
    """The rows of an edit list, not read yet, and the version on which it was found; `held` protects its files."""

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
