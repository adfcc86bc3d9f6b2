"""Statements that differ only in the values of their literals: one is judged, the others follow from it.

DuckDB's grammar does not look at the value of a number or a string, so its syntax tree of ``k = 5`` is that of
``k = 7`` but for one text. A lookup of another key is a new statement, and to parse it takes a sixth of its time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, Final, NamedTuple

from sleeper_nb.engines.duckdb.syntax_tree import tree_nodes
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import Token

_HIDDEN: Final = "\0"
"""Takes the place of each character of a literal; no statement with this character is masked."""
_CUT: Final = json.dumps(_HIDDEN)[1:-1]
"""The same in JSON, on both sides of a literal's number."""
_INTEGER: Final = re.compile(r"0|[1-9]\d{0,17}", re.ASCII)
_STRING: Final = re.compile(r"'[^']*'")


class Literal(NamedTuple):
    """A plain integer or string of a statement.

    Attributes
    ----------
    kind
        ``INTEGER`` or ``STRING``, as DuckDB calls them.
    text
        The literal without quotes.
    place
        Where it begins, and how many characters it has.
    """

    kind: str
    text: str
    place: tuple[int, int]

    @classmethod
    def of(cls, token: Token) -> Literal | None:
        """Return the literal that a token is; None for any other token."""
        place = (token.start, len(token.text))
        if token.kind == "number" and _INTEGER.fullmatch(token.text):
            return cls("INTEGER", token.text, place)
        if token.kind == "string" and _STRING.fullmatch(token.text):
            return cls("STRING", token.text[1:-1], place)
        return None


@dataclass(frozen=True, slots=True)
class MaskedStatement:
    """A statement whose literals are hidden.

    Parameters
    ----------
    text
        The statement, with the first letter of its kind and a hidden character for each one of a literal.
    literals
        What is hidden, in its order.
    """

    text: str
    literals: tuple[Literal, ...]

    @classmethod
    def of(cls, statement: Statement) -> MaskedStatement | None:
        """Hide the plain integers and strings of a statement; None when there is none, or it has other characters.

        The places in DuckDB's tree count bytes, so it must be ASCII.
        """
        text = statement.text
        if not text.isascii() or _HIDDEN in text:
            return None
        literals = tuple(filter(None, map(Literal.of, statement.tokens)))
        masked, at = "", 0
        for kind, _, (start, length) in literals:
            masked += f"{text[at:start]}{kind[0]}{_HIDDEN * length}"
            at = start + length
        return cls(masked + text[at:], literals) if literals else None


@dataclass(frozen=True, slots=True)
class TreeShape:
    """A node of a syntax tree without the values of its literals.

    Parameters
    ----------
    pieces
        Its JSON, cut where a literal is.
    numbers
        Which of the statement's literals follows each piece but the last.
    """

    pieces: tuple[str, ...]
    numbers: tuple[int, ...]

    @classmethod
    def of(cls, tree: Mapping[str, Any], literals: Sequence[Literal]) -> TreeShape | None:
        """Return the shape of a statement's tree; None unless each literal is one constant of it, as written."""
        written = json.dumps(tree)
        if _CUT in written:  # a quoted name that has these characters
            return None
        copied, constants = json.loads(written), dict[tuple[int, int], list[dict[str, Any]]]()
        for node in tree_nodes(copied):
            if node.get("class") == "CONSTANT" and "literal" in node:
                place = (node["query_location"], node["query_location_length"])
                constants.setdefault(place, []).append(node["literal"])
        for number, (kind, text, place) in enumerate(literals):
            if constants.get(place) != [{"kind": kind, "text": text}]:
                return None
            constants[place][0]["text"] = f"{_HIDDEN}{number}{_HIDDEN}"
        pieces = json.dumps(copied).split(_CUT)
        return cls(tuple(pieces[::2]), tuple(map(int, pieces[1::2])))

    def with_literals(self, literals: Sequence[Literal]) -> dict[str, Any]:
        """Return the tree of a statement of the same shape."""
        texts = [json.dumps(literals[number].text)[1:-1] for number in self.numbers]
        parts = chain.from_iterable(zip_longest(self.pieces, texts, fillvalue=""))
        return json.loads("".join(parts))  # type: ignore[no-any-return]
