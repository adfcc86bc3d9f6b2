"""`demo` and `tour`: the whole path on real data, and the data of the README's tour."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import Command, option
from sleeper_nb.commands.context import Context

if TYPE_CHECKING:
    from sleeper_nb.demo import DemoReport, TourReport


def _demo(context: Context, arguments: Namespace) -> DemoReport:
    from sleeper_nb import demo

    return demo.run(arguments.folder, context.progress)


def _tour(_context: Context, arguments: Namespace) -> TourReport:
    from sleeper_nb import demo

    return demo.write_tour(arguments.folder)


COMMANDS = (
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
