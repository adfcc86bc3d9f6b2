"""Statements that differ only in the values of their literals: one is judged, the others follow from it.

DuckDB's grammar does not look at the value of a number or a string, so its syntax tree of ``k = 5`` is that of
``k = 7`` but for one text. A lookup of another key is a new statement, and to parse it takes a sixth of its time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

from sleeper_nb.engines.duckdb.syntax_tree import tree_nodes
from sleeper_nb.sql.statement import Statement

_HIDDEN: Final = "\0"
"""Takes the place of each character of a literal; no statement with this character is masked."""
_CUT: Final = json.dumps(_HIDDEN)[1:-1]
"""The same in JSON, on both sides of a literal's number."""
_INTEGER: Final = re.compile(r"0|[1-9]\d{0,17}", re.ASCII)
_STRING: Final = re.compile(r"'[^']*'")


@dataclass(frozen=True, slots=True)
class MaskedStatement:
    """A statement whose literals are hidden.

    Parameters
    ----------
    text
        The statement, with another character for each one of a literal.
    places
        Where the literals begin, and how many characters they have.
    kinds
        ``INTEGER`` or ``STRING``, as DuckDB calls them.
    values
        The literals without quotes.
    """

    text: str
    places: tuple[tuple[int, int], ...]
    kinds: tuple[str, ...]
    values: tuple[str, ...]

    @classmethod
    def of(cls, statement: Statement) -> MaskedStatement | None:
        """Hide the plain integers and strings of a statement; None when there is none, or it has other characters.

        The places in DuckDB's tree count bytes, so it must be ASCII.
        """
        text = statement.text
        if not text.isascii() or _HIDDEN in text:
            return None
        literals = [
            ("INTEGER" if token.kind == "number" else "STRING", token)
            for token in statement.tokens
            if (token.kind == "number" and _INTEGER.fullmatch(token.text))
            or (token.kind == "string" and _STRING.fullmatch(token.text))
        ]
        if not literals:
            return None
        masked, at = [], 0
        for kind, token in literals:
            masked += [text[at : token.start], kind[0], _HIDDEN * len(token.text)]
            at = token.end
        return cls(
            "".join((*masked, text[at:])),
            tuple((token.start, len(token.text)) for _, token in literals),
            tuple(kind for kind, _ in literals),
            tuple(token.text.strip("'") for _, token in literals),
        )


@dataclass(frozen=True, slots=True)
class TreeShape:
    """A node of a syntax tree without the values of its literals.

    Parameters
    ----------
    pieces
        Its JSON, cut where a literal is.
    literals
        Which of the statement's literals follows each piece but the last.
    """

    pieces: tuple[str, ...]
    literals: tuple[int, ...]

    @classmethod
    def of(cls, tree: Mapping[str, Any], masked: MaskedStatement) -> TreeShape | None:
        """Return the shape of a statement's tree; None unless each hidden literal is one constant of it, as written."""
        written = json.dumps(tree)
        if _CUT in written:  # a quoted name that has these characters
            return None
        copied, constants = json.loads(written), dict[tuple[int, int], list[dict[str, Any]]]()
        for node in tree_nodes(copied):
            if node.get("class") == "CONSTANT" and "literal" in node:
                place = (node["query_location"], node["query_location_length"])
                constants.setdefault(place, []).append(node["literal"])
        for number, literal in enumerate(zip(masked.places, masked.kinds, masked.values, strict=True)):
            place, kind, value = literal
            if constants.get(place) != [{"kind": kind, "text": value}]:
                return None
            constants[place][0]["text"] = f"{_HIDDEN}{number}{_HIDDEN}"
        pieces = json.dumps(copied).split(_CUT)
        return cls(tuple(pieces[::2]), tuple(map(int, pieces[1::2])))

    def with_literals(self, masked: MaskedStatement) -> dict[str, Any]:
        """Return the tree of a statement of the same shape."""
        return json.loads("".join(self._parts(masked.values)))  # type: ignore[no-any-return]

    def _parts(self, values: tuple[str, ...]) -> Iterator[str]:
        for piece, number in zip_longest(self.pieces, self.literals):
            yield piece
            if number is not None:
                yield json.dumps(values[number])[1:-1]
