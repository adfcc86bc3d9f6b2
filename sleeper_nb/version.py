"""One version of a table: what it holds, scans of its rows, and the rows that differ from another version.

`TableAt` is the version. A `Scan` of it is planned at once and reads its rows when they are needed; so do `Changes`
between two versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import pyarrow as pa

from sleeper_nb.admin import property_files as property_state
from sleeper_nb.arguments import checked
from sleeper_nb.catalog.catalog_base import FileClaim
from sleeper_nb.clock import Clock
from sleeper_nb.display.file_picture import FilesDrawn
from sleeper_nb.display.listings import (
    FileListing,
    Pictured,
    field_listing,
    leaf_listing,
)
from sleeper_nb.display.partition_picture import partition_lines, partition_map
from sleeper_nb.display.preview import DEFAULT_DISPLAY, FirstRows, Reads, preview
from sleeper_nb.engines.components import Engines, OpenTable
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.maintain import system_tables as definitions
from sleeper_nb.maintain.compaction_plan import StrategySettings, plan_compaction
from sleeper_nb.maintain.online import is_online
from sleeper_nb.maintain.system_tables import KnownAt, rows_at
from sleeper_nb.model.csv_format import CsvFormat
from sleeper_nb.model.evolution import mapped
from sleeper_nb.model.expectations import COUNT
from sleeper_nb.model.partitions import PartitionTree, Region
from sleeper_nb.model.processing import PROCESSING_PROPERTIES, DataProcessing
from sleeper_nb.model.properties import EXPECT, EXPECT_ACTION, TableProperties
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.snapshots import Snapshot, VersionReference
from sleeper_nb.model.state import TableState
from sleeper_nb.progress import SILENT, Progress, finishing
from sleeper_nb.query import Queries
from sleeper_nb.read.arrow_dataset import dataset_of
from sleeper_nb.read.column_profile import ColumnProfile, profile_listing
from sleeper_nb.read.export import ExportReport, export
from sleeper_nb.read.footers import with_row_groups
from sleeper_nb.read.limited import limited
from sleeper_nb.read.reach import ANY_ROW, AllOf, Reach, Test, are_the_regions, parts_met
from sleeper_nb.read.read_rows import read, stream
from sleeper_nb.read.row_condition import Condition
from sleeper_nb.read.scan_plan import (
    ScanPlan,
    TableRows,
    files_of,
    plan_first_rows,
    plan_scan,
    regions_of,
)
from sleeper_nb.report import (
    Answer,
    Bytes,
    Display,
    Grid,
    Listing,
    Report,
    Stacked,
    cell_text,
    counted,
)
from sleeper_nb.sql.binding import BoundSource, metadata_lookup
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.tabular import Tabular, as_dict, as_polars, as_rows
from sleeper_nb.versions import resolve as versions
from sleeper_nb.versions import row_differences as changes
from sleeper_nb.versions import row_images
from sleeper_nb.versions.comparison import VersionComparison
from sleeper_nb.versions.leases import ReadGuard, guarded
from sleeper_nb.versions.resolve import Resolved
from sleeper_nb.versions.row_differences import KINDS, RowChangeKind, RowCounts
from sleeper_nb.versions.row_images import ImageCounts, ImageSummary

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
    _narrowed: Callable[[Test], ScanPlan] | None = None
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
        leaves out files. All relations of scans that this thread makes in the session can be joined: they are on
        `Session.duckdb_connection`, which runs one statement at a time. The files are kept for as long as one of these
        relations, or one derived from them, is alive and the session open. Errors while you execute it are DuckDB's
        own.
        """
        connection = self._engines.duckdb.connection_of_thread()
        self._guard.while_alive(connection, "relation")
        return self._relation(connection)

    def _relation(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        from sleeper_nb.engines.duckdb import relations

        with self._guard.explained():
            names = self._plan.schema.names
            is_whole = not self.where and self.limit is None and 2 * len(self.columns or names) >= len(names)
            rows = relations.relation(connection, self._plan, self._storage, is_whole=is_whole)
        rows = relations.filtered(rows, self.where) if self.where else rows
        rows = rows.select(*map(relations.column, self.columns)) if self.columns else rows
        return rows if self.limit is None else rows.limit(self.limit)

    def to_dataset(self) -> Dataset:
        """Return a `pyarrow.dataset.Dataset`, for libraries that read one; the files are read when it is.

        A filter on row keys, or on columns with statistics, leaves out files: ``to_table(filter=ds.field("k") == 5)``.
        Other filters leave out row groups.
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
        from sleeper_nb.engines.duckdb.interrupts import interruptible
        from sleeper_nb.engines.duckdb.profiling import column_profile

        if self.limit is not None:
            raise InvalidInput("a profile is of all rows, so the scan cannot have a limit", hint="leave the limit out")
        names = self.columns or self._plan.schema.names
        fields = {field.name: field for field in self._plan.schema.fields}
        profiles = []
        watched = finishing(self._progress)
        with closing(self._engines.duckdb.connect()) as connection, self._guard.during("profile"), watched as progress:
            rows = self._relation(connection)
            for done, name in enumerate(names):
                progress.update(f"profiling column {name}", done, len(names))
                profiles.append(interruptible(connection, partial(column_profile, rows, fields[name])))
        return profile_listing(profiles, f"profile of {self.table} at {self.resolved}")

    @overload
    def to_polars(self, *, lazy: Literal[False] = False) -> pl.DataFrame: ...

    @overload
    def to_polars(self, *, lazy: Literal[True]) -> pl.LazyFrame: ...

    @checked
    def to_polars(self, *, lazy: bool = False) -> pl.DataFrame | pl.LazyFrame:
        """Return all rows as a Polars DataFrame, or a lazy frame that reads them when it is collected.

        A lazy frame reads only the columns that Polars needs then, and leaves out partitions and files that its
        conditions on row keys exclude. Its files are kept until the session is closed. `EngineError` when Polars is
        not installed.
        """
        if not lazy:
            return as_polars(self.to_arrow())
        from sleeper_nb.engines.polars_scan import lazy_frame

        self._guard.until_closed("lazy frame")
        schema = self._plan.schema.arrow
        return lazy_frame(self._rows, pa.schema([schema.field(name) for name in self.columns or schema.names]))

    def _rows(self, columns: Sequence[str] | None, test: Test, limit: int | None) -> Iterator[pa.RecordBatch]:
        """Return rows that may meet a test; with a limit, the first ones of the scan."""
        limits = [each for each in (limit, self.limit) if each is not None]
        narrowed = self._narrowed if not limits else None
        plan = self._plan if narrowed is None else narrowed(test)
        names = self.columns if columns is None else tuple(columns) or (self._plan.schema.row_keys[0].name,)
        most = min(limits, default=None)
        with self._guard.explained():
            yield from stream(plan, self._storage, columns=names, where=self._condition, limit=most)

    def to_spark(self) -> DataFrame:
        """Return a Spark DataFrame; Spark starts now, the rows are read when the DataFrame is used.

        A condition means the same as in `to_arrow`: DuckDB evaluates it in Spark's Python workers.
        """
        from sleeper_nb.engines.spark import frames
        from sleeper_nb.engines.spark.kept_frames import KeptFrames

        self._guard.until_closed("data frame")
        rows = frames.data_frame(KeptFrames(self._engines.spark().session()), self._plan, self._storage)
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


_CARD_ROWS = 10


class TableAt(Report):
    """One version of a table, to read.

    Made by `Table.at`. Each call reads the same version, whatever is committed meanwhile, with the filters, iterator
    and aggregations that the version records. Ages count at the moment of the call: no version shows a row that is too
    old by then.
    """

    def __init__(self, opened: OpenTable, resolved: Resolved, read_with: Snapshot | None = None) -> None:
        self.name, self.resolved, self.properties = opened.name, resolved, opened.properties
        self._opened, self._store = opened, opened.store
        self._read_with = read_with  # the snapshot whose schema the rows are read with; None for the version's own

    @property
    def state(self) -> TableState:
        """The partitions and file references of the version."""
        state = self._store.load(self.resolved.version)
        if self._read_with is None:
            return state
        return replace(state, schema=mapped(state.schema, self._store.load(self._read_with).schema))

    @checked
    def in_schema(self, which: Literal["own", "current"]) -> TableAt:
        """Return the version, read with its own schema or the current one; `InvalidInput` when it cannot be."""
        now = None if which == "own" else self._store.head()
        if now is not None:
            mapped(self.state.schema, self._store.load(now).schema)  # or raises
        return TableAt(self._opened, self.resolved, now)

    @property
    def schema(self) -> Schema:
        """The schema that the version is read with."""
        return self.state.schema

    @property
    def partitions(self) -> PartitionTree:
        """The partition tree of the version."""
        return self.state.tree

    @property
    def online(self) -> bool:
        """Whether maintenance may work on the table; offline, it can still be read and loaded."""
        return is_online(self._opened.components.catalog, self._store.table_id)

    @property
    def processing(self) -> DataProcessing:
        """The filters, iterator and aggregations that queries apply to the rows."""
        return self._processing(self.schema)

    @checked
    def at_reference(self, asked: VersionReference | None) -> TableAt:
        """Return the table at a version whose reference is parsed already; at this one when None."""
        version = self.resolved
        if asked is not None:
            version = versions.resolve(self._store.catalog, self._store.table_id, self.name, asked)
        return TableAt(self._opened, version, self._read_with)

    @property
    def answering(self) -> TableProperties:
        """The table's properties, with the filters, iterator and aggregations of the version.

        With ``schema="current"``, those of the snapshot that was current when the version was opened.
        """
        version = self._read_with or self.resolved.version
        return self.properties.processed_as(version.processing)

    @checked
    def plan(self, regions: Sequence[Region] | None = None) -> ScanPlan:
        """Return which files a query of some regions opens, and how it processes their rows.

        Parameters
        ----------
        regions
            The whole version when None.

        Raises
        ------
        InvalidInput, NotFound
            When the table's filters, iterator or aggregations do not fit its schema.
        """
        return self._plan(self.state, regions)

    def _plan(self, state: TableState, regions: Sequence[Region] | None) -> ScanPlan:
        return plan_scan(state, regions, self._processing(state.schema))

    @checked
    def guard(self, size: int) -> ReadGuard:
        """Return a guard that keeps the version's files while `size` bytes of them are read."""
        return self._guard(size)

    def _guard(self, size: int) -> ReadGuard:
        is_old, leases = self.resolved.reference is not None, self._opened.components.leases
        return ReadGuard(leases, self._store.table_id, self.resolved.snapshot_id, is_old, size, self.name)

    def _processing(self, schema: Schema) -> DataProcessing:
        return DataProcessing.of(self.answering, schema, self._opened.components.clock.now())

    @checked
    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        keys: Any = None,
        region: Mapping[str, tuple[Any, Any]] | str | None = None,
        limit: int | None = None,
    ) -> Scan:
        """Return the rows of the version, not read yet.

        Columns, condition and limit apply to rows after the table's filters, iterator and aggregations.

        Parameters
        ----------
        columns
            The columns to read; all when None.
        where
            A condition on one row, in DuckDB's SQL: ``"dep_delay > 60"``. It means the same as after ``WHERE`` in
            `Session.sql` on DuckDB, but cannot have a subquery.
        keys
            One key or several: a list, set or range of keys, or a column or array of pandas, Polars, NumPy or Arrow. A
            key is a value of the first row key, or a tuple of values of the first few; dates and timestamps may be ISO
            text, and are UTC without a zone.
        region
            For some row keys ``(min, max)``: min included, max excluded, None unbounded. Or as text:
            ``"carrier=[AA,DL) flight=[1,100]"``, ``"at=[2013-01-01,2013-02-01)"``.
        limit
            The most rows to return.

        Raises
        ------
        NotFound, InvalidInput
            When there is no such column, or the condition does not fit the schema; before any row is read.
        """
        state, began = self.state, self._opened.components.clock.now()
        regions = regions_of(state.schema, keys, region)
        chosen = None if columns is None else tuple(columns)
        for name in chosen or ():
            if name not in state.schema.names:
                raise NotFound.of("column", name, state.schema.names)
        condition = None if where is None else self._opened.components.engines.condition(where, state.schema)
        planned = self._planner(state, regions, condition)
        if condition is not None and self._is_met_by_regions(condition, state.schema):
            condition = None
        return replace(
            self._scan(state, planned, began), columns=chosen, where=where, limit=limit, _condition=condition
        )

    def _is_met_by_regions(self, condition: Condition, schema: Schema) -> bool:
        """Return whether the regions that are read have only rows that meet a condition: no row is tested then."""
        is_exact = condition.is_understood and are_the_regions(condition.necessary, schema)
        return is_exact and self._processing(schema).is_nothing

    def _planner(
        self, state: TableState, regions: Sequence[Region] | None, condition: Condition | None
    ) -> Callable[[Test], ScanPlan]:
        """Return what plans the rows of some regions that can meet a condition and another test."""
        processing, necessary = self._processing(state.schema), list[Test]()
        if condition is not None:
            regions = parts_met(regions, condition.necessary, state.schema)
            necessary = [condition.test, *condition.necessary]

        def planned(test: Test) -> ScanPlan:
            return plan_scan(state, regions, processing, Reach.of(AllOf((*necessary, test)), state.schema))

        return planned

    def _scan(self, state: TableState, planned: Callable[[Test], ScanPlan], began: datetime) -> Scan:
        """Return the scan of all rows that are planned."""
        components, plan, storage = self._opened.components, planned(ANY_ROW), self._store.storage
        return Scan(
            table=self.name,
            resolved=self.resolved,
            _plan=plan,
            _storage=storage,
            _engines=components.engines,
            _guard=self._guard(plan.bytes),
            _clock=components.clock,
            _began=began,
            _planned_first=partial(plan_first_rows, plan, state),
            _narrowed=planned,
            _dataset=partial(dataset_of, plan, state, storage),
            _progress=components.progress,
        )

    @checked
    def export(
        self,
        destination: str | Path,
        file_format: Literal["parquet", "csv", "tsv"] | None = None,
        *,
        delimiter: str | None = None,
        null_text: str | None = None,
        header: bool = True,
        columns: Sequence[str] | None = None,
        where: str | None = None,
    ) -> ExportReport:
        """Write the rows of the version to Parquet files, one a leaf, or to CSV; see `Scan.export`.

        For a DataFrame instead: ``scan().to_pandas()``, ``to_polars()``, ``to_duckdb()``, ``to_spark()``.
        """
        with finishing(self._opened.components.progress) as progress:
            return self.scan(columns, where).export(
                destination, file_format, delimiter=delimiter, null_text=null_text, header=header, progress=progress
            )

    def fields(self) -> Listing[Field]:
        """Return the fields that the version is read with: their roles and types, and which may be null."""
        return field_listing(self)

    @checked
    def profile(self, columns: Sequence[str] | None = None, where: str | None = None) -> Listing[ColumnProfile]:
        """Return what the values of each column are like: NULLs, distinct values, bounds, quartiles, a histogram.

        Parameters and errors as in `scan`. DuckDB reads the rows; distinct values are counted up to a million values of
        a column, and estimated above.
        """
        return self.scan(columns, where).profile()

    def files(self) -> Pictured[dict[str, Any]]:
        """Return the files that the version reads, below a picture of their keys and of what a compaction would merge.

        They are in the order of their partitions. What would be merged follows from the table's current properties.
        """
        store = self._store
        return self.files_with_claims(store.catalog.claims(store.table_id, store.clock.now()))

    @checked
    def files_with_claims(self, claimed: Sequence[FileClaim]) -> Pictured[dict[str, Any]]:
        """Return the files as `files` does, given the current claims of compaction jobs."""
        strategy, store = self.properties["sleeper.table.compaction.strategy.class"], self._store
        settings, most = StrategySettings.of(self.properties), store.most_compaction_inputs
        plan = plan_compaction(self.state, strategy, settings, claimed, store.clock, most)
        drawn = FilesDrawn.of(self, plan, strategy)
        return Pictured(FileListing.of(self), drawn.html(), drawn.text())

    def leaves(self) -> Pictured[dict[str, Any]]:
        """Return the leaf partitions with their regions, files and rows, below a picture of the tree."""
        return Pictured(leaf_listing(self), partition_map(self), partition_lines(self))

    def source(self) -> BoundSource:
        """Return the rows of the version as SQL reads them."""
        state = self.state
        rows = TableRows(state, self._processing(state.schema))
        return BoundSource(self.name, self.resolved, rows, self._store.storage, self._guard(0))

    @checked
    def system_table(self, suffix: str) -> BoundSource:
        """Return the rows of a system table at the version: ``files``, ``savepoints`` …, in any case.

        Raises
        ------
        NotFound
            When there is no such system table; the hint names the nearest.
        """
        table = definitions.system_table(suffix, self.name)
        rows = rows_at(table, self._known)
        return BoundSource(f"{self.name}{definitions.MARK}{table.name}", self.resolved, rows, self._store.storage)

    @checked
    def inspect(self, sql: str, params: Mapping[str, Any] | None = None) -> Answer:
        """Query the metadata of the version on DuckDB, in its system tables; Spark is not started.

        They are called ``files``, ``partitions``, ``snapshots``, ``savepoints``, ``schemas``, ``properties`` and
        ``jobs``, or as in `Session.sql`: ``flights$files``. Another version can be named: ``files@3``. `params` are the
        values of ``:name``.
        """
        # A handle of its own, so that all system tables of this statement are of one moment, and of now.
        here = TableAt(self._opened, self.resolved, self._read_with)
        queries = Queries(
            engine="duckdb",
            engines=self._opened.components.engines,
            clock=self._opened.components.clock,
            lookup=metadata_lookup(here),
            tables=lambda: tuple(definitions.SYSTEM_TABLES),
            parameters=params or {},
        )
        return queries.run(sql).answer(f"metadata of {self.name} at {here.resolved}")

    def card(self) -> Stacked:
        """Return the commit or savepoint of the version, the table's totals in it, and its first ten rows."""
        rows, total = self.scan().head(_CARD_ROWS + 1), self.plan().rows
        first = preview(rows, f"{self.name} at {self.resolved}", limit=_CARD_ROWS, total=total)
        return Stacked((("version", self.resolved.version), ("table", self), ("rows", Answer(first))))

    def grid(self) -> Grid:
        """Return the version, its schema and its totals, in a few lines."""
        state = self.state
        files, size = files_of(state)
        offline = () if self.online else (("online", "no: no maintenance touches it"),)
        done = self._processing_texts()
        return Grid(
            ("", ""),
            (
                ("version", str(self.resolved)),
                ("row keys", ", ".join(f"{f.name} {f.definition}" for f in state.schema.row_keys)),
                ("sort keys", ", ".join(f"{f.name} {f.definition}" for f in state.schema.sort_keys)),
                ("values", ", ".join(f"{f.name} {f.definition}" for f in state.schema.values)),
                *state.schema.rules,
                *((name.removeprefix("sleeper.table."), text) for name, text in done.items()),
                *self._expectations(),
                ("partitions", counted(len(state.tree.leaves), "leaf partition")),
                ("files", files),
                ("rows in files" if done else "rows", state.totals().rows),
                ("bytes", Bytes(size)),
                *offline,
                ("id", self._store.table_id),
                ("properties file", self._opened.components.property_files.path(self._store.table_id)),
                *(("waits", note) for note in self._waiting()),
            ),
            title=f"table {self.name}",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the schema and the totals."""
        files, size = files_of(self.state)
        version = self.resolved.snapshot_id
        return {
            "table": self.name,
            "version": version,
            "files": files,
            "rows": self.state.totals().rows,
            "bytes": size,
            **self.schema.to_dict(),
            **({"processing": done} if (done := self._processing_texts()) else {}),
        }

    @property
    def is_processed(self) -> bool:
        """Whether queries filter, change or combine rows, so that they do not return them as the files have them."""
        return bool(self._processing_texts())

    @cached_property
    def _known(self) -> KnownAt:
        """The content of the system tables: all that one statement names are of one moment."""
        return KnownAt(self._store, self.resolved, self.answering)

    def _waiting(self) -> tuple[str, ...]:
        """Return what the property file says that the current version does not do; nothing for an older version."""
        if self.resolved.reference is not None:
            return ()
        files, table_id = self._opened.components.property_files, self._store.table_id
        written = files.of_table(table_id)  # read now: the properties may have changed since this table was opened
        return property_state.pending_settings(written, self.state, self.name, files.path(table_id))

    def _expectations(self) -> tuple[tuple[str, str], ...]:
        """Return the table's expectations and what is done about rows that break them; nothing for an older version."""
        conditions = self.properties.texts.get(EXPECT)
        if self.resolved.reference is not None or not conditions:
            return ()
        action = self.properties.texts.get(EXPECT_ACTION, COUNT)
        return (("expectations", f"{conditions} ({action} the rows that break them)"),)

    def _processing_texts(self) -> dict[str, str]:
        """Return the texts of the properties that filter, change or combine rows, even when they are not valid."""
        return {name: text for name in PROCESSING_PROPERTIES if (text := self.answering.texts.get(name))}


@dataclass(frozen=True, slots=True, repr=False)
class Changes(Report):
    """The rows that differ between two versions of a table, not read yet.

    Made by `Table.changes`. A row counts as often as it occurs, and a row whose values changed is removed and added.
    ``added`` and ``removed`` are the two kinds; ``rows()`` has both, each row with its kind. The rows of `before`,
    without `removed` and with `added`, are the rows of `after`.

    Parameters
    ----------
    table
        The table's name.
    before, after
        The two versions.
    images
        Whether `rows` says which removed and added row are the two images of an update.
    """

    table: str
    before: Resolved
    after: Resolved
    _comparison: VersionComparison
    _storage: Storage
    _guards: tuple[ReadGuard, ...]
    images: bool = False

    @property
    def added(self) -> ChangedRows:
        """The rows that only `after` has."""
        return ChangedRows(self, ("added",))

    @property
    def removed(self) -> ChangedRows:
        """The rows that only `before` has."""
        return ChangedRows(self, ("removed",))

    @checked
    def rows(self, limit: int | None = None) -> ChangedRows:
        """Return all of these rows, at most `limit`, each with ``"added"`` or ``"removed"`` in its first column.

        With ``images``, the two rows of a key that has one removed and one added row, and no other, have
        ``"update_preimage"`` and ``"update_postimage"`` there instead. The column is ``change``; ``_change`` in a table
        that has such a column.
        """
        if limit is not None and limit < 0:
            raise InvalidInput(f"the limit {limit} is negative", hint="the limit is 0 or more")
        return ChangedRows(self, KINDS, limit)

    def count(self) -> RowCounts:
        """Return how many rows were added and removed, as a pair; from metadata alone where that is enough."""
        with guarded(self._guards, "diff"):
            return changes.count_changes(self._comparison, self._storage)

    def count_images(self) -> ImageCounts:
        """Return how many rows were inserted, updated and deleted, by key; an update counts once."""
        with guarded(self._guards, "diff"):
            return row_images.count_images(self._comparison, self._storage)

    @checked
    def summary(self, rows: int = 200, *, progress: Progress = SILENT) -> ImageSummary:
        """Return what changed, by key: exact counts, how many values of each column, and the first rows of each kind.

        Parameters
        ----------
        rows
            How many rows of each kind are kept. Where metadata has the counts, no more rows are read.
        progress
            Callback that receives the key range being compared.
        """
        with guarded(self._guards, "diff"):
            return row_images.summarize_images(self._comparison, self._storage, rows, progress=progress)

    @property
    def bytes(self) -> int:
        """The size of the files that must be read for exact counts, in bytes; 0 where metadata has them."""
        return changes.recorded_counts(self._comparison)[1].bytes

    def grid(self) -> Grid:
        """Return the first rows of both kinds."""
        return self.rows().grid()

    def to_dict(self) -> dict[str, Any]:
        """Return all rows of each kind: a list of values for each column."""
        return {kind: ChangedRows(self, (kind,)).to_dict() for kind in KINDS}

    @property
    def whose_columns(self) -> str:
        """Whose columns the rows have, as text; "" where both versions have the same."""
        if not self._comparison.columns_differ:
            return ""
        newer = max(self.before, self.after, key=lambda version: version.snapshot_id)
        return f"shown with the columns of {newer}, because the columns differ"

    @property
    def opened(self) -> str:
        """How many of the two versions' files are read to compare them, as text."""
        return f"reads {cell_text(self._comparison.files)}/{cell_text(self._comparison.files_of)} files"

    @checked
    def batches(self, kinds: tuple[RowChangeKind, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one kind, or of both with a column for the kind; region by region, each in key order."""
        with guarded(self._guards, "diff"):
            if self.images and kinds == KINDS:
                yield from row_images.stream_images(self._comparison, self._storage, self._column)
                return
            for change in changes.stream_changes(self._comparison, self._storage, kinds):
                if kinds == KINDS:
                    yield changes.labelled(change, self._column, self._comparison.after.sort_order)
                else:
                    yield change.added if kinds == ("added",) else change.removed

    @checked
    def schema(self, kinds: tuple[RowChangeKind, ...]) -> pa.Schema:
        """Return the schema of what `batches` yields."""
        plain = self._comparison.schema
        return changes.labelled_schema(plain, self._column) if kinds == KINDS else plain

    @property
    def _column(self) -> str:
        return changes.kind_column(self._comparison.newer.names)


@dataclass(frozen=True, slots=True, repr=False)
class ChangedRows(Report, Tabular):
    """Rows that were added, removed, or both, not read yet; each call reads them again.

    Made by `Changes`.
    """

    changes: Changes
    kinds: tuple[RowChangeKind, ...]
    limit: int | None = None
    display: Display = DEFAULT_DISPLAY

    def count(self) -> int:
        """Return the number of rows; from metadata alone where that is enough."""
        counts = self.changes.count()._asdict()
        count = sum(int(counts[kind]) for kind in self.kinds)
        return count if self.limit is None else min(count, self.limit)

    def __len__(self) -> int:
        return self.count()

    @checked
    def head(self, rows: int = DEFAULT_DISPLAY.rows) -> pa.Table:
        """Return the first rows, in key order within each leaf; only as much is compared as that needs."""
        return self._read(rows if self.limit is None else min(rows, self.limit))

    def to_arrow(self) -> pa.Table:
        """Read all rows into Arrow: leaf by leaf, in key order within each."""
        return self._read(self.limit)

    def grid(self) -> Grid:
        """Return the first rows, the two versions, and how many files are read to compare them."""
        kinds = " and ".join(self.kinds)
        if self.changes.images and self.kinds == KINDS:
            kinds = "removed, added and updated"
        shown = self.display.rows if self.limit is None else min(self.display.rows, self.limit)
        what = f"{kinds} from {self.changes.before} to {self.changes.after} of {self.changes.table}"
        footer = " · ".join(filter(None, (what, self.changes.whose_columns, self.changes.opened)))
        rows = self._read(shown + 1)  # one more tells that there are more
        return preview(rows, footer, limit=shown, total=self._recorded())

    def _recorded(self) -> int | None:
        """Return the number of rows, whatever the limit, where metadata has it."""
        counts, unknown = changes.recorded_counts(self.changes._comparison)  # noqa: SLF001 - of the same module
        return None if unknown.regions else sum(int(counts._asdict()[kind]) for kind in self.kinds)

    def to_dict(self) -> dict[str, Any]:
        """Return all rows: a list of values for each column."""
        return as_dict(self.to_arrow())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return chain.from_iterable(map(as_rows, limited(self.changes.batches(self.kinds), self.limit)))

    def _read(self, limit: int | None) -> pa.Table:
        rows = limited(self.changes.batches(self.kinds), limit)
        return pa.Table.from_batches(rows, self.changes.schema(self.kinds))
