"""Variables of a user's program that a statement reads as tables: ``FROM df``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sleeper_nb.errors import EngineError, NotFound, first_line, nearest

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
        return None if isinstance(self.rows, pa.Table) else self.rows

    def to_arrow(self) -> pa.Table:
        """Return the rows, those of a Spark DataFrame after a job of Spark."""
        if isinstance(self.rows, pa.Table):
            return self.rows
        from sleeper_nb.sql.variable_rows import plain_rows

        try:
            read = self.rows.toArrow()
        except Exception as error:  # of whatever kind: a user's function may raise any
            problem = f"{self} cannot be read, as Spark failed: {first_line(error)}"
            raise EngineError(problem, hint="run the data frame alone to see why") from error
        return plain_rows(self.name, read)


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
            from sleeper_nb.sql.variable_rows import rows_of

            self._bound[name] = BoundVariable(name, rows_of(name, value))
        return self._bound[name]
