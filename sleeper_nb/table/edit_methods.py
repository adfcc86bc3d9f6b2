"""What the methods of a table that change rows stand for: an edit as a value, with its parameters and rows.

`MergeBuilder` says clause by clause what a merge does, with the names that delta-rs gives the clauses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.arguments import checked
from sleeper_nb.edit.row_edit import (
    Assignment,
    DeleteRow,
    DeleteRows,
    DoNothing,
    InsertColumns,
    MergeAction,
    MergeRows,
    MergeSource,
    OverwriteRows,
    QualifiedColumn,
    ReplacedAll,
    ReplacedRegions,
    ReplacedWhere,
    RowEdit,
    RowKind,
    Target,
    UpdateColumns,
    UpdateRows,
    WhenClause,
)
from sleeper_nb.edit.row_editor import ChangeReport
from sleeper_nb.engines.components import OpenTable
from sleeper_nb.errors import Action, Hint, InvalidInput, NotFound
from sleeper_nb.load.conform import MISSING, extra_notes, raise_first, row_number
from sleeper_nb.load.data_columns import check_named_columns
from sleeper_nb.load.load_options import AS_IT_IS, LoadOptions
from sleeper_nb.load.row_checks import values_text
from sleeper_nb.load.source_files import SourceFile, hidden_note
from sleeper_nb.load.sources import opened_sources, read_source
from sleeper_nb.model.load_hints import Conversion
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import VersionReference
from sleeper_nb.model.sql_values import Dialect, Given, Name, Slice
from sleeper_nb.query import EngineName, Queries
from sleeper_nb.read.scan_plan import regions_of
from sleeper_nb.report import counted
from sleeper_nb.sql.binding import lookup_in
from sleeper_nb.sql.grammar import assignments_of, expression_of
from sleeper_nb.sql.row_statements import CLAUSE_WORDS, not_reached
from sleeper_nb.sql.variables import Variables
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.table.bound_edit import BoundEdit, hints_of_change
from sleeper_nb.table_at import TableAt, version_of

SOURCE_NAME, TARGET_NAME = "source", "target"
"""How expressions of a merge call the new rows, and the table."""


@dataclass(frozen=True, slots=True)
class EditMethods:
    """Makes the changes that the methods of a table are about.

    `params` are the values of ``:name``, and `data` is what conditions may read by name.
    """

    table: OpenTable
    engine: EngineName
    params: Mapping[str, Any] | None = None
    data: Mapping[str, Any] | None = None

    def delete(self, where: str | None) -> BoundEdit:
        return self._bound("delete", DeleteRows(self._target, self._condition(where)))

    def update(self, updates: Mapping[str, str], new_values: Mapping[str, Any], where: str | None) -> BoundEdit:
        _check_one_value_each(updates, new_values)
        assigned = assignments_of(updates, self._queries.dialect)
        assigned += tuple(Assignment(Name(name), Given(value)) for name, value in new_values.items())
        change = UpdateRows(self._target, assigned, self._condition(where))
        return self._bound("update", change, conversion="new value")

    def upsert(self, data: Any, on: Sequence[str] | None, options: LoadOptions = AS_IT_IS) -> BoundEdit:
        schema = self.table.store.load().schema
        columns = _on(on, schema)
        _check_same_columns(data, columns, None if options.matching.renames_columns else schema.names)
        rows, extra = self._rows(data, schema, options)
        keys = self._equal(columns, rows, schema)
        _check_has_values(rows, columns)
        _check_each_once(rows, columns, _on(None, schema))
        given = [Assignment(Name(each), QualifiedColumn(SOURCE_NAME, each)) for each in rows.column_names]
        named = {key.text for key in keys}
        changed = tuple(each for each in given if each.column.text not in named)
        clauses = (
            WhenClause("matched", None, UpdateColumns(changed) if changed else DoNothing()),
            WhenClause("not matched", None, InsertColumns(tuple(given))),
        )
        merge = MergeRows(self._merged, _new_source(rows), None, keys, clauses)
        return self._bound("upsert", merge, (_matched_by(columns), *extra))

    def merge(self, data: Any, on: Sequence[str] | None, predicate: str | None) -> MergeBuilder:
        if on is not None and predicate is not None:
            raise InvalidInput("a merge takes columns or a predicate, not both", hint="omit one of them")
        schema = self.table.store.load().schema
        columns = _on(on, schema) if predicate is None else []
        _check_same_columns(data, columns)
        with hints_of_change(self.table.name, "new rows"):
            rows, left_out = source_given(data, schema, self.table.store.storage)
        if predicate is None:
            match, keys = None, self._equal(columns, rows, schema)
            _check_has_values(rows, columns)
        else:
            match, keys = expression_of(predicate, "a predicate", self._queries.dialect), ()
        remarks = (*([_matched_by(columns)] if columns else []), *left_out)
        merge = self._bound("merge", MergeRows(self._merged, _new_source(rows), match, keys, ()), remarks)
        known = {name.casefold() for name in schema.names}
        return MergeBuilder(merge, tuple(name for name in rows.column_names if name.casefold() in known))

    def overwrite(
        self,
        data: Any,
        where: str | None,
        keys: Any,
        region: Mapping[str, Any] | str | None,
        options: LoadOptions = AS_IT_IS,
    ) -> BoundEdit:
        schema = self.table.store.load().schema
        regions, condition = regions_of(schema, keys, region), self._condition(where)
        if regions is not None and condition is not None:
            raise InvalidInput("overwrite takes a condition, or keys or a region", hint="omit one of them")
        replaced = ReplacedAll() if condition is None else ReplacedWhere(condition)
        rows, extra = self._rows(data, schema, options)
        part = replaced if regions is None else ReplacedRegions(tuple(regions))
        return self._bound("overwrite", OverwriteRows(self._target, rows, part), extra)

    @property
    def _target(self) -> Target:
        return Target(Name(self.table.name))

    @property
    def _merged(self) -> Target:
        return Target(Name(self.table.name), Name(TARGET_NAME))

    def _condition(self, where: str | None) -> Slice | None:
        return None if where is None else expression_of(where, "a condition", self._queries.dialect)

    def _equal(self, on: Sequence[str], rows: pa.Table, schema: Schema) -> tuple[Name, ...]:
        """Return the columns on which a row of the table and a new row are equal; raise where either lacks one."""
        keys = [self._own(name, schema) for name in on]
        given = {name.casefold() for name in rows.column_names}
        missing = next((key for key in keys if key.casefold() not in given), None)
        if missing is not None:
            left = [key for key in keys if key.casefold() in given]
            others = Action(f"--on {','.join(left) or 'a,b'}", f"on={left or ['a', 'b']!r}")
            hint = ("add the column, or name the columns by which rows match: ", others)
            raise InvalidInput(f"the rows have no column {missing!r}, by which they are matched", hint=hint)
        return tuple(map(Name, keys))

    def _own(self, name: str, schema: Schema) -> str:
        found = next((each for each in schema.names if each.casefold() == name.casefold()), None)
        if found is None:
            raise NotFound.of("column", name, schema.names, where=f" of table {self.table.name!r}")
        return found

    def _rows(self, data: Any, schema: Schema, options: LoadOptions) -> tuple[pa.Table, tuple[str, ...]]:
        """Return new rows in the types of the table: the columns that they have, under the table's names; and notes."""
        with hints_of_change(self.table.name, None):
            return rows_given(data, schema, self.table.store.storage, options)

    def _version_of(self, name: str, asked: VersionReference | None) -> TableAt | None:
        is_own = name.casefold() == self.table.name.casefold()
        return version_of(self.table, asked) if is_own else None

    def _bound(
        self, operation: str, change: RowEdit, remarks: Sequence[str] = (), conversion: Conversion = "statement"
    ) -> BoundEdit:
        return BoundEdit(self.table, operation, change, self._queries, tuple(remarks), conversion)

    @property
    def _queries(self) -> Queries:
        return Queries(
            engine=self.engine,
            engines=self.table.components.engines,
            clock=self.table.components.clock,
            lookup=lookup_in(self._version_of),
            tables=lambda: (self.table.name,),
            parameters=self.params or {},
            data=self.data or {},
            home=self.table.store.storage,
        )


