"""The rows of a query on DuckDB, read when they are asked for, in a way that an interrupt stops."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias, TypeVar

import duckdb
import pyarrow as pa

from sleeper_nb.engines.duckdb import relations
from sleeper_nb.engines.duckdb.interrupts import interruptible
from sleeper_nb.engines.engine import EngineName
from sleeper_nb.engines.rows_to_load import LOADED_ROWS, RowsToLoad
from sleeper_nb.engines.undisturbed import undisturbed
from sleeper_nb.errors import SleeperError

if TYPE_CHECKING:
    from sleeper_nb.engines.duckdb.duckdb_statement import DuckDBStatement
    from sleeper_nb.sql.chart_sums import ChartQuery, ChartValue

T = TypeVar("T")

_PLANS: Final = frozenset({"analyzed_plan", "logical_opt", "logical_plan", "physical_plan"})

_Readable: TypeAlias = tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyRelation]
"""A connection, and rows on it."""


class DuckDBRows:
    """Rows that DuckDB reads, on a connection of their own.

    Parameters
    ----------
    connection
        A connection that can open only the files of the statement.
    rows
        The rows, on that connection.
    statement
        The statement; it has the same rows on another connection, for the caller's program, and for what is asked while
        batches are being read.
    """

    engine: ClassVar[EngineName] = "duckdb"
    __slots__ = ("__weakref__", "_connection", "_is_read", "_rows", "_statement")

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, rows: duckdb.DuckDBPyRelation, statement: DuckDBStatement
    ) -> None:
        self._connection, self._rows, self._statement = connection, rows, statement
        self._is_read = False

    @property
    def names(self) -> tuple[str, ...]:
        with undisturbed():
            return tuple(self._rows.columns)

    @property
    def kinds(self) -> tuple[str, ...]:
        with undisturbed():
            return tuple(map(str, self._rows.types))

    @property
    def native(self) -> duckdb.DuckDBPyRelation:
        return self._statement.free_rows()[1]

    def first(self, rows: int) -> pa.Table:
        """Read the first rows; of a ``WITH``, as a batch: DuckDB 2.0 can wait for ever when such rows are limited."""
        if self._statement.has_common_tables:
            with closing(self.batches(max(rows, 1))) as batches:
                return next(batches).slice(0, rows)
        return self._run(lambda every: relations.to_arrow(every.limit(rows)), in_made_rows=True)

    def all(self) -> pa.Table:
        return self._run(relations.to_arrow)

    def count(self) -> int:
        return self._run(relations.count, in_made_rows=True)

    def batches(self, rows: int) -> Generator[pa.Table]:
        """Read all rows, and continue where the previous batch ended."""
        connection, all_rows = self._readable()
        is_own = connection is self._connection
        self._is_read |= is_own
        try:
            with closing(relations.batches(all_rows, rows)) as batches:
                while (batch := self._on(connection, lambda: next(batches, None))) is not None:
                    yield batch
        finally:
            self._is_read &= not is_own

    def batches_to_iterate(self, rows: int) -> Generator[pa.Table]:
        return self.batches(rows)

    def summed(self, values: Sequence[ChartValue], query: ChartQuery) -> pa.Table:
        return self._run(partial(relations.summed_for_chart, values=values, query=query), in_made_rows=True)

    def plan(self) -> str:
        return self._run(lambda rows: rows.explain().rstrip())

    def plan_in(self, rows: pa.Table) -> str | None:
        if rows.column_names != ["explain_key", "explain_value"] or not rows.num_rows:
            return None
        kinds, texts = (column.to_pylist() for column in rows.columns)
        is_plan = all(kind in _PLANS for kind in kinds) and all(isinstance(text, str) for text in texts)
        return "\n".join(texts).rstrip() if is_plan else None

    def to_load(self, names: Sequence[str]) -> RowsToLoad:
        return RowsToLoad(self.batches(LOADED_ROWS), names)

    def placing(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _readable(self) -> _Readable:
        """Return the rows and their connection: another one while batches are read from ours, which would end them."""
        return self._statement.free_rows() if self._is_read else (self._connection, self._rows)

    def _run(self, action: Callable[[duckdb.DuckDBPyRelation], T], *, in_made_rows: bool = False) -> T:
        connection, rows = self._readable()
        return self._on(connection, partial(action, rows), in_made_rows=in_made_rows)

    def _on(self, connection: duckdb.DuckDBPyConnection, action: Callable[[], T], *, in_made_rows: bool = False) -> T:
        """Run an action; its error gets its place, also where the action made other rows of those of the statement."""
        try:
            return interruptible(connection, action)
        except SleeperError as error:
            read = self._statement.read
            for source in read.sources:  # which names a file that is gone or was changed
                source.check_files()
            place = read.texts.placed_in_made_rows if in_made_rows else read.texts.placed
            place(error)
            raise
