"""The queries that find the rows which a statement changes: their places, and their new values. Pure.

Conditions, values and sources are as the user wrote them; the engine reads the table as `TARGET`, whose rows come with
their places in data files, and the source of a merge as `SOURCE`, whose rows are numbered. What is made of the answers
is decided in `sleeper_nb.table.edit_finder`.
"""

# ruff: noqa: S608 - names are quoted, and values are parameters
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sleeper_nb.edit.row_edit import (
    SOURCE,
    DeleteRows,
    Expression,
    MergeRows,
    NamedQueries,
    QualifiedColumn,
    ReplacedRegions,
    ReplacedWhere,
    RowEdit,
    RowKind,
    UpdateRows,
    conditions_of,
    values_of,
)
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.deletions import FILE_NUMBER, POSITION
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.sql_values import Given, Slice
from sleeper_nb.sql.grammar import placed
from sleeper_nb.sql.references import table_references
from sleeper_nb.sql.statement import Composition, Piece, Statement, StructField, in_brackets
from sleeper_nb.sql.tokens import Token, skip_brackets, unquote

TARGET: Final = "sleeper:target"
"""The table whose rows are changed; its rows have their places in `FILE_NUMBER` and `POSITION`."""
MATCHED: Final = "sleeper:matched"
"""The places of the rows of the table that match a row of the source."""
SOURCE_ROW: Final = "sleeper:row"
ACTION: Final = "sleeper:action"
"""The number of the clause of a merge that a row meets; null for none."""
RESULT: Final = "sleeper:result"
"""`ACTION` and the new rows of all clauses in one struct; all null for a row that meets no clause."""
_PLACES: Final = (FILE_NUMBER, POSITION)
_NO_ACTION: Final = "CAST(NULL AS INTEGER)"

Row = Mapping[str, Expression]
"""The value of each column of a new row; a column that is not in it gets its default."""
_Chosen = list[tuple[Sequence[Piece], str]]
"""The columns of an answer: values and names."""


def value_column(clause: int, column: str) -> str:
    return f"{clause}:{column}"


def key_column(key: str) -> str:
    """Return the name of a column with what a row key was before."""
    return f"key:{key}"


def deleted_rows(delete: DeleteRows) -> Composition:
    condition = () if delete.condition is None else ("WHERE", in_brackets(delete.condition))
    name = delete.target.name
    return _query(delete.named_queries, _places(name), (_from(name), *condition))


def updated_rows(update: UpdateRows, row: Row, keys: Sequence[str]) -> Composition:
    """Return the query of the places of the rows to update, of what their keys were, and of their new values."""
    name = update.target.name
    chosen = [*_places(name), *_keys(name, keys), *((_value(value), column) for column, value in row.items())]
    tests: list[Sequence[Piece]] = [] if update.condition is None else [[in_brackets(update.condition)]]
    # always true, but an engine refuses here what is not one value for each row: unnest, windows, aggregates
    tests += [["((", *_value(each), ") IS NULL OR TRUE)"] for each in row.values() if isinstance(each, Slice)]
    where = ["WHERE", *_joined("AND", tests)] if tests else []
    return _query(update.named_queries, chosen, (_from(name), *where))


def source_rows(relation: Slice, named: NamedQueries | None) -> Composition:
    return Composition((*_with(named), "SELECT * FROM", relation))


