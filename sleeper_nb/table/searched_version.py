"""The version of a table on which a change of its rows is computed: an engine answers queries about it."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from sleeper_nb.engines.components import OpenTable
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.load.conform import RawColumns, compare, raise_first, row_number
from sleeper_nb.load.row_checks import opened_checks
from sleeper_nb.model.deletions import FILE_NUMBER, POSITION
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import VersionReference
from sleeper_nb.model.state import TableState
from sleeper_nb.query.queries import Queries
from sleeper_nb.query.result import QueryResult
from sleeper_nb.read.scan_plan import TableRows, plan_scan
from sleeper_nb.sql.binding import BoundSource
from sleeper_nb.sql.found_rows import ACTION, SOURCE_ROW, TARGET
from sleeper_nb.sql.statement import Composition
from sleeper_nb.table_at import TableAt
from sleeper_nb.versions.resolve import Resolved

_MOST_WATCHED: Final = 64
"""So many regions of a change are remembered one by one."""
_TYPES: Final = {FILE_NUMBER: pa.int32(), POSITION: pa.int64(), ACTION: pa.int32(), SOURCE_ROW: pa.int64()}

Place = Callable[[int], str]
"""Names a row in errors."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundRows:
    """The answer of a query about the rows of a table.

    Parameters
    ----------
    rows
        The answer.
    filenames
        The data files that `FILE_NUMBER` counts.
    watched
        The regions in which rows were looked for.
    """

    rows: pa.Table
    filenames: Sequence[str]
    watched: tuple[Region, ...]


@dataclass(frozen=True, eq=False)
class SearchedVersion:
    """The version of a table on which a change of its rows is computed.

    Parameters
    ----------
    table, state
        The table, and the version.
    of_change
        Runs the queries of the change.
    searched
        The rows that are looked for, when they are others than the version's: those of a purge.
    """

    table: OpenTable
    state: TableState
    of_change: Queries
    searched: TableState | None = None

    @property
    def schema(self) -> Schema:
        return self._rows.schema

    @property
    def filenames(self) -> Sequence[str]:
        """All data files, as a scan of all rows counts them."""
        return plan_scan(self._rows).filenames

    @property
    def _rows(self) -> TableState:
        return self.state if self.searched is None else self.searched

    def fitted(self, rows: pa.Table, place: Place = row_number) -> pa.Table:
        """Return rows as the table has them; raise for a value that does not fit, naming its row, and a broken rule."""
        schema = self.state.schema
        fit = compare(RawColumns.of(rows, place), schema).table(schema)
        with opened_checks(self.table.load_checks(schema)) as checks:
            raise_first(tuple(checks.differences(fit, place)))
        return fit

    def queries(self, rows: Mapping[str, pa.Table] = MappingProxyType({})) -> Queries:
        """Return what runs queries that read this version of the table, and some rows by name."""
        queries, own = self.of_change, self._source

        def found(name: str, version: VersionReference | None) -> BoundSource | None:
            if name in rows:
                return None
            if name == TARGET:
                if self.searched is None:
                    return replace(own, with_places=True)
                return replace(own, rows=TableRows(self.searched), reader=None, with_places=True)
            has_name = name.casefold() == self.table.name.casefold()
            if has_name and self.searched is not None:
                # after the deletion it would be answered otherwise, and mean other rows of older versions
                hint = "read the values first, and name them in the condition: k IN (1, 2)"
                raise InvalidInput(f"the condition of a purge cannot read table {name!r} itself", hint=hint)
            return own if has_name and version is None else queries.lookup(name, version)

        return replace(queries, lookup=found, data=ChainMap({**rows}, queries.data))  # type: ignore[arg-type]  # only read

    @cached_property
    def _source(self) -> BoundSource:
        store, number = self.table.store, self.state.snapshot_id
        snapshot = store.catalog.snapshot(store.table_id, number)
        if snapshot is None:
            raise NotFound(f"snapshot {number} of table {self.table.name!r} expired meanwhile", hint="run it again")
        return TableAt(self.table, Resolved(snapshot), loaded=self.state).source()

    def check_unprocessed(self) -> None:
        """Raise `InvalidInput` when queries show rows of the version that have no place of their own."""
        rows = self._source.rows
        if isinstance(rows, TableRows) and not rows.processing.is_nothing:
            raise InvalidInput(
                f"rows of table {self.table.name!r} cannot be changed: queries show what is left after "
                f"{rows.processing}",
                hint="load rows that change others, or copy the table: CREATE TABLE … AS SELECT",
            )

    def read_in(self, source: BoundSource) -> TableRows | None:
        """Return what a source of a query reads of this version; None when it is another version or table."""
        rows = source.rows
        if not isinstance(rows, TableRows) or source.table != self.table.name:
            return None
        return rows if rows.state.snapshot_id == self.state.snapshot_id else None

    def watched_in(self, sources: Iterable[BoundSource]) -> tuple[Region, ...]:
        """Return where sources of a query read this version: what others add there changes the answer."""
        found = [_watched(rows) for each in sources if (rows := self.read_in(each)) is not None]
        return tuple(dict.fromkeys(region for regions in found for region in regions))

    def unread(self, query: Composition, rows: Mapping[str, pa.Table]) -> QueryResult:
        """Return the result of a query about some rows by name, also of the table that is changed."""
        return replace(self.queries(rows), dry_run=True).run(query)

    def answered(self, query: Composition, rows: Mapping[str, pa.Table]) -> FoundRows:
        """Answer a query about the rows of the version."""
        result = self.queries(rows).run(query)
        answer = result.to_arrow()
        for name in set(_TYPES) & set(answer.column_names):
            at = answer.column_names.index(name)
            answer = answer.set_column(at, name, answer[name].cast(_TYPES[name]))
        target = next((each for each in result.sources if each.with_places), None)
        filenames = () if target is None or target.plan is None else target.plan.filenames
        return FoundRows(answer, filenames, self.watched_in(result.sources))


def _watched(rows: TableRows) -> tuple[Region, ...]:
    """Return where rows were looked for: rows that others add there may be ones that the change is about."""
    regions = rows.pruning.regions
    if regions is None:
        return (Region.whole(rows.state.schema),)
    if len(regions) > _MOST_WATCHED:
        leaves = {leaf.id: leaf.region for region in regions for leaf in rows.state.tree.leaves_in(region)}
        regions = tuple(leaves.values())
    return tuple(regions) if len(regions) <= _MOST_WATCHED else (Region.whole(rows.state.schema),)
