"""`export`: the rows of a version as files that any tool reads."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from pathlib import Path
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
from sleeper_nb.commands.read import COLUMNS, WHERE, named_columns
from sleeper_nb.errors import NotFound
from sleeper_nb.report import Answer, Grid

if TYPE_CHECKING:
    from sleeper_nb.model.snapshots import Snapshot
    from sleeper_nb.operations.loading.ingest import IngestPlan
    from sleeper_nb.operations.scanning.export import ExportReport


# The options that say how a CSV file is written: of `ingest` and of `export`.

CSV_OPTIONS = (
    option("--delimiter", text="what separates the values of a CSV file, or the word tab; a comma when not given, "
           "a tab in .tsv", metavar="C"),
    option("--null-text", text="what stands for NULL in a CSV file, without quotes; nothing when not given",
           metavar="TEXT"),
    flag("--no-header", "the first line of a CSV file is a row: its columns are those of the table, in order"),
)  # fmt: skip


def csv_options(arguments: Namespace) -> dict[str, Any]:
    """Return the options as the arguments of Python."""
    return {
        "delimiter": arguments.delimiter,
        "null_text": arguments.null_text,
        "header": not arguments.no_header,
    }


# `ingest`: add rows of files or of a variable, in one commit.


def _ingest(context: Context, arguments: Namespace) -> Snapshot | IngestPlan | Answer:
    from sleeper_nb.model.jobs import MadeBefore
    from sleeper_nb.operations.versioning.periodic_savepoints import LoadedAndSaved

    table = context.table(arguments.table)
    given = [_source(context, word) for word in arguments.source]
    data = given[0] if len(given) == 1 else given  # together: all of their rows are added, or none
    add = partial(table.bulk_import if arguments.spark else table.ingest, **csv_options(arguments))
    if arguments.dry_run:
        plan: Any = add(data, dry_run=True)
        return plan  # type: ignore[no-any-return]
    before = table.resolved.snapshot_id
    snapshot = add(data, message=arguments.message, job_id=arguments.job_id)
    if snapshot.id == before and not isinstance(
        snapshot, MadeBefore
    ):  # its card would tell of rows that another ingest added
        saved = f"; {snapshot.note}" if isinstance(snapshot, LoadedAndSaved) else ""
        return Answer(Grid((), (), footer=f"no rows to add: {table.name} stays at snapshot {before}{saved}"))
    return snapshot


def _source(context: Context, word: str) -> Any:
    if word in context.own_variables() and not Path(word).exists():
        raise NotFound(f"no data file {word!r}", hint=f"write ${word} for the variable")
    return context.value(word)


INGESTING_COMMANDS = (
    Command(
        "ingest",
        "add rows in one commit",
        (
            TABLE,
            positional("source", "a path, a glob, or $name for a variable", "source", metavar="SRC", many=True),
            option("-m", "--message", text="what the history says of it", metavar="MSG"),
            option("--job-id", text="a name for this work: the same again adds nothing", metavar="ID"),
            *CSV_OPTIONS,
            flag("--spark", "through Spark, whatever the size"),
            flag("--dry-run", "only show what would be added, and every difference to the schema"),
        ),
        _ingest,
        (
            'ingest trips data/2026-*.parquet -m "third quarter"',
            "ingest trips $df",
            "ingest trips data/2026-11-21.csv --job-id 2026-11-21/trips",
            "ingest trips s3://bucket/2026/*.csv --dry-run",
            "ingest trips data/2026.tsv --delimiter tab",
        ),
        words=("load", "insert", "import", "bulk-import", "append", "copy"),
    ),
)


def _export(context: Context, arguments: Namespace) -> ExportReport:
    at = context.table_at(arguments.table, arguments.schema)
    columns = named_columns(arguments.columns)
    csv = csv_options(arguments)
    return at.export(arguments.to, arguments.format, columns=columns, where=arguments.where, **csv)


EXPORTING_COMMANDS = (
    Command(
        "export",
        "write the rows of a version to files: Parquet, one per leaf partition, or CSV",
        (
            VERSION,
            positional("to", "a new or empty folder; or a new file that ends in .parquet, .csv or .tsv, for all rows",
                       "path", metavar="TO"),
            option("--format", text="what a folder gets; parquet when not given", choices=("parquet", "csv", "tsv")),
            *CSV_OPTIONS,
            COLUMNS,
            WHERE,
            SCHEMA,
        ),
        _export,
        ("export trips trips-2026/", "export trips@before-fix trips.csv --columns city,fare",
         "export trips trips-2026.csv --delimiter ; --null-text NA"),
        words=("dump", "unload", "download"),
    ),
)  # fmt: skip
