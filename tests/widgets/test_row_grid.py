"""The grid of rows without a browser: what a message from the page does, and what is sent back."""

from __future__ import annotations

import json

import pytest

import sleeper_nb as sl
from sleeper_nb.widgets import explore, row_grid_model
from sleeper_nb.widgets.explorer_model import Preview
from sleeper_nb.widgets.row_grid import tree_of
from sleeper_nb.widgets.row_grid_query import GridQuery, GridSort
from tests.widgets.conftest import HOSTILE, shown


@pytest.fixture
def explorer(session):
    return explore(session, "flights")


def send(explorer, action, **content):
    """Do what the page does when it sends a message."""
    grid = explorer._rows.grid
    json.dumps(content)  # as it comes from the page
    grid._handle_custom_msg({"do": action, **content}, [])
    json.dumps([grid.columns, grid.shown, grid.headers, grid.detail])  # as it goes there
    return grid


def rows(grid, *names):
    places = [grid.shown["fetched"].index(name) for name in names]
    return [tuple(row[place] for place in places) for row in grid.shown["rows"]]


def test_it_begins_with_the_first_rows_and_what_their_columns_are(explorer):
    grid = explorer._rows.grid
    assert [(each["name"], each["type"], each["role"]) for each in grid.columns] == [
        ("carrier", "string", "row key"), ("flight", "int", "sort key"), ("note", "string?", ""),
    ]  # fmt: skip
    assert grid.shown["counts"] == "first 20 of 180 rows"
    assert rows(grid, "carrier", "flight")[:4] == [("AA", "0"), ("AA", "0"), ("AA", "0"), ("AA", "1")]
    assert grid.headers["columns"] == {}  # they are asked for when the rows are drawn
    assert "flights at snapshot 4 · 1/3 partitions" in shown(explorer._rows)


def test_rows_are_sorted_filtered_searched_and_paged(explorer):
    grid = send(explorer, "sort", column="flight", also=False)
    send(explorer, "sort", column="flight", also=False)
    assert explorer.rows == GridQuery(columns=explorer.rows.columns, sorts=(GridSort("flight", descending=True),))
    assert rows(grid, "carrier", "flight")[0] == ("AA", "29")
    send(explorer, "type", column="carrier", text="= DL")
    assert grid.shown["typed"] == {"carrier": "= DL"}
    assert set(rows(grid, "carrier")) == {("DL",)}
    send(explorer, "search", text="ALERT")
    assert (grid.shown["total"], grid.shown["filtered"]) == (60, True)
    send(explorer, "turn", first=40)
    assert (grid.shown["counts"], grid.shown["last"]) == ("rows 41–60 of 60", True)
    send(explorer, "size", rows=50)
    assert (grid.shown["first"], len(grid.shown["rows"])) == (0, 50)
    line = explorer.preview.line
    assert line in shown(explorer).replace("&#x27;", "'").replace("&quot;", '"')
    assert """WHERE "carrier" = 'DL' AND (contains(""" in line
    send(explorer, "clear")
    assert (grid.shown["total"], grid.shown["sorts"]) == (180, [{"column": "flight", "descending": True}])


def test_headers_are_sent_when_they_are_asked_for_and_a_bar_filters(explorer):
    grid = send(explorer, "headers", columns=["carrier", "flight"], serial=1)
    carrier, flight = (grid.headers["columns"][name] for name in ("carrier", "flight"))
    assert (carrier["bars"], carrier["counts"]) == (["AA", "DL", "WN"], [60, 60, 60])
    assert sum(flight["counts"]) == 180
    send(explorer, "choose", column="carrier", bars=[1, 2])
    assert (grid.shown["chosen"], grid.shown["total"]) == ({"carrier": [1, 2]}, 120)
    assert grid.headers == {"serial": 2, "columns": {}}
    send(explorer, "headers", columns=["flight"], serial=1)  # of rows that are gone
    assert grid.headers["columns"] == {}
    send(explorer, "headers", columns=["carrier"], serial=2)
    carrier = grid.headers["columns"]["carrier"]
    assert (carrier["counts"], carrier["of"], carrier["chosen"]) == ([0, 60, 60], [60, 60, 60], [1, 2])
    send(explorer, "choose", column="carrier", bars=[])
    assert grid.shown["total"] == 180


def test_headers_stay_while_only_the_order_or_the_page_changes(explorer):
    grid = send(explorer, "headers", columns=["carrier"], serial=1)
    send(explorer, "turn", first=20)
    send(explorer, "sort", column="note", also=True)
    assert grid.headers["serial"] == 1
    assert list(grid.headers["columns"]) == ["carrier"]


