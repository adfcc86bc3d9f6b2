"""How a statement begins: ``EXPLAIN`` and its options, the first word after them, and the error when it is no query."""

from __future__ import annotations

from typing import Final

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.sql_values import Dialect
from sleeper_nb.sql.dialects import RULES
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import skip_brackets, spells

NOT_ALONE: Final = "run one statement at a time"


def end_of_explain(statement: Statement) -> int:
    """Return the index of the token after ``EXPLAIN`` and its options; 0 when the statement has none."""
    tokens = statement.tokens
    if not spells(tokens, 0, "EXPLAIN"):
        return 0
    at = 1
    if options := statement.rules.explain_options:
        while at < len(tokens) and tokens[at].word in options:
            at += 1
        return at
    if spells(tokens, at, "ANALYZE"):
        at += 1
    if spells(tokens, at, "(", "ANALYZE") or spells(tokens, at, "(", "FORMAT"):
        at = skip_brackets(tokens, at)
    return at


def first_word(statement: Statement) -> str:
    """Return the first token after opening brackets, words in upper case; empty for a blank statement."""
    return next((token.word or token.text for token in statement.tokens if token.symbol != "("), "")


def no_query(dialect: Dialect, problem: str = "there is no query") -> InvalidInput:
    """Return the error of a statement that does not read, with a hint how queries begin."""
    return InvalidInput(problem, hint=RULES[dialect].how_queries_begin)


def no_query_begins_with(statement: Statement, what: str = "") -> InvalidInput:
    """Return the error of a statement that begins as no query does; `what` says in words what it would do."""
    word = next((token.text for token in statement.tokens if token.symbol != "("), "")
    return no_query(statement.dialect, f"no query begins with {word!r}{what}")


def no_call(name: str, effect: str, hint: str = "leave it out") -> InvalidInput:
    """Return the error of a function that a query cannot call; `effect` says what it does."""
    return InvalidInput(f"a query cannot call {name!r}, which {effect}", hint=hint)
