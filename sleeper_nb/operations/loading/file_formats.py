"""One Parquet, CSV or JSON-lines file as columns: read as the table's types, the same whole or in pieces.

No type of a column that the table knows is left to a guess, as a guess depends on which rows are looked at: a file
gives the same values, and the same errors, in process and in a task that reads a part of it.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from json import loads

import pyarrow as pa
from pyarrow import csv, json, parquet

from sleeper_nb.errors import InvalidInput, SleeperError, StorageError
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations.loading.conforming import (
    CSV_NULLS,
    Conformed,
    Difference,
    RawColumns,
    compare,
    first_line,
    moments_of,
)
from sleeper_nb.operations.loading.source_files import SourceFile

BATCH_ROWS = 65_536
"""Rows of a piece of a Parquet file."""
BLOCK_BYTES = 8 << 20
"""Bytes of a piece of a CSV or JSON file; no row can be longer."""
_TOLD_WHOLE_BYTES = 256 << 20
_NAMES_IN_LINES = 1000

_CSV_VALUE = re.compile(r".*CSV conversion error to \S+: ")


def read_file(file: SourceFile, schema: Schema) -> Conformed:
    """Return a whole file as far as it fits a table, with every difference.

    Raises
    ------
    StorageError
        When it is not whole, or not of the format that its name says.
    """
    kind = file.format
    with _told(file):
        if kind == "parquet":
            with open_parquet(file) as opened:
                raw = RawColumns.of(opened.read())
        else:
            raw = _read_text(file, schema)
        return compare(raw, schema).of(file.address)


def pieces_of(file: SourceFile, schema: Schema, row_groups: range | None = None) -> Iterator[pa.Table]:
    """Yield the rows of a file piece by piece, with the schema's columns and types; memory holds one piece.

    Parameters
    ----------
    file
        The file.
    schema
        The table's schema.
    row_groups
        Of a Parquet file only these; all when None.

    Raises
    ------
    InvalidInput
        When the file does not fit: the first difference of the whole file, of the piece where that is large.
    StorageError
        As `read_file`.
    """
    empty, failed = True, None
    try:
        with _told(file):
            for table in _pieces(file, schema, row_groups):
                empty = False
                yield compare(_with_moments(table, schema), schema).of(file.address).table(schema)
    except (InvalidInput, StorageError) as error:
        failed = error
    # without rows it may lack columns too; both are raised here, as an error's chain is seen behind a task of Spark
    if (failed is not None and file.bytes <= _TOLD_WHOLE_BYTES) or (empty and row_groups is None):
        read_file(file, schema).table(schema)
    if failed is not None:
        raise failed


def open_parquet(file: SourceFile) -> parquet.ParquetFile:
    """Return a Parquet file of which only the footer was read; close it."""
    with _told(file):
        return parquet.ParquetFile(file.open())


def read_parquet(file: SourceFile, opened: parquet.ParquetFile, column: str) -> pa.ChunkedArray:
    """Return one column of an open Parquet file."""
    with _told(file):
        return opened.read([column]).column(column)


@contextlib.contextmanager
def _told(file: SourceFile) -> Iterator[None]:
    try:
        yield
    except SleeperError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        hint = "is it whole, and of that format?"
        raise StorageError(f"cannot read {file.address}: {first_line(error)}", hint=hint) from error


def _pieces(file: SourceFile, schema: Schema, row_groups: range | None) -> Iterator[pa.Table]:
    """Yield tables as the format's own reader gives them."""
    if file.format == "parquet":
        with open_parquet(file) as opened:
            groups = list(row_groups) if row_groups is not None else list(range(opened.num_row_groups))
            for batch in opened.iter_batches(BATCH_ROWS, row_groups=groups):
                yield pa.Table.from_batches([batch])
        return
    with file.open() as stream:
        if file.format == "csv":
            options = csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES)
            reader = csv.open_csv(stream, options, convert_options=_csv_options(schema, None))
        else:
            reader = json.open_json(stream, json.ReadOptions(block_size=BLOCK_BYTES), _json_options(schema, None))
        for batch in reader:
            yield pa.Table.from_batches([batch])


