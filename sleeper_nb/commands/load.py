"""`ingest`, `add-files` and `export`: rows from files or variables into a table, and from a table into files."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sleeper_nb.commands.command import (
    COLUMNS,
    JOB_ID,
    MESSAGE,
    READ_KEYS,
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
from sleeper_nb.errors import InvalidInput, NotFound, SleeperError

if TYPE_CHECKING:
    from sleeper_nb.public_types import ExportReport, LoadArguments, LoadReport
    from sleeper_nb.table import Table
    from sleeper_nb.table.folder_watch import WatchReport

SOURCE_TEXT = "a path, a glob, delta:PATH@12, iceberg:PATH@tag, or $name for a variable"
READ = option(
    "--read",
    text="how the files are written; can be repeated: delimiter=; or delimiter=tab, null-text=NA, header=no, quote=', "
    "escape=/, comment=#, skip-lines=2, encoding=cp1252, decimal=, thousands=. date-format=%d.%m.%Y, "
    "timestamp-format=FORMAT, sheet=NAME of an Excel file, format=csv of files of any name",
    metavar="KEY=VALUE",
    kind="reading",
    many=True,
)
MATCHING_OPTIONS = (
    flag("--ignore-extra", "leave out columns that the table lacks"),
    flag("--cast", "also store numbers, booleans, dates and times as text, and read yes and no as booleans"),
    flag("--by-name", "names also match that differ only in case, spaces and punctuation"),
    option("--columns", text="the table's names for the columns of the data, in order; or pairs such as "
           '"Pickup Time=pickup"', metavar="a,b", kind="columns"),
)  # fmt: skip


def load_options(arguments: Namespace) -> LoadArguments:
    flags = {name: True for name in ("ignore_extra", "cast", "by_name") if getattr(arguments, name)}
    columns = _columns(arguments.columns)
    options: Any = {**_read(arguments.read), **flags, **({"columns": columns} if columns else {})}
    return options  # type: ignore[no-any-return]


def _read(texts: Iterable[str]) -> dict[str, Any]:
    """Return the options of each ``KEY=VALUE`` after ``--read``, as `LoadArguments` has them."""
    given: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if key not in READ_KEYS:
            raise NotFound.of("key", key, READ_KEYS, where=" of --read")
        if not equals:
            raise InvalidInput(f"--read {key} has no value", hint=f"write --read {key}=VALUE")
        name = key.replace("-", "_")
        if name == "null_text":
            given.setdefault(name, []).append(value)
        elif name in given:
            raise InvalidInput(f"--read has {key} twice", hint="give it once")
        else:
            given[name] = _read_value(key, value)
    return given


def _read_value(key: str, value: str) -> str | int | bool:
    if key == "header":
        if value not in {"yes", "no"}:
            raise InvalidInput(f"the header of --read is yes or no, not {value!r}", hint="write --read header=no")
        return value == "yes"
    if key == "skip-lines":
        if not value.isdigit():
            raise InvalidInput(f"--read skip-lines needs a number, not {value!r}", hint="write --read skip-lines=2")
        return int(value)
    return value


def _columns(text: str | None) -> list[str] | dict[str, str] | None:
    """Return the names of ``a,b``, or the pairs of ``Pickup Time=pickup,Fare=fare``."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    pairs = [part.rpartition("=") for part in parts]
    if not any(sign for _, sign, _ in pairs):
        return parts
    if not all(sign for _, sign, _ in pairs):
        raise InvalidInput(f"--columns {text!r} mixes names and pairs", hint="write a,b or Data=a,Other=b")
    return {name.strip(): column.strip() for name, _, column in pairs}


