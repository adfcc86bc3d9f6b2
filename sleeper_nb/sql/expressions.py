"""Where an expression begins and ends in a statement of our own grammar; what it means is for the engine.

An expression is taken over as it was written, unless it has a row as a whole. So that it cannot mean more where it is
put than where it was, it has every bracket closed, no comma of its own, and no clause of a query after it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from sleeper_nb.edit.row_edit import Assignment, MergeRows, RowEdit, conditions_of, values_of
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.sql_values import Dialect, Name, Slice
from sleeper_nb.sql.grammar import StatementReader, placed
from sleeper_nb.sql.references import table_references
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import CLOSING, Token, quote_name, skip_brackets, spells, tokenize, unquote

_CLOSERS: Final = frozenset(CLOSING.values())

_OPERATORS: Final = frozenset({
    "AND", "OR", "NOT", "XOR", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "GLOB", "SIMILAR", "TO", "BETWEEN", "IS",
    "DISTINCT", "ESCAPE", "COLLATE", "DIV", "ANY", "ALL", "SOME", "EXISTS", "WITHIN", "SYMMETRIC", "ASYMMETRIC",
    "CASE", "WHEN", "THEN", "ELSE", "INTERVAL",
})  # fmt: skip
"""Words after which an operand follows, so that the next word is a name."""

_COMPARISONS: Final = frozenset({"=", "==", "<", ">", "<=", ">=", "<>", "!="})
_LOGIC: Final = frozenset({"AND", "OR", "NOT", "IN", "IS", "LIKE", "ILIKE", "BETWEEN"})
"""Operators whose value is true or false."""
_CHANGES_TYPE: Final = frozenset({"CASE", "COLLATE"})

_CLAUSES: Final = frozenset({
    "AS", "BY", "CLUSTER", "DISTRIBUTE", "EXCEPT", "FETCH", "FROM", "GROUP", "HAVING", "INSERT", "INTERSECT", "INTO",
    "JOIN", "LIMIT", "MERGE", "OFFSET", "ON", "ORDER", "QUALIFY", "RETURNING", "SELECT", "SET", "SORT", "TABLE",
    "UNION", "USING", "VALUES", "WINDOW", "WITH",
})  # fmt: skip
"""Words that begin something else after an operand."""

_SIGNS: Final = frozenset({"=", "==", "<", ">", "<=", ">=", "<>", "!=", "||"})
_ENDS: Final = frozenset({",", "WHERE", "WHEN", "THEN"})
"""What no expression has outside brackets and CASE, and what a user may go on with."""
_QUERIES: Final = frozenset({"SELECT", "FROM", "WITH"})
_QUERIES_BEFORE_NAMES: Final = frozenset({"VALUES", "TABLE", "PIVOT", "UNPIVOT", "DESCRIBE", "SUMMARIZE", "SHOW"})


def read_expression(
    reader: StatementReader, what: str, hint: str, *, stops: frozenset[str] = frozenset(), query_after: bool = False
) -> Slice:
    """Read an expression up to a word that ends it, or up to what cannot be part of it.

    Parameters
    ----------
    reader
        At the first token; afterwards at the first one after the expression.
    what
        What it is, for errors: ``"a condition"``.
    hint
        What to write.
    stops
        Words and symbols that end it, outside brackets and CASE.
    query_after
        Whether a query follows, which may be in brackets.

    Raises
    ------
    InvalidInput
        When there is none; a bracket or a CASE has no end; or a comma is in it.
    """
    first = reader.at
    _check_begins(reader, what, hint)
    cases: list[Token] = []
    while not reader.is_at_end:
        token = reader.tokens[reader.at]
        is_word = bool(token.word) and not _is_field(reader.tokens, reader.at)
        if not cases and _ends(reader, first, stops, is_word=is_word, query_after=query_after):
            break
        if token.symbol in CLOSING:
            skip_closed(reader)
            continue
        _check_symbol(reader, token, what, hint)
        if is_word and token.word == "CASE":
            cases.append(token)
        elif is_word and token.word == "END" and cases:
            cases.pop()
        reader.at += 1
    if cases:
        raise reader.error("CASE has no END", "write CASE WHEN … THEN … ELSE … END", cases[-1].start)
    if reader.at == first:
        raise reader.error(f"{what} is expected", hint)
    return reader.statement.between(first, reader.at)


def expression_of(text: str, what: str, dialect: Dialect) -> Slice:
    """Return the expression that a user gave as a text of its own, without a comment after it.

    Raises
    ------
    InvalidInput
        When it is not exactly one expression.
    """
    hint = "write one expression of SQL, such as n > 5 or lower(s)"
    reader = StatementReader(Statement.of(text, dialect=dialect))
    part = read_expression(reader, what, hint, stops=_ENDS)
    if not reader.is_at_end:
        raise reader.error(f"{what} should end before {reader.word or 'here'}", hint, reader.offset)
    return part


def assignments_of(updates: Mapping[str, str], dialect: Dialect) -> tuple[Assignment, ...]:
    values = {name: expression_of(text, f"the new value of {name!r}", dialect) for name, text in updates.items()}
    return tuple(Assignment(Name(name), value) for name, value in values.items())


def names_in(part: Slice) -> frozenset[str]:
    """Return the words and quoted names in a part of SQL, in lower case; some are names of columns."""
    dialect = part.written.dialect
    names = (each for each in tokenize(part.text, dialect=dialect) if each.kind in {"word", "quoted"})
    return frozenset(unquote(each, dialect=dialect).casefold() for each in names)


def is_plainly_condition(part: Slice) -> bool:
    """Return whether an expression is true or false by its outermost operator: ``n > 5``, ``a = b AND c IN (1, 2)``.

    False where that is not plain: then an engine tells the type.
    """
    tokens = tokenize(part.text, dialect=part.written.dialect)
    is_condition, at, sign = False, 0, ""
    while at < len(tokens):
        token = tokens[at]
        if token.symbol in CLOSING:
            at = skip_brackets(tokens, at)
            continue
        if token.word in _CHANGES_TYPE or token.symbol == "::":
            return False
        sign += token.symbol if token.symbol not in {",", "."} else ""
        at += 1
        if at < len(tokens) and token.symbol and tokens[at].symbol and tokens[at].start == token.end:
            continue  # the operator goes on
        if "->" in sign:
            return False
        is_condition |= sign.rstrip("+-") in _COMPARISONS or (token.word in _LOGIC and not _is_field(tokens, at - 1))
        sign = ""
    return is_condition


def literals_in(part: Slice) -> frozenset[str]:
    dialect = part.written.dialect
    tokens = (each for each in tokenize(part.text, dialect=dialect) if each.kind in {"string", "number"})
    return frozenset(unquote(each, dialect=dialect) for each in tokens)


def _check_begins(reader: StatementReader, what: str, hint: str) -> None:
    """Raise for a query without brackets, which would be one inside the brackets that are added."""
    following = reader.peek(1)
    begins_names = following is not None and (
        following.kind == "quoted" or following.symbol == "(" or following.word not in {"", *_OPERATORS}
    )
    if reader.word in _QUERIES or (reader.word in _QUERIES_BEFORE_NAMES and begins_names):
        if following is not None and (following.symbol in _SIGNS or following.word in _OPERATORS):
            column = reader.tokens[reader.at].text
            quoted = quote_name(column, dialect=reader.statement.dialect)
            raise reader.error(f"{what} is expected", f"a column of this name goes in quotes: {quoted}")
        raise reader.error(f"{what} is expected", f"put the query in brackets: (SELECT …); or {hint}")


def _ends(reader: StatementReader, first: int, stops: frozenset[str], *, is_word: bool, query_after: bool) -> bool:
    """Return whether the expression ends before the next token."""
    tokens, at = reader.tokens, reader.at
    token = tokens[at]
    if token.symbol in stops or (is_word and token.word in stops):
        return True
    if at == first or not _is_operand(tokens, at - 1):
        return False
    if is_word and token.word in _CLAUSES:
        return not spells(tokens, at, "WITH", "TIME", "ZONE")
    return query_after and token.symbol == "(" and _opens_query_after(tokens, at)


def _opens_query_after(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a bracket after an operand opens a query, and no call's arguments."""
    before = tokens[at - 1]
    is_name = before.kind in {"word", "quoted"} and before.word not in {"TRUE", "FALSE", "NULL"}
    is_parameter = is_name and at > 1 and tokens[at - 2].symbol in {":", "$"}
    while at < len(tokens) and tokens[at].symbol == "(":
        at += 1
    opens = at < len(tokens) and tokens[at].word in {"SELECT", "WITH", "FROM", "VALUES", "TABLE"}
    return opens and (not is_name or is_parameter)


