"""What the methods of a table that change rows stand for: a statement for each, with its parameters and rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.change.change import ChangeReport
from sleeper_nb.engines.components import OpenTable
from sleeper_nb.errors import Action, Hint, InvalidInput
from sleeper_nb.load.conform import (
    MISSING,
    Conversion,
    by_hand,
    by_new_value,
    by_statement,
    extra_notes,
    raise_first,
    row_number,
)
from sleeper_nb.load.data_columns import check_named_columns
from sleeper_nb.load.load_options import AS_IT_IS, LoadOptions
from sleeper_nb.load.row_checks import values_text
from sleeper_nb.load.source_files import SourceFile, hidden_note
from sleeper_nb.load.sources import opened_sources, read_source
from sleeper_nb.model.schema import Schema
from sleeper_nb.query import Engine, Queries
from sleeper_nb.read.scan_plan import regions_of
from sleeper_nb.report import counted
from sleeper_nb.sql.binding import lookup_in
from sleeper_nb.sql.tokens import Dialect
from sleeper_nb.sql.variables import Variables
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.table.changing import (
    AskSource,
    BoundRowStatement,
    RowStatement,
    SourceRows,
    change_of,
    hints_of_change,
)
from sleeper_nb.table.merge_builder import MergeBuilder
from sleeper_nb.table.row_statements import (
    NEW_ROWS,
    ParameterizedSql,
    StatementWriter,
    in_regions,
)
from sleeper_nb.table_at import TableAt
from sleeper_nb.versions.resolve import Resolved


@dataclass(frozen=True, slots=True)
class RowStatements:
    """Makes the changes that methods of a table are about, by a statement for each.

    Parameters
    ----------
    table, engine
        The table; the engine that finds rows.
    params, data
        Values of ``:name``, and what conditions may read by name.
    """

    table: OpenTable
    engine: Engine
    params: Mapping[str, Any] | None = None
    data: Mapping[str, Any] | None = None

    def delete(self, where: str | None) -> BoundRowStatement:
        """Return a deletion."""
        return self._change("delete", self._writer.delete(where))

    def update(self, updates: Mapping[str, str], new_values: Mapping[str, Any], where: str | None) -> BoundRowStatement:
        """Return an update."""
        statement = self._writer.update(updates, new_values, where, self.params or {})
        return self._change("update", statement.text, statement.parameters, conversion=by_new_value)

    def upsert(self, data: Any, on: Sequence[str] | None, options: LoadOptions = AS_IT_IS) -> BoundRowStatement:
        """Return an upsert."""
        columns, names = self._on(on), self.table.store.load().schema.names
        _check_same_columns(data, columns, None if options.matching.renames_columns else names)
        rows, extra = self._rows(data, options)
        statement = self._writer.upsert(columns, rows.column_names)
        _check_has_values(rows, columns)
        _check_each_once(rows, columns, self._on(None))
        return self._change("upsert", statement, data={NEW_ROWS: rows}, remarks=(_matched_by(columns), *extra))

    def merge(self, data: Any, on: Sequence[str] | None, predicate: str | None) -> MergeBuilder:
        """Return the builder of a merge."""
        if on is not None and predicate is not None:
            raise InvalidInput("a merge takes columns or a predicate, not both", hint="omit one of them")
        state = self.table.store.load()
        columns = self._on(on) if predicate is None else []
        _check_same_columns(data, columns)
        with hints_of_change(self.table.name, by_hand):
            (rows, left_out), writer = source_given(data, state.schema, self.table.store.storage), self._writer
        if predicate is None:
            match = writer.equal(columns, rows.column_names)
            _check_has_values(rows, columns)
        else:
            match = writer.expression(predicate, "a predicate")

        remarks = (*([_matched_by(columns)] if columns else []), *left_out)

        def run(text: str, *, dry_run: bool, force: bool, message: str | None, job_id: str | None) -> ChangeReport:
            change = self._change("merge", text, data={NEW_ROWS: rows}, remarks=remarks)
            return change.run(dry_run=dry_run, force=force, message=message, job_id=job_id)

        known = {name.casefold() for name in state.schema.names}
        return MergeBuilder(writer, run, match, [name for name in rows.column_names if name.casefold() in known])

    def overwrite(
        self,
        data: Any,
        where: str | None,
        keys: Any,
        region: Mapping[str, Any] | str | None,
        options: LoadOptions = AS_IT_IS,
    ) -> BoundRowStatement:
        """Return an overwrite."""
        schema = self.table.store.load().schema
        regions = regions_of(schema, keys, region)
        if regions is not None and where is not None:
            raise InvalidInput("overwrite takes a condition, or keys or a region", hint="omit one of them")
        part = ParameterizedSql(where) if where is not None else None
        if regions is not None:
            part = in_regions(regions, schema, self._dialect)
        statement = self._writer.overwrite(None if part is None else part.text)
        parameters = {} if part is None else part.parameters
        rows, extra = self._rows(data, options)
        new_rows = SourceRows(rows)
        return self._change("overwrite", statement, parameters, new_rows=lambda _: new_rows, remarks=extra)

    @property
    def _dialect(self) -> Dialect:
        return "spark" if self.engine == "spark" else "duckdb"

    @property
    def _writer(self) -> StatementWriter:
        return StatementWriter(self.table.name, self.table.store.load().schema, self._dialect)

    def _on(self, on: Sequence[str] | None) -> list[str]:
        """Return the columns by which rows match; row keys alone would make equal what differs in sort keys."""
        if on is not None and not on:
            raise InvalidInput("on names no column", hint="name the columns by which rows match, or omit it")
        if on is not None:
            return list(on)
        schema = self.table.store.load().schema
        return [key.name for key in schema.row_keys] if schema.unique_keys else list(schema.sort_order)

    def _rows(self, data: Any, options: LoadOptions) -> tuple[pa.Table, tuple[str, ...]]:
        """Return new rows in the types of the table: the columns that they have, under the table's names; and notes."""
        with hints_of_change(self.table.name, None):
            return rows_given(data, self.table.store.load().schema, self.table.store.storage, options)

    def _own(self, name: str) -> TableAt | None:
        is_own = name.casefold() == self.table.name.casefold()
        return TableAt(self.table, Resolved(self.table.store.head())) if is_own else None

    def _change(
        self,
        operation: str,
        text: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        data: Mapping[str, Any] | None = None,
        new_rows: AskSource | None = None,
        conversion: Conversion = by_statement,
        remarks: Sequence[str] = (),
    ) -> BoundRowStatement:
        queries = Queries(
            engine=self.engine,
            engines=self.table.components.engines,
            clock=self.table.components.clock,
            lookup=lookup_in(self._own),
            tables=lambda: (self.table.name,),
            parameters={**(self.params or {}), **(parameters or {})},
            data={**(self.data or {}), **(data or {})},
        )
        asked = RowStatement.of(text, queries, conversion)
        return change_of(self.table, operation, asked, new_rows, remarks)


