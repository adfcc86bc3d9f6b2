"""Arrow data sets of files that Python opens, such as those in buckets, whose rows can be streamed.

`pyarrow.dataset.Scanner.to_reader`, by which DuckDB reads a data set, keeps Python's lock while a scan starts (26.0).
A thread of Arrow that opens the next file through Python meanwhile has the lock of the scan, and waits for Python's:
both wait for ever. `pyarrow.dataset.Scanner.to_batches` gives Python's lock away, so a reader is made of that here.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import dataset


class _Streamed:
    """Scans of a data set that can be streamed.

    `pyarrow.dataset.write_dataset` asks for a scan without columns and filter, and takes PyArrow's own only.
    """

    def scanner(self, *args: Any, **options: Any) -> dataset.Scanner | StreamedScanner:
        found: dataset.Scanner = super().scanner(*args, **options)  # type: ignore[misc]
        return StreamedScanner(found) if args or options.keys() & {"columns", "filter"} else found


class StreamedFiles(_Streamed, dataset.FileSystemDataset):  # type: ignore[misc]  # pyarrow has no types
    """Files as a data set."""


class StreamedUnion(_Streamed, dataset.UnionDataset):  # type: ignore[misc]
    """Several data sets as one."""


class StreamedScanner:
    """A scanner of PyArrow with another `to_reader`, which is an Arrow stream too."""

    def __init__(self, scanner: dataset.Scanner) -> None:
        self._scanner = scanner

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._scanner.projected_schema, self._scanner.to_batches())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __getattr__(self, name: str) -> Any:
        if name == "_scanner":  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self._scanner, name)
