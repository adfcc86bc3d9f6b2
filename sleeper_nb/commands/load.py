"""`ingest`, `add-files` and `export`: rows from files or variables into a table, and from a table into files."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.command import (
    COLUMNS,
    MESSAGE,
    SCHEMA,
    TABLE,
    VERSION,
    WHERE,
    command,
    flag,
    option,
    positional,
)
from sleeper_nb.commands.context import Context, split_names
from sleeper_nb.errors import NotFound
from sleeper_nb.report import Answer, Grid

if TYPE_CHECKING:
    from sleeper_nb.model.snapshots import Snapshot
    from sleeper_nb.operations.loading.add_files import AddFilesPlan
    from sleeper_nb.operations.loading.ingest import IngestPlan
    from sleeper_nb.operations.scanning.export import ExportReport

CSV_OPTIONS = (
    option("--delimiter", text="what separates the values of a CSV file, or the word tab; a comma if not given, "
           "a tab in .tsv", metavar="C"),
    option("--null-text", text="the text for NULL in a CSV file, without quotes; empty if not given",
           metavar="TEXT"),
    flag("--no-header", "the CSV file has no header line: its columns are those of the table, in order"),
)  # fmt: skip


def csv_options(arguments: Namespace) -> dict[str, Any]:
    """Return the CSV options as arguments of the Python methods."""
    return {
        "delimiter": arguments.delimiter,
        "null_text": arguments.null_text,
        "header": not arguments.no_header,
    }


@command(
    "ingest",
    "add rows in one commit",
    TABLE,
    positional("source", "a path, a glob, or $name for a variable", "source", metavar="SRC", many=True),
    MESSAGE,
    option("--job-id", text="a name for this load: repeating it adds nothing", metavar="ID"),
    *CSV_OPTIONS,
    flag("--spark", "use Spark, whatever the size"),
    flag("--dry-run", "show what would be added, and every difference from the schema"),
    examples=(
        'ingest trips data/2026-*.parquet -m "third quarter"',
        "ingest trips $df",
        "ingest trips data/2026-11-21.csv --job-id 2026-11-21/trips",
        "ingest trips s3://bucket/2026/*.csv --dry-run",
        "ingest trips data/2026.tsv --delimiter tab",
    ),
    words=("load", "insert", "import", "bulk-import", "append", "copy"),
)
def ingest(context: Context, arguments: Namespace) -> Snapshot | IngestPlan | Answer:
    from sleeper_nb.model.jobs import MadeBefore
    from sleeper_nb.operations.versioning.periodic_savepoints import LoadedAndSaved

    table = context.table(arguments.table)
    sources = [source_of(context, word) for word in arguments.source]
    data = sources[0] if len(sources) == 1 else sources  # several are one commit: all of their rows are added, or none
    add = partial(table.bulk_import if arguments.spark else table.ingest, **csv_options(arguments))
    if arguments.dry_run:
        plan: Any = add(data, dry_run=True)
        return plan  # type: ignore[no-any-return]
    before = table.resolved.snapshot_id
    snapshot = add(data, message=arguments.message, job_id=arguments.job_id)
    if snapshot.id == before and not isinstance(snapshot, MadeBefore):
        # The snapshot's own card would show rows that an earlier ingest added.
        saved = f"; {snapshot.note}" if isinstance(snapshot, LoadedAndSaved) else ""
        return Answer(Grid((), (), footer=f"no rows to add: {table.name} stays at snapshot {before}{saved}"))
    return snapshot


@command(
    "add-files",
    "add sorted Parquet files where they are: nothing is copied, and they are never deleted",
    TABLE,
    positional("files", "a path, a folder, a glob or an s3:// address", "path", metavar="FILES", many=True),
    MESSAGE,
    option("--job-id", text="a name for this load: repeating it adds nothing", metavar="ID"),
    flag("--copy", "sort and convert the rows into files of the table, as ingest does"),
    flag("--dry-run", "show what would be added, and what is wrong with which files"),
    examples=(
        "add-files trips data/sorted/*.parquet --dry-run",
        'add-files trips s3://bucket/sorted/ -m "the files of 2025"',
        "add-files trips data/2026-*.parquet --copy",
    ),
    words=("register", "attach", "link", "reference"),
)
def add_files(context: Context, arguments: Namespace) -> Snapshot | AddFilesPlan | IngestPlan | Answer:
    from sleeper_nb.model.jobs import MadeBefore

    table = context.table(arguments.table)
    add = partial(table.add_files, arguments.files, copy=arguments.copy)
    if arguments.dry_run:
        return add(dry_run=True)
    before = table.resolved.snapshot_id
    snapshot = add(message=arguments.message, job_id=arguments.job_id)
    if snapshot.id == before and not isinstance(snapshot, MadeBefore):
        return Answer(Grid((), (), footer=f"the files have no rows: {table.name} stays at snapshot {before}"))
    return snapshot


def source_of(context: Context, word: str) -> Any:
    """Return what one SRC names: a path as text, or the value of a variable."""
    if word in context.own_variables() and not Path(word).exists():
        raise NotFound(f"no data file {word!r}", hint=f"write ${word} for the variable")
    return context.value(word)


@command(
    "export",
    "write the rows of a version to files: Parquet, one per leaf partition, or CSV",
    VERSION,
    positional("to", "a new or empty folder; or, for one file with all rows, a new name that ends in .parquet, .csv "
               "or .tsv", "path", metavar="TO"),
    option("--format", text="the format of a folder's files; parquet if not given", choices=("parquet", "csv", "tsv")),
    *CSV_OPTIONS,
    COLUMNS,
    WHERE,
    SCHEMA,
    examples=(
        "export trips trips-2026/",
        "export trips@before-fix trips.csv --columns city,fare",
        "export trips trips-2026.csv --delimiter ; --null-text NA",
    ),
    words=("dump", "unload", "download"),
    reads_only=True,
)  # fmt: skip
def export(context: Context, arguments: Namespace) -> ExportReport:
    at = context.table_at(arguments.table, arguments.schema)
    columns, csv = split_names(arguments.columns), csv_options(arguments)
    return at.export(arguments.to, arguments.format, columns=columns, where=arguments.where, **csv)
