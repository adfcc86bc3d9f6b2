"""What is wrong with a condition and what to write instead, in a sentence: DuckDB's errors are about whole queries."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from sleeper_nb.errors import InvalidInput, NotFound

USE_SQL: Final = "use sql; a condition sees one row at a time"
COMPARE: Final = "compare it with something: dep_delay > 60"
_IN_SQL: Final = "write it in SQL: dep_delay > 60 and origin = 'JFK'"
_CAST: Final = "cast it: cast(… as double)"
_LONGEST: Final = 160

_TYPES: Final = {
    "INTEGER": "int", "INT32": "int", "BIGINT": "long", "INT64": "long", "VARCHAR": "string", "BLOB": "bytearray",
    "TIMESTAMP WITH TIME ZONE": "timestamp", "INTEGER_LITERAL": "int", "STRING_LITERAL": "string",
}  # fmt: skip
_EXAMPLES: Final = {
    "int": "60", "long": "60", "double": "1.5", "float": "1.5", "decimal": "1.5", "boolean": "true",
    "date": "DATE '2026-01-31'", "timestamp": "TIMESTAMPTZ '2026-01-31 12:00:00Z'",
}  # fmt: skip


class _Fault(NamedTuple):
    message: str
    hint: str


def refused(where: str, message: str, hint: str, verb: str = "read") -> InvalidInput:
    """Return the error of a condition that cannot be read, or that cannot be computed for some row."""
    shown = where if len(where) <= _LONGEST else f"{where[: _LONGEST - 1]}…"
    return InvalidInput(f"cannot {verb} the condition {shown!r}: {message}", hint=hint)


def without_value(where: str, name: str) -> InvalidInput:
    """Return the error of a parameter."""
    return refused(where, f"{name} has no value here", f"write the value; or use sql, where {name} is given one")


def no_value(where: str, value: str, kind: str) -> InvalidInput:
    """Return the error of a text that is compared with a column of another type, which it cannot be read as."""
    word = plain_type(kind)
    example = _EXAMPLES.get(word.partition("(")[0])
    return refused(where, f"{value!r} is not a value of type {word}", f"write one: {example}" if example else _CAST)


def plain_type(kind: str) -> str:
    """Return our name for a type of DuckDB: ``list<int>`` for ``INTEGER[]``."""
    if kind.endswith("[]"):
        return f"list<{plain_type(kind[:-2])}>"
    if entries := re.fullmatch(r"MAP\((\w+(?:\([\d,]+\))?), (.+)\)", kind):
        return f"map<{plain_type(entries[1])},{plain_type(entries[2])}>"
    return _TYPES.get(kind, kind.lower())


def explained(verb: str, where: str, error: Exception, names: Sequence[str]) -> InvalidInput:
    """Return the error to raise for a condition that DuckDB refused.

    Parameters
    ----------
    verb
        What could not be done with it: ``"read"`` it, or ``"compute"`` it for some row.
    where
        The condition.
    error
        What DuckDB raised.
    names
        The columns that the condition may name.
    """
    text = str(error)
    for pattern, explain in _KNOWN:
        if match := pattern.search(text):
            fault = explain(match, where, names)
            break
    else:
        fault = _Fault(_sentence(text), _IN_SQL)
    return refused(where, fault.message, fault.hint, verb)


def _sentence(text: str) -> str:
    """Return the first sentence of DuckDB's own message."""
    line = _KIND.sub("", text.splitlines()[0]).partition(". ")[0].rstrip(".")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


_KIND = re.compile(r"^(?:[\w ]+ Error: )+")


def _syntax(match: re.Match[str], where: str, names: Sequence[str]) -> _Fault:
    parameter = re.search(r"(?<!:):(\w+)", where) if match[1] == ":" else None
    if parameter:
        name = parameter[0]
        return _Fault(f"{name} has no value here", f"write the value; or use sql, where {name} is given one")
    message = f"syntax error at {match[1]!r}"
    words = {word.casefold() for word in re.findall(r'(?<!["\'\w])[^\W\d]\w*(?!["\'\w])', where)}
    for name in names:
        if name.casefold() in words and name.upper() in RESERVED:
            return _Fault(message, f'{name} is a word of SQL; write the column in quotes: "{name}"')
    return _Fault(message, _IN_SQL)


RESERVED: Final = frozenset({
    "ALL", "ANALYSE", "ANALYZE", "AND", "ANY", "ARRAY", "AS", "ASC", "ASYMMETRIC", "AT", "BOTH", "CASE", "CAST",
    "CHECK", "COLLATE", "COLUMN", "CONSTRAINT", "CREATE", "DEFAULT", "DEFERRABLE", "DESC", "DESCRIBE", "DISTINCT",
    "DO", "ELSE", "END", "EXCEPT", "FALSE", "FETCH", "FOR", "FOREIGN", "FROM", "GROUP", "HAVING", "IN", "INITIALLY",
    "INTERSECT", "INTO", "LAMBDA", "LATERAL", "LEADING", "LIMIT", "NOT", "NULL", "OFFSET", "ON", "ONLY", "OR",
    "ORDER", "PIVOT", "PIVOT_LONGER", "PIVOT_WIDER", "PLACING", "PRIMARY", "QUALIFY", "REFERENCES", "RETURNING",
    "SELECT", "SHOW", "SOME", "SUMMARIZE", "SYMMETRIC", "TABLE", "THEN", "TO", "TRAILING", "TRUE", "UNION",
    "UNIQUE", "UNPIVOT", "USING", "VARIADIC", "WHEN", "WHERE", "WINDOW", "WITH",
})  # fmt: skip
"""Words that DuckDB reads as a column only in quotes."""


