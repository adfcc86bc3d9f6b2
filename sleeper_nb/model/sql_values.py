"""Parts of SQL that a user wrote, as values, which know where they were written; and Python values among them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

Dialect = Literal["duckdb", "spark"]
"""Which engine's SQL a text is in; a statement is read in this order when its engine is not named."""
DIALECTS: Final[tuple[Dialect, ...]] = get_args(Dialect)


@dataclass(frozen=True, slots=True)
class Written:
    """A text of SQL as a user wrote it, and which engine's SQL it is."""

    text: str
    dialect: Dialect


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a text of SQL, byte for byte: a condition, a value, a relation.

    Parameters
    ----------
    text
        The part.
    at
        Where it begins, in characters.
    written
        All that the user wrote.
    """

    text: str
    at: int
    written: Written = field(repr=False)

    @property
    def end(self) -> int:
        return self.at + len(self.text)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class QueryPart:
    """The query in a statement that writes: the whole text without a span, which is of our own grammar."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Name:
    """A name, without quotes, and where it begins in what a user wrote."""

    text: str
    at: int = 0

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Given:
    """A Python value in the place of an expression."""

    value: Any
