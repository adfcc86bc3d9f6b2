"""The explorer without a browser: what it offers, says and shows, and that nothing in a table can break out of it."""

from __future__ import annotations

import html
import subprocess
import sys
from datetime import timedelta

import pytest
from IPython.utils.capture import capture_output

import sleeper_nb as sl
from sleeper_nb.widgets import explore
from sleeper_nb.widgets.explorer_model import TABS, ExploreModel
from tests.widgets.conftest import HOSTILE, buttons, session_in, shown


def test_it_begins_with_the_newest_version_of_the_table_that_was_asked_for(session):
    explorer = explore(session, "FLIGHTS")
    assert (explorer.table, explorer.version, explorer.tab) == ("flights", 4, "rows")
    assert explorer.preview.line == "%sleeper scan flights@4"
    assert explorer.preview.line in shown(explorer)


def test_it_begins_with_the_first_table_when_none_was_asked_for(session):
    assert explore(session).table == "airports"


def test_an_unknown_table_version_or_tab_is_an_error_that_names_others(session):
    with pytest.raises(sl.NotFound, match="did you mean 'flights'"):
        explore(session, "flight")
    explorer = explore(session, "flights")
    with pytest.raises(sl.NotFound, match="available: 1–4"):
        explorer.version = 9
    with pytest.raises(sl.InvalidInput, match="schema, rows, partitions, files, history, savepoints, sql"):
        explorer.tab = "columns"
    assert (explorer.table, explorer.version, explorer.tab) == ("flights", 4, "rows")


def test_versions_are_the_snapshots_in_order_and_say_what_they_did(session):
    labels = [version.label for version in ExploreModel(session).open("flights").versions]
    assert labels == [
        "snapshot 1 · 2026-01-01 00:00 UTC · create",
        "snapshot 2 · 2026-01-01 01:00 UTC · ingest +30 rows",
        "snapshot 3 · 2026-01-01 02:00 UTC · ingest +60 rows · savepoint half-year",
        "snapshot 4 · 2026-01-01 03:00 UTC · ingest +90 rows",
    ]


def test_a_version_that_only_a_savepoint_holds_can_still_be_chosen(session):
    session.table("flights").maintenance.expire(
        dry_run=False, time_retained=timedelta(0), num_retained_min=1, num_retained_max=1
    )
    explorer = explore(session, "flights")
    assert [version.number for version in ExploreModel(session).open("flights").versions] == [3, 4]
    explorer.version = 3
    assert "at savepoint 1 'half-year', snapshot 3" in explorer.preview.text


@pytest.mark.parametrize(
    ("tab", "line", "says"),
    [
        ("schema", "%sleeper describe flights@3 --fields", "fields of flights at snapshot 3"),
        ("rows", "%sleeper scan flights@3", "flights at snapshot 3"),
        ("files", "%sleeper files flights@3", "files of flights at snapshot 3"),
        ("partitions", "%sleeper partitions flights@3", "[DL, UA)"),
        ("history", "%sleeper history flights", "half-year"),
        ("savepoints", "%sleeper savepoints flights", "half-year"),
    ],
)
def test_each_tab_shows_the_version_and_the_line_that_gives_the_same(session, tab, line, says):
    explorer = explore(session, "flights")
    explorer.version = "savepoint.half-year"
    explorer.tab = tab
    assert explorer.version == 3
    assert explorer.preview.line == line
    assert says in explorer.preview.text
    assert says in shown(explorer)
    assert line in shown(explorer)


def test_what_the_controls_are_set_to_is_what_is_shown(session):
    explorer = explore(session, "flights")
    seen = []
    explorer.observe(lambda change: seen.append(change["new"].line), "preview")
    explorer._slider.value = 2
    explorer._tabs.selected_index = 2
    explorer._picker.value = "airports"
    assert (explorer.table, explorer.version, explorer.tab) == ("airports", 1, "partitions")
    assert seen == [
        "%sleeper scan flights@2",
        "%sleeper partitions flights@2",
        "%sleeper partitions airports@1",
    ]


