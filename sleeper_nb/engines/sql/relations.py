"""Read the pieces of a SQL statement that make a table reference: name, version clause, sample and alias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sleeper_nb.engines.sql.tokens import Dialect, Token, skip_brackets, spells, unquote
from sleeper_nb.engines.sql.version_clause import RESERVED, VersionClause, read_clause
from sleeper_nb.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

Role = Literal["read", "describe", "write"]

_JOIN_KINDS = frozenset({"ASOF", "POSITIONAL", "SEMI", "ANTI"})


@dataclass(frozen=True, slots=True)
class TableReference:
    """One table that a statement names.

    Attributes
    ----------
    parts
        The name without quotes, as written: ``("flights",)`` or ``("db", "flights")``.
    clause
        The version asked for; None for the newest.
    alias
        The alias without quotes; None when there is none.
    start, end
        The span that a view's name replaces, in characters: the name, and the clause when it stands right behind. A
        clause behind the alias has its own span in `clause`.
    role
        ``"read"`` for a relation of a query; ``"describe"`` and ``"write"`` for what a statement is about.
    alias_at
        Where an alias has to be added once the name is replaced; None when there is one, or none is allowed.
    has_options
        ``WITH (…)`` follows, which Spark silently ignores on views.
    """

    parts: tuple[str, ...]
    clause: VersionClause | None
    alias: str | None
    start: int
    end: int
    role: Role = "read"
    alias_at: int | None = None
    has_options: bool = False

    @property
    def name(self) -> str:
        """The name in one piece: ``flights`` or ``db.flights``."""
        return ".".join(self.parts)


class Reader:
    """The tokens of one statement, read by index; what reads gives the index behind what it read.

    Attributes
    ----------
    found
        The references read so far.
    """

    def __init__(self, sql: str, tokens: Sequence[Token], dialect: Dialect) -> None:
        self.sql, self.tokens, self.dialect = sql, tokens, dialect
        self.found: list[TableReference] = []

    def table(self, first: int, behind: int, parts: tuple[str, ...], prefix: str | None) -> int:
        """Read what follows the name of a relation that is a table; `prefix` is an alias that stood before it."""
        clause, behind = self.clause(behind)
        end = clause.end if clause else self.tokens[behind - 1].end
        has_options = spells(self.tokens, behind, "WITH", "(")
        if has_options:
            behind = skip_brackets(self.tokens, behind + 1)
        if self.dialect == "spark" and spells(self.tokens, behind, "TABLESAMPLE", "("):
            # In Spark the sample stands before the alias, in DuckDB behind it.
            behind = skip_brackets(self.tokens, behind + 1)
            if spells(self.tokens, behind, "REPEATABLE", "("):
                behind = skip_brackets(self.tokens, behind + 1)
        alias_at = max(end, self.tokens[behind - 1].end)
        alias, behind = self.alias(behind)
        if clause is None:
            clause, behind = self.clause(behind)
        alias = alias or prefix
        reference = TableReference(
            parts, clause, alias, self.tokens[first].start, end, "read", None if alias else alias_at, has_options
        )
        self.found.append(reference)
        return behind

    def no_table(self, at: int, what: str) -> int:
        """Pass over the alias of a relation that is no table, and refuse a version clause before or behind it."""
        for behind in (at, self.alias(at)[1]):
            if self.clause(behind)[0] is not None:
                raise InvalidInput(f"{what} has no versions", hint="put the version clause behind a table's name")
        return self.alias(at)[1]

    def alias(self, at: int) -> tuple[str | None, int]:
        """Read ``[AS] alias [(columns)]``, if it is there."""
        named = at + 1 if self.word(at) == "AS" else at
        token = self.tokens[named] if named < len(self.tokens) else None
        if token is None or token.kind in {"symbol", "number"} or (named == at and not self.is_alias(at)):
            return None, at
        behind = named + 1
        if spells(self.tokens, behind, "("):
            behind = skip_brackets(self.tokens, behind)
        return unquote(token, dialect=self.dialect), behind

    def is_alias(self, at: int) -> bool:
        """Tell whether what stands behind a relation without AS is an alias, not the next clause."""
        word, following = self.word(at), self.word(at + 1)
        if self.tokens[at].kind == "quoted":
            return True
        clause = (following == "BY" and word in {"SORT", "CLUSTER", "DISTRIBUTE"}) or self.clause(at)[0] is not None
        join = word in _JOIN_KINDS and following in {"JOIN", "LEFT", "RIGHT", "INNER", "FULL", "OUTER"}
        minus = word == "MINUS" and self.dialect == "spark"
        return word not in RESERVED | {""} and not (clause or join or minus)

    def clause(self, at: int) -> tuple[VersionClause | None, int]:
        """Read a version clause, if one is there."""
        return read_clause(self.sql, self.tokens, at, dialect=self.dialect) or (None, at)

    def parts(self, at: int) -> tuple[tuple[str, ...], int]:
        """Read a name with dots."""
        parts = [unquote(self.tokens[at], dialect=self.dialect)]
        at += 1
        while spells(self.tokens, at, ".") and at + 1 < len(self.tokens) and self.tokens[at + 1].kind != "symbol":
            parts.append(unquote(self.tokens[at + 1], dialect=self.dialect))
            at += 2
        return tuple(parts), at

    def is_name(self, at: int) -> bool:
        """Tell whether a table's name may stand here."""
        if at >= len(self.tokens):
            return False
        token = self.tokens[at]
        spark_number = token.kind == "number" and self.dialect == "spark" and not token.text.isdigit()
        return token.kind == "quoted" or spark_number or token.word not in RESERVED | {""}

    def word(self, at: int) -> str:
        """Give the word at an index in upper case; empty when no plain word is there."""
        return self.tokens[at].word if 0 <= at < len(self.tokens) else ""

    def ends(self, at: int) -> bool:
        """Tell whether the statement or the bracket ends here."""
        return at >= len(self.tokens) or self.tokens[at].is_symbol(")")
