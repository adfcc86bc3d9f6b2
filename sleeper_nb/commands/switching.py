"""`offline` and `online`: whether maintenance may work on a table."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import TABLE, Command
from sleeper_nb.commands.context import Context
from sleeper_nb.report import Answer, Grid

if TYPE_CHECKING:
    from sleeper_nb.table import Table


def _run(context: Context, arguments: Namespace, *, online: bool) -> Answer:
    return switch(context.table(arguments.table), online=online)


def switch(table: Table, *, online: bool) -> Answer:
    """Take a table online or offline, and return what is said of it."""
    table.set_online(online)
    said = "online" if online else "offline: it is read and ingested as ever, and no maintenance touches it"
    return Answer(Grid((), (), footer=f"{table.name} is {said}"))


COMMANDS = (
    Command(
        "offline",
        "keep maintenance off a table; it is read and ingested as ever",
        (TABLE,),
        partial(_run, online=False),
        ("offline trips",),
        words=("pause", "disable"),
    ),
    Command(
        "online",
        "let maintenance work on a table again",
        (TABLE,),
        partial(_run, online=True),
        ("online trips",),
        words=("resume", "enable"),
    ),
)