def test_the_controls_follow_what_a_program_sets(session):
    explorer = explore(session)
    explorer.table = "flights"
    explorer.version = 2
    explorer.tab = "history"
    assert (explorer._picker.value, explorer._slider.value, explorer._tabs.selected_index) == (
        "flights",
        2,
        TABS.index("history"),
    )


def test_a_table_with_one_version_has_no_slider(session):
    explorer = explore(session, "airports")
    assert explorer._slider not in explorer._travel.children
    explorer.table = "flights"
    assert explorer._slider in explorer._travel.children


def test_refresh_follows_the_newest_version_and_keeps_an_older_one(session):
    newest, older = explore(session, "flights"), explore(session, "flights")
    older.version = 2
    session.table("flights").ingest([{"carrier": "AA", "flight": 1, "note": None}])
    session.create_table("weather", sl.Schema(row_keys={"hour": "int"}, values={}))
    newest.refresh()
    older._again.click()
    assert (newest.version, older.version) == (5, 2)
    assert older._slider.options[-1][1] == 5
    assert ("weather", "weather") in older._picker.options


def test_a_version_committed_after_the_last_look_can_be_set(session):
    explorer = explore(session, "flights")
    session.table("flights").ingest([{"carrier": "AA", "flight": 1, "note": None}])
    explorer.version = 5
    assert explorer._slider.value == 5


def test_an_error_behind_a_control_is_shown_and_the_control_goes_back(session):
    explorer = explore(session, "flights")
    session.table("flights").maintenance.expire(
        dry_run=False, time_retained=timedelta(0), num_retained_min=1, num_retained_max=1
    )
    explorer._slider.value = 2
    assert "no snapshot 2 of table" in explorer._error.value
    assert 'role="alert"' in explorer._error.value
    assert (explorer.version, explorer._slider.value) == (4, 4)
    explorer.version = 3
    assert explorer._error.value == ""


def test_a_data_file_that_is_gone_is_said_and_not_raised(session, tmp_path):
    explorer = explore(session, "flights")
    for file in (tmp_path / "warehouse").rglob("data/*/*.parquet"):
        file.unlink()
    explorer.version = 3
    assert 'role="alert"' in explorer._error.value
    assert ".parquet" in explorer.preview.text
    explorer.tab = "files"
    assert explorer._error.value == ""
    assert "files of flights at snapshot 3" in explorer.preview.text


def test_an_empty_warehouse_says_what_to_type(tmp_path):
    with sl.connect(tmp_path / "empty") as session:
        explorer = explore(session)
        assert explorer.table == ""
        assert "There is no table yet." in shown(explorer)
        assert "%sleeper create --form" in shown(explorer)
        assert explorer._tabs not in explorer._right.children
        assert {step.disabled for step in buttons(explorer) if step.tooltip.endswith(" table")} == {True}
        session.create_table("t", sl.Schema(row_keys={"k": "int"}, values={}))
        explorer.refresh()
        assert (explorer.table, explorer.version) == ("t", 1)
        assert explorer._tabs in explorer._right.children
        assert {step.disabled for step in buttons(explorer) if step.tooltip.endswith(" table")} == {False}


def test_a_table_that_is_gone_leaves_nothing_that_looks_valid(session):
    explorer = explore(session, "flights")
    session.rename_table("flights", "departures")
    explorer._tabs.selected_index = TABS.index("files")
    assert "no table &#x27;flights&#x27; any more: it was renamed or deleted" in explorer._error.value
    assert "press Refresh" in explorer._error.value
    assert explorer._travel.children == ()
    explorer._tabs.selected_index = TABS.index("rows")
    explorer._slider.value = 2
    assert "press Refresh" in explorer._error.value
    assert "<td" not in shown(explorer._tabs)
    assert "%sleeper" not in explorer.preview.line
    explorer._again.click()
    assert (explorer.table, explorer._error.value) == ("airports", "")
    assert "departures" in [name for name, _ in explorer._picker.options]


