"""The explorer without a browser: its state, the first frame, and what stays in a saved notebook."""

from __future__ import annotations

import html
import subprocess
import sys

import pytest
from IPython.utils.capture import capture_output

import sleeper_nb as sl
from sleeper_nb.widgets import explore, pages, timeline
from sleeper_nb.widgets.explorer import TABS
from tests.widgets.conftest import HOSTILE, Page, session_in


def test_it_begins_with_the_newest_version_of_the_table_that_was_asked_for(session):
    explorer = explore(session, "FLIGHTS")
    assert (explorer.table, explorer.version, explorer.before, explorer.tab) == ("flights", 4, None, "rows")
    assert repr(explorer) == "Explorer(table='flights', version=4)"
    assert explore(session, "flights", "savepoint.half-year").version == 3


def test_it_begins_with_the_first_table_when_none_was_asked_for(session):
    assert explore(session).table == session.explore().table == "airports"


def test_session_and_table_open_it(session):
    assert session.explore("flights").start["mode"] == "explorer"
    table = session.table("flights")
    one, before_and_after = table.explore(version=2), table.timeline()
    assert (one.start["mode"], one.table, one.version, one.tab) == ("one table", "flights", 2, "rows")
    assert (before_and_after.tab, before_and_after.before, before_and_after.version) == ("changes", 3, 4)
    assert (timeline(session, "airports").before, timeline(session, "airports").version) == (1, 1)


def test_an_unknown_table_version_or_tab_is_an_error_that_names_others(session):
    with pytest.raises(sl.NotFound, match="did you mean 'flights'"):
        explore(session, "flight")
    explorer = explore(session, "flights")
    with pytest.raises(sl.NotFound, match="available: 1–4"):
        explorer.version = 9
    with pytest.raises(sl.NotFound, match="available: 1–4"):
        explore(session, "flights", 9)
    with pytest.raises(sl.NotFound, match="did you mean 'flights'"):
        explorer.table = "flight"
    with pytest.raises(sl.InvalidInput, match="rows, changes, schema, partitions, history, sql"):
        explorer.tab = "columns"
    with pytest.raises(sl.NotFound, match="did you mean 'flight'"):
        explorer.filters = [{"column": "flght", "text": "1"}]
    assert (explorer.table, explorer.version, explorer.tab, explorer.filters) == ("flights", 4, "rows", ())


def test_what_is_set_is_selected_on_the_page_and_what_the_page_selects_is_read(session):
    explorer = explore(session, "flights")
    seen = []
    explorer.observe(lambda change: seen.append(change["new"]), "selection")
    explorer.version = "savepoint.half-year"
    explorer.before = 2
    explorer.statement = "SELECT 1"
    explorer.tab = "history"
    assert seen[-1] == {
        "table": "flights", "version": 3, "before": 2, "tab": "history", "statement": "SELECT 1",
        "query": {"filters": [], "sorts": [], "search": ""},
    }  # fmt: skip
    sorts = [{"column": "flight", "descending": True}]
    query = {"filters": [{"column": "flight", "text": "> 15"}], "sorts": sorts, "search": "aa"}
    explorer.set_state({"selection": {**explorer.selection, "query": query, "version": 4}})  # as the page sends it
    assert (explorer.version, explorer.statement) == (4, "SELECT 1")
    assert explorer.filters == ({"column": "flight", "text": "> 15"},)
    assert '"flight" > 15' in explorer.where
    assert [row["flight"] for row in explorer.rows()][:3] == [29, 28, 27]
    assert {row["carrier"] for row in explorer.rows()} == {"AA"}


def test_filters_of_bars_are_those_of_a_version_and_go_with_it(session):
    explorer = explore(session, "flights")
    assert (explorer.where, len(explorer.rows())) == ("", 180)
    explorer.filters = [{"column": "carrier", "value": 0}, {"column": "flight", "text": "< 5"}]
    assert len(explorer.rows()) == 15
    assert len(session.table("flights").at(4).scan(where=explorer.where).to_arrow()) == 15
    explorer.version = 3
    assert explorer.filters == ({"column": "flight", "text": "< 5"},)
    explorer.table = "airports"
    assert (explorer.version, explorer.filters, len(explorer.rows())) == (1, (), 0)


