"""`rename`, `delete` and `reinitialise`; the same under the names of Sleeper's scripts, on an instance they name."""

from __future__ import annotations

import shlex
from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from sleeper_nb.commands.base import DRY_RUN, INSTANCE, TABLE, Command, flag, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import ConfirmationNeeded, InvalidInput

if TYPE_CHECKING:
    from sleeper_nb.operations.administration.deletion import DeletionReport
    from sleeper_nb.operations.administration.reinitialising import ReinitialiseReport
    from sleeper_nb.session import Session
    from sleeper_nb.table import Table

Planned = TypeVar("Planned", "DeletionReport", "ReinitialiseReport")
_TRUTH = {"true": True, "false": False}


def _rename(context: Context, arguments: Namespace) -> Table:
    return context.opened().rename_table(arguments.old, arguments.new)


def _rename_table(context: Context, arguments: Namespace) -> Table:
    return context.instance(arguments.instance_id).rename_table(arguments.old, arguments.new)


def _delete(context: Context, arguments: Namespace) -> DeletionReport:
    return _confirmed(context, context.opened(), arguments)


def _delete_table(context: Context, arguments: Namespace) -> DeletionReport:
    return _confirmed(context, context.instance(arguments.instance_id), arguments)


def _confirmed(context: Context, session: Session, arguments: Namespace) -> DeletionReport:
    """Delete a table by force, or when who sits at the terminal says so; a notebook is shown the plan."""
    if arguments.force:
        return _told(context, session, arguments, session.delete_table(arguments.table, force=True))
    plan = _told(context, session, arguments, session.delete_table(arguments.table))
    if context.face == "notebook":
        return plan
    if context.ask is None:
        raise ConfirmationNeeded(
            f"this deletes table {plan.table!r} for good: {plan.summary}", hint="add --force to do it"
        )
    shown = replace(plan.grid(), footer="Type the table's name to delete it for good: ").text()
    said = context.ask(shown)
    if said != plan.table:
        raise ConfirmationNeeded(f"that is not {plan.table!r}; nothing was deleted", hint="add --force to do it")
    return session.delete_table(plan.table, force=True)


def _reinitialise(context: Context, arguments: Namespace) -> ReinitialiseReport:
    from sleeper_nb.model.split_points import typed_split_points  # heavy: it brings pyarrow

    points = typed_split_points(arguments.splits) if arguments.splits else None
    session = context.opened()
    report = session.reinitialise_table(
        arguments.table,
        arguments.delete_partitions,
        points,
        splits_file=arguments.splits_file,
        strings_base64=arguments.base64,
        force=arguments.force,
        dry_run=arguments.dry_run or not arguments.force,
    )
    return _told(context, session, arguments, report)


def _reinitialise_table(context: Context, arguments: Namespace) -> ReinitialiseReport:
    anew, base64 = (
        _truth(name, text)
        for name, text in (
            ("delete-partitions", arguments.delete_partitions),
            ("base64-encoded", arguments.base64_encoded),
        )
    )
    session = context.instance(arguments.instance_id)
    report = session.reinitialise_table(
        arguments.table,
        anew,
        splits_file=arguments.split_points_file,
        strings_base64=base64,
        force=arguments.force,
        dry_run=context.face == "notebook" and not arguments.force,
    )
    return _told(context, session, arguments, report)


def _told(context: Context, session: Session, arguments: Namespace, report: Planned) -> Planned:
    """Return a report that says what to type to have the plan done, and whose table it is when that is not open."""
    again = shlex.join([*(word for word in arguments.words if word not in DRY_RUN.names), "--force"])
    return replace(report, again=again, instance="" if session is context.session else session.instance)


def _truth(name: str, text: str | None) -> bool:
    if text is None:
        return False
    if text.lower() not in _TRUTH:
        raise InvalidInput(f"{name} is true or false, not {text!r}", hint="help reinitialise-table shows the order")
    return _TRUTH[text.lower()]


_OLD = positional("old", "the table", "table", metavar="OLD")
_NEW = positional("new", "its new name: letters, digits, - and _", metavar="NEW")

COMMANDS = (
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
        (TABLE, flag("--force", "do it; without it a notebook shows the plan, and a terminal asks")),
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
            flag("--force", "do it, also with savepoints, which stay"),
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
        (INSTANCE, TABLE, flag("--force", "do it; without it a notebook shows the plan, and a terminal asks")),
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
            flag("--force", "do it also when there are savepoints, which stay"),
        ),
        _reinitialise_table,
        ("reinitialise-table default trips", "reinitialise-table mine trips true points.txt false"),
    ),
)  # fmt: skip
