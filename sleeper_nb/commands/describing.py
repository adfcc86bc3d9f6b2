"""`describe`, `show`, `history`, `files` and `partitions`: what a table is and was, from its metadata."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.base import SCHEMA, TABLE, VERSION, Command, flag, option
from sleeper_nb.commands.context import Context

if TYPE_CHECKING:
    from sleeper_nb.model.schema import Field
    from sleeper_nb.model.snapshots import Snapshot
    from sleeper_nb.render import Pictured
    from sleeper_nb.report import Listing, Stacked
    from sleeper_nb.table_at import TableAt


def _describe(context: Context, arguments: Namespace) -> TableAt | Listing[Field]:
    at = context.table_at(arguments.table)
    return at.fields() if arguments.fields else at


def _show(context: Context, arguments: Namespace) -> Stacked:
    return context.table_at(arguments.table, arguments.schema).card()


def _history(context: Context, arguments: Namespace) -> Pictured[Snapshot]:
    return context.table(arguments.table).snapshots(arguments.limit)


def _files(context: Context, arguments: Namespace) -> Pictured[dict[str, Any]]:
    return context.table_at(arguments.table).files()


def _partitions(context: Context, arguments: Namespace) -> Pictured[dict[str, Any]]:
    return context.table_at(arguments.table).leaves()


COMMANDS = (
    Command(
        "describe",
        "show the columns and the size of a table",
        (VERSION, flag("--fields", "list the fields instead: their roles and types, and which may be null")),
        _describe,
        ("describe trips", "describe trips@12", "describe trips --fields"),
        words=("desc", "schema", "info"),
    ),
    Command(
        "show",
        "show one version: its commit or savepoint, what the table was then, and its first rows",
        (VERSION, SCHEMA),
        _show,
        ("show trips@12", "show trips@before-fix"),
        words=("card",),
    ),
    Command(
        "history",
        "show the retained snapshots, newest first: a picture of rows, commits and savepoints, and a list",
        (TABLE, option("--limit", text="list so many at most, the newest", kind="number", metavar="N")),
        _history,
        ("history trips", "history trips --limit 10"),
        words=("log", "snapshots", "versions"),
    ),
    Command(
        "files",
        "show the files of a version: a picture of their keys and of what a compaction would merge, and a list",
        (VERSION,),
        _files,
        ("files trips", "files trips@before-fix"),
    ),
    Command(
        "partitions",
        "show the leaf partitions of a version: a picture, and their ranges of keys",
        (VERSION,),
        _partitions,
        ("partitions trips", "partitions trips@2026-11-01T10:00"),
        words=("splits", "leaves"),
    ),
)
