"""Where in a user's statement an engine's error is: its line, and a caret below the place.

An engine runs a statement with generated names and without version clauses, so its place is first found in that text,
and then the same token in the text that the user wrote.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final
from unicodedata import combining, east_asian_width

from sleeper_nb.errors import SleeperError
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import Token

_DUCKDB: Final = re.compile(r"^LINE (\d+): (.*)\n( *)\^", re.MULTILINE)
_SPARK: Final = re.compile(r"\bline (\d+),? pos (\d+)")
_SPARK_CONTEXT: Final = re.compile(r"^== SQL \(line (\d+), position (\d+)\) ==\n(.*)", re.MULTILINE)
"""Of an error that Spark finds while it computes rows. That of a view has its name after ``SQL``."""

_OF_STATEMENT: Final = frozenset({"ParseException", "AnalysisException"})
"""Spark's errors that name a place in words; in any other such words may be a value's."""
_IN_WORDS: Final = re.compile(r";? \(?line \d+,? pos(?:ition)? \d+\)?;?$")
_CUT: Final = "..."
"""What DuckDB and Spark put in place of the rest of a long line."""

_LINES_BEFORE: Final = 2
"""How many lines DuckDB counts before a statement when another relation is made of its rows."""

_DRAWN_AS_ONE: Final = re.compile("[\u200d\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]")
"""What joins characters into one that is drawn: how wide that is for DuckDB is not known here."""

_PLANNED: Final = "EXPLAIN "
"""With which DuckDB was asked for the place."""

_WIDE_SPACE: Final = "\u3000"
"""A space as wide as a wide character, so that a caret is below its place in each font."""

_MOST_TOKENS: Final = 2_000
_WIDEST: Final = 100
"""Characters of a line that are shown; in a longer one, those around the place."""


@dataclass(frozen=True, slots=True)
class Texts:
    """A statement as the user wrote it, or as it was composed of parts of that, and as the engine runs it."""

    written: Statement
    run: Statement

    def placed(self, error: SleeperError) -> SleeperError:
        """Return an error with the place that its cause names; as it was when that is not in the statement."""
        find = _offset_in_duckdb if self.run.rules.error_has_caret else _offset_in_spark
        return self._at(error, find(error.__cause__, self.run.text))

    def placed_in_made_rows(self, error: SleeperError) -> SleeperError:
        """Return the error of a relation that DuckDB made of the statement's, as `placed`."""
        return self._at(error, _offset_in_duckdb(error.__cause__, self.run.text, _LINES_BEFORE))

    def _at(self, error: SleeperError, offset: int | None) -> SleeperError:
        at = None if offset is None else _token_at(self.run.tokens, offset)
        token = None if at is None or error.place else self._written_at(at)
        if at is not None and token is not None:
            put_place(error, self.written, token.start)
            if _is_of_statement(error.__cause__):
                error.message = _IN_WORDS.sub("", error.message)
            error.message = error.message.replace(f"near {self.run.tokens[at].text!r}", f"near {token.text!r}")
        return error

    def _written_at(self, at: int) -> Token | None:
        """Return the token of the user's text for one of the text that was run.

        For one that was only added, such as the AS before a table's own name, it is the token before it.
        """
        run, written = self.run.tokens, self.written.tokens
        if max(len(run), len(written)) > _MOST_TOKENS:
            return None
        matcher = SequenceMatcher(None, [each.text for each in run], [each.text for each in written], autojunk=False)
        for kind, start, end, first, last in matcher.get_opcodes():
            if start <= at < end and first < last:
                return written[first + at - start if kind == "equal" else first]
            if start <= at < end and first:
                return written[first - 1]
        return None


def put_place(error: SleeperError, statement: Statement, offset: int) -> None:
    """Give an error the place that the user wrote of an offset of a statement; none for what no user wrote."""
    origin = statement.origin
    place = (statement.written, offset) if origin is None else origin.place_of(offset)
    if place is None:
        error.place, error.offset = "", None
    else:
        error.place, error.offset = line_with_caret(place[0].text, place[1]), place[1]


