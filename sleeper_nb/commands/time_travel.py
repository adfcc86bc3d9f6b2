"""`diff`: what changed between two versions of a table."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sleeper_nb.commands.command import (
    DRY_RUN,
    TABLE,
    VERSION,
    Command,
    confirmed,
    flag,
    option,
    positional,
)
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.read import LIMIT
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.snapshots import SavepointReference

if TYPE_CHECKING:
    from sleeper_nb.model.savepoints import Savepoint
    from sleeper_nb.operations.versioning.delete_savepoint import SavepointDeletion
    from sleeper_nb.operations.versioning.diff import Diff
    from sleeper_nb.operations.versioning.roll_back import RollbackReport
    from sleeper_nb.report import Listing
    from sleeper_nb.table import Table
    from sleeper_nb.version import ChangedRows


# `create-savepoint`, `savepoints` and `delete-savepoint`: versions that are kept until they are let go.


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


SAVING_COMMANDS = (
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


# `rollback`: make a table what it was at an older version, as one more snapshot.


def _run(context: Context, arguments: Namespace) -> RollbackReport:
    table, asked = context.table_and_version(arguments.table, arguments.version)
    if asked is None:
        hint = f"rollback {table.name} 12, or a savepoint's name; history {table.name} lists them"
        raise InvalidInput("rollback needs a version", hint=hint)
    return table.rollback_to(asked, dry_run=arguments.dry_run, message=arguments.message)


ROLLING_BACK_COMMANDS = (
    Command(
        "rollback",
        "make a table what it was at a version, by one more snapshot",
        (
            VERSION,
            positional("version", "12, a savepoint's name, or a time; left out behind T@REF", "reference",
                       metavar="REF", optional=True),
            option("-m", "--message", text="why", metavar="MSG"),
            DRY_RUN,
        ),
        _run,
        ("rollback trips 12 --dry-run", "rollback trips before-fix -m 'fares were wrong'", "rollback trips@before-fix"),
        words=("restore", "revert", "undo", "reset"),
    ),
)  # fmt: skip


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


DIFFING_COMMANDS = (
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
