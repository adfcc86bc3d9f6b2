"""DuckDB's errors as ours: the first line, what to write instead, and no advice that our SQL refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import Final

from sleeper_nb.errors import RAISED, DidYouMean, Hint, InvalidInput, NotFound, SleeperError, StorageError
from sleeper_nb.model.sql_values import quoted_name
from sleeper_nb.model.times import days_of_month
from sleeper_nb.sql.binding import GENERATED_PREFIX
from sleeper_nb.storage.paths import is_data_file

_IO = re.compile(r"\bIO Error: ")
# How DuckDB refuses a file that the settings of `Database.connect_confined` forbid.
_REFUSED = re.compile(r'^Permission Error: Cannot access \w+ "(.*?)"')

_NO_MATCH = re.compile(r'No files found that match the pattern "(.*?)"')
_AS_FOLDER = re.compile(r"(.+)/\*\*/\*\.\w+")
_NO_TABLE = re.compile(r"Table with name (.+\.\w+) does not exist!")
_FILE_HINT = (
    "SQL reads files named .csv, .tsv, .json, .jsonl, .ndjson or .parquet in place of tables; read_csv('…'), "
    "read_json('…') and read_parquet('…') read files of any name, and create --from also others"
)
_MOST_LISTED = 3
_CANDIDATES = "Candidate bindings: "


def explained(error: Exception) -> SleeperError:
    """Return DuckDB's error as a `SleeperError`: its first line, and its own hint where it gives one."""
    if (ours := RAISED.quoted_in(str(error))) is not None:
        return ours
    lines = [line.strip() for line in str(error).splitlines()]
    if refused := _REFUSED.search(lines[0] if lines else ""):
        folder = _AS_FOLDER.fullmatch(refused[1])  # DuckDB looks for a folder where there is no file
        if folder is not None and not Path(folder[1]).exists():
            return NotFound(f"there is no file {folder[1]!r}", hint=f"a path is relative to {Path.cwd()}")
        hint = "SQL reads tables, and local files whose paths are written as text or parameters; hidden ones by name"
        return InvalidInput(f"SQL may not open {refused[1]!r}", hint=hint)
    first = next(filter(None, lines), type(error).__name__)
    missing, below = _NO_MATCH.search(first), "".join(lines[1:])
    if missing and not _is_of_table(missing[1], below):
        return NotFound(f"no file matches {missing[1]!r}", hint=f"a path is relative to {Path.cwd()}")
    if _IO.search(first):
        return StorageError(f"DuckDB: {first}", hint="run it again; the file may have been deleted or changed")
    if _CSV_LINE.search(first):  # the reason is below the line that the file has there
        reasons = (line for line in lines[1:] if line and not line.startswith("Original Line"))
        first = ": ".join([first, *islice(reasons, 1)])
    if file := _NO_TABLE.search(first):  # `name_error` has other words for a table in double quotes
        problem = "there is no table of this name, and it does not end in the format of a file"
        return InvalidInput(f"SQL cannot read {file[1]!r}: {problem}", hint=_FILE_HINT)
    message, advice = advised(first)
    return InvalidInput(f"DuckDB: {message}", hint=_hint(lines) or advice)


_CSV_LINE: Final = re.compile(r"CSV Error on Line: \d+$")


def _is_of_table(path: str, below: str) -> bool:
    """Return whether a file that is missing is a table's, by its place or by the lines below DuckDB's error."""
    is_ours = is_data_file("/".join(Path(path).parts[-3:]))
    return is_ours or (f'"{GENERATED_PREFIX}_' in below and path not in below)


def _hint(lines: Sequence[str]) -> Hint | None:
    """Return DuckDB's own hint: one line, or a line with the first few of the list below it."""
    at = next((i for i, line in enumerate(lines) if i and line.startswith(("Candidate", "Did you mean", "HINT"))), None)
    if at is not None and lines[at].startswith(_CANDIDATES):
        return DidYouMean(tuple(lines[at].removeprefix(_CANDIDATES).split(", ")))
    if at is None or not lines[at].endswith(":"):
        return None if at is None else lines[at]
    items = list(takewhile(bool, lines[at + 1 :]))
    more = [f"and {len(items) - _MOST_LISTED} more"] if len(items) > _MOST_LISTED else []
    return f"{lines[at]} {'; '.join([*items[:_MOST_LISTED], *more])}" if items else None


_NO_SETTINGS: Final = re.compile(r"\.? Use TRY\(\.\.\.\).*$")
"""How DuckDB proposes a setting; no statement can change settings."""

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
    (re.compile(r"Division by zero", re.IGNORECASE), "divide by NULLIF(n, 0), which is NULL for an n of zero"),
    (re.compile(r"(?P<type>date|time|timestamp) field value out of range: \"(?P<value>.*?)\""), _no_time),
    (re.compile(r"(?P<type>Date) out of range: (?P<value>[\d-]+)"), _no_time),
    (re.compile(r"invalid (?P<type>date|time|timestamp) field format: \"(?P<value>.*?)\""), _wrong_format),
    (
        re.compile(
            r"Could not convert string ['\"](?P<value>.*?)['\"] to (?P<type>[\w ]+?(?:\([\d,]+\))?)"
            r"(?: when casting from source column (?P<column>[^\n]+)| when|\n|$)"
        ),
        _not_cast,
    ),
    (re.compile(r"out of range for the destination type"), "convert to a wider type, such as BIGINT or DOUBLE"),
    (re.compile(r"Overflow in \w+ of (\w+)"), _overflow),
    (re.compile(r"Could not parse string"), "TRY_STRPTIME is NULL for a text in another format"),
    (re.compile(r'extract specifier ".*?" not recognized'), "write year, quarter, month, week, day or hour"),
    (re.compile(r"More than one row returned by a subquery"), "take one row: max(…), or ORDER BY … LIMIT 1"),
    (re.compile(r"Set operations can only apply"), "select as many columns on both sides"),
)  # fmt: skip
