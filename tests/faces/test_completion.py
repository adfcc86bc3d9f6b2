"""The Tab key in a notebook: data, files, and columns of conditions, as a user types them."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from IPython.core.completer import provisionalcompleter

MADE = (
    "%sleeper use ./warehouse",
    "%%sleeper create trips\ncity STRING KEY\npickup TIMESTAMP SORT\nfare DOUBLE NULL, tip DOUBLE NULL",
    "%%sleeper create zones\nzone INT KEY",
)


@pytest.fixture
def offered(cell, shell, tmp_path):
    """Return the lines that Tab makes of a line, without the part that was typed."""
    for source in MADE:
        cell(source)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "may.parquet").write_bytes(b"")
    (tmp_path / "data" / "notes.md").write_text("")
    (tmp_path / "my rows.csv").write_text("Town,Pickup Time\n")
    (tmp_path / ".hidden.csv").write_text("")

    def complete(line):
        typed = f"%sleeper {line}"
        with provisionalcompleter():
            found = list(shell.Completer.completions(typed, len(typed)))
        # of Python's own names, IPython offers some wherever we offer none
        return [typed[: each.start] + each.text for each in found if each.type == "sleeper"]

    return lambda line: [made.removeprefix(f"%sleeper {line}") or made for made in complete(line)]


LAST = [r"my\ rows.csv", "warehouse/"]
COLUMNS = ["city", "pickup", "fare", "tip"]


@pytest.mark.parametrize("line", ["ingest trips ", "upsert trips ", "overwrite trips ", "create t --from "])
def test_data_is_offered_and_files_but_no_other_variable(offered, shell, line):
    class Opaque:
        def __getattr__(self, name):
            raise RuntimeError(name)

    rows = {"arrow": pa.table({"a": [1]}), "frame": pd.DataFrame({"a": [1]}), "lazy": pl.LazyFrame({"a": [1]})}
    shell.push({**rows, "rows": [{"city": "lima"}], "number": 3, "text": "x", "empty": [], "opaque": Opaque()})
    assert offered(line) == ["$arrow", "$frame", "$lazy", "$rows", "data/", "ipython/", *LAST]


def test_a_variable_with_rows_comes_before_one_without(offered, shell):
    shell.push({"first": pa.table({"a": [1]}), "file": "trips.csv"})
    assert offered("ingest trips $fi") == ["rst"]
    assert offered("ingest trips $fil") == ["e"]


def test_the_answer_of_a_query_is_data(offered, cell):
    cell("answer = %sleeper sql --engine duckdb SELECT city FROM trips")
    assert "$answer" in offered("ingest trips ")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ingest trips data/", ["may.parquet"]),
        ("ingest trips data/m", ["ay.parquet"]),
        ("ingest trips da", ["ta/"]),
        ("ingest trips my", [r"\ rows.csv"]),
        (r"ingest trips my\ r", ["ows.csv"]),
        ('ingest trips "my r', ["ows.csv"]),
        ("ingest trips .h", ["idden.csv"]),
        ("ingest trips data/may.parquet my", [r"\ rows.csv"]),
        ("create t --schema data/n", ["otes.md"]),
        ("create t --from=da", ["ta/"]),
        ("ingest trips nowhere/", []),
    ],
)
def test_files_are_offered(offered, line, expected):
    assert offered(line) == expected


WHERE = ('scan trips@1 --where "', 'delete trips --where "', 'update trips --set "fare = 0" --where "',
         'update trips --set "', 'overwrite trips $x --where "', 'export trips out --where "',
         'diff trips 1 --rows --where "')  # fmt: skip


@pytest.mark.parametrize("beginning", WHERE)
def test_a_condition_offers_columns(offered, beginning):
    for condition in ("", "fare > ", "fare > 0 AND ", "fare > 0 or (", "NOT ", "fare + "):
        assert offered(beginning + condition) == COLUMNS
    for condition in ("c", "fare > 0 AND c", "fare>C", "lower(c", "trips.c"):
        assert [made[-3:] for made in offered(beginning + condition)] == ["ity"]
    for condition in ("fare ", "fare > 0 ", "city = 'c", "city = '", "fare > 0 AND x"):
        assert offered(beginning + condition) == []
    assert offered(f"{beginning}fare > (SELECT avg(zone) FROM ") == ["trips", "zones"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("scan trips --where fa", ["re"]),
        ("scan trips --where=fa", ["re"]),
        ("scan trips --where='fare > 0 and t", ["ip"]),
        ("scan trips --columns ", COLUMNS),
        ("scan trips --columns city,", ["pickup", "fare", "tip"]),
        ("upsert trips $rows --on c", ["ity"]),
        ("upsert trips $rows --columns City=c", ["ity"]),
        ("update trips --value f", ["are="]),
        ("update trips --value fare=", []),
        ("scan trips --region ", ["city="]),
        ('scan trips --region "city=[a,b) ', ["city="]),
        ('scan trips --region "city=', []),
        ("alter trips --rename-column t", ["ip="]),
        ("alter trips --drop-column t", ["ip"]),
        ('alter trips --add-check "positive: t', ["ip"]),
        ('create t --from "my rows.csv" --keys T', ["own"]),
        ('split-points "my rows.csv" --keys Town,P', ["ickup Time"]),
        ("compact trips --engine=sp", ["ark"]),
        ("set-online def", ["ault"]),
        ("rename-table default z", ["ones"]),
        ("scan nothing --where f", []),
    ],
)
def test_an_option_offers_its_names(offered, line, expected):
    assert offered(line) == expected


def test_the_keys_of_a_new_table_are_columns_of_its_data(offered, shell):
    shell.push({"df": pd.DataFrame({"city": ["lima"], "fare": [1]}), "rows": [{"city": "lima", "fare": 1}]})
    assert offered("create t --from $df --keys ") == ["city", "fare"]
    assert offered("create t --from $rows --keys city --sort f") == ["are"]


def test_an_option_that_can_be_repeated_is_offered_again(offered):
    assert offered('update trips --set "fare = 0" --s') == ["et"]
    assert offered("scan trips --limit 3 --li") == []