def _new_source(rows: pa.Table) -> MergeSource:
    return MergeSource(rows, Name(SOURCE_NAME))


def _on(on: Sequence[str] | None, schema: Schema) -> list[str]:
    """Return the columns by which rows match; row keys alone would make equal what differs in sort keys."""
    if on is not None and not on:
        raise InvalidInput("on names no column", hint="name the columns by which rows match, or omit it")
    if on is not None:
        return list(on)
    return [key.name for key in schema.row_keys] if schema.unique_keys else list(schema.sort_order)


def _check_one_value_each(updates: Mapping[str, Any], new_values: Mapping[str, Any]) -> None:
    """Raise when an update sets no column, or one twice, or by something that is no text of SQL."""
    if not updates and not new_values:
        example = Action('--set "fare = fare * 1.1"', "updates={'fare': 'fare * 1.1'}, or new_values={'fare': 9.5}")
        raise InvalidInput("update sets no column", hint=("add ", example))
    if twice := sorted(updates.keys() & new_values.keys()):
        raise InvalidInput(
            f"column {twice[0]!r} gets two values",
            hint=("name it once: ", Action("--set or --value", "in updates or in new_values")),
        )
    wrong = next((name for name, value in updates.items() if not isinstance(value, str)), None)
    if wrong is not None:
        hint = f"new_values={{{wrong!r}: {updates[wrong]!r}}} sets a Python value"
        raise InvalidInput(f"the new value of {wrong!r} in updates is no SQL", hint=hint)


