"""Values that are tables: `Tabular` hands them to Arrow, pandas, Polars, DuckDB and whatever takes Arrow streams.

Each value arrives exactly, or an error names the column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from sleeper_nb.errors import Action, EngineError, InvalidInput

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa


T = TypeVar("T")


class Tabular:
    """Base class of values with rows and columns.

    ``pa.table(value)``, ``pl.DataFrame(value)``, ``pd.DataFrame.from_arrow(value)`` and ``duckdb.sql("FROM value")``
    read it through the Arrow stream that it offers; of whole numbers with NULLs, pandas then makes floats, which
    `to_pandas` does not. ``for row in value`` gives a dictionary for each row, and
    ``len(value)`` counts the rows. The value itself is true, also without rows: a test must not read a table.
    """

    __slots__ = ()

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table."""
        raise NotImplementedError  # pragma: no cover - each has its own

    def to_pandas(self) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame; integers with NULLs are its ``Int32`` and ``Int64``."""
        return as_pandas(self.to_arrow())

    def to_polars(self) -> pl.DataFrame:
        """Return all rows as a Polars DataFrame; `EngineError` when Polars is not installed."""
        return as_polars(self.to_arrow())

    def to_duckdb(self) -> duckdb.DuckDBPyRelation:
        """Return all rows, read now, as a DuckDB relation on a connection of its own, which shows times in UTC."""
        return as_relation(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self.to_arrow().num_rows)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(map(as_rows, tables_of(self.to_arrow())))


class Items(Tabular, Generic[T]):
    """Base class of tables that are made of values, one for each row; without any, it is false.

    It has what a sequence has, but is no `collections.abc.Sequence`: Polars reads the values of one, not its table.
    """

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError  # pragma: no cover - each has its own, here and below

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError  # pragma: no cover

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[T]:
        return (self[i] for i in range(len(self)))

    def __reversed__(self) -> Iterator[T]:
        return (self[i] for i in reversed(range(len(self))))

    def __contains__(self, value: object) -> bool:
        return any(each is value or each == value for each in self)

    def index(self, value: object) -> int:
        """Return the place of the first equal value; `ValueError` when there is none."""
        return tuple(self).index(cast("T", value))

    def count(self, value: object) -> int:
        """Return how many values are equal to this one."""
        return tuple(self).count(cast("T", value))


def as_arrow(columns: Mapping[str, Sequence[object]]) -> pa.Table:
    """Return columns of Python values as Arrow; a column with values of several kinds becomes text."""
    import pyarrow as pa

    return pa.table({name: _as_array(values) for name, values in columns.items()})


def _as_array(values: Sequence[object]) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def as_pandas(rows: pa.Table) -> pd.DataFrame:
    """Return Arrow rows as a pandas DataFrame, each value exactly.

    Integer columns with NULLs and float columns with NaN use pandas' masked types; lists and maps that contain NULLs
    are Python objects. `InvalidInput` names a column whose dates or times pandas cannot hold.
    """
    _check_python_has(rows)
    return cast("pd.DataFrame", _converted(rows, _exact_frame))


def _cast_to_text(name: str) -> str:
    quoted = name if name.isidentifier() else '"' + name.replace('"', '""') + '"'
    return f"cast it to text in SQL: CAST({quoted} AS VARCHAR)"


def _parts(kind: pa.DataType) -> Iterator[pa.DataType]:
    yield kind
    for at in range(kind.num_fields):
        yield from _parts(kind.field(at).type)


def _first_with(rows: pa.Table | pa.RecordBatch, holds: Callable[[pa.DataType], bool]) -> pa.Field | None:
    return next((field for field in rows.schema if any(map(holds, _parts(field.type)))), None)


def _check_python_has(rows: pa.Table | pa.RecordBatch) -> None:
    """Raise `InvalidInput` for a column with parts of a microsecond, which Arrow drops where Python has no type."""
    from pyarrow import compute

    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if str(column.type) == "time64[ns]":
            numbers = column.cast("int64")
            if compute.any(compute.not_equal(compute.multiply(compute.divide(numbers, 1000), 1000), numbers)).as_py():
                message = f"column {name!r} has times of day with nanoseconds, which Python does not support"
                raise InvalidInput(message, hint=_cast_to_text(name))


def as_dict(rows: pa.Table) -> dict[str, list[Any]]:
    """Return a list of values for each column; `InvalidInput` names one whose dates or times Python cannot hold."""
    _check_python_has(with_distinct_names(rows))
    return dict(_converted(rows, lambda each: each.to_pydict()))


def as_rows(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Return a dictionary of Python values for each row; errors as of `as_dict`."""
    _check_python_has(with_distinct_names(rows))
    return list(_converted(rows, lambda each: each.to_pylist()))


