"""What the explorer answers about tables and rows, as the page gets it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import sleeper_nb as sl
from sleeper_nb.widgets.asked_widget import request_key
from sleeper_nb.widgets.explorer import Explorer
from sleeper_nb.widgets.explorer_answers import ExplorerAnswers, Notebook
from sleeper_nb.widgets.open_tables import OpenTables
from sleeper_nb.widgets.request_lanes import failure_of
from sleeper_nb.widgets.table_search import reason_of
from tests.widgets.conftest import ALL, HOSTILE, Page

EXAMPLES = json.loads((Path(__file__).parents[2] / "frontend/test/request_keys.json").read_text())


@pytest.fixture
def page(session):
    return Page(Explorer(session, "flights"))


def of(version=4, **query):
    return {"table": "flights", "version": version, "query": {**ALL, **query}}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["do"])
def test_a_request_has_the_key_that_the_page_makes(example):
    assert request_key(example["do"], example["asked"]) == example["key"]


def test_versions_are_listed_oldest_first_with_what_they_did(page):
    opened = page.ask("open", table="flights")
    versions = opened["versions"]
    assert (opened["name"], opened["actions"], versions["number"]) == ("flights", True, [1, 2, 3, 4])
    assert versions["kind"] == ["create", "ingest", "ingest", "ingest"]
    assert versions["change"] == ["", "+30 rows", "+60 rows", "+90 rows"]
    assert versions["rows"] == [0, 30, 90, 180]
    assert versions["committed"][0] == 1767225600000
    assert (versions["message"][3], versions["savepoints"]) == (HOSTILE, {"3": ["half-year"]})
    assert all(size > 0 for size in versions["bytes"][1:])


def test_a_version_that_only_a_savepoint_holds_is_listed(session, page):
    session.table("flights").maintenance.expire(
        dry_run=False, time_retained=timedelta(0), num_retained_min=1, num_retained_max=1
    )
    versions = page.ask("open", table="flights")["versions"]
    assert (versions["number"], versions["kind"], versions["bytes"][0]) == ([3, 4], ["savepoint", "ingest"], 0)
    assert page.ask("schema", table="flights", version=3)["rows"] == 90


def test_a_commit_has_its_files_and_who_made_it(page):
    commit = page.ask("commit", table="flights", version=4)
    assert commit["files"] == 9
    assert ["by", "ada"] in commit["details"]
    assert page.ask("commit", table="flights", version=99) == {"files": 0, "details": []}


def test_a_schema_says_what_columns_are_and_what_someone_set(session, page):
    session.table("flights").set_properties({"sleeper.table.compaction.files.batch.size": "7"})
    session.table("flights").alter(comments={"note": "as written"}, defaults={"note": "none"}, comment="late ones")
    schema = page.ask("schema", table="flights", version=page.ask("open", table="flights")["versions"]["number"][-1])
    names = {each["name"]: each for each in schema["columns"]}
    assert [(each["name"], each["role"], each["kind"]) for each in schema["columns"]] == [
        ("carrier", "row key", "string"), ("flight", "sort key", "integer"), ("note", "", "string"),
    ]  # fmt: skip
    assert (names["note"]["comment"], names["note"]["default"], names["note"]["nullable"]) == (
        "as written", "'none'", True,
    )  # fmt: skip
    assert (schema["comment"], schema["rows"], schema["files"], schema["partitions"]) == ("late ones", 180, 9, 3)
    assert ["sleeper.table.compaction.files.batch.size", "7"] in schema["properties"]
    assert not any(name.startswith("sleeper.table.schema") for name, _ in schema["properties"])


def test_tables_have_their_size_growth_and_what_is_due(session, page, tmp_path):
    for _ in range(12):
        session.table("flights").ingest([{"carrier": "AA", "flight": 1, "note": None}])
    details = page.ask("details", names=["airports", "flights", "gone"])["tables"]
    assert [each["name"] for each in details] == ["airports", "flights", "gone"]
    assert (details[1]["rows"], details[1]["growth"][:4]) == (192, [0, 30, 90, 180])
    assert "compaction" in details[1]["due"]
    assert "no table 'gone'" in details[2]["problem"]
    assert [len(part["tables"]) for part in page.parts] == [1, 2, 3]


@pytest.mark.parametrize(
    ("filters", "search", "found", "where"),
    [
        ([{"column": "flight", "text": "> 27"}], "", 6, '"flight" > 27'),
        ([{"column": "carrier", "value": 0}], "", 60, "\"carrier\" = 'AA'"),
        ([{"column": "carrier", "value": 1}, {"column": "flight", "text": "3"}], "", 3, None),
        ([{"column": "flight", "bars": [2, 1]}], "", 36, '"flight" > 0 AND "flight" <= 4'),
        ([{"column": "note", "text": "null"}], "", 0, '"note" IS NULL'),
        ([{"column": "note", "text": " "}], "", 180, ""),
        ([], "aa", 60, None),
    ],
)
def test_rows_are_filtered_by_the_engine_and_the_answer_says_the_same_in_sql(
    session, page, filters, search, found, where
):
    asked = of(filters=filters, search=search)
    answer = page.ask("rows", **asked, first=0, count=100, columns=["carrier", "flight"])
    assert (answer["total"], answer["version"], answer["first"]) == (found, 4, 0)
    assert len(answer["rows"]) == min(found, 100)
    if where is not None:
        assert answer["where"] == where
    rows = session.table("flights").at(4).scan(where=answer["where"] or None)
    assert rows.to_arrow().num_rows == found
    assert eval(answer["scan"], {"session": session}).to_arrow().num_rows == found  # noqa: S307 - as a user pastes it
    statement = answer["line"].partition("\n")[2].rpartition("\nLIMIT")[0]
    assert len(session.sql(statement, engine="duckdb")) == found


def test_rows_are_sorted_and_a_block_further_down_has_its_place(page):
    sorts = [{"column": "flight", "descending": True}, {"column": "carrier", "descending": False}]
    answer = page.ask("rows", **of(sorts=sorts), first=100, count=50, columns=["flight"])
    assert (answer["first"], answer["rows"][0], answer["last"]) == (100, ["8"], False)
    assert page.ask("rows", **of(sorts=sorts), first=150, count=50, columns=["flight"])["last"]


def test_a_filter_that_cannot_be_is_an_error_with_a_hint(page):
    asked = {"first": 0, "count": 10, "columns": ["flight"]}
    assert (
        "did you mean 'flight'"
        in page.failure("rows", **of(filters=[{"column": "flght", "text": "1"}]), **asked)["hint"]
    )
    assert page.failure("rows", **of(filters=[{"column": "flight", "text": "x"}]), **asked)["message"]
    assert "a filter has a column" in page.failure("rows", **of(filters=[{"column": "flight"}]), **asked)["hint"]
    assert "no snapshot 9" in page.failure("rows", **of(9), **asked)["message"]


def test_headers_count_all_rows_and_those_that_the_filters_leave(page):
    names = ["carrier", "flight", "note"]
    answer = page.ask("headers", **of(filters=[{"column": "flight", "text": "< 5"}]), columns=names, all=False)
    carrier, flight = answer["headers"]["carrier"], answer["headers"]["flight"]
    assert (answer["version"], answer["unread"], [*answer["headers"]]) == (4, "", names)
    assert (carrier["ranges"], carrier["bars"], carrier["of"]) == (False, ["AA", "DL", "WN"], [60, 60, 60])
    assert (sum(carrier["counts"]), carrier["rows"], carrier["distinct"], carrier["exact"]) == (45, 45, 3, True)
    assert (flight["ranges"], flight["bars"][:2], flight["ends"]) == (True, ["≤ 0", "0 < … ≤ 2"], ["0", "29"])


def test_headers_of_a_large_version_are_read_when_they_are_asked_for(page, monkeypatch):
    monkeypatch.setattr("sleeper_nb.widgets.row_grid_model.MOST_SUMMARIZED", 10)
    answer = page.ask("headers", **of(), columns=["carrier"], all=False)
    assert (answer["headers"], answer["unread"].endswith("KiB")) == ({}, True)
    assert page.ask("headers", **of(), columns=["carrier"], all=True)["headers"]["carrier"]["rows"] == 180


def test_a_cube_answers_a_brush_without_the_bars_that_are_brushed(page):
    filters = [{"column": "flight", "bars": [0, 0]}, {"column": "carrier", "value": 0}]
    cube = page.ask("cube", **of(filters=filters), column="flight", columns=["carrier", "note", "flight"])
    assert (cube["column"], sum(cube["rows"]), [*cube["columns"]]) == ("flight", 60, ["carrier", "note"])
    assert [sum(bar) for bar in cube["columns"]["carrier"]["counts"]] == cube["rows"]
    assert "no column 'nope'" in page.failure("cube", **of(), column="nope", columns=[])["message"]


def test_a_value_is_found_again_by_its_place(page):
    sorts = [{"column": "flight", "descending": True}]
    assert page.ask("value", **of(sorts=sorts), row=0, column="note")["tree"] == {"text": HOSTILE}
    assert "has no row" in page.failure("value", **of(filters=[{"column": "flight", "text": "77"}]), row=0,
                                        column="note")["message"]  # fmt: skip


def test_a_search_finds_names_first_and_then_what_schemas_say(session):
    values = {"dep_delay": "int?", "origin": "string"}
    schema = sl.Schema({"origin_key": "string"}, {"at": "timestamp"}, values, comment="late departures")
    session.create_table("delays", schema).alter(comments={"dep_delay": "in Minutes"})
    page = Page(Explorer(session))

    def found(text):
        return {each["name"]: each["reason"] for each in page.ask("search", text=text)["found"]}

    assert found("light") == {"flights": ""}
    assert found("DELAY") == {"delays": ""}
    assert found("dep_") == {"delays": "column dep_delay"}
    assert found("faa") == {"airports": "row key faa"}
    assert found("row key") == {}  # what a text is: no word of it is searched
    assert found("minutes") == {"delays": "comment in Minutes"}
    assert found("delays origin") == {"delays": "row key origin_key"}
    assert list(found("a")) == ["airports", "delays", "flights"]
    session.table("flights").alter({"gate": "string?"})
    assert found("gate") == {"flights": "column gate"}
    session.create_table("odd", sl.Schema({"k": "int"}, comment=HOSTILE))
    assert list(found("alert")) == ["odd"]


def test_names_are_found_before_the_schemas_are_read(session):
    page = Page(Explorer(session))
    page.ask("search", text="faa")
    assert page.parts[0] == {"found": []}


def test_each_word_is_in_the_name_or_in_a_text():
    texts = (("column", "fare"), ("comment", "in dollars"))
    assert reason_of("trips", texts, ["trips"]) == ""
    assert reason_of("trips", texts, ["trips", "fare"]) == "column fare"
    assert reason_of("trips", texts, ["fare", "dollars"]) == "column fare, comment in dollars"
    assert reason_of("trips", texts, ["fare", "euros"]) is None


@pytest.fixture
def kept(session):
    variables, cells = {}, []
    answers = ExplorerAnswers(OpenTables(session), notebook := Notebook(cells.append, variables))
    widget = SimpleNamespace(methods={"keep": answers.keep, "write": notebook.write_cell})
    return Page(widget), variables, cells


def test_rows_are_kept_as_a_data_frame_of_the_user(session, kept):
    page, variables, _ = kept
    answer = page.ask("keep", **of(filters=[{"column": "flight", "text": "> 27"}]), variable="late")
    assert isinstance(variables["late"], pd.DataFrame)
    assert (len(variables["late"]), answer["sentence"]) == (6, "late is a DataFrame of 6 rows.")
    assert answer["line"].startswith("%%sleeper sql --engine duckdb --as pandas -o late\nSELECT * FROM")


@pytest.mark.parametrize("name", ["", "a b", "1st", "class", "a.b", "x; import os"])
def test_only_a_name_that_python_takes_keeps_rows(kept, name):
    page, variables, _ = kept
    assert "is not a valid variable name" in page.failure("keep", **of(), variable=name)["message"]
    assert variables == {}


def test_a_cell_is_written_where_there_is_a_notebook(kept, session):
    page, _, cells = kept
    assert page.ask("write", text="%sleeper tables")["sentence"].startswith("The cell appears below")
    assert cells == ["%sleeper tables"]
    outside = Page(Explorer(session))
    assert outside.failure("write", text="x")["hint"] == "copy the cell"


def test_an_error_that_is_none_of_ours_is_named():
    assert failure_of(KeyError("x")) == {"message": "KeyError: 'x'", "hint": ""}
