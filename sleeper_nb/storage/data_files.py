"""Write sorted Parquet data files in row groups of fixed size, and check the order of rows while writing."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sleeper_nb.errors import StorageError
from sleeper_nb.model.checksums import Checksum
from sleeper_nb.model.keys import KeyValue
from sleeper_nb.model.properties import STATISTICS, TableProperties
from sleeper_nb.model.schema import Schema, is_list_type
from sleeper_nb.model.statistics import AUTO_COLUMNS, ColumnStatistics, StatisticsColumns, StatisticsOfRows
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.integrity import checksummed

_PREFIX = "sleeper.table.parquet"
_PROPERTIES = (
    f"{_PREFIX}.rowgroup.rows.max",
    f"{_PREFIX}.page.size",
    f"{_PREFIX}.compression.codec",
    f"{_PREFIX}.writer.version",
    f"{_PREFIX}.dictionary.encoding.rowkey.fields",
    f"{_PREFIX}.dictionary.encoding.sortkey.fields",
    f"{_PREFIX}.dictionary.encoding.value.fields",
    STATISTICS,
)
"""In the order of the parameters of `DataFileSettings`."""


@dataclass(frozen=True, slots=True)
class DataFileSettings:
    """How data files are written, from a table's properties; with the same defaults."""

    # rows per row group; the first keys of the row groups are an equi-depth sample of the file's keys
    row_group_rows: int = 100_000
    # the size of a page before compression. A column whose first row group has more different values gets no
    # dictionary; one that outgrows the page later is not used for the rest of its row group.
    page_bytes: int = 131_072
    compression: str = "zstd"  # ``zstd``, ``snappy``, ``gzip``, ``lz4``, ``none`` or ``uncompressed``
    page_version: int = 2  # the version of the data pages, 1 or 2
    # row_key_dictionaries, sort_key_dictionaries, value_dictionaries: whether these columns are written with
    # dictionaries. Sleeper's defaults are false for all. Ours are true for sort keys and values: on real data the
    # files are smaller and aggregations over them take less than half.
    row_key_dictionaries: bool = False
    sort_key_dictionaries: bool = True
    value_dictionaries: bool = True
    statistics: StatisticsColumns = AUTO_COLUMNS  # the columns whose statistics the references to the files keep

    @classmethod
    def of(cls, properties: TableProperties) -> Self:
        rows, page, compression, version, *others = properties.values(*_PROPERTIES)
        return cls(rows, page, compression, int(version.removeprefix("v")), *others)

    def writer_options(self, schema: Schema, rows: pa.Table) -> dict[str, Any]:
        """Return the options of PyArrow's Parquet writer for a file of a schema that begins with some rows."""
        groups = (
            (self.row_key_dictionaries, schema.row_keys),
            (self.sort_key_dictionaries, schema.sort_keys),
            (self.value_dictionaries, schema.values),
        )
        with_dictionary = {field.name for on, fields in groups if on for field in fields}
        return {
            "compression": "none" if self.compression == "uncompressed" else self.compression,
            "data_page_size": self.page_bytes,
            "dictionary_pagesize_limit": self.page_bytes,
            "data_page_version": f"{self.page_version}.0",
            **encodings(rows, with_dictionary, self.page_bytes, self.page_version),
        }


