"""`sql` over the rows of tables, and `inspect` over their metadata."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.command import (
    SCHEMA,
    VERSION,
    Argument,
    Command,
    flag,
    option,
    positional,
)
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import InvalidInput
from sleeper_nb.report import Report, Stacked

if TYPE_CHECKING:
    from sleeper_nb.query import QueryResult
    from sleeper_nb.report import Answer
    from sleeper_nb.version import Scan


# `scan` and `get`: rows of a version, read in process, or how they would be.

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


SCANNING_COMMANDS = (
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


def _sql(context: Context, arguments: Namespace) -> Any:
    session = context.opened()
    if arguments.interactive:
        context.check_shows_widgets("--interactive", "write LIMIT 20 OFFSET 20 in the statement")
    engine, params = arguments.engine or context.engine, context.own_variables()
    only_asks = arguments.dry_run or arguments.explain
    result = session.sql(arguments.statement, engine=engine, params=params, dry_run=only_asks)
    return _asked(result, arguments) if only_asks else _read(context, result, arguments)


def _asked(result: QueryResult, arguments: Namespace) -> Report:
    cost = result.cost()
    return Stacked((("reads", cost), ("plan", result.explain()))) if arguments.explain else cost


def _read(context: Context, result: QueryResult, arguments: Namespace) -> Any:
    if arguments.interactive:
        from sleeper_nb import widgets

        return widgets.pages(result, context.display.rows)
    form = vars(arguments)["as"]
    if form is not None:
        return getattr(result, f"to_{form}")()
    if arguments.plot is not None:
        return result.plot(arguments.plot, arguments.x, arguments.y)
    result.display = context.display
    return context.shown(result)


def _inspect(context: Context, arguments: Namespace) -> Answer:
    return context.table_at(arguments.table).inspect(arguments.statement, context.own_variables())


QUERYING_COMMANDS = (
    Command(
        "sql",
        "query tables at any version; :name is the value of a variable",
        (
            option("--engine", text="what answers; spark when it is not given", choices=("spark", "duckdb")),
            AS,
            option(
                "--plot",
                text="show a chart of the rows: their first column against the second, or -x against -y",
                choices=("line", "bar", "hist"),
                answer="draws a chart",
            ),
            option("-x", text="the column from left to right", metavar="COLUMN", only_with="--plot"),
            option("-y", text="the column that says how high", metavar="COLUMN", only_with="--plot"),
            flag(
                "--interactive",
                "in a notebook, go through the rows a page at a time; each is fetched when turned to",
                answer="goes through the rows",
            ),
            flag(
                "--dry-run",
                "read no row: show what would be read of how many partitions, files and bytes",
                answer=NO_ROW,
            ),
            flag("--explain", "read no row: show that, and the engine's plan", answer=NO_ROW),
            positional("statement", "one statement, as it is", "sql", metavar="SQL"),
        ),
        _sql,
        (
            "sql SELECT count(*) FROM trips VERSION AS OF 'savepoint.before-fix'",
            "sql SELECT * FROM trips$savepoints",
            "sql --plot bar SELECT city, avg(fare) FROM trips GROUP BY city",
            "sql --interactive SELECT * FROM trips ORDER BY fare DESC",
            "sql --as pandas SELECT city, fare FROM trips",
            "sql --engine duckdb -o fares\nSELECT city, fare FROM trips VERSION AS OF 12 WHERE fare > :least",
        ),
        words=("select", "query"),
        body=True,
    ),
    Command(
        "inspect",
        "ask DuckDB about files, partitions, snapshots and savepoints of a version; :name is a variable's value",
        (VERSION, positional("statement", "one query, as it is", "sql", metavar="SQL")),
        _inspect,
        (
            "inspect trips select partition_id, count(*) from files group by all",
            "inspect trips select count(*), sum(rows) from files@2",
            "inspect trips\nselect f.filename from files f anti join files@2 using (filename)",
        ),
        words=("metadata",),
        body=True,
    ),
)