def tables_of(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield parts of rows, for what goes through them one after the other: as Python values, all take much memory."""
    return (rows.slice(at, _ROWS_AT_ONCE) for at in range(0, with_distinct_names(rows).num_rows, _ROWS_AT_ONCE))


_ROWS_AT_ONCE: Final = 2_000


def with_distinct_names(rows: pa.Table) -> pa.Table:
    """Return rows as they are; an error when two columns have the same name, by which a caller would find them."""
    twice = next((name for name, times in Counter(rows.schema.names).items() if times > 1), None)
    if twice is not None:
        raise InvalidInput(f"two columns are called {twice!r}", hint=f"give one another name: {twice} AS {twice}_2")
    return rows


def _converted(rows: pa.Table, convert: Callable[[pa.Table], Any]) -> Any:
    """Return the converted rows; raise `InvalidInput` for a column with dates that the target cannot hold."""
    try:
        return convert(rows)
    except (OverflowError, ValueError) as error:  # from date and datetime, which hold the years 1 to 9999
        name = next((name for name in rows.column_names if not _converts(rows.select([name]), convert)), None)
        if name is None or type(error) not in {OverflowError, ValueError}:  # Arrow's own errors are subclasses
            raise
        hint = ("read the rows as Arrow: ", Action("--as arrow", "to_arrow()"), "; or cast the column to text in SQL")
        raise InvalidInput(f"column {name!r} has dates or times outside the years 1 to 9999", hint=hint) from error


def _converts(column: pa.Table, convert: Callable[[pa.Table], Any]) -> bool:
    try:
        convert(column)
    except (OverflowError, ValueError):
        return False
    return True


def as_polars(rows: pa.Table) -> pl.DataFrame:
    """Return Arrow rows as a Polars DataFrame; `EngineError` when Polars is not installed."""
    try:
        import polars as pl
    except ImportError as error:
        raise EngineError("Polars is not installed", hint="pip install polars") from error
    foreign = _first_with(with_distinct_names(rows), lambda kind: _is_interval(kind) or _is_union(kind))
    if foreign is not None:
        what = "intervals" if any(map(_is_interval, _parts(foreign.type))) else "unions"
        message = f"column {foreign.name!r} has {what}, for which Polars has no type"
        raise InvalidInput(message, hint=_cast_to_text(foreign.name))
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if _is_beyond_calendars(column):
            message = f"column {name!r} has dates or times that are infinite, or outside the calendar of Polars"
            raise InvalidInput(message, hint=_cast_to_text(name))
    return pl.DataFrame(rows)


_CALENDAR_DAYS = 95_000_000
"""About how many days before and after 1970 Polars can show; it ends the process of a notebook's cell beyond them."""


def _is_beyond_calendars(column: pa.ChunkedArray) -> bool:
    from pyarrow import compute, types

    kind = column.type
    if not (types.is_date32(kind) or types.is_timestamp(kind)):
        return False
    in_day = 1 if types.is_date32(kind) else 86_400 * 10 ** {"s": 0, "ms": 3, "us": 6, "ns": 9}[kind.unit]
    ends = compute.min_max(column.cast("int32" if types.is_date32(kind) else "int64")).as_py()
    return any(each is not None and abs(each // in_day) > _CALENDAR_DAYS for each in ends.values())


def _is_interval(kind: pa.DataType) -> bool:
    return str(kind) == "month_day_nano_interval"


def _is_union(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(types.is_union(kind))


def as_relation(rows: pa.Table) -> duckdb.DuckDBPyRelation:
    """Return Arrow rows as a DuckDB relation; its connection lives as long as it does."""
    import duckdb

    # one thread: each database has threads of its own, and a program may keep many such relations
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    return connection.from_arrow(rows)


_NAT = -(2**63)
"""The timestamp that pandas uses for missing values."""


def _exact_frame(rows: pa.Table) -> pd.DataFrame:
    import pyarrow as pa

    known = rows
    for i, field in enumerate(rows.schema):
        if any(map(_is_union, _parts(field.type))):  # which Arrow does not convert
            known = known.set_column(i, field.name, pa.nulls(rows.num_rows))
    frame: pd.DataFrame = known.to_pandas()
    for i, column in enumerate(rows.columns):
        series = _exact_series(column)
        if series is not None:
            frame.isetitem(i, series)
    return frame


def _exact_series(column: pa.ChunkedArray) -> Any:
    """Return a column as a series if Arrow's own conversion would change its values; None if it would not."""
    import pandas as pd
    from pyarrow import compute, types

    kind = column.type
    masked: Any = None
    if types.is_integer(kind) and column.null_count:
        masked = pd.api.types.pandas_dtype(str(kind).replace("i", "I").replace("u", "U"))
    if (types.is_float32(kind) or types.is_float64(kind)) and compute.any(compute.is_nan(column)).as_py():
        masked = pd.Float32Dtype() if types.is_float32(kind) else pd.Float64Dtype()
    if types.is_timestamp(kind) and compute.min(column.cast("int64")).as_py() == _NAT:
        masked = pd.ArrowDtype(kind)
    if masked is not None:
        return column.to_pandas(types_mapper=lambda _: masked)
    if any(map(_is_union, _parts(kind))) or (types.is_nested(kind) and any(map(_has_nulls_within, column.chunks))):
        return pd.Series(column.to_pylist(), dtype=object)
    return None


def _has_nulls_within(array: pa.Array) -> bool:
    from pyarrow import types

    if types.is_map(array.type):
        return _has_nulls(array.items) or _has_nulls(array.keys)
    if types.is_struct(array.type):
        return any(map(_has_nulls, array.flatten()))
    return types.is_list(array.type) and _has_nulls(array.flatten())


def _has_nulls(array: pa.Array) -> bool:
    return bool(array.null_count) or _has_nulls_within(array)
