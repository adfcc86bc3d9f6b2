"""`TableAt`: a table at one version, to read. `Table` adds what changes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sleeper_nb.components import Components
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.operations import sources
from sleeper_nb.operations.planning import plan_scan, regions_of
from sleeper_nb.operations.versions import Resolved
from sleeper_nb.report import Answer, Bytes, Data, Grid, Listing, Report
from sleeper_nb.scan import Scan
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.state_store.history import Metadata
from sleeper_nb.storage.metadata_files import partitions_table


class TableAt(Report):
    """One version of a table, to read.

    Made by `Table.at`. Each call reads the same version, whatever is committed meanwhile.
    """

    def __init__(self, name: str, resolved: Resolved, store: StateStore, components: Components) -> None:
        self.name, self.resolved = name, resolved
        self._store, self._components = store, components

    @property
    def state(self) -> TableState:
        """The partitions and file references of the version."""
        return self._store.load(self.resolved.version)

    @property
    def schema(self) -> Schema:
        """The schema that the version is read with."""
        return self.state.schema

    @property
    def partitions(self) -> PartitionTree:
        """The partition tree of the version."""
        return self.state.tree

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

        Parameters
        ----------
        columns
            The columns to read; all when None.
        where
            A condition in SQL: ``"dep_delay > 60"``.
        keys
            One key or a list of keys. A key is a value of the first row key, or a tuple of values of the first few.
        region
            For some row keys ``(min, max)``: min included, max excluded, None unbounded. Or as text:
            ``"carrier=[AA,DL) flight=[1,100]"``.
        limit
            At most so many rows.
        """
        state = self.state
        plan = plan_scan(state, regions_of(state.schema, keys, region))
        chosen = None if columns is None else tuple(columns)
        sources.check_columns(chosen, state.schema)
        return Scan(self.name, self.resolved, plan, self._store.storage, self._components.spark, chosen, where, limit)

    def files(self) -> Listing[dict[str, Any]]:
        """Return the files that the version reads, in the order of their partitions."""
        state = self.state
        place = {leaf.id: i for i, leaf in enumerate(state.tree.leaves)}
        rows = sorted(
            state.files.active.to_pylist(),
            key=lambda r: (place.get(r["partition_id"], -1), r["added_snapshot"], r["filename"]),
        )
        keys = [key.name for key in self.schema.row_keys]
        cells = tuple(
            (
                r["filename"].rpartition("/")[2],
                r["partition_id"],
                r["rows"],
                Bytes(r["bytes"]),
                r["added_snapshot"],
                *(Data(r[f"{end}_{key}"]) for key in keys for end in ("min", "max")),
            )
            for r in rows
        )
        columns = (
            "file",
            "partition",
            "rows",
            "bytes",
            "added",
            *(f"{end} {k}" for k in keys for end in ("min", "max")),
        )
        return Listing(tuple(rows), columns, cells, f"files of {self.name} at {self.resolved}")

    def leaves(self) -> Listing[dict[str, Any]]:
        """Return the leaf partitions with their regions, files and rows."""
        state = self.state
        items, cells = [], []
        for leaf in state.tree.leaves:
            files = state.files.active_in({leaf.id})
            rows, size = sum(f.rows for f in files), sum(f.bytes for f in files)
            region = leaf.region.text(state.schema)
            items.append({"partition_id": leaf.id, "region": region, "files": len(files), "rows": rows, "bytes": size})
            cells.append((region, leaf.id, len(files), rows, Bytes(size)))
        title = f"partitions of {self.name} at {self.resolved}"
        return Listing(tuple(items), ("keys", "partition", "files", "rows", "bytes"), tuple(cells), title)

    def inspect(self, sql: str) -> Answer:
        """Ask DuckDB about the metadata of the version: ``files``, ``partitions``, ``snapshots``, ``savepoints``.

        ``files`` and ``partitions`` are the Parquet files themselves; no Spark is started.
        """
        from sleeper_nb.engines.duckdb import inspection

        metadata = Metadata.of(self.resolved.version)
        files, partitions = metadata or (self.state.files.table, partitions_table(self.state.tree, self.state.schema))
        catalog, table_id = self._components.catalog, self._store.table_id
        return inspection.inspect(
            sql,
            self._store.storage,
            files,
            partitions,
            catalog.snapshots(table_id),
            catalog.savepoints(table_id),
            footer=f"metadata of {self.name} at {self.resolved}",
        )

    def grid(self) -> Grid:
        """Return what the version is, in a few lines."""
        state = self.state
        files, rows, size = state.totals()
        return Grid(
            ("", ""),
            (
                ("version", str(self.resolved)),
                ("row keys", ", ".join(f"{f.name} {f.text}" for f in state.schema.row_keys)),
                ("sort keys", ", ".join(f"{f.name} {f.text}" for f in state.schema.sort_keys)),
                ("values", ", ".join(f"{f.name} {f.text}" for f in state.schema.values)),
                ("partitions", f"{len(state.tree.leaves)} leaves"),
                ("files", files),
                ("rows", rows),
                ("bytes", Bytes(size)),
            ),
            title=f"table {self.name}",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the schema and the totals."""
        files, rows, size = self.state.totals()
        version = self.resolved.snapshot_id
        return {
            "table": self.name,
            "version": version,
            "files": files,
            "rows": rows,
            "bytes": size,
            **self.schema.to_dict(),
        }