def _matched_by(columns: Sequence[str]) -> str:
    return f"rows match by {', '.join(columns)}"


def rows_given(
    data: Any, schema: Schema, storage: Storage, options: LoadOptions = AS_IT_IS
) -> tuple[pa.Table, tuple[str, ...]]:
    """Return the rows of data frames, dictionaries or files, with those columns of a schema that they have; and notes.

    Raises when a value does not fit its column, a column is not one of the schema, or files have different columns.
    """
    if _is_nothing(data):
        return schema.arrow.empty_table(), ()
    variable, matching = Variables({"data": data}).find("data"), options.matching
    with opened_sources(data if variable is None else variable.to_arrow(), storage, options) as sources:
        check_named_columns(sources, matching, schema)
        read = [read_source(source, schema, matching) for source in sources]
        hidden = hidden_note(source for source in sources if isinstance(source, SourceFile))
    different = [each for part in read for each in part.differences if each.kind != MISSING]
    if not any(part.rows for part in read):  # of no rows, neither types nor missing columns matter
        raise_first([each for each in different if each.column not in schema.names])
        return schema.arrow.empty_table(), ()
    raise_first(different)
    tables = [pa.table({name: part.columns[name] for name in schema.names if name in part.columns}) for part in read]
    if any(each.column_names != tables[0].column_names for each in tables):
        raise InvalidInput("the files have different columns", hint="give files with different columns one at a time")
    left_out = dict.fromkeys(name for part in read for name in part.left_out)
    return pa.concat_tables(tables), (*extra_notes(tuple(left_out)), *filter(None, [hidden]))


def source_given(data: Any, schema: Schema, storage: Storage) -> tuple[pa.Table, tuple[str, ...]]:
    """Return the rows of a merge's source, also columns that the table lacks, such as the kind of a change; and notes.

    Files have the columns of the table.
    """
    if _is_nothing(data):
        return schema.arrow.empty_table(), ()
    variable = Variables({"data": data}).find("data")
    if variable is not None:
        return variable.to_arrow(), ()
    if isinstance(data, list) and data and all(isinstance(each, dict) for each in data):
        return pa.Table.from_pylist(data), ()
    return rows_given(data, schema, storage)


def _is_nothing(data: Any) -> bool:
    """Return whether a data frame has neither rows nor columns; its columns are then no columns of the table."""
    return getattr(data, "shape", None) == (0, 0)


