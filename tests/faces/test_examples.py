"""Every example that the help and the README give is typed in a shell, where it needs neither Spark nor a bucket."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from IPython.utils.capture import capture_output
from pyarrow import csv, parquet

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.commands import COMMANDS

README = Path(__file__).parents[2] / "README.md"
START = datetime(2026, 1, 1, tzinfo=UTC)
TRIPS = sl.Schema({"city": "string"}, {"pickup": "timestamp"}, {"fare": "double?", "tip": "double?"})
FLIGHTS = sl.Schema(
    {"carrier": "string", "flight": "int"},
    {"time_hour": "timestamp"},
    {"origin": "string", "dest": "string", "dep_delay": "int?"},
)
A_TRIP = {"city": ["London", "athens"], "pickup": [START, START], "fare": [9.5, -1.0], "tip": [None, 1.0]}
A_FLIGHT = {"carrier": ["UA", "AA"], "flight": [1545, 7], "time_hour": [START, START], "origin": ["EWR", "JFK"],
            "dest": ["IAH", "MIA"], "dep_delay": [2, None]}  # fmt: skip
DDL = "city STRING KEY, pickup TIMESTAMP SORT, fare DOUBLE NULL, tip DOUBLE NULL"
TOML = '[tables.journeys]\nschema = "city STRING KEY, fare DOUBLE NULL"\n'
SCHEMA = '{"rowKeyFields": [{"name": "city", "type": "StringType"}], "valueFields": []}'
LEFT_OUT = {
    "demo": "runs on Spark, and needs its real data; tests/faces/test_cli.py and the CI run it",
    "demo --folder demo-warehouse": "as `demo`",
    "add-instance test --set sleeper.default.table.gc.delay.minutes=60": "makes the instance of the one before it",
    "ingest trips s3://bucket/2026/*.csv --dry-run": "needs a bucket; tests/operations/test_on_s3.py",
}
BEFORE = {
    "why": ["describe nothing"],
    "create": ["delete trips --force"],
    "add-table": ["delete-table demo trips --force", "templates"],
    "online": ["offline trips"],
}
"""What is typed before each example of a command, so that it finds something to do; it may be done already."""
RUN = [command for command in COMMANDS.commands if not LEFT_OUT.keys() >= set(command.examples)]


def rows(table, more=()):
    return pa.table(table | dict(more))


def prepared(session, *, versions):
    """Make the tables that examples speak of: so many versions, and two savepoints of the second."""
    trips = session.create_table("trips", TRIPS)
    flights = session.create_table("flights", FLIGHTS)
    for _ in range(versions - 1):
        trips.ingest(rows(A_TRIP))
        flights.ingest(rows(A_FLIGHT))
    trips.create_savepoint(snapshot=2)
    trips.create_savepoint("before-fix", snapshot=2)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A folder with a warehouse of three instances, and the files that examples name."""
    folder = tmp_path_factory.mktemp("template")
    clock = ManualClock(START)
    for instance, versions in (("default", 15), ("demo", 2), ("mine", 2)):
        with sl.connect(folder / "warehouse", instance, clock=clock) as session:
            prepared(session, versions=versions)
    (folder / "data").mkdir()
    parquet.write_table(rows(A_TRIP), folder / "data" / "2026-07.parquet")
    csv.write_csv(rows(A_TRIP), folder / "data" / "2026-11-21.csv")
    csv.write_csv(rows(A_TRIP), folder / "data" / "2026.tsv", csv.WriteOptions(delimiter="\t"))
    (folder / "trips.ddl").write_text(DDL)
    (folder / "tables.toml").write_text(TOML)
    (folder / "points.txt").write_text("London\n")
    (folder / "trips.txt").write_text("snapshot.num-retained.min=3\n")
    (folder / "trips.json").write_text(SCHEMA)
    return folder


@pytest.fixture
def typed(shell, template, tmp_path):
    """Type what stands behind the magic, in a copy of the template's folder."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    shell.push({"df": rows(A_TRIP), "least": 1})

    def type_in(text):
        line, _, body = text.partition("\n")
        with capture_output():
            return shell.run_cell(f"%%sleeper {line}\n{body}" if body else f"%sleeper {line}")

    shell.run_cell("%config SleeperMagics.engine = 'duckdb'")
    type_in("use ./warehouse").raise_error()
    return type_in


@pytest.mark.parametrize("command", RUN, ids=lambda command: command.name)
def test_every_example_of_the_help_runs(typed, command):
    for example in command.examples:
        if example not in LEFT_OUT:
            for before in BEFORE.get(command.name, ()):
                typed(before)
            typed(example).raise_error()


def test_what_is_left_out_is_an_example_still():
    examples = {example for command in COMMANDS.commands for example in command.examples}
    assert examples >= LEFT_OUT.keys()


def blocks():
    """The blocks of the README that are typed, in its order."""
    for kind, block in re.findall(r"```(\w*)\n(.*?)```", README.read_text(), re.DOTALL):
        if not kind and block.startswith("%"):
            yield block.strip()


def test_the_readme_is_typed_from_its_beginning_to_its_end(shell, template, tmp_path):
    (tmp_path / "data").mkdir()
    flights = [rows(A_FLIGHT, {"flight": [number, number]}.items()) for number in range(3)]
    for month, table in enumerate(flights):
        parquet.write_table(table, tmp_path / "data" / f"2013-0{month}.parquet")
    shell.push({"july": flights[0]})
    shell.run_cell("%load_ext sleeper_nb\n%config SleeperMagics.engine = 'duckdb'")
    for block in blocks():
        cells = [block] if block.startswith("%%") else block.splitlines()
        if "create-savepoint" in block:
            cells += ["%sleeper ingest flights $july"] * 10  # the year goes on
        if "%sleeper rename" in block:
            cells += ["%sleeper rename us_flights flights"]  # what stands below speaks of the table again
        for cell in cells:
            with capture_output():
                shell.run_cell(cell).raise_error()


@pytest.mark.spark
def test_the_python_of_the_readme_runs(spark_engine, template, tmp_path, monkeypatch):
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    with sl.connect(tmp_path / "warehouse") as session:
        session.table("flights").create_savepoint("half-year")
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    names = {"july": rows(A_FLIGHT), "spark": spark_engine.session()}
    exec(block, names)  # noqa: S102 - our own text
    names["session"].close()
