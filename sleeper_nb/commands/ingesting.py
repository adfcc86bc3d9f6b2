"""`ingest`: add rows of files or of a variable, in one commit."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.base import TABLE, Command, flag, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.report import Answer, Grid

if TYPE_CHECKING:
    from sleeper_nb.model.schema import Schema
    from sleeper_nb.model.snapshots import Snapshot


def _ingest(context: Context, arguments: Namespace) -> Snapshot | Answer:
    from sleeper_nb.model.jobs import MadeBefore

    table = context.table(arguments.table)
    before = table.resolved.snapshot_id
    given = [context.value(word) for word in arguments.source]
    data = given[0] if len(given) == 1 else _together(given, table.schema)
    add = table.bulk_import if arguments.spark else table.ingest
    snapshot = add(data, message=arguments.message, job_id=arguments.job_id)
    if snapshot.id == before and not isinstance(
        snapshot, MadeBefore
    ):  # its card would tell of rows that another ingest added
        return Answer(Grid((), (), footer=f"no rows to add: {table.name} stays at snapshot {before}"))
    return snapshot


def _together(given: Sequence[Any], schema: Schema) -> Any:
    """Return several sources as one Arrow table, so that all of their rows are added, or none."""
    import pyarrow as pa

    from sleeper_nb.operations import sources

    return pa.concat_tables([sources.conform(sources.to_arrow(data, schema), schema) for data in given])


COMMANDS = (
    Command(
        "ingest",
        "add rows in one commit",
        (
            TABLE,
            positional("source", "a path, a glob, or $name for a variable", "source", metavar="SRC", many=True),
            option("-m", "--message", text="what the history says of it", metavar="MSG"),
            option("--job-id", text="a name for this work: the same again adds nothing", metavar="ID"),
            flag("--spark", "through Spark, whatever the size"),
        ),
        _ingest,
        (
            'ingest trips data/2026-*.parquet -m "third quarter"',
            "ingest trips $df",
            "ingest trips data/2026-11-21.csv --job-id 2026-11-21/trips",
        ),
        words=("load", "insert", "import", "bulk-import", "append", "copy"),
    ),
)
