"""Whatever a user hands to ingest, as an Arrow table with the table's columns; or an error that says why not."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterable
from datetime import datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, json, parquet

from sleeper_nb.errors import InvalidInput, NotFound, SleeperError, StorageError
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.report import counted

FORMATS = (".parquet", ".csv", ".csv.gz", ".json", ".jsonl")

_CSV_VALUE = re.compile(r"CSV column #(\d+): CSV conversion error to \S+: (.*)")
_JSON_VALUE = re.compile(r"Column\(.*\) changed from|Failed to convert JSON to")


def find_files(source: str | Path) -> list[Path]:
    """Return the data files that a path, folder or glob names, by name.

    Raises
    ------
    NotFound
        When there is none.
    """
    text = str(Path(source).expanduser())
    if Path(text).is_file():  # first, for a name can have brackets of its own
        found = [Path(text)]
    elif Path(text).is_dir():
        found = sorted(path for path in Path(text).rglob("*") if path.name.endswith(FORMATS))
    else:
        found = sorted(Path(name) for name in glob.glob(text, recursive=True))  # noqa: PTH207 - pathlib's needs a folder to start from
    if not found:
        raise NotFound(f"no data file {str(source)!r}", hint="give a path or a glob such as data/2026-*.parquet")
    return found


def size_of(data: Any) -> int:
    """Return the bytes of the files that a path or glob names; 0 for data that is in memory already."""
    return sum(path.stat().st_size for path in find_files(data)) if isinstance(data, str | Path) else 0


def check_columns(columns: Iterable[str] | None, schema: Schema) -> None:
    """Raise `NotFound` for a name that is no column, naming the nearest."""
    for name in columns or ():
        if name not in schema.names:
            raise NotFound.of("column", name, schema.names)


def to_arrow(data: Any, schema: Schema) -> pa.Table:
    """Return `data` as one Arrow table; its columns are those of `data` still.

    Parameters
    ----------
    data
        pandas, Arrow (table, batch, reader), Polars, a DuckDB relation or anything else with Arrow's C stream, a list
        of dictionaries, or the path or glob of Parquet, CSV or JSON-lines files.
    schema
        The table's schema: CSV and JSON values are read as its types.
    """
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, str | Path):
        return _joined([_read(path, schema) for path in find_files(data)])
    if isinstance(data, list) and all(isinstance(row, dict) for row in data):
        return _from_rows(data, schema)
    if type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns"):
        return _from_pandas(data)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    raise InvalidInput(
        f"cannot ingest a {type(data).__module__}.{type(data).__qualname__}",
        hint="give a pandas, Polars, Arrow, DuckDB or Spark table, a list of dictionaries, or a path",
    )


def _from_rows(rows: list[dict[str, Any]], schema: Schema) -> pa.Table:
    if not rows:
        return schema.arrow.empty_table()
    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    known = {field.name: field.type.arrow for field in schema.fields}
    arrays = {}
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            arrays[name] = pa.array(values, known.get(name))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise InvalidInput(f"column {name!r}: {_first_line(error)}", hint=f"it is {known.get(name)}") from error
        _refuse_cut(name, values, arrays[name])
    return pa.table(arrays)


def _refuse_cut(name: str, values: list[Any], array: pa.Array) -> None:
    """Arrow cuts off the fraction of a number that becomes whole, and the time of a moment that becomes a date."""
    cut: list[Any] = []
    if pa.types.is_integer(array.type):
        cut = [v for v, kept in zip(values, array.to_pylist(), strict=True) if v is not None and v != kept]
    elif pa.types.is_date(array.type):
        cut = [v for v in values if isinstance(v, datetime) and v.time() != time()]
    if cut:
        raise InvalidInput(f"column {name!r}: {cut[0]!r} would be cut", hint=f"it is {array.type}: round it first")


def _from_pandas(frame: Any) -> pa.Table:
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        hint = "give each column a name of its own and values of one type"
        raise InvalidInput(f"cannot take over the data frame: {_first_line(error)}", hint=hint) from error


def _joined(tables: list[pa.Table]) -> pa.Table:
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidInput(
            f"the files do not fit together: {_first_line(error)}", hint="ingest them one by one, or mend the odd one"
        ) from error


def _read(path: Path, schema: Schema) -> pa.Table:
    types = {field.name: field.type.arrow for field in schema.fields if not pa.types.is_nested(field.type.arrow)}
    # left to Arrow's guess: moments, as it demands a zone of those in CSV, and dates, as it reads none in JSON
    in_csv = {name: t for name, t in types.items() if not pa.types.is_timestamp(t)}
    in_json = pa.schema([(name, t) for name, t in types.items() if not pa.types.is_date(t)])
    readers: dict[str, Callable[[], pa.Table]] = {
        ".parquet": lambda: parquet.read_table(path),
        ".csv": lambda: csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=in_csv)),
        ".json": lambda: json.read_json(path, parse_options=json.ParseOptions(explicit_schema=in_json)),
    }
    kind = next((end for end in FORMATS if path.name.endswith(end)), None)
    if kind is None:
        raise InvalidInput(f"cannot tell the format of {path}", hint=f"its name ends in {', '.join(FORMATS)}")
    try:
        return readers[".csv" if kind.startswith(".csv") else ".json" if kind.startswith(".json") else kind]()
    except (pa.ArrowException, OSError) as error:
        raise _refused(path, _first_line(error), schema) from error


def _refused(path: Path, said: str, schema: Schema) -> SleeperError:
    """Return the error for a file that Arrow cannot read: a value of a wrong type, or no file of that format."""
    if found := _CSV_VALUE.search(said):
        name = csv.open_csv(path).schema.names[int(found[1])]
        hint = next((f"it is {field.type}" for field in schema.fields if field.name == name), "")
        return InvalidInput(f"column {name!r} of {path}: {found[2]}", hint=f"{hint}; nothing was ingested")
    if _JSON_VALUE.search(said):
        fields = ", ".join(f"{field.name} {field.type}" for field in schema.fields)
        return InvalidInput(f"a value of a wrong type in {path}: {said}", hint=f"the table has {fields}")
    return StorageError(f"cannot read {path}: {said}", hint="is it whole, and of that format?")


def conform(table: pa.Table, schema: Schema) -> pa.Table:
    """Return the table with the schema's columns, order and types; nothing is lost in a cast.

    Raises
    ------
    InvalidInput
        When a column is missing, unknown, of a type that cannot be cast without loss, or has nulls where it must not.
    """
    present = table.column_names
    if repeated := [name for name in present if present.count(name) > 1]:
        raise InvalidInput(f"column {repeated[0]!r} is there twice", hint="give each column a name of its own")
    missing = [f.name for f in schema.fields if f.name not in present and not f.nullable]
    if missing:
        raise InvalidInput(
            f"missing column{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))}",
            hint=f"the data has {', '.join(present) or 'no column'}",
        )
    if unknown := [name for name in present if name not in schema.names]:
        raise InvalidInput(
            f"unknown column{'s' * (len(unknown) > 1)} {', '.join(map(repr, unknown))}",
            hint=f"leave it out, or create the table with it; the table has {', '.join(schema.names)}",
        )
    columns = [
        _cast(table[f.name], f) if f.name in present else pa.nulls(table.num_rows, f.type.arrow) for f in schema.fields
    ]
    return pa.table(columns, schema=schema.arrow)


def _cast(column: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    if column.null_count and not field.nullable:
        raise InvalidInput(
            f"column {field.name!r} has {counted(column.null_count, 'null')}",
            hint="drop those rows or fill them in; only fields written with ? can be null",
        )
    try:
        return _without_loss(column, field.type.arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InvalidInput(
            f"column {field.name!r} is {column.type}, which cannot become {field.type}: {_first_line(error)}",
            hint="cast it first; nothing was ingested",
        ) from error


def _without_loss(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """Cast, and raise Arrow's own error also where Arrow would lose something without a word."""
    column = _decoded(column)
    source = column.type
    if pa.types.is_timestamp(source) and source.tz is None:
        column = pc.assume_timezone(column.cast(pa.timestamp("us")), "UTC")  # a time without a zone is UTC
    numbers = pa.types.is_integer(source) or pa.types.is_floating(source)
    if numbers and (pa.types.is_timestamp(target) or pa.types.is_date(target)):
        raise pa.ArrowInvalid("a number does not say in which unit it counts time")
    cast = column.cast(target)
    cuts = (numbers and pa.types.is_boolean(target)) or (pa.types.is_timestamp(source) and pa.types.is_date(target))
    if cuts and cast.cast(column.type) != column:
        raise pa.ArrowInvalid("something would be cut off")
    if pa.types.is_floating(source) and pa.types.is_floating(target) and pc.is_inf(cast) != pc.is_inf(column):
        raise pa.ArrowInvalid("a number is too large")
    return cast


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the texts of Polars' categories, which are views: Arrow cannot look those up by number, nor cast them."""
    if not (pa.types.is_dictionary(column.type) and pa.types.is_string_view(column.type.value_type)):
        return column
    text = pa.large_string()
    return pa.chunked_array([chunk.dictionary.cast(text).take(chunk.indices) for chunk in column.chunks], text)


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
