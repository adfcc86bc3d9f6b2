"""`explore` and `timeline`: the widgets that go through tables and versions."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from sleeper_nb.commands.base import TABLE, Command, positional
from sleeper_nb.commands.context import Context


def _explore(context: Context, arguments: Namespace) -> Any:
    context.check_shows_widgets("explore", "start jupyter lab, and type %sleeper explore")
    session = context.opened()
    table = None if arguments.table is None else session.table(arguments.table).name
    from sleeper_nb import widgets

    return widgets.explore(session, table)


def _timeline(context: Context, arguments: Namespace) -> Any:
    context.check_shows_widgets("timeline", f"sleeper history {arguments.table}")
    from sleeper_nb import widgets

    return widgets.timeline(context.opened(), context.table(arguments.table).name)


COMMANDS = (
    Command(
        "explore",
        "go through tables, versions, rows, partitions, files and savepoints, and query them, with the mouse or keys",
        (positional("table", "the table to begin with", "table", metavar="T", optional=True),),
        _explore,
        ("explore", "explore trips"),
        words=("browse", "widget"),
        warehouse="none",  # the console has no use for one, as it shows no widgets
    ),
    Command(
        "timeline",
        "compare two versions of a table with the mouse or keys, and write the line that rolls back",
        (TABLE,),
        _timeline,
        ("timeline trips",),
        words=("slider", "travel"),
        warehouse="none",
    ),
)
