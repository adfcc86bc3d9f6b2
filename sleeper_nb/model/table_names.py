"""Which names a table may have."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sleeper_nb.errors import AlreadyExists, InvalidInput

_TABLE_NAME = re.compile(r"[^\W\d][\w-]*")


def check_table_name(name: str, others: Iterable[str]) -> None:
    """Raise unless a name is valid for a table and not used by another one. Pure.

    `InvalidInput` when it does not start with a letter, or has characters other than letters, digits, - and _.
    `AlreadyExists` when another table has the name, in any case: SQL does not distinguish them.
    """
    if not _TABLE_NAME.fullmatch(name):
        hint = "start with a letter; then letters, digits, - _"
        _, dot, own = name.rpartition(".")
        if dot and _TABLE_NAME.fullmatch(own):
            hint = f"leave out what is before the dot: {own}; tables are not in schemas"
        raise InvalidInput(f"{name!r} is not a valid table name", hint=hint)
    if name.casefold() in {other.casefold() for other in others}:
        raise AlreadyExists(f"table {name!r} already exists", hint="choose another name, or use that table")
