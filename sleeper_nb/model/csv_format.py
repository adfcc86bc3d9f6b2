"""How a CSV file is written: its characters, NULL texts, encoding and patterns of times."""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sleeper_nb.errors import Action, InvalidInput

COMPRESSED_ENDING = r"\.(?:gz|zst|bz2)"
"""The endings of compressed text, as a pattern."""
_DELIMITER = re.compile(r"[\t -!#-~]")  # an ASCII character other than the quote
_CHARACTER = re.compile(r"[!-/:-@\[-`{-~]")
_NO_TEXT_ENCODINGS = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})
"""Codecs of Python's own that no file is written in."""
_WHOLE_DAY = re.compile(
    r"(?=.*%[Yy])(?=.*%[mbB])(?=.*%d)|(?=.*%[Yy])(?=.*%j)|%[cx]|(?=.*%G)(?=.*%V)(?=.*%[ua])", re.DOTALL
)
_DIRECTIVE = re.compile("%.", re.DOTALL)
_NOT_IN_NULL_TEXT = re.compile(r"[\"\r\n]")


@dataclass(frozen=True, slots=True)
class CsvFormat:
    r"""The format of a CSV file, as the user gives it.

    Parameters
    ----------
    delimiter
        The character between values, or ``tab``. None means a comma, or a tab for a name that ends in ``.tsv``.
    null_text
        The unquoted text that means NULL, or several; None means the empty text. In a JSON file, a text that does.
    header
        Whether the first line holds the column names. If False, the columns are the table's, in its order.
    quote
        The character around values, or ``none``.
    escape
        The character before a quote, a delimiter or itself that is part of a value; None for doubled quotes only.
    comment
        The character with which a line begins that is left out; None for no comments.
    skip_lines
        The number of lines to leave out before the header.
    encoding
        The encoding of the text; None means UTF-8.
    decimal
        The decimal mark of numbers: ``.`` or ``,``.
    thousands
        What separates groups of three digits in numbers: one of `THOUSANDS`; None for nothing. With a point, the
        decimal mark is a comma.
    date_format, timestamp_format
        How dates and timestamps are written, in the directives of Python's ``strptime``; None means ISO 8601.

    Raises
    ------
    InvalidInput
        When an option has a value that no file can have; the message names the option.
    """

    delimiter: str | None = None
    null_text: str | Sequence[str] | None = None
    header: bool = True
    quote: str = '"'
    escape: str | None = None
    comment: str | None = None
    skip_lines: int = 0
    encoding: str | None = None
    decimal: str = "."
    thousands: str | None = None
    date_format: str | None = None
    timestamp_format: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter in {"tab", r"\t"}:
            object.__setattr__(self, "delimiter", "\t")
        if self.delimiter is not None and (
            not isinstance(self.delimiter, str) or not _DELIMITER.fullmatch(self.delimiter)
        ):
            hint = "give one ASCII character such as ; or |, or the word tab"
            raise InvalidInput(f"{self.delimiter!r} is not a valid delimiter", hint=hint)
        self._check_null_texts()
        if not isinstance(self.header, bool):
            raise InvalidInput(f"header is {self.header!r}, not a boolean", hint="give True or False")
        self._check_characters()
        if not isinstance(self.skip_lines, int) or isinstance(self.skip_lines, bool) or self.skip_lines < 0:
            raise InvalidInput(f"skip_lines is {self.skip_lines!r}", hint="give a number of lines, 0 or more")
        if self.decimal not in {".", ","}:
            raise InvalidInput(f"decimal is {self.decimal!r}", hint="give the decimal mark, . or ,")
        if self.thousands is not None and self.thousands not in THOUSANDS:
            hint = f"give one of {' '.join(THOUSANDS)}"
            raise InvalidInput(f"thousands is {self.thousands!r}", hint=hint)
        if self.thousands == self.decimal == ",":
            raise InvalidInput("',' cannot be both decimal mark and thousands separator", hint="omit one of them")
        if self.thousands == self.decimal:
            object.__setattr__(self, "decimal", ",")
        object.__setattr__(self, "encoding", _checked_encoding(self.encoding))
        for name in ("date_format", "timestamp_format"):
            _check_pattern(name, getattr(self, name))

    def _check_null_texts(self) -> None:
        if self.null_text is not None and not isinstance(self.null_text, str):
            object.__setattr__(self, "null_text", tuple(self.null_text) or None)
        for text in self.nulls:
            if not self.can_be_null_text(text):
                hint = "give a text without quotes, delimiters, escapes and line breaks, such as NA"
                raise InvalidInput(f"{text!r} is not a valid null text", hint=hint)

    def _check_characters(self) -> None:
        given = {"quote": self.quote_char, "escape": self.escape, "comment": self.comment}
        for name, character in given.items():
            is_character = isinstance(character, str) and _CHARACTER.fullmatch(character)
            if character is not None and not is_character:
                none = ", or none" if name == "quote" else ""
                hint = f"give one ASCII character that is no letter, digit or space{none}"
                raise InvalidInput(f"{character!r} is not a valid {name} character", hint=hint)
        used = [each for each in (self.separator, *given.values()) if each is not None]
        if len(set(used)) < len(used):
            names = "delimiter, quote, escape and comment"
            raise InvalidInput(f"{names} must be different characters", hint="double quotes need no escape character")

    @property
    def separator(self) -> str:
        return self.delimiter or ","

    @property
    def null(self) -> str:
        """The unquoted text that means NULL; the first, if there are several."""
        return self.nulls[0]

    @property
    def nulls(self) -> tuple[str, ...]:
        if self.null_text is None:
            return ("",)
        return (self.null_text,) if isinstance(self.null_text, str) else tuple(self.null_text)

    @property
    def given_nulls(self) -> tuple[str, ...]:
        """The texts that mean NULL because the user said so: those of a JSON file."""
        return () if self.null_text is None else self.nulls

    def can_be_null_text(self, text: object) -> bool:
        is_bad = not isinstance(text, str) or _NOT_IN_NULL_TEXT.search(text) or self.separator in text
        return not is_bad and not (self.escape and self.escape in str(text))

    def null_option(self, *texts: str, empty: bool = True) -> Action:
        """Return the options with which more texts mean NULL; the empty text only does in a CSV or Excel file."""
        before = self.nulls if empty else self.given_nulls
        together = tuple(dict.fromkeys((*before, *texts)))
        return Action(" ".join(map(_null_text, together)), f"null_text={list(together)!r}")

    @property
    def quote_char(self) -> str | None:
        return None if self.quote == "none" else self.quote

    def for_file(self, name: str) -> CsvFormat:
        """Return the format of the file `name`: separated by tabs for ``.tsv``, unless a delimiter was given."""
        is_tsv = self.delimiter is None and re.search(rf"\.tsv({COMPRESSED_ENDING})?$", name, re.IGNORECASE)
        return replace(self, delimiter="\t") if is_tsv else self


