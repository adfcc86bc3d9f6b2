"""`status`, `check`, `files`, `partitions`, `inspect`, `jobs` and `leases`: the state of a table and of its work."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.command import TABLE, VERSION, command, flag, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.outcome import DONE, ERRORS, WARNINGS, Outcome
from sleeper_nb.errors import InvalidInput, StorageError
from sleeper_nb.report import Answer, Grid

if TYPE_CHECKING:
    from sleeper_nb.display.listings import Pictured
    from sleeper_nb.model.jobs import Lease
    from sleeper_nb.public_types import CheckReport, InstanceStatus, TableStatus, Which
    from sleeper_nb.report import Listing

_POLL_SECONDS = 1.0


@command(
    "status",
    "show a table's size, pending work, and what to do next; also where its metadata is",
    positional("table", "the table; all tables and what is wrong with them if not given", "table", metavar="T",
               optional=True),
    flag("--json", "print the status and the alerts as JSON"),
    option("--fail-on", text="on the console: exit with 3 on warnings, 4 on errors", choices=("warn", "error")),
    examples=("status trips", "status", "status --json --fail-on warn"),
    words=("stat", "stats", "health", "alerts", "monitor"),
    reads_only=True,
)  # fmt: skip
def status(context: Context, arguments: Namespace) -> TableStatus | InstanceStatus | Outcome:
    if not arguments.json and arguments.fail_on is None:
        return context.opened().status() if arguments.table is None else context.table(arguments.table).inspect.status()
    names = () if arguments.table is None else (context.table(arguments.table).name,)
    found = context.opened().status(*names)
    text = json.dumps(found.to_dict(), indent=2) if arguments.json else repr(found)
    return Outcome(text, DONE if arguments.fail_on is None else _exit_code(found, arguments.fail_on))


def _exit_code(found: InstanceStatus, fail_on: str) -> int:
    if found.of_level("error"):
        return ERRORS
    return WARNINGS if fail_on == "warn" and found.alerts else DONE


@command(
    "check",
    "look for damage in a table; changes nothing",
    TABLE,
    flag("--deep", "also read every data file: its rows, their order and their keys"),
    examples=("check trips", "check trips --deep"),
    words=("fsck", "verify", "validate"),
    reads_only=True,
)
def check(context: Context, arguments: Namespace) -> CheckReport:
    return context.table(arguments.table).maintenance.check(deep=arguments.deep)


@command(
    "files",
    "show the files of a version: a picture of their keys and of what a compaction would merge, and a list",
    VERSION,
    examples=("files trips", "files trips@before-fix"),
    reads_only=True,
)
def files(context: Context, arguments: Namespace) -> Pictured[dict[str, Any]]:
    return context.table_at(arguments.table).inspect.files()


@command(
    "partitions",
    "show the leaf partitions of a version: a picture, and their key ranges",
    VERSION,
    option("--to", text="write the split points into a file, as --splits-file reads it", metavar="FILE", kind="path"),
    flag("--base64", "with --to: strings in base64, since some do not fit on a line; byte arrays always are",
         only_with="--to"),
    examples=("partitions trips", "partitions trips@2026-11-01T10:00", "partitions trips --to points.txt"),
    words=("splits", "leaves", "export-split-points"),
    reads_only=True,
)  # fmt: skip
def partitions(context: Context, arguments: Namespace) -> Pictured[dict[str, Any]] | Answer:
    at = context.table_at(arguments.table)
    if arguments.to is None:
        return at.inspect.partitions()
    from sleeper_nb.model.keys import write_split_points  # heavy: it brings pyarrow

    path, points = Path(arguments.to).expanduser(), at.state.tree.split_points()
    text = write_split_points(points, at.schema.row_keys[0], strings_base64=arguments.base64)
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", hint="give another file") from error
    return Answer(Grid((), (), footer=f"wrote {len(points):,} split points of {at.name} to {path}"))


@command(
    "inspect",
    "query files, partitions, snapshots and savepoints; on DuckDB, and :name is the value of a variable",
    VERSION,
    positional("statement", "one query, as it is", "sql", metavar="SQL"),
    examples=(
        "inspect trips select partition_id, count(*) from files group by all",
        "inspect trips select count(*), sum(rows) from files@2",
        "inspect trips\nselect f.filename from files f anti join files@2 using (filename)",
    ),
    words=("metadata",),
    body=True,
    reads_only=True,
)
def inspect(context: Context, arguments: Namespace) -> Answer:
    return context.table_at(arguments.table).inspect.query(arguments.statement, context.own_variables())


@command(
    "jobs",
    "list compactions, bulk imports and named ingests: their states, rates and errors",
    positional("table", "the table; all tables if not given", "table", metavar="T", optional=True),
    flag("--running", "only those that have not ended", answer="lists what runs"),
    flag("--failed", "only those that failed, or whose process is gone", answer="lists what failed"),
    flag("--watch", "follow running jobs until they end: in a notebook as a widget that leaves the next cells free, "
         "on the console as a line", answer="follows all that runs"),
    option("--limit", text="only the newest N", kind="number", metavar="N"),
    examples=("jobs", "jobs trips --failed", "jobs trips --running --limit 10", "jobs trips --watch"),
    words=("ps", "tasks", "progress"),
    reads_only=True,
)  # fmt: skip
def jobs(context: Context, arguments: Namespace) -> Any:
    which: Which = "running" if arguments.running else "failed" if arguments.failed else "all"
    source = context.opened().inspect if arguments.table is None else context.table(arguments.table).inspect
    if arguments.watch and arguments.limit is not None:
        raise InvalidInput("--watch follows all that runs", hint="leave out --limit")
    if arguments.watch:
        return _watch_jobs(context, None if arguments.table is None else context.table(arguments.table).name)
    if arguments.limit is not None and arguments.limit < 1:
        message = f"jobs --limit {arguments.limit} would list nothing"
        raise InvalidInput(message, hint="write --limit 1 or more; without it, the newest are listed")
    limit = {} if arguments.limit is None else {"limit": arguments.limit}
    return source.jobs(which, **limit)


def _watch_jobs(context: Context, table: str | None) -> Any:
    """Return a notebook's widget, or in a terminal wait until no job runs and return the last look."""
    if context.follows_widgets:
        from sleeper_nb import widgets

        return widgets.watch(context.opened(), table)
    jobs = context.opened().inspect.job_progress(table)
    while (seen := jobs.look()).running:
        context.progress.update(seen.summary)
        jobs.wait(_POLL_SECONDS)
    context.progress.finish()
    return seen


@command(
    "leases",
    "list the versions that long reads keep, or release one; garbage collection leaves their files",
    TABLE,
    option("--release", text="end this lease; its reader may then fail", metavar="ID"),
    examples=("leases trips",),
    words=("readers", "locks"),
)
def leases(context: Context, arguments: Namespace) -> Listing[Lease] | Answer:
    table = context.table(arguments.table)
    if arguments.release is None:
        return table.inspect.leases()
    ended = table.maintenance.release_lease(arguments.release)
    return Answer(Grid((), (), footer=f"released lease {ended.id} on snapshot {ended.snapshot_id} of {table.name}"))
