"""One SQL statement: its text, its dialect, and the tokens that the text was split into, once.

Every step that looks into a statement takes this value, not the text: the search for tables and version clauses,
parameters, views, answers from metadata, and the checks of what SQL may read. A step that rewrites a statement returns
a new value: `Statement.replaced` applies a list of replacements at once, and moves the tokens along with the text, so
the new text is not split again. A statement that is put together from parts of another one
(`sleeper_nb.sql.composition`) knows where they were, so that an error is shown in what the user wrote.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.sql_values import DIALECTS, Dialect, QueryPart, Slice, Written
from sleeper_nb.sql.dialects import RULES, DialectRules
from sleeper_nb.sql.tokens import Token, TokenKind, tokenize

_START = attrgetter("start")
_QUOTES = frozenset("\"'`")


@dataclass(frozen=True, slots=True)
class Replacement:
    """What takes the place of a span of a statement's text.

    Parameters
    ----------
    start, end
        The span, in characters. Where both are the same, tokens are inserted, after a space.
    tokens
        The kind and text of each new token, written with spaces between them; without any, the span is cut out.
    """

    start: int
    end: int
    tokens: tuple[tuple[TokenKind, str], ...] = ()


@dataclass(frozen=True, slots=True)
class OriginSpan:
    """A span of a composed text, what was written in its place, and where that begins in the composed text."""

    start: int
    end: int
    part: Slice
    part_at: int


@dataclass(frozen=True, slots=True)
class TextOrigin:
    """Where the parts of a statement were in what the user wrote.

    Parameters
    ----------
    spans
        Spans of the statement's text, in its order; text between them is of this package.
    is_composed
        Whether there is such text.
    """

    spans: tuple[OriginSpan, ...]
    is_composed: bool = True

    @property
    def written(self) -> tuple[Written, ...]:
        """The texts that the parts are from, each once."""
        return tuple(dict.fromkeys(span.part.written for span in self.spans))

    def place_of(self, offset: int) -> tuple[Written, int] | None:
        """Return where the user wrote what is at an offset of the composed text; None for text of this package.

        What was put around a part, such as a cast, is at the beginning of that part.
        """
        span = next((each for each in self.spans if each.start <= offset < each.end), None)
        if span is None:
            return None
        inside = offset - span.part_at
        return span.part.written, span.part.at + (inside if 0 <= inside < len(span.part.text) else 0)


@dataclass(frozen=True, slots=True)
class Statement:
    """A SQL text and its tokens.

    Parameters
    ----------
    text
        The statement, without the ``;`` at its end.
    dialect
        Which engine's SQL it is written in.
    origin
        Where its parts were written, when it was composed of them.
    """

    text: str
    dialect: Dialect
    tokens: tuple[Token, ...] = field(repr=False)
    origin: TextOrigin | None = field(default=None, repr=False, compare=False)

    @property
    def rules(self) -> DialectRules:
        """What its dialect writes differently than others."""
        return RULES[self.dialect]

    @classmethod
    def of(cls, text: str, *, dialect: Dialect) -> Statement:
        """Split a text into tokens; without the ``;`` at its end and comments after that, which DuckDB refuses.

        Raises
        ------
        InvalidInput
            A string, a quoted name or a comment has no end.
        """
        tokens = tokenize(text, dialect=dialect)
        count = len(tokens)
        while count and tokens[count - 1].symbol == ";":
            count -= 1
        if count < len(tokens):
            text = text[: tokens[count].start]
        return cls(text, dialect, tokens[:count])

    @property
    def written(self) -> Written:
        """Its text, as a value that its parts know."""
        return Written(self.text, self.dialect)

    def words(self) -> tuple[str, ...]:
        """Return the text of each token, words in upper case."""
        return tuple([token.word or token.text for token in self.tokens])

    def index_from(self, offset: int) -> int:
        """Return the index of the first token that begins at an offset of the text, or after it."""
        return bisect_left(self.tokens, offset, key=_START)

    def between(self, start: int, end: int) -> Slice:
        """Return the text from the token at an index to the one before another index; there is at least one."""
        first = self.tokens[start].start
        return Slice(self.text[first : self.tokens[end - 1].end], first, self.written)

    def after(self, at: int) -> Statement:
        """Return the statement that begins with the token at an index; an empty one when there is no such token."""
        if at >= len(self.tokens):
            return Statement("", self.dialect, ())
        start = self.tokens[at].start
        return Statement(self.text[start:], self.dialect, tuple(_moved(self.tokens[at:], -start)))

    def replaced(self, replacements: Iterable[Replacement]) -> Statement:
        """Return the statement with some spans replaced; every other character stays as it is.

        A space is added where characters that were apart would become one token.

        Raises
        ------
        InvalidInput
            When spans overlap or lie outside the text.
        """
        edits = sorted(replacements, key=lambda edit: (edit.start, edit.end))
        if not edits:
            return self
        rewriting = _Rewriting(self)
        for edit in edits:
            rewriting.apply(edit)
        return rewriting.finished()


def query_in(statement: Statement, part: QueryPart) -> Statement:
    """Return the query in a statement: every other character of the statement stays as it is."""
    query = statement.replaced([Replacement(part.start, part.end)])
    before = Slice(statement.text[: part.start], 0, statement.written)
    after = Slice(statement.text[part.end :], part.end, statement.written)
    rest = len(query.text) - len(after.text)
    spans = (OriginSpan(0, part.start, before, 0), OriginSpan(rest, len(query.text), after, rest))
    return replace(query, origin=TextOrigin(spans, is_composed=False))


class SqlText:
    """The text of one statement, which is split once for each dialect that is asked for.

    Parameters
    ----------
    text
        The statement, as the user wrote it.
    part
        Where the query is in it; None when it is one.
    """

    def __init__(self, text: str, part: QueryPart | None = None) -> None:
        self.text, self.part = text, part
        self._split: dict[Dialect, Statement] = {}

    def whole(self, dialect: Dialect) -> Statement:
        """Return the whole statement; errors as `Statement.of`."""
        if dialect not in self._split:
            self._split[dialect] = Statement.of(self.text, dialect=dialect)
        return self._split[dialect]

    def readable(self) -> Statement | None:
        """Return the whole statement in the first dialect that can read it; None where none can."""
        for dialect in DIALECTS:
            try:
                return self.whole(dialect)
            except InvalidInput:
                continue
        return None

    def query(self, dialect: Dialect) -> Statement:
        """Return the query in it; errors as `Statement.of`."""
        whole = self.whole(dialect)
        return whole if self.part is None else query_in(whole, self.part)

    def only(self, part: QueryPart) -> SqlText:
        """Return the same text with the place of its query."""
        text = SqlText(self.text, part)
        text._split = self._split
        return text


class _Rewriting:
    """Rewrites a statement from start to end, with replacements."""

    def __init__(self, statement: Statement) -> None:
        self._old = statement
        self._at = 0  # up to here the old text is written
        self._next = 0  # the first token that is not written
        self._pieces: list[str] = []
        self._length = 0
        self._tokens: list[Token] = []
        self._cut_token = False

    def apply(self, edit: Replacement) -> None:
        """Write the text before a span, and what takes the place of the span."""
        if edit.start < self._at or edit.end > len(self._old.text):
            raise InvalidInput("these table references are not of this statement", hint="read them from the same text")
        self._keep(edit.start)
        for number, (kind, text) in enumerate(edit.tokens):
            if number or edit.start == edit.end:
                self._write(" ")
            self._write_apart(text)
            self._tokens.append(Token.of(kind, text, self._length - len(text)))
        self._at = edit.end
        after = self._old.index_from(edit.end)
        self._cut_token |= after > self._next and self._old.tokens[after - 1].end > edit.end
        self._next = after

    def finished(self) -> Statement:
        """Write the rest, and return the statement."""
        self._keep(len(self._old.text))
        text = "".join(self._pieces)
        if self._cut_token:  # a span ended inside a token, so only the new text tells what is there now
            return Statement.of(text, dialect=self._old.dialect)
        return Statement(text, self._old.dialect, tuple(self._tokens))

    def _keep(self, end: int) -> None:
        """Write the old text up to an offset, and its tokens."""
        if end == self._at:
            return
        self._write_apart(self._old.text[self._at : end])
        after = self._old.index_from(end)
        kept = self._old.tokens[self._next : after]
        self._cut_token |= bool(kept) and kept[-1].end > end
        self._tokens += _moved(kept, self._length - end)
        self._at, self._next = end, after

    def _write_apart(self, text: str) -> None:
        """Write a text, after a space where it would otherwise continue the token before it."""
        if self._pieces and _would_join(self._pieces[-1][-1], text[0]):
            self._write(" ")
        self._write(text)

    def _write(self, text: str) -> None:
        self._pieces.append(text)
        self._length += len(text)


def _moved(tokens: Sequence[Token], by: int) -> list[Token]:
    return [Token(kind, text, start + by, end + by, word, symbol) for kind, text, start, end, word, symbol in tokens]


def _would_join(left: str, right: str) -> bool:
    return (left == right and left in _QUOTES) or (_in_word(left) and _in_word(right))


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_" or not character.isascii()
