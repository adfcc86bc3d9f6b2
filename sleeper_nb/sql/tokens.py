"""Split a SQL text into tokens: words, quoted names, strings, numbers and symbols, each with its position.

Comments and whitespace between tokens are skipped. `sleeper_nb.sql.dialects` has what a token is in each dialect.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.sql_values import DIALECTS, Dialect, quoted_name
from sleeper_nb.sql.dialects import RULES

if TYPE_CHECKING:
    from collections.abc import Sequence

TokenKind = Literal["word", "quoted", "string", "number", "symbol"]

DUCKDB_RESERVED: Final = frozenset({
    "ALL", "ANALYSE", "ANALYZE", "AND", "ANY", "ARRAY", "AS", "ASC", "ASYMMETRIC", "AT", "BOTH", "CASE", "CAST",
    "CHECK", "COLLATE", "COLUMN", "CONSTRAINT", "CREATE", "DEFAULT", "DEFERRABLE", "DESC", "DESCRIBE", "DISTINCT",
    "DO", "ELSE", "END", "EXCEPT", "FALSE", "FETCH", "FOR", "FOREIGN", "FROM", "GROUP", "HAVING", "IN", "INITIALLY",
    "INTERSECT", "INTO", "LAMBDA", "LATERAL", "LEADING", "LIMIT", "NOT", "NULL", "OFFSET", "ON", "ONLY", "OR",
    "ORDER", "PIVOT", "PIVOT_LONGER", "PIVOT_WIDER", "PLACING", "PRIMARY", "QUALIFY", "REFERENCES", "RETURNING",
    "SELECT", "SHOW", "SOME", "SUMMARIZE", "SYMMETRIC", "TABLE", "THEN", "TO", "TRAILING", "TRUE", "UNION",
    "UNIQUE", "UNPIVOT", "USING", "VARIADIC", "WHEN", "WHERE", "WINDOW", "WITH",
})  # fmt: skip
"""Words that DuckDB reads as a column only in quotes."""

_KINDS: dict[str, TokenKind] = {kind: kind for kind in ("word", "quoted", "string", "number", "symbol")}
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0"}
DEEPEST: Final = 200
"""How many brackets may be nested; a parser's time grows with the square of their number."""

CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
"""The bracket that closes each opening one."""
CLOSERS: Final = frozenset(CLOSING.values())


class Token(NamedTuple):
    """One token: ``sql[start:end] == text``; offsets count characters.

    Attributes
    ----------
    word
        The word in upper case; empty for every other kind, so that a quoted name is never taken for a keyword.
    symbol
        The symbol; empty for every other kind.
    """

    kind: TokenKind
    text: str
    start: int
    end: int
    word: str = ""
    symbol: str = ""


def tokenize(sql: str, *, dialect: Dialect) -> tuple[Token, ...]:
    """Split a SQL text into tokens, once: `Statement` holds them. Raises for a string or comment without an end."""
    pattern, tokens, at = RULES[dialect].tokens, [], 0
    while at < len(sql):
        match = pattern.match(sql, at)
        if match is not None and match["nested"]:
            at = _end_of_comment(sql, at)
            continue
        if match is None or match["symbol"] in {"'", '"', "`"}:
            raise _unclosed(sql, at, "quote")
        start, at = match.span()
        if match.lastgroup != "skip":
            kind, text = _KINDS[str(match.lastgroup)], match.group()
            word, symbol = text.upper() if kind == "word" else "", text if kind == "symbol" else ""
            tokens.append(Token(kind, text, start, at, word, symbol))
    return tuple(tokens)


def in_one_line(sql: str) -> str | None:
    """Return a text as one line, without comments; None where that is not possible, or dialects disagree on it."""
    lines = set()
    for dialect in DIALECTS:
        try:
            tokens = tokenize(sql, dialect=dialect)
        except InvalidInput:
            return None
        ends = (0, *(token.end for token in tokens))
        lines.add("".join(" " * (token.start > end) + token.text for end, token in zip(ends, tokens, strict=False)))
    line = lines.pop().strip()
    return None if lines or len(line.splitlines()) > 1 else line


def last_comment(sql: str) -> str:
    """Return the ``--`` comment at the end of a statement, or nothing unless every engine reads it as one."""
    comments = set()
    for dialect in DIALECTS:
        try:
            tokens = tokenize(sql, dialect=dialect)
        except InvalidInput:  # the engine reports a quote that is not closed
            return ""
        comments.add(sql[tokens[-1].end :].strip() if tokens else "")
    comment = comments.pop()
    return comment if not comments and comment.startswith("--") else ""


def _end_of_comment(sql: str, start: int) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(sql, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise _unclosed(sql, start, "comment")


def _unclosed(sql: str, at: int, what: str) -> InvalidInput:
    line = sql.count("\n", 0, at) + 1
    return InvalidInput(
        f"the {what} that opens at line {line} of the statement is never closed: {sql[at : at + 20]!r}",
        hint=f"close it with {'*/' if what == 'comment' else sql[at]}",
    )


def unquote(token: Token, *, dialect: Dialect) -> str:
    """Return the value of a name or string without its quotes; any other token's text as it is."""
    text = token.text
    if token.kind not in {"quoted", "string"}:
        return text
    if text.startswith("$"):
        tag = text.index("$", 1) + 1
        return text[tag:-tag]
    prefix, quote = (text[0].lower(), text[1]) if text[0].isalpha() else ("", text[0])
    inner = text[len(prefix) + 1 : -1]
    if prefix == "r":
        return inner
    inner = inner.replace(quote * 2, quote)
    if token.kind == "string" and (RULES[dialect].escapes_texts or prefix == "e"):
        return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), inner)
    return inner


def quote_name(name: str, *, dialect: Dialect) -> str:
    return quoted_name(name, RULES[dialect].name_quote)


def spells(tokens: Sequence[Token], at: int, *words: str) -> bool:
    """Return whether the tokens from an index on are these words (upper case) or symbols."""
    if not 0 <= at <= len(tokens) - len(words):
        return False
    for index, word in enumerate(words, at):
        if word != tokens[index].word and word != tokens[index].symbol:
            return False
    return True


def skip_brackets(tokens: Sequence[Token], at: int) -> int:
    """Return the index after the bracket that closes the one at an index; the number of tokens when none does."""
    opening, closing, depth = tokens[at].text, CLOSING[tokens[at].text], 0
    for index in range(at, len(tokens)):
        depth += (tokens[index].symbol == opening) - (tokens[index].symbol == closing)
        if depth == 0:
            return index + 1
    return len(tokens)


def depth_of(tokens: Sequence[Token]) -> int:
    """Return how deep the brackets are nested; brackets that nothing closes count too."""
    depth = deepest = 0
    for token in tokens:
        if token.symbol in CLOSING:
            depth += 1
            deepest = max(deepest, depth)
        elif token.symbol in CLOSERS and depth:
            depth -= 1
    return deepest
