"""One SQL statement: its text, its dialect, and the tokens that the text was split into, once.

Every step that looks into a statement takes this value, not the text: the search for tables and version clauses,
parameters, views, answers from metadata, and the checks of what SQL may read. A step that rewrites a statement returns
a new value: `Statement.replaced` applies a list of replacements at once. A statement that is put together from parts of
another one (`sleeper_nb.sql.composition`) knows where they were, so that an error is shown in what the user wrote.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from operator import attrgetter

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.sql_values import DIALECTS, Dialect, QueryPart, Slice, Written
from sleeper_nb.sql.dialects import RULES, DialectRules
from sleeper_nb.sql.tokens import Token, tokenize

_START = attrgetter("start")
_QUOTES = frozenset("\"'`")


@dataclass(frozen=True, slots=True)
class Replacement:
    """What takes the place of a span of a statement's text.

    Parameters
    ----------
    start, end
        The span, in characters. Where both are the same, the text is inserted, after a space.
    text
        Whole tokens; "" cuts the span out.
    """

    start: int
    end: int
    text: str = ""


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
        return Written(self.text, self.dialect)

    def words(self) -> tuple[str, ...]:
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
        return Statement.of(self.text[self.tokens[at].start :], dialect=self.dialect)

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
        text, at = "", 0
        for edit in edits:
            if edit.start < at or edit.end > len(self.text):
                raise InvalidInput(
                    "these table references are not of this statement", hint="read them from the same text"
                )
            text = _joined(text, self.text[at : edit.start])
            text = _joined(f"{text} " if edit.text and edit.start == edit.end else text, edit.text)
            at = edit.end
        return Statement.of(_joined(text, self.text[at:]), dialect=self.dialect)


def _joined(left: str, right: str) -> str:
    return f"{left} {right}" if left and right and _would_join(left[-1], right[0]) else left + right


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
        whole = self.whole(dialect)
        return whole if self.part is None else query_in(whole, self.part)

    def only(self, part: QueryPart) -> SqlText:
        text = SqlText(self.text, part)
        text._split = self._split
        return text


def _would_join(left: str, right: str) -> bool:
    return (left == right and left in _QUOTES) or (_in_word(left) and _in_word(right))


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_" or not character.isascii()
