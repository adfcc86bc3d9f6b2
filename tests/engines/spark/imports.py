"""Bulk imports by tasks of Spark, of tables that no session has opened."""

from __future__ import annotations

from collections.abc import Sequence

from sleeper_nb.engines.engine import TaskLoad
from sleeper_nb.engines.spark.spark_load import SparkWriter
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.load.bulk_load import BulkLoad
from sleeper_nb.load.ingest import DEFAULT_INGEST, IngestSettings
from sleeper_nb.load.load_options import EXACT
from sleeper_nb.load.sources import IngestSource
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.state_store.state_store_base import StateStore


def bulk_import(
    engine: SparkRuntime,
    store: StateStore,
    sources: Sequence[IngestSource],
    settings: IngestSettings = DEFAULT_INGEST,
    message: str | None = None,
    job_id: str | None = None,
) -> Snapshot:
    """Add rows through Spark in one commit."""
    writer = SparkWriter(engine, TaskLoad(store.storage, sources, EXACT, settings, lambda _: ()))
    return BulkLoad(store, sources, EXACT, writer).imported(message=message, job_id=job_id)
    writer = SparkWriter(engine, store.storage, sources, EXACT, settings, lambda _: ())
    return BulkLoad(store, sources, EXACT, writer).imported(message=message, job_id=job_id).snapshot or store.head()
