"""What is asked of an engine's own data frame before its rows are loaded: its columns, its first rows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sleeper_nb.load.sources import IngestSource, InMemory


def schema_of_frame(sources: Sequence[IngestSource]) -> pa.Schema:
    """Return the Arrow schema of a data frame; no row is computed."""
    from sleeper_nb.engines.spark import load_frames

    return load_frames.schema_of_frame(sources)


def first_rows(sources: Sequence[IngestSource], rows: int) -> tuple[InMemory, ...]:
    """Return the first rows of a data frame as an Arrow table."""
    from sleeper_nb.engines.spark import load_frames

    return load_frames.first_rows(sources, rows)
