"""One SQL statement: its text, its dialect, and the tokens that the text was split into, once.

Every step that looks into a statement takes this value, not the text: the search for tables and version clauses,
parameters, views, answers from metadata, and the checks of what SQL may read. A step that rewrites a statement returns
a new value: `Statement.replaced` applies a list of replacements at once. A statement that is put together from parts of
another one (`Composition`) knows where they were, so that an error is shown in what the user wrote.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from operator import attrgetter
from typing import Any

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.sql_values import DIALECTS, Dialect, Given, QueryPart, Slice, Written
from sleeper_nb.sql.dialects import RULES, DialectRules
from sleeper_nb.sql.tokens import Token, tokenize

_START = attrgetter("start")
_QUOTES = frozenset("\"'`")


@dataclass(frozen=True, slots=True)
class Replacement:
    """What takes the place of a span of a statement's text: whole tokens, or "" to cut it out.

    Where start and end are the same, the text is inserted, after a space.
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
    """Where spans of a statement's text, in its order, were in what the user wrote.

    If it is composed, text between them is of this package.
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
    """A SQL text without the ``;`` at its end, and its tokens; and where its parts were written, if it is composed."""

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
    """The text of one statement as the user wrote it, which is split once for each dialect that is asked for.

    `part` is where the query is in it; None when it is one.
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


# A query of text of this package and of parts of what a user wrote, which stay as they are, byte for byte.
#
# What a change is about is found by a query that the engine runs: conditions, values and sources are taken over as they
# were written, with their version clauses and parameters, so that they mean what they meant there. A condition or value
# goes between brackets (`in_brackets`): in them it is one expression, or the engine refuses it.


@dataclass(frozen=True, slots=True)
class Around:
    """A part with text of this package around it, such as a cast; errors about that text are shown at the part."""

    before: str
    part: Slice
    after: str


@dataclass(frozen=True, slots=True)
class StructField:
    """The name of a field in a call that makes a struct, in front of its value; the first one begins the call."""

    name: str
    is_first: bool = False


Piece = str | Slice | Around | StructField | Given
"""Text of this package, a part of the user's SQL, a part with text around it, a field, or a Python value."""


@dataclass(frozen=True, slots=True)
class Composition:
    """A query made of pieces, which are written one after another with a space between them."""

    pieces: tuple[Piece, ...]

    @property
    def written(self) -> tuple[Written, ...]:
        """The texts of the user that it has parts of, each once."""
        parts = (each.part if isinstance(each, Around) else each for each in self.pieces)
        return tuple(dict.fromkeys(each.written for each in parts if isinstance(each, Slice)))

    def of(self, dialect: Dialect, taken: Collection[str] = ()) -> tuple[Statement, dict[str, Any]]:
        """Return the query in an engine's SQL, and its Python values by the names of their parameters.

        `taken` are the names of the user's own parameters. Raises when a part was read in another dialect, and is no
        whole tokens in this one.
        """
        names = (name for number in count() if (name := f"sleeper_value_{number}") not in taken)
        rules = RULES[dialect]
        values: dict[str, Any] = {}
        texts: list[str] = []
        spans: list[OriginSpan] = []
        at = 0
        for piece in self.pieces:
            match piece:
                case str():
                    text = piece
                case StructField(name, is_first):
                    text = (rules.struct_begin if is_first else "") + rules.struct_field.format(name)
                case Given(value):
                    name = next(names)
                    values[name] = value
                    text = f":{name}"
                case _:
                    around = Around("", piece, "") if isinstance(piece, Slice) else piece
                    _check_is_readable(around.part, dialect)
                    text = f"{around.before}{around.part.text}{around.after}"
                    spans.append(OriginSpan(at, at + len(text), around.part, at + len(around.before)))
            texts.append(text)
            at += len(text) + 1
        query = Statement.of(" ".join(texts), dialect=dialect)
        return Statement(query.text, dialect, query.tokens, TextOrigin(tuple(spans))), values

    def query(self, dialect: Dialect) -> Statement:
        return self.of(dialect)[0]


def in_brackets(part: Slice) -> Around:
    return Around("(", part, ")")


def _check_is_readable(part: Slice, dialect: Dialect) -> None:
    """Raise when a part is no whole tokens in a dialect in which it was not read."""
    if part.written.dialect == dialect:
        return
    statement = Statement.of(part.written.text, dialect=dialect)
    tokens = statement.tokens[statement.index_from(part.at) : statement.index_from(part.end)]
    if not tokens or tokens[0].start != part.at or tokens[-1].end != part.end:
        problem = f"{part.text!r} is no part of the statement as {dialect} reads it"
        raise InvalidInput(problem, hint="write quotes in texts twice, 'it''s', or name the engine")
