"""Whatever a user hands to ingest: files, or rows in memory, as columns that are compared with the table's schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations.loading.conforming import Conformed, Difference, RawColumns, compare, first_line, raise_first
from sleeper_nb.operations.loading.file_formats import read_file
from sleeper_nb.operations.loading.source_files import SourceFile, find_files
from sleeper_nb.storage.filesystem import Storage


@dataclass(frozen=True, slots=True)
class InMemory:
    """Rows that some library holds, or computes when asked: as the user handed them in."""

    data: Any

    @property
    def is_spark(self) -> bool:
        """Whether Spark has the rows."""
        return type(self.data).__module__.startswith("pyspark.")


Source = SourceFile | InMemory


def gather(data: Any, home: Storage | None = None) -> tuple[Source, ...]:
    """Return what `data` consists of, files by name; nothing is read yet.

    Parameters
    ----------
    data
        pandas, Arrow (table, batch, reader, dataset), Polars (lazy too), a DuckDB relation, a Spark DataFrame or
        anything else with Arrow's C stream; a list of dictionaries; the path, folder, glob or ``s3://`` address of
        Parquet, CSV or JSON-lines files; or a list of any of these.
    home
        The table's storage: a bucket's region and server are its, where it is in a bucket itself.

    Raises
    ------
    NotFound
        When a path or glob names no file.
    """
    several = isinstance(data, list | tuple) and data and not any(isinstance(each, dict) for each in data)
    parts: list[Source] = []
    for each in data if several else [data]:
        parts += find_files(each, home) if isinstance(each, str | Path) else [InMemory(each)]
    if any(isinstance(part, InMemory) and part.is_spark for part in parts) and len(parts) > 1:
        raise InvalidInput("a Spark DataFrame goes alone", hint="join them by union, or ingest one after the other")
    return tuple(parts)


def bytes_of(sources: Iterable[Source]) -> int:
    """Return the bytes of the files; rows in memory count nothing."""
    return sum(source.bytes for source in sources if isinstance(source, SourceFile))


def is_spark(sources: Sequence[Source]) -> bool:
    """Return whether the rows are in a Spark DataFrame."""
    return any(isinstance(source, InMemory) and source.is_spark for source in sources)


def conformed(source: Source, schema: Schema) -> Conformed:
    """Return the rows of one source as far as they fit a table, with every difference."""
    return read_file(source, schema) if isinstance(source, SourceFile) else compare(_raw(source.data, schema), schema)


def rows_of(sources: Iterable[Source], schema: Schema) -> pa.Table:
    """Return all rows as one Arrow table with the schema's columns and types.

    Raises
    ------
    InvalidInput
        For the first of all differences, of all sources, in their order.
    """
    read = [conformed(source, schema) for source in sources]
    raise_first([difference for each in read for difference in each.differences])
    return pa.concat_tables([each.table(schema) for each in read])


def check_columns(columns: Iterable[str] | None, schema: Schema) -> None:
    """Raise `NotFound` for a name that is no column, naming the nearest."""
    for name in columns or ():
        if name not in schema.names:
            raise NotFound.of("column", name, schema.names)


def _raw(data: Any, schema: Schema) -> RawColumns:
    library = type(data).__module__.partition(".")[0]
    if isinstance(data, list) and all(isinstance(row, dict) for row in data):
        return _from_rows(data, schema)
    if library == "pandas" and hasattr(data, "columns"):
        return _from_pandas(data)
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
        return pa.table(data)
    raise InvalidInput(
        f"cannot ingest a {type(data).__module__}.{type(data).__qualname__}",
        hint="give a pandas, Polars, Arrow, DuckDB or Spark table, a list of dictionaries, or a path",
    )


def _from_rows(rows: list[dict[str, Any]], schema: Schema) -> RawColumns:
    if not rows:
        return RawColumns.of(schema.arrow.empty_table())
    names = tuple(dict.fromkeys(str(name) for row in rows for name in row))
    known = {field.name: field.type.arrow for field in schema.fields}
    columns: dict[str, pa.ChunkedArray] = {}
    bad: list[Difference] = []
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            array = pa.array(values, known.get(name))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            change = f"it is {known[name]}" if name in known else "leave it out"
            bad.append(Difference(name, f"column {name!r}: {first_line(error)}", change))
            continue
        cut = _cut(values, array)
        if cut:
            change = f"it is {array.type}: round it first"
            bad.append(Difference(name, f"column {name!r}: {cut[0]!r} would be cut", change))
        else:
            columns[name] = pa.chunked_array([array])
    return RawColumns(names, columns, len(rows), tuple(bad))


def _cut(values: list[Any], array: pa.Array) -> list[Any]:
    """Return what Arrow would cut: the fraction of a number made whole, the time of a moment made a date."""
    if pa.types.is_integer(array.type):
        return [v for v, kept in zip(values, array.to_pylist(), strict=True) if v is not None and v != kept]
    if pa.types.is_date(array.type):
        return [v for v in values if isinstance(v, datetime) and v.time() != time()]
    return []


def _from_pandas(frame: Any) -> RawColumns:
    try:
        return RawColumns.of(pa.Table.from_pandas(frame, preserve_index=False))
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        pass  # one column after the other tells which
    columns: dict[str, pa.ChunkedArray] = {}
    bad: list[Difference] = []
    names = tuple(str(name) for name in frame.columns)
    for i, name in enumerate(names):
        try:
            columns[name] = pa.Table.from_pandas(frame.iloc[:, [i]], preserve_index=False).column(0)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            problem = f"column {name!r} of the data frame: {first_line(error)}"
            bad.append(Difference(name, problem, "give it values of one type"))
    return RawColumns(names, columns, len(frame), tuple(bad))
