"""`status` and `check`: how a table is, and whether anything is wrong with it; neither changes anything."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import TABLE, Command, flag
from sleeper_nb.commands.context import Context

if TYPE_CHECKING:
    from sleeper_nb.operations.health.findings import CheckReport
    from sleeper_nb.operations.health.status import TableStatus


def _status(context: Context, arguments: Namespace) -> TableStatus:
    return replace(context.table(arguments.table).status(), prefix=context.prefix)


def _check(context: Context, arguments: Namespace) -> CheckReport:
    return context.table(arguments.table).check(deep=arguments.deep)


COMMANDS = (
    Command(
        "status",
        "show where a table's metadata is, how much there is, what waits, and what to do next",
        (TABLE,),
        _status,
        ("status trips",),
        words=("stat", "stats", "health"),
    ),
    Command(
        "check",
        "look for anything that is wrong with a table; changes nothing",
        (TABLE, flag("--deep", "also read every data file: its rows, their order and their keys")),
        _check,
        ("check trips", "check trips --deep"),
        words=("fsck", "verify", "validate"),
    ),
)