def _check_same_columns(data: Any, keys: Sequence[str], columns: Collection[str] | None = None) -> None:
    """Raise when some dictionaries lack a column of others: NULL would replace the value that such a row has.

    `keys` are the columns by which rows match, for the message; `columns` are those that count, all when None.
    """
    if not isinstance(data, list):
        return
    if not all(isinstance(each, dict) for each in data):
        for part in data:
            _check_same_columns(part, keys, columns)
        return
    names = dict.fromkeys(name for row in data for name in row if columns is None or name in columns)
    lacking = next(((at, row, name) for at, row in enumerate(data) for name in names if name not in row), None)
    if lacking is None:
        return
    at, row, name = lacking
    known = {str(each).casefold(): value for each, value in row.items()}
    key = values_text({each: known[each.casefold()] for each in keys if each.casefold() in known})
    raise InvalidInput(
        f"{row_number(at)}{f' ({key})' if key else ''} has no {name!r}, which other rows have",
        hint="give each row the value: None for NULL; or change the rows that have it and the others in two calls",
    )


def _check_has_values(rows: pa.Table, columns: Sequence[str]) -> None:
    """Raise when a value by which rows match is null: it is equal to nothing, so each run would insert the row."""
    known = {name.casefold(): name for name in rows.column_names}
    for name in columns:
        nulls = rows[known[name.casefold()]].null_count if name.casefold() in known else 0
        if nulls:
            raise InvalidInput(
                f"{counted(nulls, 'row')} without a value in {name!r}, by which rows match",
                hint="drop them, or fill in the values",
            )


def _check_each_once(rows: pa.Table, columns: Sequence[str], all_keys: Sequence[str]) -> None:
    """Raise when two new rows match by the same values: both would be inserted, and the next run could update neither.

    Nested values are not compared here. Rows match by `columns`, and would by `all_keys` if the caller named none.
    """
    known = {name.casefold(): name for name in rows.column_names}
    keys = [known[name.casefold()] for name in columns if name.casefold() in known]
    if len(keys) < len(columns) or any(pa.types.is_nested(rows.schema.field(name).type) for name in keys):
        return  # the statement itself names a column that is missing
    times = rows.group_by(keys).aggregate([([], "count_all")])
    again = times.filter(pc.greater(times["count_all"], 1))
    if again.num_rows:
        (row,) = again.slice(0, 1).to_pylist()
        count = row.pop("count_all")
        hint: Hint = f"keep one of them, such as the newest: df.drop_duplicates({keys}, keep='last')"
        if not {name.casefold() for name in all_keys} <= {name.casefold() for name in keys}:  # none has to go
            hint = "leave out ", Action("--on", "on"), f": rows then match by all keys: {', '.join(all_keys)}"
        problem = f"{counted(count, 'new row')} have {values_text(row)}, but rows are matched by {', '.join(keys)}"
        raise InvalidInput(problem, hint=hint)


# The builder of a merge.


