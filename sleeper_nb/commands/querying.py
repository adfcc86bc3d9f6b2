"""`sql` over the rows of tables, and `inspect` over their metadata."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.base import VERSION, Command, flag, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.scanning import AS, NO_ROW
from sleeper_nb.report import Report, Stacked

if TYPE_CHECKING:
    from sleeper_nb.query_result import QueryResult
    from sleeper_nb.report import Answer


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


COMMANDS = (
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
