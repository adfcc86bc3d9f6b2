"""`migrate`: move the metadata of a table to another state store."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import TABLE, Command, option
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.properties import STATE_STORES

if TYPE_CHECKING:
    from sleeper_nb.model.snapshots import Snapshot


def _migrate(context: Context, arguments: Namespace) -> Snapshot:
    table = context.table(arguments.table)
    if arguments.to is None:
        raise InvalidInput(
            f"migrate needs a state store; {table.name} has {table.state_store}",
            hint=f"migrate {table.name} --to {next(name for name in STATE_STORES if name != table.state_store)}",
        )
    return context.opened().migrate_state_store(table.name, arguments.to, message=arguments.message)


COMMANDS = (
    Command(
        "migrate",
        "move a table's metadata to another state store; history and savepoints stay",
        (
            TABLE,
            option("--to", text="the state store it moves to", metavar="state-store", choices=STATE_STORES),
            option("-m", "--message", text="what history shows of it", metavar="MSG"),
        ),
        _migrate,
        ("migrate trips --to TransactionLogStateStore",),
        words=("move", "convert"),
    ),
)
