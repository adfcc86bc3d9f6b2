"""TOML that a user wrote: read with errors that name the file and the line. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from typing import Any

from sleeper_nb.errors import InvalidInput, NotFound


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
            raise InvalidInput(f"{where(text, source, key, header)}: {near.message}", hint=near.hint)
