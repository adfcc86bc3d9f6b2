"""A scan of one version of a table: planned at once, read when asked, in the form that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from sleeper_nb.arguments import checked
from sleeper_nb.clock import Clock
from sleeper_nb.components import Engines
from sleeper_nb.errors import InvalidInput
from sleeper_nb.operations.loading.source_files import CsvFormat
from sleeper_nb.operations.scanning.conditions import Condition
from sleeper_nb.operations.scanning.exporting import ExportReport, export
from sleeper_nb.operations.scanning.funnel import with_row_groups
from sleeper_nb.operations.scanning.planning import ScanPlan
from sleeper_nb.operations.scanning.reading import read, stream
from sleeper_nb.operations.versioning.leases import ReadGuard
from sleeper_nb.operations.versioning.versions import Resolved
from sleeper_nb.preview import DEFAULT_DISPLAY, FirstRows, Reads
from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.report import Display, Grid, Report
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, repr=False)
class Scan(Report):
    """Rows of one version of a table, not read yet.

    Made by `Table.scan`. `plan` tells what will be opened; `to_arrow`, `to_pandas`, `to_polars`, `to_duckdb` and
    `to_spark` read it; shown in a notebook it reads its first rows, as many as `display` says.
    """

    table: str
    resolved: Resolved
    _plan: ScanPlan
    _storage: Storage
    _engines: Engines
    _guard: ReadGuard
    _clock: Clock
    _began: datetime
    columns: tuple[str, ...] | None = None
    where: str | None = None
    limit: int | None = None
    _condition: Condition | None = None
    _planned_first: Callable[[int], ScanPlan] | None = None
    display: Display = DEFAULT_DISPLAY
    _first: FirstRows = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_first", FirstRows(self.head, self._clock, self._began))

    def plan(self) -> ScanPlan:
        """Return which partitions, files, row groups and bytes will be read, out of what; footers tell, no row is read.

        Of a condition, comparisons of row keys with numbers or texts that are joined by AND leave out what cannot meet
        them.
        """
        columns = self.columns if self.where is None else None
        return with_row_groups(self._plan, self._storage, columns)

    def count(self) -> int:
        """Return the number of rows; from metadata alone when there is no condition, no cut file and no processing."""
        if self.where is None and self.limit is None and self._plan.rows is not None:
            return self._plan.rows
        key = self._plan.schema.row_keys[0].name
        rows = stream(self._plan, self._storage, columns=(key,), where=self._condition, limit=self.limit)
        with self._guard.during("scan"):
            return sum(batch.num_rows for batch in rows)

    @checked
    def head(self, rows: int = DEFAULT_DISPLAY.rows) -> pa.Table:
        """Return the first rows, in key order within each leaf."""
        limit = rows if self.limit is None else min(rows, self.limit)
        narrowed = None if self._condition is not None else self._planned_first
        plan = self._plan if narrowed is None else narrowed(limit)
        with self._guard.explained():
            return read(plan, self._storage, columns=self.columns, where=self._condition, limit=limit)

    def to_arrow(self) -> pa.Table:
        """Read all rows into Arrow: leaf by leaf, in key order within each."""
        with self._guard.during("scan"):
            return read(self._plan, self._storage, columns=self.columns, where=self._condition, limit=self.limit)

    def to_pandas(self) -> pd.DataFrame:
        """Read all rows into pandas; integers with NULLs are its ``Int32`` and ``Int64``."""
        return as_pandas(self.to_arrow())

    def to_polars(self) -> pl.DataFrame:
        """Read all rows into Polars."""
        return as_polars(self.to_arrow())

    def to_duckdb(self) -> duckdb.DuckDBPyRelation:
        """Return a DuckDB relation that reads the files when it is asked, with this scan's condition and limit.

        The files are kept for as long as the relation, or one made of it, is alive and the session open. What fails
        while you execute it is an error of DuckDB's own.
        """
        from sleeper_nb.engines.duckdb import relations

        connection = self._engines.duckdb.connect()
        self._guard.while_alive(connection, "relation")
        with self._guard.explained():
            names = self._plan.schema.names
            is_whole = not self.where and self.limit is None and 2 * len(self.columns or names) >= len(names)
            rows = relations.relation(connection, self._plan, self._storage, is_whole=is_whole)
        rows = relations.filtered(rows, self.where) if self.where else rows
        rows = rows.select(*map(relations.column, self.columns)) if self.columns else rows
        return rows if self.limit is None else rows.limit(self.limit)

    def to_spark(self) -> DataFrame:
        """Return a Spark DataFrame; Spark starts now, the rows are read when it is asked.

        A condition means what it means in `to_arrow`: DuckDB evaluates it in Spark's Python workers.
        """
        from sleeper_nb.engines.spark import frames

        self._guard.until_closed("data frame")
        rows = frames.data_frame(self._engines.spark().handed_out(), self._plan, self._storage)
        if self._condition is not None:
            rows = frames.met(rows, self._plan.schema, self._condition, self.columns)
        rows = rows.select(*self.columns) if self.columns else rows
        return rows if self.limit is None else rows.limit(self.limit)

    @checked
    def export(
        self,
        destination: str | Path,
        file_format: Literal["parquet", "csv", "tsv"] | None = None,
        *,
        delimiter: str | None = None,
        null_text: str | None = None,
        header: bool = True,
        progress: Progress = SILENT,
    ) -> ExportReport:
        """Write all rows to files that any tool reads; when anything fails, none is left.

        Parameters
        ----------
        destination
            A folder that is empty or does not exist, for one file a leaf; or a new file that ends in ``.parquet``,
            ``.csv`` or ``.tsv``, for all rows in one. Either can be at ``s3://``.
        file_format
            None goes by the destination's ending, and is Parquet for a folder.
        delimiter
            What separates the values of a CSV file: one character, or ``"tab"``; a comma when None, a tab in ``.tsv``.
        null_text
            What stands for NULL in a CSV file, without quotes; nothing when None. Texts are always in quotes.
        header
            Whether the first line of a CSV file names the columns.
        progress
            Watches.
        """
        with self._guard.during("export"):
            return export(
                self._plan,
                self._storage,
                f"{self.table} at {self.resolved}",
                str(destination),
                file_format=file_format,
                csv=CsvFormat(delimiter, null_text, header),
                columns=self.columns,
                where=self._condition,
                limit=self.limit,
                progress=progress,
            )

    def grid(self) -> Grid:
        """Return the first rows, which version they are of, what the whole scan opens, and how long they took."""
        total = self._plan.rows if self.where is None else None
        if total is not None and self.limit is not None:
            total = min(total, self.limit)
        source = f"{self.table} at {self.resolved}"
        return self._first.grid(self.display, source, Reads.of([self._plan]), total=total)

    def to_dict(self) -> dict[str, Any]:
        """Return all rows, a list of values per column."""
        return as_dict(self.to_arrow())


def as_pandas(rows: pa.Table) -> pd.DataFrame:
    """Return Arrow rows as pandas, every value exactly.

    Integers with NULLs are pandas' masked integers, floats with NaN its masked floats; lists and maps with NULLs inside
    are those of Python. `InvalidInput` names the column whose dates or times pandas cannot hold.
    """
    return cast("pd.DataFrame", _held(rows, _exact_frame))


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
        hint = "take the rows --as arrow, or by to_arrow(); or cast the column to text in sql"
        raise InvalidInput(f"column {name!r} has dates or times outside of the years 1 to 9999", hint=hint) from error


def _holds(column: pa.Table, convert: Callable[[pa.Table], Any]) -> bool:
    try:
        convert(column)
    except (OverflowError, ValueError):
        return False
    return True


def as_polars(rows: pa.Table) -> pl.DataFrame:
    """Return Arrow rows as Polars; a missing Polars names its install command."""
    from sleeper_nb.errors import EngineError

    try:
        import polars as pl
    except ImportError as error:
        raise EngineError("Polars is not installed", hint="pip install polars") from error
    return pl.DataFrame(rows)
