"""The rows that changed between two versions of a table: compared when asked, in the form that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from sleeper_nb.arguments import checked
from sleeper_nb.catalog.catalog_base import Assignment
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
from sleeper_nb.engines.components import Components, Engines
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.evolution import mapped
from sleeper_nb.model.partitions import PartitionTree, Region
from sleeper_nb.model.processing import PROCESSING_PROPERTIES, DataProcessing
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.snapshots import Snapshot, VersionReference
from sleeper_nb.model.state import TableState
from sleeper_nb.operations import system_tables as definitions
from sleeper_nb.operations.administration import property_files as property_state
from sleeper_nb.operations.compaction_plan import StrategySettings, plan_compaction
from sleeper_nb.operations.loading import sources
from sleeper_nb.operations.loading.source_files import CsvFormat
from sleeper_nb.operations.scanning.export import ExportReport, export
from sleeper_nb.operations.scanning.footers import with_row_groups
from sleeper_nb.operations.scanning.read_rows import read, stream
from sleeper_nb.operations.scanning.row_condition import Condition, regions_of_rows
from sleeper_nb.operations.scanning.scan_plan import (
    ScanPlan,
    files_of,
    plan_first_rows,
    plan_scan,
    regions_of,
)
from sleeper_nb.operations.scanning.to_frames import as_dict, as_pandas, as_polars
from sleeper_nb.operations.system_tables import KnownAt, rows_at
from sleeper_nb.operations.upkeep.online import is_online
from sleeper_nb.operations.versioning import resolve as versions
from sleeper_nb.operations.versioning import row_changes as changes
from sleeper_nb.operations.versioning.comparison import VersionComparison
from sleeper_nb.operations.versioning.leases import ReadGuard, guarded
from sleeper_nb.operations.versioning.resolve import Resolved
from sleeper_nb.operations.versioning.row_changes import KINDS, RowChangeKind, RowCounts
from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.query import run_query
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
from sleeper_nb.sql.statement import BoundSource, metadata_lookup
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame


# A scan of one version of a table: planned at once, read when asked, in the form that is asked for.


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


# `TableAt`: a table at one version, to read. `Table` adds what changes it.

_CARD_ROWS = 10


class TableAt(Report):
    """One version of a table, to read.

    Made by `Table.at`. Each call reads the same version, whatever is committed meanwhile, with the filters, iterator
    and aggregations that the version records. Ages count at the moment of the call: an old version too shows no row
    that is too old by now.
    """

    _read_with: Snapshot | None = None  # None for the version's own

    def __init__(
        self,
        name: str,
        resolved: Resolved,
        store: StateStore,
        components: Components,
        properties: TableProperties,
        read_with: Snapshot | None = None,
    ) -> None:
        self.name, self.resolved, self.properties = name, resolved, properties
        self._store, self._components, self._read_with = store, components, read_with

    @property
    def state(self) -> TableState:
        """The partitions and file references of the version."""
        state = self._store.load(self.resolved.version)
        if self._read_with is None:
            return state
        return replace(state, schema=mapped(state.schema, self._store.load(self._read_with).schema))

    @checked
    def in_schema(self, which: Literal["own", "current"]) -> TableAt:
        """Return the version, read with its own schema or with that of now; `InvalidInput` says why that cannot be."""
        if which not in {"own", "current"}:
            raise InvalidInput(f"no schema {which!r}", hint="it is own or current")
        now = None if which == "own" else self._store.head()
        if now is not None:
            mapped(self.state.schema, self._store.load(now).schema)  # or raises
        return TableAt(self.name, self.resolved, self._store, self._components, self.properties, now)

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
        """Whether maintenance may work on the table; rows are read and added all the same."""
        return is_online(self._components.catalog, self._store.table_id)

    @property
    def processing(self) -> DataProcessing:
        """What is done now with rows before they are given: the table's filters, iterator and aggregations."""
        return self._processing(self.schema)

    @checked
    def at_reference(self, asked: VersionReference | None) -> TableAt:
        """Return the table at a version that was parsed already; at this one, whatever is committed, when None."""
        found = self.resolved
        if asked is not None:
            found = versions.resolve(self._components.catalog, self._store.table_id, self.name, asked)
        return TableAt(self.name, found, self._store, self._components, self.properties, self._read_with)

    @property
    def answering(self) -> TableProperties:
        """The table's properties, with the filters, iterator and aggregations of the version.

        With ``schema="current"``, those of the snapshot that was current when the version was opened.
        """
        version = self._read_with or self.resolved.version
        return self.properties.processed_as(version.processing)

    @checked
    def plan(self, regions: Sequence[Region] | None = None) -> ScanPlan:
        """Return what a query of some regions opens, of the whole version when None, and what it does with the rows.

        Raises
        ------
        InvalidInput, NotFound
            When the table's filters, iterator or aggregations do not fit its schema.
        """
        state = self.state
        return plan_scan(state, regions, self._processing(state.schema))

    @checked
    def guard(self, size: int) -> ReadGuard:
        """Return what keeps the version's files while so many bytes of them are read."""
        is_old, leases = self.resolved.reference is not None, self._components.leases
        return ReadGuard(leases, self._store.table_id, self.resolved.snapshot_id, is_old, size, self.name)

    def _processing(self, schema: Schema) -> DataProcessing:
        return DataProcessing.of(self.answering, schema, self._components.clock.now())

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

        Columns, condition and limit are about rows as the table's filters, iterator and aggregations give them.

        Parameters
        ----------
        columns
            The columns to read; all when None.
        where
            A condition on one row, in DuckDB's SQL: ``"dep_delay > 60"``. It means what it does after ``WHERE`` in
            `Session.sql` on DuckDB, but has no subquery.
        keys
            One key or a list of keys. A key is a value of the first row key, or a tuple of values of the first few.
        region
            For some row keys ``(min, max)``: min included, max excluded, None unbounded. Or as text:
            ``"carrier=[AA,DL) flight=[1,100]"``.
        limit
            At most so many rows.

        Raises
        ------
        NotFound, InvalidInput
            When there is no such column, or the condition cannot be one of this schema; before any row is read.
        """
        c, schema = self._components, self.schema
        began = c.clock.now()
        regions: Sequence[Region] | None = regions_of(schema, keys, region)
        chosen = None if columns is None else tuple(columns)
        sources.check_columns(chosen, schema)
        condition = None if where is None else c.engines.condition(where, schema)
        if condition is not None:
            regions = regions_of_rows(regions, condition.necessary, schema)
        plan = self.plan(regions)
        given = plan, self._store.storage, c.engines, self.guard(plan.bytes), c.clock, began
        first = partial(plan_first_rows, plan, self.state)
        return Scan(self.name, self.resolved, *given, chosen, where, limit, condition, first)

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
        progress = self._components.progress
        try:
            return self.scan(columns, where).export(
                destination, file_format, delimiter=delimiter, null_text=null_text, header=header, progress=progress
            )
        finally:
            progress.finish()

    def fields(self) -> Listing[Field]:
        """Return the fields that the version is read with: their roles and types, and which may be null."""
        return field_listing(self)

    def files(self) -> Pictured[dict[str, Any]]:
        """Return the files that the version reads, below a picture of their keys and of what a compaction would merge.

        They are in the order of their partitions. Would, by the table's strategy as it is now, with its limits.
        """
        store = self._store
        return self.files_beside(store.catalog.assignments(store.table_id, store.clock.now()))

    @checked
    def files_beside(self, claimed: Sequence[Assignment]) -> Pictured[dict[str, Any]]:
        """Return the files as `files` does, while compaction jobs have claimed some of them."""
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
        plan = self.plan()
        return BoundSource(self.name, self.resolved, plan, self._store.storage, self.guard(plan.bytes))

    @checked
    def system_table(self, suffix: str) -> BoundSource:
        """Return the rows of a system table at the version: ``files``, ``savepoints`` …, in any case.

        Raises
        ------
        NotFound
            When there is no such system table, naming the nearest.
        """
        found = definitions.system_table(suffix, self.name)
        rows = rows_at(found, self._known)
        return BoundSource(f"{self.name}{definitions.MARK}{found.name}", self.resolved, rows, self._store.storage)

    @checked
    def inspect(self, sql: str, params: Mapping[str, Any] | None = None) -> Answer:
        """Ask DuckDB about the metadata of the version, in its system tables; no Spark is started.

        They are called ``files``, ``partitions``, ``snapshots``, ``savepoints``, ``schemas``, ``properties`` and
        ``jobs``, or as `Session.sql` has them: ``flights$files``. Another version may be asked for: ``files@3``; and
        `params` are the values of ``:name``.
        """
        here = self.at_reference(None)
        result = run_query(
            sql,
            engine="duckdb",
            parameters=params or {},
            lookup=metadata_lookup(here),
            tables=lambda: tuple(definitions.SYSTEM_TABLES),
            engines=self._components.engines,
            clock=self._components.clock,
        )
        return result.answer(f"metadata of {self.name} at {here.resolved}")

    def card(self) -> Stacked:
        """Return the commit or savepoint of the version, what the table is there, and its first ten rows."""
        at = self.at_reference(None)
        rows, total = at.scan().head(_CARD_ROWS + 1), at.plan().rows
        first = preview(rows, f"{at.name} at {at.resolved}", limit=_CARD_ROWS, total=total)
        return Stacked((("version", at.resolved.version), ("table", at), ("rows", Answer(first))))

    def grid(self) -> Grid:
        """Return what the version is, in a few lines."""
        state = self.state
        files, size = files_of(state)
        offline = () if self.online else (("online", "no: no maintenance touches it"),)
        done = self._done()
        return Grid(
            ("", ""),
            (
                ("version", str(self.resolved)),
                ("row keys", ", ".join(f"{f.name} {f.text}" for f in state.schema.row_keys)),
                ("sort keys", ", ".join(f"{f.name} {f.text}" for f in state.schema.sort_keys)),
                ("values", ", ".join(f"{f.name} {f.text}" for f in state.schema.values)),
                *((name.removeprefix("sleeper.table."), text) for name, text in done.items()),
                ("partitions", counted(len(state.tree.leaves), "leaf partition")),
                ("files", files),
                ("rows in files" if done else "rows", state.totals().rows),
                ("bytes", Bytes(size)),
                *offline,
                ("id", self._store.table_id),
                ("properties file", self._components.property_files.path(self._store.table_id)),
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
            **({"processing": done} if (done := self._done()) else {}),
        }

    @property
    def is_processed(self) -> bool:
        """Whether queries filter or combine rows, so that what they give is not what is in files."""
        return bool(self._done())

    @cached_property
    def _known(self) -> KnownAt:
        """What the system tables are made of, so that all that one statement names are of one moment."""
        return KnownAt(self._store, self.resolved, self.answering)

    def _waiting(self) -> tuple[str, ...]:
        """Return what the file of the properties says that the current version does not do; nothing of older ones."""
        if self.resolved.reference is not None:
            return ()
        files, table_id = self._components.property_files, self._store.table_id
        written = files.of_table(table_id)  # the file of now: this handle may be older than the last change
        return property_state.pending_settings(written, self.state, self.name, files.path(table_id))

    def _done(self) -> dict[str, str]:
        """Return the properties of the table's processing; as they are written, as they may be what is wrong."""
        return {name: text for name in PROCESSING_PROPERTIES if (text := self.answering.texts.get(name))}


