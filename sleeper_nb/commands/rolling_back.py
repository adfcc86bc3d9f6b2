"""`rollback`: make a table what it was at an older version, as one more snapshot."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import DRY_RUN, TABLE, Command, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.model.snapshots import parse_reference

if TYPE_CHECKING:
    from sleeper_nb.operations.versioning.rollback import RollbackReport


def _run(context: Context, arguments: Namespace) -> RollbackReport:
    table = context.table(arguments.table)
    asked = parse_reference(arguments.version)
    return table.rollback_to(asked, dry_run=arguments.dry_run, message=arguments.message)


COMMANDS = (
    Command(
        "rollback",
        "make a table what it was at a version, by one more snapshot",
        (
            TABLE,
            positional("version", "12, a savepoint's name, or a time", "reference", metavar="REF"),
            option("-m", "--message", text="why", metavar="MSG"),
            DRY_RUN,
        ),
        _run,
        ("rollback trips 12 --dry-run", "rollback trips before-fix -m 'fares were wrong'"),
        words=("restore", "revert", "undo", "reset"),
    ),
)
