"""What a table can be called: a word, and one that no other table of the instance has, in any case. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sleeper_nb.catalog.base import TableEntry
from sleeper_nb.errors import AlreadyExists, InvalidInput

_NAME = re.compile(r"[^\W\d][\w-]*")


def check_name(name: str, others: Iterable[TableEntry]) -> None:
    """Raise unless a table can be called so, beside the others.

    Raises
    ------
    InvalidInput
        When it does not start with a letter, or has other signs than letters, digits, - and _.
    AlreadyExists
        When another table is called so, perhaps in another case: SQL would not tell them apart.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"{name!r} is not a valid table name", hint="start with a letter; then letters, digits, - _")
    if name.casefold() in {entry.name.casefold() for entry in others}:
        raise AlreadyExists(f"table {name!r} is there already", hint="choose another name, or use that table")
