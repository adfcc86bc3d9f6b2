"""Data that some library holds in memory, or computes on request, as one Arrow table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from sleeper_nb.errors import InvalidInput, first_line
from sleeper_nb.report import class_name


def is_pandas(data: Any) -> bool:
    """Return whether data is a pandas DataFrame, or of a class made from it."""
    return _is_a(data, "pandas", "DataFrame")


def is_spark(data: Any) -> bool:
    """Return whether data is a Spark DataFrame."""
    return _is_a(data, "pyspark", "DataFrame")


def is_rows(data: Any) -> bool:
    """Return whether data is a list of dictionaries."""
    return isinstance(data, list) and all(isinstance(row, dict) for row in data)


def is_table(data: Any) -> bool:
    """Return whether data has rows and named columns, and can be read more than once."""
    if isinstance(data, type):
        return False
    if is_pandas(data) or is_spark(data) or isinstance(data, pa.RecordBatch):
        return True
    is_lazy = _library(data) in {"polars", "pyarrow"} and (hasattr(data, "collect") or hasattr(data, "to_table"))
    return is_lazy or (_has_stream(data) and not isinstance(data, pa.RecordBatchReader | pa.ChunkedArray | pa.Array))


def names_of(data: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of data, without reading rows; None if it does not say them."""
    if hasattr(data, "collect_schema"):  # lazy Polars, whose `columns` warns
        return tuple(data.collect_schema().names())
    if is_pandas(data) or is_spark(data):
        return tuple(map(str, data.columns))
    schema = getattr(data, "projected_schema", None) or getattr(data, "schema", None)
    if isinstance(schema, pa.Schema):
        return tuple(schema.names)
    columns = getattr(data, "columns", None)
    return tuple(map(str, columns)) if isinstance(columns, list) else None


def with_index(data: Any) -> Any:
    """Return a pandas table with a named index, and each level of a MultiIndex, as columns, none of them sparse.

    Other data stays as it is.

    As in `reset_index`, they come first, and a level without a name is ``level_0``; but a level that is a column too
    is one column. An index without a name numbers the rows, and stays what it is.

    Raises
    ------
    InvalidInput
        When a level has other values than the column of its name.
    """
    if not is_pandas(data):
        return data
    data = _dense(data)
    if data.index.nlevels == 1 and data.index.name is None:
        return data
    table = data.copy(deep=False)
    table.columns = list(map(str, data.columns))
    names = [None if name is None else str(name) for name in data.index.names]
    for number in reversed(range(data.index.nlevels)):
        name, level = names[number] or f"level_{number}", data.index.get_level_values(number)
        if name not in table.columns:
            table.insert(0, name, level)
        elif not _are_values_of(level, table.iloc[:, list(table.columns).index(name)]):
            problem = f"{name!r} is a column of the data frame and a level of its index, with other values"
            if name in names[number + 1 :]:
                problem = f"two levels of the index of the data frame are called {name!r}"
            renamed = [*names[:number], f"{name}_2", *names[number + 1 :]]
            new = renamed if len(renamed) > 1 else renamed[0]
            raise InvalidInput(problem, hint=f"rename one, such as x.rename_axis({new!r})")
    return table.set_axis(range(len(table)), axis=0)


def _dense(data: Any) -> Any:
    """Return a pandas table whose sparse columns, which Arrow does not read, have all of their values."""
    sparse = [i for i, kind in enumerate(data.dtypes) if type(kind).__name__ == "SparseDtype"]
    table = data.copy(deep=False) if sparse else data
    for i in sparse:
        table.isetitem(i, data.iloc[:, i].sparse.to_dense())
    return table


def _are_values_of(level: Any, column: Any) -> bool:
    return bool(column.set_axis(column.array).index.equals(level))


def index_note(data: Any) -> tuple[str, ...]:
    """Return a note on the index of a pandas table that is not loaded, unless it only numbers rows."""
    is_left = is_pandas(data) and data.index.name is None and getattr(data.index.dtype, "kind", "O") not in "iu"
    is_left = is_left and len(data.index) > 0
    return ("the index has no name and is not loaded: x.rename_axis('NAME') makes it a column",) if is_left else ()


def arrow_of(data: Any) -> pa.Table:
    """Return the rows of a Polars, Arrow or DuckDB table, or of anything with an Arrow C stream.

    Raises
    ------
    InvalidInput
        When the data has none, or Arrow lacks the type of a column.
    """
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if _library(data) == "polars":
        data = _computed(data.collect) if hasattr(data, "collect") else data
        objects = [name for name, kind in getattr(data, "schema", {}).items() if str(kind) == "Object"]
        if objects:
            raise InvalidInput(f"column {objects[0]!r} has Python objects", hint="convert the column, or leave it out")
    if _library(data) == "pyarrow" and hasattr(data, "to_table"):  # a dataset, or a scan of one
        return _computed(data.to_table)
    if _has_stream(data):
        try:
            return pa.table(data)
        except pa.ArrowException as error:
            hint = "convert columns whose type Arrow lacks, such as Polars Int128 to Int64 or Decimal"
            raise InvalidInput(f"the data cannot be converted to Arrow: {first_line(error)}", hint=hint) from error
    hint = "pass a pandas, Polars, Arrow, DuckDB or Spark table, a list of dictionaries, or a path"
    if hasattr(data, "to_frame"):
        hint = "make a table of it, such as x.to_frame()"
    elif isinstance(data, Mapping):
        hint = "make a table of it, such as pandas.DataFrame(x); or pass a list of dictionaries, one for each row"
    raise InvalidInput(f"cannot ingest a value of type {class_name(data)}", hint=hint)


def _computed(compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except Exception as error:  # each library has its own errors
        hint = "correct how it is computed; its own collect() or to_table() shows the whole error"
        raise InvalidInput(f"the data cannot be computed: {first_line(error)}", hint=hint) from error


def _is_a(data: Any, library: str, name: str) -> bool:
    """Return whether data is an instance of a class of a library, which need not be imported for that."""
    kinds = type(data).__mro__
    return any(kind.__name__ == name and kind.__module__.partition(".")[0] == library for kind in kinds)


_LIBRARIES: Final = frozenset({"pandas", "polars", "pyarrow"})


def _library(data: Any) -> str:
    """Return which of these libraries a class of the data is from, its own or one that it extends; or ""."""
    homes = (kind.__module__.partition(".")[0] for kind in type(data).__mro__)
    return next((home for home in homes if home in _LIBRARIES), "")


def _has_stream(data: Any) -> bool:
    is_column = _library(data) in {"pandas", "polars"} and not hasattr(data, "columns")
    return hasattr(data, "__arrow_c_stream__") and not is_column
