"""Which way a bulk load takes: threads of this process, or tasks of Spark; and the split of a single leaf before it.

On one machine Spark would only cost time and memory, so it loads its own DataFrames, and everything on a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from sleeper_nb.engines.components import Components, Engines
from sleeper_nb.engines.engine import TaskLoad
from sleeper_nb.errors import InvalidInput
from sleeper_nb.load import sources
from sleeper_nb.load.bulk_load import LoadWriter, ThreadsWriter
from sleeper_nb.load.ingest import IngestSettings
from sleeper_nb.load.load_options import Matching
from sleeper_nb.load.row_checks import RowCheck
from sleeper_nb.load.source_files import SourceFile
from sleeper_nb.load.sources import IngestSource
from sleeper_nb.load.split import (
    KeySample,
    LeavesWanted,
    SplitBefore,
    holds_keys,
    rows_of_parquet,
    sample_of_files,
    sample_of_parquet,
    split_before,
)
from sleeper_nb.maintain.service_lease import MAINTENANCE, held_lease
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.filesystem import Storage

LoadEngine = Literal["auto", "spark", "local"]

BULK_BYTES = 256 * 2**20
"""From this size on, ingested files are a bulk load."""
_LEAST_ROW_BYTES = 8
"""Bytes of a file in which a row of CSV or JSON takes at least, even compressed."""


def is_bulk(rows: Sequence[IngestSource]) -> bool:
    return sources.is_spark(rows) or sources.bytes_of(rows) >= BULK_BYTES


def is_by_spark(engines: Engines, rows: Sequence[IngestSource], engine: LoadEngine = "auto") -> bool:
    """Return whether tasks of Spark load some data in bulk.

    Raises
    ------
    InvalidInput
        When this process should load a Spark DataFrame.
    """
    if engine == "local" and sources.is_spark(rows):
        raise InvalidInput("rows of a Spark DataFrame are loaded by Spark", hint="leave out engine")
    if engine == "auto":
        return sources.is_spark(rows) or engines.with_tasks.on_cluster
    return engine != "local"


def writer_of(
    of: Components,
    storage: Storage,
    rows: Sequence[IngestSource],
    matching: Matching,
    settings: IngestSettings,
    checks: Callable[[Schema], Sequence[RowCheck]],
    *,
    by_spark: bool,
) -> LoadWriter:
    """Return what writes the files of a bulk load into a table's folder; `checks` are those of the table."""
    if not by_spark:
        return ThreadsWriter(storage, rows, matching, settings, checks, of.clock, of.progress)
    is_maintained = settings.merge is None and _is_maintained(of)
    return of.engines.with_tasks.writer(TaskLoad(storage, rows, matching, settings, checks, is_maintained))


def _is_maintained(of: Components) -> bool:
    """Return whether a process maintains the instance's tables, and so compacts them, as a service."""
    return held_lease(of.catalog, MAINTENANCE, of.clock.now()) is not None


def sample(
    engines: Engines, rows: Sequence[IngestSource], matching: Matching, schema: Schema, size: int, *, by_spark: bool
) -> KeySample:
    """Return a sample of the row keys of what is loaded in bulk, which must be files or a Spark DataFrame."""
    files = [source for source in rows if isinstance(source, SourceFile)]
    if len(files) == len(rows) and holds_keys(files, matching):
        return sample_of_parquet(files, schema, size)
    if not by_spark:
        return sample_of_files(files, schema, size, matching)
    return engines.with_tasks.sample(rows, schema, size, matching)


def split_of(
    engines: Engines,
    store: StateStore,
    state: TableState,
    rows: Sequence[IngestSource],
    wanted: LeavesWanted,
    matching: Matching,
    *,
    by_spark: bool,
) -> SplitBefore | None:
    """Return how the only leaf of a table is split before files are loaded; None when it is not.

    Data in memory and Spark DataFrames are not sampled: to compute the rows of one twice could take twice as long.
    """
    files = [source for source in rows if isinstance(source, SourceFile)]
    if len(files) < len(rows) or len(state.tree.leaves) > 1:
        return None
    is_parquet = all(file.format == "parquet" for file in files)
    most = rows_of_parquet(files) if is_parquet else sources.bytes_of(files) // _LEAST_ROW_BYTES
    return split_before(store, state, wanted, most, partial(sample, engines, rows, matching, by_spark=by_spark))
