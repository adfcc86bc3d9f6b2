"""Refuse a row as a whole in the conditions and values of a statement that changes rows.

The engine reads the table and the source of a merge with columns of this package, their places and numbers. A star, or
a name of either as a value, would have these in it: a text or a comparison of the row would be a wrong one. In a
subquery, a name means such a row too, unless the subquery has a table of that name.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sleeper_nb.change.row_changes import MergeRows, RowChange, conditions_of, values_of
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.sql_values import Slice
from sleeper_nb.sql.grammar import placed
from sleeper_nb.sql.references import TableReference, table_references
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import Token, skip_brackets, unquote

_QUERIES = frozenset({"SELECT", "FROM", "WITH", "VALUES", "TABLE", "PIVOT", "UNPIVOT"})
_SET_OPERATIONS = frozenset({"UNION", "INTERSECT", "EXCEPT", "MINUS"})


def check_no_whole_rows(change: RowChange, columns: Collection[str]) -> None:
    """Raise `InvalidInput` for a row of the table or of the source as a whole.

    Parameters
    ----------
    change
        The change.
    columns
        The columns of the table: such a name is a column, even if the table has it too.
    """
    relations = [change.target.name]
    relations += [change.source.name.text] if isinstance(change, MergeRows) and change.source.name is not None else []
    names = frozenset(map(str.casefold, relations)) - {name.casefold() for name in columns}
    for part in (*conditions_of(change), *values_of(change)):
        if not isinstance(part, Slice):
            continue
        found = _whole_row(Statement.of(part.text, dialect=part.written.dialect), names)
        if found is not None:
            token, is_in_query = found
            hint = "name the columns that are meant, such as n or t.n"
            if is_in_query and token.kind != "symbol":
                hint += f"; for a column {token.text} of another table write u.{token.text}"
            error = InvalidInput(f"{token.text} stands for a whole row here", hint=hint)
            raise placed(error, part.written, part.at + token.start)


Found = tuple[Token, bool]
"""A token that stands for a whole row, at its place in the text that was searched, and whether it is in a subquery."""


def _whole_row(expression: Statement, names: frozenset[str]) -> Found | None:
    """Return the first token of a condition or value that stands for a whole row."""
    tokens, at = expression.tokens, 0
    while at < len(tokens):
        token = tokens[at]
        if _opens_query(tokens, at):
            after = skip_brackets(tokens, at)
            found = _Subquery(_inside(expression, at, after), names).whole_row()
            if found is not None:
                return _moved(found, tokens[at + 1].start)
            at = after
            continue
        before, following = _around(tokens, at)
        is_star = token.symbol == "*" and (before is None or before.symbol in {"(", ",", ".", "["})
        is_columns = token.word == "COLUMNS" and following is not None and following.symbol == "("
        if is_star or is_columns or (_is_value(tokens, at) and _name(expression, token) in names):
            return token, False
        at += 1
    return None


@dataclass(slots=True)
class _Subquery:
    """A query in a condition or value, which sees the rows around it by their names.

    Parameters
    ----------
    query
        The query.
    names
        The names of the rows around it.
    """

    query: Statement
    names: frozenset[str]
    _own: set[str] = field(default_factory=set)
    """The names of tables of the SELECT that is read, which hide those around it."""
    _doubtful: list[Token] = field(default_factory=list)
    _inner: list[tuple[int, Statement]] = field(default_factory=list)
    """The queries in the SELECT that is read, and where each begins."""

    def whole_row(self) -> Found | None:
        """Return the first token that stands for a whole row of the statement around the query."""
        tokens, tables = self.query.tokens, {each.start: each for each in table_references(self.query)}
        defined = {_name(self.query, token) for at, token in enumerate(tokens) if _is_defined(tokens, at)}
        at = 0
        while at < len(tokens):
            token = tokens[at]
            if token.word in _SET_OPERATIONS:
                found = self._found(defined)
                if found is not None:
                    return found
            if _opens_query(tokens, at):
                after = skip_brackets(tokens, at)
                self._inner.append((tokens[at + 1].start, _inside(self.query, at, after)))
                at = self._alias(after)
            elif token.start in tables:
                at = self._table(tables[token.start])
            else:
                is_star = token.symbol == "*" and at > 1 and tokens[at - 1].symbol == "."
                name = _name(self.query, tokens[at - 2] if is_star else token)
                if name in self.names and (is_star or _is_value(tokens, at)):
                    self._doubtful.append(tokens[at - 2] if is_star else token)
                at += 1
        return self._found(defined)

    def _found(self, defined: set[str]) -> Found | None:
        """Return the first whole row of the SELECT that was read, and begin another one."""
        seen = self.names - self._own - defined
        doubtful = [token for token in self._doubtful if _name(self.query, token) in seen]
        found: list[Found] = [(token, True) for token in doubtful]
        for start, query in self._inner:
            inner = _Subquery(query, seen).whole_row()
            found += [] if inner is None else [_moved(inner, start)]
        self._own, self._doubtful, self._inner = set(), [], []
        return min(found, key=lambda each: each[0].start, default=None)

    def _table(self, table: TableReference) -> int:
        """Note a table and return the index after it and its alias."""
        self._own.add((table.alias or table.parts[-1]).casefold())
        at = self.query.index_from(table.end)
        return at if table.alias is None else self._alias(at)

    def _alias(self, at: int) -> int:
        """Note an alias, if one is there, and return the index after it."""
        tokens = self.query.tokens
        named = at + 1 if at < len(tokens) and tokens[at].word == "AS" else at
        if named >= len(tokens) or tokens[named].kind not in {"word", "quoted"}:
            return at
        name = _name(self.query, tokens[named])
        if name not in self.names:
            return at
        self._own.add(name)
        return named + 1


def _opens_query(tokens: Sequence[Token], at: int) -> bool:
    """Return whether the token at an index is the bracket before a query."""
    return tokens[at].symbol == "(" and at + 1 < len(tokens) and tokens[at + 1].word in _QUERIES


def _inside(statement: Statement, at: int, after: int) -> Statement:
    """Return the query in the brackets from an index to the one before another index."""
    tokens = statement.tokens
    end = tokens[after - 1].start if tokens[after - 1].symbol == ")" else tokens[after - 1].end
    return Statement.of(statement.text[tokens[at + 1].start : end], dialect=statement.dialect)


def _moved(found: Found, by: int) -> Found:
    token, is_in_query = found
    return token._replace(start=token.start + by, end=token.end + by), is_in_query


def _name(statement: Statement, token: Token) -> str:
    return unquote(token, dialect=statement.dialect).casefold() if token.kind in {"word", "quoted"} else ""


def _around(tokens: Sequence[Token], at: int) -> tuple[Token | None, Token | None]:
    return tokens[at - 1] if at else None, tokens[at + 1] if at + 1 < len(tokens) else None


def _is_value(tokens: Sequence[Token], at: int) -> bool:
    return tokens[at].kind in {"word", "quoted"} and _stands_alone(*_around(tokens, at))


def _is_defined(tokens: Sequence[Token], at: int) -> bool:
    """Return whether the name at an index is one of a WITH: ``t AS (``, ``t AS NOT MATERIALIZED (``."""
    words = [each.word or each.symbol for each in tokens[at + 1 : at + 5]]
    while len(words) > 1 and words[1] in {"NOT", "MATERIALIZED"}:
        del words[1]
    return words[:2] == ["AS", "("]


def _stands_alone(before: Token | None, after: Token | None) -> bool:
    """Return whether a name between two tokens is a value: no qualifier, field, parameter, label, type or unit."""
    if before is not None and (before.symbol in {".", ":", "$"} or before.kind == "number" or before.word == "AS"):
        return False
    is_unit = after is not None and after.word == "FROM" and before is not None and before.symbol == "("
    return after is None or not (is_unit or after.symbol in {".", "(", ":"} or after.kind == "string")