def _matched_by(columns: Sequence[str]) -> str:
    return f"rows match by {', '.join(columns)}"


def rows_given(
    data: Any, schema: Schema, storage: Storage, options: LoadOptions = AS_IT_IS
) -> tuple[pa.Table, tuple[str, ...]]:
    """Return the rows of data frames, dictionaries or files, with those columns of a schema that they have; and notes.

    Raises
    ------
    InvalidInput
        When a value does not fit its column, a column is not one of the schema, or files have different columns.
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
        raise InvalidInput(
            f"{counted(count, 'new row')} have {values_text(row)}, but rows are matched by {', '.join(keys)}",
            hint=_hint_of_repeated(keys, [known.get(name.casefold()) for name in all_keys]),
        )


def _hint_of_repeated(keys: Sequence[str], all_keys: Sequence[str | None]) -> Hint:
    """Return what to do about new rows that match by the same values; none is given up if more keys tell them apart.

    Rows match by `keys`, and would by `all_keys` if none was named; None is for a key that they lack.
    """
    named = [name for name in all_keys if name is not None]
    if len(named) == len(all_keys) and not set(named) <= set(keys):
        return "leave out ", Action("--on", "on"), f": rows then match by all keys: {', '.join(named)}"
    return f"keep one of them, such as the newest: df.drop_duplicates({list(keys)}, keep='last')"
