"""A scan of one version of a table: planned at once, it reads its rows when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import pyarrow as pa

from sleeper_nb.arguments import checked
from sleeper_nb.clock import Clock
from sleeper_nb.display.preview import DEFAULT_DISPLAY, FirstRows, Reads
from sleeper_nb.engines.components import Engines
from sleeper_nb.engines.engine import ScanRows
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.csv_format import CsvFormat
from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.read.column_profile import ColumnProfile, profile_listing
from sleeper_nb.read.export import ExportReport, export
from sleeper_nb.read.footers import with_row_groups
from sleeper_nb.read.predicate import Condition, Predicate
from sleeper_nb.read.read_rows import read, stream
from sleeper_nb.read.scan_plan import (
    ScanPlan,
)
from sleeper_nb.report import (
    Display,
    Grid,
    Listing,
    Report,
)
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.tabular import Tabular, as_dict, as_polars, as_rows
from sleeper_nb.versions.leases import ReadGuard
from sleeper_nb.versions.resolve import Resolved

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    from pyarrow.dataset import Dataset
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, repr=False)
class Scan(Report, Tabular):
    """Rows of one version of a table, not read yet.

    Made by `Table.scan`. `plan` returns what will be opened; `to_arrow`, `to_pandas`, `to_polars`, `to_duckdb`,
    `to_dataset` and `to_spark` read it. When a notebook shows it, it reads its first rows, as many as `display` says.
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
    _narrowed: Callable[[Predicate], ScanPlan] | None = None
    _dataset: Callable[[Sequence[str] | None], Dataset] | None = None
    _progress: Progress = SILENT
    display: Display = DEFAULT_DISPLAY
    _first: FirstRows = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_first", FirstRows(self._clock, self._began))

    def plan(self) -> ScanPlan:
        """Return which partitions, files, row groups and bytes will be read, out of how many.

        Only the footers of files are read for this. A condition reduces what is read where every row that meets it has
        row keys in some ranges: comparisons, IN, LIKE 'abc%', AND, OR and NOT of them, and constant expressions.
        """
        columns = self.columns if self.where is None else None
        return with_row_groups(self._plan, self._storage, columns)

    def count(self) -> int:
        """Return the number of rows; from metadata alone where that is enough: without a condition, for instance."""
        if self.where is None and self.limit is None and self._plan.rows is not None:
            return self._plan.rows
        key = self._plan.schema.row_keys[0].name
        rows = stream(self._plan, self._storage, columns=(key,), where=self._condition, limit=self.limit)
        with self._guard.during("scan"):
            return sum(batch.num_rows for batch in rows)

    def __len__(self) -> int:
        return self.count()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with self._guard.during("scan"):
            for batch in stream(
                self._plan, self._storage, columns=self.columns, where=self._condition, limit=self.limit
            ):
                yield from as_rows(batch)

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

    def to_duckdb(self) -> duckdb.DuckDBPyRelation:
        """Return a DuckDB relation that reads the files when it is executed, with this scan's condition and limit.

        DuckDB reads the columns and row groups that are needed then, and every file's footer; ``where`` in the scan
        prunes files. All relations of scans that this thread makes in the session can be joined: they are on
        `Session.duckdb_connection`, which runs one statement at a time. The files are kept for as long as one of these
        relations, or one derived from them, is alive and the session open. Errors while you execute it are DuckDB's
        own.
        """
        return self._engines.relation_of_scan(self._asked)

    @property
    def _asked(self) -> ScanRows:
        guard, condition = self._guard, self._condition
        return ScanRows(self._plan, self._storage, guard, self.columns, self.where, self.limit, condition)

    def to_dataset(self) -> Dataset:
        """Return a `pyarrow.dataset.Dataset`, for libraries that read one; the files are read when it is.

        A filter on row keys, or on columns with statistics, prunes files: ``to_table(filter=ds.field("k") == 5)``.
        Other filters prune row groups.
        Only of files of which some rows count, the rows are read now: those beyond ``keys`` or ``region``, or left to a
        leaf by a split. Rows are in no order. The files are kept until the session is closed.

        Raises
        ------
        InvalidInput
            When a data set cannot express the scan: it has a condition or a limit, the table filters or combines rows,
            or a column has another name in the files. `to_arrow` can.
        """
        for name, given in (("condition", self.where), ("limit", self.limit)):
            if given is not None:
                raise InvalidInput(
                    f"a data set cannot apply the {name} of the scan: {given}",
                    hint="filter the data set, or read the rows: to_arrow()",
                )
        self._guard.until_closed("data set")
        with self._guard.explained():
            assert self._dataset is not None  # noqa: S101 - every scan of a version has it
            return self._dataset(self.columns)

    def profile(self) -> Listing[ColumnProfile]:
        """Return what the values of each column are like; DuckDB reads the columns one after the other.

        Raises
        ------
        InvalidInput
            When the scan has a limit: each column would be read of other rows.
        """
        if self.limit is not None:
            raise InvalidInput("a profile is of all rows, so the scan cannot have a limit", hint="leave the limit out")
        profiles = self._engines.profiles(self._asked, self._progress)
        return profile_listing(profiles, f"profile of {self.table} at {self.resolved}")

    @overload
    def to_polars(self, *, lazy: Literal[False] = False) -> pl.DataFrame: ...

    @overload
    def to_polars(self, *, lazy: Literal[True]) -> pl.LazyFrame: ...

    @checked
    def to_polars(self, *, lazy: bool = False) -> pl.DataFrame | pl.LazyFrame:
        """Return all rows as a Polars DataFrame, or a lazy frame that reads them when it is collected.

        A lazy frame reads only the columns that Polars needs then, and prunes partitions and files that its
        conditions on row keys exclude. Its files are kept until the session is closed. `EngineError` when Polars is
        not installed.
        """
        if not lazy:
            return as_polars(self.to_arrow())
        from sleeper_nb.engines.polars_scan import lazy_frame

        self._guard.until_closed("lazy frame")
        schema = self._plan.schema.arrow
        return lazy_frame(self._rows, pa.schema([schema.field(name) for name in self.columns or schema.names]))

    def _rows(self, columns: Sequence[str] | None, predicate: Predicate, limit: int | None) -> Iterator[pa.RecordBatch]:
        """Return rows that may meet a predicate; with a limit, the first ones of the scan."""
        limits = [each for each in (limit, self.limit) if each is not None]
        narrowed = self._narrowed if not limits else None
        plan = self._plan if narrowed is None else narrowed(predicate)
        names = self.columns if columns is None else tuple(columns) or (self._plan.schema.row_keys[0].name,)
        most = min(limits, default=None)
        with self._guard.explained():
            yield from stream(plan, self._storage, columns=names, where=self._condition, limit=most)

    def to_spark(self) -> DataFrame:
        """Return a Spark DataFrame; Spark starts now, the rows are read when the DataFrame is used.

        A condition means the same as in `to_arrow`: DuckDB evaluates it in Spark's Python workers.
        """
        return self._engines.frame_of_scan(self._asked)

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
        """Write all rows to files that any tool reads; after an error no file is left.

        Parameters
        ----------
        destination
            A folder that is empty or does not exist, for one file a leaf; or a new file that ends in ``.parquet``,
            ``.csv`` or ``.tsv``, for all rows in one. Either can be at ``s3://``.
        file_format
            None: by the ending of the destination; Parquet for a folder.
        delimiter
            What separates the values of a CSV file: one character, or ``"tab"``; a comma when None, a tab in ``.tsv``.
        null_text
            The text, without quotes, that stands for NULL in a CSV file; the empty text when None. Values that are
            text are always in quotes.
        header
            Whether the first line of a CSV file names the columns.
        progress
            The progress callback.
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
        """Return the first rows, their version, what the whole scan opens, and how long reading them took."""
        total = self._plan.rows if self.where is None else None
        if total is not None and self.limit is not None:
            total = min(total, self.limit)
        source = f"{self.table} at {self.resolved}"
        return self._first.grid(self.head, self.display, source, Reads.of([self._plan]), total=total)

    def to_dict(self) -> dict[str, Any]:
        """Return all rows: a list of values for each column."""
        return as_dict(self.to_arrow())
