"""`migrate`: move the metadata of a table to another state store."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from sleeper_nb.commands.command import (
    CONFIRMED,
    DRY_RUN,
    INSTANCE,
    TABLE,
    Command,
    confirmed,
    flag,
    option,
    positional,
)
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.properties import STATE_STORES

if TYPE_CHECKING:
    from sleeper_nb.model.schema import Field
    from sleeper_nb.model.snapshots import Snapshot
    from sleeper_nb.operations.administration.alter import AlterReport
    from sleeper_nb.operations.administration.delete import DeletionReport
    from sleeper_nb.operations.administration.property_listing import (
        PropertyGuide,
        PropertyValue,
    )
    from sleeper_nb.operations.administration.reinitialise import ReinitialiseReport
    from sleeper_nb.report import Listing
    from sleeper_nb.session import Session
    from sleeper_nb.table import Table


# `alter`: add, rename and drop value columns of a table.


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


ALTERING_COMMANDS = (
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


# `rename`, `delete` and `reinitialise`; the same under the names of Sleeper's scripts, on an instance they name.

_TRUTH = {"true": True, "false": False}


def _rename(context: Context, arguments: Namespace) -> Table:
    return context.opened().rename_table(arguments.old, arguments.new)


def _rename_table(context: Context, arguments: Namespace) -> Table:
    return context.instance(arguments.instance_id).rename_table(arguments.old, arguments.new)


def _delete(context: Context, arguments: Namespace) -> DeletionReport:
    return _deleted(context, context.opened(), arguments)


def _delete_table(context: Context, arguments: Namespace) -> DeletionReport:
    return _deleted(context, context.instance(arguments.instance_id), arguments)


def _deleted(context: Context, session: Session, arguments: Namespace) -> DeletionReport:
    return confirmed(
        context, session, arguments, partial(session.delete_table, arguments.table), lambda plan: plan.table
    )


def _reinitialise(context: Context, arguments: Namespace) -> ReinitialiseReport:
    from sleeper_nb.model.keys import typed_split_points  # heavy: it brings pyarrow

    session = context.opened()
    empty = partial(
        session.reinitialise_table,
        arguments.table,
        arguments.delete_partitions,
        typed_split_points(arguments.splits) if arguments.splits else None,
        splits_file=arguments.splits_file,
        strings_base64=arguments.base64,
    )
    return confirmed(context, session, arguments, empty, lambda plan: plan.table)


def _reinitialise_table(context: Context, arguments: Namespace) -> ReinitialiseReport:
    anew, base64 = (
        _truth(name, text)
        for name, text in (
            ("delete-partitions", arguments.delete_partitions),
            ("base64-encoded", arguments.base64_encoded),
        )
    )
    session = context.instance(arguments.instance_id)
    empty = partial(
        session.reinitialise_table,
        arguments.table,
        anew,
        splits_file=arguments.split_points_file,
        strings_base64=base64,
    )
    if context.face == "console" and not (arguments.force or arguments.dry_run):
        # Sleeper's script has no question: its line is the confirmation, unless the table has savepoints.
        arguments = Namespace(**{**vars(arguments), "force": not empty(dry_run=True).savepoints})
    return confirmed(context, session, arguments, empty, lambda plan: plan.table)


def _truth(name: str, text: str | None) -> bool:
    if text is None:
        return False
    if text.lower() not in _TRUTH:
        raise InvalidInput(f"{name} is true or false, not {text!r}", hint="help reinitialise-table shows the order")
    return _TRUTH[text.lower()]


_OLD = positional("old", "the table", "table", metavar="OLD")
_NEW = positional("new", "its new name: letters, digits, - and _", metavar="NEW")

ADMINISTERING_COMMANDS = (
    Command(
        "rename",
        "give a table another name; data and history stay where they are",
        (_OLD, _NEW),
        _rename,
        ("rename trips journeys",),
        words=("mv",),
    ),
    Command(
        "delete",
        "delete a table for good; shows what goes, until --force",
        (TABLE, DRY_RUN, CONFIRMED),
        _delete,
        ("delete trips", "delete trips --force"),
        aliases=("drop",),
        words=("rm", "remove", "destroy"),
    ),
    Command(
        "reinitialise",
        "delete all contents of a table; shows what goes, until --force",
        (
            TABLE,
            flag("--delete-partitions", "make the partitions anew; without it they stay"),
            option("--splits", text="first row keys at which the new ones are cut", metavar="g,n,t"),
            option("--splits-file", text="a file of them, one a line, ascending", metavar="FILE", kind="path"),
            flag("--base64", "strings of that file are in base64; byte arrays always are"),
            DRY_RUN,
            CONFIRMED,
        ),
        _reinitialise,
        ("reinitialise trips", "reinitialise trips --delete-partitions --force"),
        words=("truncate", "empty", "reinitialize"),
    ),
    Command(
        "rename-table",
        "rename a table of an instance: as Sleeper's script",
        (INSTANCE, _OLD, _NEW),
        _rename_table,
        ("rename-table default trips journeys",),
    ),
    Command(
        "delete-table",
        "delete a table of an instance for good: as Sleeper's script",
        (INSTANCE, TABLE, DRY_RUN, CONFIRMED),
        _delete_table,
        ("delete-table default trips", "delete-table default trips --force"),
        words=("drop-table",),
    ),
    Command(
        "reinitialise-table",
        "empty a table of an instance: as Sleeper's script",
        (
            INSTANCE,
            TABLE,
            positional("delete_partitions", "true makes the partitions anew", metavar="DELETE-PARTITIONS",
                       optional=True),
            positional("split_points_file", "where the new ones are cut, one value a line", "path",
                       metavar="SPLIT-POINTS-FILE", optional=True),
            positional("base64_encoded", "true when strings of that file are in base64", metavar="BASE64-ENCODED",
                       optional=True),
            DRY_RUN,
            flag("--force", "do it also when there are savepoints, which stay; a notebook shows the plan without it"),
        ),
        _reinitialise_table,
        ("reinitialise-table default trips", "reinitialise-table mine trips true points.txt false"),
    ),
)  # fmt: skip


# `properties`: what a table or an instance is told, what would be by default, and how to tell it otherwise.


def _run(context: Context, arguments: Namespace) -> Listing[PropertyValue] | PropertyGuide:
    table, words = _placed(arguments)
    if arguments.describe:
        return _described(words, arguments.unset)
    if arguments.accept:
        return _accepted(context, table, words, arguments.unset)
    of = context.opened() if table is None else context.table(table)
    changes = _changes(words, arguments.unset)
    names = [*(text.partition("=")[0].strip() for text in words), *arguments.unset]
    if not changes:
        return of.property_values(names)
    told = of.set_properties(changes)
    return told if set(names) == set(changes) else of.property_values(names)


def _accepted(context: Context, table: str | None, words: list[str], unset: list[str]) -> Listing[PropertyValue]:
    if table is None or words or unset:
        raise InvalidInput("--accept takes over the file of one table as it is", hint="properties T --accept")
    return context.table(table).accept_properties()


def _placed(arguments: Namespace) -> tuple[str | None, list[str]]:
    """Return the table, if one is named, and the words of properties: every one has a dot, and no table has."""
    first, words = arguments.table, arguments.property
    if first is not None and ("=" in first or "." in first.partition("@")[0]):
        return None, [first, *words]
    return first, words


def _changes(words: list[str], unset: list[str]) -> dict[str, str | None]:
    changes: dict[str, str | None] = dict.fromkeys(unset)
    last = ""
    for text in words:
        name, equals, value = text.partition("=")
        if last and not equals and name.isalpha():  # no property is a word alone: a value was cut at its space
            whole = f"{last}={changes[last]} {name}"
            raise InvalidInput(f"{name!r} is not a valid property name", hint=f"write {whole!r}, with the quotes")
        if name in changes:
            raise InvalidInput(f"property {name} is named twice", hint="set it or unset it, once")
        if equals:
            last = name.strip()
            changes[last] = value.strip()
    return changes


def _described(words: list[str], unset: list[str]) -> PropertyGuide:
    from sleeper_nb.operations.administration.property_listing import describe_properties

    if unset or any("=" in text for text in words):
        raise InvalidInput("--describe changes nothing", hint="leave it out, or the values")
    return describe_properties(words)


CONFIGURING_COMMANDS = (
    Command(
        "properties",
        "show what a table is told, or tell it otherwise",
        (
            positional("table", "the table; without it, the instance", "configured", metavar="T", optional=True),
            positional("property", "only this property; KEY=VALUE sets it", "property", metavar="KEY[=VALUE]",
                       many=True, optional=True),
            option("--unset", text="let the instance's value or the default count again", metavar="KEY",
                   kind="property", many=True),
            flag("--accept", "take over the table's file as it is, after it was edited by hand"),
            flag("--describe", "show what each property is: its type, default and effect"),
        ),
        _run,
        (
            "properties trips",
            "properties trips 'snapshot.time-retained=30 d'",
            "properties trips --unset snapshot.time-retained",
            "properties trips --accept",
            "properties sleeper.default.table.gc.delay.minutes=60",
            "properties --describe",
            "properties --describe sleeper.storage.sync",
        ),
        words=("settings", "config", "set", "options"),
        free="describe",
    ),
)  # fmt: skip


def _migrate(context: Context, arguments: Namespace) -> Snapshot:
    table = context.table(arguments.table)
    if arguments.to is None:
        raise InvalidInput(
            f"migrate needs a state store; {table.name} has {table.state_store}",
            hint=f"migrate {table.name} --to {next(name for name in STATE_STORES if name != table.state_store)}",
        )
    return context.opened().migrate_state_store(table.name, arguments.to, message=arguments.message)


MIGRATING_COMMANDS = (
    Command(
        "migrate",
        "move a table's metadata to another state store; history and savepoints stay",
        (
            TABLE,
            option("--to", text="the state store it moves to", metavar="state-store", choices=STATE_STORES),
            option("-m", "--message", text="what history shows of it", metavar="MSG"),
        ),
        _migrate,
        ("migrate trips --to TransactionLogStateStore",),
        words=("move", "convert"),
    ),
)