def _is_operand(tokens: Sequence[Token], at: int) -> bool:
    token = tokens[at]
    if token.symbol:
        return token.symbol in _CLOSERS
    return token.word not in _OPERATORS or _is_field(tokens, at)


def _is_field(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a word follows a dot, so that it is a name."""
    return at > 0 and tokens[at - 1].symbol == "."


def skip_closed(reader: StatementReader) -> None:
    """Pass over a bracket and what is in it; raise when it is never closed, or another one crosses it."""
    opening: list[Token] = []
    for at in range(reader.at, len(reader.tokens)):
        token = reader.tokens[at]
        if token.symbol in CLOSING:
            opening.append(token)
        elif token.symbol in _CLOSERS:
            if CLOSING[opening.pop().symbol] != token.symbol:
                raise reader.error(f"{token.text!r} closes no bracket", "leave it out", token.start)
            if not opening:
                reader.at = at + 1
                return
    last = opening[-1]
    raise reader.error(f"{last.text!r} is never closed", f"close it with {CLOSING[last.symbol]!r}", last.start)


def _check_symbol(reader: StatementReader, token: Token, what: str, hint: str) -> None:
    if token.symbol in _CLOSERS:
        raise reader.error(f"{token.text!r} closes no bracket", "leave it out", token.start)
    if token.symbol == ",":
        raise reader.error(f"{what} has a ',' outside brackets", hint, token.start)


# Rows as a whole: the engine reads the table and the source of a merge with columns of this package, their places and
# numbers. A star, or a name of either as a value, would have these in it: a text or a comparison of the row would be a
# wrong one. In a subquery too such a name is refused, also where it means a table of the subquery, which can have
# another name.

_OPENING = frozenset({"SELECT", "FROM", "WITH", "VALUES", "TABLE", "PIVOT", "UNPIVOT"})


def check_no_whole_rows(change: RowEdit, columns: Collection[str]) -> None:
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
                hint += f"; for a column {token.text} of another table write u.{token.text}; a query takes another name"
            error = InvalidInput(f"{token.text} stands for a whole row here", hint=hint)
            raise placed(error, part.written, part.at + token.start)


def _whole_row(expression: Statement, names: frozenset[str]) -> tuple[Token, bool] | None:
    """Return the first token that stands for a whole row, and whether it is in a query."""
    tokens, own, end_of_query = expression.tokens, set[int](), 0
    for at, token in enumerate(tokens):
        if at >= end_of_query and _opens_query(tokens, at):
            end_of_query = skip_brackets(tokens, at)
            own = _names_of_tables(expression, at, end_of_query)
        before, following = _around(tokens, at)
        is_in_query = at < end_of_query
        is_star = token.symbol == "*" and (before is None or before.symbol in {"(", ",", ".", "["})
        is_columns = token.word == "COLUMNS" and following is not None and following.symbol == "("
        if not is_in_query and (is_star or is_columns):
            return token, False
        if is_star and at > 1 and tokens[at - 1].symbol == "." and _name(expression, tokens[at - 2]) in names:
            return tokens[at - 2], is_in_query
        is_value = token.kind in {"word", "quoted"} and _stands_alone(before, following)
        if is_value and token.start not in own and _name(expression, token) in names:
            return token, is_in_query
    return None


def _opens_query(tokens: Sequence[Token], at: int) -> bool:
    return tokens[at].symbol == "(" and at + 1 < len(tokens) and tokens[at + 1].word in _OPENING


def _names_of_tables(expression: Statement, at: int, after: int) -> set[int]:
    """Return where the query in the brackets from an index to another one names a table."""
    tokens = expression.tokens
    start, last = tokens[at + 1].start, tokens[after - 1]
    text = expression.text[start : last.start if last.symbol == ")" else last.end]
    found = set[int]()
    for table in table_references(Statement.of(text, dialect=expression.dialect)):
        end = expression.index_from(start + table.end)
        found |= {start + table.start, *(each.start for each in tokens[end : end + 1] if table.alias is not None)}
    return found


def _name(statement: Statement, token: Token) -> str:
    return unquote(token, dialect=statement.dialect).casefold() if token.kind in {"word", "quoted"} else ""


def _around(tokens: Sequence[Token], at: int) -> tuple[Token | None, Token | None]:
    return tokens[at - 1] if at else None, tokens[at + 1] if at + 1 < len(tokens) else None


def _stands_alone(before: Token | None, after: Token | None) -> bool:
    """Return whether a name between two tokens is a value: not a qualifier, field, parameter, label, type or alias."""
    if before is not None and (before.symbol in {".", ":", "$", ")"} or before.kind == "number" or before.word == "AS"):
        return False
    is_unit = after is not None and after.word == "FROM" and before is not None and before.symbol == "("
    return after is None or not (is_unit or after.symbol in {".", "(", ":"} or after.kind == "string")
