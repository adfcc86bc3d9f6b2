"""`sql`, `scan` and `explore`: the rows of tables, at any version."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.command import (
    COLUMNS,
    JOB_ID,
    LIMIT,
    MESSAGE,
    REGION,
    SCHEMA,
    VERSION,
    WHERE,
    command,
    flag,
    in_quotes,
    option,
    positional,
)
from sleeper_nb.commands.confirm import ask_and_confirm, line_again
from sleeper_nb.commands.context import Context, split_names, typed_line
from sleeper_nb.display.chart_marks import KINDS
from sleeper_nb.errors import Action, ConfirmationNeeded, InvalidInput
from sleeper_nb.model.sql_values import DIALECTS
from sleeper_nb.report import Report, Stacked
from sleeper_nb.sql_text import in_one_line, is_writing

if TYPE_CHECKING:
    from sleeper_nb.public_types import QueryResult
    from sleeper_nb.scan import Scan
    from sleeper_nb.table_at import TableAt

NO_ROW = "reads no row"
BY_TYPES = ""
"""The value of ``--plot`` alone: the types of the columns tell which chart."""
AS = option(
    "--as",
    text="return all rows in this form; without it, a result that shows its first rows",
    metavar="form",
    choices=("pandas", "arrow", "polars", "spark"),
    answer="gives all rows",
)
ROW_OPTIONS = (
    REGION,
    COLUMNS,
    WHERE,
    LIMIT,
    AS,
    flag("--explain", "read no row: show how many partitions, files, row groups and bytes would be read",
         answer=NO_ROW),
    SCHEMA,
)  # fmt: skip


_IN_THE_STATEMENT = {"--limit": "LIMIT 20", "-n": "LIMIT 20", "--where": "WHERE …", "--columns": "the columns"}


@command(
    "sql",
    "query tables at any version, or change them; :name is the value of a variable",
    option("--engine", text="the engine; auto picks DuckDB, or Spark for large reads and Spark-only SQL",
           choices=("auto", *DIALECTS)),
    AS,
    option(
        "--plot",
        text="show a chart of the rows: of the first columns, or of -x and -y; without a kind, as their types suggest",
        choices=KINDS,
        answer="draws a chart",
        bare=BY_TYPES,
    ),
    option("-x", text="the column for the x axis", metavar="COLUMN", only_with="--plot"),
    option("-y", text="the column for the y axis", metavar="COLUMN", only_with="--plot"),
    option("--color", text="the column whose values get a colour each", metavar="COLUMN", only_with="--plot"),
    option("--facet", text="the column whose values get a small chart each", metavar="COLUMN", only_with="--plot"),
    option("--log", text="the axes that are logarithmic", choices=("x", "y", "xy"), only_with="--plot"),
    flag("--interactive", "in a notebook, page through the rows; each page is fetched when it is shown",
         answer="pages through the rows"),
    flag("--dry-run", "change nothing: show what would be done; of a query, how many files and bytes would be read",
         answer=NO_ROW),
    flag("--explain", "read no row: show that and the engine's plan", answer=NO_ROW),
    flag("--force", "delete what DROP, TRUNCATE or CALL deletes, or change all rows; without it, a notebook shows the "
         "plan and a console asks"),
    MESSAGE,
    JOB_ID,
    positional("statement", "one statement, as it is; - on the console reads it from stdin", "sql", metavar="SQL"),
    examples=(
        "sql SELECT count(*) FROM trips VERSION AS OF 'savepoint.before-fix'",
        "sql SELECT * FROM trips$savepoints",
        "sql --plot SELECT city, avg(fare) FROM trips GROUP BY city",
        "sql --plot hist -x fare --color city SELECT * FROM trips",
        "sql --interactive SELECT * FROM trips ORDER BY fare DESC",
        "sql --as pandas SELECT city, fare FROM trips",
        "sql INSERT INTO trips FROM trips@12 WHERE fare > 100",
        "sql --dry-run UPDATE trips SET fare = 0 WHERE fare < 0",
        'sql -m "typo" --job-id fix-1 UPDATE trips SET fare = 0 WHERE fare < 0',
        "sql --force DROP TABLE IF EXISTS journeys",
        "sql --engine duckdb -o fares\nSELECT city, fare FROM trips VERSION AS OF 12 WHERE fare > :least",
    ),
    words=("select", "query"),
    body=True,
    reads_only=True,
    instead={name: f"write {words} in the statement" for name, words in _IN_THE_STATEMENT.items()},
)  # fmt: skip
def sql(context: Context, arguments: Namespace) -> Any:
    from sleeper_nb.public_types import ChangeReport, QueryResult

    session = context.opened()
    if context.face == "console" and arguments.statement.strip() == "-":
        arguments.statement = sys.stdin.read()
    if arguments.interactive:
        context.check_shows_widgets("--interactive", "write LIMIT 20 OFFSET 20 in the statement")
    engine, params = arguments.engine or context.engine, context.own_variables()
    if engine == "auto" and (form := vars(arguments)["as"]) in DIALECTS:
        engine = form
    _check_form(arguments)
    reads_nothing = arguments.dry_run or arguments.explain
    data = params if context.reads_variables else {}
    notes = {"message": arguments.message, "job_id": arguments.job_id}
    run = partial(session.sql, arguments.statement, engine=engine, params=params, data=data, **notes)
    try:
        result = run(dry_run=reads_nothing, force=arguments.force)
    except ConfirmationNeeded as needed:
        return ask_and_confirm(context, needed, _line_again(context, arguments, force=True), partial(run, force=True))
    if isinstance(result, ChangeReport) and result.dry_run:
        return replace(result, again=_line_again(context, arguments, force=result.is_about_all_rows))
    if not isinstance(result, QueryResult):
        return result
    return _cost_or_plan(result, arguments) if reads_nothing else _rows_of(context, result, arguments)


def _check_form(arguments: Namespace) -> None:
    """Raise before a statement changes anything, when its answer cannot have the form that an option asks for."""
    form = vars(arguments)["as"]
    options = {f"--as {form}": form, f"--plot {arguments.plot or ''}".rstrip(): arguments.plot is not None}
    options |= {"--interactive": arguments.interactive, "--explain": arguments.explain}
    option = next((name for name, given in options.items() if given), None)
    if option is None or not is_writing(arguments.statement):
        return
    hint = "write EXPLAIN before the statement, or --dry-run" if option == "--explain" else f"leave out {option}"
    raise InvalidInput(f"{option} is for queries, and the statement changes the warehouse", hint=hint)


def _line_again(context: Context, arguments: Namespace, *, force: bool) -> str:
    """Return the line that does what was planned; of a statement that is no line, at most the option for it."""
    statement, added = in_one_line(arguments.statement), ("--force",) if force else ()
    if statement is None:
        return "".join(added)
    typed = statement if context.face == "notebook" else typed_line([statement])
    return f"{line_again(arguments.words, *added)} {typed}"


def _cost_or_plan(result: QueryResult, arguments: Namespace) -> Report:
    cost = result.cost()
    return Stacked((("reads", cost), ("plan", result.explain()))) if arguments.explain else cost


def _rows_of(context: Context, result: QueryResult, arguments: Namespace) -> Any:
    if arguments.interactive:
        from sleeper_nb import widgets

        return widgets.pages(result, arguments.statement)
    form = vars(arguments)["as"]
    if form is not None:
        return getattr(result, f"to_{form}")()
    if arguments.plot is not None:
        chosen = {"color": arguments.color, "facet": arguments.facet, "log": arguments.log}
        kind = None if arguments.plot == BY_TYPES else arguments.plot
        return result.plot(kind, arguments.x, arguments.y, **chosen)
    result.display = context.display
    return context.shown(result)


@command(
    "scan",
    "show rows of a version: all, those with a key, those of a region, or those that meet a condition",
    VERSION,
    positional("key", "a key: the values of the row keys in their order, or of the first few", metavar="KEY", many=True,
               optional=True),
    *ROW_OPTIONS,
    examples=(
        "scan trips",
        "scan trips London",
        'scan trips@12 --columns city,fare --where "fare < 0" --limit 20',
        "scan trips@12 --schema current",
        'scan trips --where "fare < 0" --as pandas',
        'scan flights --region "carrier=[AA,DL) flight=[1,100]" --explain',
    ),
    words=("head", "rows", "peek", "get", "lookup", "find"),
    reads_only=True,
    instead=dict.fromkeys(("--key", "--keys"), ("write ", Action("scan T KEY"))),
)  # fmt: skip
def scan(context: Context, arguments: Namespace) -> Any:
    at = context.table_at(arguments.table, arguments.schema)
    columns = split_names(arguments.columns)
    if arguments.key and arguments.region is not None:
        raise InvalidInput("scan takes a key or --region, not both", hint="leave one of them out")
    key, region = _key(at, arguments.key), arguments.region
    rows = at.scan(columns, arguments.where, keys=key, region=region, limit=arguments.limit)
    return _scanned(context, rows, arguments)


def _key(at: TableAt, words: list[str]) -> tuple[Any, ...] | None:
    """Return the key that some words are, the values of the first row keys; None without any."""
    from sleeper_nb.model.keys import parse_key

    fields, text = at.schema.row_keys, " ".join(words)
    condition = re.fullmatch(r"(?:where\s+)?((\w+)\s*(?:[<>=!]|\b(?:in|is|like|between)\b).*)", text, re.IGNORECASE)
    if condition and condition[2] in at.schema.names:
        hint = f"a key is its values alone, in the order of the row keys; or write --where {in_quotes(condition[1])}"
        raise InvalidInput(f"{text!r} is a condition, not a key", hint=hint)
    if len(words) > len(fields):
        names = ", ".join(f"{field.name} {field.text}" for field in fields)
        message = f"{len(words)} values are too many for a key of {at.name!r}"
        raise InvalidInput(message, hint=f"its row keys are {names}")
    return tuple(parse_key(field, word, what="key") for field, word in zip(fields, words, strict=False)) or None


def _scanned(context: Context, rows: Scan, arguments: Namespace) -> Any:
    if arguments.explain:
        return rows.plan()
    form = vars(arguments)["as"]
    if form is not None:
        return getattr(rows, f"to_{form}")()
    return context.shown(replace(rows, display=context.display))


@command(
    "explore",
    "browse and query tables with the mouse or keys: versions, rows, partitions, files and savepoints",
    positional("table", "the table to begin with, and maybe a version", "version", metavar="T[@REF]", optional=True),
    examples=("explore", "explore trips", "explore trips@before-fix"),
    words=("browse", "widget"),
    reads_only=True,
    warehouse="none",  # the console cannot show widgets, so it need not open one
)
def explore(context: Context, arguments: Namespace) -> Any:
    context.check_shows_widgets("explore", "start jupyter lab, and type %sleeper explore")
    session = context.opened()
    if arguments.table is None:
        return session.explore()
    at = context.table_at(arguments.table)
    from sleeper_nb import widgets

    return widgets.explore(session, at.name, at.resolved.snapshot_id)
