"""A schema in a file: Sleeper's JSON, or lines of our own."""

from __future__ import annotations

import re

from sleeper_nb.errors import InvalidInput, SleeperError
from sleeper_nb.model.schema import Schema

_QUOTED = re.compile(r"'([^']+)'")


def read_schema(text: str, source: str) -> Schema:
    """Return the schema that a file holds: Sleeper's JSON, or lines as `Schema.from_ddl` takes them.

    `InvalidInput`: names the source, and the line where that is known.
    """
    is_json = text.lstrip().startswith("{")
    try:
        return Schema.from_json(text) if is_json else Schema.from_ddl(text)
    except SleeperError as error:
        message = f"{source}: {error.message}"
        word = _QUOTED.search(error.message)
        if is_json and word and "line " not in error.message:
            lines = [number for number, line in enumerate(text.splitlines(), 1) if f'"{word[1]}"' in line]
            message = f"line {lines[-1]} of {message}" if lines else message
        raise InvalidInput(message, hint=error.hint_parts) from error
