"""What is asked of an engine's own data frame before its rows are loaded: its columns, its first rows, its files."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sleeper_nb.load.sources import IngestSource, InMemory, is_spark


def schema_of_frame(sources: Sequence[IngestSource]) -> pa.Schema:
    """Return the Arrow schema of a data frame; no row is computed."""
    from sleeper_nb.engines.spark import load_frames

    return load_frames.schema_of_frame(sources)


def first_rows(sources: Sequence[IngestSource], rows: int) -> tuple[InMemory, ...]:
    """Return the first rows of a data frame as an Arrow table."""
    from sleeper_nb.engines.spark import load_frames

    return load_frames.first_rows(sources, rows)


def as_files(sources: Sequence[IngestSource]) -> Sequence[IngestSource]:
    """Return the files of a data frame that is just their rows, as its engine reads them slower; else `sources`."""
    if not is_spark(sources):
        return sources
    from sleeper_nb.engines.spark.load_frames import files_of

    return next((files_of(each.data) for each in sources if isinstance(each, InMemory)), None) or sources
