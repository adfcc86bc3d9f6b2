"""`jobs`: what ran, what runs, how quickly, and why something failed."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.base import Command, flag, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import InvalidInput

if TYPE_CHECKING:
    from sleeper_nb.operations.tracking.job_listing import Which

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
    from sleeper_nb.widgets.jobs_model import JobsModel

    model, clock = JobsModel(context.opened(), table), context.opened().components.clock
    while (seen := model.look()).running:
        context.progress.update(seen.said)
        clock.sleep(_PAUSE)
    context.progress.finish()
    return seen


COMMANDS = (
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