def _more(match: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    return _Fault(f"a condition cannot have {match[1]}", _IN_SQL)


def _several(match: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    return _Fault(f"it is {match[1]} expressions, separated by commas", "join them with AND or OR")


def _empty(_match: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    return _Fault("it is empty", _IN_SQL)


def _no_column(match: re.Match[str], where: str, names: Sequence[str]) -> _Fault:
    near = NotFound.of("column", match[1], names)
    compared = re.search(rf"(\w+)\s*([=<>!]+)\s*{re.escape(match[1])}(?!\w)", where)
    if compared and compared[1] in names and not difflib.get_close_matches(match[1], names):
        instead = f"{compared[1]} {compared[2]} '{match[1]}'"
        return _Fault(near.message, f'if {match[1]} is a text, write it in quotes: --where "{instead}"')
    return _Fault(near.message, near.hint or _IN_SQL)


def _no_table(match: re.Match[str], where: str, names: Sequence[str]) -> _Fault:
    full = re.search(rf'"?{re.escape(match[1])}"?\s*\.\s*"?(\w+)', where)
    near = NotFound.of("column", f"{match[1]}.{full[1]}" if full else match[1], names)
    return _Fault(near.message, near.hint or _IN_SQL)


def _no_function(match: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    near = difflib.get_close_matches(match[1], [match[2] or ""])
    instead = f"did you mean {near[0]!r}? " if near else ""
    return _Fault(f"no function {match[1]!r}", f"{instead}functions are those of DuckDB")


def _many_rows(match: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    return _Fault(f"a condition sees one row; {match[1]} need many", "use sql: GROUP BY … HAVING, or QUALIFY")


def _no_operation(match: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    kinds = [plain_type(kind) for kind in _arguments(match["types"])]
    word = _WORDS.get(match["name"], match["name"])
    times = {"date", "timestamp", "interval"} & set(kinds)
    hint = "write INTERVAL '1 day' for a time that is added" if times else _CAST
    if re.search(r"\w", word) and word not in _WORDS.values():
        return _Fault(f"no function {word}({', '.join(kinds)})", hint)
    return _Fault(f"there is no {word} of {' and '.join(kinds)}", hint)


_WORDS = {"~~": "LIKE", "!~~": "NOT LIKE", "~~*": "ILIKE", "!~~*": "NOT ILIKE", "~~~": "GLOB"}


def _arguments(text: str) -> list[str]:
    """Return the types of a call, of which some have commas in brackets."""
    return [kind.strip() for kind in re.findall(r"(?:[^,(]|\([^()]*\))+", text)]


def _no_comparison(match: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    left, right = plain_type(match[1]), plain_type(match[2])
    wanted = right if match[1].endswith("_LITERAL") else left
    instead = f"compare {wanted} with {wanted}"
    example = _EXAMPLES.get(wanted.partition("(")[0])
    return _Fault(f"cannot compare {left} with {right}", f"{instead}: {example}" if example else instead)


def _not_converted(match: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    kind = plain_type(match["type"])
    return _Fault(
        f"{match['value']!r} is not a value of type {kind}", f"try_cast(… as {kind}) is NULL where a value is none"
    )


def _not_a_time(match: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    kind = match["type"].partition(" ")[0]
    hint = f"write one: {_EXAMPLES.get(kind, kind)}; try_cast(… as {kind}) is NULL where a value is none"
    return _Fault(f"{match['value']!r} is not a value of type {kind}", hint)


def _divided(_match: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    return _Fault("it divides by zero", "write nullif(n, 0) for an n that may be zero")


def _no_pattern(match: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    hint = r"write a backslash before a bracket, dot or star that is meant as such: '\['"
    return _Fault(f"it has a wrong regular expression: {match[1]}", hint)


_Explain = Callable[[re.Match[str], str, Sequence[str]], _Fault]
_KNOWN: tuple[tuple[re.Pattern[str], _Explain], ...] = (
    (re.compile(r"is not an expression list: it holds (.+)"), _more),
    (re.compile(r"only a single expression to SQLExpression, found (\d+)"), _several),
    (re.compile(r"SELECT clause without selection list"), _empty),
    (re.compile(r'syntax error at or near "(.*?)"(?:\n|$)'), _syntax),
    (re.compile(r'Referenced column "(.+?)" not found'), _no_column),
    (re.compile(r'Referenced table "(.+?)" not found'), _no_table),
    (re.compile(r'Function with name "?(\S+?)"? does not exist!(?:\s+Did you mean "([^"]*)")?'), _no_function),
    (re.compile(r"WHERE clause cannot contain (aggregates|window functions)"), _many_rows),
    (re.compile(r"argument types '(?P<name>[^(]+)\((?P<types>.*)\)'"), _no_operation),
    (re.compile(r"Cannot compare values of type (.+?) and type (.+?) - an explicit cast"), _no_comparison),
    (re.compile(r"Could not convert string ['\"](?P<value>.*?)['\"] to (?P<type>[\w ]+?(?:\([\d,]+\))?)(?: when|\n|$)"),
     _not_converted),
    (re.compile(r"(?P<type>date|time|timestamp) field value out of range: \"(?P<value>.*?)\""), _not_a_time),
    (re.compile(r"invalid (?P<type>date|time|timestamp) field format: \"(?P<value>.*?)\""), _not_a_time),
    (re.compile(r"Division by zero", re.IGNORECASE), _divided),
    (re.compile(r"Invalid Input Error: ((?:missing|invalid|no argument|bad|unexpected)[^\n]*: .*)"), _no_pattern),
)  # fmt: skip
