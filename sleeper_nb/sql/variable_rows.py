"""The rows of a user's variable, in types that both engines read alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sleeper_nb.errors import InvalidInput, SleeperError, first_line
from sleeper_nb.load.casts import BAD_VALUE, plain_values
from sleeper_nb.load.column_types import without_type
from sleeper_nb.load.sources import arrow_of, is_pandas, is_spark_frame, with_index

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def rows_of(name: str, data: Any) -> pa.Table | DataFrame:
    """Return the rows of a variable as both engines read them; a Spark DataFrame stays one.

    Raises
    ------
    InvalidInput
        When its rows cannot be read, their values would be changed, or two columns have the same name.
    """
    data = with_index(data)
    if is_pandas(data) or is_spark_frame(data):
        _check_names(name, map(str, data.columns))
    if is_spark_frame(data):
        return data
    rows = _arrow(name, data)
    _check_names(name, rows.column_names)
    return plain_rows(name, rows)


def _check_names(name: str, columns: Iterable[str]) -> None:
    """Raise unless SQL, which ignores case, can tell the columns apart by name."""
    given = tuple(columns)
    if not given:
        raise InvalidInput(f"variable {name!r} has no columns", hint="read one with columns")
    if "" in given:
        raise InvalidInput(f"variable {name!r} has a column without a name", hint="give it one")
    twice = next((each for each, times in Counter(map(str.casefold, given)).items() if times > 1), None)
    if twice is not None:
        found = next(each for each in given if each.casefold() == twice)
        raise InvalidInput(
            f"variable {name!r} has two columns {found!r}", hint="give one another name; case is ignored"
        )


def _arrow(name: str, data: Any) -> pa.Table:
    try:
        if is_pandas(data):
            # a copy: Arrow shares the memory of numbers, which the program may change before the rows are read
            return pa.Table.from_pandas(data.copy(deep=True), preserve_index=False)
        return arrow_of(data)
    except SleeperError as error:
        raise InvalidInput(f"variable {name!r}: {error.message}", hint=error.hint_parts) from error
    except Exception as error:  # each library has its own errors
        if why := _why_not(data):
            raise InvalidInput(f"variable {name!r}: {why}", hint="convert the column first, or leave it out") from error
        why = "; ".join(map(str, error.args)) if isinstance(error, pa.ArrowException) else first_line(error)
        hint = "convert the column first, or leave it out"
        raise InvalidInput(f"variable {name!r} cannot be converted to Arrow: {why}", hint=hint) from error


def _why_not(data: Any) -> str:
    """Return which value of a pandas table has no type of Arrow, with its row; "" where each column has one."""
    columns = ((str(name), data.iloc[:, i]) for i, name in enumerate(data.columns)) if is_pandas(data) else ()
    found = (without_type(name, values) for name, values in columns if _fails(values))
    return next((each.problem for each in found if each is not None), "")


def _fails(values: Any) -> bool:
    try:
        pa.array(values, from_pandas=True)
    except BAD_VALUE:
        return True
    return False


def plain_rows(name: str, rows: pa.Table) -> pa.Table:
    """Return rows in types that both engines read alike; `InvalidInput` when a value would be changed."""
    columns = []
    for column, values in zip(rows.column_names, rows.columns, strict=True):
        try:
            columns.append(_plain_column(values))
        except (pa.ArrowException, TypeError) as error:
            hint = "convert the column first, or leave it out"
            problem = f"column {column!r} of variable {name!r} is {values.type}: {first_line(error)}"
            raise InvalidInput(problem, hint=hint) from error
    return pa.table(columns, rows.column_names)


def _plain_column(values: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = values.type
    of_categories = getattr(kind.value_type, "extension_name", "") if pa.types.is_dictionary(kind) else ""
    is_of_pandas = isinstance(kind, pa.BaseExtensionType) and kind.extension_name.startswith("pandas.")
    if is_of_pandas or of_categories == "pandas.period":  # of a period, only a number would be left
        raise TypeError("SQL has no such type")
    plain = [plain_values(chunk) for chunk in values.chunks]
    kind = _plain_type(plain[0].type if plain else plain_values(pa.array([], values.type)).type)
    return pa.chunked_array([_cast(chunk, kind) for chunk in plain], kind)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind) and values.type.tz is None:
        values = values.cast(pa.timestamp("us"))  # or raises: the value has nanoseconds
    return values.cast(kind)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that both engines read: texts without views, and times in microseconds and UTC."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if pa.types.is_duration(kind):
        return pa.duration("us")
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_plain_type(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain_type(kind.value_type))
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_fixed_size_list(kind):  # of dictionaries DuckDB would read the indices
        return pa.list_(_plain_type(kind.value_type))
    return pa.list_(_plain_type(kind.value_type)) if pa.types.is_list(kind) else kind
