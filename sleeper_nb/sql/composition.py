"""Compose a query of text of this package and parts of what a user wrote, which stay as they are, byte for byte.

What a change is about is found by a query that the engine runs: conditions, values and sources are taken over as they
were written, with their version clauses and parameters, so that they mean what they meant there. The query knows where
each part was (`sleeper_nb.sql.statement.TextOrigin`), for the places of errors.

A condition or value goes between brackets (`in_brackets`): in them it is one expression, or the engine refuses it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.sql_values import Dialect, Given, Slice, Written
from sleeper_nb.sql.dialects import RULES, DialectRules
from sleeper_nb.sql.statement import OriginSpan, Statement, TextOrigin
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
class StructBegin:
    """How a call begins that makes a struct."""


@dataclass(frozen=True, slots=True)
class StructField:
    """The name of a field in such a call, in front of its value."""

    name: str


@dataclass(frozen=True, slots=True)
class GivenMap:
    """A map as Python has it: an engine would read a dictionary as a struct."""

    pairs: tuple[tuple[Any, Any], ...]


Piece = str | Slice | Around | QuotedName | StructBegin | StructField | Given | GivenMap
"""Text of this package, a part of the user's SQL, a part with text around it, a name, or a Python value."""


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

        Parameters
        ----------
        dialect
            Which engine's.
        taken
            The names of the user's own parameters.

        Raises
        ------
        InvalidInput
            When a part was read in another dialect, and is no whole tokens in this one.
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
                case QuotedName(name):
                    text = quote_name(name, dialect=dialect)
                case StructBegin():
                    text = rules.struct_begin
                case StructField(name):
                    text = rules.struct_field.format(name=name, quoted=quote_name(name, dialect=dialect))
                case Given(value):
                    name = next(names)
                    values[name] = value
                    text = f":{name}"
                case GivenMap(pairs):
                    own = _values_of_map(pairs, rules, names)
                    values |= own
                    text = f"map({', '.join(f':{name}' for name in own)})"
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


def _values_of_map(pairs: tuple[tuple[Any, Any], ...], rules: DialectRules, names: Iterator[str]) -> dict[str, Any]:
    """Return the arguments of ``map()``, by the names of parameters."""
    if rules.map_of_pairs:
        return {next(names): part for pair in pairs for part in pair}
    return {next(names): [pair[side] for pair in pairs] for side in (0, 1)}


def _check_is_readable(part: Slice, dialect: Dialect) -> None:
    """Raise when a part is no whole tokens in a dialect in which it was not read."""
    if part.written.dialect == dialect:
        return
    statement = Statement.of(part.written.text, dialect=dialect)
    tokens = statement.tokens[statement.index_from(part.at) : statement.index_from(part.end)]
    if not tokens or tokens[0].start != part.at or tokens[-1].end != part.end:
        problem = f"{part.text!r} is no part of the statement as {dialect} reads it"
        raise InvalidInput(problem, hint="write quotes in texts twice, 'it''s', or name the engine")
