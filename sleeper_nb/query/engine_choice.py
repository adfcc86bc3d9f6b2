"""Which engine runs a statement for which the user names none: DuckDB, unless there is a reason for Spark.

DuckDB answers within milliseconds and, on one machine, reads faster than Spark. The reasons for Spark are a warehouse
that names a cluster, a statement in Spark's SQL, a view that Spark keeps, a Spark DataFrame, and much to read by a
statement that both engines answer alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from sleeper_nb.engines.engine import EngineName
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import Token, spells

EngineChoice = Literal["auto", "spark", "duckdb"]

LARGE_GIB: Final = 4
"""From this size of the files to read on, Spark runs a statement that both engines answer alike."""


@dataclass(frozen=True, slots=True)
class ChosenEngine:
    """An engine, and why it was chosen: "" when the user named it.

    Its text is for footers: ``duckdb``, or ``spark (auto: it reads 5.2 GiB)``.
    """

    name: EngineName
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name} (auto: {self.why})" if self.why else self.name


def means_the_same(statement: Statement) -> bool:
    """Return whether a statement has the same answer on both engines, as far as its words show.

    It then has only names, numbers, texts, comparisons, sums and differences, joins, groups and a few functions. The
    engines differ in the order of NULLs, in which rows a limit takes, in ``/`` and ``^``, and in many functions.
    """
    tokens = statement.tokens
    for at, token in enumerate(tokens):
        if token.symbol and token.symbol not in _SAME_SYMBOLS:
            return False
        if token.word in _DIFFERENT_WORDS or (token.kind in {"quoted", "string"} and _is_written_apart(token)):
            return False
        if token.word and spells(tokens, at + 1, "(") and token.word not in _SAME_BEFORE_BRACKET:
            return False
    return statement.words()[:1] in {("SELECT",), ("WITH",)}


_SAME_SYMBOLS: Final = frozenset("(),.*+-=<>;:@")
_DIFFERENT_WORDS: Final = frozenset({
    "CAST", "INTERVAL", "LIKE", "LIMIT", "OFFSET", "ORDER", "OVER", "QUALIFY", "SAMPLE", "TABLESAMPLE",
})  # fmt: skip
_SAME_BEFORE_BRACKET: Final = frozenset({
    "ALL", "AND", "AS", "BY", "CASE", "COALESCE", "COUNT", "DISTINCT", "ELSE", "EXISTS", "FROM", "HAVING", "IN", "JOIN",
    "MAX", "MIN", "NOT", "ON", "OR", "SELECT", "SUM", "THEN", "UNION", "USING", "WHEN", "WHERE",
})  # fmt: skip


def _is_written_apart(token: Token) -> bool:
    r"""Return whether a name or text means something else to one of the engines: ``"a"``, ``'\n'``, ``e'…'``."""
    return token.text[0] not in "'`" or "\\" in token.text
