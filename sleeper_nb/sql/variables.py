"""Variables of a user's program that a statement reads as tables, ``FROM df``: found, and read for both engines."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from sleeper_nb.errors import EngineError, InvalidInput, NotFound, SleeperError, first_line, nearest

if TYPE_CHECKING:
    from types import FrameType

    from pyspark.sql import DataFrame


logger = logging.getLogger(__name__)

_PACKAGE: Final = __name__.partition(".")[0]
_CONVERT: Final = "convert the column first, or leave it out"

# What reads rows is imported in a function: statements that name only tables do without.


@dataclass(frozen=True, slots=True, eq=False)
class BoundVariable:
    """A variable with rows, as it was when its statement was bound; or a view of ours that is read as one.

    A Spark DataFrame computes its rows when it is asked.
    """

    name: str
    rows: pa.Table | DataFrame
    kind: str = "variable"

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def spark_frame(self) -> DataFrame | None:
        """The Spark DataFrame; None for rows in memory."""
        return None if isinstance(self.rows, pa.Table) else self.rows

    def to_arrow(self) -> pa.Table:
        """Return the rows, those of a Spark DataFrame after a job of Spark."""
        if isinstance(self.rows, pa.Table):
            return self.rows
        try:
            read = self.rows.toArrow()
        except Exception as error:  # of whatever kind: a user's function may raise any
            problem = f"{self} cannot be read, as Spark failed: {first_line(error)}"
            raise EngineError(problem, hint="run the data frame alone to see why") from error
        return _plain_rows(self.name, read)


class Variables:
    """The variables that one statement may read. Each is converted once, however often the statement names it.

    Only those that a statement names, or nearly names, are looked at: others may be objects that do something when they
    are. `hidden` returns the names, in lower case, of what Spark itself has, which is read instead.
    """

    def __init__(self, values: Mapping[str, Any], hidden: Callable[[], frozenset[str]] = frozenset) -> None:
        self._values, self._hidden = values, hidden
        self._bound: dict[str, BoundVariable] = {}

    def near(self, name: str) -> tuple[str, ...]:
        """Return names of variables with rows that a name may be meant as."""
        return tuple(each for each in nearest(name, list(self._values)) if self._table(each) is not None)

    def _table(self, name: str) -> Any:
        """Return the value of a variable with rows; None for any other."""
        from sleeper_nb.load.sources import is_table  # statements that name only tables do without

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
            self._bound[name] = BoundVariable(name, _rows_of(name, value))
        return self._bound[name]


# Their rows.


def _rows_of(name: str, data: Any) -> pa.Table | DataFrame:
    """Return the rows of a variable as both engines read them; a Spark DataFrame stays one."""
    from sleeper_nb.load.sources import is_pandas, is_spark_frame, with_index

    data = with_index(data)
    if is_pandas(data) or is_spark_frame(data):
        _check_names(name, map(str, data.columns))
    if is_spark_frame(data):
        return data
    rows = _arrow(name, data)
    _check_names(name, rows.column_names)
    return _plain_rows(name, rows)


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
    from sleeper_nb.load.sources import arrow_of, is_pandas

    try:
        if is_pandas(data):
            # a copy: Arrow shares the memory of numbers, which the program may change before the rows are read
            return pa.Table.from_pandas(data.copy(deep=True), preserve_index=False)
        return arrow_of(data)
    except SleeperError as error:
        raise InvalidInput(f"variable {name!r}: {error.message}", hint=error.hint_parts) from error
    except Exception as error:  # each library has its own errors
        if why := _why_not(data):
            raise InvalidInput(f"variable {name!r}: {why}", hint=_CONVERT) from error
        why = "; ".join(map(str, error.args)) if isinstance(error, pa.ArrowException) else first_line(error)
        raise InvalidInput(f"variable {name!r} cannot be converted to Arrow: {why}", hint=_CONVERT) from error


def _why_not(data: Any) -> str:
    """Return which value of a pandas table has no type of Arrow, with its row; "" where each column has one."""
    from sleeper_nb.load.casts import BAD_VALUE
    from sleeper_nb.load.column_types import without_type
    from sleeper_nb.load.sources import is_pandas

    for at, name in enumerate(map(str, data.columns) if is_pandas(data) else ()):
        try:
            pa.array(data.iloc[:, at], from_pandas=True)
        except BAD_VALUE:
            found = without_type(name, data.iloc[:, at])
            if found is not None:
                return found.problem
    return ""


def _plain_rows(name: str, rows: pa.Table) -> pa.Table:
    """Return rows in types that both engines read alike; `InvalidInput` when a value would be changed."""
    columns = []
    for column, values in zip(rows.column_names, rows.columns, strict=True):
        try:
            columns.append(_plain_column(values))
        except (pa.ArrowException, TypeError) as error:
            problem = f"column {column!r} of variable {name!r} is {values.type}: {first_line(error)}"
            raise InvalidInput(problem, hint=_CONVERT) from error
    return pa.table(columns, rows.column_names)


def _plain_column(values: pa.ChunkedArray) -> pa.ChunkedArray:
    from sleeper_nb.load.casts import plain_values

    kind = values.type
    of_categories = getattr(kind.value_type, "extension_name", "") if pa.types.is_dictionary(kind) else ""
    is_of_pandas = isinstance(kind, pa.BaseExtensionType) and kind.extension_name.startswith("pandas.")
    if is_of_pandas or of_categories == "pandas.period":  # of a period, only a number would be left
        raise TypeError("SQL has no such type")
    plain = [plain_values(chunk) for chunk in values.chunks]
    kind = _plain_type(plain[0].type if plain else plain_values(pa.array([], values.type)).type)
    if pa.types.is_timestamp(kind):  # or raises: a value has nanoseconds
        plain = [each.cast(pa.timestamp("us")) if each.type.tz is None else each for each in plain]
    return pa.chunked_array([each.cast(kind) for each in plain], kind)


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


# Those of the code that calls this package.


def readable(data: Mapping[str, Any] | None) -> AbstractContextManager[Mapping[str, Any]]:
    """Return what a statement may read by name: what the caller passed, or the caller's variables when that is None.

    The caller is the nearest code that is not of this package.
    """
    return _CallerVariables(sys._getframe(1)) if data is None else nullcontext(data)  # noqa: SLF001 - documented


class _CallerVariables(Mapping[str, Any]):
    """The variables that the calling code can name: those of its function, then those of its module.

    None is looked up before a statement names something that is no table. After the ``with`` it has only those that
    were looked up: an answer would otherwise keep every variable of its caller alive. Until Python 3.13, a function
    whose variables were looked up itself keeps them all until it returns.

    Parameters
    ----------
    frame
        Of this package's code that the caller called, or of the caller.
    """

    def __init__(self, frame: FrameType) -> None:
        caller: FrameType | None = frame
        while caller is not None and str(caller.f_globals.get("__name__")).partition(".")[0] == _PACKAGE:
            caller = caller.f_back
        self._caller = caller
        self._read: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._caller = None

    def __getitem__(self, name: str) -> Any:
        for variables in self._scopes():
            try:
                return self._read.setdefault(name, variables[name])
            except KeyError:  # which is not asked for before: another thread may take the variable away meanwhile
                continue
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        scopes = [list(variables) for variables in self._scopes() if isinstance(variables, Mapping)]
        return iter(dict.fromkeys(chain.from_iterable(scopes)))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _scopes(self) -> tuple[Mapping[str, Any], ...]:
        if self._caller is None:
            return (self._read,)
        return self._read, self._caller.f_locals, self._caller.f_globals