@dataclass(frozen=True, slots=True)
class MergeQueries:
    """The queries of a merge, with the new row that each clause makes, by its number in the statement."""

    merge: MergeRows
    rows: Mapping[int, Row]
    keys: Sequence[str]

    @property
    def _target(self) -> str:
        return self.merge.target.name

    @property
    def _source(self) -> str:
        return f"{_name(SOURCE)} AS {_name(self.merge.source.alias)}"

    @property
    def _source_row(self) -> tuple[Sequence[Piece], str]:
        return (_column(self.merge.source.alias, SOURCE_ROW),), SOURCE_ROW

    def matches(self) -> Composition:
        """Return the query of all pairs of rows that match: places, keys, number of the source row, action, values."""
        chosen = [*_places(self._target), *_keys(self._target, self.keys), self._source_row]
        joined = (_from(self._target), f"JOIN {self._source} ON", self._condition())
        return self._query([*chosen, *self._results("matched")], joined)

    def inserts(self) -> Composition:
        """Return the query of the action and values of the source rows that match no row; `SOURCE` has only these."""
        return self._query([self._source_row, *self._results("not matched")], (f"FROM {self._source}",))

    def others(self) -> Composition:
        """Return the query of places, keys, action and values of the table's rows that match no row of the source."""
        chosen = [*_places(self._target), *_keys(self._target, self.keys), *self._results("not matched by source")]
        return self._query(chosen, (_from(self._target), "WHERE NOT", _exists(self._target, MATCHED, _PLACES)))

    def _query(self, chosen: _Chosen, rest: Sequence[Piece]) -> Composition:
        return _query(self.merge.named_queries, chosen, rest)

    def _condition(self) -> Piece:
        if self.merge.condition is not None:
            return in_brackets(self.merge.condition)
        return _equal(self._target, self.merge.source.alias, [each.text for each in self.merge.using])

    def _results(self, kind: RowKind) -> _Chosen:
        """Return the number of the clause of a kind that a row meets, and the new row of each clause.

        Where clauses have conditions, these are one value of `RESULT`: so each condition is asked once for a row, whose
        answer may be another one the next time (``random()``), and values are computed only for rows of their clause,
        as they may fail for others.
        """
        clauses = [(at, each) for at, each in enumerate(self.merge.clauses) if each.kind == kind]
        if not clauses:
            return [((_NO_ACTION,), ACTION)]
        at, first = clauses[0]
        if first.condition is None:  # no other clause of the kind can follow
            own = self.rows.get(at, {}).items()
            return [((f"{at}",), ACTION), *((_value(value), value_column(at, name)) for name, value in own)]
        pieces: list[Piece] = ["CASE"]
        for at, clause in clauses:
            pieces += ["ELSE"] if clause.condition is None else ["WHEN", in_brackets(clause.condition), "THEN"]
            pieces += self._struct(at, kind)
        if clause.condition is not None:  # all fields null, no null struct: Spark's fields may not be nullable in one
            pieces += ["ELSE", *self._struct(None, kind)]
        return [((*pieces, "END"), RESULT)]

    def _struct(self, clause: int | None, kind: RowKind) -> Iterator[Piece]:
        """Yield the struct of a clause, with NULL for the values of others; of no clause, all NULL."""
        yield StructField(ACTION, is_first=True)
        yield _NO_ACTION if clause is None else f"{clause}"
        for at, row in self.rows.items():
            for name, value in row.items() if self.merge.clauses[at].kind == kind else ():
                yield ","
                yield StructField(value_column(at, name))
                yield from _value(value) if at == clause else ("NULL",)
        yield ")"


def rows_equal_to_new(target: str, columns: Collection[str]) -> Composition:
    return _query(None, _places(target), (_from(target), "WHERE", _exists(target, SOURCE, columns)))


def rows_in_regions(target: str, regions: Sequence[Region], schema: Schema) -> Composition:
    return _query(None, _places(target), (_from(target), "WHERE", *_in_regions(target, regions, schema)))


def new_rows_outside(
    replaced: ReplacedWhere | ReplacedRegions, target: str, named: NamedQueries | None, schema: Schema
) -> Composition:
    """Return the query of the new rows that are not in the part whose rows are replaced."""
    if isinstance(replaced, ReplacedWhere):
        inside: Iterable[Piece] = (in_brackets(replaced.condition),)
    else:
        inside = _in_regions(target, replaced.regions, schema)
    rows = f"SELECT * FROM {_name(SOURCE)} AS {_name(target)} WHERE ("
    return Composition((*_with(named), rows, *inside, ") IS NOT TRUE"))


