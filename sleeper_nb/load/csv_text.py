"""The text of CSV files as their format writes it: lines to skip, quotes, encodings, numbers and dates. Pure."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import UNCHANGED, Action, Hint
from sleeper_nb.load.casts import BAD_VALUE, NUMBERS, InexactValueError
from sleeper_nb.load.python_values import is_word
from sleeper_nb.model.csv_format import THOUSANDS, CsvFormat
from sleeper_nb.model.schema import FieldType
from sleeper_nb.model.times import days_of_month

_BLOCK_BYTES = 4 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_ENDS: Final = (b"\n", b"\r")
_WITH_COMMA = re.compile(r"\s*[+-]?(\d+,?\d*|,\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_WITH_MARK = "write a decimal comma and no points: 1234,5"
_EXAMPLE = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)
_LONGEST_NULL = 20
_WITH_NULL_HINT = NUMBERS | {"date", "timestamp", "boolean", "time", "uuid"}
_NULL_WORDS = frozenset({"", "na", "n/a", "null", "none", "nan", "nil", "-", "--", "?", ".", "missing", r"\n", "#n/a"})


class UnreadableTextError(InexactValueError):
    """A text that is not written as the format of its file says; `advice` says how that is."""

    def __init__(
        self, verdict: str, advice: str, target: FieldType, index: int | None = None, value: Any = None
    ) -> None:
        super().__init__("string", target, index, value)
        self.verdict, self.advice = verdict, advice

    def at(self, index: int) -> InexactValueError:
        return UnreadableTextError(self.verdict, self.advice, self.target, index, self.value)

    @property
    def hint(self) -> str:
        return self.advice


def text_stream(stream: Any, csv_format: CsvFormat) -> Any:
    """Return a binary stream of UTF-8 text, without the lines that the format skips."""
    if csv_format.encoding is not None:
        native = stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="r")
        stream = pa.transcoding_input_stream(native, csv_format.encoding, "utf-8")
    return KeptLines(stream, csv_format) if csv_format.skip_lines or csv_format.comment else stream


class KeptLines(io.RawIOBase):
    """A stream without its first lines and without the lines of comments.

    Parameters
    ----------
    csv_format
        Says which lines are left out. A line inside a quoted value is no comment.

    Attributes
    ----------
    dropped
        The numbers of the lines that were left out so far, from 1.
    """

    def __init__(self, stream: Any, csv_format: CsvFormat) -> None:
        super().__init__()
        self._stream = io.BufferedReader(stream, _BLOCK_BYTES)
        self._skip, self._comment = csv_format.skip_lines, (csv_format.comment or "").encode()
        self._quote = (csv_format.quote_char or "").encode()
        escape = re.escape((csv_format.escape or "").encode())
        self._escaped = re.compile(escape + b"." if escape else b"(?!)", re.DOTALL)  # without one, nothing
        self._number, self._is_quoted, self._kept, self._at = 0, False, b"", 0
        self.dropped: list[int] = []

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._stream.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Read the next kept bytes into a buffer, and return their number; 0 at the end."""
        while self._at == len(self._kept):
            lines = self._stream.readlines(_BLOCK_BYTES)
            if not lines:
                return 0
            self._kept, self._at = b"".join(self._without_dropped(lines)), 0
        size = min(len(buffer), len(self._kept) - self._at)
        buffer[:size] = self._kept[self._at : self._at + size]
        self._at += size
        return size

    def _without_dropped(self, lines: Sequence[bytes]) -> Iterator[bytes]:
        for line in lines:
            self._number += 1
            start = line.removeprefix(_BYTE_ORDER_MARK) if self._number == 1 else line
            is_comment = bool(self._comment) and not self._is_quoted and start.startswith(self._comment)
            if self._number <= self._skip or is_comment:
                self.dropped.append(self._number)
                continue
            if self._quote:
                self._is_quoted ^= self._escaped.sub(b"", line).count(self._quote) % 2 == 1
            yield line

    def original(self, line: int) -> int:
        """Return the number in the file of a line that was kept."""
        for dropped in self.dropped:
            if dropped > line:
                break
            line += 1
        return line


class Quotes:
    """Checks the quotes of a CSV file block by block.

    Attributes
    ----------
    regular
        Whether every quote so far opens or closes a value, or is doubled inside one. Those of a format with an escape
        character are not looked at.
    ended
        Whether the end of the file was checked.
    """

    def __init__(self, csv_format: CsvFormat) -> None:
        self._quote = ord(csv_format.quote_char or "\0")
        self._may_stand_beside = np.zeros(256, np.bool_)  # each byte that may stand next to a quote, outside its value
        self._may_stand_beside[[ord(csv_format.separator), self._quote, ord("\n"), ord("\r")]] = True
        self._quote_count, self._byte_before, self._last = 0, b"\n", b""
        self._none = csv_format.quote_char is None
        self.regular, self.ended = csv_format.escape is None, False

    @property
    def are_open(self) -> bool:
        """Whether the file ended inside quotes; quotes that are irregular do not count."""
        return self.ended and self.regular and self._quote_count % 2 == 1

    def check(self, block: bytes) -> None:
        """Check the next block."""
        if self._none or not self.regular or not block:
            return
        text = self._byte_before + self._last + block  # the last byte of a block is checked with the next block
        codes = np.frombuffer(text, np.uint8)
        places = np.flatnonzero(codes[1:-1] == self._quote) + 1
        opening, closing = places[self._quote_count % 2 :: 2], places[1 - self._quote_count % 2 :: 2]
        opens_regularly = self._may_stand_beside[codes[opening - 1]].all()
        closes_regularly = self._may_stand_beside[codes[closing + 1]].all()
        self.regular = bool(opens_regularly and closes_regularly)
        self._quote_count += len(places)
        self._byte_before, self._last = text[-2:-1], text[-1:]

    def end(self) -> None:
        self.check(b"\n")
        self.ended = True


