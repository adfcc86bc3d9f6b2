"""Variables of a user's program that a statement reads as tables: ``FROM df``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sleeper_nb.errors import InvalidInput
from sleeper_nb.operations.loading.in_memory import arrow_of, is_pandas, is_spark, is_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, eq=False)
class BoundVariable:
    """A variable with rows, as it was when its statement was bound.

    Parameters
    ----------
    name
        The variable's name.
    rows
        Its rows; a Spark DataFrame computes them when it is asked.
    """

    name: str
    rows: pa.Table | DataFrame

    @classmethod
    def of(cls, name: str, variables: Mapping[str, Any]) -> BoundVariable | None:
        """Return the variable of a name; None when there is none with rows.

        NaN of pandas is NULL, as pandas means it; its index is not a column.

        Raises
        ------
        InvalidInput
            When its rows cannot be converted to Arrow, or two columns have the same name.
        """
        data: Any = variables.get(name)
        if not is_table(data):
            return None
        if is_pandas(data) or is_spark(data):
            _check_names(name, map(str, data.columns))
        if is_spark(data):
            return cls(name, data)
        rows = _arrow(name, data)
        _check_names(name, rows.column_names)
        return cls(name, _plain(rows))

    def __str__(self) -> str:
        return f"variable {self.name}"

    @property
    def spark_frame(self) -> DataFrame | None:
        """The Spark DataFrame; None for rows in memory."""
        return self.rows if is_spark(self.rows) else None

    def to_arrow(self) -> pa.Table:
        """Return the rows, those of a Spark DataFrame after a job of Spark."""
        rows: Any = self.rows
        return rows.toArrow() if is_spark(rows) else rows


def _check_names(name: str, columns: Iterable[str]) -> None:
    twice = next((column for column, times in Counter(columns).items() if times > 1), None)
    if twice is not None:
        raise InvalidInput(f"variable {name!r} has two columns {twice!r}", hint="give one another name")


def _arrow(name: str, data: Any) -> pa.Table:
    if not is_pandas(data):
        return arrow_of(data)
    try:
        # a copy: Arrow shares the memory of numbers, which the program may change before the rows are read
        return pa.Table.from_pandas(data.copy(deep=True), preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        hint = "convert the column first, or leave it out"
        why = "; ".join(map(str, error.args))
        raise InvalidInput(f"variable {name!r} cannot be converted to Arrow: {why}", hint=hint) from error


def _plain(rows: pa.Table) -> pa.Table:
    """Return rows in types that both engines read: categories as their values, and Polars' texts as plain ones."""
    fields = [pa.field(field.name, _plain_type(field.type)) for field in rows.schema]
    return rows.cast(pa.schema(fields))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind
