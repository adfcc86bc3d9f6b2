"""`apply`: make the tables of an instance as a file declares them."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import DRY_RUN, Command, flag, positional
from sleeper_nb.commands.context import Context

if TYPE_CHECKING:
    from sleeper_nb.operations.administration.applying import ApplyReport


def _run(context: Context, arguments: Namespace) -> ApplyReport:
    return context.opened().apply(arguments.file, dry_run=arguments.dry_run, skip_conflicts=arguments.skip_conflicts)


COMMANDS = (
    Command(
        "apply",
        "make tables and their properties as a TOML file declares them; again does nothing",
        (
            positional("file", "the file: [tables.NAME] with schema, split-points and properties", "path",
                       metavar="FILE"),
            DRY_RUN,
            flag("--skip-conflicts", "when a table cannot be as declared, leave it alone and do the others"),
        ),
        _run,
        ("apply tables.toml --dry-run", "apply tables.toml"),
        words=("deploy", "declare"),
        warehouse="new",
    ),
)  # fmt: skip
