"""`MergeBuilder`: says clause by clause what a merge does, with the names that delta-rs gives the clauses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sleeper_nb.arguments import checked
from sleeper_nb.change.change import ChangeReport
from sleeper_nb.change.row_changes import (
    Assignment,
    DeleteRow,
    InsertColumns,
    MergeAction,
    MergeRows,
    RowKind,
    SourceColumn,
    UpdateColumns,
    WhenClause,
)
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.sql_values import Dialect, Name
from sleeper_nb.report import counted
from sleeper_nb.sql.expressions import assignments_of, expression_of
from sleeper_nb.sql.row_statements import CLAUSE_WORDS, not_reached
from sleeper_nb.sql.tokens import quote_name
from sleeper_nb.table.changing import BoundChange

SOURCE_NAME, TARGET_NAME = "source", "target"
"""How expressions call the new rows, and the table."""


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

    _bound: BoundChange
    source_columns: tuple[str, ...]

    def __repr__(self) -> str:
        head = f"merge into {self._bound.table.name}, not run yet: {counted(len(self._merge.clauses), 'clause')}"
        lines = [f"  {_text(clause, self._dialect)}" for clause in self._merge.clauses]
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
        return _some(tuple(Assignment(Name(name), SourceColumn(SOURCE_NAME, name)) for name in chosen))

    def _assigned(self, updates: Mapping[str, str]) -> tuple[Assignment, ...]:
        return _some(assignments_of(updates, self._dialect))


def _some(assignments: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
    if not assignments:
        raise InvalidInput("the clause sets no column", hint='give an expression for each: {"fare": "source.fare"}')
    return assignments


def _text(clause: WhenClause, dialect: Dialect) -> str:
    """Return a clause as SQL, for people."""
    condition = "" if clause.condition is None else f" AND ({clause.condition})"
    begin = f"{CLAUSE_WORDS[clause.kind]}{condition} THEN"
    if not isinstance(clause.action, UpdateColumns | InsertColumns):
        return f"{begin} DELETE"
    assigned = clause.action.assignments
    names, values = (
        [_quoted(each.column.text, dialect) for each in assigned],
        [_value(each, dialect) for each in assigned],
    )
    if isinstance(clause.action, InsertColumns):
        columns, row = ", ".join(names), ", ".join(values)
        return f"{begin} INSERT ({columns}) VALUES ({row})"  # noqa: S608 - for people
    pairs = (f"{name} = {value}" for name, value in zip(names, values, strict=True))
    return f"{begin} UPDATE SET {', '.join(pairs)}"


def _value(assignment: Assignment, dialect: Dialect) -> str:
    if isinstance(assignment.value, SourceColumn):
        return ".".join(_quoted(each, dialect) for each in (assignment.value.relation, assignment.value.name))
    return str(assignment.value)


def _quoted(name: str, dialect: Dialect) -> str:
    return quote_name(name, dialect=dialect)
