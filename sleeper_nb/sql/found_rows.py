"""The queries that find the rows which a statement changes: their places, and their new values. Pure.

Conditions, values and sources are as the user wrote them; the engine reads the table as `TARGET`, whose rows come with
their places in data files, and the source of a merge as `SOURCE`, whose rows are numbered. What is made of the answers
is decided in `sleeper_nb.table.edit_finder`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sleeper_nb.edit.row_edit import (
    SOURCE,
    DeleteRows,
    DoNothing,
    Expression,
    MergeRows,
    NamedQueries,
    ReplacedRegions,
    ReplacedWhere,
    RowEdit,
    RowKind,
    SourceColumn,
    UpdateAll,
    UpdateColumns,
    UpdateRows,
    WhenClause,
    conditions_of,
)
from sleeper_nb.model.deletions import FILE_NUMBER, POSITION
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.sql_values import Given, Slice
from sleeper_nb.sql.statement import Composition, GivenMap, Piece, QuotedName, StructBegin, StructField, in_brackets

TARGET: Final = "sleeper:target"
"""The table whose rows are changed; its rows have their places in `FILE_NUMBER` and `POSITION`."""
MATCHED: Final = "sleeper:matched"
"""The places of the rows of the table that match a row of the source."""
SOURCE_ROW: Final = "sleeper:row"
ACTION: Final = "sleeper:action"
"""The number of the clause of a merge that a row meets; null for none."""
RESULT: Final = "sleeper:result"
"""`ACTION` and the new values of all clauses in one struct; all null for a row that meets no clause."""
_PLACES: Final = (FILE_NUMBER, POSITION)

Value = Expression | GivenMap
Values = Mapping[str, Value]
"""The new value of each column that gets one."""


def value_column(clause: int, column: str) -> str:
    return f"{clause}:{column}"


def old_column(column: str) -> str:
    return f"old:{column}"


def deleted_rows(delete: DeleteRows) -> Composition:
    return Composition(
        (*_with(delete.named_queries), "SELECT", *_list(_places(delete.target.name)), *_from(delete.target.name),
         *_where(delete.condition))
    )  # fmt: skip


def updated_rows(update: UpdateRows, values: Values, columns: Sequence[str]) -> Composition:
    """Return the query of the places of the rows to update, and of all their columns with new values.

    Parameters
    ----------
    update
        The statement.
    values
        The new value of each assigned column; a column with its default is in neither mapping nor `columns`.
    columns
        The other columns of the table.
    """
    name = update.target.name
    chosen = [*_places(name)]
    chosen += [(_value(value), column) for column, value in values.items()]
    chosen += [(_column(name, column), column) for column in columns]
    named = (*_with(update.named_queries), "SELECT", *_list(chosen))
    tests: list[Piece] = [] if update.condition is None else [in_brackets(update.condition), "AND"]
    for number, value in enumerate(values.values()):
        # always true, but an engine refuses here what is not one value for each row: unnest, windows, aggregates
        tests += [*(["AND"] if number else []), "((", *_value(value), ") IS NULL OR TRUE)"]
    where = ("WHERE", *tests) if values else _where(update.condition)
    return Composition((*named, *_from(name), *where))


def source_rows(relation: Slice, named: NamedQueries | None) -> Composition:
    return Composition((*_with(named), "SELECT * FROM", relation))


@dataclass(frozen=True, slots=True)
class MergeQueries:
    """The queries of a merge.

    Parameters
    ----------
    merge
        The statement.
    values
        For each clause, by its number in the statement, the new values of columns.
    columns, keys
        All columns of the table, and its row keys.
    """

    merge: MergeRows
    values: Mapping[int, Values]
    columns: Sequence[str]
    keys: Sequence[str]

    @property
    def _target(self) -> str:
        return self.merge.target.name

    def matches(self) -> Composition:
        """Return the query of all pairs of rows that match: places, number of the source row, action, values."""
        chosen = [*_places(self._target), (_column(self.merge.source.alias, SOURCE_ROW), SOURCE_ROW)]
        chosen += self._results("matched")
        chosen += self._old_values("matched")
        source = ("JOIN", QuotedName(SOURCE), "AS", QuotedName(self.merge.source.alias))
        return self._query(chosen, (*_from(self._target), *source, "ON", *self._condition()))

    def inserts(self) -> Composition:
        """Return the query of the action and values of the source rows that match no row; `SOURCE` has only these."""
        chosen = [(_column(self.merge.source.alias, SOURCE_ROW), SOURCE_ROW), *self._results("not matched")]
        return self._query(chosen, ("FROM", QuotedName(SOURCE), "AS", QuotedName(self.merge.source.alias)))

    def others(self) -> Composition:
        """Return the query of the places, action and values of the table's rows that match no row of the source."""
        chosen = [*_places(self._target), *self._results("not matched by source")]
        chosen += self._old_values("not matched by source")
        matched = QuotedName("sleeper:m")
        equal = _equal(((matched, ".", QuotedName(each)), _column(self._target, each)) for each in _PLACES)
        without = ("WHERE NOT EXISTS (SELECT 1 FROM", QuotedName(MATCHED), "AS", matched, "WHERE", *equal, ")")
        return self._query(chosen, (*_from(self._target), *without))

    def _query(self, chosen: Sequence[tuple[Sequence[Piece], str]], rest: Sequence[Piece]) -> Composition:
        return Composition((*_with(self.merge.named_queries), "SELECT", *_list(chosen), *rest))

    def _condition(self) -> Sequence[Piece]:
        if self.merge.condition is not None:
            return [in_brackets(self.merge.condition)]
        return _equal(
            (_column(self._target, each.text), _column(self.merge.source.alias, each.text)) for each in self.merge.using
        )

    def _old_values(self, kind: RowKind) -> list[tuple[Sequence[Piece], str]]:
        """Return the values that the rows have: keys, and the columns that an update of the kind leaves as they are."""
        needed = set(self.keys)
        for at, clause in enumerate(self.merge.clauses):
            if clause.kind == kind and isinstance(clause.action, UpdateColumns | UpdateAll):
                needed |= set(self.columns) - set(self.values.get(at, {}))
        return [(_column(self._target, each), old_column(each)) for each in self.columns if each in needed]

    def _results(self, kind: RowKind) -> list[tuple[Sequence[Piece], str]]:
        """Return the number of the clause of a kind that a row meets, and the values that each clause gives.

        Where clauses have conditions, these are one value of `RESULT`: so each condition is asked once for a row, whose
        answer may be another one the next time (``random()``), and values are computed only for rows of their clause,
        as they may fail for others.
        """
        clauses = [(at, each) for at, each in enumerate(self.merge.clauses) if each.kind == kind]
        values = [(at, name) for at, each in clauses for name in self._values_of(at, each)]
        if not clauses:
            return [(("CAST(NULL AS INTEGER)",), ACTION)]
        at, first = clauses[0]
        if first.condition is None:  # no other clause of the kind can follow
            own = self._values_of(at, first)
            return [((f"{at}",), ACTION), *((_value(value), value_column(at, name)) for name, value in own.items())]
        pieces: list[Piece] = ["CASE"]
        for at, clause in clauses:
            pieces += ["ELSE"] if clause.condition is None else ["WHEN", in_brackets(clause.condition), "THEN"]
            own = self._values_of(at, clause)
            fields = {value_column(other, name): _value(own[name]) if other == at else ("NULL",)
                      for other, name in values}  # fmt: skip
            pieces += _struct({ACTION: (f"{at}",), **fields})
        if clause.condition is not None:  # all fields null, no null struct: Spark's fields may not be nullable in one
            empty = dict.fromkeys((value_column(*each) for each in values), ("NULL",))
            pieces += ["ELSE", *_struct({ACTION: ("CAST(NULL AS INTEGER)",), **empty})]
        return [((*pieces, "END"), RESULT)]

    def _values_of(self, at: int, clause: WhenClause) -> Values:
        return {} if isinstance(clause.action, DoNothing) else self.values.get(at, {})


