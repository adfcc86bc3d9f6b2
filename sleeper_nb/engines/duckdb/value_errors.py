"""DuckDB's errors about a value: what to write instead, and no advice that our SQL refuses. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sleeper_nb.model.sql_quotes import quoted_name
from sleeper_nb.model.times import days_of_month

_NO_SETTINGS: Final = re.compile(r"\.? Use TRY\(\.\.\.\).*$")
"""How DuckDB proposes a setting; no statement can change settings."""

_A_DAY: Final = "write a day as DATE '2026-01-31'"
_A_TIME: Final = "write a time as TIMESTAMP '2026-01-31 12:00:00'"
_TYPES: Final = {
    "INT8": "TINYINT", "INT16": "SMALLINT", "INT32": "INTEGER", "INT64": "BIGINT", "INT128": "HUGEINT",
    "BOOL": "BOOLEAN",
}  # fmt: skip
"""DuckDB's own names of types, and how SQL writes them."""

_WIDER: Final = {"INT8": "INTEGER", "INT16": "INTEGER", "INT32": "BIGINT", "INT64": "HUGEINT"}


def advised(message: str) -> tuple[str, str | None]:
    """Return the first line of an error of DuckDB as users should see it, and a hint; None where we know none."""
    for pattern, hint in _KNOWN:
        if match := pattern.search(message):
            return _NO_SETTINGS.sub("", message), hint if isinstance(hint, str) else hint(match)
    return message, None


def _no_day(match: re.Match[str]) -> str:
    return days_of_month(match["day"]) or _A_DAY


def _not_cast(match: re.Match[str]) -> str:
    kind, column = _TYPES.get(match["type"], match["type"]), match["column"]
    if column is None:
        return f"write a value of type {kind}; TRY_CAST(… AS {kind}) is NULL for any other text"
    name = column if column.isidentifier() else quoted_name(column)
    return (
        f"TRY_CAST({name} AS {kind}) is NULL for such a text; to compare texts, write the other in quotes: {name} = '5'"
    )


def _overflow(match: re.Match[str]) -> str:
    return f"convert one of the values first: CAST(… AS {_WIDER.get(match[1], 'DOUBLE')})"


_KNOWN: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (re.compile(r"Division by zero"), "divide by NULLIF(n, 0), which is NULL for an n of zero"),
    (re.compile(r'out of range: "?(?P<day>\d{4}-\d{1,2}-\d{1,2})(?!\d)'), _no_day),
    (re.compile(r"invalid date field format|date field value out of range"), _A_DAY),
    (re.compile(r"invalid timestamp field format|timestamp field value out of range"), _A_TIME),
    (re.compile(r"invalid time field format|time field value out of range"), "write a time of day as TIME '12:00:00'"),
    (re.compile(r"Could not convert string ['\"].*?['\"] to (?P<type>\w+(?:\([\d,]+\))?)"
                r"(?: when casting from source column (?P<column>.+))?"), _not_cast),
    (re.compile(r"out of range for the destination type"), "convert to a wider type, such as BIGINT or DOUBLE"),
    (re.compile(r"Overflow in \w+ of (\w+)"), _overflow),
    (re.compile(r"Could not parse string"), "TRY_STRPTIME is NULL for a text in another format"),
    (re.compile(r'extract specifier ".*?" not recognized'), "write year, quarter, month, week, day or hour"),
    (re.compile(r"More than one row returned by a subquery"), "take one row: max(…), or ORDER BY … LIMIT 1"),
    (re.compile(r"Set operations can only apply"), "select as many columns on both sides"),
)  # fmt: skip
