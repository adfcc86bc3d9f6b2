"""`create-savepoint`, `savepoints` and `delete-savepoint`: versions that are kept until they are let go."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import DRY_RUN, TABLE, VERSION, Command, flag, option, positional
from sleeper_nb.commands.confirming import confirmed
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.snapshots import SavepointReference

if TYPE_CHECKING:
    from sleeper_nb.model.savepoints import Savepoint
    from sleeper_nb.operations.versioning.savepoints import SavepointDeletion
    from sleeper_nb.report import Listing
    from sleeper_nb.table import Table


def _create(context: Context, arguments: Namespace) -> Savepoint:
    table, asked = context.table_and_version(arguments.table, arguments.snapshot)
    snapshot = None if asked is None else table.at_reference(asked).resolved.snapshot_id
    return table.create_savepoint(arguments.name, arguments.message, snapshot)


def _list(context: Context, arguments: Namespace) -> Listing[Savepoint]:
    return context.table(arguments.table).savepoints(arguments.bytes)


def _delete(context: Context, arguments: Namespace) -> SavepointDeletion:
    table, asked = context.table_and_version(arguments.table, arguments.savepoint)
    if sum(given is not None for given in (asked, arguments.id, arguments.name)) != 1:
        raise InvalidInput("name one savepoint", hint=f"delete-savepoint {table.name} NAME, or savepoint.1")
    if arguments.name is not None:
        which = _named(table, arguments.name)
    elif arguments.id is not None:
        which = SavepointReference(arguments.id)
    elif isinstance(asked, SavepointReference):
        which = asked
    else:
        hint = f"delete-savepoint {table.name} NAME, or savepoint.1: savepoints {table.name} lists them"
        raise InvalidInput(f"{asked} is no savepoint", hint=hint)
    delete = partial(table.delete_savepoint, which)
    return confirmed(context, context.opened(), arguments, delete, lambda plan: plan.savepoint.name or str(plan.id))


def _named(table: Table, name: str) -> SavepointReference:
    """Return the savepoint of a name: what is typed as a name is never read as an id."""
    points = table.savepoints()
    names = [point.name for point in points if point.name]
    if name not in names:
        number = next((point.id for point in points if name in {str(point.id), f"savepoint.{point.id}"}), None)
        if number is None:
            raise NotFound.of("savepoint", name, names, where=f" of table {table.name!r}")
        hint = f"delete-savepoint {table.name} --id {number} deletes the one with that id"
        raise NotFound(f"no savepoint is called {name!r}", hint=hint)
    return SavepointReference(name)


COMMANDS = (
    Command(
        "create-savepoint",
        "keep a version until its savepoint is deleted",
        (
            VERSION,
            option("--name", text="a name for it, which means no other version as v1 does", metavar="NAME"),
            option("--snapshot", text="which version; without it, the current one", metavar="N", kind="snapshot"),
            option("-m", "--message", text="why it is kept", metavar="MSG"),
        ),
        _create,
        (
            "create-savepoint trips",
            "create-savepoint trips@12",
            'create-savepoint trips --name fix --snapshot 12 -m "fares were wrong"',
        ),
        words=("savepoint", "tag", "save"),
    ),
    Command(
        "savepoints",
        "list the savepoints",
        (TABLE, flag("--bytes", "also show the data files that each alone keeps, and their bytes")),
        _list,
        ("savepoints trips", "savepoints trips --bytes"),
        words=("tags",),
    ),
    Command(
        "delete-savepoint",
        "let a kept version go; with --force also when nothing else keeps it",
        (
            VERSION,
            positional(
                "savepoint",
                "its name, or savepoint.3; left out behind T@REF",
                "savepoint",
                metavar="SAVEPOINT",
                optional=True,
            ),
            option("--id", text="its id", metavar="N", kind="number"),
            option("--name", text="its name, whatever else it could mean", metavar="NAME", kind="savepoint"),
            DRY_RUN,
            flag("--force", "do it also when nothing else keeps the version; without it a console asks then"),
        ),
        _delete,
        (
            "delete-savepoint trips before-fix --dry-run",
            "delete-savepoint trips@before-fix --force",
            "delete-savepoint trips --id 1",
        ),
    ),
)
