"""Places of rows in data files, and deletion vectors: which rows of a data file a partition no longer has.

A change of rows does not rewrite a large data file. It writes the positions of the rows that are gone to a small file,
which the new reference to the data file names; the positions are those of the rows in the data file, from 0. Older
versions have references without it, or with an earlier one, so each version keeps its rows. A compaction writes the
rows that are left, and needs no vector any more.

The field's names: deletion vectors of Delta and of Iceberg's third format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final

import pyarrow as pa

DELETION_FILE: Final = "deletion_file"
"""The column of references that names the file with a vector."""
DELETION_COLUMNS: Final = (
    pa.field(DELETION_FILE, pa.string()),
    pa.field("deletion_rows", pa.int64()),
    pa.field("deletion_bytes", pa.int64()),
    pa.field("deletion_checksum", pa.string()),
)
"""The columns of references with their vectors; all null where no row of a file was deleted."""
POSITIONS: Final = pa.schema([pa.field("position", pa.int64(), nullable=False)])
"""The column of a file with a vector: increasing, no position twice."""


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The deleted rows of one data file."""

    filename: str  # the path of the file with the positions, below the table's folder
    rows: int  # how many positions it has
    # bytes, checksum: of that file
    bytes: int
    checksum: str | None = None

    @property
    def cells(self) -> tuple[str, int, int, str | None]:
        return self.filename, self.rows, self.bytes, self.checksum

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> DeletionVector | None:
        filename = row.get(DELETION_FILE)
        if filename is None:
            return None
        _, rows, size, checksum = (row.get(each.name) for each in DELETION_COLUMNS)
        return cls(filename, rows or 0, size or 0, checksum)


def vectors_of(references: pa.Table) -> Iterable[DeletionVector | None]:
    """Return the vector of each reference; only columns are looked at where there is none."""
    if references[DELETION_FILE].null_count == references.num_rows:
        return repeat(None, references.num_rows)
    return map(DeletionVector.of, references.select([each.name for each in DELETION_COLUMNS]).to_pylist())


def deletion_columns(vectors: Sequence[DeletionVector | None]) -> dict[str, pa.Array]:
    """Return the columns of references that have some vectors; NULL for a reference without one."""
    nothing = (None,) * len(DELETION_COLUMNS)
    if not any(vectors):  # as in most commits, which may have many references
        return {each.name: pa.nulls(len(vectors), each.type) for each in DELETION_COLUMNS}
    cells = [nothing if vector is None else vector.cells for vector in vectors]
    return {each.name: pa.array([row[at] for row in cells], each.type) for at, each in enumerate(DELETION_COLUMNS)}


# The columns that say where a row is, in rows that are read with their places.

FILE_NUMBER: Final = "sleeper:file"
"""A column of rows that are read with their places: the number of the data file in `ScanPlan.filenames`; an int."""
POSITION: Final = "sleeper:position"
"""A column of such rows: the place of the row in its data file, from 0; a long. No field can have a name with ``:``."""
PLACES: Final = pa.schema([(FILE_NUMBER, pa.int32()), (POSITION, pa.int64())])
"""Both columns; they follow those of the table."""
