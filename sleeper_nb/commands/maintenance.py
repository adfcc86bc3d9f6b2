"""`maintain` and its steps: compact, split, expire, collect garbage; and `offline`, which keeps them from a table."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.command import DRY_RUN, FORCE, TABLE, command, flag, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.outcome import Outcome
from sleeper_nb.errors import Action, InvalidInput
from sleeper_nb.report import Answer, Grid

if TYPE_CHECKING:
    from sleeper_nb.public_types import ExpiryReport, GarbageReport, MaintenanceReport, OrphanReport, SplitReport
    from sleeper_nb.table import Table


def _check_service(arguments: Namespace) -> None:
    if arguments.every is not None or arguments.once:
        from sleeper_nb.commands.console_service import time_between

        time_between(arguments)
    elif arguments.metrics is not None or arguments.log_format != "text":
        raise InvalidInput("--metrics and --log-format are for a service",
                           hint=("add --once: ", Action("maintain --once --metrics FILE")))  # fmt: skip


@command(
    "maintain",
    "run all maintenance that is due: split, compact, save, expire, collect garbage",
    positional("table", "the table; all online tables if not given", "table", metavar="T", optional=True),
    DRY_RUN,
    option("--every", text="on the console: maintain all tables at this interval, one process at a time",
           metavar="TIME", answer="begins round after round"),
    flag("--once", "on the console: all tables, as one round of --every", answer="is one round"),
    option("--metrics", text="with --every or --once: a file for Prometheus, written after each round", metavar="FILE",
           kind="path"),
    option("--log-format", text="with --every or --once: plain text, or one JSON object per line",
           choices=("text", "json"), default="text"),
    examples=("maintain --dry-run", "maintain trips"),
    on_console=("maintain --once", "maintain --every 10m --metrics sleeper.prom"),
    words=("maintenance", "housekeeping", "auto", "service", "daemon", "cron"),
    check=_check_service,
)  # fmt: skip
def maintain(context: Context, arguments: Namespace) -> MaintenanceReport | Outcome:
    if arguments.every is not None or arguments.once:
        from sleeper_nb.commands.console_service import SignalledStop, run_service

        return run_service(context, arguments, SignalledStop())
    target = context.opened() if arguments.table is None else context.table(arguments.table)
    return target.maintain(dry_run=arguments.dry_run)


@command(
    "compact",
    "merge files; no row changes, and older versions keep their files",
    TABLE,
    option("--strategy", text="how files are chosen; the table's property if not given",
           choices=("size-ratio", "basic", "all")),
    option("--engine", text="where it runs; auto decides by the size of the files",
           choices=("auto", "spark", "local"), default="auto"),
    option("--partition", text="only this leaf, by its id", metavar="P"),
    DRY_RUN,
    flag("--background", "return at once, in a notebook; jobs shows the progress"),
    flag("--watch", "show a progress bar until the jobs end; an interrupt stops watching, then a button stops the "
         "jobs"),
    examples=("compact trips --dry-run", "compact trips --strategy all --engine local", "compact trips --watch"),
    words=("optimize", "merge", "rewrite"),
)  # fmt: skip
def compact(context: Context, arguments: Namespace) -> Any:
    if arguments.background and context.face == "console":
        raise InvalidInput("background work would end with the console command",
                           hint=("leave out --background: ", Action(f"compact {arguments.table} &")))  # fmt: skip
    table = context.table(arguments.table)
    wanted = {"strategy": arguments.strategy, "engine": arguments.engine, "partition": arguments.partition}
    is_watched = arguments.watch and context.follows_widgets
    if arguments.dry_run or not (arguments.background or is_watched):
        return table.maintenance.compact(**wanted, dry_run=arguments.dry_run)
    job = table.maintenance.start_compaction(**wanted)
    if not is_watched:
        return job
    from sleeper_nb import widgets

    widget = widgets.watch(context.opened(), table.name, job)
    widget.follow()
    return widget


@command(
    "split",
    "split leaf partitions with too many rows; only metadata changes, no file is rewritten",
    TABLE,
    flag("--auto", "split where it halves the rows, until no leaf has too many; the default without --at",
         answer="splits where it halves the rows"),
    option("--at", text="split at this value instead, whatever the rows", metavar="K", answer="splits at a value"),
    option("--key", text="the row key that K is a value of; the first if not given", metavar="NAME", kind="columns"),
    option("--partition", text="only this leaf, by its id", metavar="P"),
    option("--threshold", text="the most rows a leaf may have; the table's property if not given", metavar="ROWS",
           kind="number"),
    DRY_RUN,
    examples=("split trips --dry-run", "split trips --at London", "split flights --key flight --at 1500"),
    words=("split-partitions", "repartition", "cluster"),
)  # fmt: skip
def split(context: Context, arguments: Namespace) -> SplitReport:
    return context.table(arguments.table).maintenance.split(
        dry_run=arguments.dry_run,
        at=arguments.at,
        key=arguments.key,
        partition=arguments.partition,
        threshold=arguments.threshold,
    )


_HOW_LONG = (
    "properties say which snapshots stay: ",
    Action("properties T 'snapshot.time-retained=30 d' snapshot.num-retained.min=5"),
)


@command(
    "expire",
    "expire old snapshots; shows which, until --force",
    TABLE,
    DRY_RUN,
    FORCE,
    examples=("expire trips", "expire trips --force"),
    words=("expire-snapshots",),
    instead=dict.fromkeys(("--keep", "--retain", "--older-than", "--days"), _HOW_LONG),
)
def expire(context: Context, arguments: Namespace) -> ExpiryReport:
    return context.table(arguments.table).maintenance.expire(dry_run=_is_dry_run(arguments))


@command(
    "collect-garbage",
    "delete files that no version needs; shows which, until --force",
    TABLE,
    DRY_RUN,
    FORCE,
    examples=("collect-garbage trips", "collect-garbage trips --force"),
    words=("gc", "vacuum", "clean", "cleanup"),
)
def collect_garbage(context: Context, arguments: Namespace) -> GarbageReport:
    return context.table(arguments.table).maintenance.collect_garbage(dry_run=_is_dry_run(arguments))


@command(
    "sweep-orphans",
    "delete files that no version ever referenced; shows which, until --force",
    TABLE,
    option("--older-than", text="keep younger files, which may belong to a commit in progress; a day at least",
           metavar="AGE", default="3d"),
    DRY_RUN,
    FORCE,
    examples=("sweep-orphans trips", "sweep-orphans trips --older-than 7d --force"),
    words=("orphans", "remove-orphan-files"),
)  # fmt: skip
def sweep_orphans(context: Context, arguments: Namespace) -> OrphanReport:
    from sleeper_nb.model.times import parse_duration

    try:
        age = None if arguments.older_than is None else parse_duration(arguments.older_than)
    except ValueError as error:
        raise InvalidInput(f"{arguments.older_than!r} is not a duration", hint="write 3d, 36h or PT90M") from error
    return context.table(arguments.table).maintenance.sweep_orphans(dry_run=_is_dry_run(arguments), older_than=age)


def _is_dry_run(arguments: Namespace) -> bool:
    return bool(arguments.dry_run or not arguments.force)


@command(
    "offline",
    "exclude a table from maintenance; reads and ingests still work",
    TABLE,
    examples=("offline trips",),
    words=("pause", "disable"),
)
def offline(context: Context, arguments: Namespace) -> Answer:
    return _set_online(context.table(arguments.table), online=False)


@command(
    "online",
    "include a table in maintenance again",
    TABLE,
    examples=("online trips",),
    words=("resume", "enable"),
)
def online(context: Context, arguments: Namespace) -> Answer:
    return _set_online(context.table(arguments.table), online=True)


def _set_online(table: Table, *, online: bool) -> Answer:
    (table.maintenance.online if online else table.maintenance.offline)()
    state = "online" if online else "offline: reads and ingests still work, and maintenance skips it"
    return Answer(Grid((), (), footer=f"table {table.name} is {state}"))
