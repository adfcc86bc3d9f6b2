"""Read a statement of our own grammar token by token: words, names, lists, literals, expressions.

Errors show the place. What an expression means is for the engine, so it is taken over as it was written. So that it
cannot mean more where it is put than where it was, it has every bracket closed, no comma of its own, and no clause of a
query after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeVar

from sleeper_nb.edit.row_edit import Assignment
from sleeper_nb.errors import Hint, InvalidInput, SleeperError
from sleeper_nb.model.sql_values import Dialect, Name, Slice, Written
from sleeper_nb.sql.error_place import line_with_caret
from sleeper_nb.sql.parameters import NAME_IT
from sleeper_nb.sql.references import check_alone
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import CLOSERS, CLOSING, Token, quote_name, skip_brackets, spells, tokenize, unquote
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
    """Reads the tokens of one statement in order, from the one at an index; raises when a second statement follows."""

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


# Expressions.

_OPERATORS: Final = frozenset({
    "AND", "OR", "NOT", "XOR", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "GLOB", "SIMILAR", "TO", "BETWEEN", "IS",
    "DISTINCT", "ESCAPE", "COLLATE", "DIV", "ANY", "ALL", "SOME", "EXISTS", "WITHIN", "SYMMETRIC", "ASYMMETRIC",
    "CASE", "WHEN", "THEN", "ELSE", "INTERVAL",
})  # fmt: skip
"""Words after which an operand follows, so that the next word is a name."""

_COMPARISONS: Final = frozenset({"=", "==", "<", ">", "<=", ">=", "<>", "!="})
_LOGIC: Final = frozenset({"AND", "OR", "NOT", "IN", "IS", "LIKE", "ILIKE", "BETWEEN"})
"""Operators whose value is true or false."""
_CHANGES_TYPE: Final = frozenset({"CASE", "COLLATE"})

_CLAUSES: Final = frozenset({
    "AS", "BY", "CLUSTER", "DISTRIBUTE", "EXCEPT", "FETCH", "FROM", "GROUP", "HAVING", "INSERT", "INTERSECT", "INTO",
    "JOIN", "LIMIT", "MERGE", "OFFSET", "ON", "ORDER", "QUALIFY", "RETURNING", "SELECT", "SET", "SORT", "TABLE",
    "UNION", "USING", "VALUES", "WINDOW", "WITH",
})  # fmt: skip
"""Words that begin something else after an operand."""

_SIGNS: Final = frozenset({"=", "==", "<", ">", "<=", ">=", "<>", "!=", "||"})
_ENDS: Final = frozenset({",", "WHERE", "WHEN", "THEN"})
"""What no expression has outside brackets and CASE, and what a user may go on with."""
_QUERIES: Final = frozenset({"SELECT", "FROM", "WITH"})
_QUERIES_BEFORE_NAMES: Final = frozenset({"VALUES", "TABLE", "PIVOT", "UNPIVOT", "DESCRIBE", "SUMMARIZE", "SHOW"})


def read_expression(
    reader: StatementReader, what: str, hint: str, *, stops: frozenset[str] = frozenset(), query_after: bool = False
) -> Slice:
    """Read an expression up to a word or symbol that ends it, or up to what cannot be part of it.

    `what` and `hint` are for errors: ``"a condition"``, and what to write. Outside brackets and CASE, one of `stops`
    ends it; and a query, which may be in brackets, where one follows. Raises when there is none; a bracket or a CASE
    has no end; or a comma is in it.
    """
    first = reader.at
    _check_begins(reader, what, hint)
    cases: list[Token] = []
    while not reader.is_at_end:
        token = reader.tokens[reader.at]
        is_word = bool(token.word) and not _is_field(reader.tokens, reader.at)
        if not cases and _ends(reader, first, stops, is_word=is_word, query_after=query_after):
            break
        if token.symbol in CLOSING:
            skip_closed(reader)
            continue
        _check_symbol(reader, token, what, hint)
        if is_word and token.word == "CASE":
            cases.append(token)
        elif is_word and token.word == "END" and cases:
            cases.pop()
        reader.at += 1
    if cases:
        raise reader.error("CASE has no END", "write CASE WHEN … THEN … ELSE … END", cases[-1].start)
    if reader.at == first:
        raise reader.error(f"{what} is expected", hint)
    return reader.statement.between(first, reader.at)


def expression_of(text: str, what: str, dialect: Dialect) -> Slice:
    """Return the one expression that a user gave as a text of its own, without a comment after it, or raise."""
    hint = "write one expression of SQL, such as n > 5 or lower(s)"
    reader = StatementReader(Statement.of(text, dialect=dialect))
    part = read_expression(reader, what, hint, stops=_ENDS)
    if not reader.is_at_end:
        raise reader.error(f"{what} should end before {reader.word or 'here'}", hint, reader.offset)
    return part


def assignments_of(updates: Mapping[str, str], dialect: Dialect) -> tuple[Assignment, ...]:
    values = {name: expression_of(text, f"the new value of {name!r}", dialect) for name, text in updates.items()}
    return tuple(Assignment(Name(name), value) for name, value in values.items())


def names_in(part: Slice) -> frozenset[str]:
    """Return the words and quoted names in a part of SQL, in lower case; some are names of columns."""
    dialect = part.written.dialect
    names = (each for each in tokenize(part.text, dialect=dialect) if each.kind in {"word", "quoted"})
    return frozenset(unquote(each, dialect=dialect).casefold() for each in names)


def is_plainly_condition(part: Slice) -> bool:
    """Return whether an expression is true or false by its outermost operator: ``n > 5``, ``a = b AND c IN (1, 2)``.

    False where that is not plain: then an engine tells the type.
    """
    tokens = tokenize(part.text, dialect=part.written.dialect)
    is_condition, at, sign = False, 0, ""
    while at < len(tokens):
        token = tokens[at]
        if token.symbol in CLOSING:
            at = skip_brackets(tokens, at)
            continue
        if token.word in _CHANGES_TYPE or token.symbol == "::":
            return False
        sign += token.symbol if token.symbol not in {",", "."} else ""
        at += 1
        if at < len(tokens) and token.symbol and tokens[at].symbol and tokens[at].start == token.end:
            continue  # the operator goes on
        if "->" in sign:
            return False
        is_condition |= sign.rstrip("+-") in _COMPARISONS or (token.word in _LOGIC and not _is_field(tokens, at - 1))
        sign = ""
    return is_condition


def literals_in(part: Slice) -> frozenset[str]:
    dialect = part.written.dialect
    tokens = (each for each in tokenize(part.text, dialect=dialect) if each.kind in {"string", "number"})
    return frozenset(unquote(each, dialect=dialect) for each in tokens)


def _check_begins(reader: StatementReader, what: str, hint: str) -> None:
    """Raise for a query without brackets, which would be one inside the brackets that are added."""
    following = reader.peek(1)
    begins_names = following is not None and (
        following.kind == "quoted" or following.symbol == "(" or following.word not in {"", *_OPERATORS}
    )
    if reader.word in _QUERIES or (reader.word in _QUERIES_BEFORE_NAMES and begins_names):
        if following is not None and (following.symbol in _SIGNS or following.word in _OPERATORS):
            column = reader.tokens[reader.at].text
            quoted = quote_name(column, dialect=reader.statement.dialect)
            raise reader.error(f"{what} is expected", f"a column of this name goes in quotes: {quoted}")
        raise reader.error(f"{what} is expected", f"put the query in brackets: (SELECT …); or {hint}")


def _ends(reader: StatementReader, first: int, stops: frozenset[str], *, is_word: bool, query_after: bool) -> bool:
    """Return whether the expression ends before the next token."""
    tokens, at = reader.tokens, reader.at
    token = tokens[at]
    if token.symbol in stops or (is_word and token.word in stops):
        return True
    if at == first or not _is_operand(tokens, at - 1):
        return False
    if is_word and token.word in _CLAUSES:
        return not spells(tokens, at, "WITH", "TIME", "ZONE")
    return query_after and token.symbol == "(" and _opens_query_after(tokens, at)


def _opens_query_after(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a bracket after an operand opens a query, and no call's arguments."""
    before = tokens[at - 1]
    is_name = before.kind in {"word", "quoted"} and before.word not in {"TRUE", "FALSE", "NULL"}
    is_parameter = is_name and at > 1 and tokens[at - 2].symbol in {":", "$"}
    while at < len(tokens) and tokens[at].symbol == "(":
        at += 1
    opens = at < len(tokens) and tokens[at].word in {"SELECT", "WITH", "FROM", "VALUES", "TABLE"}
    return opens and (not is_name or is_parameter)


