"""`history`, `diff`, `rollback`, `timeline`, savepoints and `publish`: the versions of a table."""

from __future__ import annotations

import re
from argparse import Namespace
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.command import (
    DRY_RUN,
    LIMIT,
    REGION,
    TABLE,
    VERSION,
    WHERE,
    command,
    flag,
    option,
    positional,
)
from sleeper_nb.commands.confirm import confirmed
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import Action, InvalidInput
from sleeper_nb.model.snapshots import SavepointReference
from sleeper_nb.report import Answer, Grid

if TYPE_CHECKING:
    from sleeper_nb.changes import ChangedRows
    from sleeper_nb.display.listings import Pictured
    from sleeper_nb.model.savepoints import Savepoint
    from sleeper_nb.model.snapshots import Snapshot
    from sleeper_nb.public_types import Diff, PublishReport, RollbackReport, SavepointDeletion, UnpublishReport
    from sleeper_nb.report import Listing


@command(
    "history",
    "show the retained snapshots, newest first: a picture of rows, commits and savepoints, and a list",
    TABLE,
    option("--limit", text="list only the newest N", kind="number", metavar="N"),
    examples=("history trips", "history trips --limit 10"),
    words=("log", "snapshots", "versions"),
    reads_only=True,
)
def history(context: Context, arguments: Namespace) -> Pictured[Snapshot]:
    return context.table(arguments.table).history(arguments.limit)


_RANGE = re.compile(r"(v?\d+)(?:\.{2,3}|:)(v?\d+)")


@command(
    "diff",
    "show what changed between two versions: rows, columns, files, partitions; with --rows the rows themselves",
    VERSION,
    positional("a", "one version: 12, a savepoint's name, a time; leave it out after T@REF", "reference",
               metavar="A", optional=True),
    positional("b", "the other version; the current one if not given", "reference", metavar="B", optional=True),
    flag("--rows", "show rows, each with a column that says whether it was added or removed"),
    flag("--images", "by key, tell updated rows from inserted and deleted ones; with --rows, before and after"),
    REGION,
    WHERE,
    replace(LIMIT, only_with="--rows"),
    examples=("diff trips 12", "diff trips before-fix 15 --rows --limit 20", "diff trips@before-fix trips@15",
              'diff trips 12 --rows --where "fare < 0"', "diff trips 12 --rows --images"),
    words=("changes", "compare"),
    reads_only=True,
)  # fmt: skip
def diff(context: Context, arguments: Namespace) -> Diff | ChangedRows:
    name, at, reference = arguments.table.partition("@")
    words = (reference if at else None, arguments.a, arguments.b)
    versions = [word.removeprefix(f"{name}@") for word in words if word is not None]
    if not 1 <= len(versions) <= 2:
        raise InvalidInput(
            f"diff compares two versions, not {len(versions)}",
            hint=(Action(f"diff {name} 12 15"), "; without the second, the current one"),
        )
    if len(versions) == 1 and (both := _RANGE.fullmatch(versions[0])):
        raise InvalidInput(f"no version {versions[0]!r}", hint=("write ", Action(f"diff {name} {both[1]} {both[2]}")))
    table = context.table(name)
    if not arguments.rows:
        return table.diff(*versions, where=arguments.where, region=arguments.region, images=arguments.images)
    changes = table.changes(*versions, where=arguments.where, region=arguments.region, images=arguments.images)
    return context.shown(replace(changes.rows(arguments.limit), display=context.display))


@command(
    "create-savepoint",
    "pin a version until its savepoint is deleted",
    VERSION,
    option("--name", text="a name for it; not one that means a version, such as v1", metavar="NAME"),
    option("--snapshot", text="which version; the current one if not given", metavar="N", kind="snapshot"),
    option("-m", "--message", text="why it is kept", metavar="MSG"),
    flag("--if-not-exists", "leave a savepoint that has the name as it is"),
    examples=(
        "create-savepoint trips",
        "create-savepoint trips@12",
        'create-savepoint trips --name fix --snapshot 12 -m "fares were wrong"',
    ),
    words=("savepoint", "tag", "save"),
    instead={"": ("write ", Action("create-savepoint T --name NAME"))},
)
def create_savepoint(context: Context, arguments: Namespace) -> Savepoint | Answer:
    table, reference = context.table_and_version(arguments.table, arguments.snapshot)
    names = table.savepoints() if arguments.if_not_exists else ()
    present = next((each for each in names if each.name is not None and each.name == arguments.name), None)
    if present is not None:
        of = f"of snapshot {present.saved_snapshot_id}"
        footer = f"savepoint {present.name!r} exists already, {of}; nothing was made"
        return Answer(Grid((), (), footer=footer))
    snapshot = None if reference is None else table.at(reference).resolved.snapshot_id
    return table.create_savepoint(arguments.name, arguments.message, snapshot, if_not_exists=arguments.if_not_exists)


