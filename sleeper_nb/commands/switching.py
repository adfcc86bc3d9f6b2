"""`offline` and `online`: whether maintenance may work on a table."""

from __future__ import annotations

from argparse import Namespace
from functools import partial

from sleeper_nb.commands.base import TABLE, Command
from sleeper_nb.commands.context import Context
from sleeper_nb.report import Answer, Grid


def _switch(context: Context, arguments: Namespace, *, online: bool) -> Answer:
    table = context.table(arguments.table)
    table.set_online(online)
    said = "online" if online else "offline: it is read and ingested as ever, and no maintenance touches it"
    return Answer(Grid((), (), footer=f"{table.name} is {said}"))


COMMANDS = (
    Command(
        "offline",
        "keep maintenance off a table; it is read and ingested as ever",
        (TABLE,),
        partial(_switch, online=False),
        ("offline trips",),
        words=("pause", "disable"),
    ),
    Command(
        "online",
        "let maintenance work on a table again",
        (TABLE,),
        partial(_switch, online=True),
        ("online trips",),
        words=("resume", "enable"),
    ),
)