def _is_operand(tokens: Sequence[Token], at: int) -> bool:
    token = tokens[at]
    if token.symbol:
        return token.symbol in CLOSERS
    return token.word not in _OPERATORS or _is_field(tokens, at)


def _is_field(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a word follows a dot, so that it is a name."""
    return at > 0 and tokens[at - 1].symbol == "."


def skip_closed(reader: StatementReader) -> None:
    """Pass over a bracket and what is in it; raise when it is never closed, or another one crosses it."""
    opening: list[Token] = []
    for at in range(reader.at, len(reader.tokens)):
        token = reader.tokens[at]
        if token.symbol in CLOSING:
            opening.append(token)
        elif token.symbol in CLOSERS:
            if CLOSING[opening.pop().symbol] != token.symbol:
                raise reader.error(f"{token.text!r} closes no bracket", "leave it out", token.start)
            if not opening:
                reader.at = at + 1
                return
    last = opening[-1]
    raise reader.error(f"{last.text!r} is never closed", f"close it with {CLOSING[last.symbol]!r}", last.start)


def _check_symbol(reader: StatementReader, token: Token, what: str, hint: str) -> None:
    if token.symbol in CLOSERS:
        raise reader.error(f"{token.text!r} closes no bracket", "leave it out", token.start)
    if token.symbol == ",":
        raise reader.error(f"{what} has a ',' outside brackets", hint, token.start)
