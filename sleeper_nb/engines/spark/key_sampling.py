"""A sample of the row keys of a load, which tasks of Spark take in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from sleeper_nb.engines.spark.frames import hand_over_keys
from sleeper_nb.engines.spark.load_frames import checked_frame
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.load.conform import conform
from sleeper_nb.load.load_options import EXACT, Matching
from sleeper_nb.load.source_files import SourceFile
from sleeper_nb.load.sources import IngestSource
from sleeper_nb.load.split import KeySample, some_of
from sleeper_nb.model.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LEAST_SHARE = 2_000
"""Keys that each task keeps at least."""
_SAMPLED = pa.schema([("rows", pa.int64()), ("keys", pa.binary())])


def sample_keys(
    engine: SparkRuntime, sources: Sequence[IngestSource], schema: Schema, size: int, *, matching: Matching = EXACT
) -> KeySample:
    """Return a sample of the row keys of data that Spark reads, and count its rows, in one pass over the keys.

    Each task keeps a share of the sample that is the same for all, and the driver weighs the shares by their rows.
    """
    keys_only, most = Schema(schema.row_keys), max(_LEAST_SHARE, size // 8)
    reached = [source.storage for source in sources if isinstance(source, SourceFile)]

    def action(spark: SparkSession) -> list[tuple[int, pa.Table]]:
        hand_over_keys(spark, reached)
        frame = checked_frame(spark, sources, schema, matching).select(*(f"`{name}`" for name in keys_only.names))

        def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows, kept = 0, keys_only.arrow.empty_table()
            for batch in batches:
                rows += batch.num_rows
                # a batch keeps as large a share as all batches before it, so that early rows have no more weight
                part = some_of(
                    conform(pa.Table.from_batches([batch]), keys_only), -(-most * batch.num_rows // max(rows, 1))
                )
                kept = some_of(pa.concat_tables([kept, part]), most)
            yield pa.RecordBatch.from_pydict({"rows": [rows], "keys": [_as_stream(kept)]}, schema=_SAMPLED)

        answers = frame.mapInArrow(task, "rows long, keys binary").collect()
        return [(row["rows"], pa.ipc.open_stream(bytes(row["keys"])).read_all()) for row in answers]

    parts = engine.run(action, "sampling keys")
    total = sum(rows for rows, _ in parts)
    shares = [some_of(keys, max(1, size * rows // total)) for rows, keys in parts if rows]
    return KeySample(pa.concat_tables([keys_only.arrow.empty_table(), *shares]), total)


def _as_stream(rows: pa.Table) -> bytes:
    """Return rows in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())
