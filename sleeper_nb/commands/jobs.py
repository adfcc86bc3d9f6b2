"""`jobs`: what ran, what runs, how quickly, and why something failed."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import Command, flag, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import InvalidInput

if TYPE_CHECKING:
    from sleeper_nb.model.jobs import Job
    from sleeper_nb.operations.tracking.job_listing import Which
    from sleeper_nb.report import Listing


def _jobs(context: Context, arguments: Namespace) -> Listing[Job]:
    if arguments.running and arguments.failed:
        raise InvalidInput("no job both runs and has failed", hint="give --running or --failed")
    which: Which = "running" if arguments.running else "failed" if arguments.failed else "all"
    of = context.opened() if arguments.table is None else context.table(arguments.table)
    limit = {} if arguments.limit is None else {"limit": arguments.limit}
    return of.jobs(which, **limit)


COMMANDS = (
    Command(
        "jobs",
        "list compactions, bulk imports and named ingests: states, rates, and why one failed",
        (
            positional("table", "the table; all tables without it", "table", metavar="T", optional=True),
            flag("--running", "only those that have not ended"),
            flag("--failed", "only those that failed, or whose process is gone"),
            option("--limit", text="how many at most, the newest", kind="number", metavar="N"),
        ),
        _jobs,
        ("jobs", "jobs trips --failed", "jobs trips --running --limit 10"),
        words=("ps", "tasks", "progress"),
    ),
)
