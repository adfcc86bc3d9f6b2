"""`compact`: merge the files of partitions."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import DRY_RUN, TABLE, Command, option
from sleeper_nb.commands.context import Context

if TYPE_CHECKING:
    from sleeper_nb.operations.compaction import CompactionReport


def _compact(context: Context, arguments: Namespace) -> CompactionReport:
    table = context.table(arguments.table)
    return table.compact(
        arguments.strategy, engine=arguments.engine, dry_run=arguments.dry_run, partition=arguments.partition
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
        ),
        _compact,
        ("compact trips --dry-run", "compact trips --strategy all --engine local"),
        words=("optimize", "merge", "rewrite"),
    ),
)
