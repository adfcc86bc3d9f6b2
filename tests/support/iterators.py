"""Iterators of tests that run in Spark's workers too, which import them from here."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc


def at_most(batch: pa.RecordBatch, config: str) -> pa.RecordBatch:
    """Keep rows of so many visits."""
    return batch.filter(pc.less_equal(batch["visits"], int(config)))


def unhurried(batch: pa.RecordBatch, config: str) -> pa.RecordBatch:
    """Keep every row; while a folder has a file ``slow``, take a moment for each batch, and say so by one ``begun``."""
    if (Path(config) / "slow").exists():
        (Path(config) / "begun").touch()
        threading.Event().wait(0.3)
    return batch
