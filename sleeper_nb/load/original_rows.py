"""Some rows of a source as the source has them, before any cast."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class OriginalRows:
    """Some rows of a source: its columns as Arrow, pandas or Python has them; the number of each row or its line."""

    columns: Mapping[str, Any]
    numbers: Sequence[int]


def taken(batches: Iterable[pa.RecordBatch], rows: Sequence[int], schema: pa.Schema) -> pa.Table:
    """Return the rows of a stream that have some indexes."""
    wanted, start, found = np.asarray(rows, np.int64), 0, []
    for batch in batches:
        here = wanted[(wanted >= start) & (wanted < start + batch.num_rows)] - start
        found.append(batch.take(pa.array(here)))
        start += batch.num_rows
        if start > rows[-1]:
            break
    return pa.Table.from_batches(found, schema)
