"""One version of a table: what it holds, and scans of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sleeper_nb.admin import property_files as property_state
from sleeper_nb.arguments import checked
from sleeper_nb.catalog.catalog_base import FileClaim
from sleeper_nb.display.preview import preview
from sleeper_nb.engines.components import OpenTable
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.maintain import system_tables as definitions
from sleeper_nb.maintain.system_tables import KnownAt, rows_at
from sleeper_nb.model.expectations import COUNT
from sleeper_nb.model.partitions import PartitionTree, Region
from sleeper_nb.model.processing import PROCESSING_PROPERTIES, DataProcessing
from sleeper_nb.model.properties import EXPECT, EXPECT_ACTION, TableProperties
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.snapshots import Snapshot, VersionReference
from sleeper_nb.model.state import TableState
from sleeper_nb.progress import finishing
from sleeper_nb.query import DEFAULT_ENGINE, Queries, QueryResult
from sleeper_nb.read.predicate import (
    ALWAYS_TRUE,
    And,
    Condition,
    Predicate,
    Pruning,
    prune_regions,
)
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
    Grid,
    Listing,
    Report,
    Stacked,
    counted,
)
from sleeper_nb.sql.binding import BoundSource, metadata_lookup
from sleeper_nb.versions import resolve as versions
from sleeper_nb.versions.leases import ReadGuard
from sleeper_nb.versions.resolve import Resolved

if TYPE_CHECKING:
    from sleeper_nb.display.listings import Pictured
    from sleeper_nb.read.column_profile import ColumnProfile
    from sleeper_nb.read.export import ExportReport
    from sleeper_nb.scan import Scan

# What a method alone needs is imported in it: SQL reads a version without scans, pictures and compaction.
_CARD_ROWS = 10


class TableAt(Report):
    """One version of a table, to read.

    Made by `Table.at`. Each call reads the same version, whatever is committed meanwhile, with the filters, iterator
    and aggregations that the version records. Ages count at the moment of the call: no version shows a row that is too
    old by then.
    """

    def __init__(
        self,
        opened: OpenTable,
        resolved: Resolved,
        read_with: Snapshot | None = None,
        loaded: TableState | None = None,
    ) -> None:
        self.name, self.resolved, self.properties = opened.name, resolved, opened.properties
        self._opened, self._store = opened, opened.store
        self._loaded = loaded  # the state of the version, where it was loaded before
        self._read_with = read_with  # the snapshot whose schema the rows are read with; None for the version's own

    @property
    def state(self) -> TableState:
        """The partitions and file references of the version."""
        state = self._store.load(self.resolved.version) if self._loaded is None else self._loaded
        if self._read_with is None:
            return state
        from sleeper_nb.model.evolution import mapped

        return replace(state, schema=mapped(state.schema, self._store.load(self._read_with).schema))

    @checked
    def in_schema(self, which: Literal["own", "current"]) -> TableAt:
        """Return the version, read with its own schema or the current one; `InvalidInput` when it cannot be."""
        from sleeper_nb.model.evolution import mapped

        now = None if which == "own" else self._store.head()
        if now is not None:
            mapped(self.state.schema, self._store.load(now).schema)  # or raises
        return TableAt(self._opened, self.resolved, now)

    @property
    def inspect(self) -> Inspect:
        """Lists of what the version is made of."""
        return Inspect(self._opened, self.resolved, self._read_with)

    @property
    def schema(self) -> Schema:
        """The schema that the version is read with."""
        return self.state.schema

    @property
    def partition_tree(self) -> PartitionTree:
        """The partition tree of the version."""
        return self.state.tree

    @property
    def online(self) -> bool:
        """Whether maintenance may work on the table; offline, it can still be read and loaded."""
        from sleeper_nb.catalog.catalog_base import is_online

        return is_online(self._opened.components.catalog, self._store.table_id)

    @property
    def processing(self) -> DataProcessing:
        """The filters, iterator and aggregations that queries apply to the rows."""
        return self._processing(self.schema)

    @checked
    def at(self, asked: VersionReference | None) -> TableAt:
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
        state = self.state
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
        return replace(
            self._scan(state, planned, began), columns=chosen, where=where, limit=limit, _condition=condition
        )

    def _planner(
        self, state: TableState, regions: Sequence[Region] | None, condition: Condition | None
    ) -> Callable[[Predicate], ScanPlan]:
        processing, met = self._processing(state.schema), ALWAYS_TRUE if condition is None else condition.predicate
        regions = prune_regions(regions, met, state.schema)

        def planned(predicate: Predicate) -> ScanPlan:
            return plan_scan(state, regions, processing, Pruning.of(And((met, predicate)), state.schema))

        return planned

    def _scan(self, state: TableState, planned: Callable[[Predicate], ScanPlan], began: datetime) -> Scan:
        from sleeper_nb.read.arrow_dataset import dataset_of
        from sleeper_nb.scan import Scan

        components, plan, storage = self._opened.components, planned(ALWAYS_TRUE), self._store.storage
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

    @checked
    def profile(self, columns: Sequence[str] | None = None, where: str | None = None) -> Listing[ColumnProfile]:
        """Return what the values of each column are like: NULLs, distinct values, bounds, quartiles, a histogram.

        Parameters and errors as in `scan`. DuckDB reads the rows; distinct values are counted up to a million values of
        a column, and estimated above.
        """
        return self.scan(columns, where).profile()

    @checked
    def sql(self, statement: str, params: Mapping[str, Any] | None = None, *, row_places: bool = False) -> QueryResult:
        """Run a query over the version on DuckDB; it reads no table but this one, and this version without a clause.

        Parameters
        ----------
        statement
            One query, in DuckDB's SQL.
        params
            Values of ``:name`` in it, and of ``$name``.
        row_places
            Whether the rows have two more columns: ``"sleeper:file"``, the number of the data file among those of the
            plan of the result's source, and ``"sleeper:position"``, the place of the row in that file.

        Raises
        ------
        InvalidInput
            When the statement is no query, or processed rows are to have places.
        NotFound
            When it names another table, or a column that is not there.
        """
        if row_places and self.is_processed:
            raise InvalidInput(f"the rows of {self.name} are processed, so they have no places", hint="leave them out")

        def lookup(name: str, asked: VersionReference | None) -> BoundSource | None:
            if name.casefold() != self.name.casefold():
                return None
            return replace(self.at(asked).source(), with_places=row_places)

        components = self._opened.components
        queries = Queries(
            engine=DEFAULT_ENGINE,
            engines=components.engines,
            clock=components.clock,
            lookup=lookup,
            tables=lambda: (self.name,),
            parameters=params or {},
        )
        return queries.run(statement)

    @property
    def location(self) -> str:
        """The address of the folder of the table's data and metadata."""
        return self._store.storage.root

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

    def describe(self) -> Stacked:
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


