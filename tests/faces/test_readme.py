"""The README and the tour are typed as they stand, from an empty folder, and each answer shows what the text claims."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

import nbformat
import pyarrow as pa
import pytest
from IPython.utils.capture import capture_output
from pyarrow import parquet

import sleeper_nb as sl
from sleeper_nb import cli, demo

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TOUR = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
FLIGHTS_OF_2013, FIRST_HALF, JUNE, JULY, JANUARY = 336_776, 166_158, 28_243, 29_425, 27_004

SHOWN = {
    "%sleeper create june --from data/2013-06.parquet --dry-run": ["can be a key", "carrier", "28,243"],
    "%sleeper create june --from data/2013-06.parquet --keys": ["table june", "8 leaf partitions", "28,243"],
    "%sleeper sql CREATE TABLE IF NOT EXISTS delays": ["delays", "june at snapshot 1"],
    "%sleeper sql INSERT INTO delays": ["delays", "june at snapshot 1"],
    "%sleeper delete delays": ["delete", "nothing was changed"],
    "%sleeper sql UPDATE delays": ["update", "delays"],
    "%sleeper upsert june": ["28,243", "nothing was changed"],
    "%sleeper sql MERGE INTO june": ["merge", "june"],
    "%sleeper use": ["tables     none"],
    "%%sleeper create flights": ["3 leaf partitions", "carrier string, flight int"],
    "%sleeper ingest flights data/2013-0[1-6].parquet --dry-run": [f"would add {FIRST_HALF:,} rows in 3 files"],
    "%sleeper ingest flights data/2013-0[1-6].parquet -m": ["snapshot 2", f"rows +{FIRST_HALF:,}", "first half"],
    "%sleeper history flights": ["first half"],
    "%sleeper create-savepoint": ["savepoint 1 'half-year'", "snapshot 2", "before the summer schedule"],
    "%sleeper ingest flights $july": ["snapshot 3", f"rows +{JULY:,}", "2013-07"],
    "%%sleeper sql\nSELECT now.origin": ["EWR", "JFK", "LGA", "3 rows", "savepoint 1 'half-year'"],
    "%sleeper profile flights@half-year": ["profile of flights at savepoint 1", "median", "█"],
    "%sleeper sql SELECT count(*) AS late": ["flights at snapshot 2"],
    "%sleeper sql SELECT count(*) AS not_loaded": ["variable july · duckdb"],
    "%sleeper ingest flights data/2013-01.parquet": ["snapshot 4", f"rows +{JANUARY:,}"],
    "%sleeper diff flights 3 4": [f"{JANUARY:,}", f"{FIRST_HALF + JULY:,}"],
    "%sleeper diff flights 3 4 --rows": ["added   9E", "from snapshot 3 to snapshot 4"],
    "%sleeper rollback flights 3 --dry-run": ["would roll back to snapshot 3", "January again, by mistake"],
    "%sleeper rollback flights 3": ["rolled back to snapshot 3", f"{FIRST_HALF + JULY:,}"],
    "%sleeper describe flights@2": [f"{FIRST_HALF:,} rows", "9E"],
    "%sleeper sql SELECT savepoint_id": ["half-year", f"{FIRST_HALF}"],
    "%sleeper ingest flights data/2013-": ["rows +", "job id"],
    "%sleeper compact flights --dry-run": ["would merge 18 files into 3"],
    "%sleeper compact flights": ["18 files", "3"],
    "%sleeper jobs flights": ["finished  compaction", "finished  ingest"],
    "%sleeper split flights --threshold 50000 --dry-run": ["3 leaf partitions would be split"],
    "%sleeper split flights --threshold 50000": ["3 leaf partitions split into"],
    "%sleeper maintain": ["nothing due"],
    "%sleeper scan flights --region": ["partitions", "row groups", "bytes"],
    "%sleeper export flights@half-year out/": [f"exported {FIRST_HALF:,} rows to 3 files"],
    "%sleeper files flights": ["files of flights", "a compaction"],
    "%sleeper inspect flights": ["ACTIVE", f"{FLIGHTS_OF_2013}"],
    "%sleeper explore flights": ["Explorer(table='flights'"],
    "%sleeper timeline flights": ["Explorer(table='flights'"],
    "%sleeper sql --dry-run": ["no row was read", "flights at snapshot"],
    "%sleeper sql --plot bar": ["flights by origin", "EWR"],
    "%sleeper alter flights": ["delay int?", "note string?", "older versions keep their schemas"],
    "%sleeper scan flights@half-year --schema current": ["delay", "note"],
    "%sleeper properties flights sleeper.table.gc": ["30", "15"],
    "%sleeper properties flights": ["default", "set by"],
    "%sleeper rename flights us_flights": ["table us_flights"],
    "%sleeper drop us_flights": ["would delete", "half-year", "--force"],
    "%sleeper rename us_flights flights": ["table flights"],
    "%sleeper migrate flights": ["migrate"],
    "%sleeper status flights": ["TransactionLogStateStore", f"{FLIGHTS_OF_2013:,} rows"],
    "%sleeper check flights --deep": ["all is well"],
    "%%sleeper create visits": ["sum(visits),max(longest)"],
    "%sleeper expire flights": ["would expire"],
    "%sleeper collect-garbage flights": ["would delete"],
    "%sleeper sweep-orphans flights": ["would delete"],
    "%sleeper help": ["ingest", "compact"],
    "%sleeper compact -h": ["--dry-run", "--strategy"],
}
"""What the answer of each line of the tour must show; a line belongs to the longest of these beginnings."""
SHOWN_IN_README = {
    "%load_ext": "",
    "%sleeper use": "tables     none",
    "%sleeper create june": f"{JUNE:,}",
    "%sleeper ingest june": "the wrong month",
    "%sleeper diff june": f"{JANUARY:,}",
    "%sleeper rollback june": "rolled back to snapshot 1",
    "%sleeper sql": f"{JUNE + JANUARY}",
    "import sleeper_nb": "EWR",
}
"""What the answer of each cell of the README must show, by its beginning."""


@dataclass(frozen=True)
class Typed:
    """A cell, the value that it gave, and what was shown at once."""

    cell: str
    value: object
    shown: str


def cells(text=TOUR):
    """The cells of a document in its order: magics a line each, cell magics and Python a block each."""
    for kind, block in re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL):
        if kind == "bash":
            continue
        yield from [block.strip()] if block.startswith("%%") or kind == "python" else block.strip().splitlines()


def beginning(cell):
    return max((line for line in SHOWN if cell.startswith(line)), key=len)


@pytest.fixture(scope="module")
def flights(tmp_path_factory):
    """The folder in which ``sleeper tour`` was typed, as both documents say."""
    folder = tmp_path_factory.mktemp("tour")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "flights", cache(demo.flights))
        with pytest.MonkeyPatch.context() as inside:
            inside.chdir(folder)
            assert cli.main(["tour"]) == 0
        yield folder


def test_the_tour_writes_a_year_of_flights_once(flights, monkeypatch, capsys):
    monkeypatch.chdir(flights)
    months = sorted(Path("data").glob("2013-*.parquet"))
    assert (len(months), sum(parquet.read_metadata(month).num_rows for month in months)) == (12, FLIGHTS_OF_2013)
    before = [month.read_bytes() for month in months]
    written = nbformat.read("tour.ipynb", as_version=4)
    nbformat.validate(written)
    blocks = re.findall(r"```(?:python)?\n(.*?)\n```", TOUR, re.DOTALL)
    assert [cell.source for cell in written.cells if cell.cell_type == "code"] == blocks
    assert not [cell for cell in written.cells if cell.cell_type == "markdown" and "](" in cell.source]
    Path("tour.ipynb").write_text("my own", encoding="utf-8")
    assert cli.main(["tour"]) == 0
    assert "was there already" in capsys.readouterr().out
    assert Path("tour.ipynb").read_text(encoding="utf-8") == "my own"
    assert [month.read_bytes() for month in months] == before
    parquet.write_table(pa.table({"mine": [1]}), "data/2013-05.parquet")
    try:
        capsys.readouterr()
        assert cli.main(["tour"]) == 1
        assert "2013-05.parquet already exists and holds something else" in capsys.readouterr().err
        assert parquet.read_table("data/2013-05.parquet").to_pydict() == {"mine": [1]}
    finally:
        months[4].write_bytes(before[4])


def test_every_cell_of_the_readme_shows_what_the_text_claims(shell, flights, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(flights / "data")
    for cell in cells(README):
        with capture_output() as output:
            run = shell.run_cell(cell)
        run.raise_error()
        (shown,) = (text for beginning, text in SHOWN_IN_README.items() if cell.startswith(beginning))
        assert shown in f"{output.stdout}\n{run.result!r}", cell
    assert len(shell.user_ns["june"].history()) == 5
    shell.user_ns["session"].close()


@pytest.mark.spark
def test_every_line_of_the_tour_shows_what_the_text_claims(shell, flights, monkeypatch, spark_engine):
    spark_engine.session()
    monkeypatch.chdir(flights)
    typed = []
    for cell in cells():
        with capture_output() as output:
            run = shell.run_cell(cell)
        run.raise_error()
        typed.append(Typed(cell, run.result, f"{output.stdout}\n{run.result!r}"))
    magics = [one for one in typed if one.cell.startswith("%") and not one.cell.startswith("%load_ext")]
    for one in magics:
        assert [text for text in SHOWN[beginning(one.cell)] if text not in one.shown] == [], f"{one.cell}\n{one.shown}"
    assert {beginning(one.cell) for one in magics} == SHOWN.keys()
    (example,) = re.findall(r"^table\.update\(.*dry_run=True\)", TOUR, re.MULTILINE)
    assert shell.run_cell(example).result.updated > 0
    _numbers_are_those_of_the_text({one.cell: one for one in typed}, [one for one in typed if "$july" in one.cell])
    shell.user_ns["session"].close()


def test_the_tour_can_be_taken_again_once_its_folders_are_deleted(shell, flights, monkeypatch):
    monkeypatch.chdir(flights)
    assert "Run each cell once." in TOUR
    again = re.search(r"start over, delete `(\w+)` and `(\w+)`\s+first", TOUR)
    for _ in range(2):
        for folder in again.groups():
            shutil.rmtree(folder, ignore_errors=True)
        for cell in takewhile(lambda cell: "VERSION AS OF 'savepoint.half-year'" not in cell, cells()):
            with capture_output() as output:
                shell.run_cell(cell).raise_error()
            for text in SHOWN[beginning(cell)] if cell.startswith(("%sleeper", "%%sleeper")) else ():
                assert text in output.stdout, cell


def test_the_cells_up_to_july_can_be_typed_again_without_deleting_anything(shell, flights, monkeypatch):
    monkeypatch.chdir(flights)
    for folder in ("warehouse", "out"):
        shutil.rmtree(folder, ignore_errors=True)
    ends = []
    for again in range(2):
        for cell in takewhile(lambda cell: "VERSION AS OF 'savepoint.half-year'" not in cell, cells()):
            with capture_output() as output:
                shell.run_cell(cell).raise_error()
            if again and cell.startswith(
                ("%%sleeper create", "%sleeper create june --from data/2013-06.parquet --keys")
            ):
                assert "exists already" in output.stdout
            if again and "%sleeper ingest" in cell and "--job-id" in cell:
                assert "Nothing was changed" in output.stdout
        with sl.connect("warehouse") as session:
            table = session.table("flights")
            ends.append((table.at().state.totals().rows, [each.id for each in table.savepoints()]))
    assert ends[0] == ends[1]
    assert ends[0][0] == FIRST_HALF + JULY


def _numbers_are_those_of_the_text(typed, loads_of_july):
    first, again = loads_of_july
    assert ("Nothing was changed" in first.shown, "Nothing was changed" in again.shown) == (False, True)
    (flagship,) = (one.value for cell, one in typed.items() if "AS added" in cell)
    added = flagship.to_arrow()["added"].to_pylist()
    assert (sum(added), min(added) > 0) == (JULY, True)
    (late,) = (one.value for cell, one in typed.items() if ":late" in cell)
    assert late.to_arrow()["late"].to_pylist()[0] > 0
    (narrowed,) = (one.shown for cell, one in typed.items() if cell.endswith("--explain"))
    assert re.search(r"partitions\s+(\d+)\s+1\b", narrowed)
