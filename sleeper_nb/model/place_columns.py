"""The columns that say where a row is, in rows that are read with their places."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

FILE_NUMBER: Final = "sleeper:file"
"""A column of rows that are read with their places: the number of the data file in `ScanPlan.filenames`; an int."""
POSITION: Final = "sleeper:position"
"""A column of such rows: the place of the row in its data file, from 0; a long. No field can have a name with ``:``."""
PLACES: Final = pa.schema([(FILE_NUMBER, pa.int32()), (POSITION, pa.int64())])
"""Both columns; they follow those of the table."""
