"""Apply an edit list to a version: write deletion vectors, files in the place of others, and files with new rows.

Of a large file that loses few rows, only the positions of these are written. A file that loses many rows, or is small,
is written again without them, as reading its vector would cost more; so is a file that is purged, as a vector leaves
the rows in it. New rows become sorted files of their leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sleeper_nb.edit.edit_list import EditList
from sleeper_nb.load.ingest import IngestSettings, reference_to, rows_by_leaf, write_rows, write_sorted
from sleeper_nb.model.deletions import POSITIONS, DeletionVector
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.properties import VECTOR_LEAST_BYTES, VECTOR_PERCENT, TableProperties
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import EditRows, ReplacedReference
from sleeper_nb.read.live_rows import NO_POSITIONS, LiveRows, Positions, positions_of
from sleeper_nb.read.scan_plan import keys_in
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.data_files import DataFileSettings
from sleeper_nb.storage.integrity import checksummed


@dataclass(frozen=True, slots=True)
class EditSettings:
    """How changes of rows are written, from a table's properties.

    A deletion vector may name `most_percent` of a file's rows; files of less than `least_bytes` get none.
    """

    ingest: IngestSettings
    most_percent: int
    least_bytes: int

    @classmethod
    def of(cls, properties: TableProperties) -> EditSettings:
        return cls(IngestSettings.of(properties), properties[VECTOR_PERCENT], properties[VECTOR_LEAST_BYTES])

    @property
    def writing(self) -> DataFileSettings:
        return self.ingest.writing


@dataclass(frozen=True, slots=True, eq=False)
class EditsWriter:
    """Writes the files of one change to the version on which its edit list was found.

    `written` has the names of the files that were begun, for clean-up after an error.
    """

    store: StateStore
    state: TableState
    settings: EditSettings
    written: list[str] = field(default_factory=list)

    def change(self, kind: str, edits: EditList) -> EditRows:
        """Write what an edit list needs, and return the transaction that makes it part of the table."""
        touched = list(self._touched(edits))
        with ThreadPoolExecutor(self.store.storage.at_once) as pool:
            left = [each for each in pool.map(self._without_rows, touched) if each is not None]
        return EditRows(
            kind,
            self.state.snapshot_id,
            tuple(each.replaced for each in touched),
            (*left, *self._inserted(edits.rows)),
            () if edits.ignores_added else edits.watched,
            edits.counts,
        )

    def leaves(self, edits: EditList) -> frozenset[str]:
        """Return the leaf partitions with rows that go or come; nothing is written."""
        losing = {each.reference.partition_id for each in self._touched(edits)}
        return frozenset(losing | rows_by_leaf(edits.rows, self.state.tree, self.state.schema).keys())

    def _touched(self, edits: EditList) -> Iterator[_Touched]:
        active = self.state.files.active
        names = pa.array(list(edits.touched), pa.string())
        owners = active.filter(pa.compute.is_in(active["filename"], names))["partition_id"].unique().to_pylist()
        found = set()
        for reference in self.state.files.active_in(owners, edits.touched):
            gone, is_purged = edits.removed.get(reference.filename, NO_POSITIONS), reference.filename in edits.purged
            found.add(reference.filename)
            if len(gone) and not reference.only_this_partition:
                gone = self._in_partition(reference, gone)
            if len(gone) or is_purged:
                yield _Touched(reference, gone, is_purged)
        assert found == edits.touched, "the rows were found in files of this version"  # noqa: S101

    def _in_partition(self, reference: FileReference, gone: Positions) -> Positions:
        keys = [key.name for key in self.state.schema.row_keys]
        file = LiveRows(reference.filename, gone[:0], self.state.schema, self.store.storage)
        rows = pa.Table.from_batches(file.batches(keys)).take(pa.array(gone))
        inside = keys_in(self.state.tree[reference.partition_id].region, rows, self.state.schema)
        positions: Positions = gone[inside.to_numpy(zero_copy_only=False)] if rows.num_rows else gone
        return positions

    def _without_rows(self, touched: _Touched) -> FileReference | None:
        """Return the reference to what is left of a file in a partition; None when nothing is left."""
        reference = touched.reference
        rows = reference.rows - len(touched.gone)
        if rows <= 0 and reference.rows_exact:
            return None
        deleted = np.union1d(positions_of(reference.deletions, self.store.storage), touched.gone)
        is_much = len(deleted) * 100 > (len(deleted) + rows) * self.settings.most_percent
        if touched.is_purged or is_much or reference.bytes < self.settings.least_bytes:
            return self._rewritten(reference, deleted)
        return replace(reference, rows=rows, deletions=self._vector(reference.partition_id, deleted))

    def _rewritten(self, reference: FileReference, deleted: Positions) -> FileReference | None:
        region = None if reference.only_this_partition else self.state.tree[reference.partition_id].region
        rows = LiveRows(reference.filename, deleted, self.state.schema, self.store.storage, [region])
        name = self._new_file(reference.partition_id)
        file = write_sorted(self.store.storage, name, self.state.schema, rows.batches(), self.settings.writing)
        return None if file is None else reference_to(file, reference.partition_id)

    def _vector(self, partition_id: str, deleted: Positions) -> DeletionVector:
        name, storage = self._new_file(partition_id), self.store.storage
        table = pa.table([pa.array(deleted, pa.int64())], schema=POSITIONS)
        with checksummed(storage, name) as (stream, checksum):
            pq.write_table(
                table,
                stream,
                compression="zstd",
                use_dictionary=False,
                column_encoding={"position": "DELTA_BINARY_PACKED"},
                write_page_checksum=True,
            )
        return DeletionVector(name, len(deleted), checksum.bytes, checksum.text)

    def _inserted(self, rows: pa.Table) -> Iterator[FileReference]:
        if not rows.num_rows:
            return
        state, settings = self.state, self.settings.ingest
        new_id, begun = self.store.clock.new_id, self.written.append
        yield from write_rows(self.store.storage, rows, state.schema, state.tree, settings, new_id, begun)

    def _new_file(self, partition_id: str) -> str:
        name = paths.data_file(partition_id, self.store.clock.new_id())
        self.written.append(name)
        return name


@dataclass(frozen=True, slots=True, eq=False)
class _Touched:
    """A reference, the positions of the rows that its partition loses, and whether its file may no longer be used."""

    reference: FileReference
    gone: Positions
    is_purged: bool

    @property
    def replaced(self) -> ReplacedReference:
        vector = self.reference.deletions
        deletions = None if vector is None else vector.filename
        return ReplacedReference(self.reference.partition_id, self.reference.filename, deletions)
