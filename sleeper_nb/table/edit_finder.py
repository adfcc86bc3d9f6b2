"""Make the edit list of an edit of rows: ask an engine for places and values, check them, count.

The engine decides which rows meet a condition and what a value is. Here is decided what follows: which clause of a
merge counts, which rows go and come, and what is refused. Nothing is written.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.edit.edit_list import EditList
from sleeper_nb.edit.row_edit import (
    SOURCE,
    Assignment,
    DeleteRow,
    DeleteRows,
    DoNothing,
    Expression,
    InsertAll,
    InsertColumns,
    MergeRows,
    OverwriteRows,
    QualifiedColumn,
    ReplacedAll,
    ReplacedByColumns,
    ReplacedRegions,
    ReplacedWhere,
    RowEdit,
    Target,
    UpdateAll,
    UpdateColumns,
    UpdateRows,
    WhenClause,
)
from sleeper_nb.engines.components import OpenTable
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.load.conform import RawColumns, compare, no_place, raise_first, row_number
from sleeper_nb.load.json_files import columns_of_objects
from sleeper_nb.load.load_options import EXACT
from sleeper_nb.load.row_checks import opened_checks, values_text
from sleeper_nb.model.deletions import FILE_NUMBER, POSITION
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import VersionReference
from sleeper_nb.model.sql_values import Given, Name, Slice
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import EditCounts
from sleeper_nb.query.queries import Queries
from sleeper_nb.read.live_rows import Positions
from sleeper_nb.read.scan_plan import TableRows, plan_scan
from sleeper_nb.report import counted, values_of
from sleeper_nb.sql.binding import BoundSource
from sleeper_nb.sql.found_rows import (
    ACTION,
    MATCHED,
    RESULT,
    SOURCE_ROW,
    TARGET,
    MergeQueries,
    Row,
    check_no_whole_rows,
    conditions_by_tables,
    deleted_rows,
    key_column,
    new_rows_outside,
    query_of_conditions,
    rows_equal_to_new,
    rows_in_regions,
    updated_rows,
    value_column,
)
from sleeper_nb.sql.grammar import E, is_plainly_condition, placed
from sleeper_nb.sql.statement import Composition
from sleeper_nb.table_at import TableAt
from sleeper_nb.versions.resolve import Resolved

_Mask = npt.NDArray[np.bool_]
_LONGEST = 40
"""A condition up to so many characters is repeated in a hint."""
_FILE_BITS = 40
"""A place as one number has the file above so many bits of the position."""
_MOST_WATCHED: Final = 64
"""So many regions of a change are remembered one by one."""
_TYPES: Final = {FILE_NUMBER: pa.int32(), POSITION: pa.int64(), ACTION: pa.int32(), SOURCE_ROW: pa.int64()}

Place = Callable[[int], str]
"""Names a row in errors."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundRows:
    """The answer of a query about rows, the data files that `FILE_NUMBER` counts, and the regions searched."""

    rows: pa.Table
    filenames: Sequence[str]
    watched: tuple[Region, ...]


