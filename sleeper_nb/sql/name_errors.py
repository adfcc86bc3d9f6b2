"""Errors of the engines about names: a table whose name may be misspelt, or a column."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Final

import pyarrow as pa

from sleeper_nb.errors import Action, DidYouMean, Hint, InvalidInput, NotFound, SleeperError, nearest
from sleeper_nb.maintain.system_tables import MARK, SYSTEM_TABLES
from sleeper_nb.sql.binding import Bound, BoundRows, BoundSource
from sleeper_nb.sql.bound_lakes import BoundLake
from sleeper_nb.sql.parameters import BEFORE_TABLE, NAME_IT, has_table_parameter
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import DUCKDB_RESERVED, Token, spells, unquote
from sleeper_nb.sql.variables import Variables

_SYNTAX = re.compile(r"""(DuckDB: Parser Error: )?syntax error at or near (["'])(?P<near>.*)\2\.?""", re.IGNORECASE)
_UNKNOWN = re.compile(r'Referenced column "([^"]*)" (?:was )?not found')
_UNKNOWN_ON_SPARK = re.compile(r"with name `([^`]+)` cannot be resolved")
_NO_COLUMN = re.compile(r'"([^"]+)" does not have a column named "([^"]+)"')
_FIRST_WORDS: Final = (
    "SELECT", "WITH", "FROM", "VALUES", "DESCRIBE", "SUMMARIZE", "SHOW", "PIVOT", "UNPIVOT", "EXPLAIN", "CREATE",
    "INSERT", "UPDATE", "DELETE", "MERGE", "ALTER", "DROP", "TRUNCATE", "CALL",
)  # fmt: skip
_OTHER_WORDS: Final = (
    "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "JOIN", "INNER", "UNION", "INTO", "TABLE", "VALUES",
    "USING", "QUALIFY", "BETWEEN", "DISTINCT", "VERSION", "TIMESTAMP", "MATCHED", "SET",
)  # fmt: skip


def name_error(
    error: SleeperError, bound: Bound, names: Callable[[], tuple[str, ...]], variables: Variables
) -> SleeperError:
    """Return an engine's error with our words and hint, when it is about a column or a table that may be ours.

    Any other error is returned as it is. `names` returns the names of all tables.
    """
    if match := _SYNTAX.search(error.message):
        return _of_syntax(error, match, bound)
    if match := _NO_COLUMN.search(error.message):
        return _without_column(match[2], match[1], bound)
    if match := _UNKNOWN.search(error.message):
        return _without_meaning(error, match[1], bound)
    if match := _UNKNOWN_ON_SPARK.search(error.message):
        return _perhaps_a_text(error, match[1], bound)
    unknown = bound.absent
    tables = names() if unknown else ()
    for reference in unknown:
        table, _, part = reference.name.rpartition(".")
        if table in tables and part.casefold() in SYSTEM_TABLES:
            return NotFound(f"no table {reference.name!r}", hint=f"write {table}{MARK}{part}")
    ours = [reference for reference in unknown if len(reference.parts) == 1 or reference.parts[-1] in tables]
    missing = next((reference.name for reference in ours if _blames(error, reference.parts[-1])), None)
    if missing is None:
        return error
    known = (*variables.near(missing), *tables)
    why = None if nearest(missing, known) else variables.why_not(missing)
    return why or NotFound.of("table", missing, known)


def _of_syntax(error: SleeperError, match: re.Match[str], bound: Bound) -> SleeperError:
    """Return an error about the syntax with a hint about the word or symbol at which the engine stopped."""
    of_duckdb, near = match[1] or "", match["near"]
    for each in _written(bound):
        if hint := _hint_of_syntax(each, near):
            return InvalidInput(error.message, hint=hint)
    origin = None if bound.written is None else bound.written.origin
    if near == ")" and origin is not None and origin.is_composed:
        message = error.message.replace(match[0], f"{of_duckdb}a condition or value is not finished")
        return InvalidInput(message, hint="write the condition to its end, such as n > 5; or the value")
    return _with_quotes(error, near, bound) if of_duckdb and re.fullmatch(r"\w+", near) else error


def _written(bound: Bound) -> list[Statement]:
    """Return what the user wrote: one statement, or the texts that a query was composed of parts of."""
    written = bound.written or bound.statement
    if written.origin is None:
        return [written]
    return [Statement.of(each.text, dialect=written.dialect) for each in written.origin.written]


def _hint_of_syntax(statement: Statement, near: str) -> Hint:
    """Return the hint for what the user wrote: a form of another tool, a misspelt word, or a misplaced version clause.

    The engine stopped at the word or symbol `near`.
    """
    tokens = statement.tokens
    if not tokens:
        return ""
    if len(tokens) == 1 and tokens[0].kind in {"string", "quoted"}:
        begin = unquote(tokens[0], dialect=statement.dialect).split(maxsplit=1)
        return "leave out the quotes around the statement" if begin and begin[0].upper() in _FIRST_WORDS else ""
    if tokens[0].kind == "word" and spells(tokens, 1, "<", "<"):
        return "to keep the answer in a variable: ", _keeps_answer(tokens[0].text)
    if len(tokens) > 3 and spells(tokens, len(tokens) - 3, "-", "O"):
        return "options stand before the SQL: ", _keeps_answer(tokens[-1].text)
    if has_table_parameter(tokens):
        return NAME_IT
    for at in range(len(tokens)):
        name = _placeholder(tokens, at)
        if name:
            first = at - (at > 0 and tokens[at - 1].symbol == "$")
            is_table = first > 0 and tokens[first - 1].word in BEFORE_TABLE
            own = f":{name} takes the value of the notebook's variable {name} (in Python: params={{{name!r}: …}})"
            return NAME_IT if is_table else f"write :{name}, without quotes or brackets; {own}"
    clause = near.upper()
    if clause in {"VERSION", "TIMESTAMP"} and any(spells(tokens, at, clause, "AS", "OF") for at in range(len(tokens))):
        return f"put {clause} AS OF after the name of the table: FROM t {clause} AS OF …"
    if clause == "TIME" and any(spells(tokens, at, "TIMESTAMP", "AS", "OF") for at in range(len(tokens))):
        return "an expression with other words goes in brackets: TIMESTAMP AS OF (… AT TIME ZONE …)"
    return _meant_word(tokens, near)


def _keeps_answer(name: str) -> Action:
    return Action(f"sql -o {name} SELECT …", f"{name} = session.sql(…)")


def _meant_word(tokens: tuple[Token, ...], near: str) -> str:
    """Return which word of SQL the one at which an engine stopped, or that before it, is nearly; "" for no word."""
    at = next((at for at, token in enumerate(tokens) if token.text == near), 0)
    for place in (at, at - 1) if at else (0,):
        known, word = _OTHER_WORDS if place else _FIRST_WORDS, tokens[place].word
        found = difflib.get_close_matches(word, known, n=1, cutoff=0.7) if word and word not in known else []
        if found:
            return f"did you mean {found[0]}?"
    return ""


def _placeholder(tokens: tuple[Token, ...], at: int) -> str:
    """Return the name in ``{x}``, ``{{x}}`` or ``%(x)s`` that begins at an index; "" when none does."""
    for opening, closing in ((("{", "{"), ("}", "}")), (("{",), ("}",)), (("%", "("), (")", "S"))):
        name = at + len(opening)
        if spells(tokens, at, *opening) and spells(tokens, name + 1, *closing) and tokens[name].kind == "word":
            return tokens[name].text
    return ""


def _without_column(name: str, table: str, bound: Bound) -> InvalidInput:
    """Return DuckDB's error about a column after a table's name, with candidates, which DuckDB does not give."""
    columns = _columns_of(table, bound)
    near = difflib.get_close_matches(name, columns or [each for each in _columns(bound) if each != name])
    hint: Hint | None = DidYouMean(tuple(map(repr, near))) if near else None
    if columns and not near:
        hint = f"the columns of {table} are {_listed(columns)}"
    return InvalidInput(f"no column {name!r} of {table!r}", hint=hint)


def _columns_of(table: str, bound: Bound) -> tuple[str, ...]:
    """Return the columns of what has a name or an alias in a statement; none when that is a query."""
    named = re.compile(rf"""["`](\w+)["`]\s*(?:AS\s+)?["`]?{re.escape(table)}(?!\w)""", re.IGNORECASE)
    found = (bound.named.get(match[1]) for match in named.finditer(bound.statement.text))
    return next((_names_of(what) for what in found if what is not None), ())


def _names_of(what: BoundRows | Bound) -> tuple[str, ...]:
    """Return the user's columns of what is read; none of a view."""
    if isinstance(what, Bound):
        return ()
    if isinstance(what, BoundLake):
        return what.names
    if isinstance(what, BoundSource):
        return () if what.plan is None else what.plan.schema.names
    rows = what.rows
    names = rows.column_names if isinstance(rows, pa.Table) else rows.columns
    return tuple(name for name in names if ":" not in name)  # those with a colon are ours


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"{', '.join(names[:_MOST_LISTED])}{more}"


_MOST_LISTED = 12


def _without_meaning(error: SleeperError, name: str, bound: Bound) -> SleeperError:
    """Return DuckDB's error about a name that is no column: near names, the columns, or how a text is written."""
    meant = next((part.names for part in error.hint_parts if isinstance(part, DidYouMean)), ())
    candidates = [each.strip('"') for each in meant if ":" not in each]
    near = difflib.get_close_matches(name.casefold(), [each.rpartition(".")[2].casefold() for each in candidates])
    known = [each for each in candidates if each.rpartition(".")[2].casefold() in near]
    if known:
        return InvalidInput(error.message, hint=DidYouMean(tuple(f'"{each}"' for each in known)))
    columns = list(dict.fromkeys(column for what in bound.read for column in _names_of(what))) or candidates
    listed = f"the columns are {_listed(columns)}; " if columns else ""
    return InvalidInput(error.message, hint=f"{listed}a text goes in single quotes: '{name}'")


def _perhaps_a_text(error: SleeperError, name: str, bound: Bound) -> SleeperError:
    """Return Spark's error about a name that is no column; as it is where Spark names a column that is near."""
    columns = [each.casefold() for what in bound.read for each in _names_of(what)]
    is_near = difflib.get_close_matches(name.casefold(), columns)
    if is_near or not error.place:
        return error
    return InvalidInput(error.message, hint=f"a text goes in single quotes: '{name}'")


def _with_quotes(error: SleeperError, near: str, bound: Bound) -> SleeperError:
    """Return DuckDB's syntax error with a hint, for columns named as a reserved word of SQL."""
    for name in _columns(bound):
        as_value = rf"(?:\bselect|[,(=<>.])\s*{name}\s*(?:[,)=<>]|\bfrom\b|$)"
        is_meant = name.casefold() == near.casefold() or re.search(as_value, bound.statement.text, re.IGNORECASE)
        if name.upper() in DUCKDB_RESERVED and is_meant:
            hint = f'{name} is a word of SQL; write the column in quotes: "{name}"'
            return InvalidInput(error.message, hint=hint)
    return error


def _blames(error: SleeperError, name: str) -> bool:
    text = f"{error.message} {error.hint or ''}".casefold()
    absent = ("no table", "does not exist", "not found", "cannot be found", "table_or_view_not_found")
    return any(words in text for words in absent) and name.casefold() in text


def _columns(bound: Bound) -> frozenset[str]:
    return frozenset(column for plan in bound.plans for column in plan.schema.names)
