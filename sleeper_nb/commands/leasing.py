"""`leases`: which versions long readers hold, so that garbage collection leaves their files."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import TABLE, Command, option
from sleeper_nb.commands.context import Context
from sleeper_nb.report import Answer, Grid

if TYPE_CHECKING:
    from sleeper_nb.model.leases import Lease
    from sleeper_nb.report import Listing


def _run(context: Context, arguments: Namespace) -> Listing[Lease] | Answer:
    table = context.table(arguments.table)
    if arguments.release is None:
        return table.leases()
    ended = table.release_lease(arguments.release)
    return Answer(Grid((), (), footer=f"lease {ended.id} on snapshot {ended.snapshot_id} of {table.name} is released"))


COMMANDS = (
    Command(
        "leases",
        "list the versions that long readers hold, or let one go",
        (TABLE, option("--release", text="end this lease; its reader may find a file gone", metavar="ID")),
        _run,
        ("leases trips",),
        words=("readers", "locks"),
    ),
)
