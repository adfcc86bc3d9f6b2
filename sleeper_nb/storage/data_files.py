"""Sorted Parquet data files: written in row groups of fixed size, their order checked while they are written."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from sleeper_nb.errors import StorageError
from sleeper_nb.model.checksums import Checksum
from sleeper_nb.model.keys import KeyValue
from sleeper_nb.model.schema import Schema
from sleeper_nb.storage.data_file_settings import DataFileSettings
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.integrity import ChecksummedStream
from sleeper_nb.storage.sorted_keys import SortedKeys

AS_DEFAULT = DataFileSettings()


@dataclass(frozen=True, slots=True)
class DataFile:
    """A finished data file: path below the table's folder, rows, bytes, ends of each row key, and its checksum."""

    filename: str
    rows: int
    bytes: int
    min_key: tuple[KeyValue, ...]
    max_key: tuple[KeyValue, ...]
    checksum: str | None = None


class DataFileWriter:
    """Writes one data file, row group by row group; leave the ``with`` block by an error and no file is left.

    Parameters
    ----------
    storage
        The table's folder.
    filename
        The file's path below it.
    schema
        The table's schema. Batches must have its columns and come sorted by its row keys, then sort keys.
    settings
        How the file is written.
    """

    def __init__(
        self, storage: Storage, filename: str, schema: Schema, settings: DataFileSettings = AS_DEFAULT
    ) -> None:
        self._storage, self._filename, self._settings = storage, filename, settings
        self._fields, self._schema = schema, schema.in_files
        self._stack = contextlib.ExitStack()
        self._writer: pq.ParquetWriter | None = None
        self._checksum: Checksum | None = None
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._keys = SortedKeys(schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Add rows behind those written before; their order is checked with the row group that they are part of."""
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        if not table.num_rows:
            return
        self._waiting.append(table)
        self._waiting_rows += table.num_rows
        if self._waiting_rows >= self._settings.row_group_rows:
            self._flush(whole_groups_only=True)

    def finish(self) -> DataFile | None:
        """Write what is left and return the finished file; None, and no file, when there was no row."""
        self._flush(whole_groups_only=False)
        if self._writer is None or self._checksum is None:
            return None
        self._stack.close()
        size, ends = self._storage.size(self._filename), (tuple(self._keys.least), tuple(self._keys.greatest))
        return DataFile(self._filename, self._keys.rows, size, *ends, self._checksum.text)

    def _flush(self, *, whole_groups_only: bool) -> None:
        if not self._waiting:
            return
        table, size = pa.concat_tables(self._waiting), self._settings.row_group_rows
        cut = table.num_rows - table.num_rows % size if whole_groups_only else table.num_rows
        for start in range(0, cut, size):
            self._write_group(table.slice(start, min(size, cut - start)))
        self._waiting_rows = table.num_rows - cut
        self._waiting = [table.slice(cut)] if self._waiting_rows else []

    def _write_group(self, group: pa.Table) -> None:
        if self._fields.is_renamed:
            group = group.select(self._fields.names).rename_columns(self._schema.names)
        rows = group.cast(self._schema.arrow).combine_chunks()
        self._keys.see(rows)
        if not self._keys.in_order:
            raise StorageError(
                f"rows of {self._filename} are not sorted by {', '.join(self._schema.sort_order)}",
                hint="this is a fault of the writer: nothing was committed",
            )
        if self._writer is None:
            self._writer = self._open()
        self._writer.write_table(rows, row_group_size=rows.num_rows)

    def _open(self) -> pq.ParquetWriter:
        stream = ChecksummedStream(self._stack.enter_context(self._storage.output(self._filename)))
        self._checksum = stream.checksum
        order = [pq.SortingColumn(self._schema.names.index(name)) for name in self._schema.sort_order]
        return self._stack.enter_context(
            pq.ParquetWriter(
                stream,
                self._schema.arrow,
                write_page_index=True,
                write_page_checksum=True,
                sorting_columns=order,
                write_statistics=_with_statistics(self._schema),
                **self._settings.writer_options(self._schema),
            )
        )


def _with_statistics(schema: Schema) -> list[str]:
    """Return the columns whose least and greatest values are kept; of floats they pass over NaN and mislead readers."""
    bare = {"float", "double", "list", "map"}
    return [field.name for field in schema.fields if field.type.name not in bare]
