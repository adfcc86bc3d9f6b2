"""Read a statement of our own grammar token by token: words, names, lists, literals. Errors show the place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeVar

from sleeper_nb.errors import Hint, InvalidInput, SleeperError
from sleeper_nb.model.sql_values import Name, Written
from sleeper_nb.sql.error_place import line_with_caret
from sleeper_nb.sql.parameters import NAME_IT
from sleeper_nb.sql.references import check_alone
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import Token, skip_brackets, spells, unquote
from sleeper_nb.sql.version_clause import read_clause

T = TypeVar("T")
E = TypeVar("E", bound=SleeperError)

_NO_NAMES: Final = frozenset({
    "SELECT", "FROM", "WHERE", "WITH", "VALUES", "TABLE", "AS", "SET", "ON", "INTO", "NOT", "NULL", "AND", "OR", "TO",
    "PRIMARY", "UNIQUE", "FOREIGN", "CHECK", "CONSTRAINT",
})  # fmt: skip
"""Words that are names only in quotes, as they show that a name is missing."""

_CONSTANTS: Final = {"TRUE": True, "FALSE": False, "NULL": None}


@dataclass(frozen=True, slots=True)
class Parameter:
    """``:name`` where a literal may be; its value comes with the statement."""

    name: Name


Constant = str | int | float | Decimal | bool | None | Parameter | tuple["Constant", ...]
"""A value as written: a text, a number, a constant, a parameter, or a list of these."""


class StatementReader:
    """Reads the tokens of one statement in order.

    Parameters
    ----------
    at
        The index of the first token to read.

    Raises
    ------
    InvalidInput
        When a second statement follows.
    """

    def __init__(self, statement: Statement, at: int = 0) -> None:
        check_alone(statement)
        self.statement, self.tokens, self.at = statement, statement.tokens, at

    @property
    def is_at_end(self) -> bool:
        return self.at >= len(self.tokens)

    @property
    def word(self) -> str:
        """The next token: a word in upper case, or a symbol; "" for another kind, and at the end."""
        token = self.peek()
        return "" if token is None else token.word or token.symbol

    @property
    def offset(self) -> int:
        token = self.peek()
        return len(self.statement.text.rstrip()) if token is None else token.start

    def peek(self, ahead: int = 0) -> Token | None:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else None

    def spells(self, *words: str) -> bool:
        return spells(self.tokens, self.at, *words)

    def skip(self, *words: str) -> bool:
        is_next = self.spells(*words)
        self.at += len(words) if is_next else 0
        return is_next

    def expect(self, *words: str, hint: Hint) -> None:
        if not self.skip(*words):
            raise self.error(f"{' '.join(words)} is expected", hint)

    def expect_end(self, hint: Hint) -> None:
        if not self.is_at_end:
            raise self.error("the statement should end", hint)

    def error(self, problem: str, hint: Hint, at: int | None = None) -> InvalidInput:
        token = self.peek()
        found = "" if at is not None else " at the end" if token is None else f" before {token.text!r}"
        return placed(InvalidInput(problem + found, hint=hint), self.statement, self.offset if at is None else at)

    def read_name(self, what: str, hint: Hint) -> Name:
        token = self.peek()
        if token is None or not is_name(token):
            is_placeholder = token is not None and token.symbol in {":", "$", "{"}
            raise self.error(f"the name of {what} is expected", NAME_IT if is_placeholder else hint)
        self.at += 1
        return Name(unquote(token, dialect=self.statement.dialect), token.start)

    def read_path(self, what: str, hint: Hint) -> Name:
        """Read a name that may have several parts: ``address.zip``."""
        first = self.read_name(what, hint)
        parts = [first.text]
        while self.skip("."):
            parts.append(self.read_name(what, hint).text)
        return Name(".".join(parts), first.at)

    def read_table(self, hint: Hint, *, why_no_version: str = "cannot be written to at a version") -> Name:
        """Read the name of a table as a whole; with dots in it when it has several parts."""
        name = self.read_path("a table", hint)
        if read_clause(self.statement, self.at) is not None:
            raise self.error(f"{name.text!r} {why_no_version}", "leave the clause out", self.offset)
        return name

    def read_names(self, what: str, hint: Hint) -> tuple[Name, ...]:
        return self.read_list(lambda: self.read_name(what, hint), hint)

    def read_list(self, read: Callable[[], T], hint: Hint) -> tuple[T, ...]:
        """Read items in brackets, separated by commas; at least one."""
        self.expect("(", hint=hint)
        items = [read()]
        while self.skip(","):
            items.append(read())
        self.expect(")", hint=hint)
        return tuple(items)

    def read_text(self, what: str, hint: Hint) -> str:
        token = self.peek()
        if token is None or token.kind != "string":
            raise self.error(f"{what} is expected, in quotes,", hint)
        self.at += 1
        return unquote(token, dialect=self.statement.dialect)

    def read_literal(self, hint: Hint) -> Constant:
        """Read a literal, a parameter, or a list of them: ``[1, 2]``, ``ARRAY[1, 2]``, ``array(1, 2)``."""
        if self.spells("ARRAY", "[") or self.spells("ARRAY", "("):
            self.at += 1
        if self.skip("["):
            return self._items("]", hint)
        if self.skip("("):
            return self._items(")", hint)
        sign = -1 if self.skip("-") else 1
        token = self.peek()
        if token is not None and token.kind == "number":
            self.at += 1
            return sign * self._number(token, hint)
        if token is not None and sign > 0:
            if token.kind == "string":
                return self.read_text("a value", hint)
            if token.word in _CONSTANTS:
                self.at += 1
                return _CONSTANTS[token.word]
            if token.word in {"DATE", "TIMESTAMP"} and (after := self.peek(1)) is not None and after.kind == "string":
                self.at += 1
                return self.read_text("a value", hint)
            if token.symbol in {":", "$"} and self.peek(1) is not None:
                self.at += 1
                return Parameter(self.read_name("a parameter", hint))
        if token is not None and token.kind in {"word", "quoted"} and not spells(self.tokens, self.at + 1, "("):
            text = unquote(token, dialect=self.statement.dialect)
            hint = (f"write a text in single quotes: '{text}'; ", *(hint if isinstance(hint, tuple) else (hint,)))
        raise self.error("a value is expected", hint)

    def _items(self, closing: str, hint: Hint) -> tuple[Constant, ...]:
        items: list[Constant] = []
        while not self.skip(closing):
            if items:
                self.expect(",", hint=hint)
            items.append(self.read_literal(hint))
        return tuple(items)

    def _number(self, token: Token, hint: Hint) -> int | Decimal:
        digits = token.text.replace("_", "")
        try:
            return int(digits) if digits.isdigit() else Decimal(digits)
        except ArithmeticError as error:
            raise self.error(f"{token.text!r} is not a number", hint, token.start) from error

    def until(self, stops: frozenset[str]) -> str:
        """Return the text up to a word or symbol outside brackets, or up to the end."""
        start = self.at
        while not self.is_at_end and self.word not in stops:
            opens = self.word in {"(", "[", "{"}
            self.at = skip_brackets(self.tokens, self.at) if opens else self.at + 1
        if start == self.at:
            return ""
        return self.statement.text[self.tokens[start].start : self.tokens[self.at - 1].end]


def is_name(token: Token) -> bool:
    """Return whether a token can name something: a word that is not reserved, or a name in quotes."""
    is_word = token.kind == "word" and token.word not in _NO_NAMES
    return is_word or token.kind == "quoted" or (token.kind == "string" and token.text.startswith('"'))


def placed(error: E, written: Statement | Written, at: int) -> E:
    error.place, error.offset = line_with_caret(written.text, at), at
    return error


QUERY_WORDS: Final = frozenset({
    "SELECT", "WITH", "FROM", "VALUES", "TABLE", "PIVOT", "UNPIVOT", "DESCRIBE", "SUMMARIZE", "SHOW", "(",
})  # fmt: skip


def begins_query(reader: StatementReader) -> bool:
    return reader.word in QUERY_WORDS and not reader.spells("WITH", "(")  # which lists properties


def opens_query(reader: StatementReader) -> bool:
    """Return whether the bracket at the next token opens a query, and not a list of names."""
    token = reader.peek(1)
    return reader.spells("(") and token is not None and (token.word or token.symbol) in QUERY_WORDS - {"TABLE"}
