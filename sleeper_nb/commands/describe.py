"""`leases`: which versions long readers hold, so that garbage collection leaves their files."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.command import (
    SCHEMA,
    TABLE,
    VERSION,
    Command,
    flag,
    option,
    positional,
)
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import InvalidInput
from sleeper_nb.report import Answer, Grid

if TYPE_CHECKING:
    from sleeper_nb.display.listings import Pictured
    from sleeper_nb.model.jobs import Lease
    from sleeper_nb.model.schema import Field
    from sleeper_nb.model.snapshots import Snapshot
    from sleeper_nb.operations.findings import CheckReport
    from sleeper_nb.operations.job_tracking import Which
    from sleeper_nb.operations.status import TableStatus
    from sleeper_nb.report import Listing, Stacked
    from sleeper_nb.version import TableAt


# `describe`, `show`, `history`, `files` and `partitions`: what a table is and was, from its metadata.


def _describe(context: Context, arguments: Namespace) -> TableAt | Listing[Field]:
    at = context.table_at(arguments.table)
    return at.fields() if arguments.fields else at


def _show(context: Context, arguments: Namespace) -> Stacked:
    return context.table_at(arguments.table, arguments.schema).card()


def _history(context: Context, arguments: Namespace) -> Pictured[Snapshot]:
    return context.table(arguments.table).snapshots(arguments.limit)


def _files(context: Context, arguments: Namespace) -> Pictured[dict[str, Any]]:
    return context.table_at(arguments.table).files()


def _partitions(context: Context, arguments: Namespace) -> Pictured[dict[str, Any]]:
    return context.table_at(arguments.table).leaves()


DESCRIBING_COMMANDS = (
    Command(
        "describe",
        "show the columns and the size of a table",
        (VERSION, flag("--fields", "list the fields instead: their roles and types, and which may be null")),
        _describe,
        ("describe trips", "describe trips@12", "describe trips --fields"),
        words=("desc", "schema", "info"),
    ),
    Command(
        "show",
        "show one version: its commit or savepoint, what the table was then, and its first rows",
        (VERSION, SCHEMA),
        _show,
        ("show trips@12", "show trips@before-fix"),
        words=("card",),
    ),
    Command(
        "history",
        "show the retained snapshots, newest first: a picture of rows, commits and savepoints, and a list",
        (TABLE, option("--limit", text="list so many at most, the newest", kind="number", metavar="N")),
        _history,
        ("history trips", "history trips --limit 10"),
        words=("log", "snapshots", "versions"),
    ),
    Command(
        "files",
        "show the files of a version: a picture of their keys and of what a compaction would merge, and a list",
        (VERSION,),
        _files,
        ("files trips", "files trips@before-fix"),
    ),
    Command(
        "partitions",
        "show the leaf partitions of a version: a picture, and their ranges of keys",
        (VERSION,),
        _partitions,
        ("partitions trips", "partitions trips@2026-11-01T10:00"),
        words=("splits", "leaves"),
    ),
)


# `status` and `check`: how a table is, and whether anything is wrong with it; neither changes anything.


def _status(context: Context, arguments: Namespace) -> TableStatus:
    return replace(context.table(arguments.table).status(), prefix=context.prefix)


def _check(context: Context, arguments: Namespace) -> CheckReport:
    return context.table(arguments.table).check(deep=arguments.deep)


CHECKING_COMMANDS = (
    Command(
        "status",
        "show where a table's metadata is, how much there is, what waits, and what to do next",
        (TABLE,),
        _status,
        ("status trips",),
        words=("stat", "stats", "health"),
    ),
    Command(
        "check",
        "look for anything that is wrong with a table; changes nothing",
        (TABLE, flag("--deep", "also read every data file: its rows, their order and their keys")),
        _check,
        ("check trips", "check trips --deep"),
        words=("fsck", "verify", "validate"),
    ),
)


# `jobs`: what ran, what runs, how quickly, and why something failed.

_PAUSE = 1.0  # seconds between two looks


def _jobs(context: Context, arguments: Namespace) -> Any:
    if arguments.running and arguments.failed:
        raise InvalidInput("no job both runs and has failed", hint="give --running or --failed")
    which: Which = "running" if arguments.running else "failed" if arguments.failed else "all"
    of = context.opened() if arguments.table is None else context.table(arguments.table)
    if arguments.watch and (arguments.running or arguments.failed or arguments.limit is not None):
        raise InvalidInput("--watch follows whatever runs", hint="leave out --running, --failed and --limit")
    if arguments.watch:
        return _watched(context, None if arguments.table is None else context.table(arguments.table).name)
    if arguments.limit is not None and arguments.limit < 1:
        message = f"jobs --limit {arguments.limit} would list nothing"
        raise InvalidInput(message, hint="write --limit 1 or more; without it, the newest are listed")
    limit = {} if arguments.limit is None else {"limit": arguments.limit}
    return of.jobs(which, **limit)


def _watched(context: Context, table: str | None) -> Any:
    if context.face == "notebook":
        from sleeper_nb import widgets

        return widgets.watch(context.opened(), table)
    from sleeper_nb.widgets.watch_model import JobsModel

    model, clock = JobsModel(context.opened(), table), context.opened().components.clock
    while (seen := model.look()).running:
        context.progress.update(seen.summary)
        clock.sleep(_PAUSE)
    context.progress.finish()
    return seen


JOBS_COMMANDS = (
    Command(
        "jobs",
        "list compactions, bulk imports and named ingests: states, rates, and why one failed",
        (
            positional("table", "the table; all tables without it", "table", metavar="T", optional=True),
            flag("--running", "only those that have not ended"),
            flag("--failed", "only those that failed, or whose process is gone"),
            flag("--watch", "show what runs until nothing does: beside the next cells, or on the console as a line"),
            option("--limit", text="how many at most, the newest", kind="number", metavar="N"),
        ),
        _jobs,
        ("jobs", "jobs trips --failed", "jobs trips --running --limit 10", "jobs trips --watch"),
        words=("ps", "tasks", "progress"),
    ),
)


def _run(context: Context, arguments: Namespace) -> Listing[Lease] | Answer:
    table = context.table(arguments.table)
    if arguments.release is None:
        return table.leases()
    ended = table.release_lease(arguments.release)
    return Answer(Grid((), (), footer=f"lease {ended.id} on snapshot {ended.snapshot_id} of {table.name} is released"))


LEASING_COMMANDS = (
    Command(
        "leases",
        "list the versions that long readers hold, or let one go",
        (TABLE, option("--release", text="end this lease; its reader may find a file gone", metavar="ID")),
        _run,
        ("leases trips",),
        words=("readers", "locks"),
    ),
)
