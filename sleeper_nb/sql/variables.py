"""Variables of a user's program that a statement reads as tables: ``FROM df``."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sleeper_nb.errors import EngineError, InvalidInput, NotFound, SleeperError, first_line, nearest
from sleeper_nb.load.casts import BAD_VALUE, plain_values
from sleeper_nb.load.column_types import mixed_in_memory
from sleeper_nb.load.sources import arrow_of, is_pandas, is_spark_frame, is_table, with_index

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class BoundVariable:
    """A variable with rows, as it was when its statement was bound; or a view of ours that is read as one.

    Parameters
    ----------
    rows
        Its rows; a Spark DataFrame computes them when it is asked.
    kind
        What users call it.
    """

    name: str
    rows: pa.Table | DataFrame
    kind: str = "variable"

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def spark_frame(self) -> DataFrame | None:
        """The Spark DataFrame; None for rows in memory."""
        return self.rows if is_spark_frame(self.rows) else None

    def to_arrow(self) -> pa.Table:
        """Return the rows, those of a Spark DataFrame after a job of Spark."""
        rows: Any = self.rows
        if not is_spark_frame(rows):
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
        The user's variables, by name. Only those that a statement names, or nearly names, are looked at: others may be
        objects that do something when they are.
    hidden
        Returns the names, in lower case, of what Spark itself has, which is read instead.
    """

    def __init__(self, values: Mapping[str, Any], hidden: Callable[[], frozenset[str]] = frozenset) -> None:
        self._values, self._hidden = values, hidden
        self._bound: dict[str, BoundVariable] = {}

    def near(self, name: str) -> tuple[str, ...]:
        """Return names of variables with rows that a name may be meant as."""
        return tuple(each for each in nearest(name, list(self._values)) if self._table(each) is not None)

    def _table(self, name: str) -> Any:
        """Return the value of a variable with rows; None for any other."""
        try:
            value = self._values.get(name)
            return value if is_table(value) else None
        except Exception as error:  # noqa: BLE001 - objects that stand for others may raise whatever is asked of them
            logger.debug("variable %s is not read: %s", name, error)
            return None

    def why_not(self, name: str) -> NotFound | None:
        """Return why a variable with values cannot be read as a table; None when there is none, or it has no values."""
        value = None if self._table(name) is not None else self._values.get(name)
        if isinstance(value, pa.RecordBatchReader):
            problem, hint = "can be read only once", f"write {name} = {name}.read_all()"
        elif isinstance(value, list | tuple | dict) or hasattr(type(value), "__array__"):
            problem, hint = "is no data frame", f"make one of it, such as pd.DataFrame({name})"
        else:
            return None
        return NotFound(f"no table {name!r}; variable {name!r} ({type(value).__name__}) {problem}", hint=hint)

    def find(self, name: str) -> BoundVariable | None:
        """Return the variable of a name; None when there is none with rows.

        NaN of pandas is NULL, as pandas means it; a named index is a column. A time without a zone is in UTC, as in a
        load.

        Raises
        ------
        InvalidInput
            When its rows cannot be read, their values would be changed, or two columns have the same name.
        """
        if name not in self._bound:
            value = self._table(name)
            if value is None or name.casefold() in self._hidden():
                return None
            self._bound[name] = _bound(name, value)
        return self._bound[name]


def _bound(name: str, data: Any) -> BoundVariable:
    data = with_index(data)
    if is_pandas(data) or is_spark_frame(data):
        _check_names(name, map(str, data.columns))
    if is_spark_frame(data):
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
        if why := _why_not(data):
            raise InvalidInput(f"variable {name!r}: {why}", hint="convert the column first, or leave it out") from error
        why = "; ".join(map(str, error.args)) if isinstance(error, pa.ArrowException) else first_line(error)
        hint = "convert the column first, or leave it out"
        raise InvalidInput(f"variable {name!r} cannot be converted to Arrow: {why}", hint=hint) from error


def _why_not(data: Any) -> str:
    """Return which value of a pandas table has no type of Arrow, with its row; "" where each column has one."""
    columns = ((str(name), data.iloc[:, i]) for i, name in enumerate(data.columns)) if is_pandas(data) else ()
    return next(filter(None, (mixed_in_memory(name, values).problem for name, values in columns if _fails(values))), "")


def _fails(values: Any) -> bool:
    try:
        pa.array(values, from_pandas=True)
    except BAD_VALUE:
        return True
    return False


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
