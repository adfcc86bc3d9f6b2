"""One load, into a table that exists or is created with it: how it is done, planned, sampled and written.

On one machine Spark would only cost time and memory in a bulk load, so it loads its own DataFrames, and everything on a
cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from sleeper_nb.engines.components import Components
from sleeper_nb.engines.engine import TaskLoad
from sleeper_nb.errors import InvalidInput
from sleeper_nb.load import sources
from sleeper_nb.load.bulk_load import BulkLoad, LoadWriter, ThreadsWriter
from sleeper_nb.load.file_formats import StoredSource
from sleeper_nb.load.ingest import IngestSettings, plan_ingest
from sleeper_nb.load.load_options import Matching
from sleeper_nb.load.load_report import IngestPlan
from sleeper_nb.load.row_checks import RowCheck
from sleeper_nb.load.source_files import SourceFile
from sleeper_nb.load.sources import IngestSource, InMemory
from sleeper_nb.load.split import (
    KeySample,
    LeavesWanted,
    SplitBefore,
    are_parquet,
    rows_of_parquet,
    sample_of_files,
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


@dataclass(frozen=True, slots=True)
class LoadWork:
    """The work of one load; made by `LoadWork.of`.

    Parameters
    ----------
    components
        What the tables of the instance share.
    rows
        The data; what can be read only once is read.
    matching
        How its columns are matched with those of the table.
    in_bulk
        Whether they are loaded in bulk.
    by_spark
        Whether tasks of Spark do that.
    """

    components: Components
    rows: Sequence[IngestSource]
    matching: Matching
    in_bulk: bool
    by_spark: bool

    @classmethod
    def of(
        cls, components: Components, rows: Sequence[IngestSource], matching: Matching, engine: LoadEngine | None = None
    ) -> LoadWork:
        """Decide how to load some data; with `engine`, in bulk whatever its size.

        Raises
        ------
        InvalidInput
            When this process should load a Spark DataFrame.
        """
        in_bulk = engine is not None or sources.is_spark(rows) or sources.bytes_of(rows) >= BULK_BYTES
        return cls(components, rows, matching, in_bulk, in_bulk and _is_by_spark(components, rows, engine or "auto"))

    @property
    def of_frame(self) -> bool:
        """Whether the data is a DataFrame of Spark."""
        return sources.is_spark(self.rows)

    def plan(self, state: TableState, storage: Storage, strategy: str, checks: Sequence[RowCheck]) -> IngestPlan:
        """Return the plan of the load; of a DataFrame of Spark, its row keys are not compared.

        Parameters
        ----------
        storage
            The folder of the table, or of the instance while there is no table.
        strategy
            Of the table's properties: how rows are cut into files.
        """
        if self.of_frame:
            tasks = self.components.engines.with_tasks
            return tasks.plan_load(state, self.rows, self.matching, strategy=strategy, checks=checks)
        return plan_ingest(
            state, storage, self.rows, strategy=strategy, through_spark=False, matching=self.matching, checks=checks
        )

    def writer(
        self, storage: Storage, settings: IngestSettings, checks: Callable[[Schema], Sequence[RowCheck]]
    ) -> LoadWriter:
        """Return what writes the files of a bulk load into a table's folder; `checks` are those of the table."""
        of = self.components
        if not self.by_spark:
            return ThreadsWriter(storage, self.rows, self.matching, settings, checks, of.clock, of.progress)
        is_maintained = settings.merge is None and _is_maintained(of)
        return of.engines.with_tasks.writer(
            TaskLoad(storage, self.rows, self.matching, settings, checks, is_maintained)
        )

    def bulk_load(
        self, store: StateStore, settings: IngestSettings, checks: Callable[[Schema], Sequence[RowCheck]]
    ) -> BulkLoad:
        """Return the bulk load into the table of a store."""
        return BulkLoad(store, self.rows, self.matching, self.writer(store.storage, settings, checks))

    def sample(self, schema: Schema, size: int) -> KeySample:
        """Return a sample of the row keys of what is loaded in bulk: files, lake tables or a Spark DataFrame."""
        if not self.by_spark or are_parquet(self.rows):
            return sample_of_files(self._stored, schema, size, self.matching)
        return self.components.engines.with_tasks.sample(self.rows, schema, size, self.matching)

    def split(self, store: StateStore, state: TableState, wanted: LeavesWanted) -> SplitBefore | None:
        """Return how the only leaf of a table is split before files are loaded; None when it is not.

        Data in memory and Spark DataFrames are not sampled: to compute the rows of one twice could take twice as long.
        """
        files, stored = self._files, self._stored
        if len(stored) < len(self.rows) or len(state.tree.leaves) > 1:
            return None
        least = _LEAST_ROW_BYTES if len(files) == len(stored) else 1
        most = rows_of_parquet(files) if are_parquet(self.rows) else sources.bytes_of(stored) // least
        return split_before(store, state, wanted, most, self.sample)

    @property
    def _files(self) -> list[SourceFile]:
        return [source for source in self.rows if isinstance(source, SourceFile)]

    @property
    def _stored(self) -> list[StoredSource]:
        return [source for source in self.rows if not isinstance(source, InMemory)]


def _is_by_spark(of: Components, rows: Sequence[IngestSource], engine: LoadEngine) -> bool:
    if engine == "local" and sources.is_spark(rows):
        raise InvalidInput("rows of a Spark DataFrame are loaded by Spark", hint="leave out engine")
    if engine == "auto":
        return sources.is_spark(rows) or of.engines.with_tasks.on_cluster
    return engine != "local"


def _is_maintained(of: Components) -> bool:
    """Return whether a process maintains the instance's tables, and so compacts them, as a service."""
    return held_lease(of.catalog, MAINTENANCE, of.clock.now()) is not None
