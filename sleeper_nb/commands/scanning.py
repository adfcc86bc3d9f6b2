"""`scan` and `get`: rows of a version, read in process, or how they would be."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.base import SCHEMA, VERSION, Argument, Command, flag, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import InvalidInput

if TYPE_CHECKING:
    from sleeper_nb.scan import Scan

COLUMNS = option("--columns", text="only these columns", metavar="a,b", kind="columns")
LIMIT: Argument = option("--limit", text="at most so many rows", metavar="N", kind="number")
NO_ROW = "reads no row"
AS = option(
    "--as",
    text="give all rows as this; without it, a result that shows its first rows",
    metavar="form",
    choices=("pandas", "arrow", "polars", "spark"),
    answer="gives all rows",
)
WHERE: Argument = option(
    "--where",
    text="a condition on one row, in DuckDB's SQL",
    metavar='"…"',
)
_SHARED = (
    option("--region", text="ranges of row keys; [ ] take a bound in, ( ) leave it out", metavar='"key=[a,b) …"'),
    COLUMNS,
    WHERE,
    LIMIT,
    AS,
    flag(
        "--explain",
        "read no row: show what would be read of how many partitions, files, row groups, bytes",
        answer=NO_ROW,
    ),
    SCHEMA,
)


def _scan(context: Context, arguments: Namespace) -> Any:
    at = context.table_at(arguments.table, arguments.schema)
    found = at.scan(named_columns(arguments.columns), arguments.where, region=arguments.region, limit=arguments.limit)
    return _shown(context, found, arguments)


def _get(context: Context, arguments: Namespace) -> Any:
    from sleeper_nb.model.keys import parse_key

    at = context.table_at(arguments.table, arguments.schema)
    fields = at.schema.row_keys
    named = ", ".join(f"{field.name} {field.text}" for field in fields)
    if len(arguments.key) > len(fields):
        raise InvalidInput(f"{len(arguments.key)} values are no key of {at.name!r}", hint=f"its row keys are {named}")
    if bool(arguments.key) == (arguments.region is not None):
        raise InvalidInput("get takes a key or --region, one of them", hint=f"the row keys are {named}")
    key = tuple(parse_key(field, word, what="key") for field, word in zip(fields, arguments.key, strict=False))
    names, region = named_columns(arguments.columns), arguments.region
    found = at.scan(names, arguments.where, keys=key or None, region=region, limit=arguments.limit)
    return _shown(context, found, arguments)


def _shown(context: Context, found: Scan, arguments: Namespace) -> Any:
    if arguments.explain:
        return found.plan()
    form = vars(arguments)["as"]
    if form is not None:
        return getattr(found, f"to_{form}")()
    return context.shown(replace(found, display=context.display))


def named_columns(columns: str | None) -> list[str] | None:
    """Return the names of ``a,b``; None when all columns are meant."""
    return None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]


COMMANDS = (
    Command(
        "scan",
        "show rows of a version",
        (VERSION, *_SHARED),
        _scan,
        (
            "scan trips",
            'scan trips@12 --columns city,fare --where "fare < 0" --limit 20',
            "scan trips@12 --schema current",
            'scan trips --where "fare < 0" --as pandas',
            'scan flights --region "carrier=[AA,DL) flight=[1,100]" --explain',
        ),
        words=("head", "rows", "peek"),
    ),
    Command(
        "get",
        "show the rows of one key: the values of its row keys, or of the first few; or those of a region",
        (
            VERSION,
            positional("key", "the values, in the order of the row keys", metavar="KEY", many=True, optional=True),
            *_SHARED,
        ),
        _get,
        ("get trips London", "get flights@12 UA 1545", 'get flights --region "carrier=[AA,DL)" --limit 5'),
        words=("lookup", "find"),
    ),
)
