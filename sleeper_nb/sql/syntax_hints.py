"""What to write instead of what an engine cannot parse: slips, placeholders and options of other tools."""

from __future__ import annotations

import difflib
from typing import Final

from sleeper_nb.errors import Action, Hint
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import Token, spells, unquote

_VERBS: Final = (
    "SELECT", "WITH", "FROM", "VALUES", "DESCRIBE", "SUMMARIZE", "SHOW", "PIVOT", "UNPIVOT", "EXPLAIN", "CREATE",
    "INSERT", "UPDATE", "DELETE", "MERGE", "ALTER", "DROP", "TRUNCATE", "CALL",
)  # fmt: skip
_CLAUSES: Final = (
    "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "JOIN", "INNER", "UNION", "INTO", "TABLE", "VALUES",
    "USING", "QUALIFY", "BETWEEN", "DISTINCT", "VERSION", "TIMESTAMP", "MATCHED", "SET",
)  # fmt: skip
_BEFORE_TABLE: Final = frozenset({"FROM", "JOIN", "INTO", "UPDATE", "TABLE", "USING", "OVERWRITE"})
NAME_IT: Final = 'a table name is not a value: write it as it is; or build the text in Python: session.sql(f"…")'
"""The hint of a placeholder where the name of a table belongs."""


def syntax_hint(statement: Statement, near: str) -> Hint | None:
    """Return the hint of a statement with a syntax error; None when nothing is recognised.

    Parameters
    ----------
    statement
        What the user wrote.
    near
        The word or symbol at which the engine stopped.
    """
    tokens = statement.tokens
    if len(tokens) == 1 and tokens[0].kind in {"string", "quoted"}:
        begin = unquote(tokens[0], dialect=statement.dialect).split(maxsplit=1)
        return "leave out the quotes around the statement" if begin and begin[0].upper() in _VERBS else None
    if len(tokens) > 1 and _is_shift(tokens):
        name = tokens[0].text
        return "to keep the answer in a variable: ", Action(f"sql -o {name} SELECT …", f"{name} = session.sql(…)")
    if len(tokens) > 3 and spells(tokens, len(tokens) - 3, "-", "O"):
        name = tokens[-1].text
        return "options stand before the SQL: ", Action(f"sql -o {name} SELECT …", f"{name} = session.sql(…)")
    return _for_placeholder(tokens) or _for_version(tokens, near) or _for_slip(tokens, near)


def _for_version(tokens: tuple[Token, ...], near: str) -> str | None:
    """Return the hint of ``… LIMIT 1 VERSION AS OF 2``: a clause where no table stands before it."""
    word = near.upper()
    is_clause = word in {"VERSION", "TIMESTAMP"} and any(
        spells(tokens, at, word, "AS", "OF") for at in range(len(tokens))
    )
    return f"put {word} AS OF after the name of the table: FROM t {word} AS OF …" if is_clause else None


def _is_shift(tokens: tuple[Token, ...]) -> bool:
    """Return whether a statement begins as ``name << SELECT``."""
    return tokens[0].kind == "word" and (spells(tokens, 1, "<<") or spells(tokens, 1, "<", "<"))


def _for_placeholder(tokens: tuple[Token, ...]) -> str | None:
    """Return the hint of ``{x}``, ``{{x}}``, ``${x}``, ``%(x)s``, and of ``FROM :x``."""
    if has_table_parameter(tokens):
        return NAME_IT
    for at in range(len(tokens)):
        name = _placeholder(tokens, at)
        if name:
            first = at - (at > 0 and tokens[at - 1].symbol == "$")
            is_table = first > 0 and tokens[first - 1].word in _BEFORE_TABLE
            own = f":{name} takes the value of the notebook's variable {name} (in Python: params={{{name!r}: …}})"
            return NAME_IT if is_table else f"write :{name}, without quotes or brackets; {own}"
    return None


def has_table_parameter(tokens: tuple[Token, ...]) -> bool:
    """Return whether a parameter stands where the name of a table belongs: ``FROM :x``."""
    pairs = (tokens[at + 1 : at + 3] for at, token in enumerate(tokens) if token.word in _BEFORE_TABLE)
    return any(len(pair) > 1 and pair[0].symbol in {":", "$"} and pair[1].kind == "word" for pair in pairs)


def _placeholder(tokens: tuple[Token, ...], at: int) -> str:
    """Return the name in a placeholder that begins at an index; "" when none does."""
    opens = {"{": ("}",), "(": (")", "S")}
    if spells(tokens, at, "%", "("):
        at += 1
    elif not spells(tokens, at, "{"):
        return ""
    closing = opens[tokens[at].text]
    doubled = spells(tokens, at, "{", "{")
    at += 1 + doubled
    is_closed = spells(tokens, at + 1, *(("}", "}") if doubled else closing))
    return tokens[at].text if is_closed and tokens[at].kind == "word" else ""


def _for_slip(tokens: tuple[Token, ...], near: str) -> str | None:
    """Return the word of SQL that a word at or before the place of the error is nearly."""
    for at, token in enumerate(tokens):
        if token.text != near:
            continue
        for place in (at, at - 1):
            known = _VERBS if place == 0 else _CLAUSES
            word = tokens[place].word if place >= 0 else ""
            found = [] if word in {"", *known} else difflib.get_close_matches(word, known, n=1, cutoff=0.7)
            if found:
                return f"did you mean {found[0]}?"
    return None