@command(
    "ingest",
    "add rows in one commit",
    TABLE,
    positional("source", SOURCE_TEXT, "source", metavar="SRC", many=True, unless="watch"),
    MESSAGE,
    JOB_ID,
    READ,
    *MATCHING_OPTIONS,
    option(
        "--quarantine",
        text="a new .parquet file that keeps the rows that do not fit, with the reason of each; the others are loaded; "
        "of a watch, a folder for such files",
        kind="path",
        metavar="FILE",
    ),
    option(
        "--watch",
        text="load each file of a folder once, and those that come, until an interrupt; files being written wait",
        kind="path",
        metavar="DIR",
    ),
    flag("--once", "with --watch: load the files that are there, and end", only_with="--watch"),
    flag("--skip-bad", "with --watch: report files that cannot be loaded, and go on; without it the first ends the "
         "watch", only_with="--watch"),
    option("--every", text="with --watch: the time between two checks of the folder; 10 s if not given",
           metavar="TIME", only_with="--watch"),
    flag("--spark", "load by tasks of Spark, whatever the size and the machine"),
    flag(
        "--no-merge",
        "load in bulk without a merge: a leaf gets several sorted files, which compact --strategy all merges",
    ),
    flag("--dry-run", "show what would be added, and every difference from the schema"),
    examples=(
        'ingest trips data/2026-*.parquet -m "third quarter"',
        "ingest trips $df",
        "ingest trips data/2026-11-21.csv --job-id 2026-11-21/trips",
        "ingest trips s3://bucket/2026/*.csv --dry-run",
        "ingest trips https://example.org/trips.parquet",
        "ingest trips delta:lake/trips@12",
        "ingest trips data/2026.tsv --read delimiter=tab --read comment=#",
        "ingest trips $df --ignore-extra --cast --by-name",
        "ingest trips data/2026-11-21.csv --quarantine bad.parquet",
        "ingest trips data/2026-*.parquet --no-merge",
        "ingest trips --watch incoming/ --once --quarantine bad/",
    ),
    words=("load", "insert", "import", "bulk-import", "append", "copy", "watch-folder"),
)  # fmt: skip
def ingest(context: Context, arguments: Namespace) -> LoadReport | WatchReport:
    if arguments.watch is not None:
        return _watch(context, arguments)
    if arguments.spark and arguments.quarantine:
        raise InvalidInput("rows are kept back by loads in this process, not by Spark", hint="leave out --spark")
    if arguments.no_merge and arguments.quarantine:
        hint = "leave out --no-merge: a load that keeps rows back sorts all rows at once, and has nothing to merge"
        raise InvalidInput("--quarantine and --no-merge cannot be combined", hint=hint)
    table = context.table(arguments.table)
    data = data_of(context, arguments.source)  # several are one commit: all of their rows are added, or none
    load: Callable[..., LoadReport] = partial(table.ingest, quarantine=arguments.quarantine)
    if arguments.spark or arguments.no_merge:
        engine: Literal["spark", "auto"] = "spark" if arguments.spark else "auto"
        load = partial(table.bulk_import, engine=engine, merge=False if arguments.no_merge else None)
    load = partial(load, **load_options(arguments))
    with _noting_snapshot(context, table):
        return load(data, message=arguments.message, job_id=arguments.job_id, dry_run=arguments.dry_run)


@contextmanager
def _noting_snapshot(context: Context, table: Table) -> Iterator[None]:
    before = table.at().resolved.snapshot_id
    try:
        yield
    except KeyboardInterrupt as stop:
        with suppress(SleeperError):  # a catalog that cannot be reached: the interrupt is what counts
            now = table.at().resolved.snapshot_id
            lists = f"{context.prefix} history {table.name} lists what was committed"
            is_still = f"Table {table.name} is still at snapshot {before}."
            is_now = f"Table {table.name} was at snapshot {before}, and is at snapshot {now}: {lists}."
            stop.add_note(is_still if now == before else is_now)
        raise


