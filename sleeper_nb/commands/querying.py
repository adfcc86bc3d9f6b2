"""`sql` over the rows of tables, and `inspect` over their metadata."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import VERSION, Command, option, positional
from sleeper_nb.commands.context import Context

if TYPE_CHECKING:
    from sleeper_nb.query import QueryResult
    from sleeper_nb.report import Answer


def _sql(context: Context, arguments: Namespace) -> QueryResult:
    session = context.opened()
    if arguments.output is not None:
        context.check_assignable(arguments.output)
    engine = arguments.engine or context.engine
    result = session.sql(arguments.statement, engine=engine, params=context.own_variables())
    result.head()  # an error of the first rows must fail the cell; one that comes while they are shown would not
    if arguments.output is not None and context.variables is not None:
        context.variables[arguments.output] = result
    return result


def _inspect(context: Context, arguments: Namespace) -> Answer:
    return context.table_at(arguments.table).inspect(arguments.statement)


COMMANDS = (
    Command(
        "sql",
        "query tables at any version; :name is the value of a variable",
        (
            option("-o", "--output", text="the variable that keeps the result", metavar="VAR"),
            option("--engine", text="what answers; spark when it is not given", choices=("spark", "duckdb")),
            positional("statement", "one statement, as it is", "sql", metavar="SQL"),
        ),
        _sql,
        (
            "sql SELECT count(*) FROM trips VERSION AS OF 'savepoint.before-fix'",
            "sql SELECT * FROM trips$savepoints",
            "sql --engine duckdb -o fares\nSELECT city, fare FROM trips VERSION AS OF 12 WHERE fare > :least",
        ),
        words=("select", "query"),
        body=True,
    ),
    Command(
        "inspect",
        "ask DuckDB about files, partitions, snapshots and savepoints of a version",
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
