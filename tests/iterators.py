"""Iterators of tests that run in Spark's workers too, which import them from here."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def at_most(batch: pa.RecordBatch, config: str) -> pa.RecordBatch:
    """Keep rows of so many visits."""
    return batch.filter(pc.less_equal(batch["visits"], int(config)))
