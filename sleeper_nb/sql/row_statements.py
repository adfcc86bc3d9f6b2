"""``DELETE``, ``UPDATE``, ``MERGE`` and ``INSERT`` as values: which rows they change, and what comes in their place.

Conditions, values and sources are slices of the statement: the engine reads them as they were written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sleeper_nb.edit.row_edit import (
    Assignment,
    DefaultValue,
    DeleteRow,
    DeleteRows,
    DoNothing,
    InsertAll,
    InsertColumns,
    InsertRows,
    MergeAction,
    MergeRows,
    MergeSource,
    NamedQueries,
    OverwriteRows,
    ReplacedAll,
    ReplacedByColumns,
    ReplacedWhere,
    RowKind,
    Target,
    UpdateAll,
    UpdateColumns,
    UpdateRows,
    WhenClause,
)
from sleeper_nb.errors import Action, Hint, InvalidInput
from sleeper_nb.model.sql_values import Given, Name, QueryPart, Slice
from sleeper_nb.sql.grammar import (
    StatementReader,
    begins_query,
    is_name,
    opens_query,
    placed,
    read_expression,
    skip_closed,
)
from sleeper_nb.sql.references import LAKES
from sleeper_nb.sql.statement import Composition, Piece, Statement
from sleeper_nb.sql.tokens import CLOSING, DUCKDB_RESERVED, skip_brackets, spells
from sleeper_nb.sql.version_clause import RESERVED, read_clause

_DELETE_HINT: Final = "write DELETE FROM t [AS x] WHERE condition"
_UPDATE_HINT: Final = "write UPDATE t [AS x] SET a = value, b = value WHERE condition"
_SET_HINT: Final = "write SET a = value, b = DEFAULT"
_TO_MERGE: Final = "write MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN"

_COUNTED: Final = "leave it out: the answer has the numbers of rows and the new snapshot"
_CONDITION: Final = "leave it out: write a condition that only these rows meet"
_AT_THE_END: Final = {"RETURNING": _COUNTED, "ORDER": _CONDITION, "LIMIT": _CONDITION}
"""What other databases take at the end, and what to write instead."""


def read_delete(reader: StatementReader, named: NamedQueries | None) -> DeleteRows:
    """Read ``DELETE FROM t [[AS] x] [WHERE condition]``."""
    reader.expect("DELETE", hint=_DELETE_HINT)
    reader.expect("FROM", hint=_DELETE_HINT)
    target = _target(reader, named, _DELETE_HINT)
    if reader.spells("USING"):
        raise reader.error("DELETE takes no USING", f"{_TO_MERGE} DELETE", reader.offset)
    condition = _condition(reader, "DELETE", _DELETE_HINT)
    return DeleteRows(target, condition, named, reader.statement.written)


def read_update(reader: StatementReader, named: NamedQueries | None) -> UpdateRows:
    """Read ``UPDATE t [[AS] x] SET a = value, … [WHERE condition]``."""
    reader.expect("UPDATE", hint=_UPDATE_HINT)
    target = _target(reader, named, _UPDATE_HINT)
    reader.expect("SET", hint=_UPDATE_HINT)
    assignments = _assignments(reader, frozenset({"WHERE"}))
    if reader.spells("FROM"):
        raise reader.error("UPDATE takes no FROM", f"{_TO_MERGE} UPDATE SET a = s.a", reader.offset)
    condition = _condition(reader, "UPDATE", _UPDATE_HINT)
    return UpdateRows(target, assignments, condition, named, reader.statement.written)


def _condition(reader: StatementReader, verb: str, hint: str) -> Slice | None:
    """Read ``[WHERE condition]``, up to the end."""
    condition = read_expression(reader, "a condition", hint) if reader.skip("WHERE") else None
    _expect_end(reader, verb, hint)
    return condition


def _expect_end(reader: StatementReader, verb: str, hint: str) -> None:
    instead = _AT_THE_END.get(reader.word)
    if instead is not None:
        raise reader.error(f"{verb} takes no {reader.word}", instead, reader.offset)
    reader.expect_end(hint)


def _target(reader: StatementReader, named: NamedQueries | None, hint: str) -> Target:
    """Read ``t [[AS] x]``, whose rows are changed."""
    table = reader.read_table(hint)
    alias = _alias(reader, hint)
    if read_clause(reader.statement, reader.at) is not None:
        raise reader.error(f"{table.text!r} cannot be written to at a version", "leave the clause out", reader.offset)
    _check_not_named(reader, table, named)
    return Target(table, alias)


def _check_not_named(reader: StatementReader, table: Name, named: NamedQueries | None) -> None:
    if named is not None and table.text.casefold() in {name.casefold() for name in named.names}:
        raise reader.error(f"{table.text!r} is also a name of the WITH", "give that query another name", table.at)


def _alias(reader: StatementReader, hint: str) -> Name | None:
    if reader.skip("AS"):
        return reader.read_name("an alias", hint)
    token = reader.peek()
    is_alias = token is not None and is_name(token) and token.word not in RESERVED | DUCKDB_RESERVED
    return reader.read_name("an alias", hint) if is_alias and read_clause(reader.statement, reader.at) is None else None


def _assignments(reader: StatementReader, stops: frozenset[str]) -> tuple[Assignment, ...]:
    """Read ``a = value, b = DEFAULT`` after ``SET``, up to one of some words."""
    if reader.spells("("):
        raise reader.error("SET takes one column at a time", _SET_HINT, reader.offset)
    assignments = [_assignment(reader, stops)]
    while reader.skip(","):
        assignments.append(_assignment(reader, stops))
    return tuple(assignments)


def _assignment(reader: StatementReader, stops: frozenset[str]) -> Assignment:
    column = reader.read_path("a column", _SET_HINT)
    reader.expect("=", hint=_SET_HINT)
    return Assignment(column, _value(reader, _SET_HINT, stops | {","}))


def _value(reader: StatementReader, hint: str, stops: frozenset[str]) -> Slice | None:
    """Read the value of a column; None for ``DEFAULT``."""
    value = read_expression(reader, "a value", hint, stops=stops)
    return None if value.text.upper() == "DEFAULT" else value


def _check_no_evolution(reader: StatementReader) -> None:
    if reader.spells("WITH", "SCHEMA", "EVOLUTION"):
        hint = "write ALTER TABLE t ADD COLUMN a INT first, and leave it out"
        raise reader.error("only ALTER TABLE changes the columns of a table", hint, reader.offset)


# MERGE

_UPDATE_AND_INSERT: Final = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
_MERGE_HINT: Final = f"write MERGE INTO t USING s ON t.k = s.k {_UPDATE_AND_INSERT}"
_SOURCE_HINT: Final = "write USING s, USING s VERSION AS OF 3 AS x, USING 's.parquet' AS x, or USING (SELECT …) AS x"
_WHEN_HINT: Final = (
    "write WHEN MATCHED THEN UPDATE SET a = s.a, WHEN MATCHED AND condition THEN DELETE, "
    "WHEN NOT MATCHED THEN INSERT * or WHEN NOT MATCHED BY SOURCE THEN DELETE"
)
_ROW_HINT: Final = "write INSERT (a, b) VALUES (s.a, s.b), or INSERT * for all columns by their names"

CLAUSE_WORDS: Final[dict[RowKind, str]] = {
    "matched": "WHEN MATCHED", "not matched": "WHEN NOT MATCHED", "not matched by source": "WHEN NOT MATCHED BY SOURCE",
}  # fmt: skip
"""How a clause about rows of a kind begins."""
_ACTIONS: Final[dict[RowKind, tuple[str, ...]]] = {
    "matched": ("UPDATE", "DELETE", "DO"), "not matched": ("INSERT", "DO"),
    "not matched by source": ("UPDATE", "DELETE", "DO"),
}  # fmt: skip


def read_merge(reader: StatementReader, named: NamedQueries | None) -> MergeRows:
    """Read ``MERGE INTO t [[AS] x] USING source ON condition WHEN … THEN … …``."""
    reader.expect("MERGE", hint=_MERGE_HINT)
    _check_no_evolution(reader)
    reader.expect("INTO", hint=_MERGE_HINT)
    target = _target(reader, named, _MERGE_HINT)
    reader.expect("USING", hint=_MERGE_HINT)
    source = _source(reader, target)
    condition, using = _matching(reader)
    clauses: list[WhenClause] = []
    while reader.spells("WHEN"):
        clauses.append(_clause(reader))
        if error := not_reached(clauses):
            raise placed(error, reader.statement, clauses[-1].at)
    if not clauses:
        raise reader.error("WHEN is expected", _WHEN_HINT)
    _expect_end(reader, "MERGE", _WHEN_HINT)
    return MergeRows(target, source, condition, using, tuple(clauses), named, reader.statement.written)


def _source(reader: StatementReader, target: Target) -> MergeSource:
    start = reader.at
    table = _source_table(reader)
    has_clause = table is not None and _skip_version(reader)
    alias = _alias(reader, _SOURCE_HINT)
    if alias is not None and reader.spells("("):
        reader.read_names("a column", _SOURCE_HINT)
    if table is not None and not has_clause:
        _skip_version(reader)
    name = alias if alias is not None or table is None else Name(table.text.rpartition(".")[2], table.at)
    if name is not None and target.is_called(name.text):
        hint = f"give it an alias: USING {name.text} AS s" if alias is None else "give one of them another alias"
        raise reader.error(f"the table and the source are both called {name.text!r}", hint, name.at)
    return MergeSource(reader.statement.between(start, reader.at), name)


def _source_table(reader: StatementReader) -> Name | None:
    """Read the name of a table or variable; None for a file, a call or a query in brackets, which are passed over."""
    token = reader.peek()
    if token is not None and token.kind == "string" and not is_name(token):
        reader.at += 1
        return None
    if reader.spells("("):
        if not opens_query(reader):
            raise reader.error("a query is expected in the brackets", _SOURCE_HINT, reader.offset)
        skip_closed(reader)
        return None
    table = reader.read_path("a table, or a query in brackets,", _SOURCE_HINT)
    if reader.spells("("):
        if table.text.upper() in LAKES:
            skip_closed(reader)
            return None
        raise reader.error(f"the call {table}(…) is not a source", "put it in a query: USING (SELECT …) AS s", table.at)
    return table


def _skip_version(reader: StatementReader) -> bool:
    found = read_clause(reader.statement, reader.at)
    reader.at = reader.at if found is None else found[1]
    return found is not None


def _matching(reader: StatementReader) -> tuple[Slice | None, tuple[Name, ...]]:
    """Read ``ON condition``, or ``USING (a, b)``."""
    if reader.skip("USING"):
        return None, reader.read_names("a column", "write USING (a, b)")
    if not reader.skip("ON"):
        raise reader.error("ON is expected", _MERGE_HINT)
    return read_expression(reader, "a condition", _MERGE_HINT, stops=frozenset({"WHEN"})), ()


def _clause(reader: StatementReader) -> WhenClause:
    at = reader.offset
    kind = _kind(reader)
    condition = None
    if reader.skip("AND"):
        hint = f"write {CLAUSE_WORDS[kind]} AND condition THEN …"
        condition = read_expression(reader, "a condition", hint, stops=frozenset({"THEN", "WHEN"}))
    reader.expect("THEN", hint=_WHEN_HINT)
    if reader.word not in _ACTIONS[kind]:
        raise reader.error(f"{' or '.join(_ACTIONS[kind])} is expected after {CLAUSE_WORDS[kind]} THEN", _WHEN_HINT)
    return WhenClause(kind, condition, _action(reader, kind), at)


def _kind(reader: StatementReader) -> RowKind:
    reader.expect("WHEN", hint=_WHEN_HINT)
    if reader.skip("MATCHED"):
        return "matched"
    reader.expect("NOT", "MATCHED", hint=_WHEN_HINT)
    if reader.skip("BY", "SOURCE"):
        return "not matched by source"
    _ = reader.skip("BY", "TARGET")
    return "not matched"


def _action(reader: StatementReader, kind: RowKind) -> MergeAction:
    if reader.skip("DELETE"):
        return DeleteRow()
    if reader.skip("DO"):
        reader.expect("NOTHING", hint="write DO NOTHING")
        return DoNothing()
    return _updating(reader, kind) if reader.skip("UPDATE") else _inserting(reader)


def _updating(reader: StatementReader, kind: RowKind) -> UpdateColumns | UpdateAll:
    at = reader.offset
    if reader.skip("SET", "*") or reader.skip("*") or reader.skip("BY", "NAME"):
        if kind == "not matched by source":
            raise reader.error("these rows have no row of the source", "write UPDATE SET a = value", at)
        return UpdateAll()
    reader.expect("SET", hint="write UPDATE SET a = s.a, or UPDATE SET * for all columns by their names")
    return UpdateColumns(_assignments(reader, frozenset({"WHEN"})))


def _inserting(reader: StatementReader) -> InsertColumns | InsertAll:
    reader.expect("INSERT", hint=_ROW_HINT)
    if reader.skip("*") or reader.skip("BY", "NAME"):
        _ = reader.skip("*")
        return InsertAll()
    if not reader.spells("("):
        raise reader.error("the names of columns, or *, are expected", _ROW_HINT)
    columns = reader.read_list(lambda: reader.read_path("a column", _ROW_HINT), _ROW_HINT)
    reader.expect("VALUES", hint=_ROW_HINT)
    at, stops = reader.offset, frozenset({",", ")"})
    values = reader.read_list(lambda: _value(reader, _ROW_HINT, stops), _ROW_HINT)
    if len(values) != len(columns):
        problem = f"INSERT names {len(columns)} columns and has {len(values)} values"
        raise reader.error(problem, "write one value for each column", at)
    return InsertColumns(tuple(Assignment(*each) for each in zip(columns, values, strict=True)))


def not_reached(clauses: Sequence[WhenClause]) -> InvalidInput | None:
    """Return the error of a last clause to which an earlier one of the same kind leaves no rows."""
    last = clauses[-1]
    if all(each.kind != last.kind or each.condition is not None for each in clauses[:-1]):
        return None
    words = CLAUSE_WORDS[last.kind]
    hint = f"write {words} AND condition THEN … before, or put the clause without a condition last"
    return InvalidInput(f"an earlier {words} has no condition, so no row gets here", hint=hint)


# INSERT


def to_update_rows(table: str) -> Hint:
    upsert = Action(f"upsert {table} $df", f"session.table({table!r}).upsert(df)")
    merge = f"MERGE INTO {table} USING s ON {table}.k = s.k {_UPDATE_AND_INSERT}"
    return "to update rows that exist: ", upsert, f", or {merge}; without its first WHEN, only new rows are added"


_INSERT_HINT: Final = "write INSERT INTO t SELECT …, INSERT INTO t (a, b) VALUES (…) or INSERT INTO t BY NAME SELECT …"
_REPLACE_HINT: Final = (
    "write INSERT INTO t REPLACE WHERE condition SELECT …, or INSERT INTO t REPLACE USING (a, b) SELECT …"
)
_OVERWRITE_HINT: Final = (
    "write INSERT OVERWRITE t SELECT …; or for some rows, INSERT INTO t REPLACE USING (a, b) SELECT …"
)


_DEFAULT: Final = "DEFAULT"


def query_with_values(insert: InsertRows, statement: Statement, values: Sequence[Any]) -> Composition:
    """Return the query of an INSERT with a value in place of each of its defaults."""
    left_out = [(insert.query.start, insert.query.end)]
    left_out += [(each.at, each.at + len(_DEFAULT)) for each in insert.defaults]
    pieces: list[Piece] = []
    begin = 0
    for number, (start, end) in enumerate([*left_out, (len(statement.text), 0)]):
        first, after = statement.index_from(begin), statement.index_from(start)
        pieces += [statement.between(first, after)] if first < after else []
        pieces += [Given(values[number - 1])] if 0 < number <= len(values) else []
        begin = end
    return Composition(tuple(pieces))


def read_insert(reader: StatementReader, named: NamedQueries | None) -> InsertRows | OverwriteRows:
    """Read ``INSERT INTO …`` and ``INSERT OVERWRITE …``."""
    start = reader.offset
    reader.skip("INSERT")
    _check_no_evolution(reader)
    if reader.skip("OVERWRITE"):
        reader.skip("TABLE")
        table = reader.read_table(_OVERWRITE_HINT)
        _check_not_named(reader, table, named)
        columns = _columns(reader, _OVERWRITE_HINT)
        return _overwrite(_inserted(reader, table, start, columns, _OVERWRITE_HINT), ReplacedAll(), named)
    at, kind = reader.offset, reader.peek(1)
    if reader.skip("OR") and kind is not None:
        reader.at += 1
        reader.skip("INTO")
        raise reader.error(f"INSERT takes no OR {kind.text}", to_update_rows(reader.read_table(_INSERT_HINT).text), at)
    reader.expect("INTO", hint=_INSERT_HINT)
    return _insert(reader, named, start)


def _insert(reader: StatementReader, named: NamedQueries | None, start: int) -> InsertRows | OverwriteRows:
    reader.skip("TABLE")
    table = reader.read_table(_INSERT_HINT)
    columns, by_name = _columns(reader, _INSERT_HINT)
    if not reader.skip("REPLACE"):
        return _inserted(reader, table, start, (columns, by_name), _INSERT_HINT)
    _check_not_named(reader, table, named)
    replaced = _replaced(reader)
    if columns is None and not by_name:
        columns, by_name = _columns(reader, _REPLACE_HINT)
    return _overwrite(_inserted(reader, table, start, (columns, by_name), _REPLACE_HINT), replaced, named)


def _overwrite(
    insert: InsertRows, replaced: ReplacedWhere | ReplacedByColumns | ReplacedAll, named: NamedQueries | None
) -> OverwriteRows:
    return OverwriteRows(Target(insert.table), insert, replaced, named, insert.written)


def _replaced(reader: StatementReader) -> ReplacedWhere | ReplacedByColumns:
    """Read ``WHERE condition`` or ``USING (a, b)`` after ``REPLACE``."""
    if reader.skip("WHERE"):
        return ReplacedWhere(read_expression(reader, "a condition", _REPLACE_HINT, query_after=True))
    if reader.skip("USING"):
        return ReplacedByColumns(reader.read_names("a column", _REPLACE_HINT))
    raise reader.error("WHERE or USING is expected after REPLACE", _REPLACE_HINT)


def _columns(reader: StatementReader, hint: str) -> tuple[tuple[Name, ...] | None, bool]:
    """Read ``(a, b)``, ``BY NAME``, ``BY POSITION`` or nothing: the columns, and whether they go by their names."""
    columns = None if not reader.spells("(") or opens_query(reader) else reader.read_names("a column", hint)
    by_name = reader.skip("BY", "NAME")
    if by_name and columns is not None:
        raise reader.error(
            "INSERT takes the names of columns or BY NAME, not both", "leave one of them out", reader.offset
        )
    _ = by_name or reader.skip("BY", "POSITION")
    return columns, by_name


def _inserted(
    reader: StatementReader, table: Name, start: int, columns: tuple[tuple[Name, ...] | None, bool], hint: str
) -> InsertRows:
    """Read the query up to the end; `columns` are its names, and whether it goes by name."""
    if not begins_query(reader):
        raise reader.error("a query or VALUES is expected", hint)
    query, defaults = QueryPart(start, reader.offset), tuple(_defaults(reader))
    _check_end(reader, table)
    return InsertRows(table, query, reader.statement.written, *columns, defaults)


def _defaults(reader: StatementReader) -> Iterator[DefaultValue]:
    """Yield each ``DEFAULT`` that is a value by itself in the rows of a VALUES that comes next."""
    tokens, at = reader.tokens, reader.at + 1
    while reader.spells("VALUES") and spells(tokens, at, "("):
        after, place, begins = skip_brackets(tokens, at), 0, True
        at += 1
        while at < after:
            token = tokens[at]
            if begins and token.word == _DEFAULT and (spells(tokens, at + 1, ",") or spells(tokens, at + 1, ")")):
                yield DefaultValue(token.start, place)
            begins = token.symbol == ","
            place += begins
            at = skip_brackets(tokens, at) if token.symbol in CLOSING else at + 1
        at = after + spells(tokens, after, ",")


_CONFLICTS: Final = (
    ("ON", "CONFLICT", "("), ("ON", "CONFLICT", "DO"), ("ON", "CONFLICT", "ON"), ("ON", "DUPLICATE", "KEY", "UPDATE"),
)  # fmt: skip
"""What follows the query in other databases; otherwise, ``ON conflict`` joins a table on a column of that name."""


def _check_end(reader: StatementReader, table: Name) -> None:
    """Raise for clauses of other databases after the query, which would change rows or return them."""
    while not reader.is_at_end:
        conflict = next((each for each in _CONFLICTS if reader.spells(*each)), None)
        if conflict is not None:
            raise reader.error(f"INSERT takes no {' '.join(conflict[:2])}", to_update_rows(table.text), reader.offset)
        if reader.spells("RETURNING") and reader.statement.rules.takes_returning:
            raise reader.error("INSERT takes no RETURNING", _COUNTED, reader.offset)
        opens = reader.spells("(") or reader.spells("[")
        reader.at = skip_brackets(reader.tokens, reader.at) if opens else reader.at + 1
