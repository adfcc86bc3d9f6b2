"""``ALTER TABLE``: what a statement changes of a table's columns, properties or name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from sleeper_nb.model.sql_values import Name
from sleeper_nb.sql.grammar import Constant, StatementReader
from sleeper_nb.sql.table_definition import (
    DEFAULT_HINT,
    ColumnDefinition,
    key_refused,
    read_check,
    read_column,
    read_properties,
    read_property_name,
    read_type,
)

_HINT: Final = (
    "write ALTER TABLE t ADD COLUMN a INT, RENAME COLUMN b TO c, DROP COLUMN d, ALTER COLUMN e TYPE BIGINT, "
    "ADD UNIQUE KEYS"
)
_COLUMN_HINT: Final = "write ALTER COLUMN a TYPE BIGINT, SET DEFAULT 0, DROP DEFAULT, SET NOT NULL or COMMENT 'text'"


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """``ADD COLUMN a INT``; nothing happens when it exists, with `if_not_exists`."""

    column: ColumnDefinition
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenamedColumn:
    """``RENAME COLUMN a TO b``."""

    name: Name
    to: Name


@dataclass(frozen=True, slots=True)
class DroppedColumn:
    """``DROP COLUMN a``; nothing happens when there is none, with `if_exists`."""

    name: Name
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlteredColumn:
    """``ALTER COLUMN a …``: a type, a default, a comment, or whether it may be null.

    Parameters
    ----------
    value
        The new type, constant or comment; None drops a default, as "" does a comment.
    """

    name: Name
    what: Literal["type", "default", "comment", "not null", "null"]
    value: Constant = None


@dataclass(frozen=True, slots=True)
class AddedCheck:
    """``ADD [CONSTRAINT name] CHECK (condition)``."""

    name: str
    condition: str


@dataclass(frozen=True, slots=True)
class DroppedCheck:
    """``DROP CONSTRAINT name``."""

    name: Name
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class UniqueKeys:
    """``ADD UNIQUE KEYS`` and ``DROP UNIQUE KEYS``: whether no two rows may have the same row keys."""

    unique: bool


@dataclass(frozen=True, slots=True)
class NewTableName:
    """``RENAME TO u``."""

    to: Name


@dataclass(frozen=True, slots=True)
class SetProperties:
    """``SET TBLPROPERTIES (…)`` and ``UNSET TBLPROPERTIES (…)``; None unsets a property."""

    changes: tuple[tuple[str, str | None], ...]


ColumnAlteration = AddedColumn | RenamedColumn | DroppedColumn | AlteredColumn | AddedCheck | DroppedCheck | UniqueKeys


@dataclass(frozen=True, slots=True)
class AlterTable:
    """A statement that changes a table: its columns, all in one commit; or its name, or its properties."""

    table: Name
    change: tuple[ColumnAlteration, ...] | NewTableName | SetProperties


def read_alter_table(reader: StatementReader) -> AlterTable | None:
    """Read ``ALTER TABLE …``; None for anything else that is altered."""
    if not reader.skip("ALTER", "TABLE"):
        return None
    table = reader.read_table(_HINT)
    if reader.skip("RENAME", "TO"):
        new = NewTableName(reader.read_name("a table", "write RENAME TO u"))
        _expect_alone(reader)
        return AlterTable(table, new)
    if reader.spells("SET", "TBLPROPERTIES") or reader.spells("UNSET", "TBLPROPERTIES"):
        properties = _property_changes(reader)
        _expect_alone(reader)
        return AlterTable(table, properties)
    changes = [*_clause(reader)]
    while reader.skip(","):
        changes += _clause(reader)
    reader.expect_end(_HINT)
    _check_order(reader, changes)
    return AlterTable(table, tuple(changes))


def _expect_alone(reader: StatementReader) -> None:
    if reader.spells(","):
        raise reader.error(
            "this is changed by a commit of its own", "write another statement for the rest", reader.offset
        )
    reader.expect_end(_HINT)


def _property_changes(reader: StatementReader) -> SetProperties:
    if reader.skip("SET", "TBLPROPERTIES"):
        return SetProperties(read_properties(reader))
    reader.skip("UNSET", "TBLPROPERTIES")
    reader.skip("IF", "EXISTS")
    hint = "write UNSET TBLPROPERTIES (name)"
    names = reader.read_list(lambda: read_property_name(reader, hint), hint)
    return SetProperties(tuple((name, None) for name in names))


def _clause(reader: StatementReader) -> Iterator[ColumnAlteration]:
    """Read one clause; one that lists several columns makes several changes."""
    if reader.skip("ADD"):
        yield from _added(reader)
    elif reader.skip("RENAME"):
        reader.skip("COLUMN")
        old = reader.read_name("a column", _HINT)
        reader.expect("TO", hint="write RENAME COLUMN a TO b")
        yield RenamedColumn(old, reader.read_name("a column", _HINT))
    elif reader.skip("DROP"):
        yield from _dropped(reader)
    elif reader.skip("ALTER"):
        reader.skip("COLUMN")
        yield _changed(reader)
    else:
        raise reader.error("ADD, RENAME, DROP or ALTER is expected", _HINT)


def _added(reader: StatementReader) -> Iterator[ColumnAlteration]:
    if reader.skip("UNIQUE", "KEYS"):
        yield UniqueKeys(unique=True)
        return
    if reader.word in {"PRIMARY", "UNIQUE", "FOREIGN"}:
        raise key_refused(reader)
    check = read_check(reader)
    if check is not None:
        yield AddedCheck(*check)
        return
    _ = reader.skip("COLUMN") or reader.skip("COLUMNS")
    if_not_exists = reader.skip("IF", "NOT", "EXISTS")
    if reader.spells("("):
        for column in reader.read_list(lambda: read_column(reader), _HINT):
            yield AddedColumn(column, if_not_exists)
    else:
        yield AddedColumn(read_column(reader), if_not_exists)


def _dropped(reader: StatementReader) -> Iterator[ColumnAlteration]:
    if reader.skip("UNIQUE", "KEYS"):
        yield UniqueKeys(unique=False)
        return
    if reader.skip("CONSTRAINT"):
        if_exists = reader.skip("IF", "EXISTS")
        yield DroppedCheck(reader.read_name("a constraint", "write DROP CONSTRAINT name"), if_exists)
        return
    _ = reader.skip("COLUMN") or reader.skip("COLUMNS")
    if_exists = reader.skip("IF", "EXISTS")
    several = reader.spells("(")
    names = reader.read_names("a column", _HINT) if several else (reader.read_name("a column", _HINT),)
    yield from (DroppedColumn(name, if_exists) for name in names)


def _changed(reader: StatementReader) -> AlteredColumn:
    column = reader.read_path("a column", _COLUMN_HINT)
    if reader.skip("TYPE") or reader.skip("SET", "DATA", "TYPE") or reader.skip("SET", "TYPE"):
        kind = read_type(reader)
        if not kind:
            raise reader.error("a type is expected", _COLUMN_HINT)
        return AlteredColumn(column, "type", kind)
    if reader.skip("SET", "DEFAULT"):
        return AlteredColumn(column, "default", reader.read_literal(DEFAULT_HINT))
    if reader.skip("DROP", "DEFAULT"):
        return AlteredColumn(column, "default")
    if reader.skip("SET", "NOT", "NULL"):
        return AlteredColumn(column, "not null")
    if reader.skip("DROP", "NOT", "NULL"):
        return AlteredColumn(column, "null")
    if reader.skip("COMMENT"):
        return AlteredColumn(column, "comment", reader.read_text("a comment", _COLUMN_HINT))
    raise reader.error("what to change is expected", _COLUMN_HINT)


def _check_order(reader: StatementReader, changes: list[ColumnAlteration]) -> None:
    """Raise when the order of the clauses matters: one commit drops columns first, then renames, then adds them."""
    steps = [_step(change) for change in changes]
    is_in_order = steps == sorted(steps)
    named: set[str] = set()
    for change in changes:
        for name in _names(change):
            key = name.text.casefold()
            if key in named and not (is_in_order and isinstance(change, AddedColumn)):
                problem = f"column {name.text!r} is in two clauses"
                raise reader.error(problem, "write two statements, so that their order is clear", name.at)
            named.add(key)


def _step(change: ColumnAlteration) -> int:
    order = (DroppedColumn, DroppedCheck), (RenamedColumn,), (AddedColumn,), (AlteredColumn,), (AddedCheck, UniqueKeys)
    return next(step for step, kinds in enumerate(order) if isinstance(change, kinds))


def _names(change: ColumnAlteration) -> tuple[Name, ...]:
    match change:
        case AddedColumn(column):
            return (column.name,)
        case RenamedColumn(name, to):
            return (name,) if name.text.casefold() == to.text.casefold() else (name, to)
        case DroppedColumn(name) | AlteredColumn(name, _, _):
            return (name,)
        case _:
            return ()
