"""DuckDB's errors about a value: what to write instead, and no advice that our SQL refuses. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sleeper_nb.model.sql_quotes import quoted_name
from sleeper_nb.model.times import days_of_month

_NO_SETTINGS: Final = re.compile(r"\.? Use TRY\(\.\.\.\).*$")
"""How DuckDB proposes a setting; no statement can change settings."""

DIVIDED: Final = re.compile(r"Division by zero", re.IGNORECASE)
NOT_CONVERTED: Final = re.compile(
    r"Could not convert string ['\"](?P<value>.*?)['\"] to (?P<type>[\w ]+?(?:\([\d,]+\))?)"
    r"(?: when casting from source column (?P<column>[^\n]+)| when|\n|$)"
)
OUT_OF_RANGE: Final = re.compile(r"(?P<type>date|time|timestamp) field value out of range: \"(?P<value>.*?)\"")
WRONG_FORMAT: Final = re.compile(r"invalid (?P<type>date|time|timestamp) field format: \"(?P<value>.*?)\"")
"""What DuckDB says of a value, in the words of its first line; `conditions` has other hints for them."""

_EXAMPLES: Final = {
    "date": "write a day as DATE '2026-01-31'", "timestamp": "write a time as TIMESTAMP '2026-01-31 12:00:00'",
    "time": "write a time of day as TIME '12:00:00'",
}  # fmt: skip
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


def encoding_hint(call: str) -> str:
    """Return how a CSV file that is not UTF-8 is read by a call, given up to its first argument."""
    return f"say its encoding: {call}, encoding = 'latin-1'), or 'utf-16'; convert a file in another encoding to UTF-8"


def _no_time(match: re.Match[str]) -> str:
    return days_of_month(match["value"]) or _wrong_format(match)


def _wrong_format(match: re.Match[str]) -> str:
    return _EXAMPLES[match["type"].lower()]


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
    (
        re.compile(r"CSV Parser state machine reached an invalid state"),
        "where lines of a CSV file end in different ways, CRLF and LF, make them alike",
    ),
    (re.compile(r"not utf-8 encoded"), encoding_hint("read_csv('file.csv'")),
    (re.compile(r"does not support the encoding"), "it reads utf-8, latin-1 and utf-16: save the file as one of them"),
    (DIVIDED, "divide by NULLIF(n, 0), which is NULL for an n of zero"),
    (OUT_OF_RANGE, _no_time),
    (re.compile(r"(?P<type>Date) out of range: (?P<value>[\d-]+)"), _no_time),
    (WRONG_FORMAT, _wrong_format),
    (NOT_CONVERTED, _not_cast),
    (re.compile(r"out of range for the destination type"), "convert to a wider type, such as BIGINT or DOUBLE"),
    (re.compile(r"Overflow in \w+ of (\w+)"), _overflow),
    (re.compile(r"Could not parse string"), "TRY_STRPTIME is NULL for a text in another format"),
    (re.compile(r'extract specifier ".*?" not recognized'), "write year, quarter, month, week, day or hour"),
    (re.compile(r"More than one row returned by a subquery"), "take one row: max(…), or ORDER BY … LIMIT 1"),
    (re.compile(r"Set operations can only apply"), "select as many columns on both sides"),
)  # fmt: skip
