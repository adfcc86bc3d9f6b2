"""`diff`: what changed between two versions of a table."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import VERSION, Command, flag, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.scanning import LIMIT
from sleeper_nb.errors import InvalidInput

if TYPE_CHECKING:
    from sleeper_nb.changes import ChangedRows
    from sleeper_nb.operations.versioning.diff import Diff


def _diff(context: Context, arguments: Namespace) -> Diff | ChangedRows:
    name, at, reference = arguments.table.partition("@")
    words = (reference if at else None, arguments.a, arguments.b)
    versions = [word.removeprefix(f"{name}@") for word in words if word is not None]
    if not 1 <= len(versions) <= 2:
        raise InvalidInput(
            f"diff compares two versions, not {len(versions)}",
            hint=f"diff {name} 12 15; without the second, the current",
        )
    if arguments.limit is not None and not arguments.rows:
        raise InvalidInput("--limit is for rows", hint=f"diff {' '.join((name, *versions))} --rows --limit 20")
    table = context.table(name)
    if not arguments.rows:
        return table.diff(*versions)
    return context.shown(replace(table.changes(*versions).rows(arguments.limit), display=context.display))


COMMANDS = (
    Command(
        "diff",
        "show what changed between two versions: rows, columns, files, partitions; with --rows the rows themselves",
        (
            VERSION,
            positional("a", "the one version: 12, a savepoint's name, a time; left out behind T@REF", "reference",
                       metavar="A", optional=True),
            positional("b", "the other one; the current one when not given", "reference", metavar="B", optional=True),
            flag("--rows", "show rows, each with a column that says whether it was added or removed"),
            LIMIT,
        ),
        _diff,
        ("diff trips 12", "diff trips before-fix 15 --rows --limit 20", "diff trips@before-fix trips@15"),
        words=("changes", "compare"),
    ),
)  # fmt: skip
