"""The words, names, strings and ``:name`` parameters of one SQL text, each with its place.

The text reaches an engine unchanged, so only places matter here: comments are passed over, nothing is rewritten. Rules
of the two dialects: block comments nest in both; Spark's strings may stand in single or double quotes and know
backslash escapes and ``r'…'``; DuckDB's double quotes are names, and it has ``E'…'`` and ``$tag$…$tag$`` strings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from sleeper_nb.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Dialect = Literal["spark", "duckdb"]
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

_QUOTED = r"`(?:[^`]|``)*`"
_BACKSLASHED = r"'(?:[^'\\]|\\.|'')*'"
_SHARED = r"""
  | (?P<number>\d\w*(?:\.\d\w*)?(?:(?<=[eE])[+-]\d+)?)
  | (?P<word>(?:[^\W\d]|[^\x00-\x7f\s])(?:[\w$]|[^\x00-\x7f\s])*)
  | (?P<nested>/\*)
  | (?P<symbol>=>|::|\|>|[^\s])
"""
# Order matters: a string's prefix letter must not be read as a word.
_SPARK = rf"""
    (?P<skip>\s+|--(?:\\\r?\n|[^\r\n])*)
  | (?P<string>[rR]'[^']*'|[rR]"[^"]*"|[xX]?{_BACKSLASHED}|[xX]?{_BACKSLASHED.replace("'", '"')})
  | (?P<quoted>{_QUOTED})
  {_SHARED}
"""
_DUCKDB = rf"""
    (?P<skip>\s+|--[^\r\n]*)
  | (?P<string>[eE]{_BACKSLASHED}|[xXbB]?'(?:[^']|'')*'|\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$)
  | (?P<quoted>"(?:[^"]|"")*"|{_QUOTED})
  {_SHARED}
"""
_FLAGS = re.DOTALL | re.VERBOSE
_PATTERNS = {"spark": re.compile(_SPARK, _FLAGS), "duckdb": re.compile(_DUCKDB, _FLAGS)}
_KINDS: dict[str, TokenKind] = {kind: kind for kind in ("word", "quoted", "string", "number", "symbol")}
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0"}
DEEPEST: Final = 200
"""How many brackets may stand inside each other; a parser's time grows with the square of their number."""

_CLOSING = {"(": ")", "[": "]", "{": "}"}
# Words behind which a value begins, so that a colon there can only open a parameter.
_BEFORE_VALUE = frozenset({"WHEN", "THEN", "ELSE", "CASE", "AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "IS", "FROM"})


@dataclass(frozen=True, slots=True)
class Token:
    """One token: ``sql[start:end] == text``; offsets count characters."""

    kind: TokenKind
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The word in upper case; empty for every other kind, so that a quoted name is never a keyword."""
        return self.text.upper() if self.kind == "word" else ""

    def is_symbol(self, text: str) -> bool:
        """Tell whether this is the given symbol."""
        return self.kind == "symbol" and self.text == text


def tokenize(sql: str, *, dialect: Dialect) -> tuple[Token, ...]:
    """Split a SQL text into tokens; whitespace and comments are left out.

    Raises
    ------
    InvalidInput
        A string, a quoted name or a block comment has no end.
    """
    pattern, tokens, at = _PATTERNS[dialect], [], 0
    while at < len(sql):
        match = pattern.match(sql, at)
        if match is None or match["nested"] or match["symbol"] in {"'", '"', "`"}:
            at = _end_of_comment(sql, at) if match and match["nested"] else _unclosed(sql, at, "quote")
            continue
        at = match.end()
        group = next(name for name in ("skip", *_KINDS) if match[name] is not None)
        if group != "skip":
            tokens.append(Token(_KINDS[group], match.group(), match.start(), at))
    return tuple(tokens)


def _end_of_comment(sql: str, start: int) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(sql, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return _unclosed(sql, start, "comment")


def _unclosed(sql: str, at: int, what: str) -> int:
    line = sql.count("\n", 0, at) + 1
    raise InvalidInput(
        f"the {what} that opens at line {line} of the statement is never closed: {sql[at : at + 20]!r}",
        hint=f"close it with {'*/' if what == 'comment' else sql[at]}",
    )


def unquote(token: Token, *, dialect: Dialect) -> str:
    """Give the value of a name or string without its quotes; any other token's text as it stands."""
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
    if token.kind == "string" and (dialect == "spark" or prefix == "e"):
        return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), inner)
    return inner


