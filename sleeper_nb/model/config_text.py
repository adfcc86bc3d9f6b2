r"""Read and change configuration text: ``.properties`` files, and TOML with errors that name the file and the line.

The properties format is that of ``java.util.Properties``: a name ends at the first ``=``, ``:`` or white space; lines
that start with ``#`` or ``!`` are comments; a ``\`` at the end of a line continues it on the next; and ``\t``,
``\n``, ``\r``, ``\f`` and ``\uXXXX`` stand for characters. Two rules differ from Java: a line with only a name is
an error, and white space after a value is not part of it. If a name occurs several times, the last line counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sleeper_nb.errors import InvalidInput, NotFound

_BREAK = re.compile(r"\r\n|\n|\r")
_BLANK = " \t\f"
_ENTRY = re.compile(
    r"(?P<name>(?:\\.|[^\\=: \t\f])*)(?P<between>[ \t\f]*[=:][ \t\f]*|[ \t\f]+)(?P<value>.*)", re.DOTALL
)
_ESCAPE = re.compile(r"\\(u.{0,4}|.)", re.DOTALL)
_SIGNS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {"\\": r"\\", **{sign: f"\\{letter}" for letter, sign in _SIGNS.items()}}


@dataclass(frozen=True, slots=True)
class Entry:
    """One ``name=value`` without escapes, and its lines in the text."""

    name: str
    value: str
    line: int  # the number of its first line, from 1
    until: int  # the number of its last line; it differs from `line` if a backslash continues the line


def entries(content: str, source: str = "the properties") -> Iterator[Entry]:
    """Yield the properties that a text sets, in order.

    Raises
    ------
    InvalidInput
        When a line is not ``name=value`` or has an invalid escape; the error names the line and the `source`.
    """
    lines = _BREAK.split(content.removeprefix("\ufeff"))
    number = 0
    while number < len(lines):
        start, text = number + 1, lines[number].lstrip(_BLANK)
        number += 1
        if not text or text[0] in "#!":
            continue
        while _goes_on(text):
            following = lines[number].lstrip(_BLANK) if number < len(lines) else ""
            text, number = text[:-1] + following, number + 1
        where = f"line {start} of {source}"
        match = _ENTRY.fullmatch(text)
        if match is None or not match["name"]:
            raise InvalidInput(f"{where} is {text!r}", hint="write name=value")
        yield Entry(_plain(match["name"], where), _plain(_without_end(match["value"]), where), start, number)


def changed(content: str, changes: Mapping[str, str | None]) -> str:
    """Return the text with some properties set, or unset where None; all other lines stay as they are.

    An existing property is changed in place; a new one is added after the last line.
    """
    ending = "\r\n" if "\r\n" in content else "\n"
    lines = _BREAK.split(content)
    if lines[-1] == "":
        lines.pop()
    present = [entry for entry in entries(content) if entry.name in changes]
    last = {entry.name: entry for entry in present}
    for entry in reversed(present):
        text = changes[entry.name]
        if text is None:
            lines[entry.line - 1 : entry.until] = []
        elif entry is last[entry.name] and text != entry.value:
            lines[entry.line - 1 : entry.until] = [line_of(entry.name, text)]
    lines += [line_of(name, text) for name, text in changes.items() if text is not None and name not in last]
    return "".join(f"{line}{ending}" for line in lines)


def line_of(name: str, text: str) -> str:
    """Return the ASCII line that sets a property, in the form that Java reads."""
    key = re.sub(r"[=: #!]", r"\\\g<0>", _ascii(name))
    value = _ascii(text)
    if value.endswith(" "):
        value = f"{value[:-1]}\\u0020"  # a trailing blank would be cut off when read
    if value.startswith(" "):
        value = f"\\{value}"
    return f"{key}={value}"


def comment_of(text: str) -> str:
    return "".join(f"# {line}".rstrip() + "\n" for line in _BREAK.split(text))


def _goes_on(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _without_end(value: str) -> str:
    short = value.rstrip(_BLANK)
    return short + value[len(short)] if _goes_on(short) and len(short) < len(value) else short


def _plain(text: str, where: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        if not code.startswith("u"):
            return _SIGNS.get(code, code)
        if not re.fullmatch(r"u[0-9A-Fa-f]{4}", code):
            message = f"{where} has {match[0]!r}, which is not a character"
            raise InvalidInput(message, hint=r"write \u and four digits, or \\u")
        return chr(int(code[1:], 16))

    # escapes are code units of UTF-16: characters above U+FFFF take two
    units = _ESCAPE.sub(character, text).encode("utf-16-le", "surrogatepass")
    try:
        return units.decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{where} has half of a character", hint="write both of its \\u escapes") from error


def _ascii(text: str) -> str:
    return "".join(_escaped(sign) for sign in text)


def _escaped(sign: str) -> str:
    if sign in _ESCAPED:
        return _ESCAPED[sign]
    if " " <= sign <= "~":
        return sign
    units = sign.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex().upper()}" for i in range(0, len(units), 2))


def load(text: str, source: str, hint: str) -> dict[str, Any]:
    """Return the values in a TOML text.

    Raises
    ------
    InvalidInput
        When it is not TOML; the error names the source, the line and the column, and has the given hint.
    """
    import tomllib  # few commands read TOML

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"cannot read {source}: {error}", hint=hint) from error


def where(text: str, source: str, key: str, header: str = "") -> str:
    """Return the line that sets a key, below a header if one is given, as ``line 3 of SOURCE``; else the source."""
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if header and line.strip().startswith(f"[{header}")), 0)
    named = re.compile(rf"(?:.*[{{,\[.])?\s*[\"']?{re.escape(key)}\b")
    line = next((n for n, each in enumerate(lines[start:], start + 1) if named.match(each)), None)
    return source if line is None else f"line {line} of {source}"


def check_keys(given: Iterable[str], known: Iterable[str], at: tuple[str, str, str]) -> None:
    """Raise `InvalidInput` for an unknown key; `at` is the text, the source and the header for `where`."""
    text, source, header = at
    for key in given:
        if key not in known:
            near = NotFound.of("setting", key, known)
            raise InvalidInput(f"{where(text, source, key, header)}: {near.message}", hint=near.hint_parts)
