"""`compact`: merge the files of partitions."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import DRY_RUN, TABLE, Command, flag, option
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import InvalidInput

if TYPE_CHECKING:
    from sleeper_nb.background import BackgroundJob
    from sleeper_nb.operations.compacting.compaction import CompactionReport


def _compact(context: Context, arguments: Namespace) -> CompactionReport | BackgroundJob[CompactionReport]:
    if arguments.background and context.face == "console":
        raise InvalidInput("the console ends with its command, and work in the background with it",
                           hint=f"leave out --background: {context.prefix} compact {arguments.table} &")  # fmt: skip
    table = context.table(arguments.table)
    return table.compact(
        arguments.strategy,
        engine=arguments.engine,
        dry_run=arguments.dry_run,
        partition=arguments.partition,
        background=bool(arguments.background),
    )


COMMANDS = (
    Command(
        "compact",
        "merge files; no row changes, and older versions still read theirs",
        (
            TABLE,
            option(
                "--strategy",
                text="which files; without it, what the table's properties say",
                choices=("size-ratio", "basic", "all"),
            ),
            option(
                "--engine",
                text="where it runs; auto goes by the size of the files",
                choices=("auto", "spark", "local"),
                default="auto",
            ),
            option("--partition", text="only this leaf, by its id", metavar="P"),
            DRY_RUN,
            flag("--background", "return at once, in a notebook; jobs shows how far it is"),
        ),
        _compact,
        ("compact trips --dry-run", "compact trips --strategy all --engine local", "compact trips --background"),
        words=("optimize", "merge", "rewrite"),
    ),
)
