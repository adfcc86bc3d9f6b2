"""`split`: cut leaf partitions that have too many rows."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import DRY_RUN, TABLE, Command, flag, option
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import InvalidInput

if TYPE_CHECKING:
    from sleeper_nb.operations.partitioning.splitting import SplitReport


def _split(context: Context, arguments: Namespace) -> SplitReport:
    if arguments.auto and arguments.at is not None:
        raise InvalidInput("split takes --at or --auto, not both", hint="leave one of them out")
    return context.table(arguments.table).split_partitions(
        arguments.dry_run,
        at=arguments.at,
        key=arguments.key,
        partition=arguments.partition,
        threshold=arguments.threshold,
    )


COMMANDS = (
    Command(
        "split",
        "cut leaf partitions with too many rows; references move, no file is rewritten",
        (
            TABLE,
            flag("--auto", "where the rows are halved, until no leaf has too many; so it is without --at"),
            option("--at", text="cut at this value instead, whatever the rows", metavar="K"),
            option("--key", text="the row key that K is a value of; the first when not given", metavar="NAME",
                   kind="columns"),
            option("--partition", text="only this leaf, by its id", metavar="P"),
            option("--threshold", text="so many rows are too many; without it, what the table's properties say",
                   metavar="ROWS", kind="number"),
            DRY_RUN,
        ),
        _split,
        ("split trips --dry-run", "split trips --at London", "split flights --key flight --at 1500"),
        words=("split-partitions", "repartition", "cluster"),
    ),
)  # fmt: skip