def _in_regions(target: str, regions: Sequence[Region], schema: Schema) -> list[Piece]:
    parts: list[Sequence[Piece]] = []
    for region in regions:
        tests: list[Sequence[Piece]] = []
        for key, bounds in zip(schema.row_keys, region.ranges, strict=True):
            column = _column(target, key.name)
            tests += [(f"{column} >=", Given(bounds.min))] if bounds.min is not None else []
            tests += [(f"{column} <", Given(bounds.max))] if bounds.max is not None else []
        parts.append(("(", *(_joined("AND", tests) or ["TRUE"]), ")"))
    return _joined("OR", parts) or ["FALSE"]


Conditions = tuple[tuple[Slice, ...], str]
"""Conditions, and the tables that they are about."""


def conditions_by_tables(change: RowEdit) -> Iterator[Conditions]:
    """Yield the conditions of a change, perhaps none, with the tables that they are about."""
    target = _from(change.target.name)
    if not isinstance(change, MergeRows):
        yield conditions_of(change), target
        return
    source = f"{_name(SOURCE)} AS {_name(change.source.alias)}"
    tables: Mapping[RowKind, str] = {
        "matched": f"{target} CROSS JOIN {source}", "not matched": f"FROM {source}", "not matched by source": target,
    }  # fmt: skip
    for kind, relations in tables.items():
        conditions = [change.condition] if kind == "matched" else []
        conditions += [clause.condition for clause in change.of_kind(kind)]
        yield tuple(each for each in conditions if each is not None), relations


def query_of_conditions(named: NamedQueries | None, conditions: Conditions) -> Composition:
    """Return the query with a column for each of some conditions; its tables need no rows."""
    parts, tables = conditions
    return _query(named, [((in_brackets(each),), f"condition {at}") for at, each in enumerate(parts)], (tables,))


def _query(named: NamedQueries | None, chosen: _Chosen, rest: Sequence[Piece]) -> Composition:
    columns = _joined(",", ((*value, f"AS {_name(name)}") for value, name in chosen))
    return Composition((*_with(named), "SELECT", *columns, *rest))


def _joined(word: str, parts: Iterable[Sequence[Piece]]) -> list[Piece]:
    """Return pieces with a word between the parts."""
    pieces: list[Piece] = []
    for part in parts:
        pieces += [*([word] if pieces else []), *part]
    return pieces


def _with(named: NamedQueries | None) -> tuple[Piece, ...]:
    return () if named is None else (named.text,)


def _name(name: str) -> str:
    """Return a name in the quotes that each engine reads."""
    return "`" + name.replace("`", "``") + "`"


def _column(relation: str, column: str) -> str:
    return f"{_name(relation)}.{_name(column)}"


def _from(target: str) -> str:
    return f"FROM {_name(TARGET)} AS {_name(target)}"


def _places(target: str) -> _Chosen:
    return [((_column(target, each),), each) for each in _PLACES]


def _keys(target: str, keys: Sequence[str]) -> _Chosen:
    return [((_column(target, each),), key_column(each)) for each in keys]


def _value(value: Expression) -> tuple[Piece, ...]:
    match value:
        case QualifiedColumn(relation, name):
            return (_column(relation, name),)
        case Slice():
            return (in_brackets(value),)
        case _:
            return (value,)


def _equal(left: str, right: str, columns: Iterable[str]) -> str:
    return " AND ".join(f"{_column(left, each)} = {_column(right, each)}" for each in columns)


def _exists(target: str, rows: str, columns: Iterable[str]) -> str:
    """Return the test whether some rows have one that is equal to the target's in some columns."""
    other = "sleeper:other"
    return f"EXISTS (SELECT 1 FROM {_name(rows)} AS {_name(other)} WHERE {_equal(other, target, columns)})"