@command(
    "savepoints",
    "list the savepoints",
    TABLE,
    flag("--bytes", "also show the data files that only this savepoint keeps, and their size"),
    examples=("savepoints trips", "savepoints trips --bytes"),
    words=("tags",),
    reads_only=True,
)
def savepoints(context: Context, arguments: Namespace) -> Listing[Savepoint]:
    return context.table(arguments.table).savepoints(arguments.bytes)


@command(
    "delete-savepoint",
    "delete a savepoint; needs --force when nothing else keeps its version",
    VERSION,
    positional("savepoint", "its name, or savepoint.3; leave it out after T@REF", "savepoint", metavar="SAVEPOINT",
               optional=True),
    option("--id", text="its id", metavar="N", kind="number"),
    option("--name", text="its name, never read as an id", metavar="NAME", kind="savepoint"),
    DRY_RUN,
    flag("--force", "delete it even when nothing else keeps the version; without it, a console asks"),
    examples=(
        "delete-savepoint trips before-fix --dry-run",
        "delete-savepoint trips@before-fix --force",
        "delete-savepoint trips --id 1",
    ),
)  # fmt: skip
def delete_savepoint(context: Context, arguments: Namespace) -> SavepointDeletion:
    table, reference = context.table_and_version(arguments.table, arguments.savepoint)
    if sum(given is not None for given in (reference, arguments.id, arguments.name)) != 1:
        raise InvalidInput(
            "name one savepoint", hint=(Action(f"delete-savepoint {table.name} NAME"), ", or savepoint.1")
        )
    if arguments.name is not None:
        which = SavepointReference(arguments.name)
    elif arguments.id is not None:
        which = SavepointReference(arguments.id)
    elif isinstance(reference, SavepointReference):
        which = reference
    else:
        deleting, listing = Action(f"delete-savepoint {table.name} NAME"), Action(f"savepoints {table.name}")
        hint = (deleting, ", or savepoint.1; ", listing, " lists them")
        raise InvalidInput(f"{reference} is not a savepoint", hint=hint)
    return confirmed(context, arguments, partial(table.delete_savepoint, which))


@command(
    "rollback",
    "restore the contents of an older version; it is a new snapshot, and history is preserved",
    VERSION,
    positional("version", "12, a savepoint's name, or a time; leave it out after T@REF", "reference", metavar="REF",
               optional=True),
    option("-m", "--message", text="why", metavar="MSG"),
    DRY_RUN,
    examples=("rollback trips 12 --dry-run", "rollback trips before-fix -m 'fares were wrong'",
              "rollback trips@before-fix"),
    words=("restore", "revert", "undo", "reset"),
)  # fmt: skip
def rollback(context: Context, arguments: Namespace) -> RollbackReport:
    table, reference = context.table_and_version(arguments.table, arguments.version)
    if reference is None:
        rollback_to, listing = Action(f"rollback {table.name} 12"), Action(f"history {table.name}")
        hint = (rollback_to, ", or a savepoint's name; ", listing, " lists them")
        raise InvalidInput("rollback needs a version", hint=hint)
    return table.rollback(reference, dry_run=arguments.dry_run, message=arguments.message)


@command(
    "publish",
    "let other engines read a version: Iceberg metadata beside the files, no row is copied",
    VERSION,
    flag("--force", "hide versions that another engine has written there meanwhile"),
    examples=("publish trips", "publish trips@before-fix"),
    words=("iceberg", "share", "external"),
)
def publish(context: Context, arguments: Namespace) -> PublishReport:
    table, reference = context.table_and_version(arguments.table, None)
    return table.publish(reference, force=arguments.force)


@command(
    "unpublish",
    "take the published versions away from other engines; rows and versions stay",
    TABLE,
    flag("--force", "delete also versions that another engine has written there meanwhile"),
    examples=("unpublish trips",),
)
def unpublish(context: Context, arguments: Namespace) -> UnpublishReport:
    return context.table(arguments.table).unpublish(force=arguments.force)


@command(
    "timeline",
    "see what changed between two versions, row by row; roll back or create a savepoint after seeing the plan",
    TABLE,
    examples=("timeline trips",),
    words=("slider", "travel"),
    reads_only=True,
    warehouse="none",  # the console cannot show widgets, so it need not open one
)
def timeline(context: Context, arguments: Namespace) -> Any:
    context.check_shows_widgets("timeline", Action(f"history {arguments.table}"))
    return context.table(arguments.table).timeline()
