"""Variables of a user's program that a statement reads as tables: ``FROM df``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sleeper_nb.errors import EngineError, InvalidInput, NotFound, SleeperError, first_line
from sleeper_nb.operations.loading.casts import plain_values
from sleeper_nb.operations.loading.in_memory import arrow_of, is_pandas, is_spark, is_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, eq=False)
class BoundVariable:
    """A variable with rows, as it was when its statement was bound.

    Parameters
    ----------
    rows
        Its rows; a Spark DataFrame computes them when it is asked.
    """

    name: str
    rows: pa.Table | DataFrame

    def __str__(self) -> str:
        return f"variable {self.name}"

    @property
    def spark_frame(self) -> DataFrame | None:
        """The Spark DataFrame; None for rows in memory."""
        return self.rows if is_spark(self.rows) else None

    def to_arrow(self) -> pa.Table:
        """Return the rows, those of a Spark DataFrame after a job of Spark."""
        rows: Any = self.rows
        if not is_spark(rows):
            return rows
        try:
            read = rows.toArrow()
        except Exception as error:  # of whatever kind: a user's function may raise any
            problem = f"{self} cannot be read, as Spark failed: {first_line(error)}"
            raise EngineError(problem, hint="run the data frame alone to see why") from error
        return _plain(self.name, read)


class Variables:
    """The variables that one statement may read. Each is converted once, however often the statement names it.

    Parameters
    ----------
    values
        The user's variables, by name.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._bound: dict[str, BoundVariable] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of those that have rows."""
        return tuple(name for name, value in self._values.items() if is_table(value))

    def why_not(self, name: str) -> NotFound | None:
        """Return why a variable with values cannot be read as a table; None when there is none, or it has no values."""
        value = self._values.get(name)
        if isinstance(value, type) or is_table(value):
            return None
        if isinstance(value, pa.RecordBatchReader):
            problem, hint = "can be read only once", f"write {name} = {name}.read_all()"
        elif isinstance(value, list | tuple | dict) or hasattr(value, "__array__"):
            problem, hint = "is no data frame", f"make one of it, such as pd.DataFrame({name})"
        else:
            return None
        return NotFound(f"no table {name!r}; variable {name!r} ({type(value).__name__}) {problem}", hint=hint)

    def find(self, name: str) -> BoundVariable | None:
        """Return the variable of a name; None when there is none with rows.

        NaN of pandas is NULL, as pandas means it; its index is not a column. A time without a zone is in UTC, as in a
        load.

        Raises
        ------
        InvalidInput
            When its rows cannot be read, their values would be changed, or two columns have the same name.
        """
        if name not in self._bound and is_table(self._values.get(name)):
            self._bound[name] = _bound(name, self._values[name])
        return self._bound.get(name)


def _bound(name: str, data: Any) -> BoundVariable:
    if is_pandas(data) or is_spark(data):
        _check_names(name, map(str, data.columns))
    if is_spark(data):
        return BoundVariable(name, data)
    rows = _arrow(name, data)
    _check_names(name, rows.column_names)
    return BoundVariable(name, _plain(name, rows))


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
        why = "; ".join(map(str, error.args)) if isinstance(error, pa.ArrowException) else first_line(error)
        hint = "convert the column first, or leave it out"
        raise InvalidInput(f"variable {name!r} cannot be converted to Arrow: {why}", hint=hint) from error


def _plain(name: str, rows: pa.Table) -> pa.Table:
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
    if isinstance(values.type, pa.BaseExtensionType) and values.type.extension_name.startswith("pandas."):
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
    return pa.list_(_plain_type(kind.value_type)) if pa.types.is_list(kind) else kind