# Rows as a whole: the engine reads the table and the source of a merge with columns of this package, their places and
# numbers. A star, or a name of either as a value, would have these in it: a text or a comparison of the row would be a
# wrong one. In a subquery too such a name is refused, also where it means a table of the subquery, which can have
# another name.

_OPENING: Final = frozenset({"SELECT", "FROM", "WITH", "VALUES", "TABLE", "PIVOT", "UNPIVOT"})
_SELECT: Final = "SELECT "


def check_no_whole_rows(change: RowEdit, columns: Collection[str]) -> None:
    """Raise `InvalidInput` for a row of the table or of the source as a whole, in a condition or a new value.

    A name that is one of the table's `columns` is that column, even if the table has it too.
    """
    relations = [change.target.name]
    relations += [change.source.name.text] if isinstance(change, MergeRows) and change.source.name is not None else []
    names = frozenset(map(str.casefold, relations)) - {name.casefold() for name in columns}
    for part in (*conditions_of(change), *values_of(change)):
        found = _whole_row(part, names) if isinstance(part, Slice) else None
        if found is not None and isinstance(part, Slice):
            token, is_in_query = found
            hint = "name the columns that are meant, such as n or t.n"
            if is_in_query and token.kind != "symbol":
                hint += f"; for a column {token.text} of another table write u.{token.text}; a query takes another name"
            error = InvalidInput(f"{token.text} stands for a whole row here", hint=hint)
            raise placed(error, part.written, part.at + token.start - len(_SELECT))


def _whole_row(part: Slice, names: frozenset[str]) -> tuple[Token, bool] | None:
    """Return the first token that stands for a whole row, and whether it is in a query."""
    expression = Statement.of(_SELECT + part.text, dialect=part.written.dialect)
    tokens = expression.tokens
    queries = [(at, skip_brackets(tokens, at)) for at in range(len(tokens)) if _opens_query(tokens, at)]
    tables = set(_places_of_tables(expression)) if queries else set()
    for at, token in enumerate(tokens[1:], 1):
        before, following = tokens[at - 1] if at > 1 else None, tokens[at + 1] if at + 1 < len(tokens) else None
        is_in_query = bool(queries) and any(first < at < after for first, after in queries)
        is_star = token.symbol == "*" and (before is None or before.symbol in {"(", ",", ".", "["})
        is_columns = token.word == "COLUMNS" and following is not None and following.symbol == "("
        if not is_in_query and (is_star or is_columns):
            return token, False
        if is_star and at > 2 and tokens[at - 1].symbol == "." and _text(expression, tokens[at - 2]) in names:
            return tokens[at - 2], is_in_query
        is_value = token.start not in tables and _stands_alone(before, following)
        if is_value and _text(expression, token) in names:
            return token, is_in_query
    return None


def _opens_query(tokens: Sequence[Token], at: int) -> bool:
    return tokens[at].symbol == "(" and at + 1 < len(tokens) and tokens[at + 1].word in _OPENING


def _places_of_tables(expression: Statement) -> Iterator[int]:
    """Yield where the queries in an expression name a table, and where its alias may be."""
    for table in table_references(expression):
        yield table.start
        after = expression.index_from(table.end)
        yield from (each.start for each in expression.tokens[after : after + 1] if table.alias is not None)


def _text(statement: Statement, token: Token) -> str:
    return unquote(token, dialect=statement.dialect).casefold() if token.kind in {"word", "quoted"} else ""


def _stands_alone(before: Token | None, after: Token | None) -> bool:
    """Return whether a name between two tokens is a value: not a qualifier, field, parameter, label, type or alias."""
    if before is not None and (before.symbol in {".", ":", "$", ")"} or before.kind == "number" or before.word == "AS"):
        return False
    is_unit = after is not None and after.word == "FROM" and before is not None and before.symbol == "("
    return after is None or not (is_unit or after.symbol in {".", "(", ":"} or after.kind == "string")
