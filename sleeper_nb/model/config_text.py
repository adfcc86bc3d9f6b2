"""TOML that a user wrote: read with errors that name the file and the line. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sleeper_nb.errors import InvalidInput, NotFound

# The text of a ``.properties`` file, as Java reads and writes it; a change keeps comments and order. Pure.
#
# The format is that of ``java.util.Properties``: a name ends at the first ``=``, ``:`` or white space, lines that start
# with ``#`` or ``!`` are comments, ``\`` at the end of a line goes on with the next, and ``\t``, ``\n``, ``\r``, ``\f``
# and ``\uXXXX`` stand for characters. Unlike Java, a line with a name alone is an error, and white space behind a value
# is no part of it. The last of several lines with one name counts.

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
    """One ``name=value``: where it stands in the text, and what it says without escapes.

    Parameters
    ----------
    line
        The number of its first line, from 1.
    until
        The number of its last line; it differs from `line` where lines go on with a backslash.
    """

    name: str
    value: str
    line: int
    until: int


def entries(content: str, source: str = "the properties") -> Iterator[Entry]:
    """Yield what a text sets, in order.

    Raises
    ------
    InvalidInput
        Naming the line of the `source` that sets nothing, or that has an escape which is none.
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
        found = _ENTRY.fullmatch(text)
        if found is None or not found["name"]:
            raise InvalidInput(f"{where} is {text!r}", hint="write name=value")
        yield Entry(_plain(found["name"], where), _plain(_without_end(found["value"]), where), start, number)


def changed(content: str, changes: Mapping[str, str | None]) -> str:
    """Return the text with some properties set, or unset where None; every other line stays as it is.

    A property is set where it stood, otherwise behind the last line.
    """
    ending = "\r\n" if "\r\n" in content else "\n"
    lines = _BREAK.split(content)
    if lines[-1] == "":
        lines.pop()
    stand = [entry for entry in entries(content) if entry.name in changes]
    last = {entry.name: entry for entry in stand}
    for entry in reversed(stand):
        text = changes[entry.name]
        if text is None:
            lines[entry.line - 1 : entry.until] = []
        elif entry is last[entry.name] and text != entry.value:
            lines[entry.line - 1 : entry.until] = [line_of(entry.name, text)]
    lines += [line_of(name, text) for name, text in changes.items() if text is not None and name not in last]
    return "".join(f"{line}{ending}" for line in lines)


def line_of(name: str, text: str) -> str:
    """Return the line that sets a property, so that Java reads it back; it is ASCII."""
    key = re.sub(r"[=: #!]", r"\\\g<0>", _ascii(name))
    value = _ascii(text)
    if value.endswith(" "):
        value = f"{value[:-1]}\\u0020"  # white space at the end that nobody sees would be cut off
    if value.startswith(" "):
        value = f"\\{value}"
    return f"{key}={value}"


def comment_of(text: str) -> str:
    """Return a text as comment lines."""
    return "".join(f"# {line}".rstrip() + "\n" for line in _BREAK.split(text))


def _goes_on(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _without_end(value: str) -> str:
    short = value.rstrip(_BLANK)
    return short + value[len(short)] if _goes_on(short) and len(short) < len(value) else short


def _plain(text: str, where: str) -> str:
    def sign(found: re.Match[str]) -> str:
        said = found[1]
        if not said.startswith("u"):
            return _SIGNS.get(said, said)
        if not re.fullmatch(r"u[0-9A-Fa-f]{4}", said):
            raise InvalidInput(f"{where} has {found[0]!r}, no character", hint=r"write \u and four digits, or \\u")
        return chr(int(said[1:], 16))

    # what is escaped are units of UTF-16, two for characters beyond the first plane
    units = _ESCAPE.sub(sign, text).encode("utf-16-le", "surrogatepass")
    try:
        return units.decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{where} has half a character", hint="write both of its escapes") from error


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
    """Return what the text says.

    Raises
    ------
    InvalidInput
        Naming the source, the line and the column, with the hint.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"cannot read {source}: {error}", hint=hint) from error


def where(text: str, source: str, key: str, header: str = "") -> str:
    """Return which line of the source sets a key, in the table below a header when one is given."""
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if header and line.strip().startswith(f"[{header}")), 0)
    named = re.compile(rf"(?:.*[{{,\[.])?\s*[\"']?{re.escape(key)}\b")
    line = next((n for n, said in enumerate(lines[start:], start + 1) if named.match(said)), None)
    return source if line is None else f"line {line} of {source}"


def check_keys(given: Iterable[str], known: Iterable[str], at: tuple[str, str, str]) -> None:
    """Raise `InvalidInput` for a key that is none of the known ones; `at` is the text, the source and the header."""
    text, source, header = at
    for key in given:
        if key not in known:
            near = NotFound.of("setting", key, known)
            raise InvalidInput(f"{where(text, source, key, header)}: {near.message}", hint=near.hint_parts)
