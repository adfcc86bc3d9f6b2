"""Make the edit list of an edit of rows: ask an engine for places and values, check them, count.

The engine decides which rows meet a condition and what a value is. Here is decided what follows: which clause of a
merge counts, which rows go and come, and what is refused. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

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
    ReplacedAll,
    ReplacedByColumns,
    ReplacedRegions,
    ReplacedWhere,
    RowEdit,
    SourceColumn,
    Target,
    UpdateAll,
    UpdateColumns,
    UpdateRows,
    WhenClause,
)
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.load.conform import no_place
from sleeper_nb.load.row_checks import values_text
from sleeper_nb.model.deletions import FILE_NUMBER, POSITION
from sleeper_nb.model.schema import Member, Schema
from sleeper_nb.model.sql_values import Given, Name, Slice
from sleeper_nb.model.transactions import EditCounts
from sleeper_nb.read.live_rows import Positions
from sleeper_nb.report import counted, values_of
from sleeper_nb.sql.dialects import RULES
from sleeper_nb.sql.expressions import check_no_whole_rows, is_plainly_condition, names_in
from sleeper_nb.sql.found_rows import (
    ACTION,
    MATCHED,
    RESULT,
    SOURCE_ROW,
    TARGET,
    MergeQueries,
    Value,
    Values,
    conditions_by_tables,
    deleted_rows,
    new_rows_outside,
    old_column,
    query_of_conditions,
    rows_equal_to_new,
    rows_in_regions,
    updated_rows,
    value_column,
)
from sleeper_nb.sql.grammar import E, placed
from sleeper_nb.sql.statement import Composition, GivenMap
from sleeper_nb.table.searched_version import FoundRows, Place, SearchedVersion

_Mask = npt.NDArray[np.bool_]
_LONGEST = 40
"""A condition up to so many characters is repeated in a hint."""
_FILE_BITS = 40
"""A place as one number has the file above so many bits of the position."""


@dataclass(frozen=True, eq=False)
class EditFinder:
    """Finds what a change is about in one version.

    Parameters
    ----------
    change, version
        The change, and the version of the table.
    source
        The rows of a merge's source, numbered in `SOURCE_ROW`; of an overwrite, the new rows as they fit the table; of
        another change, none.
    """

    change: RowEdit
    version: SearchedVersion
    source: pa.Table

    def find(self) -> EditList:
        """Return what changes.

        Raises
        ------
        InvalidInput, NotFound
            When the statement names no column, or a row as a whole; several source rows change one row, or a new value
            does not fit.
        """
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
            kinds = self.version.unread(query_of_conditions(self.change.named_queries, asked), empty).kinds
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
        values = {name: value for name, value in assigned.items() if value is not None}
        others = [name for name in self.schema.names if name not in assigned]
        found = self.version.answered(updated_rows(update, values, others), {})
        given = found.rows.drop_columns([FILE_NUMBER, POSITION])
        if given.column_names != [*values, *others]:  # COLUMNS(*) of DuckDB
            raise InvalidInput("a value of SET is several columns", hint="write one value for each column")
        rows = self.version.fitted(self._with_defaults(given, assigned), self._place_of(given.select(others)))
        counts = EditCounts(updated=found.rows.num_rows)
        return EditList(_by_file(found.rows, found.filenames), rows, counts, found.watched)

    def _assigned(self, assignments: Iterable[Assignment], target: Target | None) -> dict[str, Value | None]:
        """Return the new value of each assigned column, by its name in the table; None for its default.

        The columns may be qualified by the target's name, if there is a target.
        """
        assigned: dict[str, Value | None] = {}
        for each in assignments:
            name = each.column if target is None else target.own(each.column, self.schema.names)
            self._check_not_of_struct(name, target)
            column = self._column(name)
            if column in assigned:
                twice = InvalidInput(f"column {each.column.text!r} gets two values", hint="name each column once")
                raise self._placed(twice, each.column.at)
            assigned[column] = self._as_map(column, each.value)
        return assigned

    def _as_map(self, column: str, value: Expression | None) -> Value | None:
        """Return the value of a column, a Python value of a map as one."""
        if not isinstance(value, Given) or not isinstance(value.value, dict | list):
            return value
        kind = next(field.type.name for field in self.schema.fields if field.name == column)
        pairs = list(value.value.items() if isinstance(value.value, dict) else value.value)
        is_map = kind == "map" and pairs and all(isinstance(each, list | tuple) and len(each) == 2 for each in pairs)
        return GivenMap(tuple((key, item) for key, item in pairs)) if is_map else value

    def _check_not_of_struct(self, name: Name, target: Target | None) -> None:
        """Raise when a name is that of a field of a struct, and say how the whole struct is assigned."""
        first, dot, rest = name.text.partition(".")
        structs = (field for field in self.schema.fields if field.type.name == "struct")
        struct = next((each for each in structs if each.name.casefold() == first.casefold()), None)
        if not dot or struct is None or name.text.casefold() in map(str.casefold, self.schema.names):
            return
        members: Sequence[Member] = struct.type.arguments
        changed = rest.partition(".")[0].casefold()
        values = {member.name: "…" if target is None or member.name.casefold() == changed
                  else f"{target.name}.{struct.name}.{member.name}" for member in members}  # fmt: skip
        written = self.change.written
        dialect = self.version.of_change.dialect if written is None else written.dialect
        whole = RULES[dialect].struct(values)
        problem = f"field {rest!r} of {struct.name!r} cannot be set alone"
        alone = InvalidInput(problem, hint=f"set all of {struct.name!r}: {struct.name} = {whole}")
        raise self._placed(alone, name.at)

    def _column(self, name: Name) -> str:
        column = next((each for each in self.schema.names if each.casefold() == name.text.casefold()), None)
        if column is not None:
            return column
        missing = NotFound.of("column", name.text, self.schema.names, where=f" of table {self.version.table.name!r}")
        raise self._placed(missing, name.at)

    def _place_of(self, rows: pa.Table) -> Place:
        """Return what names a row by its key, which users know; nothing does where a part of the key is not known."""
        keys = [field.name for field in self.schema.row_keys]
        if not set(keys) <= set(rows.column_names):
            return no_place
        columns = {name: rows[name] for name in keys}
        return lambda at: (
            f"row {values_text({name: values_of(each[at : at + 1])[0] for name, each in columns.items()})}"
        )

    def _with_defaults(self, rows: pa.Table, assigned: Mapping[str, Value | None]) -> pa.Table:
        """Return rows with the columns that are set to their defaults."""
        fields = {field.name: field for field in self.schema.fields}
        for name, value in assigned.items():
            if value is None:
                kind = fields[name].type.arrow
                default = pa.scalar(fields[name].default, kind)
                rows = rows.append_column(name, pa.repeat(default, rows.num_rows))
        return rows

    # MERGE

    def _merged(self, merge: MergeRows) -> EditList:
        keys = [key.name for key in self.schema.row_keys]
        queries = MergeQueries(merge, self._values_of_clauses(merge), self.schema.names, keys)
        pairs = self._results(queries.matches(), {SOURCE: self.source})
        acting = _acting(pairs.rows, merge.clauses)
        deletes = _in_clauses(acting, merge.clauses, DeleteRow)
        self._check_unambiguous(acting, deletes, merge)
        gone = [_distinct_places(acting.filter(pa.array(deletes))), acting.filter(pa.array(~deletes))]
        rows, deleted = [self._new_values(gone[1], merge, queries)], gone[0].num_rows
        removed = _merged_places([_by_file(each, pairs.filenames) for each in gone])
        inserted = self._inserted(merge, queries, pairs.rows)
        updated, watched = gone[1].num_rows, pairs.watched
        if any(clause.kind == "not matched by source" for clause in merge.clauses):
            others = self._others(queries, pairs)
            watched += others.watched
            acting = _acting(others.rows, merge.clauses)
            deletes = _in_clauses(acting, merge.clauses, DeleteRow)
            kept = acting.filter(pa.array(~deletes))
            rows.append(self._new_values(kept, merge, queries))
            deleted, updated = deleted + int(deletes.sum()), updated + kept.num_rows
            removed = _merged_places([removed, _by_file(acting, others.filenames)])
        counts = EditCounts(inserted.num_rows, updated, deleted)
        everything = pa.concat_tables([*rows, inserted])
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

    def _values_of_clauses(self, merge: MergeRows) -> dict[int, Values]:
        """Return the values that each clause gives to columns; those set to a default are left out."""
        found: dict[int, Values] = {}
        for at, clause in enumerate(merge.clauses):
            match clause.action:
                case UpdateColumns(assignments):
                    assigned = self._assigned(assignments, merge.target)
                case InsertColumns(assignments):
                    assigned = self._assigned(assignments, None)
                case UpdateAll() | InsertAll():
                    found[at] = self._all_from_source(merge, clause)
                    continue
                case _:
                    continue
            found[at] = {name: value for name, value in assigned.items() if value is not None}
        return found

    def _all_from_source(self, merge: MergeRows, clause: WhenClause) -> Values:
        known = {name.casefold(): name for name in self.source.column_names}
        values: dict[str, Value] = {}
        for name in self.schema.names:
            if name.casefold() not in known:
                hint = "name the columns that the source has: UPDATE SET a = s.a, INSERT (a, b) VALUES (s.a, s.b)"
                missing = InvalidInput(f"the source has no column {name!r}, which * needs", hint=hint)
                raise self._placed(missing, clause.at)
            values[name] = SourceColumn(merge.source.alias, known[name.casefold()])
        return values

    def _check_unambiguous(self, acting: pa.Table, deletes: _Mask, merge: MergeRows) -> None:
        """Raise when several source rows change the same row; several that delete it mean the same."""
        places = _numbers(acting)
        order = np.argsort(places, kind="stable")
        again = np.flatnonzero(places[order][1:] == places[order][:-1])
        wrong = [at for at in again.tolist() if not (deletes[order[at]] and deletes[order[at + 1]])]
        if not wrong:
            return
        row = acting.slice(int(order[wrong[0]]), 1).to_pylist()[0]
        key = {field.name: row[old_column(field.name)] for field in self.schema.row_keys}
        raise InvalidInput(
            f"several rows of the source match the row of table {self.version.table.name!r} with {values_text(key)}",
            hint=self._by_all_keys(merge)
            or "keep one row of the source for each row of the table, such as the newest: "
            "QUALIFY row_number() OVER (PARTITION BY the keys ORDER BY the time DESC) = 1",
        )

    def _by_all_keys(self, merge: MergeRows) -> str:
        """Return the hint to match by all keys; "" if the statement names all of them, or the source lacks one."""
        keys = [key.name for key in self.schema.row_keys] if self.schema.unique_keys else list(self.schema.sort_order)
        named = {name.text.casefold() for name in merge.using}
        if merge.condition is not None:
            named |= names_in(merge.condition)
        known = {name.casefold(): name for name in self.source.column_names}
        if {key.casefold() for key in keys} <= named or not all(key.casefold() in known for key in keys):
            return ""
        equal = (f"{merge.target.name}.{key} = {merge.source.alias}.{known[key.casefold()]}" for key in keys)
        return f"match rows by all keys: ON {' AND '.join(equal)}"

    def _new_values(self, rows: pa.Table, merge: MergeRows, queries: MergeQueries) -> pa.Table:
        """Return updated rows with their new values, by the clause that each meets."""
        parts = []
        for at, clause in enumerate(merge.clauses):
            if not isinstance(clause.action, UpdateColumns | UpdateAll):
                continue
            part = rows.filter(pc.equal(rows[ACTION], at))
            if not part.num_rows or part.column_names.count(ACTION) == 0:
                continue
            values = queries.values.get(at, {})
            columns = {name: part[value_column(at, name) if name in values else old_column(name)]
                       for name in self.schema.names}  # fmt: skip
            if isinstance(clause.action, UpdateColumns):
                columns = self._defaults_of(clause.action, merge.target, columns, part.num_rows)
            old = {name: part[old_column(name)] for name in self.schema.names if old_column(name) in part.column_names}
            parts.append(self.version.fitted(pa.table(columns), self._place_of(pa.table(old))))
        return pa.concat_tables(parts) if parts else self._no_rows

    def _defaults_of(
        self, action: UpdateColumns, target: Target, columns: dict[str, pa.ChunkedArray], rows: int
    ) -> dict[str, pa.ChunkedArray]:
        """Return columns with the defaults of those that are set to them."""
        assigned = self._assigned(action.assignments, target)
        empty = self._with_defaults(pa.table({SOURCE_ROW: pa.nulls(rows)}), assigned).drop_columns([SOURCE_ROW])
        return columns | {name: empty[name] for name in empty.column_names}

    def _inserted(self, merge: MergeRows, queries: MergeQueries, pairs: pa.Table) -> pa.Table:
        """Return the rows to insert for rows of the source that match none."""
        if not any(isinstance(clause.action, InsertColumns | InsertAll) for clause in merge.clauses):
            return self._no_rows
        matched = pc.is_in(self.source[SOURCE_ROW], value_set=pairs[SOURCE_ROW].combine_chunks())
        left = self.source.filter(pc.invert(matched))
        if not left.num_rows:
            return self._no_rows
        found = self._results(queries.inserts(), {SOURCE: left}).rows
        parts = []
        for at, clause in enumerate(merge.clauses):
            if isinstance(clause.action, InsertColumns | InsertAll):
                part = found.filter(pc.equal(found[ACTION], at))
                values = queries.values[at]
                rows = pa.table({name: part[value_column(at, name)] for name in values})
                parts += [self.version.fitted(rows, self._place_of(rows))] if part.num_rows else []
        return pa.concat_tables(parts) if parts else self._no_rows

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
