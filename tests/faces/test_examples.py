"""Every example of the help is typed in a shell, where it needs neither Spark nor a bucket."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from IPython.utils.capture import capture_output
from pyarrow import csv, parquet

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.commands import COMMANDS
from tests.support.lakes import delta_table

START = datetime(2026, 1, 1, tzinfo=UTC)
TRIPS = sl.Schema({"city": "string"}, {"pickup": "timestamp"}, {"fare": "double?", "tip": "double?", "riders": "int?"})
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
    "tour": "needs its real data; tests/faces/test_readme.py types it",
    "tour --folder data": "as `tour`",
    "add-files trips data/sorted/*.parquet --dry-run": "needs a folder that is allowed; loading/test_add_files.py",
    "add-files trips data/sorted/*.parquet --move --dry-run": "as the one without --move",
    'add-files trips s3://bucket/sorted/ -m "the files of 2025"': "needs a bucket; tests/whole/test_on_s3.py",
    "ingest trips s3://bucket/2026/*.csv --dry-run": "needs a bucket; tests/whole/test_on_s3.py",
    "use s3://bucket/prefix --instance prod --profile analytics": "a bucket; test_aws_profile.py",
    "doctor s3://bucket/prefix --instance prod --profile analytics": "needs a bucket; test_doctor.py",
    "add-instance s3://bucket/prefix --instance prod --deploy": "a bucket; test_deploy.py",
    "add-instance s3://bucket/prefix --instance prod --deploy --force": "a bucket; test_deploy.py",
    "ingest trips https://example.org/trips.parquet": "needs the web; test_files_from_elsewhere.py",
}
BEFORE = {
    "why": ["describe nothing"],
    "create": ["drop trips --force"],
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
    (folder / "incoming").mkdir()
    csv.write_csv(rows(A_TRIP), folder / "incoming" / "monday.csv")
    parquet.write_table(rows(A_TRIP), folder / "data" / "2026-07.parquet")
    csv.write_csv(rows(A_TRIP), folder / "data" / "2026-11-21.csv")
    csv.write_csv(rows(A_TRIP), folder / "data" / "2026.tsv", csv.WriteOptions(delimiter="\t"))
    parquet.write_table(rows(A_TRIP), folder / "trips.parquet")
    delta_table(folder / "lake" / "trips", *[rows(A_TRIP)] * 13)
    (folder / "trips.ddl").write_text(DDL)
    (folder / "tables.toml").write_text(TOML)
    (folder / "points.txt").write_text("London\n")
    (folder / "trips.txt").write_text("snapshot.num-retained.min=3\n")
    (folder / "trips.json").write_text(SCHEMA)
    return folder


@pytest.fixture
def typed(shell, template, tmp_path, monkeypatch):
    """Type what stands behind the magic, in a copy of the template's folder, which is alone in the one above it."""
    folder = tmp_path / "above" / "here"  # `..` as a source would otherwise be the files of all tests
    shutil.copytree(template, folder)
    monkeypatch.chdir(folder)
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


ODD_WORDS = (
    "", "''", "'", '"', "--", "-5", "0", "9" * 30, "trips@", "@", "trips@999", "trips@nowhere", "..", "$nothing",
    ":nothing", "é", "%", "(", "{", "a=b=c", "=", "nan", "null", "s3:", "2026-13-45", "no such thing",
)  # fmt: skip
NOT_TYPED = {"demo", "tour", "use", "explore", "timeline"}
"""Commands that read real data or other warehouses, or open widgets."""
TYPED = [command for command in COMMANDS.commands if command.name not in NOT_TYPED]


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "command", [c for c in COMMANDS.commands if c.name not in NOT_TYPED], ids=lambda command: command.name
)
def test_odd_words_bring_errors_of_one_to_three_lines(typed, command, every):
    """By default, each place has every fifth word, and the next place has others."""
    words = command.examples[0].splitlines()[0].split()
    lines = [
        " ".join([*words[:place], odd, *words[place + 1 :]])
        for place in range(1, len(words) + 1)
        for odd in ODD_WORDS[place % every :: every]
    ]
    wrong = []
    for line in lines:
        run = typed(line)
        error = run.error_before_exec or run.error_in_exec
        most = 3 + len(error.place.splitlines()) + 1 if isinstance(error, sl.SleeperError) else 0
        if error is not None and len(f"{error}".splitlines()) > most:
            wrong.append(f"%sleeper {line}: {type(error).__name__}: {error}")
    assert not wrong, "\n" + "\n".join(wrong)
