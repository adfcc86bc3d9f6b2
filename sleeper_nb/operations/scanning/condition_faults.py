"""What is wrong with a condition and what to write instead, in our words: DataFusion's are of its own parts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sleeper_nb.errors import InvalidInput, NotFound


class _Fault(NamedTuple):
    said: str
    hint: str


_IN_SQL = "write it in SQL: dep_delay > 60 and origin = 'JFK'"
_COMPARE = "compare it with something: dep_delay > 60"
_TYPES = {
    "Int32": "int", "Int64": "long", "Float32": "float", "Float64": "double", "Utf8": "string", "Utf8View": "string",
    "Boolean": "boolean", "Date32": "date", "Binary": "bytearray", "BinaryView": "bytearray",
}  # fmt: skip
_EXAMPLES = {
    **dict.fromkeys(("int", "long"), "60"),
    **dict.fromkeys(("double", "float", "decimal"), "1.5"),
    "boolean": "true",
    "date": "DATE '2026-01-31'",
    "timestamp": "TIMESTAMP '2026-01-31 12:00:00'",
}


def explained(verb: str, where: str, error: Exception, names: Sequence[str]) -> InvalidInput:
    """Return the error to raise for a condition that DataFusion refused.

    Parameters
    ----------
    verb
        What could not be done with it: read it, or compute it for some row.
    where
        The condition.
    error
        What DataFusion raised.
    names
        Those of the columns that the condition may be on.
    """
    text = _FRAME.sub("", str(error))
    for pattern, told in _KNOWN:
        if found := pattern.search(text):
            fault = told(found, where, names)
            break
    else:
        fault = _Fault(_sentence(text), _IN_SQL)
    return InvalidInput(f"cannot {verb} the condition {where!r}: {fault.said}", hint=fault.hint)


_FRAME = re.compile(r"(?:\?table\?|\bc[0-9a-f]{32})\.")
"""What DataFusion calls a table that was given no name."""
_PARTS = re.compile(
    r"^(?:\w+ error: |External: |Error during planning: |Error evaluating filter predicate: |[\w ]+ not implemented: )+"
)
_QUOTED = re.compile(r'(?:\w+\()+"(.*?)(?: at Line: \d+, Column: \d+)?"\).*')
_LONGEST = 160


def _sentence(text: str) -> str:
    """Return the sentence of DataFusion's own that says most: the first of the last cause, without what leads to it."""
    line = _PARTS.sub("", text.rsplit("\ncaused by\n", maxsplit=1)[-1].splitlines()[0])
    quoted = _QUOTED.fullmatch(line)
    line = (quoted[1] if quoted else line).split(". ")[0]
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _type(arrow: str) -> str:
    """Return our word for a type as DataFusion writes it: ``timestamp`` for ``Timestamp(µs, "UTC")``."""
    word = re.split(r"\W", arrow, maxsplit=1)[0]
    return _TYPES.get(word, word.rstrip("0123456789").lower())


def _no_column(found: re.Match[str], _where: str, names: Sequence[str]) -> _Fault:
    near = NotFound.of("column", found[1].replace('"', ""), names)
    return _Fault(near.message, near.hint or _IN_SQL)


def _no_function(found: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    near = difflib.get_close_matches(found[1], [found[2] or ""])
    instead = f"did you mean {near[0]!r}? " if near else ""
    return _Fault(f"no function {found[1]!r}", f"{instead}sql has those of DuckDB and of Spark")


def _no_value(found: re.Match[str], where: str, _names: Sequence[str]) -> _Fault:
    kind = "timestamp" if found["type"] is None else _type(found["type"])
    said = f"{found['value']!r} is no {kind}"
    if repr(found["value"]) in where:
        return _Fault(said, f"write one: {_EXAMPLES.get(kind, kind)}")
    return _Fault(said, f"try_cast(… as {kind}) is null where a value is none")


def _divided(_found: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    return _Fault("it divides by zero", "write nullif(n, 0) for an n that may be zero")


def _parameter(found: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    return _Fault(f"{found[1]} has no value here", f"write the value; or use sql, where {found[1]} is given one")


def _of_many(found: re.Match[str], where: str, _names: Sequence[str]) -> _Fault:
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", found[1])
    call = re.search(rf"\b{name}\s*\([^()]*\)", where, re.IGNORECASE)
    said = f"a condition is of one row; {call[0] if call else name.lower()} is of many"
    return _Fault(said, "use sql: GROUP BY … HAVING, or a window in a subquery")


def _not_boolean(found: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    return _Fault(f"it is a value of type {_type(found[1])}, not true or false", _COMPARE)


def _no_comparison(found: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    left, right = _type(found["left"]), _type(found["right"])
    said = f"there is no {found['sign']} of {left} and {right}"
    if found["sign"] in {"AND", "OR"}:
        return _Fault(said, _COMPARE)
    wanted = right if left == "long" else left  # that of a number as one writes it; rarely the column's
    instead = f"compare {wanted} with {wanted}"
    return _Fault(said, f"{instead}: {_EXAMPLES[wanted]}" if wanted in _EXAMPLES else instead)


def _no_operation(found: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    left, right = _type(found["left"]), _type(found["right"])
    times = {left, right} & {"date", "timestamp", "interval"}
    hint = "write INTERVAL '1 day' for a time that is added" if times else "cast it: cast(… as double)"
    return _Fault(f"there is no {found['sign']} of {left} and {right}", hint)


def _not_of(found: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    return _Fault(f"there is no NOT of {_type(found[1])}", _COMPARE)


def _no_pattern(found: re.Match[str], _where: str, _names: Sequence[str]) -> _Fault:
    hint = r"write a backslash before a bracket, dot or star that is meant as such: '\['"
    return _Fault(f"{found[1].strip()!r} is no regular expression: {found[2]}", hint)


_Told = Callable[[re.Match[str], str, Sequence[str]], _Fault]
_KNOWN: tuple[tuple[re.Pattern[str], _Told], ...] = (
    (re.compile(r"No field named (.+?)\.(?:\s|$)"), _no_column),
    (re.compile(r"Invalid function '([^']*)'\.(?:\s+Did you mean '([^']*)')?"), _no_function),
    (re.compile(r"Physical plan does not support .*?inner: (\w+)"), _of_many),
    (re.compile(r"Placeholder '([^']*)' was not provided"), _parameter),
    (re.compile(r"Divide ?By ?Zero", re.IGNORECASE), _divided),
    (re.compile(r"Cannot cast (?:string|value) '(?P<value>.*)' to value of (?P<type>\w+)"), _no_value),
    (re.compile(r"Error parsing (?P<type>timestamp) from '(?P<value>.*?)':"), _no_value),
    (re.compile(r"non-boolean predicate '.*' returning (.+)"), _not_boolean),
    (re.compile(r"argument type for .*operation (?P<left>.+) (?P<sign>\S+) (?P<right>\w.*)"), _no_comparison),
    (re.compile(r"(?:arithmetic|temporal) \w+ (?P<left>.+) (?P<sign>[-+*/%]) (?P<right>\w.*)"), _no_operation),
    (re.compile(r"common type to coerce (?P<left>.+) and (?P<right>.+) in (?P<sign>\w+)"), _no_comparison),
    (re.compile(r"operator 'NOT' requires a boolean expression, got (.+)"), _not_of),
    (re.compile(r"regex parse error:\n(.*)\n(?:.*\n)*?error: (.*)"), _no_pattern),
)  # fmt: skip
