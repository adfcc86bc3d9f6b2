"""Statements that change the warehouse, as values: what our own grammar says, and where a query is in it.

The engines run none of these: what is of our own grammar is cut out, and the query that is left goes to an engine with
all its version clauses. Of statements that change rows, conditions and values go to it too, as they were written.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from sleeper_nb.edit.row_edit import InsertRows, NamedQueries, OverwriteRows, RowEdit
from sleeper_nb.errors import Action, Hint, InvalidInput
from sleeper_nb.model.sql_values import DIALECTS, Name, QueryPart
from sleeper_nb.sql.grammar import Constant, StatementReader, is_name
from sleeper_nb.sql.references import OUR_WORDS, end_of_explain, names_of_with
from sleeper_nb.sql.row_statements import read_delete, read_insert, read_merge, read_update, to_update_rows
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.table_statements import AlterTable, CreateTable, read_alter_table, read_create_table

_LISTED: Final = "CALL sys.help() lists the procedures"
_CALL_HINT: Final = f"write CALL sys.compact('t') or CALL sys.compact(table => 't'); {_LISTED}"


@dataclass(frozen=True, slots=True)
class DropTable:
    """``DROP TABLE t``."""

    table: Name
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """``TRUNCATE TABLE t``."""

    table: Name


@dataclass(frozen=True, slots=True)
class CommentOn:
    """``COMMENT ON TABLE t IS '…'``, or on one of its columns; an empty comment removes it."""

    table: Name
    column: Name | None
    comment: str


@dataclass(frozen=True, slots=True)
class DescribeHistory:
    """``DESCRIBE HISTORY t``."""

    table: Name
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class CallProcedure:
    """``CALL sys.compact('t')``: arguments by position, then by name."""

    procedure: Name
    arguments: tuple[Constant, ...]
    named: tuple[tuple[Name, Constant], ...]


Change = (
    CreateTable
    | InsertRows
    | RowEdit
    | DropTable
    | TruncateTable
    | AlterTable
    | CommentOn
    | DescribeHistory
    | CallProcedure
)


@dataclass(frozen=True, slots=True)
class WritingStatement:
    """A statement of our own grammar, perhaps with ``EXPLAIN`` before it."""

    statement: Statement
    change: Change
    is_explained: bool = False

    @property
    def query(self) -> QueryPart | None:
        change = self.change.rows if isinstance(self.change, OverwriteRows) else self.change
        return change.query if isinstance(change, CreateTable | InsertRows) else None


def read_writing_statement(statement: Statement) -> WritingStatement | None:
    """Return what a statement of our own grammar says; None for any other, such as a query.

    Raises when it begins like a supported statement and goes on otherwise; or when a second statement follows.
    """
    start = end_of_explain(statement)
    names, verb = names_of_with(statement, start)
    word = statement.tokens[verb].word if verb < len(statement.tokens) else ""
    change: Change | None = None
    if word in _ROW_READERS:
        named = NamedQueries(statement.between(start, verb), names) if names else None
        change = _ROW_READERS[word](StatementReader(statement, verb), named)
    elif word in _READERS and not names:
        change = _READERS[word](StatementReader(statement, verb))
    elif word in OUR_WORDS and not names:
        _refuse_foreign(StatementReader(statement, verb))
    return None if change is None else WritingStatement(statement, change, is_explained=start > 0)


def is_writing(text: str) -> bool:
    """Return whether a text begins like a statement of our own grammar; False for one that cannot be read."""
    for dialect in DIALECTS:
        try:
            return read_writing_statement(Statement.of(text, dialect=dialect)) is not None
        except InvalidInput:
            continue
    return False


def _drop(reader: StatementReader) -> DropTable | None:
    hint: Hint = "write DROP TABLE [IF EXISTS] t"
    if not reader.skip("DROP", "TABLE"):
        return None
    if_exists = reader.skip("IF", "EXISTS")
    table = reader.read_table(hint)
    reader.expect_end(hint)
    return DropTable(table, if_exists)


def _truncate(reader: StatementReader) -> TruncateTable:
    reader.skip("TRUNCATE")
    reader.skip("TABLE")
    hint = "write TRUNCATE TABLE t"
    table = reader.read_table(hint)
    reader.expect_end(hint)
    return TruncateTable(table)


def _comment(reader: StatementReader) -> CommentOn | None:
    if not reader.skip("COMMENT", "ON"):
        return None
    hint = "write COMMENT ON TABLE t IS 'text', or COMMENT ON COLUMN t.a IS 'text'"
    column = None
    if reader.skip("TABLE"):
        table = reader.read_table(hint)
    else:
        reader.expect("COLUMN", hint=hint)
        table = reader.read_name("a table", hint)
        reader.expect(".", hint=hint)
        column = reader.read_name("a column", hint)
    reader.expect("IS", hint=hint)
    comment = "" if reader.skip("NULL") else reader.read_text("a comment", hint)
    reader.expect_end(hint)
    return CommentOn(table, column, comment)


def _describe(reader: StatementReader) -> DescribeHistory | None:
    _ = reader.skip("DESCRIBE") or reader.skip("DESC")
    if not reader.skip("HISTORY") or reader.is_at_end:  # a table of that name is described
        return None
    hint = "write DESCRIBE HISTORY t [LIMIT 10]"
    table = reader.read_table(hint, why_no_version="has one history, of all its versions")
    limit = None
    if reader.skip("LIMIT"):
        at, number = reader.offset, reader.read_literal(hint)
        if not isinstance(number, int) or isinstance(number, bool):
            raise reader.error("a whole number is expected after LIMIT", hint, at)
        limit = number
    reader.expect_end(hint)
    return DescribeHistory(table, limit)


def _call(reader: StatementReader) -> CallProcedure:
    reader.skip("CALL")
    whole = reader.read_path("a procedure", _CALL_HINT)
    schema, _, procedure = whole.text.partition(".")
    if schema.casefold() != "sys" or not procedure:
        hint = f"write CALL sys.{whole.text}('t'); {_LISTED}" if whole.text.isidentifier() else _CALL_HINT
        raise reader.error(f"there is no procedure {whole.text!r}", hint, whole.at)
    arguments: list[Constant] = []
    named: list[tuple[Name, Constant]] = []
    reader.expect("(", hint=_CALL_HINT)
    while not reader.skip(")"):
        if arguments or named:
            reader.expect(",", hint=_CALL_HINT)
        after = reader.peek(1)
        if after is not None and after.symbol == "=>":
            token = reader.peek()
            assert token is not None  # noqa: S101 - one follows it
            reader.at += 2  # the name may be a word of SQL: table => 't'
            named.append((Name(token.text, token.start), reader.read_literal(_CALL_HINT)))
        elif named:
            raise reader.error("an argument without a name follows one with a name", "name it too: argument => value")
        else:
            arguments.append(reader.read_literal(_CALL_HINT))
    reader.expect_end(_CALL_HINT)
    return CallProcedure(Name(procedure, whole.at), tuple(arguments), tuple(named))


_READERS: Final = {
    "CREATE": read_create_table, "DROP": _drop, "TRUNCATE": _truncate, "ALTER": read_alter_table,
    "COMMENT": _comment, "DESCRIBE": _describe, "DESC": _describe, "CALL": _call,
}  # fmt: skip
"""How a statement is read that begins with a word."""

_ROW_READERS: Final = {"INSERT": read_insert, "DELETE": read_delete, "UPDATE": read_update, "MERGE": read_merge}
"""How a statement about rows is read, which may have a ``WITH`` before it."""

_FOREIGN: Final[Mapping[str, tuple[str, str, str] | Callable[[str], Hint]]] = {
    "OPTIMIZE": ("merge files", "compact {table}", "session.table({table!r}).maintenance.compact()"),
    "VACUUM": ("see which old files could be deleted", "collect-garbage {table}",
               "session.table({table!r}).maintenance.collect_garbage()"),
    "RESTORE": ("restore a version", "rollback {table} 1", "session.table({table!r}).rollback(1)"),
    "SHOW CREATE TABLE": ("see its columns and rules", "describe {table} --fields", "session.table({table!r}).schema"),
    "COPY FROM": ("load a file", "ingest {table} {file}", "session.table({table!r}).ingest({file!r})"),
    "COPY": ("write a file", "export {table} {file}", "session.table({table!r}).export({file!r})"),
    "REPLACE TABLE": "write CREATE OR REPLACE TABLE {} ROW KEYS (…) AS SELECT …".format,
    "REPLACE INTO": to_update_rows,
    "UPSERT INTO": to_update_rows,
}  # fmt: skip
"""Statements of other databases: what they are for, and what does the same here, at the faces and in Python."""

_TRANSACTIONS: Final = frozenset({"BEGIN", "START", "COMMIT", "ROLLBACK"})
_SAVING: Final = Action("create-savepoint T", "table.create_savepoint()")


def _refuse_foreign(reader: StatementReader) -> None:
    """Raise for a statement that other databases have, with what does the same here."""
    start, words = reader.offset, reader.statement.words()[reader.at :]
    if reader.word in _TRANSACTIONS:
        hint: Hint = ("each statement is one commit; to be able to go back, create a savepoint first: ", _SAVING)
        raise reader.error("there are no transactions of several statements", hint, start)
    begin = next((each for each in _FOREIGN if " ".join((*words, "")).startswith(f"{each} ")), None)
    if begin is None:
        return
    reader.at += len(begin.split())
    _ = reader.skip("TABLE") or reader.skip("INTO")
    token = reader.peek()
    table = token.text if token is not None and is_name(token) else "t"
    file = next((text[1:-1] for text in words if text.startswith("'")), "a.csv")
    what = _FOREIGN["COPY FROM" if begin == "COPY" and "FROM" in words else begin]
    if isinstance(what, tuple):
        purpose, line, python = what
        same = Action(line.format(table=table, file=shlex.quote(file)), python.format(table=table, file=file))
        hint = (f"to {purpose}: ", same)
    else:
        hint = what(table)
    raise reader.error(f"there is no {begin}", hint, start)