def _null_text(text: str) -> str:
    return f"--read {shlex.quote(f'null-text={text}')}"


def _checked_encoding(encoding: str | None) -> str | None:
    """Return the canonical name of an encoding; None for UTF-8, which is read as it is."""
    if encoding is None:
        return None
    hint = "give the name of an encoding, such as latin-1, cp1252 or utf-16"
    try:
        name = codecs.lookup(encoding).name
        "a".encode(name)  # an encoding of bytes, such as hex, fails here
        is_of_text = name.replace("_", "-") not in _NO_TEXT_ENCODINGS
    except (LookupError, TypeError, ValueError) as error:
        raise InvalidInput(f"{encoding!r} is not a known encoding", hint=hint) from error
    if not is_of_text:
        raise InvalidInput(f"{encoding!r} is not a known encoding", hint=hint)
    return None if name in {"utf-8", "ascii"} else name


def _check_pattern(name: str, pattern: str | None) -> None:
    """Raise `InvalidInput` unless a pattern has a year, a month and a day: without one, a value would be guessed."""
    if pattern is None:
        return
    example = "%d.%m.%Y" if name == "date_format" else "%d.%m.%Y %H:%M:%S"
    line = f'--read "{name.replace("_", "-")}={example}"'
    hint = ("write a year, a month and a day, such as ", Action(line, f"{name}={example!r}"))
    if not isinstance(pattern, str) or not _WHOLE_DAY.search(pattern.replace("%%", "")):
        raise InvalidInput(f"{name} {pattern!r} has no whole date", hint=hint)
    _check_hours(name, pattern)
    try:
        datetime.strptime("", pattern)  # noqa: DTZ007 - only the pattern is checked
    except re.error as error:
        raise InvalidInput(f"{name} {pattern!r} is not valid", hint=hint) from error
    except ValueError as error:
        if "does not match" not in str(error):
            raise InvalidInput(f"{name} {pattern!r} is not valid", hint=hint) from error


def _check_hours(name: str, pattern: str) -> None:
    directives = set(_DIRECTIVE.findall(pattern))
    twelve, half, day = ("%I" in directives, "%p" in directives, "%H" in directives)
    if twelve and not half:
        reason = "has %I, an hour from 1 to 12, without %p, AM or PM"
    elif half and (day or not twelve):
        reason = "has %p, AM or PM, without %I, an hour from 1 to 12"
    else:
        return
    example = "%d.%m.%Y %I:%M %p"
    option = Action(f'--{name.replace("_", "-")} "{example}"', f"{name}={example!r}")
    raise InvalidInput(
        f"{name} {pattern!r} {reason}", hint=("write %H for hours from 0 to 23, or both, such as ", option)
    )


THOUSANDS = (",", ".", "'", "_", "space")
"""What can separate groups of three digits; a space also is one that does not break."""
DEFAULT_CSV = CsvFormat()
"""No options: the delimiter follows from the file's name."""