class SortedKeys:
    """Checks the order of batches of rows as they arrive, and tracks the least and greatest value of each row key.

    Batches have the row keys and sort keys of the schema. The ends are None before the first row, or if all values are
    null.
    """

    def __init__(self, schema: Schema) -> None:
        self._names, self._row_keys = schema.sort_order, [key.name for key in schema.row_keys]
        self._last: pa.Table | None = None
        self.rows, self.in_order = 0, True
        self.least: list[Any] = [None] * len(self._row_keys)
        self.greatest: list[Any] = [None] * len(self._row_keys)

    def see(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        keys = table.select(self._names)
        first = keys.slice(0, 1)
        follows = self._last is None or is_sorted(pa.concat_tables([self._last, first]))
        self.in_order = self.in_order and follows and is_sorted(keys)
        self._last = keys.slice(keys.num_rows - 1)
        self.rows += table.num_rows
        for i, name in enumerate(self._row_keys):
            low, high = self._ends(table[name], sorted_by_it=self.in_order and i == 0)
            self.least[i] = min((v for v in (self.least[i], low) if v is not None), default=None)
            self.greatest[i] = max((v for v in (self.greatest[i], high) if v is not None), default=None)

    @staticmethod
    def _ends(values: pa.ChunkedArray, *, sorted_by_it: bool) -> tuple[Any, Any]:
        """Return the least and the greatest value; of sorted values these are the first and the last."""
        if sorted_by_it and not values.null_count:
            return values[0].as_py(), values[-1].as_py()
        ends = pc.min_max(values).as_py()
        return ends["min"], ends["max"]


def is_sorted(keys: pa.Table) -> bool:
    """Return whether the rows are in ascending order of the columns, first column first."""
    if keys.num_rows < 2:
        return True
    before = [column.slice(0, keys.num_rows - 1) for column in keys.columns]
    after = [column.slice(1) for column in keys.columns]
    while before:
        if not pc.all(pc.less_equal(before[0], after[0])).as_py():
            return False
        # The following columns matter only where rows are equal so far; usually these are few.
        equal = pc.equal(before[0], after[0]) if len(before) > 1 else None
        if equal is None or not pc.any(equal).as_py():
            return True
        before, after = ([column.filter(equal) for column in columns[1:]] for columns in (before, after))
    return True


def run_starts(rows: pa.RecordBatch, names: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the indices, from 0, at which the values of the columns change in sorted rows without nulls."""
    if not rows.num_rows:
        return np.zeros(0, np.int64)
    differs = reduce(pc.or_, (pc.not_equal(rows[name][1:], rows[name][:-1]) for name in names))
    return np.concatenate(([0], np.flatnonzero(differs.to_numpy(zero_copy_only=False)) + 1))


AS_DEFAULT = DataFileSettings()


@dataclass(frozen=True, slots=True)
class DataFile:
    """A finished data file: path below the table's folder, rows, bytes, range of each row key, checksum, statistics."""

    filename: str
    rows: int
    bytes: int
    min_key: tuple[KeyValue, ...]
    max_key: tuple[KeyValue, ...]
    checksum: str | None = None
    statistics: tuple[ColumnStatistics, ...] = ()


class DataFileWriter:
    """Writes one data file, row group by row group. If the ``with`` block ends with an error, no file is left.

    Batches must have the columns of the table's schema, and be sorted by its row keys, then sort keys.
    """

    def __init__(
        self, storage: Storage, filename: str, schema: Schema, settings: DataFileSettings = AS_DEFAULT
    ) -> None:
        self._storage, self._filename, self._settings = storage, filename, settings
        self._fields, self._schema = schema, schema.in_files
        self._arrow = self._schema.arrow
        self._stack = contextlib.ExitStack()
        self._writer: pq.ParquetWriter | None = None
        self._checksum: Checksum | None = None
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._keys = SortedKeys(schema)
        self._statistics = StatisticsOfRows(settings.statistics.fields(schema))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows; their order is checked when their row group is written."""
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        if not table.num_rows:
            return
        self._waiting.append(table)
        self._waiting_rows += table.num_rows
        if self._waiting_rows >= self._settings.row_group_rows:
            self._flush(whole_groups_only=True)

    def finish(self) -> DataFile | None:
        """Write the remaining rows and return the finished file; None, and no file, if there were no rows."""
        self._flush(whole_groups_only=False)
        if self._checksum is None:
            return None
        self._stack.close()
        keys, written = self._keys, self._checksum
        ends = tuple(keys.least), tuple(keys.greatest)
        return DataFile(self._filename, keys.rows, written.bytes, *ends, written.text, self._statistics.found())

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
        if group.schema != self._arrow:
            group = group.cast(self._arrow)
        rows = group.combine_chunks()
        self._keys.see(rows)
        if not self._keys.in_order:
            raise StorageError(
                f"rows of {self._filename} are not sorted by {', '.join(self._schema.sort_order)}",
                hint="this is a bug in the writer; nothing was committed",
            )
        self._statistics.see(rows)
        if self._writer is None:
            self._writer = self._open(rows)
        self._writer.write_table(rows, row_group_size=rows.num_rows)

    def _open(self, first: pa.Table) -> pq.ParquetWriter:
        stream, self._checksum = self._stack.enter_context(checksummed(self._storage, self._filename))
        order = [pq.SortingColumn(self._schema.names.index(name)) for name in self._schema.sort_order]
        return self._stack.enter_context(
            pq.ParquetWriter(
                stream,
                self._arrow,
                write_page_index=True,
                write_page_checksum=True,
                sorting_columns=order,
                write_statistics=_with_statistics(self._schema),
                **self._settings.writer_options(self._schema, first),
            )
        )


def _with_statistics(schema: Schema) -> list[str]:
    """Return the columns with statistics; not floats, whose statistics ignore NaN and so mislead readers."""
    bare = {"float", "double", "list", "map", "struct"}
    return [field.name for field in schema.fields if field.type.name not in bare]


# How the columns of a file are encoded: by the rows of its first row group.
#
# A dictionary pays where few values repeat. One that is given up half-way costs its making, and readers its decoding,
# for nothing. Whole numbers and times that differ little from one row to the next, such as most keys, counters and
# times of events, are kept as their differences: less to compress, to write and to read.

DIFFERENCES: Final = "DELTA_BINARY_PACKED"
_BLOCK: Final = 32
"""The rows whose differences Parquet keeps with the same number of bits."""


def encodings(rows: pa.Table, with_dictionary: Collection[str], page_bytes: int, page_version: int) -> dict[str, Any]:
    """Return the options of PyArrow's Parquet writer that choose encodings, for a file that begins with some rows.

    In data pages of version 1 numbers are not kept as differences, as readers of that version need not know them.
    """
    dictionaries: list[str] = []
    differences = []
    for field, values in zip(rows.schema, rows.columns, strict=True):
        entries, size = _dictionary(values) if field.name in with_dictionary else (len(values), page_bytes + 1)
        fits = size <= page_bytes
        repeats = fits and 2 * entries <= len(values)
        if page_version > 1 and not repeats and _differs_little(values):
            differences.append(field.name)
        elif fits:
            dictionaries += stored_paths(field.name, field.type)
    return {"use_dictionary": dictionaries, "column_encoding": dict.fromkeys(differences, DIFFERENCES) or None}


def stored_paths(path: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the paths of a field in a Parquet file, by the names that Parquet advises; a nested one has several."""
    if is_list_type(kind):
        yield from stored_paths(f"{path}.list.element", kind.value_type)
    elif pa.types.is_map(kind):
        yield from stored_paths(f"{path}.key_value.key", kind.key_type)
        yield from stored_paths(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from stored_paths(f"{path}.{field.name}", field.type)
    else:
        yield path


def _dictionary(values: pa.ChunkedArray) -> tuple[int, int]:
    """Return how many different values there are, and their bytes; 0 of nested ones, whose parts have dictionaries."""
    if pa.types.is_nested(values.type):
        return 0, 0
    different = pc.unique(values)
    return len(different), different.nbytes


def _differs_little(values: pa.ChunkedArray) -> bool:
    """Return whether the differences of whole numbers or times take less than half of the bits that these have."""
    kind = values.type
    is_long = pa.types.is_int64(kind) or pa.types.is_timestamp(kind) or pa.types.is_time64(kind)
    if not (is_long or pa.types.is_int32(kind) or pa.types.is_date32(kind)):
        return False
    width = 64 if is_long else 32
    plain = pa.int64() if is_long else pa.int32()
    numbers = values.combine_chunks().drop_null().view(plain).to_numpy().astype(np.int64, copy=False)
    differences = numbers[1:] - numbers[:-1]  # those that overflow are small again, as in the file
    blocks = differences[: len(differences) // _BLOCK * _BLOCK].reshape(-1, _BLOCK)
    if not len(blocks):
        return False
    spread = (blocks.max(axis=1) - blocks.min(axis=1)).view(np.uint64)
    return float(np.log2(spread.astype(np.float64) + 1).mean()) * 2 < width