class WatchedText(io.RawIOBase):
    """The text of a CSV file, whose quotes are checked while it is read, with a line break at its end.

    Parameters
    ----------
    from_header
        Whether empty lines at its beginning are left out.

    Attributes
    ----------
    is_empty
        Whether nothing was read so far.
    """

    def __init__(self, stream: Any, quotes: Quotes, *, from_header: bool) -> None:
        super().__init__()
        self._stream, self._quotes, self._from_header = stream, quotes, from_header
        self._next: bytes | None = None
        self.is_empty = True

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next block; its last one has the line break, as Arrow wants no block that is a part of a line."""
        size = max(1, (_BLOCK_BYTES if size < 0 else size) - 1)
        block = self._first(size) if self._next is None else self._next
        self._next = bytes(self._stream.read(size)) if block else b""
        self._quotes.check(block)
        self.is_empty &= not block
        if self._next or self._quotes.ended:
            return block
        self._quotes.end()
        return block if block.endswith(_LINE_ENDS) or self.is_empty else block + b"\n"

    def _first(self, size: int) -> bytes:
        block = bytes(self._stream.read(size))
        mark = _BYTE_ORDER_MARK if block.startswith(_BYTE_ORDER_MARK) else b""
        rest = block[len(mark) :]
        while self._from_header and rest and not (rest := rest.lstrip(b"\r\n")):
            rest = bytes(self._stream.read(size))
        return mark + rest


def as_written_in(csv_format: CsvFormat, texts: pa.Array, target: FieldType) -> pa.Array:
    """Return texts with a decimal point, or already as values where the format has a pattern for their type.

    Raises `InexactValueError` for the first text that is not written so.
    """
    if target.name in NUMBERS:
        texts = without_thousands(csv_format, texts)
        return _with_decimal_point(texts, target) if csv_format.decimal == "," else texts
    pattern = _pattern_of(csv_format, target.name)
    return texts if pattern is None else _by_pattern(texts, pattern, target)


def without_thousands(csv_format: CsvFormat, texts: pa.Array) -> pa.Array:
    """Return texts without the separators of well-grouped thousands; other texts stay as they are."""
    if csv_format.thousands is None:
        return texts
    separator = _SPACES if csv_format.thousands == "space" else re.escape(csv_format.thousands)
    rest = rf"(?:{re.escape(csv_format.decimal)}\d*)?(?:[eE][+-]?\d+)?"
    grouped = rf"^\s*[+-]?[1-9]\d{{0,2}}(?:{separator}\d{{3}})+{rest}\s*$"
    plain = pc.replace_substring_regex(texts, separator, "")
    return pc.if_else(pc.match_substring_regex(texts, grouped), plain, texts)


def thousands_in(text: str) -> str | None:
    """Return what separates thousands in a number that is grouped so; None for another text."""
    return next((name for name in THOUSANDS if re.fullmatch(_grouped(name), text, re.ASCII)), None)


def thousands_of(texts: pa.Array) -> str | None:
    """Return what separates thousands if all texts are numbers, some of which are grouped so; None for other texts."""
    for name in THOUSANDS:
        grouped, decimal = _grouped(name), _decimal(name)
        is_grouped = pc.match_substring_regex(texts, rf"^\s*{grouped}\s*$")
        is_number = pc.match_substring_regex(texts, rf"^\s*(?:{grouped}|[+-]?\d{{1,3}}(?:{decimal}\d*)?)\s*$")
        if pc.any(is_grouped).as_py() and pc.all(is_number).as_py():
            return name
    return None


def _grouped(separator: str) -> str:
    mark = re.escape(separator) if separator != "space" else _SPACES
    return rf"[+-]?[1-9]\d{{0,2}}(?:{mark}\d{{3}})+(?:{_decimal(separator)}\d*)?"


def _decimal(separator: str) -> str:
    return {",": r"\.", ".": ","}.get(separator, "[.,]")


_SPACES = "[ \u00a0\u202f\u2009]"


def thousands_option(separator: str) -> Action:
    typed = f'"{separator}"' if separator == "'" else separator
    return Action(f"--read thousands={typed}", f"thousands={separator!r}")


def _pattern_of(csv_format: CsvFormat, type_name: str) -> str | None:
    return {"date": csv_format.date_format, "timestamp": csv_format.timestamp_format}.get(type_name)


def has_pattern(csv_format: CsvFormat, type_name: str) -> bool:
    return _pattern_of(csv_format, type_name) is not None


def are_moments_of_digits(csv_format: CsvFormat, texts: pa.Array, type_name: str) -> bool:
    """Return whether texts are as long as the dates or times that a pattern writes with digits alone: ``20261121``."""
    pattern = _pattern_of(csv_format, type_name)
    example = "" if pattern is None else _EXAMPLE.strftime(pattern)
    return example.isdigit() and bool(pc.all(pc.equal(pc.utf8_length(texts), len(example))).as_py())


def _with_decimal_point(texts: pa.Array, target: FieldType) -> pa.Array:
    has_point = pc.index(pc.match_substring(texts, "."), value=True).as_py()
    if has_point >= 0:
        value = texts[has_point].as_py()
        raise UnreadableTextError("is not a number with the decimal mark ','", _WITH_MARK, target, has_point, value)
    return pc.replace_substring(texts, ",", ".", max_replacements=1)


def _by_pattern(texts: pa.Array, pattern: str, target: FieldType) -> pa.Array:
    """Return the dates or times of texts; each different text is parsed once."""
    encoded = texts.dictionary_encode()
    parsed: list[datetime] = []
    for text in encoded.dictionary.to_pylist():
        try:
            parsed.append(_moment(text, pattern, target))
        except BAD_VALUE as error:
            index = pc.index(texts, pa.scalar(text, pa.string())).as_py()
            advice = f"write every value as {_EXAMPLE.strftime(pattern)}, or give the format that the values have"
            raise UnreadableTextError(f"is not written as {pattern}", advice, target, index, text) from error
    moments = pa.array(parsed, pa.timestamp("us", "UTC"))
    values = moments.cast(pa.timestamp("us")).cast(target.arrow) if target.name == "date" else moments
    return values.take(encoded.indices)


def _moment(text: str, pattern: str, target: FieldType) -> datetime:
    moment = datetime.strptime(text.strip(), pattern)  # noqa: DTZ007 - without a zone it is in UTC
    if target.name == "date" and (moment.time() != datetime.min.time() or moment.tzinfo is not None):
        raise ValueError("a day has no time")
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def null_hint(error: InexactValueError, csv_format: CsvFormat, *, empty: bool = True) -> Hint:
    """Return the option with which the text of an error would mean NULL; "" for a text that is hardly meant so.

    Parameters
    ----------
    empty
        Whether the empty text means NULL, too, where no text is given.
    """
    text, name = error.value, error.target.name
    is_short = isinstance(text, str) and 0 < len(text.strip()) <= _LONGEST_NULL
    if not is_short or error.path or name in {"string", "bytearray"} or any(map(str.isdigit, text)):
        return ""
    if is_word(text, error.target) or not csv_format.can_be_null_text(text) or text in csv_format.nulls:
        return ""
    is_sure = text.strip().lower() in _NULL_WORDS
    if name in NUMBERS:
        instead = f"write a number such as 12 or 1{csv_format.decimal}5, or add "
    else:
        instead = "add " if is_sure else f"{error.hint}, or add "
    option = csv_format.null_option(text, empty=empty)
    return (instead, option, " if it means NULL", *(() if is_sure else (UNCHANGED,)))


def hint_for(error: InexactValueError, csv_format: CsvFormat) -> Hint:
    """Return the option with which the text of an error could be read; "" when there is none."""
    text, name = "" if error.value is None else str(error.value).strip(), error.target.name
    has_digits = any(map(str.isdigit, text))
    if text.lower() in _NULL_WORDS and (hint := null_hint(error, csv_format)):
        return hint
    if error.is_not_a_number and csv_format.decimal == "," and not isinstance(error, UnreadableTextError):
        return ("write a number such as 12 or 1,5, without points, or use a column of type string", UNCHANGED)
    if name == "date" and csv_format.date_format is None and has_digits:
        if days := days_of_month(text):
            return f"{days}; correct the value"
        return ("say how dates are written: ", Action('--read "date-format=%d.%m.%Y"', "date_format='%d.%m.%Y'"))
    if name == "timestamp" and csv_format.timestamp_format is None and has_digits:
        example = "%d.%m.%Y %H:%M"
        option = Action(f'--read "timestamp-format={example}"', f"timestamp_format={example!r}")
        return ("say how times are written: ", option)
    options: list[Action] = []
    if name in NUMBERS and csv_format.decimal == "." and "," in text and _WITH_COMMA.fullmatch(text):
        options += [] if csv_format.thousands == "," else [Action("--read decimal=,", "decimal=','")]
    if name in NUMBERS and csv_format.thousands is None and (grouped := thousands_in(text)) is not None:
        options.append(thousands_option(grouped))
    if options:
        return (error.hint, ", or add ", options[0], *(part for each in options[1:] for part in (" or ", each)))
    return null_hint(error, csv_format) if name in _WITH_NULL_HINT else ""
