"""`demo` and `tour`: the whole path on real data, and the data of the README's tour."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.command import TABLE, Command, option, positional
from sleeper_nb.commands.context import Context

if TYPE_CHECKING:
    from sleeper_nb.demo import DemoReport, TourReport


# `explore` and `timeline`: the widgets that go through tables and versions.


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


EXPLORING_COMMANDS = (
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


def _demo(context: Context, arguments: Namespace) -> DemoReport:
    from sleeper_nb import demo

    return demo.run(arguments.folder, context.progress)


def _tour(_context: Context, arguments: Namespace) -> TourReport:
    from sleeper_nb import demo

    return demo.write_tour(arguments.folder)


DEMONSTRATING_COMMANDS = (
    Command(
        "demo",
        "load, save, compact and query a year of flights in a new warehouse",
        (option("--folder", text="where it is made", metavar="FOLDER", kind="path", default="demo-warehouse"),),
        _demo,
        ("demo", "demo --folder demo-warehouse"),
        words=("example",),
        warehouse="none",
    ),
    Command(
        "tour",
        "write the flights that the README's tour loads, as Parquet files",
        (option("--folder", text="the folder of the files", metavar="FOLDER", kind="path", default="data"),),
        _tour,
        ("tour", "tour --folder data"),
        words=("data",),
        warehouse="none",
    ),
)
