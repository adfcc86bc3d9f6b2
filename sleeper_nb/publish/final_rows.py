"""Whether the rows in files are those that queries return: other engines know no filters, iterators and aggregations.

A version is published when its processing changes nothing any more, as after a compaction. That is found out by reading
it: properties may have changed since its files were written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

import pyarrow as pa

from sleeper_nb.errors import Action, InvalidInput
from sleeper_nb.model.processing import NOTHING, DataProcessing
from sleeper_nb.model.state import TableState
from sleeper_nb.read.read_rows import stream
from sleeper_nb.read.scan_plan import plan_scan
from sleeper_nb.report import values_of
from sleeper_nb.storage.filesystem import Storage


def check_final(state: TableState, processing: DataProcessing, storage: Storage, table: str) -> None:
    """Refuse a version whose rows other engines would not see as queries return them."""
    if processing.is_nothing:
        return
    is_same = _keeps_count if processing.iterator is None else _keeps_rows
    if not is_same(state, processing, storage):
        raise InvalidInput(
            f"queries of table {table!r} return other rows than its files have, because of {processing}",
            hint=("merge its files, then publish it: ", Action(f"compact {table}", "table.maintenance.compact('all')")),
        )


def _keeps_count(state: TableState, processing: DataProcessing, storage: Storage) -> bool:
    """Return whether no row is dropped and none combined with another; a row alone stays as it is."""
    column = state.schema.row_keys[0].name

    def count(each: DataProcessing) -> int:
        return sum(int(batch.num_rows) for batch in stream(plan_scan(state, None, each), storage, columns=[column]))

    return count(NOTHING) == count(processing)


def _keeps_rows(state: TableState, processing: DataProcessing, storage: Storage) -> bool:
    before, after = (_rows(stream(plan_scan(state, None, each), storage)) for each in (NOTHING, processing))
    return all(one == other for one, other in zip_longest(before, after))


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """Yield rows as texts: NaN is equal to itself there."""
    for batch in batches:
        yield from map(repr, zip(*map(values_of, batch.columns), strict=True))