def test_a_large_version_is_read_for_its_headers_only_when_it_is_wanted(session, monkeypatch):
    monkeypatch.setattr(row_grid_model, "MOST_SUMMARIZED", 1)
    grid = explore(session, "flights")._rows.grid
    assert grid.shown["quick"] is False
    assert grid.shown["bytes"].endswith("KiB")


def test_a_value_is_opened_whole(explorer):
    grid = send(explorer, "open", row=2, column="note")
    assert grid.detail == {"row": 2, "column": "note", "type": "string?", "tree": {"text": HOSTILE}}
    send(explorer, "turn", first=20)
    assert grid.detail == {}


def test_nested_values_are_trees():
    assert tree_of({"a": [1, None], "m": [("x", 1)]}) == {
        "text": "struct of 2",
        "items": [
            ["a", {"text": "list of 2", "items": [["0", {"text": "1"}], ["1", {"text": "NULL"}]], "more": ""}],
            ["m", {"text": "map of 1", "items": [["x", {"text": "1"}]], "more": ""}],
        ],
        "more": "",
    }
    many = tree_of(list(range(1000)))
    assert (len(many["items"]), many["more"]) == (500, "… and 500 more")
    assert tree_of("x" * 100_001)["text"].endswith("… (first 100,000 of 100,001 characters)")


def test_markup_goes_to_the_page_as_text_only(explorer):
    """The page makes text nodes of it; it parses nothing as HTML."""
    grid = explorer._rows.grid
    assert rows(grid, "note")[0] == (HOSTILE.replace("\n", "\\n"),)
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "import(", "fetch(", "http"):
        assert word not in str(grid._esm)


def test_a_wrong_value_is_shown_as_an_error_and_rows_stay(explorer):
    send(explorer, "type", column="flight", text="late")
    assert "no int is exactly" in explorer._error.value
    assert explorer._rows.grid.shown["total"] == 180
    send(explorer, "type", column="flight", text="3")
    assert (explorer._error.value, explorer._rows.grid.shown["total"]) == ("", 9)


@pytest.mark.parametrize(
    "message",
    [
        {"do": "drop"}, {"do": "turn", "first": "x"}, {"do": "sort", "column": "nothing"}, {"do": "size", "rows": 0},
        {"do": "turn", "first": -1}, {"do": "open", "row": 99, "column": "note"},
        {"do": "type", "column": "x", "text": ""},
        {"do": "columns", "names": ["x"]}, {"do": "choose", "column": "note", "bars": [1, 2, 3, 4]},
    ],
)  # fmt: skip
def test_what_no_page_sends_changes_nothing(explorer, message):
    before = explorer.rows
    explorer._rows.grid._handle_custom_msg(message, [])
    assert explorer.rows == before or message["do"] == "choose"
    assert explorer._rows.grid.shown["total"] == 180


def test_python_sets_and_reads_which_rows_are_shown(explorer):
    explorer.rows = GridQuery(sorts=(GridSort("flight", descending=True),), rows=5)
    assert len(explorer._rows.grid.shown["rows"]) == 5
    assert explorer.preview.text.splitlines()[2].split()[:2] == ["AA", "29"]
    with pytest.raises(sl.NotFound, match="no column 'x'"):
        explorer.rows = GridQuery(sorts=(GridSort("x"),))
    assert explorer.rows.rows == 5


def test_order_and_filters_stay_in_another_version_and_go_with_the_table(explorer):
    send(explorer, "sort", column="flight", also=False)
    send(explorer, "type", column="carrier", text="= DL")
    explorer.version = 3
    assert explorer._rows.grid.shown["total"] == 30
    assert "VERSION AS OF 3" in explorer.preview.line
    explorer.table = "airports"
    assert explorer.rows.is_first
    assert [each["name"] for each in explorer._rows.grid.columns] == ["faa"]


def test_the_saved_picture_has_the_rows_as_they_were_chosen(explorer):
    assert "<svg" in explorer._static().html
    send(explorer, "type", column="carrier", text="= DL")
    static = explorer._static()
    assert isinstance(static, Preview)
    assert "WHERE &quot;carrier&quot; = &#x27;DL&#x27;" in static.html
    assert "AA" not in static.html.partition("</pre>")[2]


def test_rows_that_cannot_be_read_leave_the_page_that_was_there(session, explorer, tmp_path):
    before = explorer.rows
    for file in (tmp_path / "warehouse").rglob("data/*/*.parquet"):
        file.unlink()
    send(explorer, "sort", column="flight", also=False)
    assert ".parquet" in explorer._error.value
    assert explorer.rows.sorts == before.sorts
    assert explorer._rows.grid in explorer._rows.children
    explorer.version = 2
    assert explorer._rows.children == ()
