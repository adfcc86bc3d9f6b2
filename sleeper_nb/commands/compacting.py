"""`compact`: merge the files of partitions."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from sleeper_nb.background import BackgroundJob
from sleeper_nb.commands.base import DRY_RUN, TABLE, Command, flag, option
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import InvalidInput


def _compact(context: Context, arguments: Namespace) -> Any:
    if arguments.background and context.face == "console":
        raise InvalidInput("the console ends with its command, and work in the background with it",
                           hint=f"leave out --background: {context.prefix} compact {arguments.table} &")  # fmt: skip
    table = context.table(arguments.table)
    began = context.opened().components.clock.now()
    is_watched = arguments.watch and context.face == "notebook" and not arguments.dry_run
    found = table.compact(
        arguments.strategy,
        engine=arguments.engine,
        dry_run=arguments.dry_run,
        partition=arguments.partition,
        background=bool(arguments.background or is_watched),
    )
    if not is_watched or not isinstance(found, BackgroundJob):
        return found
    from sleeper_nb import widgets

    widget = widgets.watch(context.opened(), table.name, found, began)
    widget.follow()
    return widget


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
            flag(
                "--watch",
                "show a bar until the jobs have ended; an interrupt stops watching, then a button stops the jobs",
            ),
        ),
        _compact,
        ("compact trips --dry-run", "compact trips --strategy all --engine local", "compact trips --watch"),
        words=("optimize", "merge", "rewrite"),
    ),
)
