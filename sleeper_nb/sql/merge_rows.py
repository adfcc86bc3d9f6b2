"""``MERGE INTO``: what happens to rows of a table that match rows of a source, and to those that match none.

Conditions, values and the source are slices of the statement: the engine reads them as they were written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sleeper_nb.change.row_changes import (
    Assignment,
    DeleteRow,
    DoNothing,
    InsertAll,
    InsertColumns,
    MergeAction,
    MergeRows,
    MergeSource,
    NamedQueries,
    RowKind,
    Target,
    UpdateAll,
    UpdateColumns,
    WhenClause,
)
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.sql_values import Name, Slice
from sleeper_nb.sql.delete_update import (
    check_no_evolution,
    check_once,
    read_alias,
    read_assignments,
    read_distinct_names,
    read_target,
    read_value,
)
from sleeper_nb.sql.expressions import read_expression, skip_closed
from sleeper_nb.sql.grammar import StatementReader, is_name, opens_query, placed
from sleeper_nb.sql.version_clause import read_clause

_HINT: Final = "write MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
_SOURCE_HINT: Final = "write USING s, USING s VERSION AS OF 3 AS x, USING 's.parquet' AS x, or USING (SELECT …) AS x"
_WHEN_HINT: Final = (
    "write WHEN MATCHED THEN UPDATE SET a = s.a, WHEN MATCHED AND condition THEN DELETE, "
    "WHEN NOT MATCHED THEN INSERT * or WHEN NOT MATCHED BY SOURCE THEN DELETE"
)
_INSERT_HINT: Final = "write INSERT (a, b) VALUES (s.a, s.b), or INSERT * for all columns by their names"

CLAUSE_WORDS: Final[dict[RowKind, str]] = {
    "matched": "WHEN MATCHED", "not matched": "WHEN NOT MATCHED", "not matched by source": "WHEN NOT MATCHED BY SOURCE",
}  # fmt: skip
"""How a clause about rows of a kind begins."""
_ACTIONS: Final[dict[RowKind, tuple[str, ...]]] = {
    "matched": ("UPDATE", "DELETE", "DO"), "not matched": ("INSERT", "DO"),
    "not matched by source": ("UPDATE", "DELETE", "DO"),
}  # fmt: skip
_ACTION_HINTS: Final[dict[RowKind, str]] = {
    "matched": "write UPDATE SET a = s.a, UPDATE SET *, DELETE or DO NOTHING",
    "not matched": "write INSERT (a, b) VALUES (s.a, s.b), INSERT * or DO NOTHING",
    "not matched by source": "write UPDATE SET a = value, DELETE or DO NOTHING",
}


def read_merge(reader: StatementReader, named: NamedQueries | None) -> MergeRows:
    """Read ``MERGE INTO t [[AS] x] USING source ON condition WHEN … THEN … …``."""
    reader.expect("MERGE", hint=_HINT)
    check_no_evolution(reader)
    reader.expect("INTO", hint=_HINT)
    target = read_target(reader, named, _HINT)
    reader.expect("USING", hint=_HINT)
    source = _source(reader, target)
    condition, using = _condition(reader)
    clauses: list[WhenClause] = []
    while reader.spells("WHEN"):
        clauses.append(_clause(reader, target))
        if error := not_reached(clauses):
            raise placed(error, reader.statement, clauses[-1].at)
    if not clauses:
        raise reader.error("WHEN is expected", _WHEN_HINT)
    if reader.spells("RETURNING"):
        hint = "leave it out: the answer has the numbers of rows and the new snapshot"
        raise reader.error("MERGE takes no RETURNING", hint, reader.offset)
    if not reader.is_at_end:
        raise reader.error("WHEN or the end of the statement is expected", _WHEN_HINT)
    return MergeRows(target, source, condition, using, tuple(clauses), named, reader.statement.written)


def _source(reader: StatementReader, target: Target) -> MergeSource:
    start = reader.at
    table = _source_table(reader)
    has_clause = table is not None and _skip_version(reader)
    alias = read_alias(reader, _SOURCE_HINT)
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
    """Read the name of a table or variable; None for a file or a query in brackets, which are passed over."""
    token = reader.peek()
    if reader.spells("$") and (named := reader.peek(1)) is not None:
        raise reader.error("a variable is named as a table", f"write {named.text}, without $", reader.offset)
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
        raise reader.error(f"the call {table}(…) is not a source", "put it in a query: USING (SELECT …) AS s", table.at)
    return table


def _skip_version(reader: StatementReader) -> bool:
    """Pass over a version clause, if it is there."""
    found = read_clause(reader.statement, reader.at)
    reader.at = reader.at if found is None else found[1]
    return found is not None


def _condition(reader: StatementReader) -> tuple[Slice | None, tuple[Name, ...]]:
    """Read ``ON condition``, or ``USING (a, b)``."""
    if reader.skip("USING"):
        return None, read_distinct_names(reader, "write USING (a, b)")
    if not reader.skip("ON"):
        raise reader.error("ON is expected", _HINT)
    return read_expression(reader, "a condition", _HINT, stops=frozenset({"WHEN"})), ()


def _clause(reader: StatementReader, target: Target) -> WhenClause:
    at = reader.offset
    kind = _kind(reader)
    condition = None
    if reader.skip("AND"):
        hint = f"write {CLAUSE_WORDS[kind]} AND condition THEN …"
        condition = read_expression(reader, "a condition", hint, stops=frozenset({"THEN", "WHEN"}))
    reader.expect("THEN", hint=_WHEN_HINT)
    if reader.word not in _ACTIONS[kind]:
        known = reader.word in {"UPDATE", "DELETE", "INSERT"}
        problem = f"{CLAUSE_WORDS[kind]} takes no {reader.word}" if known else "what to do is expected"
        raise reader.error(problem, _ACTION_HINTS[kind], reader.offset if known else None)
    return WhenClause(kind, condition, _action(reader, kind, target), at)


def _kind(reader: StatementReader) -> RowKind:
    reader.expect("WHEN", hint=_WHEN_HINT)
    if reader.skip("MATCHED"):
        if reader.spells("BY"):
            raise reader.error("MATCHED takes no BY", "write WHEN MATCHED, for rows of both sides", reader.offset)
        return "matched"
    reader.expect("NOT", "MATCHED", hint=_WHEN_HINT)
    if reader.skip("BY", "SOURCE"):
        return "not matched by source"
    _ = reader.skip("BY", "TARGET")
    return "not matched"


def _action(reader: StatementReader, kind: RowKind, target: Target) -> MergeAction:
    if reader.skip("DELETE"):
        return DeleteRow()
    if reader.skip("DO"):
        reader.expect("NOTHING", hint="write DO NOTHING")
        return DoNothing()
    return _update(reader, kind, target) if reader.skip("UPDATE") else _insert(reader, target)


def _update(reader: StatementReader, kind: RowKind, target: Target) -> UpdateColumns | UpdateAll:
    at = reader.offset
    if reader.skip("SET", "*") or reader.skip("*") or reader.skip("BY", "NAME"):
        if kind == "not matched by source":
            raise reader.error("these rows have no row of the source", "write UPDATE SET a = value", at)
        return UpdateAll()
    reader.expect("SET", hint="write UPDATE SET a = s.a, or UPDATE SET * for all columns by their names")
    return UpdateColumns(read_assignments(reader, target, frozenset({"WHEN"})))


def _insert(reader: StatementReader, target: Target) -> InsertColumns | InsertAll:
    reader.expect("INSERT", hint=_INSERT_HINT)
    if reader.skip("*") or reader.skip("BY", "NAME"):
        _ = reader.skip("*")
        return InsertAll()
    if not reader.spells("("):
        raise reader.error("the names of columns, or *, are expected", _INSERT_HINT)
    columns = reader.read_list(lambda: reader.read_path("a column", _INSERT_HINT), _INSERT_HINT)
    check_once(reader, target, columns)
    reader.expect("VALUES", hint=_INSERT_HINT)
    at, stops = reader.offset, frozenset({",", ")"})
    values = reader.read_list(lambda: read_value(reader, _INSERT_HINT, stops), _INSERT_HINT)
    if len(values) != len(columns):
        problem = f"INSERT names {len(columns)} columns and has {len(values)} values"
        raise reader.error(problem, "write one value for each column", at)
    if reader.spells(","):
        raise reader.error("INSERT adds one row for each row of the source", "leave out the second list", reader.offset)
    return InsertColumns(tuple(Assignment(*each) for each in zip(columns, values, strict=True)))


def not_reached(clauses: Sequence[WhenClause]) -> InvalidInput | None:
    """Return the error of a last clause to which an earlier one of the same kind leaves no rows."""
    last = clauses[-1]
    if all(each.kind != last.kind or each.condition is not None for each in clauses[:-1]):
        return None
    words = CLAUSE_WORDS[last.kind]
    hint = f"write {words} AND condition THEN … before, or put the clause without a condition last"
    return InvalidInput(f"an earlier {words} has no condition, so no row gets here", hint=hint)