def test_no_value_of_a_table_becomes_markup(session):
    explorer = explore(session, "flights")
    for tab in TABS:
        explorer.tab = tab
        assert "<script" not in shown(explorer)
    assert "<script" not in ExploreModel(session).open("flights").static(4).html
    assert "&lt;script&gt;" in shown(explorer)


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


def test_a_table_of_the_list_that_is_gone_says_to_refresh_and_what_is_shown_stays(session):
    explorer = explore(session, "flights")
    session.rename_table("airports", "aerodromes")
    explorer._picker.value = "airports"
    assert "no table &#x27;airports&#x27;" in explorer._error.value
    assert "press Refresh: a table of the list was renamed" in explorer._error.value
    assert (explorer.table, explorer.preview.line) == ("flights", "%sleeper scan flights@4")
    explorer._again.click()
    assert ("aerodromes", "aerodromes") in explorer._picker.options


@pytest.mark.parametrize(
    ("tab", "says"),
    [
        ("files", "files of flights at snapshot 3"),
        ("history", "%sleeper history flights"),
        ("schema", "fields of flights at snapshot 3"),
        ("partitions", "--region"),
        ("sql", "SELECT 40 + 2"),
    ],
)
def test_the_picture_that_stays_is_that_of_the_tab(session, tab, says):
    widget = explore(session, "flights")
    widget.version, widget.tab, widget.statement = 3, tab, "SELECT 40 + 2"
    widget.partition = session.table("flights").inspect.partitions()[1]["partition_id"]
    kept = widget._display_()
    assert says in html.unescape(kept.html)
    assert "<b>flights</b>" in kept.html
    assert kept.text == "flights at snapshot 3: 90 rows, 6 files, 3 partitions"


def test_the_picture_that_stays_has_a_bounded_size(session):
    table = session.create_table("wide", sl.Schema({"k": "int"}, values={"note": "string"}), list(range(0, 2000, 10)))
    table.ingest([{"k": k, "note": HOSTILE * 50} for k in range(2000)])
    widget = explore(session, "wide")
    for tab in TABS:
        widget.tab = tab
        assert len(widget._display_().html.encode()) < 70_000


def test_marimo_which_shows_no_ipywidgets_gets_the_static_picture(session):
    widget = explore(session, "flights")
    before = widget._display_()._repr_html_()
    assert "<svg" in before
    widget.version = 3
    assert widget._display_()._repr_html_() != before
    assert "snapshot 3" in widget._display_()._repr_html_()


def test_one_warehouse_gives_one_picture(tmp_path):
    pictures = []
    for name in ("a", "b"):
        with session_in(tmp_path / name) as session:
            opened = ExploreModel(session).open("flights")
            tabs = [opened.at(4).preview(tab) for tab in TABS]
            pictures.append([opened.static(4), opened.timeline(3), *tabs])
    assert pictures[0] == pictures[1]


def test_neither_the_model_nor_the_widget_starts_spark_and_the_model_needs_no_widget(tmp_path):
    program = f"""
import sys
import sleeper_nb as sl
session = sl.connect({str(tmp_path / "w")!r})
table = session.create_table("t", sl.Schema(row_keys={{"k": "int"}}, values={{}}), [10])
table.ingest([{{"k": k}} for k in range(20)])
from sleeper_nb.widgets.explorer_model import TABS, ExploreModel, TABS
opened = ExploreModel(session).open("t")
for tab in TABS:
    opened.at(2).preview(tab)
opened.static(2)
assert not session.inspect.job_progress().look().running
from sleeper_nb.widgets.pager_model import PagesModel
assert PagesModel(session.sql("SELECT * FROM t", engine="duckdb")).page(0, 5).first == 0
from sleeper_nb.widgets.table_draft import TableDraft
assert not TableDraft().problems(())
assert not {{"ipywidgets", "IPython", "pyspark"}} & set(sys.modules)
from sleeper_nb.widgets import explore
x = explore(session)
x.version = 1
assert not {{"pyspark", "py4j"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
