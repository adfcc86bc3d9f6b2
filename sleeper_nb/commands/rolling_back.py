"""`rollback`: make a table what it was at an older version, as one more snapshot."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import DRY_RUN, VERSION, Command, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import InvalidInput

if TYPE_CHECKING:
    from sleeper_nb.operations.versioning.rollback import RollbackReport


def _run(context: Context, arguments: Namespace) -> RollbackReport:
    table, asked = context.table_and_version(arguments.table, arguments.version)
    if asked is None:
        hint = f"rollback {table.name} 12, or a savepoint's name; history {table.name} lists them"
        raise InvalidInput("rollback needs a version", hint=hint)
    return table.rollback_to(asked, dry_run=arguments.dry_run, message=arguments.message)


COMMANDS = (
    Command(
        "rollback",
        "make a table what it was at a version, by one more snapshot",
        (
            VERSION,
            positional("version", "12, a savepoint's name, or a time; left out behind T@REF", "reference",
                       metavar="REF", optional=True),
            option("-m", "--message", text="why", metavar="MSG"),
            DRY_RUN,
        ),
        _run,
        ("rollback trips 12 --dry-run", "rollback trips before-fix -m 'fares were wrong'", "rollback trips@before-fix"),
        words=("restore", "revert", "undo", "reset"),
    ),
)  # fmt: skip
