"""`TableAt`: a table at one version, to read. `Table` adds what changes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from sleeper_nb.arguments import checked
from sleeper_nb.catalog.base import Assignment
from sleeper_nb.cells import Bytes
from sleeper_nb.components import Components
from sleeper_nb.errors import InvalidInput
from sleeper_nb.listings import FileListing, field_listing, leaf_listing
from sleeper_nb.lookup import metadata_lookup
from sleeper_nb.model.evolution import mapped
from sleeper_nb.model.partitions import PartitionTree, Region
from sleeper_nb.model.processing import PROCESSING_PROPERTIES, DataProcessing
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.snapshots import Snapshot, VersionReference
from sleeper_nb.model.state import TableState
from sleeper_nb.operations.administration import property_state
from sleeper_nb.operations.compacting.job_plan import plan_compaction
from sleeper_nb.operations.compacting.strategies import StrategySettings
from sleeper_nb.operations.loading import sources
from sleeper_nb.operations.scanning.conditions import regions_of_rows
from sleeper_nb.operations.scanning.exporting import ExportReport
from sleeper_nb.operations.scanning.first_rows import plan_first_rows
from sleeper_nb.operations.scanning.planning import ScanPlan, files_of, plan_scan, regions_of
from sleeper_nb.operations.system_tables import definitions
from sleeper_nb.operations.system_tables.reading import KnownAt, rows_at
from sleeper_nb.operations.upkeep.online import is_online
from sleeper_nb.operations.versioning import versions
from sleeper_nb.operations.versioning.leases import ReadGuard
from sleeper_nb.operations.versioning.versions import Resolved
from sleeper_nb.preview import preview
from sleeper_nb.query import run_query
from sleeper_nb.render import Pictured, partition_lines, partition_map
from sleeper_nb.render_files import FilesDrawn
from sleeper_nb.report import Answer, Grid, Listing, Report, Stacked, counted
from sleeper_nb.scan import Scan
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.statement import Source

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
        is_old, leases = self.resolved.asked is not None, self._components.leases
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

    def source(self) -> Source:
        """Return the rows of the version as SQL reads them."""
        plan = self.plan()
        return Source(self.name, self.resolved, plan, self._store.storage, self.guard(plan.bytes))

    @checked
    def system_table(self, suffix: str) -> Source:
        """Return the rows of a system table at the version: ``files``, ``savepoints`` …, in any case.

        Raises
        ------
        NotFound
            When there is no such system table, naming the nearest.
        """
        found = definitions.system_table(suffix, self.name)
        rows = rows_at(found, self._known)
        return Source(f"{self.name}{definitions.MARK}{found.name}", self.resolved, rows, self._store.storage)

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
        if self.resolved.asked is not None:
            return ()
        files, table_id = self._components.property_files, self._store.table_id
        written = files.of_table(table_id)  # the file of now: this handle may be older than the last change
        return property_state.waiting(written, self.state, self.name, files.path(table_id))

    def _done(self) -> dict[str, str]:
        """Return the properties of the table's processing; as they are written, as they may be what is wrong."""
        return {name: text for name in PROCESSING_PROPERTIES if (text := self.answering.texts.get(name))}