def _token_at(tokens: Sequence[Token], offset: int) -> int | None:
    return next((i for i, token in enumerate(tokens) if token.start <= offset < token.end), None)


def _offset_in_duckdb(error: BaseException | None, run: str, lines_before: int = 0) -> int | None:
    """Return the offset that an error of DuckDB names in the text that it ran; None when it names none there."""
    found = _last(_DUCKDB, str(error))  # a value that an error quotes comes before the place
    if found is None:
        return None
    lines, number = run.split("\n"), int(found[1]) - lines_before
    return _offset(lines, number, _shown_column(found[2], len(found[3]) - len(f"LINE {found[1]}: "), lines, number))


def _offset_in_spark(error: BaseException | None, run: str) -> int | None:
    """Return the offset that an error of Spark names in the text that it ran; None when it names none there."""
    text, lines = str(error), run.split("\n")
    if found := _last(_SPARK_CONTEXT, text):
        number = int(found[1])
        # else it is in the text of a DataFrame that the statement reads
        return _offset(lines, number, int(found[2]) - 1) if _is_shown(found[3], lines, number) else None
    found = _SPARK.search(text) if _is_of_statement(error) else None
    return None if found is None else _offset(lines, int(found[1]), int(found[2]))


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return next(reversed(list(pattern.finditer(text))), None)


def _is_of_statement(error: BaseException | None) -> bool:
    return any(kind.__name__ in _OF_STATEMENT for kind in type(error).__mro__)


def _offset(lines: Sequence[str], number: int, column: int) -> int | None:
    """Return the offset of a column in a line of a text; None when the text has none there."""
    if not 0 < number <= len(lines) or not 0 <= column <= len(lines[number - 1]):
        return None
    return sum(len(line) + 1 for line in lines[: number - 1]) + column


def _is_shown(shown: str, lines: Sequence[str], number: int) -> bool:
    """Return whether Spark shows a part of a statement's line; it shows also the lines that follow."""
    return 0 < number <= len(lines) and shown.removeprefix(_CUT).removesuffix(_CUT) in lines[number - 1]


def _shown_column(shown: str, width: int, lines: Sequence[str], number: int) -> int:
    """Return the column of DuckDB's caret in a statement's line, of which it shows a part; -1 when it does not."""
    column = _characters(shown, width)
    if _DRAWN_AS_ONE.search(shown, 0, column):
        return -1
    if shown.startswith(_CUT):
        shown, column = shown[len(_CUT) :], column - len(_CUT)
    at = _found(shown.removesuffix(_CUT), lines[number - 1], number) if 0 < number <= len(lines) else None
    return -1 if at is None else at + column


def _characters(text: str, width: int) -> int:
    """Return how many characters DuckDB draws within a width: a tab takes none, and some characters take two."""
    for at, character in enumerate(text):
        if width <= 0 and character != "\t":
            return at
        width -= 0 if character == "\t" or combining(character) else 2 if _is_wide(character) else 1
    return len(text)


def _is_wide(character: str) -> bool:
    return east_asian_width(character) in "WF"


def _found(shown: str, line: str, number: int) -> int | None:
    """Return where a part of a line that DuckDB shows begins in that line."""
    at = line.find(shown)
    if at < 0 and number == 1:
        at = f"{_PLANNED}{line}".find(shown)
        return None if at < 0 else at - len(_PLANNED)
    return None if at < 0 else at


def line_with_caret(text: str, offset: int) -> str:
    """Return the line of a text that has an offset, with its number, and a caret below the place."""
    start = text.rfind("\n", 0, offset) + 1
    line, column = text[start:].partition("\n")[0], offset - start
    first = max(0, column - _WIDEST // 2) if len(line) > _WIDEST else 0
    before = "…" if first else ""
    after = "…" if len(line) > first + _WIDEST else ""
    shown = line[first : first + _WIDEST].replace("\t", " ")
    number = text.count("\n", 0, start) + 1
    head = f"LINE {number}: {before}"
    below = "".join(_WIDE_SPACE if _is_wide(character) else " " for character in shown[: column - first])
    return f"{head}{shown}{after}\n{' ' * len(head)}{below}^"
