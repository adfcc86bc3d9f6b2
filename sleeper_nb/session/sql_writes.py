"""Run a statement that changes the warehouse: its query on an engine, and its change through the public methods.

A statement does what a method of `Session` or `Table` does, with the same checks, confirmation and answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sleeper_nb.edit.row_edit import (
    DeleteRows,
    InsertRows,
    MergeRows,
    OverwriteRows,
    RowEdit,
    UpdateRows,
)
from sleeper_nb.engines.frames_to_load import schema_of_frame
from sleeper_nb.errors import Action, AlreadyExists, Hint, InvalidInput, NoDryRun, NotFound
from sleeper_nb.load.data_columns import DataColumn, SchemaChoice, columns_of_arrow
from sleeper_nb.load.load_report import IngestPlan, LoadReport
from sleeper_nb.load.sources import InMemory
from sleeper_nb.maintain.system_tables import MARK
from sleeper_nb.model.evolution import (
    AddCheck,
    DropCheck,
    DropColumn,
    RenameColumn,
    SchemaAlteration,
    SetComment,
    SetDefault,
    SetNotNull,
    SetUniqueKeys,
    WidenColumn,
    additions,
    in_order,
)
from sleeper_nb.model.load_hints import for_change
from sleeper_nb.model.schema import Check, Field, FieldType, Schema, free_check_name, parse_type
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.sql_values import Name, QueryPart
from sleeper_nb.model.table_names import check_table_name
from sleeper_nb.query import Queries, QueryResult, RowsToLoad
from sleeper_nb.query.inserted_rows import check_twice, found, inserted_rows
from sleeper_nb.report import Answer, Grid, Report, Stacked, TableReport, counted, notes_line
from sleeper_nb.session import procedures
from sleeper_nb.session.table_opener import opener_of
from sleeper_nb.sql.grammar import Constant, Parameter, placed
from sleeper_nb.sql.parameters import plain_value, unknown_parameter
from sleeper_nb.sql.references import check_takes_no_notes
from sleeper_nb.sql.statement import SqlText, Statement
from sleeper_nb.sql.table_statements import (
    AlterClause,
    AlterTable,
    ColumnDefinition,
    CreateTable,
    NewTableName,
    SetProperties,
)
from sleeper_nb.sql.writes import (
    CallProcedure,
    CommentOn,
    DescribeHistory,
    DropTable,
    TruncateTable,
    WritingStatement,
)
from sleeper_nb.table import Table, configuring
from sleeper_nb.table.bound_edit import BoundEdit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from sleeper_nb.engines.components import OpenTable
    from sleeper_nb.session.session import Session


@dataclass(frozen=True, slots=True, repr=False)
class InsertedRows(TableReport):
    """What an INSERT did: how many rows it added, what its query read and on which engine.

    The snapshot has the rows; without rows, it is the current one.
    """

    table: str
    rows: int
    snapshot: Snapshot
    reads: str
    note: str = ""

    def grid(self) -> Grid:
        """Return the numbers of rows before and after, and below them what was read."""
        columns = ("table", "rows added", "snapshot", "rows")
        row = (self.table, self.rows, self.snapshot.id, self.snapshot.rows)
        return Grid(columns, (row,), footer=notes_line(self.reads, self.note))


@dataclass(frozen=True, slots=True)
class SqlWriter:
    """Runs one statement that changes the warehouse; `text` is the same in each dialect."""

    session: Session
    statement: WritingStatement
    text: SqlText
    queries: Queries
    message: str | None = None
    job_id: str | None = None
    force: bool = field(kw_only=True)
    dry_run: bool = field(kw_only=True)

    def run(self) -> Report:
        """Return what the statement did, or with a dry run would do."""
        if self.statement.is_explained:
            return self._explained()
        if not isinstance(self.statement.change, InsertRows | RowEdit):
            check_takes_no_notes(self.message, self.job_id)
        match self.statement.change:
            case InsertRows() as insert:
                return self._insert(insert)
            case DeleteRows() | UpdateRows() | MergeRows() | OverwriteRows() as change:
                return self._change_rows(change)
            case CreateTable() as create:
                return self._create(create)
            case DropTable(table, if_exists):
                if if_exists and not self._exists(table):
                    return _line(f"there is no table {table}; nothing was changed")
                with self._placed(table):
                    return self.session.drop_table(table.text, force=self.force, dry_run=self.dry_run)
            case TruncateTable(table):
                with self._placed(table):
                    return self.session.admin.reinitialise(table.text, force=self.force, dry_run=self.dry_run)
            case AlterTable() as alter:
                return self._alter(alter)
            case CommentOn() as comment:
                return self._comment(comment)
            case DescribeHistory(table, limit):
                return self._table(table).history(limit)
            case CallProcedure() as call:
                return self._call(call)

    def _explained(self) -> Report:
        part = self.statement.query
        if part is None:
            hint = ("to see what it would do: ", Action("--dry-run", "dry_run=True"))
            raise InvalidInput("EXPLAIN shows the plan of a query, and this statement has none", hint=hint)
        return self.query(part)

    # Rows.

    def query(self, part: QueryPart) -> QueryResult:
        """Return the result of the query in the statement."""
        return self.queries.run(self.text.only(part))

    def _change_rows(self, change: RowEdit) -> Report:
        return BoundEdit.of(self._opened(change.target.table), change, self.queries).run(
            dry_run=self.dry_run, force=self.force, message=self.message, job_id=self.job_id
        )

    def _insert(self, insert: InsertRows) -> Report:
        table = self._table(insert.table)
        result, names = inserted_rows(insert, self.text, table.name, table.schema, self.queries)
        with _hints_of_statement(), result.rows_to_load(names) as rows:
            if self.dry_run:
                return _planned(_with_hints_of_statement(table.ingest(rows, job_id=self.job_id, dry_run=True)), result)
            loaded = table.ingest(rows, message=self.message, job_id=self.job_id)
        snapshot = loaded.snapshot or table.history(1)[0]
        note = loaded.done_before or "; ".join(loaded.notes)
        return InsertedRows(table.name, loaded.rows, snapshot, result.source_text, note)

    def _create(self, create: CreateTable) -> Report:
        name = create.name
        self._check_not_system(name)
        exists = self._exists(name)
        if exists and create.if_not_exists:
            return _left_alone(name)
        try:
            return self._create_new(create, exists=exists)
        except AlreadyExists:
            if create.if_not_exists and self._exists(name):  # another process was faster
                return _left_alone(name)
            raise

    def _create_new(self, create: CreateTable, *, exists: bool) -> Report:
        name = create.name
        with self._placed(name):  # before the query runs, which may take long
            check_table_name(name.text, ())
            if exists and not create.or_replace:
                hint = f"write CREATE OR REPLACE TABLE {name}, CREATE TABLE IF NOT EXISTS {name}, or INSERT INTO {name}"
                raise AlreadyExists(f"table {name.text!r} already exists", hint=hint)
        options: dict[str, Any] = {"properties": dict(create.properties), "or_replace": create.or_replace}
        if create.splits is not None:
            options["split_points"] = [self._value(each) for each in create.splits]
        if create.like is not None:
            options["like"] = self._table(create.like).name
        if create.query is not None:
            return self._create_as(create, create.query, options)
        if create.leaves is not None:
            hint = "write the split points: SPLITS ('g', 'n'); or create the table AS SELECT …"
            raise self._error("SPLITS with a number needs rows to split", hint, name)
        with self._placed(name):
            schema = None if create.like is not None else self._schema(create)
            create_table = self.session.admin.plan_table if self.dry_run else self.session.create_table
            made: Report = create_table(name.text, schema, **options)
            return made

    def _create_as(self, create: CreateTable, query: QueryPart, options: dict[str, Any]) -> Report:
        result = self.query(query)
        names, choice = _new_table_names(create, result.names, self._text), None
        if create.like is None:
            if not create.row_keys and not self.dry_run:
                raise self._without_keys(create, names)
            choice = self._choice(create, names)
        with _hints_of_statement(), result.rows_to_load(names) as rows:
            if choice is not None and choice.row_keys:
                options["schema"] = self._schema_of_query(create, rows, choice)
            elif choice is not None:  # a dry run, which proposes keys
                options |= {"sort_keys": choice.sort_keys, "types": choice.types}
            options |= {"data": rows, "leaves": create.leaves}
            if self.dry_run:
                plan = self.session.admin.plan_table(create.name.text, **options)
                return _planned(replace(plan, choice="ROW KEYS (a, b)"), result)
            made = self.session.create_table(create.name.text, **options)
        snapshot = opener_of(self.session).named(made.name).store.head()
        return InsertedRows(made.name, snapshot.rows, snapshot, result.source_text)

    def _choice(self, create: CreateTable, names: Sequence[str]) -> SchemaChoice:
        """Return the keys, and the types of some columns, of a table whose other columns are as in its query."""
        keys = [found(key, names, " of the query", self._text) for key in create.row_keys]
        sort = [found(key, names, " of the query", self._text) for key in create.sort_keys]
        types = {each.name.text: each.nullable_type for each in create.columns if each.type}
        return SchemaChoice(tuple(keys), tuple(sort), types)

    def _without_keys(self, create: CreateTable, names: Sequence[str]) -> InvalidInput:
        words = "CREATE OR REPLACE TABLE" if create.or_replace else "CREATE TABLE"
        write = f"write {words} {create.name} ROW KEYS (…) AS …, with some of {', '.join(names)}; "
        hint = (write, Action("--dry-run", "dry_run=True"), " proposes keys")
        return self._error(f"table {create.name.text!r} has no ROW KEYS", hint, create.name)

    def _schema(self, create: CreateTable) -> Schema:
        """Return the schema of a table without a query; a value may be NULL unless the statement says NOT NULL."""
        columns = {column.name.text: column for column in create.columns}
        names, where = tuple(columns), " in the statement"
        row_keys = [found(key, names, where, self._text) for key in create.row_keys]
        sort_keys = [found(key, names, where, self._text) for key in create.sort_keys]
        for column in create.columns:
            if not column.type:
                hint = f"write its type: {column.name} STRING; only AS and a query give types to columns"
                raise self._error(f"column {column.name.text!r} has no type", hint, column.name)
            if columns[column.name.text] is not column:
                raise self._error(f"column {column.name.text!r} occurs twice", "rename one", column.name)
        if not row_keys:
            hint = f"write them after the columns: ROW KEYS (…), some of {', '.join(names)}"
            raise self._error(f"table {create.name.text!r} has no ROW KEYS", hint, create.name)
        keys = {*row_keys, *sort_keys}
        given = {name: self._definition(column, is_key=name in keys) for name, column in columns.items()}
        with self._placed(create.columns[0].name):
            return Schema(
                {name: given[name] for name in row_keys},
                {name: given[name] for name in sort_keys},
                {name: each for name, each in given.items() if name not in keys},
                **self._rules(create),
            )

    def _schema_of_query(self, create: CreateTable, rows: RowsToLoad | DataFrame, choice: SchemaChoice) -> Schema:
        """Return the schema of a table with the columns of a query, and with the rules that its statement has."""
        schema = choice.schema(_columns_to_load(rows))
        written = {column.name.text: column for column in create.columns}

        def ruled(field: Field) -> Field:
            column = written.get(field.name)
            if column is None:
                return field
            nullable = field.nullable and not column.not_null
            return replace(
                field, nullable=nullable, default=self._value(column.default), comment=column.comment or None
            )

        with self._placed(create.columns[0].name if create.columns else create.name):
            rules = self._rules(create)
            return Schema(map(ruled, schema.row_keys), map(ruled, schema.sort_keys), map(ruled, schema.values), **rules)

    @staticmethod
    def _rules(create: CreateTable) -> dict[str, Any]:
        checks: list[Check] = []
        for name, text in create.checks:
            checks.append(Check(name or free_check_name(each.name for each in checks), text))
        return {"comment": create.comment or None, "checks": checks, "unique_keys": create.unique_keys}

    # Tables.

    def _alter(self, alter: AlterTable) -> Report:
        match alter.change:
            case NewTableName(to):
                self._check_real_run("RENAME TO")
                with self._placed(to):
                    return self.session.rename_table(self._opened(alter.table).name, to.text)
            case SetProperties(changes):
                self._check_real_run("TBLPROPERTIES")
                return self._table(alter.table).set_properties(dict(changes))
            case clauses:
                return self._alter_schema(self._opened(alter.table), clauses)

    def _alter_schema(self, table: OpenTable, clauses: Sequence[AlterClause]) -> Report:
        """Change columns and rules in one commit."""
        schema = table.store.load().schema
        alterations = tuple(self._alterations(schema, f" of table {table.name!r}", clauses))
        if not alterations:
            return _line(f"table {table.name} has these columns already; nothing was changed")
        return configuring.alter(table, in_order(alterations), dry_run=self.dry_run, message=None)

    def _alterations(self, schema: Schema, where: str, clauses: Sequence[AlterClause]) -> Iterator[SchemaAlteration]:
        """Yield what clauses do to a schema, with the names that it has, in any case, and the values of parameters."""
        known, checks = {name.casefold() for name in schema.names}, {each.name for each in schema.checks}
        for clause in clauses:
            first, value = clause.names[0].text if clause.names else "", clause.value
            match clause.action:
                case "add column":
                    if not (clause.is_optional and first.casefold() in known):
                        yield from additions({first: self._definition(value)})
                case "add check":
                    check = Check(first or free_check_name(checks), value)
                    checks.add(check.name)
                    yield AddCheck(check)
                case "drop check":
                    if not clause.is_optional or first in checks:
                        yield DropCheck(first)
                case "set unique keys":
                    yield SetUniqueKeys(unique=value)
                case "drop column" if clause.is_optional and first.casefold() not in known:
                    continue
                case _:
                    yield self._of_column(clause, found(clause.names[0], schema.names, where, self._text))

    def _of_column(self, clause: AlterClause, name: str) -> SchemaAlteration:
        """Return a change of a column by the name that the column has."""
        match clause.action:
            case "rename column":
                return RenameColumn(name, clause.names[1].text)
            case "drop column":
                return DropColumn(name)
            case "change type":
                return WidenColumn(name, parse_type(clause.value))
            case "set default":
                return SetDefault(name, self._value(clause.value))
            case "set not null":
                return SetNotNull(name, not_null=clause.value)
            case _:
                return SetComment(name, clause.value or None)

    def _definition(self, column: ColumnDefinition, *, is_key: bool = False) -> Any:
        """Return a column as a schema says it: its type, ``double?`` when it may be NULL; a default and a comment."""
        text, default = column.type if is_key else column.nullable_type, self._value(column.default)
        extra = {"default": default, "comment": column.comment or None}
        given = {name: value for name, value in extra.items() if value is not None}
        return {"type": text, **given} if given else text

    def _comment(self, comment: CommentOn) -> Report:
        table = self._table(comment.table)
        if comment.column is None:
            return table.alter(comment=comment.comment, dry_run=self.dry_run)
        name = found(comment.column, table.schema.names, f" of table {table.name!r}", self._text)
        return table.alter(comments={name: comment.comment or None}, dry_run=self.dry_run)

    # Procedures.

    def _call(self, call: CallProcedure) -> Report:
        arguments = [self._value(each) for each in call.arguments]
        named = [(name.text.lower(), self._value(each)) for name, each in call.named]
        with self._placed(call.procedure):
            if call.procedure.text.lower() == "help":
                return procedures.listing()
            procedure = procedures.named(call.procedure.text)
            bound = procedure.bound(arguments, named)
            return procedure.run(self.session, bound, force=self.force, dry_run=self.dry_run)

    # What all of them need.

    @property
    def _text(self) -> Statement:
        return self.statement.statement

    def _opened(self, name: Name) -> OpenTable:
        self._check_not_system(name)
        with self._placed(name):
            return opener_of(self.session).named(name.text)

    def _table(self, name: Name) -> Table:
        return Table(self._opened(name))

    def _exists(self, name: Name) -> bool:
        return name.text in self.session

    def _check_not_system(self, name: Name) -> None:
        if MARK in name.text:
            hint = "system tables show metadata; SQL and ingest write to tables"
            raise self._error(f"SQL cannot change table {name.text!r}", hint, name)

    def _check_real_run(self, words: str) -> None:
        if self.dry_run:
            raise NoDryRun(f"{words} has no dry run", hint="it changes no row, and the same statement changes it back")

    def _value(self, literal: Constant) -> Any:
        if isinstance(literal, tuple):
            return [self._value(each) for each in literal]
        if not isinstance(literal, Parameter):
            return literal
        name = literal.name.text
        with self._placed(literal.name):
            parameters = self.queries.parameters
            if name not in parameters:
                raise unknown_parameter(name, parameters)
            return plain_value(name, parameters[name])

    def _error(self, problem: str, hint: Hint, at: Name | None = None) -> InvalidInput:
        error = InvalidInput(problem, hint=hint)
        return error if at is None else placed(error, self._text, at.at)

    @contextmanager
    def _placed(self, name: Name) -> Iterator[None]:
        """Show the place of a name with an error about it."""
        try:
            yield
        except (InvalidInput, NotFound, AlreadyExists) as error:
            if not error.place:
                placed(error, self._text, name.at)
            raise


@contextmanager
def _hints_of_statement() -> Iterator[None]:
    """Make the hint of an error about values say what SQL takes, not what a load does."""
    try:
        yield
    except InvalidInput as error:
        error.hint = for_change(error.hint_parts, "statement")
        raise


def _with_hints_of_statement(report: LoadReport) -> LoadReport:
    if not isinstance(report.plan, IngestPlan):
        return report
    found = [replace(each, hint=for_change(each.hint, "statement")) for each in report.plan.differences]
    return replace(report, plan=replace(report.plan, differences=tuple(found), takes_options=False))


def _planned(plan: Report, result: QueryResult) -> Stacked:
    return Stacked((("plan", plan), ("reads", replace(result.cost(), is_counted=True))))


def _left_alone(name: Name) -> Answer:
    return _line(f"table {name} exists already; nothing was created or loaded")


def _line(text: str) -> Answer:
    return Answer(Grid((), (), footer=text))


# The columns that a statement names, in any case, as SQL does.


def _new_table_names(create: CreateTable, given: Sequence[str], statement: Statement) -> tuple[str, ...]:
    """Return the names of the columns of a new table: those in brackets after its name, or those of its query."""
    if not create.columns:
        _check_named(create, given, statement)
        return tuple(given)
    if len(create.columns) != len(given):
        problem = f"the statement names {counted(len(create.columns), 'column')}, but the query has {len(given)}"
        hint = f"name all of them, or none: {', '.join(given)}"
        raise placed(InvalidInput(problem, hint=hint), statement, create.columns[0].name.at)
    names = tuple(column.name.text for column in create.columns)
    places = {column.name.text.casefold(): column.name.at for column in create.columns}
    check_twice([name.casefold() for name in names], places.__getitem__, statement)
    return names


def _check_named(create: CreateTable, given: Sequence[str], statement: Statement) -> None:
    """Raise when a column of a query cannot be one of a table, as an expression without a name cannot."""
    at = create.name.at if create.query is None else create.query.end
    check_twice([name.casefold() for name in given], lambda _: at, statement)
    for name in given:
        try:
            Field(name, FieldType("string"))
        except InvalidInput as error:
            hint = "name it: count(*) AS n; a name has letters, digits and _"
            problem = f"column {name!r} of the query cannot be one of a table"
            raise placed(InvalidInput(problem, hint=hint), statement, at) from error


def _columns_to_load(rows: RowsToLoad | DataFrame) -> tuple[DataColumn, ...]:
    if isinstance(rows, RowsToLoad):
        return columns_of_arrow(rows.schema)
    return columns_of_arrow(schema_of_frame((InMemory(rows),)))
