"""`scan` and `get`: rows of a version, read in process."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import VERSION, Argument, Command, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import InvalidInput

if TYPE_CHECKING:
    from sleeper_nb.scan import Scan

COLUMNS = option("--columns", text="only these columns", metavar="a,b", kind="columns")
LIMIT: Argument = option("--limit", text="at most so many rows", metavar="N", kind="number")


def _scan(context: Context, arguments: Namespace) -> Scan:
    at = context.table_at(arguments.table)
    found = at.scan(_names(arguments.columns), arguments.where, limit=arguments.limit)
    found.head()  # an error of the first rows must fail the cell; one that comes while they are shown would not
    return found


def _get(context: Context, arguments: Namespace) -> Scan:
    from sleeper_nb.model.keys import parse_key

    at = context.table_at(arguments.table)
    fields = at.schema.row_keys
    if len(arguments.key) > len(fields):
        named = ", ".join(f"{field.name} {field.text}" for field in fields)
        raise InvalidInput(f"{len(arguments.key)} values are no key of {at.name!r}", hint=f"its row keys are {named}")
    key = tuple(parse_key(field, word, what="key") for field, word in zip(fields, arguments.key, strict=False))
    found = at.scan(_names(arguments.columns), keys=key)
    found.head()
    return found


def _names(columns: str | None) -> list[str] | None:
    return None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]


COMMANDS = (
    Command(
        "scan",
        "show rows of a version",
        (VERSION, COLUMNS, option("--where", text="a condition in SQL", metavar='"…"'), LIMIT),
        _scan,
        ("scan trips", 'scan trips@12 --columns city,fare --where "fare < 0" --limit 20'),
        words=("head", "rows", "peek"),
    ),
    Command(
        "get",
        "show the rows of one key: the values of its row keys, or of the first few",
        (VERSION, positional("key", "the values, in the order of the row keys", metavar="KEY", many=True), COLUMNS),
        _get,
        ("get trips London", "get flights@12 UA 1545"),
        words=("lookup", "find"),
    ),
)