def version_of(opened: OpenTable, asked: VersionReference | None) -> TableAt:
    """Return the version of an open table that a reference names; the current one for None."""
    return TableAt(opened, versions.resolve(opened.store.catalog, opened.entry.id, opened.name, asked))


def current_version(opened: OpenTable) -> TableAt:
    """Return the current version of an open table, looked up each time."""
    return TableAt(opened, Resolved(opened.store.head()))


class Inspect:
    """Lists what a version of a table is made of; made by `TableAt.inspect`."""

    def __init__(self, opened: OpenTable, resolved: Resolved, read_with: Snapshot | None) -> None:
        self._opened, self._resolved, self._read_with = opened, resolved, read_with

    def _at(self) -> TableAt:
        """Return a handle of its own: what one answer shows is of one moment, and of now."""
        return TableAt(self._opened, self._resolved, self._read_with)

    def fields(self) -> Listing[Field]:
        """Return the fields that the version is read with: their roles and types, and which may be null."""
        from sleeper_nb.display.listings import field_listing

        return field_listing(self._at())

    def files(self) -> Pictured[dict[str, Any]]:
        """Return the files that the version reads, below a picture of their keys and of what a compaction would merge.

        They are in the order of their partitions. What would be merged follows from the table's current properties.
        """
        store = self._opened.store
        return self._files(self._at(), store.catalog.claims(store.table_id, store.clock.now()))

    def _files(self, at: TableAt, claimed: Sequence[FileClaim]) -> Pictured[dict[str, Any]]:
        """Return the files of a version, given the current claims of compaction jobs."""
        from sleeper_nb.display.file_picture import FilesDrawn
        from sleeper_nb.display.listings import FileListing, Pictured
        from sleeper_nb.maintain.compaction_plan import StrategySettings, plan_compaction

        store, properties = self._opened.store, self._opened.properties
        strategy, most = properties["sleeper.table.compaction.strategy.class"], store.most_compaction_inputs
        plan = plan_compaction(at.state, strategy, StrategySettings.of(properties), claimed, store.clock, most)
        drawn = FilesDrawn.of(at, plan, strategy)
        return Pictured(FileListing.of(at), drawn.html(), drawn.text())

    def partitions(self) -> Pictured[dict[str, Any]]:
        """Return the leaf partitions with their regions, files and rows, below a picture of the tree."""
        from sleeper_nb.display.listings import Pictured, leaf_listing
        from sleeper_nb.display.partition_picture import partition_lines, partition_map

        at = self._at()
        return Pictured(leaf_listing(at), partition_map(at), partition_lines(at))

    @checked
    def query(self, sql: str, params: Mapping[str, Any] | None = None) -> Answer:
        """Query the metadata of the version on DuckDB, in its system tables; Spark is not started.

        They are called ``files``, ``partitions``, ``snapshots``, ``savepoints``, ``schemas``, ``properties`` and
        ``jobs``, or as in `Session.sql`: ``flights$files``. Another version can be named: ``files@3``. `params` are the
        values of ``:name``.
        """
        at = self._at()
        queries = Queries(
            engine=DEFAULT_ENGINE,
            engines=self._opened.components.engines,
            clock=self._opened.components.clock,
            lookup=metadata_lookup(at),
            tables=lambda: tuple(definitions.SYSTEM_TABLES),
            parameters=params or {},
        )
        return queries.run(sql).answer(f"metadata of {at.name} at {at.resolved}")
