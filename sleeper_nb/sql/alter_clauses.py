"""The clauses of ``ALTER TABLE`` that change the schema, as alterations of the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sleeper_nb.model.evolution import (
    AddCheck,
    AddColumn,
    AddMember,
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
)
from sleeper_nb.model.schema import Check, free_check_name, parse_type
from sleeper_nb.model.sql_values import Name
from sleeper_nb.sql.grammar import StatementReader
from sleeper_nb.sql.table_statements import (
    ALTER_HINT,
    DEFAULT_HINT,
    AlterClause,
    key_refused,
    read_check,
    read_column,
    read_type,
)

_ALTER_COLUMN_HINT: Final = (
    "write ALTER COLUMN a TYPE BIGINT, SET DEFAULT 0, DROP DEFAULT, SET NOT NULL or COMMENT 'text'"
)


def read_clauses(reader: StatementReader) -> tuple[AlterClause, ...]:
    """Read all clauses, up to the end of the statement."""
    clauses = [*_clause(reader)]
    while reader.skip(","):
        clauses += _clause(reader)
    reader.expect_end(ALTER_HINT)
    _check_order(reader, clauses)
    return tuple(clauses)


def _clause(reader: StatementReader) -> Iterator[AlterClause]:
    """Read one clause; one that lists several columns makes several changes."""
    if reader.skip("ADD"):
        yield from _added(reader)
    elif reader.skip("RENAME"):
        reader.skip("COLUMN")
        old = reader.read_name("a column", ALTER_HINT)
        reader.expect("TO", hint="write RENAME COLUMN a TO b")
        new = reader.read_name("a column", ALTER_HINT)
        yield AlterClause(RenameColumn(old.text, new.text), (old, new))
    elif reader.skip("DROP"):
        yield from _dropped(reader)
    elif reader.skip("ALTER"):
        reader.skip("COLUMN")
        yield _changed(reader)
    else:
        raise reader.error("ADD, RENAME, DROP or ALTER is expected", ALTER_HINT)


def _added(reader: StatementReader) -> Iterator[AlterClause]:
    if reader.skip("UNIQUE", "KEYS"):
        yield AlterClause(SetUniqueKeys(unique=True))
        return
    if reader.word in {"PRIMARY", "UNIQUE", "FOREIGN"}:
        raise key_refused(reader)
    check = read_check(reader)
    if check is not None:
        name, condition = check
        yield AlterClause(AddCheck(Check(name or free_check_name(()), condition)), (Name(name),) if name else ())
        return
    _ = reader.skip("COLUMN") or reader.skip("COLUMNS")
    if_not_exists = reader.skip("IF", "NOT", "EXISTS")
    if reader.spells("("):
        yield from reader.read_list(lambda: _addition(reader, is_optional=if_not_exists), ALTER_HINT)
    else:
        yield _addition(reader, is_optional=if_not_exists)


def _addition(reader: StatementReader, *, is_optional: bool) -> AlterClause:
    column = read_column(reader)
    name = column.name
    if not column.type:
        raise reader.error(f"column {name.text!r} has no type", f"write ADD COLUMN {name} INT", name.at)
    if "." in name.text and column.default is not None:
        problem = f"{name.text!r} cannot have a default: it is a field of a struct"
        raise reader.error(problem, "leave it out", name.at)
    given = {"type": column.nullable_type, "comment": column.comment or None}
    (alteration,) = additions({name.text: given})
    return AlterClause(alteration, (name,), column.default, is_optional)


def _dropped(reader: StatementReader) -> Iterator[AlterClause]:
    if reader.skip("UNIQUE", "KEYS"):
        yield AlterClause(SetUniqueKeys(unique=False))
        return
    if reader.skip("CONSTRAINT"):
        if_exists = reader.skip("IF", "EXISTS")
        check = reader.read_name("a constraint", "write DROP CONSTRAINT name")
        yield AlterClause(DropCheck(check.text), (check,), is_optional=if_exists)
        return
    _ = reader.skip("COLUMN") or reader.skip("COLUMNS")
    if_exists = reader.skip("IF", "EXISTS")
    several = reader.spells("(")
    names = reader.read_names("a column", ALTER_HINT) if several else (reader.read_name("a column", ALTER_HINT),)
    yield from (AlterClause(DropColumn(name.text), (name,), is_optional=if_exists) for name in names)


def _changed(reader: StatementReader) -> AlterClause:
    column = reader.read_path("a column", _ALTER_COLUMN_HINT)
    if reader.skip("TYPE") or reader.skip("SET", "DATA", "TYPE") or reader.skip("SET", "TYPE"):
        kind = read_type(reader)
        if not kind:
            raise reader.error("a type is expected", _ALTER_COLUMN_HINT)
        return AlterClause(WidenColumn(column.text, parse_type(kind)), (column,))
    if reader.skip("SET", "DEFAULT"):
        return AlterClause(SetDefault(column.text, None), (column,), reader.read_literal(DEFAULT_HINT))
    if reader.skip("DROP", "DEFAULT"):
        return AlterClause(SetDefault(column.text, None), (column,))
    if reader.skip("SET", "NOT", "NULL"):
        return AlterClause(SetNotNull(column.text, not_null=True), (column,))
    if reader.skip("DROP", "NOT", "NULL"):
        return AlterClause(SetNotNull(column.text, not_null=False), (column,))
    if reader.skip("COMMENT"):
        comment = reader.read_text("a comment", _ALTER_COLUMN_HINT)
        return AlterClause(SetComment(column.text, comment or None), (column,))
    raise reader.error("what to change is expected", _ALTER_COLUMN_HINT)


def _check_order(reader: StatementReader, clauses: list[AlterClause]) -> None:
    """Raise when the order of the clauses matters: one commit drops columns first, then renames, then adds them."""
    steps = [_step(each.alteration) for each in clauses]
    is_in_order = steps == sorted(steps)
    named: set[str] = set()
    for clause in clauses:
        for name in _columns(clause):
            key = name.text.casefold()
            if key in named and not (is_in_order and isinstance(clause.alteration, AddColumn | AddMember)):
                problem = f"column {name.text!r} is in two clauses"
                raise reader.error(problem, "write two statements, so that their order is clear", name.at)
            named.add(key)


def _step(alteration: SchemaAlteration) -> int:
    match alteration:
        case DropColumn() | DropCheck():
            return 0
        case RenameColumn():
            return 1
        case AddColumn() | AddMember():
            return 2
        case AddCheck() | SetUniqueKeys():
            return 4
        case _:
            return 3


def _columns(clause: AlterClause) -> tuple[Name, ...]:
    """Return the columns that a clause names; of a rename to the same name in another case, the old one."""
    match clause.alteration:
        case AddCheck() | DropCheck():
            return ()
        case RenameColumn(name, to) if name.casefold() == to.casefold():
            return clause.names[:1]
        case _:
            return clause.names
