"""`alter`: add, rename and drop value columns of a table."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import DRY_RUN, TABLE, Command, option
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import InvalidInput

if TYPE_CHECKING:
    from sleeper_nb.model.schema import Field
    from sleeper_nb.operations.versioning.altering import AlterReport


def _alter(context: Context, arguments: Namespace) -> AlterReport:
    added = [_added(text) for text in arguments.add_column or ()]
    renamed = _renamed(arguments.rename_column or ())
    table = context.table(arguments.table)
    said = {"dry_run": arguments.dry_run, "message": arguments.message}
    return table.alter(added, renamed, arguments.drop_column or (), **said)


def _added(text: str) -> Field:
    from sleeper_nb.model.schema import fields_of

    name, _, kind = text.strip().partition(" ")
    if not kind:
        hint = f'write --add-column "{name or "note"} string?"'
        raise InvalidInput(f"column {name!r} has no type", hint=hint)
    (field,) = fields_of({name: kind})
    return field


def _renamed(texts: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, to = (part.strip() for part in text.partition("="))
        if not (name and equals and to):
            raise InvalidInput(f"cannot read {text!r}", hint="write --rename-column old=new")
        if name in found:
            raise InvalidInput(f"column {name!r} is renamed twice", hint="give it one new name")
        found[name] = to
    return found


COMMANDS = (
    Command(
        "alter",
        "add, rename and drop value columns; no file is rewritten, and older versions keep their columns",
        (
            TABLE,
            option("--add-column", text="a new column, null in the rows that there are", metavar='"NAME TYPE?"',
                   many=True),
            option("--rename-column", text="a column's name, and its new one", metavar="OLD=NEW", many=True),
            option("--drop-column", text="a column that goes", metavar="NAME", kind="columns", many=True),
            option("-m", "--message", text="why", metavar="MSG"),
            DRY_RUN,
        ),
        _alter,
        (
            'alter trips --add-column "note string?" --dry-run',
            "alter trips --rename-column fare=price --drop-column tip -m new",
        ),
        words=("evolve", "add-column", "rename-column", "drop-column"),
    ),
)  # fmt: skip