@dataclass(frozen=True, slots=True, repr=False)
class Changes(Report):
    """The rows that one version of a table has and another does not, both ways, not read yet.

    Made by `Table.changes`. A row counts as often as it is there, and one whose values changed is removed and added.
    ``added`` and ``removed`` are the two kinds; ``rows()`` has both, each row with its kind. So the rows of `before`,
    without `removed` and with `added`, are the rows of `after`.

    Parameters
    ----------
    table
        The table's name.
    before, after
        The two versions.
    """

    table: str
    before: Resolved
    after: Resolved
    _comparison: VersionComparison
    _storage: Storage
    _guards: tuple[ReadGuard, ...]

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

        The column is ``change``; ``_change`` in a table that has such a column.
        """
        if limit is not None and limit < 0:
            raise InvalidInput(f"the limit {limit} is negative", hint="the limit is 0 or more")
        return ChangedRows(self, KINDS, limit)

    def count(self) -> RowCounts:
        """Return how many rows were added and removed, as a pair; by metadata alone where files tell."""
        with guarded(self._guards, "diff"):
            return changes.count_changes(self._comparison, self._storage)

    def grid(self) -> Grid:
        """Return the first rows of both kinds."""
        return self.rows().grid()

    def to_dict(self) -> dict[str, Any]:
        """Return all rows of each kind, a list of values per column."""
        return {kind: ChangedRows(self, (kind,)).to_dict() for kind in KINDS}

    @property
    def opened(self) -> str:
        """How many of the two versions' files are read to compare them."""
        return f"reads {cell_text(self._comparison.files)}/{cell_text(self._comparison.files_of)} files"

    @checked
    def batches(self, kinds: tuple[RowChangeKind, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one kind, or of both with a column that tells which; region by region, by keys in each."""
        with guarded(self._guards, "diff"):
            for change in changes.stream_changes(self._comparison, self._storage, kinds):
                if kinds == KINDS:
                    yield changes.labelled(change, self._column, self._comparison.after.sort_order)
                else:
                    yield change.added if kinds == ("added",) else change.removed

    @checked
    def schema(self, kinds: tuple[RowChangeKind, ...]) -> pa.Schema:
        """Return the columns of what `batches` yields."""
        plain = self._comparison.schema
        return changes.labelled_schema(plain, self._column) if kinds == KINDS else plain

    @property
    def _column(self) -> str:
        taken = {name.casefold() for name in self._comparison.newer.names}
        name = "change"
        while name in taken:
            name = f"_{name}"
        return name


@dataclass(frozen=True, slots=True, repr=False)
class ChangedRows(Report):
    """Rows that were added, that were removed, or both, not read yet; each call reads them anew.

    Made by `Changes`.
    """

    changes: Changes
    kinds: tuple[RowChangeKind, ...]
    limit: int | None = None
    display: Display = DEFAULT_DISPLAY

    def count(self) -> int:
        """Return the number of rows; from metadata alone where files tell."""
        found = self.changes.count()._asdict()
        count = sum(int(found[kind]) for kind in self.kinds)
        return count if self.limit is None else min(count, self.limit)

    @checked
    def head(self, rows: int = DEFAULT_DISPLAY.rows) -> pa.Table:
        """Return the first rows, in key order within each leaf; no more is compared than that takes."""
        return self._read(rows if self.limit is None else min(rows, self.limit))

    def to_arrow(self) -> pa.Table:
        """Read all rows into Arrow: leaf by leaf, in key order within each."""
        return self._read(self.limit)

    def to_pandas(self) -> pd.DataFrame:
        """Read all rows into pandas; integers with NULLs are its ``Int32`` and ``Int64``."""
        return as_pandas(self.to_arrow())

    def to_polars(self) -> pl.DataFrame:
        """Read all rows into Polars."""
        return as_polars(self.to_arrow())

    def grid(self) -> Grid:
        """Return the first rows, which versions they are between, and how many files are read to know."""
        kinds = " and ".join(self.kinds)
        footer = (
            f"{kinds} from {self.changes.before} to {self.changes.after} of {self.changes.table} · "
            f"{self.changes.opened}"
        )
        return preview(self.head(self.display.rows + 1), footer, limit=self.display.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return all rows, a list of values per column."""
        return as_dict(self.to_arrow())

    def _read(self, limit: int | None) -> pa.Table:
        found, left = [], limit
        if left != 0:
            for batch in self.changes.batches(self.kinds):
                given = batch.slice(0, left)
                found.append(given)
                left = None if left is None else left - given.num_rows
                if left == 0:
                    break
        return pa.Table.from_batches(found, self.changes.schema(self.kinds))
