"""`demo`: the whole path on real data."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import Command, option
from sleeper_nb.commands.context import Context

if TYPE_CHECKING:
    from sleeper_nb.demo import DemoReport


def _demo(context: Context, arguments: Namespace) -> DemoReport:
    from sleeper_nb import demo

    return demo.run(arguments.folder, context.progress)


COMMANDS = (
    Command(
        "demo",
        "load, save, compact and query a year of flights in a new warehouse",
        (option("--folder", text="where it is made", metavar="FOLDER", kind="path", default="demo-warehouse"),),
        _demo,
        ("demo", "demo --folder demo-warehouse"),
        words=("example", "tour"),
        warehouse="none",
    ),
)