def test_the_first_frame_asks_nothing(session):
    start = explore(session, "flights").start
    assert [key.partition(" ")[0] for key in start["answers"]] == ["tables", "open", "schema", "rows"]
    rows = next(each for key, each in start["answers"].items() if key.startswith("rows "))
    assert (len(rows["rows"]), rows["total"], rows["columns"]) == (100, 180, ["carrier", "flight", "note"])
    assert "SELECT" in start["keywords"]
    assert (start["canWrite"], start["mode"]) == (False, "explorer")
    kinds = [key.partition(" ")[0] for key in session.table("flights").timeline().start["answers"]]
    assert kinds == ["tables", "open", "schema"]


def test_keys_come_first_in_the_grid_and_not_more_columns_than_it_asks_for(session):
    names = [f"c{i}" for i in range(60)]
    session.create_table("wide", sl.Schema({"z": "int"}, {"y": "int"}, dict.fromkeys(names, "int?")))
    start = explore(session, "wide").start
    rows = next(each for key, each in start["answers"].items() if key.startswith("rows "))
    assert rows["columns"] == ["z", "y", *names[:38]]


def test_refresh_follows_the_newest_version_and_keeps_an_older_one(session):
    newest, older, sent = explore(session, "flights"), explore(session, "flights"), []
    older.version = 2
    newest.send = sent.append
    session.table("flights").ingest([{"carrier": "AA", "flight": 1, "note": None}])
    session.create_table("weather", sl.Schema(row_keys={"hour": "int"}, values={}))
    newest.refresh()
    older.refresh()
    assert (newest.version, older.version, sent) == (5, 2, [{"do": "refresh"}])
    assert "weather" in Page(newest).ask("tables")["names"]


def test_refresh_leaves_a_table_that_is_gone(session):
    explorer = explore(session, "flights")
    session.rename_table("flights", "departures")
    explorer.refresh()
    assert (explorer.table, explorer.version) == ("airports", 1)
    session.rename_table("airports", "aerodromes")
    session.drop_table("aerodromes", force=True)
    session.drop_table("departures", force=True)
    explorer.refresh()
    assert (explorer.table, explorer.version) == ("", 0)


def test_an_empty_warehouse_says_what_to_type(tmp_path):
    with sl.connect(tmp_path / "empty") as session:
        explorer = explore(session)
        assert (explorer.table, explorer.version, explorer.where) == ("", 0, "")
        assert "%sleeper create --form" in explorer.picture().html
        with pytest.raises(sl.InvalidInput, match="no table yet"):
            explorer.rows()
        session.create_table("t", sl.Schema(row_keys={"k": "int"}, values={}))
        explorer.refresh()
        assert (explorer.table, explorer.version) == ("t", 1)


def test_a_table_that_is_gone_is_said_with_what_to_do(session, monkeypatch):
    explorer = explore(session, "flights")
    page = Page(explorer)
    session.rename_table("flights", "departures")
    monkeypatch.setattr("sleeper_nb.widgets.open_tables._SAME_CLICK", -1)
    failure = page.failure("schema", table="flights", version=4)
    assert "no table 'flights'" in failure["message"]
    assert 'role="alert"' in explorer.picture().html
    assert "departures" in page.ask("tables")["names"]


def test_a_data_file_that_is_gone_is_said_and_the_page_opens(session, tmp_path):
    for file in (tmp_path / "warehouse").rglob("data/*/*.parquet"):
        file.unlink()
    explorer = explore(session, "flights")
    assert [key.partition(" ")[0] for key in explorer.start["answers"]] == ["tables", "open", "schema"]
    query = {"filters": [], "sorts": [], "search": ""}
    asked = {"table": "flights", "version": 4, "query": query, "first": 0, "count": 10, "columns": ["carrier"]}
    assert ".parquet" in Page(explorer).failure("rows", **asked)["message"]
    assert ".parquet" in explorer.picture().text
    explorer.tab = "schema"
    assert "flights at snapshot 4" in explorer.picture().text


def test_no_value_of_a_table_becomes_markup(session):
    explorer = timeline(session, "flights")
    for tab in TABS:
        explorer.tab = tab
        assert "<script" not in explorer.picture().html
    assert "&lt;script&gt;" in explorer.picture().html
    assert "<script" not in pages(session.sql("SELECT * FROM flights", engine="duckdb")).picture().html


