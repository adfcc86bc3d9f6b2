"""Whatever a user hands to ingest: files, or rows in memory, as columns that are compared with the table's schema."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.operations.loading.casts import BAD_VALUE, InexactValueError
from sleeper_nb.operations.loading.conform import (
    Conformed,
    Difference,
    RawColumns,
    compare,
    first_line,
    inexact,
    raise_first,
    row_number,
)
from sleeper_nb.operations.loading.file_formats import read_file
from sleeper_nb.operations.loading.python_values import from_python
from sleeper_nb.operations.loading.source_files import (
    AS_NAMED,
    CsvFormat,
    SourceFile,
    find_files,
)
from sleeper_nb.storage.filesystem import Storage


@dataclass(frozen=True, slots=True)
class InMemory:
    """Rows that some library holds, or computes when asked: as the user handed them in."""

    data: Any

    @property
    def is_spark(self) -> bool:
        """Whether Spark has the rows."""
        return type(self.data).__module__.startswith("pyspark.")


IngestSource = SourceFile | InMemory


def gather(data: Any, home: Storage | None = None, csv: CsvFormat = AS_NAMED) -> tuple[IngestSource, ...]:
    """Return what `data` consists of, files by name; nothing is read yet.

    Parameters
    ----------
    data
        pandas, Arrow (table, batch, reader, dataset), Polars (lazy too), a DuckDB relation, a Spark DataFrame or
        anything else with Arrow's C stream; a list of dictionaries; the path, folder, glob or ``s3://`` address of
        Parquet, CSV or JSON-lines files; or a list of any of these.
    home
        The table's storage: a bucket's region and server are its, where it is in a bucket itself.
    csv
        How CSV files are written.

    Raises
    ------
    NotFound
        When a path or glob names no file.
    InvalidInput
        When it is said how CSV files are written, and there is none.
    """
    several = isinstance(data, list | tuple) and data and not any(isinstance(each, dict) for each in data)
    parts: list[IngestSource] = []
    for each in data if several else [data]:
        found = isinstance(each, str | Path)
        parts += [replace(file, csv=csv) for file in find_files(each, home)] if found else [InMemory(each)]
    if any(isinstance(part, InMemory) and part.is_spark for part in parts) and len(parts) > 1:
        raise InvalidInput("a Spark DataFrame goes alone", hint="join them by union, or ingest one after the other")
    if csv != AS_NAMED and not any(isinstance(part, SourceFile) and part.format == "csv" for part in parts):
        raise InvalidInput("there is no CSV file", hint="leave delimiter, null text and header out")
    return tuple(parts)


def bytes_of(sources: Iterable[IngestSource]) -> int:
    """Return the bytes of the files; rows in memory count nothing."""
    return sum(source.bytes for source in sources if isinstance(source, SourceFile))


def is_spark(sources: Sequence[IngestSource]) -> bool:
    """Return whether the rows are in a Spark DataFrame."""
    return any(isinstance(source, InMemory) and source.is_spark for source in sources)


def conformed(source: IngestSource, schema: Schema) -> Conformed:
    """Return the rows of one source as far as they fit a table, with every difference."""
    if isinstance(source, SourceFile):
        return read_file(source, schema)
    found = compare(_raw(source.data, schema), schema)
    return _with_index(found, source.data) if _is_pandas(source.data) else found


def rows_of(sources: Iterable[IngestSource], schema: Schema) -> pa.Table:
    """Return all rows as one Arrow table with the schema's columns and types.

    Raises
    ------
    InvalidInput
        For the first of all differences, of all sources, in their order.
    """
    return rows_and_notes(sources, schema)[0]


def rows_and_notes(sources: Iterable[IngestSource], schema: Schema) -> tuple[pa.Table, tuple[str, ...]]:
    """Return all rows as `rows_of` does, and what the load changes although every value fits."""
    read = [conformed(source, schema) for source in sources]
    raise_first([difference for each in read for difference in each.differences])
    notes = dict.fromkeys(note for each in read for note in each.notes)
    return pa.concat_tables([each.table(schema) for each in read]), tuple(notes)


def notes_of(sources: Iterable[IngestSource], schema: Schema) -> tuple[str, ...]:
    """Return what a load changes although every value fits: NaN of pandas, which are NULL."""
    frames = [source.data for source in sources if isinstance(source, InMemory) and _is_pandas(source.data)]
    return tuple(note for frame in frames for note in _nan_notes(frame, schema).values())


def check_columns(columns: Iterable[str] | None, schema: Schema) -> None:
    """Raise `NotFound` for a name that is no column, naming the nearest."""
    for name in columns or ():
        if name not in schema.names:
            raise NotFound.of("column", name, schema.names)


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns")


def _with_index(found: Conformed, frame: Any) -> Conformed:
    """Return what was found of a frame, with the way to ingest a missing column that is its index."""
    index = {str(name) for name in frame.index.names if name is not None} - {str(name) for name in frame.columns}
    told = tuple(
        replace(each, hint="it is the frame's index: ingest frame.reset_index()") if each.column in index else each
        for each in found.differences
    )
    return replace(found, differences=told)


def _raw(data: Any, schema: Schema) -> RawColumns:
    library = type(data).__module__.partition(".")[0]
    if isinstance(data, list) and all(isinstance(row, dict) for row in data):
        return _from_rows(data, schema)
    if _is_pandas(data):
        return _from_pandas(data, schema)
    return RawColumns.of(_to_arrow(data, library))


def _to_arrow(data: Any, library: str) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if library == "polars" and hasattr(data, "collect"):
        data = data.collect()
    if library == "pyarrow" and hasattr(data, "to_table"):  # a dataset, or a scan of one
        return data.to_table()
    if hasattr(data, "__arrow_c_stream__") and not (library == "polars" and not hasattr(data, "columns")):
        try:
            return pa.table(data)
        except pa.ArrowException as error:
            hint = "convert the columns whose types Arrow lacks, such as Int128 of Polars to Int64 or Decimal"
            raise InvalidInput(f"the data cannot be read as Arrow: {first_line(error)}", hint=hint) from error
    raise InvalidInput(
        f"cannot ingest a {type(data).__module__}.{type(data).__qualname__}",
        hint="give a pandas, Polars, Arrow, DuckDB or Spark table, a list of dictionaries, or a path",
    )


def _from_rows(rows: list[dict[str, Any]], schema: Schema) -> RawColumns:
    if not rows:
        return RawColumns.of(schema.arrow.empty_table())
    given = tuple(dict.fromkeys(name for row in rows for name in row))
    keys = {str(name): name for name in given}
    made = {f.name: _column([row.get(keys[f.name]) for row in rows], f) for f in schema.fields if f.name in keys}
    others = {name: _as_found([row.get(key) for row in rows]) for name, key in keys.items() if name not in made}
    return _gathered(tuple(map(str, given)), {**made, **others}, len(rows))


def _column(values: list[Any], target: Field) -> pa.ChunkedArray | Difference:
    """Return values of Python as a column, or why they cannot be."""
    try:
        return pa.chunked_array([from_python(values, target.type)])
    except InexactValueError as error:
        return inexact(error, target, row_number)


def _as_found(values: Any) -> pa.ChunkedArray | None:
    """Return the values of a column that the table does not have, for its type; None where Arrow has none."""
    try:
        return pa.chunked_array([pa.array(values, from_pandas=True)])
    except BAD_VALUE:
        return None


def _gathered(
    names: tuple[str, ...],
    made: Mapping[str, pa.ChunkedArray | Difference | None],
    rows: int,
    notes: Mapping[str, str] = MappingProxyType({}),
) -> RawColumns:
    bad = tuple(each for each in made.values() if isinstance(each, Difference))
    columns = {name: each for name, each in made.items() if isinstance(each, pa.ChunkedArray)}
    return RawColumns(names, columns, rows, bad, notes=notes)


def _from_pandas(frame: Any, schema: Schema) -> RawColumns:
    """Return the columns of a data frame; NaN is NULL, as pandas means it, in all columns that are not masked."""
    names = tuple(str(name) for name in frame.columns)
    fields = {f.name: f for f in schema.fields}
    made: dict[str, pa.ChunkedArray | Difference | None] = {}
    for i, name in enumerate(names):
        series = frame.iloc[:, i]
        made[name] = _from_series(series, fields[name]) if name in fields else _as_found(series)
    return _gathered(names, made, len(frame), _nan_notes(frame, schema))


def _nan_notes(frame: Any, schema: Schema) -> dict[str, str]:
    """Return by column how many NaN become NULL where the table could hold NaN."""
    floats = {f.name for f in schema.fields if f.type.name in {"float", "double"}}
    counts = {str(name): _nans(frame.iloc[:, i]) for i, name in enumerate(frame.columns) if str(name) in floats}
    return {
        name: f"column {name!r}: {count} NaN of pandas {'is' if count == 1 else 'are'} NULL"
        for name, count in counts.items()
        if count
    }


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _nans(series: Any) -> int:
    """Return how many values are NaN of a float, which pandas has for what is missing too."""
    if series.dtype == object:
        return sum(_is_nan(value) for value in series)
    return int(series.isna().sum()) if isinstance(series.dtype, np.dtype) and series.dtype.kind == "f" else 0


def _from_series(series: Any, target: Field) -> pa.ChunkedArray | Difference:
    if series.dtype == object:
        values = [None if _is_nan(value) else value for value in series]
        return _column(values, target)
    try:
        array = pa.array(series, from_pandas=True)
    except BAD_VALUE as error:
        problem = f"column {target.name!r} of the data frame is {series.dtype}: {first_line(error)}"
        return Difference(target.name, problem, f"convert it to {target.type} first; nothing was ingested")
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
