"""Change and purge rows of a store by hand: find them in Arrow, as an engine would, and apply the edit list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sleeper_nb.edit.apply_edits import EditSettings
from sleeper_nb.edit.edit_list import EditList
from sleeper_nb.edit.purge import PurgeOfRows
from sleeper_nb.edit.row_editor import ChangeReport, RowEditor
from sleeper_nb.load.ingest import DEFAULT_INGEST
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import EditCounts
from sleeper_nb.progress import Silent
from sleeper_nb.read.live_rows import LiveRows, positions_of
from sleeper_nb.read.scan_plan import plan_scan
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.filesystem import Storage
from tests.support.builders import data_files

ALWAYS_VECTORS, NEVER_VECTORS = EditSettings(DEFAULT_INGEST, 100, 0), EditSettings(DEFAULT_INGEST, 0, 0)
Row = dict[str, Any]


def places(state: TableState, storage: Storage) -> list[tuple[str, int, Row]]:
    """Return each row of a version with its data file and its position there."""
    found = {}
    for file in plan_scan(state).files:
        whole = LiveRows(file.filename, np.empty(0, np.int64), state.schema, storage)
        rows = pa.Table.from_batches(whole.batches(), state.schema.arrow).to_pylist()
        left = LiveRows(file.filename, positions_of(file.deletions, storage), state.schema, storage, [file.region])
        live = pa.Table.from_batches(left.batches(), state.schema.arrow).to_pylist()
        gone = set(positions_of(file.deletions, storage).tolist())
        at = [i for i, row in enumerate(rows) if i not in gone and row in live]
        found |= {(file.filename, i): rows[i] for i in at}
    return [(name, i, row) for (name, i), row in found.items()]


def change(
    store: StateStore,
    *,
    delete: Callable[[Row], bool] = lambda _: False,
    update: Callable[[Row], Row | None] = lambda _: None,
    insert: Sequence[Row] = (),
    settings: EditSettings = ALWAYS_VECTORS,
    watch: bool = False,
    meanwhile: Callable[[], object] = lambda: None,
    kind: str = "merge",
    job_id: str | None = None,
) -> ChangeReport:
    """Delete, update and insert rows in one commit; `meanwhile` is called after the rows were found."""

    def find(state: TableState) -> EditList:
        removed: dict[str, list[int]] = {}
        rows, counts = list(insert), {"updated": 0, "deleted": 0}
        for name, position, row in places(state, store.storage):
            new = None if delete(row) else update(row)
            if new is None and not delete(row):
                continue
            removed.setdefault(name, []).append(position)
            counts["deleted" if new is None else "updated"] += 1
            rows += [] if new is None else [new]
        arrow = pa.Table.from_pylist(rows, state.schema.arrow)
        meanwhile()
        watched = tuple(leaf.region for leaf in state.tree.leaves) if watch else ()
        gone = {name: np.array(sorted(at), np.int64) for name, at in removed.items()}
        return EditList(gone, arrow, EditCounts(len(insert), **counts), watched)

    return RowEditor(kind, "table", store, settings, find, lambda _: nullcontext(), Silent()).run(job_id=job_id)


def rows_in_files(store: StateStore) -> list[Row]:
    """Return every row of every data file in the table's folder, whether or not a version has it."""
    rows: list[Row] = []
    for path in data_files(store):
        content = store.storage.read(path)
        table = pq.read_table(pa.BufferReader(content)) if content.startswith(b"PAR1") else pa.table({})
        rows += [] if table.column_names == ["position"] else table.to_pylist()
    return rows


def purge_of(
    store: StateStore, is_purged: Callable[[Row], bool], meanwhile: Callable[[], object] = lambda: None
) -> PurgeOfRows:
    """Return the purge of some rows; `meanwhile` is called each time rows were looked for."""

    def find(state: TableState) -> EditList:
        removed: dict[str, list[int]] = {}
        for name, position, row in places(state, store.storage):
            if is_purged(row):
                removed.setdefault(name, []).append(position)
        gone = {name: np.array(sorted(at), np.int64) for name, at in removed.items()}
        counts = EditCounts(deleted=sum(map(len, gone.values())))
        return EditList(
            gone, state.schema.arrow.empty_table(), counts, tuple(leaf.region for leaf in state.tree.leaves)
        )

    def search(_: TableState, searched: TableState) -> set[str]:
        found = {name for name, _, row in places(searched, store.storage) if is_purged(row)}
        meanwhile()
        return found

    deletion = RowEditor("delete", "table", store, ALWAYS_VECTORS, find, lambda _: nullcontext(), Silent())
    return PurgeOfRows(deletion, search)
