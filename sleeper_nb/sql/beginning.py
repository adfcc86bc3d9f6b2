"""How a statement begins: ``EXPLAIN`` and its options, the first word after them, and the error when it is no query."""

from __future__ import annotations

from typing import Final

from sleeper_nb.errors import Action, InvalidInput
from sleeper_nb.model.sql_values import Dialect
from sleeper_nb.sql.dialects import RULES
from sleeper_nb.sql.references import names_of_with
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import skip_brackets, spells

NOT_ALONE: Final = "run one statement at a time"
OUR_WORDS: Final = frozenset({
    "INSERT", "DELETE", "UPDATE", "MERGE", "CREATE", "DROP", "TRUNCATE", "ALTER", "COMMENT", "DESCRIBE", "DESC", "CALL",
    "REPLACE", "UPSERT", "COPY", "VACUUM", "OPTIMIZE", "RESTORE", "BEGIN", "START", "COMMIT", "ROLLBACK", "SHOW",
})  # fmt: skip
"""The words that a statement of our own grammar begins with, or one of another database that it refuses."""


def may_be_ours(statement: Statement) -> bool:
    """Return whether a statement begins, after EXPLAIN and WITH, with one of `OUR_WORDS`; a query does not."""
    _, verb = names_of_with(statement, end_of_explain(statement))
    return verb < len(statement.tokens) and statement.tokens[verb].word in OUR_WORDS


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


def check_takes_no_notes(message: str | None, job_id: str | None) -> None:
    """Raise when a message or job id is given with a statement that makes no version from rows."""
    name = "a message" if message is not None else "a job id" if job_id is not None else None
    if name is not None:
        raise InvalidInput(
            f"{name} is for INSERT, UPDATE, DELETE and MERGE",
            hint=("leave out ", Action("-m", "message=") if message is not None else Action("--job-id", "job_id=")),
        )