def _read_text(file: SourceFile, schema: Schema) -> RawColumns:
    """Read a CSV or JSON file; where values are of a wrong type, all other columns, and what is wrong with these."""
    read, names_of = (_read_csv, _csv_names) if file.format == "csv" else (_read_json, _json_names)
    try:
        return _with_moments(read(file, schema, None), schema)
    except pa.ArrowInvalid:
        names, bad = names_of(file), {}
        for name in names:
            try:
                read(file, schema, [name])
            except pa.ArrowInvalid as error:
                bad[name] = _wrong_value(name, schema, _CSV_VALUE.sub("", first_line(error)))
        if not bad:
            for _ in _pieces(file, schema, None):  # of torn rows, this reader knows their number
                pass
            raise
    good = [name for name in names if name not in bad]
    found = _with_moments(read(file, schema, good), schema) if good else RawColumns((), {}, 0)
    return RawColumns(names, found.columns, found.rows, (*bad.values(), *found.differences))


def _with_moments(table: pa.Table, schema: Schema) -> RawColumns:
    """Return columns with moments and dates made of the texts that they are in a CSV or JSON file."""
    kinds = {f.name: f.type.name for f in schema.fields if f.type.name in {"timestamp", "date"}}
    raw = RawColumns.of(table)
    made, bad = dict(raw.columns), []
    for name, kind in kinds.items():
        if name in made and pa.types.is_string(made[name].type):
            texts = made.pop(name)
            try:
                made[name] = moments_of(texts) if kind == "timestamp" else texts.cast(pa.date32())
            except pa.ArrowInvalid as error:
                bad.append(_wrong_value(name, schema, first_line(error)))
    return RawColumns(raw.names, made, raw.rows, tuple(bad))


def _wrong_value(name: str, schema: Schema, said: str) -> Difference:
    kind = next((f"it is {f.type}" for f in schema.fields if f.name == name), "leave it out")
    return Difference(name, f"column {name!r}: {said}", f"{kind}; nothing was ingested")


def _csv_options(schema: Schema, only: Sequence[str] | None) -> csv.ConvertOptions:
    # Arrow demands a zone of moments in CSV, so they are read as texts
    types = {f.name: pa.string() if f.type.name == "timestamp" else f.type.arrow for f in schema.fields}
    flat = {name: kind for name, kind in types.items() if not pa.types.is_nested(kind)}
    return csv.ConvertOptions(column_types=flat, include_columns=only, null_values=list(CSV_NULLS))


def _read_csv(file: SourceFile, schema: Schema, only: Sequence[str] | None) -> pa.Table:
    with file.open() as stream:
        options = csv.ReadOptions(block_size=BLOCK_BYTES)
        return csv.read_csv(stream, options, convert_options=_csv_options(schema, only))


def _csv_names(file: SourceFile) -> tuple[str, ...]:
    with file.open() as stream:
        return tuple(csv.open_csv(stream, csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES)).schema.names)


def _json_options(schema: Schema, only: Sequence[str] | None) -> json.ParseOptions:
    # Arrow reads no dates in JSON, so they are read as texts; those within lists and maps it may guess
    types = [(f.name, pa.string() if f.type.name == "date" else f.type.arrow) for f in schema.fields]
    known = [(name, kind) for name, kind in types if "date32" not in str(kind) and (only is None or name in only)]
    others = "infer" if only is None else "ignore"
    return json.ParseOptions(explicit_schema=pa.schema(known), unexpected_field_behavior=others)


def _read_json(file: SourceFile, schema: Schema, only: Sequence[str] | None) -> pa.Table:
    with file.open() as stream:
        table = json.read_json(stream, json.ReadOptions(block_size=BLOCK_BYTES), _json_options(schema, only))
    # Arrow adds the columns that it was told of; one without any value is not in the file
    there = [name for name in table.column_names if not table.num_rows or table[name].null_count < table.num_rows]
    return table.select(there)


def _json_names(file: SourceFile) -> tuple[str, ...]:
    """Return the names in the first rows, in their order."""
    with file.open() as stream:
        lines = io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8")
        rows = [loads(line) for line in itertools.islice(lines, _NAMES_IN_LINES) if line.strip()]
    return tuple(dict.fromkeys(name for row in rows for name in row))