def quote_name(name: str, *, dialect: Dialect) -> str:
    """Write a name as the dialect quotes it."""
    from sleeper_nb.model.schema import quoted_name  # with Arrow, which the console's help does not wait for

    return quoted_name(name, "`" if dialect == "spark" else '"')


def spells(tokens: Sequence[Token], at: int, *words: str) -> bool:
    """Tell whether these words (upper case) or symbols stand at an index."""
    there = tokens[at : at + len(words)]
    return len(there) == len(words) and all(
        token.word == word or token.is_symbol(word) for token, word in zip(there, words, strict=True)
    )


def skip_brackets(tokens: Sequence[Token], at: int) -> int:
    """Give the index behind the bracket that closes the one at an index; the end when nothing closes it."""
    opening, closing, depth = tokens[at].text, _CLOSING[tokens[at].text], 0
    for index in range(at, len(tokens)):
        depth += tokens[index].is_symbol(opening) - tokens[index].is_symbol(closing)
        if depth == 0:
            return index + 1
    return len(tokens)


def depth_of(tokens: Sequence[Token]) -> int:
    """Give how many brackets stand inside each other; those that nothing closes count too."""
    depth = deepest = 0
    for token in tokens:
        if token.kind == "symbol":
            depth += (token.text in _CLOSING) - (depth > 0 and token.text in _CLOSING.values())
            deepest = max(deepest, depth)
    return deepest


def bind_names(sql: str, *, dialect: Dialect) -> tuple[str, ...]:
    """Give the names of the ``:name`` parameters, each once, in the order in which they first stand.

    DuckDB's own ``$name`` is one too, in its dialect; the ``$`` of ``flights$files`` is part of a name. Strings,
    comments, casts (``x::int``), struct keys (``{'a':b}``), slices (``x[1:n]``) and anything else that stands right
    behind a value without a space (``alias:table``) hold no parameters.
    """
    return tuple(dict.fromkeys(name.text for _, name in _parameters(tokenize(sql, dialect=dialect), dialect)))


def to_duckdb_parameters(sql: str) -> str:
    """Write each ``:name`` parameter as DuckDB's ``$name``; nothing else changes, not even the length."""
    characters = list(sql)
    for mark, _ in _parameters(tokenize(sql, dialect="duckdb"), "duckdb"):
        characters[mark.start] = "$"
    return "".join(characters)


def _parameters(tokens: Sequence[Token], dialect: Dialect) -> Iterator[tuple[Token, Token]]:
    """Yield the mark and the name of each parameter."""
    open_brackets: list[str] = []
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        if token.kind == "symbol" and token.text in _CLOSING:
            subscript = token.text == "[" and before is not None and before.end == token.start and _is_value(before)
            open_brackets.append("subscript" if subscript else token.text)
        elif token.kind == "symbol" and token.text in _CLOSING.values() and open_brackets:
            open_brackets.pop()
        elif token.text in {":", "$"} and index + 1 < len(tokens):
            name = tokens[index + 1]
            opens = dialect == "duckdb" if token.text == "$" else _may_open(before, token, open_brackets)
            if name.kind == "word" and name.start == token.end and opens:
                yield token, name


def _may_open(before: Token | None, colon: Token, open_brackets: Sequence[str]) -> bool:
    around = open_brackets[-1] if open_brackets else ""
    if before is None:
        return True
    if _is_value(before):
        return before.end < colon.start and (around not in {"subscript", "{"} or before.word in _BEFORE_VALUE)
    return not (around == "subscript" and before.is_symbol("["))


def _is_value(token: Token) -> bool:
    return token.kind != "symbol" or token.text in {")", "]", "}"}
