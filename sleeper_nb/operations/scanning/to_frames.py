"""Arrow rows as pandas, Polars and Python values: every value exactly, or an error that names the column."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from sleeper_nb.errors import Action, EngineError, InvalidInput

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


def as_pandas(rows: pa.Table) -> pd.DataFrame:
    """Return Arrow rows as pandas, every value exactly.

    Integers with NULLs are pandas' masked integers, floats with NaN its masked floats; lists and maps with NULLs inside
    are those of Python. `InvalidInput` names the column whose dates or times pandas cannot hold.
    """
    return cast("pd.DataFrame", _held(rows, _exact_frame))


def as_dict(rows: pa.Table) -> dict[str, list[Any]]:
    """Return a list of values per column; `InvalidInput` names the column whose dates or times Python cannot hold."""
    return dict(_held(rows, lambda some: some.to_pydict()))


def _held(rows: pa.Table, convert: Callable[[pa.Table], Any]) -> Any:
    try:
        return convert(rows)
    except (OverflowError, ValueError) as error:  # from date and datetime, which have the years 1 to 9999
        name = next((name for name in rows.column_names if not _holds(rows.select([name]), convert)), None)
        if name is None or type(error) not in {OverflowError, ValueError}:  # Arrow's own are of others
            raise
        hint = ("take the rows as Arrow: ", Action("--as arrow", "to_arrow()"), "; or cast the column to text in sql")
        raise InvalidInput(f"column {name!r} has dates or times outside of the years 1 to 9999", hint=hint) from error


def _holds(column: pa.Table, convert: Callable[[pa.Table], Any]) -> bool:
    try:
        convert(column)
    except (OverflowError, ValueError):
        return False
    return True


def as_polars(rows: pa.Table) -> pl.DataFrame:
    """Return Arrow rows as Polars; a missing Polars names its install command."""
    try:
        import polars as pl
    except ImportError as error:
        raise EngineError("Polars is not installed", hint="pip install polars") from error
    return pl.DataFrame(rows)


_NAT = -(2**63)
"""The moment by which pandas marks what is missing."""


def _exact_frame(rows: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = rows.to_pandas()
    for place, column in enumerate(rows.columns):
        series = _exact_series(column)
        if series is not None:
            frame.isetitem(place, series)
    return frame


def _exact_series(column: pa.ChunkedArray) -> Any:
    """Return a column whose values Arrow would change for pandas; None where it does not."""
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
    if types.is_nested(kind) and not types.is_struct(kind) and any(map(_has_nulls_within, column.chunks)):
        return pd.Series(column.to_pylist(), dtype=object)
    return None


def _has_nulls_within(array: pa.Array) -> bool:
    from pyarrow import types

    if types.is_map(array.type):
        return _has_nulls(array.items) or _has_nulls(array.keys)
    return types.is_list(array.type) and _has_nulls(array.flatten())


def _has_nulls(array: pa.Array) -> bool:
    return bool(array.null_count) or _has_nulls_within(array)