@dataclass(frozen=True, slots=True, repr=False)
class MergeBuilder:
    """A merge of rows into a table; nothing runs before `execute`.

    Made by `Table.merge`. Each call returns a new builder with one more clause. In expressions, ``source.a`` is a
    column of the new rows and ``target.a`` one of the table. The first clause of its kind that a row meets counts.

    Parameters
    ----------
    source_columns
        The columns of the new rows that the table has.
    """

    _bound: BoundEdit
    source_columns: tuple[str, ...]

    def __repr__(self) -> str:
        head = f"merge into {self._bound.table.name}, not run yet: {counted(len(self._merge.clauses), 'clause')}"
        lines = [f"  {_text(clause)}" for clause in self._merge.clauses]
        return "\n".join([head, *lines, ".execute() runs it; .execute(dry_run=True) counts rows"])

    @checked
    def when_matched_update(self, updates: Mapping[str, str], predicate: str | None = None) -> MergeBuilder:
        """Update rows that match: `updates` has an expression of SQL for each column, such as ``"source.fare"``."""
        return self._with("matched", predicate, UpdateColumns(self._assigned(updates)))

    @checked
    def when_matched_update_all(self, predicate: str | None = None, except_cols: Sequence[str] = ()) -> MergeBuilder:
        """Update all columns of rows that match from the source's columns of the same names, but for some."""
        return self._with("matched", predicate, UpdateColumns(self._all(except_cols)))

    @checked
    def when_matched_delete(self, predicate: str | None = None) -> MergeBuilder:
        """Delete rows that match."""
        return self._with("matched", predicate, DeleteRow())

    @checked
    def when_not_matched_insert(self, updates: Mapping[str, str], predicate: str | None = None) -> MergeBuilder:
        """Insert rows of the source that match none: `updates` has an expression for each column."""
        return self._with("not matched", predicate, InsertColumns(self._assigned(updates)))

    @checked
    def when_not_matched_insert_all(
        self, predicate: str | None = None, except_cols: Sequence[str] = ()
    ) -> MergeBuilder:
        """Insert rows of the source that match none, with all their columns but for some."""
        return self._with("not matched", predicate, InsertColumns(self._all(except_cols)))

    @checked
    def when_not_matched_by_source_update(
        self, updates: Mapping[str, str], predicate: str | None = None
    ) -> MergeBuilder:
        """Update rows of the table that match no row of the source; this reads the whole table."""
        return self._with("not matched by source", predicate, UpdateColumns(self._assigned(updates)))

    @checked
    def when_not_matched_by_source_delete(self, predicate: str | None = None) -> MergeBuilder:
        """Delete rows of the table that match no row of the source; this reads the whole table."""
        return self._with("not matched by source", predicate, DeleteRow())

    @checked
    def execute(
        self, *, dry_run: bool = False, force: bool = False, message: str | None = None, job_id: str | None = None
    ) -> ChangeReport:
        """Run the merge in one commit, or return what it would do; parameters and errors as of `Table.upsert`.

        Where no condition names a column of the table and all its rows would be deleted, `force` confirms it.
        """
        if not self._merge.clauses:
            hint = "add .when_matched_update_all(), .when_not_matched_insert_all() or another clause"
            raise InvalidInput("the merge has no clause", hint=hint)
        return self._bound.run(dry_run=dry_run, force=force, message=message, job_id=job_id)

    @property
    def _merge(self) -> MergeRows:
        assert isinstance(self._bound.change, MergeRows)  # noqa: S101 - `Table.merge` made it
        return self._bound.change

    @property
    def _dialect(self) -> Dialect:
        return self._bound.queries.dialect

    def _with(self, kind: RowKind, predicate: str | None, action: MergeAction) -> MergeBuilder:
        condition = None if predicate is None else expression_of(predicate, "a predicate", self._dialect)
        clauses = (*self._merge.clauses, WhenClause(kind, condition, action))
        if error := not_reached(clauses):
            raise error
        return replace(self, _bound=replace(self._bound, change=replace(self._merge, clauses=clauses)))

    def _all(self, except_cols: Sequence[str]) -> tuple[Assignment, ...]:
        left = {name.casefold() for name in except_cols}
        chosen = [name for name in self.source_columns if name.casefold() not in left]
        return _some(tuple(Assignment(Name(name), QualifiedColumn(SOURCE_NAME, name)) for name in chosen))

    def _assigned(self, updates: Mapping[str, str]) -> tuple[Assignment, ...]:
        return _some(assignments_of(updates, self._dialect))


def _some(assignments: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
    if not assignments:
        raise InvalidInput("the clause sets no column", hint='give an expression for each: {"fare": "source.fare"}')
    return assignments


def _text(clause: WhenClause) -> str:
    """Return a clause for people: what it does to which columns."""
    condition = "" if clause.condition is None else f" AND ({clause.condition})"
    begin = f"{CLAUSE_WORDS[clause.kind]}{condition} THEN"
    if not isinstance(clause.action, UpdateColumns | InsertColumns):
        return f"{begin} DELETE"
    columns = ", ".join(each.column.text for each in clause.action.assignments)
    return f"{begin} {'UPDATE' if isinstance(clause.action, UpdateColumns) else 'INSERT'} {columns}"