def _watch(context: Context, arguments: Namespace) -> WatchReport:
    """Load each file of a folder once."""
    for name, reason in (
        ("source", "leave it out to load the files of the folder, or leave out --watch to load only it"),
        ("spark", "files of 256 MiB and more go through Spark by themselves"),
        ("no_merge", "set the table's property sleeper.table.bulk.import.merge to false instead"),
        ("dry_run", "plan the files of the folder instead: ingest T DIR --dry-run"),
    ):
        if getattr(arguments, name):
            shown = arguments.source[0] if name == "source" else f"--{name.replace('_', '-')}"
            raise InvalidInput(f"{shown} cannot be combined with --watch", hint=reason)
    return context.table(arguments.table).watch(
        arguments.watch,
        once=arguments.once,
        every=_every(arguments.every),
        quarantine=arguments.quarantine,
        skip_bad=arguments.skip_bad,
        message=arguments.message,
        job_id=arguments.job_id,
        **load_options(arguments),
    )


def _every(text: str | None) -> timedelta:
    from sleeper_nb.model.times import parse_duration
    from sleeper_nb.table.folder_watch import DEFAULT_EVERY

    try:
        return DEFAULT_EVERY if text is None else parse_duration(text)
    except ValueError as error:
        raise InvalidInput(f"--every cannot be {text!r}", hint="write a time, such as 30s, 5m or 1h") from error


@command(
    "add-files",
    "add sorted Parquet files where they are: nothing is copied, and they are never deleted",
    TABLE,
    positional(
        "files",
        "a path, a folder, a glob or an s3:// address; those outside the warehouse are allowed by use --data-path",
        "path",
        metavar="FILES",
        many=True,
    ),
    MESSAGE,
    JOB_ID,
    flag("--copy", "sort and convert the rows into files of the table, as ingest does"),
    flag("--move", "move the files into the table's folder, which deletes them when no version needs them"),
    flag("--dry-run", "show what would be added, and what is wrong with which files"),
    examples=(
        "add-files trips data/sorted/*.parquet --dry-run",
        'add-files trips s3://bucket/sorted/ -m "the files of 2025"',
        "add-files trips data/2026-*.parquet --copy",
        "add-files trips data/sorted/*.parquet --move --dry-run",
    ),
    words=("register", "attach", "link", "reference"),
)
def add_files(context: Context, arguments: Namespace) -> LoadReport:
    table = context.table(arguments.table)
    with _noting_snapshot(context, table):
        return table.add_files(
            arguments.files,
            copy=arguments.copy,
            move=arguments.move,
            message=arguments.message,
            job_id=arguments.job_id,
            dry_run=arguments.dry_run,
        )


def data_of(context: Context, words: Sequence[str]) -> Any:
    """Return what each SRC names, a path as text or the value of a variable; of several a list, without any None."""
    for word in words:
        if word in context.own_variables() and not Path(word).exists():
            raise NotFound(f"no data file {word!r}", hint=f"write ${word} for the variable")
    sources = [context.value(word) for word in words]
    return sources[0] if len(sources) == 1 else sources or None


@command(
    "export",
    "write the rows of a version to files: Parquet, one per leaf partition, or CSV",
    VERSION,
    positional("to", "a new or empty folder; or, for one file with all rows, a new name that ends in .parquet, .csv "
               "or .tsv", "path", metavar="TO"),
    option("--format", text="the format of a folder's files; parquet if not given", choices=("parquet", "csv", "tsv")),
    option("--delimiter", text="what separates the values of a CSV file, or the word tab; a comma if not given, a tab "
           "in .tsv", metavar="C"),
    option("--null-text", text="the text for NULL in a CSV file, without quotes; empty if not given", metavar="TEXT"),
    flag("--no-header", "write no header line into a CSV file"),
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
    columns = split_names(arguments.columns)
    csv = {"delimiter": arguments.delimiter, "null_text": arguments.null_text, "header": not arguments.no_header}
    return at.export(arguments.to, arguments.format, columns=columns, where=arguments.where, **csv)