@dataclass(frozen=True, eq=False)
class SearchedVersion:
    """The version of a table on which a change of its rows is computed; `of_change` runs queries about it.

    `searched` has the rows that are looked for, when they are others than the version's: those of a purge.
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


@dataclass(frozen=True, eq=False)
class EditFinder:
    """Finds what a change is about in one version.

    `source` has the rows of a merge's source, numbered in `SOURCE_ROW`; of an overwrite, the new rows as they fit the
    table.
    """

    change: RowEdit
    version: SearchedVersion
    source: pa.Table

    def find(self) -> EditList:
        """Return what changes; raise for a name that is no column, a whole row, or a value that does not fit."""
        check_no_whole_rows(self.change, self.schema.names)
        if self.version.of_change.asked.takes_any_condition and self.version.searched is None:
            self._check_are_conditions()
        match self.change:
            case DeleteRows() as delete:
                found = self.version.answered(deleted_rows(delete), {})
                removed = _by_file(found.rows, found.filenames)
                counts = EditCounts(deleted=found.rows.num_rows)
                return EditList(removed, self._no_rows, counts, found.watched)
            case UpdateRows() as update:
                return self._updated(update)
            case MergeRows() as merge:
                return self._merged(merge)
            case OverwriteRows() as overwrite:
                return self._overwritten(overwrite)

    def _check_are_conditions(self) -> None:
        """Raise for a condition that is a number, a text or another value, before any row is read.

        DuckDB takes numbers for true or false, so ``DELETE FROM t WHERE id`` would delete every row whose id is not 0.
        Its binder tells the type of an expression over tables without rows, where its operators do not. Spark refuses
        such conditions itself.
        """
        empty = {TARGET: self._no_rows, SOURCE: self.source.slice(0, 0)}
        for asked in conditions_by_tables(self.change):
            conditions, _ = asked
            if all(map(is_plainly_condition, conditions)):
                continue
            unread = replace(self.version.queries(empty), dry_run=True)
            kinds = unread.run(query_of_conditions(self.change.named_queries, asked)).kinds
            if len(kinds) != len(conditions):  # COLUMNS(*) of DuckDB, which it refuses where one condition is expected
                continue
            for condition, kind in zip(conditions, kinds, strict=True):
                if what := self.version.of_change.asked.why_no_condition(kind):
                    raise placed(_no_condition(condition, what), condition.written, condition.at)

    @cached_property
    def schema(self) -> Schema:
        return self.version.schema

    @property
    def _no_rows(self) -> pa.Table:
        return self.schema.arrow.empty_table()

    def _placed(self, error: E, at: int) -> E:
        return error if self.change.written is None else placed(error, self.change.written, at)

    # UPDATE

    def _updated(self, update: UpdateRows) -> EditList:
        assigned = self._assigned(update.assignments, update.target)
        row = self._whole_row(assigned, update.target)
        found = self.version.answered(updated_rows(update, row, self._keys), {})
        given = found.rows.drop_columns([FILE_NUMBER, POSITION, *map(key_column, self._keys)])
        if given.column_names != [*row]:  # COLUMNS(*) of DuckDB
            raise InvalidInput("a value of SET is several columns", hint="write one value for each column")
        for name, value in assigned.items():
            if isinstance(value, Given):
                given = given.append_column(name, self._repeated(name, value, found.rows.num_rows))
        rows = self.version.fitted(given, self._place_of(found.rows))
        counts = EditCounts(updated=found.rows.num_rows)
        return EditList(_by_file(found.rows, found.filenames), rows, counts, found.watched)

    def _repeated(self, name: str, value: Given, rows: int) -> pa.ChunkedArray:
        """Return a Python value for each row; raise where a load would refuse it."""
        read = columns_of_objects([(1, {name: value.value})], self.schema, EXACT, "value", null_hint=None)
        raise_first([*read.differences, *(each.described(read.place(each.row)) for each in read.bad)])
        return read.columns[name].take(pa.array(np.zeros(rows, np.int64)))

    def _assigned(self, assignments: Iterable[Assignment], target: Target | None) -> dict[str, Expression | None]:
        """Return the new value of each assigned column, by its name in the table; None for its default.

        The columns may be qualified by the target's name, if there is a target.
        """
        assigned: dict[str, Expression | None] = {}
        for each in assignments:
            name = each.column if target is None else target.own(each.column, self.schema.names)
            self._check_not_of_struct(name)
            column = self._column(name)
            if column in assigned:
                twice = InvalidInput(f"column {each.column.text!r} gets two values", hint="name each column once")
                raise self._placed(twice, each.column.at)
            if each.value is None:
                self._check_has_default(column, each.column.at)
            assigned[column] = each.value
        return assigned

    def _check_has_default(self, column: str, at: int) -> None:
        field = next(each for each in self.schema.fields if each.name == column)
        if field.default is None and not field.nullable:
            none = InvalidInput(f"column {column!r} has no default, and cannot be NULL", hint="write its value")
            raise self._placed(none, at)

    def _whole_row(self, assigned: Mapping[str, Expression | None], target: Target) -> dict[str, Expression]:
        """Return the values of an updated row that the engine computes: new ones, and those that stay."""
        stays = {each: QualifiedColumn(target.name, each) for each in self.schema.names if each not in assigned}
        computed = {name: each for name, each in assigned.items() if isinstance(each, Slice | QualifiedColumn)}
        return {**stays, **computed}

    def _check_not_of_struct(self, name: Name) -> None:
        """Raise when a name is that of a field of a struct."""
        first, dot, rest = name.text.partition(".")
        structs = (field for field in self.schema.fields if field.type.name == "struct")
        struct = next((each for each in structs if each.name.casefold() == first.casefold()), None)
        if dot and struct is not None and name.text.casefold() not in map(str.casefold, self.schema.names):
            fields = ", ".join(member.name for member in struct.type.arguments)
            hint = f"set all of {struct.name!r}, whose fields are {fields}"
            raise self._placed(
                InvalidInput(f"field {rest!r} of {struct.name!r} cannot be set alone", hint=hint), name.at
            )

    def _column(self, name: Name) -> str:
        column = next((each for each in self.schema.names if each.casefold() == name.text.casefold()), None)
        if column is not None:
            return column
        missing = NotFound.of("column", name.text, self.schema.names, where=f" of table {self.version.table.name!r}")
        raise self._placed(missing, name.at)

    @property
    def _keys(self) -> list[str]:
        return [field.name for field in self.schema.row_keys]

    def _place_of(self, rows: pa.Table) -> Place:
        """Return what names a row by its key, which users know; nothing does where a part of the key is not known."""
        names = {key: key_column(key) if key_column(key) in rows.column_names else key for key in self._keys}
        if not set(names.values()) <= set(rows.column_names):
            return no_place
        columns = {key: rows[name] for key, name in names.items()}
        return lambda at: (
            f"row {values_text({name: values_of(each[at : at + 1])[0] for name, each in columns.items()})}"
        )

    # MERGE

    def _merged(self, merge: MergeRows) -> EditList:
        rows = self._rows_of_clauses(merge)
        queries = MergeQueries(merge, rows, self._keys)
        pairs = self._results(queries.matches(), {SOURCE: self.source})
        acting = _acting(pairs.rows, merge.clauses)
        deletes = _in_clauses(acting, merge.clauses, DeleteRow)
        self._check_unambiguous(acting, deletes)
        gone = [_distinct_places(acting.filter(pa.array(deletes))), acting.filter(pa.array(~deletes))]
        new, deleted = [self._new_rows(gone[1], rows)], gone[0].num_rows
        removed = _merged_places([_by_file(each, pairs.filenames) for each in gone])
        inserted = self._inserted(rows, queries, pairs.rows)
        updated, watched = gone[1].num_rows, pairs.watched
        if merge.of_kind("not matched by source"):
            others = self._others(queries, pairs)
            watched += others.watched
            acting = _acting(others.rows, merge.clauses)
            deletes = _in_clauses(acting, merge.clauses, DeleteRow)
            kept = acting.filter(pa.array(~deletes))
            new.append(self._new_rows(kept, rows))
            deleted, updated = deleted + int(deletes.sum()), updated + kept.num_rows
            removed = _merged_places([removed, _by_file(acting, others.filenames)])
        counts = EditCounts(inserted.num_rows, updated, deleted)
        everything = pa.concat_tables([*new, inserted])
        several, matched = _repeated(gone[1]), pc.count_distinct(pairs.rows[SOURCE_ROW]).as_py()
        return EditList(
            removed, everything, counts, watched, self.source.num_rows, with_several=several, matched=matched
        )

    def _results(self, query: Composition, rows: Mapping[str, pa.Table]) -> FoundRows:
        """Return the answer of a query of a merge, with a column for each part of its results."""
        found = self.version.answered(query, rows)
        if RESULT not in found.rows.column_names:
            return found
        result, answer = found.rows[RESULT], found.rows.drop_columns([RESULT])
        for at, field in enumerate(result.type):
            column = pc.struct_field(result, [at])
            answer = answer.append_column(field.name, column.cast(pa.int32()) if field.name == ACTION else column)
        return replace(found, rows=answer)

    def _rows_of_clauses(self, merge: MergeRows) -> dict[int, Row]:
        """Return the new row of each clause that makes one; a column that gets its default is left out."""
        found: dict[int, Row] = {}
        for at, clause in enumerate(merge.clauses):
            match clause.action:
                case UpdateColumns(assignments):
                    found[at] = self._whole_row(self._assigned(assignments, merge.target), merge.target)
                case InsertColumns(assignments):
                    assigned = self._assigned(assignments, None)
                    found[at] = {name: value for name, value in assigned.items() if value is not None}
                case UpdateAll() | InsertAll():
                    found[at] = self._all_from_source(merge, clause)
        return found

    def _all_from_source(self, merge: MergeRows, clause: WhenClause) -> Row:
        known = {name.casefold(): name for name in self.source.column_names}
        values: dict[str, Expression] = {}
        for name in self.schema.names:
            if name.casefold() not in known:
                hint = "name the columns that the source has: UPDATE SET a = s.a, INSERT (a, b) VALUES (s.a, s.b)"
                missing = InvalidInput(f"the source has no column {name!r}, which * needs", hint=hint)
                raise self._placed(missing, clause.at)
            values[name] = QualifiedColumn(merge.source.alias, known[name.casefold()])
        return values

    def _check_unambiguous(self, acting: pa.Table, deletes: _Mask) -> None:
        """Raise when several source rows change the same row; several that delete it mean the same."""
        places = _numbers(acting)
        order = np.argsort(places, kind="stable")
        again = np.flatnonzero(places[order][1:] == places[order][:-1])
        wrong = [at for at in again.tolist() if not (deletes[order[at]] and deletes[order[at + 1]])]
        if not wrong:
            return
        row = acting.slice(int(order[wrong[0]]), 1).to_pylist()[0]
        key = {name: row[key_column(name)] for name in self._keys}
        keys = self._keys if self.schema.unique_keys else self.schema.sort_order
        raise InvalidInput(
            f"several rows of the source match the row of table {self.version.table.name!r} with {values_text(key)}",
            hint=f"match rows by all keys, {', '.join(keys)}; or keep one row of the source for each row of the table, "
            "such as the newest: QUALIFY row_number() OVER (PARTITION BY the keys ORDER BY the time DESC) = 1",
        )

    def _new_rows(self, found: pa.Table, rows: Mapping[int, Row]) -> pa.Table:
        """Return the rows that clauses make of those that they found, as they fit the table."""
        parts = []
        for at, row in rows.items():
            part = found.filter(pc.equal(found[ACTION], at))
            if part.num_rows:
                new = pa.table({name: part[value_column(at, name)] for name in row})
                has_keys = key_column(self._keys[0]) in part.column_names
                parts.append(self.version.fitted(new, self._place_of(part if has_keys else new)))
        return pa.concat_tables(parts) if parts else self._no_rows

    def _inserted(self, rows: Mapping[int, Row], queries: MergeQueries, pairs: pa.Table) -> pa.Table:
        """Return the rows to insert for rows of the source that match none."""
        matched = pc.is_in(self.source[SOURCE_ROW], value_set=pairs[SOURCE_ROW].combine_chunks())
        left = self.source.filter(pc.invert(matched))
        if not left.num_rows or not any(queries.merge.clauses[at].kind == "not matched" for at in rows):
            return self._no_rows
        return self._new_rows(self._results(queries.inserts(), {SOURCE: left}).rows, rows)

    def _others(self, queries: MergeQueries, pairs: FoundRows) -> FoundRows:
        """Return the rows of the table that match no row of the source, with the action for each."""
        # the pairs were looked for in fewer files, perhaps, so theirs have other numbers
        counted_here = {name: number for number, name in enumerate(self.version.filenames)}
        numbers = np.array([counted_here[name] for name in pairs.filenames], np.int32)
        places = _distinct_places(pairs.rows).select([FILE_NUMBER, POSITION])
        files = numbers[places[FILE_NUMBER].to_numpy()] if places.num_rows else numbers[:0]
        return self._results(
            queries.others(), {MATCHED: places.set_column(0, FILE_NUMBER, pa.array(files, pa.int32()))}
        )

    # INSERT OVERWRITE and INSERT … REPLACE

    def _overwritten(self, change: OverwriteRows) -> EditList:
        target = change.target
        match change.replaced:
            case ReplacedAll():
                found = self.version.answered(deleted_rows(DeleteRows(target, None)), {})
            case ReplacedRegions(regions) as replaced:
                self._check_inside(change, replaced)
                found = self.version.answered(rows_in_regions(target.name, regions, self.schema), {})
            case ReplacedWhere(condition) as replaced:
                self._check_inside(change, replaced)
                found = self.version.answered(deleted_rows(DeleteRows(target, condition, change.named_queries)), {})
            case ReplacedByColumns(names):
                columns = [self._column(name) for name in names]
                self._check_not_null(columns)
                found = self.version.answered(rows_equal_to_new(target.name, columns), {SOURCE: self.source})
        counts = EditCounts(inserted=self.source.num_rows, deleted=found.rows.num_rows)
        removed = _by_file(found.rows, found.filenames)
        return EditList(removed, self.source, counts, found.watched, self.source.num_rows)

    def _check_inside(self, change: OverwriteRows, replaced: ReplacedWhere | ReplacedRegions) -> None:
        """Raise when a new row is not in the part that is replaced: the next run would add it."""
        query = new_rows_outside(replaced, change.target.name, change.named_queries, self.schema)
        outside = self.version.answered(query, {SOURCE: self.source}).rows
        if outside.num_rows:
            row = outside.slice(0, 1).to_pylist()[0]
            problem = f"{counted(outside.num_rows, 'new row')} outside of the part that is replaced"
            error = InvalidInput(problem, hint=f"such as {values_text(row)}; give only rows that meet its condition")
            if isinstance(replaced, ReplacedWhere):
                placed(error, replaced.condition.written, replaced.condition.at)
            raise error

    def _check_not_null(self, columns: Sequence[str]) -> None:
        for name in columns:
            if self.source[name].null_count:
                raise InvalidInput(
                    f"{counted(self.source[name].null_count, 'new row')} with NULL in {name!r} of REPLACE USING",
                    hint="NULL is equal to nothing: select only rows that have a value",
                )


def _no_condition(condition: Slice, kind: str) -> InvalidInput:
    is_short = len(condition.text) <= _LONGEST and "\n" not in condition.text
    hint = f"compare it: {condition.text} = …" if is_short else "compare it with a value: … = 5"
    return InvalidInput(f"the condition is a value of type {kind}, not true or false", hint=hint)


def _numbers(rows: pa.Table) -> npt.NDArray[np.int64]:
    files, positions = (rows[name].to_numpy().astype(np.int64) for name in (FILE_NUMBER, POSITION))
    numbers: npt.NDArray[np.int64] = (files << _FILE_BITS) | positions
    return numbers


def _distinct_places(rows: pa.Table) -> pa.Table:
    _, first = np.unique(_numbers(rows), return_index=True)
    return rows.take(pa.array(np.sort(first)))


def _repeated(pairs: pa.Table) -> int:
    """Return how many rows of a source are in several pairs."""
    _, times = np.unique(pairs[SOURCE_ROW].to_numpy(), return_counts=True)
    return int((times > 1).sum())


def _acting(rows: pa.Table, clauses: Sequence[WhenClause]) -> pa.Table:
    """Return the rows that meet a clause which changes them."""
    idle = [at for at, clause in enumerate(clauses) if isinstance(clause.action, DoNothing)]
    acts = pc.and_(pc.is_valid(rows[ACTION]), pc.invert(pc.is_in(rows[ACTION], pa.array(idle, pa.int32()))))
    return rows.filter(acts)


def _in_clauses(rows: pa.Table, clauses: Sequence[WhenClause], kind: type) -> _Mask:
    """Return for each row whether its clause has an action of a kind."""
    numbers = [at for at, clause in enumerate(clauses) if isinstance(clause.action, kind)]
    mask: _Mask = np.isin(rows[ACTION].to_numpy(), numbers)
    return mask


def _by_file(rows: pa.Table, filenames: Sequence[str]) -> dict[str, Positions]:
    """Return the positions of rows, by data file."""
    numbers = np.sort(_numbers(rows))
    files = numbers >> _FILE_BITS
    starts = np.flatnonzero(np.diff(files, prepend=-1))
    positions = numbers & ((1 << _FILE_BITS) - 1)
    return (
        {
            filenames[int(files[start])]: part
            for start, part in zip(starts, np.split(positions, starts[1:]), strict=True)
            if len(part)
        }
        if len(numbers)
        else {}
    )


def _merged_places(parts: Sequence[Mapping[str, Positions]]) -> dict[str, Positions]:
    """Return the positions of several edit lists, none of which is in two of them."""
    merged: dict[str, Positions] = {}
    for part in parts:
        for name, positions in part.items():
            known = merged.get(name)
            merged[name] = positions if known is None else np.union1d(known, positions)
    return merged
