"""Edits of rows as values: which rows of a table are deleted, updated, merged or replaced, and by what.

The methods of a table build them, and SQL is parsed into them; an engine finds the rows. An expression is a part of
what the user wrote, a column of the new rows, or a Python value.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from sleeper_nb.model.sql_values import Given, Name, QueryPart, Slice, Written

if TYPE_CHECKING:  # the command line reads statements, and loads nothing heavy
    import pyarrow as pa

    from sleeper_nb.model.partitions import Region

SOURCE: Final = "sleeper:source"
"""What queries call the source of a merge, or the new rows of an overwrite."""


@dataclass(frozen=True, slots=True)
class QualifiedColumn:
    """A column of the table or of the source of a merge."""

    relation: str
    name: str


Expression = Slice | QualifiedColumn | Given


@dataclass(frozen=True, slots=True)
class Target:
    """The table whose rows are changed, and by what else its columns are qualified."""

    table: Name
    alias: Name | None = None

    @property
    def name(self) -> str:
        """By what its columns are qualified: the alias, or the last part of its name."""
        return self.table.text.rpartition(".")[2] if self.alias is None else self.alias.text

    def own(self, column: Name, columns: Collection[str]) -> Name:
        """Return the name of one of the target's columns without a qualifier: ``a`` for ``t.a``."""
        qualifier, _, rest = column.text.partition(".")
        known = {name.casefold() for name in columns}
        is_qualified = rest and self.is_called(qualifier) and rest.partition(".")[0].casefold() in known
        return Name(rest, column.at) if is_qualified else column

    def is_called(self, name: str) -> bool:
        return name.casefold() == self.name.casefold()


@dataclass(frozen=True, slots=True)
class NamedQueries:
    """``WITH a AS (…), b AS (…)`` before a statement, and the names in it."""

    text: Slice
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """``SET a = value``: a column, perhaps after the table's name (`Target.own`); the value None is DEFAULT."""

    column: Name
    value: Expression | None


@dataclass(frozen=True, slots=True)
class DeleteRows:
    """``DELETE FROM t WHERE …``, with the ``WITH`` before it for its subqueries; without a condition, all rows.

    `written` is the statement that says it; None for a change that was built by Python, as of the other changes.
    """

    target: Target
    condition: Slice | None
    named_queries: NamedQueries | None = None
    written: Written | None = None


@dataclass(frozen=True, slots=True)
class UpdateRows:
    """``UPDATE t SET a = … WHERE …``; each new value sees the row as it was."""

    target: Target
    assignments: tuple[Assignment, ...]
    condition: Slice | None
    named_queries: NamedQueries | None = None
    written: Written | None = None


@dataclass(frozen=True, slots=True)
class MergeSource:
    """What a table is compared with: rows, or as written, a table, variable, file or query, with its version and alias.

    By `name` its columns are qualified; None for a file or query without an alias.
    """

    relation: Slice | pa.Table
    name: Name | None

    @property
    def alias(self) -> str:
        return SOURCE if self.name is None else self.name.text


@dataclass(frozen=True, slots=True)
class UpdateColumns:
    """``UPDATE SET a = …``; each value sees the row as it was."""

    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class UpdateAll:
    """``UPDATE SET *``: every column of the table from the source's column of the same name."""


@dataclass(frozen=True, slots=True)
class InsertColumns:
    """``INSERT (a, b) VALUES (…)``: a value for each column; other columns have their defaults."""

    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class InsertAll:
    """``INSERT *``: every column of the table from the source's column of the same name."""


@dataclass(frozen=True, slots=True)
class DeleteRow:
    """``DELETE``."""


@dataclass(frozen=True, slots=True)
class DoNothing:
    """``DO NOTHING``: the row stays as it is, whatever later clauses say."""


MergeAction = UpdateColumns | UpdateAll | InsertColumns | InsertAll | DeleteRow | DoNothing

RowKind = Literal["matched", "not matched", "not matched by source"]
"""Rows of both sides that match; rows of the source that match none; rows of the table that match none."""


@dataclass(frozen=True, slots=True)
class WhenClause:
    """``WHEN … THEN …``: what happens to rows of a kind. The first clause of the kind that a row meets counts."""

    kind: RowKind
    condition: Slice | None
    action: MergeAction
    at: int = 0


@dataclass(frozen=True, slots=True)
class MergeRows:
    """``MERGE INTO t USING s ON … WHEN …``: what happens to rows that match by the condition, and to the others.

    Without a condition, rows match that are equal in the columns `using`. The clauses are in the order of the
    statement; at least one when it runs.
    """

    target: Target
    source: MergeSource
    condition: Slice | None
    using: tuple[Name, ...]
    clauses: tuple[WhenClause, ...]
    named_queries: NamedQueries | None = None
    written: Written | None = None

    def of_kind(self, kind: RowKind) -> tuple[WhenClause, ...]:
        return tuple(clause for clause in self.clauses if clause.kind == kind)


@dataclass(frozen=True, slots=True)
class DefaultValue:
    """``DEFAULT`` in a row of VALUES: where it begins, and which value of the row it is, from 0."""

    at: int
    place: int


@dataclass(frozen=True, slots=True)
class InsertRows:
    """``INSERT INTO t``: the rows of a query, by position or by name, for all columns or for some.

    No engine takes the `defaults` of a VALUES in a query: `query_with_values` gives the query that one runs.
    """

    table: Name
    query: QueryPart
    written: Written
    columns: tuple[Name, ...] | None = None
    by_name: bool = False
    defaults: tuple[DefaultValue, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplacedWhere:
    """``REPLACE WHERE condition``: the rows that meet it; every new row must meet it too."""

    condition: Slice


@dataclass(frozen=True, slots=True)
class ReplacedRegions:
    """The rows in some regions; every new row must be in one of them too."""

    regions: tuple[Region, ...]


@dataclass(frozen=True, slots=True)
class ReplacedByColumns:
    """``REPLACE USING (a, b)``: the rows that are equal to a new row on these columns."""

    columns: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class ReplacedAll:
    """``INSERT OVERWRITE``: every row of the table."""


@dataclass(frozen=True, slots=True)
class OverwriteRows:
    """``INSERT INTO t REPLACE …`` and ``INSERT OVERWRITE t``: new rows take the place of others.

    The query of the new rows has the `named_queries` too.
    """

    target: Target
    rows: pa.Table | InsertRows
    replaced: ReplacedWhere | ReplacedRegions | ReplacedByColumns | ReplacedAll
    named_queries: NamedQueries | None = None
    written: Written | None = None


RowEdit = DeleteRows | UpdateRows | MergeRows | OverwriteRows
"""An edit of rows. Rows that differ between two versions are changes (`sleeper_nb.changes`)."""


def conditions_of(change: RowEdit) -> tuple[Slice, ...]:
    """Return all conditions of a change that a user wrote."""
    match change:
        case DeleteRows() | UpdateRows():
            found = [change.condition]
        case MergeRows():
            found = [change.condition, *[clause.condition for clause in change.clauses]]
        case OverwriteRows(replaced=ReplacedWhere(condition)):
            found = [condition]
        case _:
            found = []
    return tuple([each for each in found if each is not None])


def values_of(change: RowEdit) -> tuple[Expression, ...]:
    """Return all new values of a change."""
    if isinstance(change, UpdateRows):
        assignments = [change.assignments]
    else:
        actions = (clause.action for clause in change.clauses) if isinstance(change, MergeRows) else ()
        assignments = [each.assignments for each in actions if isinstance(each, UpdateColumns | InsertColumns)]
    return tuple(each.value for group in assignments for each in group if each.value is not None)