def test_displaying_it_gives_a_static_picture_first_and_then_the_widget(session, shell):
    shell.push({"session": session, "explore": explore})
    with capture_output() as captured:
        shell.run_cell('x = explore(session, "flights")\nx').raise_error()
    static, live = (output.data for output in captured.outputs)
    assert set(static) == {"text/html", "text/plain"}
    assert "<svg role=" in static["text/html"]
    assert static["text/plain"] == "flights at snapshot 4: 180 rows, 9 files, 3 partitions"
    assert live["text/plain"] == "Explorer(table='flights', version=4)"
    assert "application/vnd.jupyter.widget-view+json" in live


@pytest.mark.parametrize(
    ("tab", "says"),
    [
        ("rows", "First 5 of 90 rows"),
        ("changes", "60 added"),
        ("schema", "Fields of flights at snapshot 3"),
        ("partitions", "[DL, UA)"),
        ("history", "half-year"),
        ("sql", "SELECT carrier, 40 + 2 AS n"),
    ],
)
def test_the_picture_that_stays_is_that_of_the_tab_and_of_the_version(session, tab, says):
    widget = explore(session, "flights", 3)
    widget.before = 2
    Page(widget).ask("sql", table="flights", version=3, text="SELECT carrier, 40 + 2 AS n FROM flights")
    widget.statement, widget.tab = "SELECT carrier, 40 + 2 AS n FROM flights", tab
    kept = widget.picture()
    assert says in html.unescape(kept.html)
    assert "<b>flights</b>" in kept.html
    assert kept.text.startswith("flights " + ("from snapshot 2 to 3" if tab == "changes" else "at snapshot 3: 90 rows"))


def test_the_picture_has_the_rows_that_the_filters_leave(session):
    widget = explore(session, "flights")
    widget.filters = [{"column": "flight", "text": "28"}]
    assert widget.picture().html.count(">28</td>") == 3


def test_the_picture_that_stays_has_a_bounded_size(session):
    table = session.create_table("wide", sl.Schema({"k": "int"}, values={"note": "string"}), list(range(0, 2000, 10)))
    table.ingest([{"k": k, "note": HOSTILE * 50} for k in range(2000)])
    widget = timeline(session, "wide")
    for tab in TABS:
        widget.tab = tab
        assert len(widget.picture().html.encode()) < 100_000


def test_one_warehouse_gives_one_picture(tmp_path):
    pictures = []
    for name in ("a", "b"):
        with session_in(tmp_path / name) as session:
            widget = timeline(session, "flights")
            found = []
            for tab in TABS:
                widget.tab = tab
                found.append((widget.picture().html, widget.picture().text))
            pictures.append(found)
    assert pictures[0] == pictures[1]


def test_closing_it_stops_what_it_reads(session):
    explorer = explore(session, "flights")
    explorer.close()
    assert explorer.comm is None


def test_neither_the_answers_nor_the_widget_start_spark_and_the_answers_need_no_widget(tmp_path):
    program = f"""
import sys
import sleeper_nb as sl
session = sl.connect({str(tmp_path / "w")!r})
table = session.create_table("t", sl.Schema(row_keys={{"k": "int"}}, values={{}}), [10])
table.ingest([{{"k": k}} for k in range(20)])
from sleeper_nb.progress import Watch
from sleeper_nb.widgets.change_answers import ChangeAnswers
from sleeper_nb.widgets.explorer_answers import ExplorerAnswers, Notebook
from sleeper_nb.widgets.keyspace_answers import KeySpaceAnswers
from sleeper_nb.widgets.open_tables import OpenTables
from sleeper_nb.widgets.sql_answers import SqlAnswers
tables = OpenTables(session)
own = ExplorerAnswers(tables, Notebook())
assert own.schema({{"table": "t", "version": 2}}, Watch())["rows"] == 20
assert list(ChangeAnswers(tables).changes({{"table": "t", "before": 1, "after": 2, "asked": []}}, Watch()))
assert list(KeySpaceAnswers(tables).keyspace({{"table": "t", "version": 2}}, Watch()))
assert SqlAnswers(tables).sql({{"table": "t", "version": 2, "text": "FROM t"}}, Watch())["kind"] == "rows"
assert not session.inspect.job_progress().look().running
from sleeper_nb.widgets.table_draft import TableDraft
assert not TableDraft().problems(())
assert not {{"ipywidgets", "IPython", "pyspark"}} & set(sys.modules)
from sleeper_nb.widgets import explore
x = explore(session)
x.version = 1
x.picture()
assert not {{"pyspark", "py4j"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
