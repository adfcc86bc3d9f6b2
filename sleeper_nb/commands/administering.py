"""`rename`, `delete` and `reinitialise`; the same under the names of Sleeper's scripts, on an instance they name."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import CONFIRMED, DRY_RUN, INSTANCE, TABLE, Command, flag, option, positional
from sleeper_nb.commands.confirming import confirmed
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import InvalidInput

if TYPE_CHECKING:
    from sleeper_nb.operations.administration.deletion import DeletionReport
    from sleeper_nb.operations.administration.reinitialising import ReinitialiseReport
    from sleeper_nb.session import Session
    from sleeper_nb.table import Table

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
    from sleeper_nb.model.split_points import typed_split_points  # heavy: it brings pyarrow

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
