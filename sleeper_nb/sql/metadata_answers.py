"""Recognises statements that metadata can answer: those that count the rows of one table, or list its columns."""

from __future__ import annotations

from sleeper_nb.sql.tokens import Dialect, Token, tokenize, unquote

_COUNT = ["SELECT", "COUNT", "(", "*", ")"]
_UNNAMED = {"duckdb": '"count_star()"', "spark": "`count(1)`"}
_DESCRIBES = {"duckdb": {"DESCRIBE", "DESC", "SHOW"}, "spark": {"DESCRIBE", "DESC"}}


def name_of_count(text: str, table: str, *, dialect: Dialect) -> str | None:
    """Return the column's name in ``SELECT count(*) AS name FROM table AS other``, quoted as SQL needs it.

    None for every other statement: one more word, such as ``WHERE``, ``FILTER`` or ``LIMIT``, and it is another one.

    Parameters
    ----------
    text
        A statement.
    table
        The name of the table in it.
    dialect
        Whose SQL the statement is.
    """
    tokens = tokenize(text, dialect=dialect)
    if tokens and tokens[-1].is_symbol(";"):
        tokens = tokens[:-1]
    words = [token.word for token in tokens]
    if [token.text.upper() for token in tokens[:5]] != _COUNT or "FROM" not in words:
        return None
    at = words.index("FROM")
    of, column, alias = tokens[at + 1 : at + 2], tokens[5:at], tokens[at + 2 :]
    if [unquote(token, dialect=dialect) for token in of] != [table] or (alias and not _is_alias(alias)):
        return None
    if not column:
        return _UNNAMED[dialect]
    return column[1].text if _is_alias(column) else None


def lists_columns(text: str, table: str, *, dialect: Dialect) -> bool:
    """Return whether a statement is ``DESCRIBE table``, or means the same.

    Parameters
    ----------
    text
        A statement.
    table
        The name of the table in it.
    dialect
        Whose SQL the statement is.
    """
    tokens = [token for token in tokenize(text, dialect=dialect) if not token.is_symbol(";")]
    if not tokens or tokens[0].word not in _DESCRIBES[dialect]:
        return False
    rest = tokens[1:]
    while rest and rest[0].word in {"TABLE", "EXTENDED", "FORMATTED"}:
        rest = rest[1:]
    return [unquote(token, dialect=dialect) for token in rest] == [table]


def _is_alias(tokens: tuple[Token, ...]) -> bool:
    return len(tokens) == 2 and tokens[0].word == "AS" and tokens[1].kind in {"word", "quoted"}