def rows_equal_to_new(target: str, columns: Collection[str]) -> Composition:
    new = QuotedName("sleeper:new")
    equal = _equal(((new, ".", QuotedName(each)), _column(target, each)) for each in columns)
    exists = ("WHERE EXISTS (SELECT 1 FROM", QuotedName(SOURCE), "AS", new, "WHERE", *equal, ")")
    return Composition(("SELECT", *_list(_places(target)), *_from(target), *exists))


def rows_in_regions(target: str, regions: Sequence[Region], schema: Schema) -> Composition:
    inside = _in_regions(target, regions, schema)
    return Composition(("SELECT", *_list(_places(target)), *_from(target), "WHERE", *inside))


def new_rows_outside(
    replaced: ReplacedWhere | ReplacedRegions, target: str, named: NamedQueries | None, schema: Schema
) -> Composition:
    """Return the query of the new rows that are not in the part whose rows are replaced."""
    rows = ("SELECT * FROM", QuotedName(SOURCE), "AS", QuotedName(target))
    if isinstance(replaced, ReplacedWhere):
        inside: Iterable[Piece] = (in_brackets(replaced.condition),)
    else:
        inside = _in_regions(target, replaced.regions, schema)
    return Composition((*_with(named), *rows, "WHERE (", *inside, ") IS NOT TRUE"))


