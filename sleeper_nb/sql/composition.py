"""Compose a query of text of this package and parts of a user's statement, which stay as they are, byte for byte.

What a statement changes is found by a query that the engine runs: conditions, values and sources are taken over from
the statement, with their version clauses and parameters, so that they mean what they meant there. The new statement
knows where each part was (`sleeper_nb.sql.statement.TextOrigin`), for the places of errors.

A condition or value goes between brackets (`in_brackets`): in them it is one expression, or the engine refuses it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sleeper_nb.errors import InvalidInput
from sleeper_nb.sql.statement import OriginSpan, Slice, Statement, TextOrigin
from sleeper_nb.sql.tokens import quote_name


@dataclass(frozen=True, slots=True)
class Around:
    """A part with text of this package around it, such as a cast; errors about that text are shown at the part."""

    before: str
    part: Slice
    after: str


@dataclass(frozen=True, slots=True)
class QuotedName:
    """A name, which each engine's SQL has in quotes of its own."""

    text: str


@dataclass(frozen=True, slots=True)
class InDialect:
    """Text of this package that is not the same in each engine's SQL."""

    duckdb: str
    spark: str


Piece = str | Slice | Around | QuotedName | InDialect
"""Text of this package, a part of the user's statement, a part with text around it, or a name."""


@dataclass(frozen=True, slots=True)
class Composition:
    """A query made of pieces, which are written one after another with a space between them."""

    pieces: tuple[Piece, ...]

    def of(self, statement: Statement) -> Statement:
        """Return the query, in the dialect of the statement that has the parts.

        Raises
        ------
        InvalidInput
            When a part is no whole tokens of the statement: it was read from another one, or in another dialect.
        """
        texts: list[str] = []
        spans: list[OriginSpan] = []
        at = 0
        for piece in self.pieces:
            match piece:
                case str():
                    text = piece
                case QuotedName(name):
                    text = quote_name(name, dialect=statement.dialect)
                case InDialect(duckdb, spark):
                    text = spark if statement.dialect == "spark" else duckdb
                case _:
                    around = Around("", piece, "") if isinstance(piece, Slice) else piece
                    _check_is_of(statement, around.part)
                    text = f"{around.before}{around.part.text}{around.after}"
                    spans.append(OriginSpan(at, at + len(text), around.part, at + len(around.before)))
            texts.append(text)
            at += len(text) + 1
        query = Statement.of(" ".join(texts), dialect=statement.dialect)
        return Statement(query.text, query.dialect, query.tokens, TextOrigin(statement, tuple(spans)))


def in_brackets(part: Slice) -> Around:
    """Return a part between round brackets."""
    return Around("(", part, ")")


def _check_is_of(statement: Statement, part: Slice) -> None:
    first, after = statement.index_from(part.at), statement.index_from(part.end)
    tokens = statement.tokens[first:after]
    whole = tokens and tokens[0].start == part.at and tokens[-1].end == part.end
    if not whole or statement.text[part.at : part.end] != part.text:
        problem = f"{part.text!r} is no part of the statement as {statement.dialect} reads it"
        raise InvalidInput(problem, hint="write quotes in texts twice, 'it''s', or name the engine")
