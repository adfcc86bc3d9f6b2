"""`expire` and `collect-garbage`: forget old versions, and delete what no version needs; each shows its plan first."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import DRY_RUN, FORCE, TABLE, Command
from sleeper_nb.commands.context import Context

if TYPE_CHECKING:
    from sleeper_nb.operations.expiry import ExpiryReport
    from sleeper_nb.operations.garbage import GarbageReport


def _expire(context: Context, arguments: Namespace) -> ExpiryReport:
    return context.table(arguments.table).expire_snapshots(_only_plan(arguments))


def _collect(context: Context, arguments: Namespace) -> GarbageReport:
    return context.table(arguments.table).collect_garbage(_only_plan(arguments))


def _only_plan(arguments: Namespace) -> bool:
    return bool(arguments.dry_run or not arguments.force)


COMMANDS = (
    Command(
        "expire",
        "forget old snapshots; shows which, until --force",
        (TABLE, DRY_RUN, FORCE),
        _expire,
        ("expire trips", "expire trips --force"),
        words=("expire-snapshots",),
    ),
    Command(
        "collect-garbage",
        "delete files that no version needs; shows which, until --force",
        (TABLE, DRY_RUN, FORCE),
        _collect,
        ("collect-garbage trips", "collect-garbage trips --force"),
        aliases=("gc",),
        words=("vacuum", "clean", "cleanup"),
    ),
)