def _in_regions(target: str, regions: Sequence[Region], schema: Schema) -> Iterator[Piece]:
    for number, region in enumerate(regions):
        yield "OR (" if number else "("
        tests: list[tuple[Piece, ...]] = []
        for key, bounds in zip(schema.row_keys, region.ranges, strict=True):
            tests += [(*_column(target, key.name), ">=", Given(bounds.min))] if bounds.min is not None else []
            tests += [(*_column(target, key.name), "<", Given(bounds.max))] if bounds.max is not None else []
        for at, test in enumerate(tests):
            yield from ("AND", *test) if at else test
        yield ")" if tests else "TRUE )"
    if not regions:
        yield "FALSE"


Conditions = tuple[tuple[Slice, ...], tuple[Piece, ...]]
"""Conditions, and the tables that they are about."""


def conditions_by_tables(change: RowEdit) -> Iterator[Conditions]:
    """Yield the conditions of a change, perhaps none, with the tables that they are about."""
    target = _from(change.target.name)
    if not isinstance(change, MergeRows):
        yield conditions_of(change), target
        return
    source = (QuotedName(SOURCE), "AS", QuotedName(change.source.alias))
    tables: Mapping[RowKind, tuple[Piece, ...]] = {
        "matched": (*target, "CROSS JOIN", *source), "not matched": ("FROM", *source), "not matched by source": target,
    }  # fmt: skip
    for kind, relations in tables.items():
        conditions = [change.condition] if kind == "matched" else []
        conditions += [clause.condition for clause in change.of_kind(kind)]
        yield tuple(each for each in conditions if each is not None), relations


def query_of_conditions(named: NamedQueries | None, conditions: Conditions) -> Composition:
    """Return the query with a column for each of some conditions; its tables need no rows."""
    parts, tables = conditions
    chosen = [((in_brackets(each),), f"condition {number}") for number, each in enumerate(parts)]
    return Composition((*_with(named), "SELECT", *_list(chosen), *tables))


def _struct(fields: Mapping[str, Sequence[Piece]]) -> Iterator[Piece]:
    yield StructBegin()
    for number, (name, value) in enumerate(fields.items()):
        if number:
            yield ","
        yield StructField(name)
        yield from value
    yield ")"


def _with(named: NamedQueries | None) -> tuple[Piece, ...]:
    return () if named is None else (named.text,)


def _from(target: str) -> tuple[Piece, ...]:
    return "FROM", QuotedName(TARGET), "AS", QuotedName(target)


def _where(condition: Slice | None) -> tuple[Piece, ...]:
    return () if condition is None else ("WHERE", in_brackets(condition))


def _places(target: str) -> list[tuple[Sequence[Piece], str]]:
    return [(_column(target, each), each) for each in _PLACES]


def _column(relation: str, column: str) -> tuple[Piece, ...]:
    return QuotedName(relation), ".", QuotedName(column)


def _value(value: Value) -> tuple[Piece, ...]:
    if isinstance(value, SourceColumn):
        return _column(value.relation, value.name)
    return (in_brackets(value),) if isinstance(value, Slice) else (value,)


def _list(chosen: Iterable[tuple[Sequence[Piece], str]]) -> list[Piece]:
    pieces: list[Piece] = []
    for value, name in chosen:
        pieces += [*([","] if pieces else []), *value, "AS", QuotedName(name)]
    return pieces


def _equal(pairs: Iterable[tuple[Sequence[Piece], Sequence[Piece]]]) -> list[Piece]:
    pieces: list[Piece] = []
    for left, right in pairs:
        pieces += [*(["AND"] if pieces else []), *left, "=", *right]
    return pieces
