"""`maintain`: do whatever is due now, on one table or on all that are online."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import DRY_RUN, Command, positional
from sleeper_nb.commands.context import Context

if TYPE_CHECKING:
    from sleeper_nb.operations.upkeep.maintaining import MaintenanceReport


def _maintain(context: Context, arguments: Namespace) -> MaintenanceReport:
    of = context.opened() if arguments.table is None else context.table(arguments.table)
    return of.maintain(arguments.dry_run)


COMMANDS = (
    Command(
        "maintain",
        "do what is due now: split, compact, save, expire, collect garbage",
        (
            positional("table", "the table; all that are online without it", "table", metavar="T", optional=True),
            DRY_RUN,
        ),
        _maintain,
        ("maintain --dry-run", "maintain trips"),
        words=("maintenance", "housekeeping", "auto"),
    ),
)
