"""``CREATE TABLE`` and ``ALTER TABLE`` as values: keys, columns, split points, properties, checks and a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.sql_values import Name, QueryPart
from sleeper_nb.sql.grammar import Constant, StatementReader, begins_query, opens_query
from sleeper_nb.sql.tokens import skip_brackets

_HINT: Final = "write CREATE TABLE t ROW KEYS (a) [SORT KEYS (b)] [SPLITS (…)] [WITH (property = value)] AS SELECT …"
_COLUMN_HINT: Final = "write CREATE TABLE t (a STRING, n INT NOT NULL) ROW KEYS (a)"
_UNIQUE_KEYS: Final = "write ROW KEYS (a) UNIQUE KEYS after the columns; for a table: ALTER TABLE t ADD UNIQUE KEYS"
_AFTER_TYPE: Final = frozenset({
    ",", ")", "NOT", "NULL", "DEFAULT", "COMMENT", "CHECK", "PRIMARY", "UNIQUE", "REFERENCES", "GENERATED",
    "CONSTRAINT", "COLLATE", "USING", "FIRST", "AFTER",
})  # fmt: skip
_DEFAULT_HINT: Final = "a default is a constant: write DEFAULT 0 or DEFAULT 'none'"
_INSTEAD: Final = {
    "PARTITIONED": "ROW KEYS and SPLITS say how a table is partitioned",
    "CLUSTERED": "write ROW KEYS (…), and SPLITS n for the number of leaf partitions",
    "LOCATION": "leave it out: the warehouse says where a table is",
    "STORED": "leave it out: tables are in Parquet files",
    "OPTIONS": "write WITH (property = value)",
    **dict.fromkeys(("CLONE", "SHALLOW", "DEEP"), "write LIKE u for a table like u, or AS FROM u for its rows too"),
}  # fmt: skip
"""Clauses of others, and what to write."""


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column of a new table, or one to add; its type as written, "" where a query gives it."""

    name: Name
    type: str = ""
    not_null: bool = False
    default: Constant = None
    comment: str = ""

    @property
    def nullable_type(self) -> str:
        """Its type as a schema says it: ``double?`` when it may be NULL."""
        return self.type if self.not_null else f"{self.type}?"


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A statement that creates a table.

    The types of columns may be missing where a query gives them. There are split points, or else a number of leaves.
    Checks have a name and a condition, as written. `like` is the table whose schema it gets.
    """

    name: Name
    columns: tuple[ColumnDefinition, ...] = ()
    row_keys: tuple[Name, ...] = ()
    sort_keys: tuple[Name, ...] = ()
    splits: tuple[Constant, ...] | None = None
    leaves: int | None = None
    properties: tuple[tuple[str, str], ...] = ()
    comment: str = ""
    checks: tuple[tuple[str, str], ...] = ()
    unique_keys: bool = False
    or_replace: bool = False
    if_not_exists: bool = False
    like: Name | None = None
    query: QueryPart | None = None

    @property
    def says_anew(self) -> bool:
        """Whether it says something that a table like another takes from that."""
        return bool(self.columns or self.row_keys or self.sort_keys or self.comment or self.unique_keys)


def read_create_table(reader: StatementReader) -> CreateTable | None:
    """Read ``CREATE [OR REPLACE] TABLE …``; None for anything else that is created."""
    begin, start = reader.at, reader.offset
    reader.skip("CREATE")
    or_replace = reader.skip("OR", "REPLACE")
    if not reader.skip("TABLE"):
        if reader.spells("INDEX") or reader.spells("UNIQUE", "INDEX"):
            raise reader.error(
                "there are no indexes", "a table is sorted by its keys, and files have statistics", reader.offset
            )
        reader.at = begin
        return None
    if_not_exists = reader.skip("IF", "NOT", "EXISTS")
    table = CreateTable(reader.read_table(_HINT), or_replace=or_replace, if_not_exists=if_not_exists)
    if or_replace and if_not_exists:
        raise reader.error("OR REPLACE and IF NOT EXISTS contradict each other", "leave one of them out", start)
    if reader.skip("LIKE"):
        table = replace(table, like=reader.read_table(_HINT))
    if reader.spells("(") and not opens_query(reader):
        table = _with_columns(reader, table)
    while not reader.is_at_end and not begins_query(reader) and not reader.spells("AS"):
        table = _with_clause(reader, table)
    if table.like is not None and table.says_anew:
        hint = "leave them out; or write the columns, keys and comments without LIKE"
        raise reader.error("LIKE takes the columns, keys and comments of the other table", hint, table.like.at)
    return _with_query(reader, table, start)


def _with_query(reader: StatementReader, table: CreateTable, start: int) -> CreateTable:
    if reader.skip("AS") or begins_query(reader):
        if not begins_query(reader):
            raise reader.error("a query is expected after AS", _HINT)
        return replace(table, query=QueryPart(start, reader.offset))
    if not table.columns and table.like is None:
        raise reader.error("columns or a query are expected", f"{_HINT}; or {_COLUMN_HINT[6:]}")
    return table


def _with_columns(reader: StatementReader, table: CreateTable) -> CreateTable:
    """Read ``(name TYPE …, CHECK (…), …)``."""
    columns: list[ColumnDefinition] = []
    checks: list[tuple[str, str]] = []
    reader.expect("(", hint=_COLUMN_HINT)
    while not columns or reader.skip(","):
        if reader.word in {"PRIMARY", "UNIQUE", "FOREIGN"}:
            raise _key_refused(reader)
        check = _check(reader)
        if check is None:
            columns.append(_column(reader))
        else:
            checks.append(check)
    reader.expect(")", hint=_COLUMN_HINT)
    return replace(table, columns=tuple(columns), checks=tuple(checks))


def _check(reader: StatementReader) -> tuple[str, str] | None:
    """Read ``[CONSTRAINT name] CHECK (condition)``: its name and condition; None for anything else."""
    name = ""
    if reader.skip("CONSTRAINT"):
        name = reader.read_name("a constraint", _COLUMN_HINT).text
        if reader.word in {"PRIMARY", "UNIQUE", "FOREIGN"}:
            raise _key_refused(reader)
        if not reader.spells("CHECK"):
            raise reader.error("CHECK is expected", "write CONSTRAINT name CHECK (condition)")
    if not reader.skip("CHECK"):
        return None
    if not reader.spells("("):
        raise reader.error("( is expected", "write CHECK (condition)")
    condition = reader.until(frozenset({",", ")", "ENFORCED", "NOT"}))
    reader.skip("ENFORCED")
    return name, condition[1:-1].strip()


def _column(reader: StatementReader) -> ColumnDefinition:
    """Read ``name TYPE [NOT NULL] [DEFAULT x] [COMMENT '…']``."""
    column = ColumnDefinition(reader.read_path("a column", _COLUMN_HINT))
    column = replace(column, type=_type(reader))
    given = set[str]()
    while not reader.is_at_end and reader.word not in {",", ")"}:
        at, word = reader.offset, reader.word
        column = _with_option(reader, column)
        option = "NULL" if word == "NOT" else word
        _check_once(reader, option in given, "NULL or NOT NULL" if option == "NULL" else option, at)
        given.add(option)
    return column


def _type(reader: StatementReader) -> str:
    return " ".join(_type_as_written(reader).split())


def _type_as_written(reader: StatementReader) -> str:
    """Return the text of a type; commas between ``<`` and ``>`` belong to it."""
    start, depth = reader.at, 0
    while not reader.is_at_end and reader.word not in (_AFTER_TYPE if depth == 0 else {")"}):
        token = reader.tokens[reader.at]
        if token.symbol in {"(", "["}:
            reader.at = skip_brackets(reader.tokens, reader.at)
            continue
        begins_field = reader.tokens[reader.at - 1].symbol in {"<", ","}
        if depth > 0 and not begins_field and token.word in _AFTER_TYPE:
            words = "NOT NULL" if reader.spells("NOT", "NULL") else token.word
            hint = "leave it out; a field may be NULL only if its type ends with ?: STRUCT<a: INT, b: INT?>"
            raise reader.error(f"a field of a struct takes no {words}", hint, reader.offset)
        depth += token.symbol.count("<") - token.symbol.count(">")
        reader.at += 1
    return (
        reader.statement.text[reader.tokens[start].start : reader.tokens[reader.at - 1].end]
        if reader.at > start
        else ""
    )


def _with_option(reader: StatementReader, column: ColumnDefinition) -> ColumnDefinition:
    if reader.skip("NOT", "NULL"):
        return replace(column, not_null=True)
    if reader.skip("NULL"):
        return replace(column, not_null=False)
    if reader.skip("DEFAULT"):
        return replace(column, default=reader.read_literal(_DEFAULT_HINT))
    if reader.skip("COMMENT"):
        return replace(column, comment=reader.read_text("a comment", "write COMMENT 'miles'"))
    if reader.word in {"PRIMARY", "UNIQUE", "REFERENCES"}:
        raise _key_refused(reader)
    if reader.word == "CHECK":
        raise reader.error(
            "CHECK is expected after the columns,", "write it after a comma: (n INT, CHECK (n > 0))", reader.offset
        )
    token = reader.peek()
    assert token is not None  # noqa: S101 - the caller looked
    raise reader.error(f"a column has no {token.text!r}", _COLUMN_HINT, reader.offset)


def _key_refused(reader: StatementReader) -> InvalidInput:
    """Return the error of a promise about keys that others have: ``PRIMARY KEY``, ``UNIQUE (a)``, ``REFERENCES``."""
    word = {"PRIMARY": "PRIMARY KEY", "FOREIGN": "FOREIGN KEY"}.get(reader.word, reader.word)
    hint = _UNIQUE_KEYS if reader.word in {"PRIMARY", "UNIQUE"} else "leave it out: tables do not check each other"
    return reader.error(f"{word} is not supported", hint, reader.offset)


def _with_clause(reader: StatementReader, table: CreateTable) -> CreateTable:
    """Read one clause after the name and the columns, such as ``ROW KEYS (a)``."""
    at, word = reader.offset, reader.word
    if reader.skip("ROW", "KEYS") or reader.skip("ROW", "KEY") or reader.skip("CLUSTER", "BY"):
        _check_once(reader, bool(table.row_keys), "ROW KEYS", at)
        return replace(table, row_keys=reader.read_names("a row key", "write ROW KEYS (a, b)"))
    if reader.skip("SORT", "KEYS") or reader.skip("SORT", "KEY") or reader.skip("SORTED", "BY"):
        _check_once(reader, bool(table.sort_keys), "SORT KEYS", at)
        return replace(table, sort_keys=reader.read_names("a sort key", "write SORT KEYS (a, b)"))
    if reader.skip("UNIQUE", "KEYS"):
        _check_once(reader, table.unique_keys, "UNIQUE KEYS", at)
        return replace(table, unique_keys=True)
    if reader.skip("SPLITS"):
        _check_once(reader, table.splits is not None or table.leaves is not None, "SPLITS", at)
        return _with_splits(reader, table)
    if reader.skip("WITH") or reader.skip("TBLPROPERTIES"):
        return replace(table, properties=_properties(reader, table.properties))
    if reader.skip("COMMENT"):
        _check_once(reader, bool(table.comment), "COMMENT", at)
        return replace(table, comment=reader.read_text("a comment", "write COMMENT 'taxi trips'"))
    if reader.skip("USING"):
        form = reader.read_name("a format", "write USING sleeper, or leave it out")
        if form.text.casefold() != "sleeper":
            raise reader.error(
                f"a table of the warehouse is not {form.text!r}", "write USING sleeper, or leave it out", form.at
            )
        return table
    if word in {"PRIMARY", "UNIQUE"}:
        raise _key_refused(reader)
    if word in _INSTEAD:
        raise reader.error(f"CREATE TABLE takes no {word}", _INSTEAD[word], at)
    raise reader.error("AS and a query are expected", _HINT)


def _check_once(reader: StatementReader, is_given: bool, words: str, at: int) -> None:
    if is_given:
        raise reader.error(f"{words} occurs twice", "write it once", at)


def _with_splits(reader: StatementReader, table: CreateTable) -> CreateTable:
    hint = "write SPLITS ('g', 'n') for split points, or SPLITS 16 for 16 leaf partitions of about even size"
    if reader.spells("("):
        return replace(table, splits=reader.read_list(lambda: reader.read_literal(hint), hint))
    at, number = reader.offset, reader.read_literal(hint)
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise reader.error("the number of leaf partitions is a whole number from 1", hint, at)
    return replace(table, leaves=number)


def _properties(reader: StatementReader, before: tuple[tuple[str, str], ...] = ()) -> tuple[tuple[str, str], ...]:
    """Return properties read `before`, and those of ``(name = value, …)``; names and values with or without quotes."""
    hint, found = "write (snapshot.time-retained = '30 d')", list(before)

    def read() -> None:
        at = reader.offset
        name, value = _property(reader, hint)
        if any(name == other for other, _ in found):
            raise reader.error(f"property {name!r} is given twice", "write it once", at)
        found.append((name, value))

    reader.read_list(read, hint)
    return tuple(found)


def _property(reader: StatementReader, hint: str) -> tuple[str, str]:
    name = _property_name(reader, hint)
    reader.expect("=", hint=hint)
    token = reader.peek()
    if token is not None and token.kind in {"string", "quoted"}:
        value = reader.read_text("a value", hint) if token.kind == "string" else reader.read_name("a value", hint).text
    else:
        value = "".join(reader.until(frozenset({",", ")"})).split())
    return name, value


def _property_name(reader: StatementReader, hint: str) -> str:
    """Read the name of a property: in quotes, or words with dots and dashes."""
    token = reader.peek()
    if token is not None and token.kind == "string":
        return reader.read_text("the name of a property", hint)
    if token is not None and token.kind == "quoted":
        return reader.read_name("a property", hint).text
    name = "".join(reader.until(frozenset({"=", ",", ")"})).split())
    if not name:
        raise reader.error("the name of a property is expected", hint)
    return name


# ALTER TABLE

_ALTER_HINT: Final = (
    "write ALTER TABLE t ADD COLUMN a INT, RENAME COLUMN b TO c, DROP COLUMN d, ALTER COLUMN e TYPE BIGINT, "
    "ADD UNIQUE KEYS"
)


AlterAction = Literal[
    "drop column", "drop check", "rename column", "add column", "change type", "set default", "set not null",
    "set comment", "add check", "set unique keys",
]  # fmt: skip
_STEPS: Final[dict[AlterAction, int]] = {"drop column": 0, "drop check": 0, "rename column": 1, "add column": 2}
"""One commit drops columns first, then renames, then adds them; all else comes after."""


@dataclass(frozen=True, slots=True)
class AlterClause:
    """One clause of ``ALTER TABLE``, with the column or check that it names as written; of a rename, both names.

    Its value is the `ColumnDefinition` of a new column, a type, a constant, a condition, or whether something is set.
    If it is optional, nothing happens when what it names exists, or is gone, already.
    """

    action: AlterAction
    names: tuple[Name, ...] = ()
    value: Any = None
    is_optional: bool = False

    @property
    def is_about_check(self) -> bool:
        return self.action in {"add check", "drop check"}


@dataclass(frozen=True, slots=True)
class NewTableName:
    """``RENAME TO u``."""

    to: Name


@dataclass(frozen=True, slots=True)
class SetProperties:
    """``SET TBLPROPERTIES (…)`` and ``UNSET TBLPROPERTIES (…)``; None unsets a property."""

    changes: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class AlterTable:
    """A statement that changes a table: its columns, all in one commit; or its name, or its properties."""

    table: Name
    change: tuple[AlterClause, ...] | NewTableName | SetProperties


def read_alter_table(reader: StatementReader) -> AlterTable | None:
    """Read ``ALTER TABLE …``; None for anything else that is altered."""
    if not reader.skip("ALTER", "TABLE"):
        return None
    table = reader.read_table(_ALTER_HINT)
    if reader.skip("RENAME", "TO"):
        new = NewTableName(reader.read_name("a table", "write RENAME TO u"))
        _expect_alone(reader)
        return AlterTable(table, new)
    if reader.spells("SET", "TBLPROPERTIES") or reader.spells("UNSET", "TBLPROPERTIES"):
        properties = _property_changes(reader)
        _expect_alone(reader)
        return AlterTable(table, properties)
    clauses = [*_alter_clause(reader)]
    while reader.skip(","):
        clauses += _alter_clause(reader)
    reader.expect_end(_ALTER_HINT)
    _check_order(reader, clauses)
    return AlterTable(table, tuple(clauses))


def _expect_alone(reader: StatementReader) -> None:
    if reader.spells(","):
        raise reader.error(
            "this is changed by a commit of its own", "write another statement for the rest", reader.offset
        )
    reader.expect_end(_ALTER_HINT)


def _property_changes(reader: StatementReader) -> SetProperties:
    if reader.skip("SET", "TBLPROPERTIES"):
        return SetProperties(_properties(reader))
    reader.skip("UNSET", "TBLPROPERTIES")
    reader.skip("IF", "EXISTS")
    hint = "write UNSET TBLPROPERTIES (name)"
    names = reader.read_list(lambda: _property_name(reader, hint), hint)
    return SetProperties(tuple((name, None) for name in names))


_ALTER_COLUMN_HINT: Final = (
    "write ALTER COLUMN a TYPE BIGINT, SET DEFAULT 0, DROP DEFAULT, SET NOT NULL or COMMENT 'text'"
)


def _alter_clause(reader: StatementReader) -> Iterator[AlterClause]:
    """Read one clause; one that lists several columns makes several changes."""
    if reader.skip("ADD"):
        yield from _added(reader)
    elif reader.skip("RENAME"):
        reader.skip("COLUMN")
        old = reader.read_name("a column", _ALTER_HINT)
        reader.expect("TO", hint="write RENAME COLUMN a TO b")
        new = reader.read_name("a column", _ALTER_HINT)
        yield AlterClause("rename column", (old, new))
    elif reader.skip("DROP"):
        yield from _dropped(reader)
    elif reader.skip("ALTER"):
        reader.skip("COLUMN")
        yield _changed(reader)
    else:
        raise reader.error("ADD, RENAME, DROP or ALTER is expected", _ALTER_HINT)


def _added(reader: StatementReader) -> Iterator[AlterClause]:
    if reader.skip("UNIQUE", "KEYS"):
        yield AlterClause("set unique keys", value=True)
        return
    if reader.word in {"PRIMARY", "UNIQUE", "FOREIGN"}:
        raise _key_refused(reader)
    check = _check(reader)
    if check is not None:
        name, condition = check
        yield AlterClause("add check", (Name(name),) if name else (), condition)
        return
    _ = reader.skip("COLUMN") or reader.skip("COLUMNS")
    if_not_exists = reader.skip("IF", "NOT", "EXISTS")
    if reader.spells("("):
        yield from reader.read_list(lambda: _addition(reader, is_optional=if_not_exists), _ALTER_HINT)
    else:
        yield _addition(reader, is_optional=if_not_exists)


def _addition(reader: StatementReader, *, is_optional: bool) -> AlterClause:
    column = _column(reader)
    name = column.name
    if not column.type:
        raise reader.error(f"column {name.text!r} has no type", f"write ADD COLUMN {name} INT", name.at)
    if "." in name.text and column.default is not None:
        problem = f"{name.text!r} cannot have a default: it is a field of a struct"
        raise reader.error(problem, "leave it out", name.at)
    return AlterClause("add column", (name,), column, is_optional)


def _dropped(reader: StatementReader) -> Iterator[AlterClause]:
    if reader.skip("UNIQUE", "KEYS"):
        yield AlterClause("set unique keys", value=False)
        return
    if reader.skip("CONSTRAINT"):
        if_exists = reader.skip("IF", "EXISTS")
        check = reader.read_name("a constraint", "write DROP CONSTRAINT name")
        yield AlterClause("drop check", (check,), is_optional=if_exists)
        return
    _ = reader.skip("COLUMN") or reader.skip("COLUMNS")
    if_exists = reader.skip("IF", "EXISTS")
    several = reader.spells("(")
    names = reader.read_names("a column", _ALTER_HINT) if several else (reader.read_name("a column", _ALTER_HINT),)
    yield from (AlterClause("drop column", (name,), is_optional=if_exists) for name in names)


def _changed(reader: StatementReader) -> AlterClause:
    column = reader.read_path("a column", _ALTER_COLUMN_HINT)
    if reader.skip("TYPE") or reader.skip("SET", "DATA", "TYPE") or reader.skip("SET", "TYPE"):
        kind = _type(reader)
        if not kind:
            raise reader.error("a type is expected", _ALTER_COLUMN_HINT)
        return AlterClause("change type", (column,), kind)
    if reader.skip("SET", "DEFAULT"):
        return AlterClause("set default", (column,), reader.read_literal(_DEFAULT_HINT))
    if reader.skip("DROP", "DEFAULT"):
        return AlterClause("set default", (column,))
    if reader.skip("SET", "NOT", "NULL"):
        return AlterClause("set not null", (column,), value=True)
    if reader.skip("DROP", "NOT", "NULL"):
        return AlterClause("set not null", (column,), value=False)
    if reader.skip("COMMENT"):
        return AlterClause("set comment", (column,), reader.read_text("a comment", _ALTER_COLUMN_HINT))
    raise reader.error("what to change is expected", _ALTER_COLUMN_HINT)


def _check_order(reader: StatementReader, clauses: Sequence[AlterClause]) -> None:
    """Raise when the order of the clauses matters."""
    steps = [_STEPS.get(each.action, len(_STEPS)) for each in clauses]
    is_in_order = steps == sorted(steps)
    named = set[tuple[bool, str]]()
    for clause in clauses:
        for key, name in {(clause.is_about_check, name.text.casefold()): name for name in clause.names}.items():
            if key in named and not (is_in_order and clause.action == "add column"):
                problem = f"{'check' if clause.is_about_check else 'column'} {name.text!r} is in two clauses"
                raise reader.error(problem, "write two statements, so that their order is clear", name.at)
            named.add(key)
