"""`expire`, `collect-garbage` and `sweep-orphans`: let go of what is needed no more; each shows its plan first."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import DRY_RUN, FORCE, TABLE, Command, option
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import InvalidInput

if TYPE_CHECKING:
    from sleeper_nb.operations.upkeep.expiry import ExpiryReport
    from sleeper_nb.operations.upkeep.garbage import GarbageReport
    from sleeper_nb.operations.upkeep.orphans import OrphanReport


def _expire(context: Context, arguments: Namespace) -> ExpiryReport:
    return context.table(arguments.table).expire_snapshots(_only_plan(arguments))


def _collect(context: Context, arguments: Namespace) -> GarbageReport:
    return context.table(arguments.table).collect_garbage(_only_plan(arguments))


def _sweep(context: Context, arguments: Namespace) -> OrphanReport:
    from sleeper_nb.model.durations import parse_duration

    try:
        age = None if arguments.older_than is None else parse_duration(arguments.older_than)
    except ValueError as error:
        raise InvalidInput(f"{arguments.older_than!r} is no duration", hint="write 3d, 36h or PT90M") from error
    return context.table(arguments.table).sweep_orphans(_only_plan(arguments), older_than=age)


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
    Command(
        "sweep-orphans",
        "delete files that no version ever named; shows which, until --force",
        (
            TABLE,
            option(
                "--older-than",
                text="leave younger files, which may be of a commit under way; a day at least",
                metavar="AGE",
                default="3d",
            ),
            DRY_RUN,
            FORCE,
        ),
        _sweep,
        ("sweep-orphans trips", "sweep-orphans trips --older-than 7d --force"),
        words=("orphans", "remove-orphan-files"),
    ),
)
