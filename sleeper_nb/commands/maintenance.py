"""`offline` and `online`: whether maintenance may work on a table."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.command import (
    DRY_RUN,
    FORCE,
    TABLE,
    Command,
    flag,
    option,
    positional,
)
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import InvalidInput
from sleeper_nb.progress import BackgroundJob
from sleeper_nb.report import Answer, Grid

if TYPE_CHECKING:
    from sleeper_nb.operations.split import SplitReport
    from sleeper_nb.operations.upkeep.collect_garbage import GarbageReport
    from sleeper_nb.operations.upkeep.expire import ExpiryReport
    from sleeper_nb.operations.upkeep.maintain import MaintenanceReport
    from sleeper_nb.operations.upkeep.sweep_orphans import OrphanReport
    from sleeper_nb.table import Table


# `compact`: merge the files of partitions.


def _compact(context: Context, arguments: Namespace) -> Any:
    if arguments.background and context.face == "console":
        raise InvalidInput("the console ends with its command, and work in the background with it",
                           hint=f"leave out --background: {context.prefix} compact {arguments.table} &")  # fmt: skip
    table = context.table(arguments.table)
    began = context.opened().components.clock.now()
    is_watched = arguments.watch and context.face == "notebook" and not arguments.dry_run
    found = table.compact(
        arguments.strategy,
        engine=arguments.engine,
        dry_run=arguments.dry_run,
        partition=arguments.partition,
        background=bool(arguments.background or is_watched),
    )
    if not is_watched or not isinstance(found, BackgroundJob):
        return found
    from sleeper_nb import widgets

    widget = widgets.watch(context.opened(), table.name, found, began)
    widget.follow()
    return widget


COMPACTING_COMMANDS = (
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
            flag("--background", "return at once, in a notebook; jobs shows how far it is"),
            flag(
                "--watch",
                "show a bar until the jobs have ended; an interrupt stops watching, then a button stops the jobs",
            ),
        ),
        _compact,
        ("compact trips --dry-run", "compact trips --strategy all --engine local", "compact trips --watch"),
        words=("optimize", "merge", "rewrite"),
    ),
)


# `split`: cut leaf partitions that have too many rows.


def _split(context: Context, arguments: Namespace) -> SplitReport:
    if arguments.auto and arguments.at is not None:
        raise InvalidInput("split takes --at or --auto, not both", hint="leave one of them out")
    return context.table(arguments.table).split_partitions(
        arguments.dry_run,
        at=arguments.at,
        key=arguments.key,
        partition=arguments.partition,
        threshold=arguments.threshold,
    )


SPLITTING_COMMANDS = (
    Command(
        "split",
        "cut leaf partitions with too many rows; references move, no file is rewritten",
        (
            TABLE,
            flag("--auto", "where the rows are halved, until no leaf has too many; so it is without --at"),
            option("--at", text="cut at this value instead, whatever the rows", metavar="K"),
            option("--key", text="the row key that K is a value of; the first when not given", metavar="NAME",
                   kind="columns"),
            option("--partition", text="only this leaf, by its id", metavar="P"),
            option("--threshold", text="so many rows are too many; without it, what the table's properties say",
                   metavar="ROWS", kind="number"),
            DRY_RUN,
        ),
        _split,
        ("split trips --dry-run", "split trips --at London", "split flights --key flight --at 1500"),
        words=("split-partitions", "repartition", "cluster"),
    ),
)  # fmt: skip


# `maintain`: do whatever is due now, on one table or on all that are online.


def _maintain(context: Context, arguments: Namespace) -> MaintenanceReport:
    of = context.opened() if arguments.table is None else context.table(arguments.table)
    return of.maintain(arguments.dry_run)


MAINTAINING_COMMANDS = (
    Command(
        "maintain",
        "do what is due now: split, compact, save, expire, collect garbage",
        (
            positional("table", "the table; all that are online without it", "table", metavar="T", optional=True),
            DRY_RUN,
        ),
        _maintain,
        ("maintain --dry-run", "maintain trips"),
        words=("maintenance", "housekeeping", "auto"),
    ),
)


# `expire`, `collect-garbage` and `sweep-orphans`: let go of what is needed no more; each shows its plan first.


def _expire(context: Context, arguments: Namespace) -> ExpiryReport:
    return context.table(arguments.table).expire_snapshots(_only_plan(arguments))


def _collect(context: Context, arguments: Namespace) -> GarbageReport:
    return context.table(arguments.table).collect_garbage(_only_plan(arguments))


def _sweep(context: Context, arguments: Namespace) -> OrphanReport:
    from sleeper_nb.model.times import parse_duration

    try:
        age = None if arguments.older_than is None else parse_duration(arguments.older_than)
    except ValueError as error:
        raise InvalidInput(f"{arguments.older_than!r} is no duration", hint="write 3d, 36h or PT90M") from error
    return context.table(arguments.table).sweep_orphans(_only_plan(arguments), older_than=age)


def _only_plan(arguments: Namespace) -> bool:
    return bool(arguments.dry_run or not arguments.force)


CLEANING_COMMANDS = (
    Command(
        "expire",
        "forget old snapshots; shows which, until --force",
        (TABLE, DRY_RUN, FORCE),
        _expire,
        ("expire trips", "expire trips --force"),
        words=("expire-snapshots",),
    ),
    Command(
        "collect-garbage",
        "delete files that no version needs; shows which, until --force",
        (TABLE, DRY_RUN, FORCE),
        _collect,
        ("collect-garbage trips", "collect-garbage trips --force"),
        aliases=("gc",),
        words=("vacuum", "clean", "cleanup"),
    ),
    Command(
        "sweep-orphans",
        "delete files that no version ever named; shows which, until --force",
        (
            TABLE,
            option(
                "--older-than",
                text="leave younger files, which may be of a commit under way; a day at least",
                metavar="AGE",
                default="3d",
            ),
            DRY_RUN,
            FORCE,
        ),
        _sweep,
        ("sweep-orphans trips", "sweep-orphans trips --older-than 7d --force"),
        words=("orphans", "remove-orphan-files"),
    ),
)


def _run(context: Context, arguments: Namespace, *, online: bool) -> Answer:
    return switch(context.table(arguments.table), online=online)


def switch(table: Table, *, online: bool) -> Answer:
    """Take a table online or offline, and return what is said of it."""
    table.set_online(online)
    said = "online" if online else "offline: it is read and ingested as ever, and no maintenance touches it"
    return Answer(Grid((), (), footer=f"{table.name} is {said}"))


SWITCHING_COMMANDS = (
    Command(
        "offline",
        "keep maintenance off a table; it is read and ingested as ever",
        (TABLE,),
        partial(_run, online=False),
        ("offline trips",),
        words=("pause", "disable"),
    ),
    Command(
        "online",
        "let maintenance work on a table again",
        (TABLE,),
        partial(_run, online=True),
        ("online trips",),
        words=("resume", "enable"),
    ),
)
