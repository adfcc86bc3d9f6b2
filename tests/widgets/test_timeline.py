"""The timeline without a browser: what its handles compare, what it reads and when, and what its buttons do."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from IPython.utils.capture import capture_output

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.widgets import timeline, version_change
from sleeper_nb.widgets.change_html import ShownRow, ShownRows
from sleeper_nb.widgets.timeline_widget import Timeline
from sleeper_nb.widgets.version_change import VersionPair
from tests.widgets.conftest import buttons, shown

HOSTILE = "<script>alert('x')</script>&\"\n"


@pytest.fixture
def session(tmp_path):
    clock = ManualClock()
    with sl.connect(tmp_path / "w", clock=clock, author="ada") as opened:
        table = opened.create_table("trips", sl.Schema({"city": "string"}, values={"note": "string?"}), ["m"])
        for month in (1, 2, 3):
            clock.advance(timedelta(hours=1))
            table.ingest([{"city": c, "note": HOSTILE} for c in "az" * month], message=HOSTILE)
        table.create_savepoint("half-year", HOSTILE, snapshot=3)
        yield opened


@pytest.fixture
def fares(tmp_path):
    """A table with a bad load: 100 rows, of which two change and one goes, and 300 that come."""
    with sl.connect(tmp_path / "fares") as opened:
        schema = sl.Schema({"k": "int"}, values={"fare": "double?", "note": "string?"})
        table = opened.create_table("fares", schema, [50])
        table.ingest([{"k": k, "fare": k / 2, "note": "ok" if k % 4 else None} for k in range(100)])
        table.update({"fare": "-fare"}, "k IN (3, 70)")
        table.delete("k = 8")
        table.ingest([{"k": 200 + k, "fare": None, "note": HOSTILE} for k in range(300)])
        yield opened


def at_once(session, table):
    """Return a timeline that reads in this thread."""
    return Timeline(session, table, background=lambda work: work())


def content(widget):
    return widget._page._content.value


def pressed(widget, name):
    next(each for each in buttons(widget) if each.description == name).click()


def test_it_begins_with_the_last_two_versions(session):
    widget = at_once(session, "TRIPS")
    assert (widget.table, widget.before, widget.after) == ("trips", 3, 4)
    assert widget.difference.line == "%sleeper diff trips 3 4 --images"
    assert session.table("trips").diff(3, 4, images=True).grid().text() == widget.difference.text
    assert widget._page.command.line == "%sleeper diff trips 3 4 --rows --images"
    assert "savepoint half-year → snapshot 4" in shown(widget)
    assert "outline: snapshot 3" in shown(widget)
    assert "all 6 rows that differ" in content(widget)


def test_handles_and_names_move_it_and_traits_can_be_watched(session):
    widget = at_once(session, "trips")
    seen = []
    widget.observe(lambda change: seen.append(change["new"].line), "difference")
    widget._handles.value = (2, 3)
    assert (widget.before, widget.after, seen[-1]) == (2, 3, "%sleeper diff trips 2 3 --images")
    widget.after = "savepoint.half-year"
    widget.before = 1
    assert (widget.before, widget.after, widget._handles.value) == (1, 3, (1, 3))
    with pytest.raises(sl.NotFound, match="available: 1–4"):
        widget.after = 9


def test_what_changed_is_read_in_the_background(session):
    widget = timeline(session, "trips")
    assert widget.wait(60).is_complete
    assert "all 6 rows that differ" in content(widget)


def test_rows_differ_by_key_in_words_and_colours_and_side_by_side(fares):
    widget = at_once(fares, "fares")
    widget.before = 2
    assert "+300 added" in shown(widget)
    assert "of a key with several rows, the old ones count as deleted" in shown(widget)
    assert widget.difference.text.count("by key: 300 inserted, 2 updated, 1 deleted") == 1
    assert "first 200 of 303 rows that differ" in content(widget)
    labels = [name for name, _ in widget._page.kinds.options]
    assert labels == ["all 303", "added 300", "removed 1", "changed 2"]
    widget._page.kinds.value = "changed"
    rows = ShownRows.of(widget.change, "changed")
    assert [[each.value for each in row.cells] for row in rows.rows] == [[3, 1.5, "ok"], [70, 35.0, "ok"]]
    assert [row.changed for row in rows.rows] == [(False, True, False)] * 2
    assert "all 2 changed rows" in content(widget)
    assert re.search(r"<del[^>]*>1.5</del> → <ins[^>]*>-1.5</ins>", content(widget))
    assert content(widget).count("~ changed") == 2
    assert "1.5 → -1.5" in rows.text()
    widget.kind = "removed"
    assert "− removed" in content(widget)
    assert ">8<" in content(widget)
    widget.kind = "all"
    assert content(widget).count("<tr") == 201
    places = [row.cells[0].value for row in ShownRows.of(widget.change, "all").rows]
    assert places[:3] == [3, 8, 70]


def test_columns_are_counted_at_both_versions(fares):
    widget = at_once(fares, "fares")
    widget.before, widget.view = 2, "columns"
    fare, note = widget.change.columns[1:]
    assert (fare.before.nulls, fare.after.nulls, fare.before.distinct, fare.after.distinct) == (0, 300, 100, 99)
    assert (note.before.distinct, note.after.distinct) == (1, 2)
    assert "0 → <b>300</b>" in content(widget)
    assert content(widget).count("<svg") == 3
    assert widget._page.command.line == "%sleeper diff fares 2 5 --images"
    assert content(widget).count("<td") == 18
    assert "<script" not in content(widget)


def test_files_and_partitions_are_named(fares):
    widget = at_once(fares, "fares")
    widget.before, widget.view = 2, "files"
    partitions = {each.keys: each for each in widget.change.files.partitions}
    assert len(partitions) == 2
    assert sum(each.rows_after for each in partitions.values()) == 399
    diff = fares.table("fares").diff(2, 5)
    assert (widget.change.files.added, widget.change.files.removed) == (diff.files_added, diff.files_removed)
    assert "2 partitions with other files, of 2" in content(widget)
    for file in diff.files_added:
        assert file.filename.rpartition("/")[2] in content(widget)


def test_of_many_columns_keys_and_changed_ones_are_first_and_others_are_turned_to(tmp_path):
    names = [f"c{number}" for number in range(60)]
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("wide", sl.Schema({"k": "int"}, values=dict.fromkeys(names, "int?")))
        table.ingest([{"k": k, **dict.fromkeys(names, k)} for k in range(5)])
        table.update({"c57": "c57 + 1"}, "k = 2")
        widget = at_once(session, "wide")
        assert "24 of 61 columns, changed ones first" in content(widget)
        assert "<ins" in content(widget)
        widget.view = "columns"
        assert [each.column.name for each in widget.change.columns[:3]] == ["k", "c57", "c0"]
        assert "columns 1–24 of 61" in content(widget)
        pressed(widget, "Next columns")
        pressed(widget, "Next columns")
        assert "columns 49–61 of 61" in content(widget)
        assert widget._page.turns[1].disabled
        pressed(widget, "Previous columns")
        assert "columns 25–48 of 61" in content(widget)
        widget.view = "rows"
        assert "<ins" in content(widget)


def test_while_it_reads_it_says_so_and_shows_nothing_of_other_versions(session):
    waiting = []
    widget = Timeline(session, "trips", background=waiting.append)
    assert "loading: comparing snapshot 3 with snapshot 4" in shown(widget)
    assert (widget.change, widget.difference.line, widget._page.command in widget._page.children) == (None, "", False)
    widget._handles.value = (1, 2)
    assert "loading: comparing snapshot 1 with snapshot 2" in shown(widget)
    seen = []
    widget.observe(lambda change: change["new"] and seen.append((change["new"].before, change["new"].after)), "change")
    assert len(waiting) == 1
    waiting.pop()()
    assert set(seen) == {(1, 2)}
    assert "loading" not in shown(widget)
    assert widget._page.command.line.startswith("%sleeper diff trips 1 2")
    widget._handles.value = (2, 3)
    assert "%sleeper diff trips 1 2" not in shown(widget)
    assert widget._page.children == (widget._page._head,)


def test_handles_that_move_while_it_reads_stop_what_was_begun(session, monkeypatch):
    widget = at_once(session, "trips")
    read, finished, with_rows = [], [], VersionPair.with_rows

    def moving(pair, change, progress):
        read.append((change.before, change.after))
        if len(read) == 1:
            widget._handles.value = (2, 3)
        found = with_rows(pair, change, progress)
        finished.append((found.before, found.after))
        return found

    monkeypatch.setattr(VersionPair, "with_rows", moving)
    seen = []
    widget.observe(lambda change: seen.append(change["new"]), "change")
    widget._handles.value = (1, 2)
    assert (read, finished) == ([(1, 2), (2, 3)], [(2, 3)])
    assert (widget.change.before, widget.change.after, widget._handles.value) == (2, 3, (2, 3))
    assert [each.before for each in seen if each is not None and each.rows is not None] == [2, 2]


def test_large_versions_are_read_when_the_user_asks(session, monkeypatch):
    monkeypatch.setattr(version_change, "READ_UNASKED", -1)
    widget = at_once(session, "trips")
    assert "Compare the rows (reads up to 0 B)" in shown(widget)
    assert widget.difference.line == ""
    widget.view = "columns"
    assert "Count the columns (reads up to" in shown(widget)
    widget._page.ask.click()
    assert "distinct values" in content(widget)
    widget.view = "rows"
    widget._page.ask.click()
    assert "all 6 rows that differ" in content(widget)


def test_versions_that_cannot_be_compared_or_read_say_so_in_place(fares, monkeypatch):
    waiting = []
    widget = Timeline(fares, "fares", background=waiting.append)
    widget.before = 2

    def broken(*_):
        raise sl.StorageError("part-1.parquet is gone", hint="look <b>there</b>")

    with monkeypatch.context() as patch:
        patch.setattr(VersionPair, "with_rows", broken)
        waiting.pop()()
    assert "part-1.parquet is gone" in widget._error.value
    assert "look &lt;b&gt;there" in widget._error.value
    assert "loading" not in shown(widget)
    widget.view = "files"
    assert "with other files" in content(widget)
    widget._again.click()
    assert widget._error.value == ""
    waiting.pop()()
    assert widget.change.is_complete


def test_buttons_that_have_names_move_each_handle_as_far_as_the_other_and_the_ends(session):
    widget = at_once(session, "trips")
    named = {button.tooltip: button.click for button in buttons(widget)}
    moves = {
        "Previous version on the left": (2, 4),
        "Next version on the left": (3, 4),
        "Next version on the right": (3, 4),
        "Previous version on the right": (3, 3),
    }
    for name, ends in moves.items():
        named[name]()
        assert (widget.before, widget.after) == ends
    named["Previous version on the right"]()
    named["Next version on the left"]()
    assert (widget.before, widget.after) == (3, 3)


def test_a_rollback_shows_its_plan_first_and_then_the_new_state(fares):
    widget, table = at_once(fares, "fares"), fares.table("fares")
    widget.before = 2
    pressed(widget, "Roll back…")
    assert widget.rollback_line == "%sleeper rollback fares 2"
    assert "would roll back to snapshot 2" in shown(widget)
    assert widget._plan._command.line == "%sleeper rollback fares 2"
    assert table.history()[0].id == 5
    pressed(widget, "Cancel")
    assert widget._plan.children == ()
    pressed(widget, "Roll back…")
    widget.after = 4
    assert (widget.rollback_line, widget._plan.children) == ("", ())
    widget._plan.confirm.click()
    assert table.history()[0].id == 5
    pressed(widget, "Roll back…")
    pressed(widget, "Roll back to snapshot 2")
    widget._plan.confirm.click()
    assert [each.id for each in table.history()][:2] == [6, 5]
    assert (widget.before, widget.after, widget._handles.value) == (5, 6, (5, 6))
    assert "snapshot 6: rolled back to snapshot 2; %sleeper rollback fares 5 undoes it" in widget._done.value
    assert (widget.rollback_line, widget._plan.children) == ("", ())
    assert widget.change.rows.counts == (1, 2, 300)
    assert sorted(
        fares.sql("SELECT count(*), sum(fare) FROM fares", engine="duckdb").to_arrow().to_pylist()[0].values()
    )


def test_a_rollback_that_was_planned_before_another_commit_is_planned_again(fares):
    widget, table = at_once(fares, "fares"), fares.table("fares")
    widget.before = 2
    pressed(widget, "Roll back…")
    table.ingest([{"k": 1, "fare": 1.0, "note": "new"}])
    pressed(widget, "Roll back to snapshot 2")
    assert "snapshot 6 was committed after this plan was made, so nothing was rolled back" in widget._error.value
    assert table.history()[0].id == 6
    assert ">400<" in widget._plan._plan.value
    pressed(widget, "Roll back to snapshot 2")
    assert (table.history()[0].id, widget.before, widget.after) == (7, 6, 7)


def test_a_rollback_to_what_the_table_has_already_cannot_be_confirmed(session):
    widget = at_once(session, "trips")
    widget.before = 4
    pressed(widget, "Roll back…")
    assert "nothing to do" in shown(widget)
    assert widget._plan.confirm.disabled
    widget._plan.confirm.click()
    assert session.table("trips").history()[0].id == 4


def test_a_savepoint_shows_its_plan_first_and_then_the_new_state(session):
    widget, table = at_once(session, "trips"), session.table("trips")
    pressed(widget, "Create savepoint…")
    assert widget.savepoint_line == "%sleeper create-savepoint trips@4"
    assert "would pin snapshot 4: 12 rows" in shown(widget)
    widget._saved.value = 3
    widget._name.value = "v1"
    assert "&#x27;v1&#x27; is not a valid savepoint name" in shown(widget)
    assert widget._plan.confirm.disabled
    assert widget.savepoint_line == ""
    widget._name.value = HOSTILE
    assert "<script" not in widget._plan._plan.value + widget._plan._command.line
    widget._name.value = "half-year"
    pressed(widget, "Create savepoint half-year")
    assert "was used before" in widget._error.value
    widget._name.value = " before-fix "
    assert widget._error.value == ""
    assert widget.savepoint_line == "%sleeper create-savepoint trips@3 --name before-fix"
    assert len(table.savepoints()) == 1
    pressed(widget, "Create savepoint before-fix")
    widget._plan.confirm.click()
    assert [(each.name, each.saved_snapshot_id) for each in table.savepoints()] == [("half-year", 3), ("before-fix", 3)]
    assert "savepoint before-fix pins snapshot 3" in widget._done.value
    assert "savepoint before-fix" in widget._label.value
    assert (widget.savepoint_line, widget._plan.children) == ("", ())
    pressed(widget, "Create savepoint…")
    pressed(widget, "Create savepoint of snapshot 4")
    assert table.savepoints()[-1].name is None


@pytest.mark.parametrize("name", ["Roll back…", "Create savepoint…"])
def test_a_line_does_what_its_button_does(session, shell, name):
    widget = at_once(session, "trips")
    widget.before = 2
    pressed(widget, name)
    line = widget.rollback_line or widget.savepoint_line
    shell.push({"session": session})
    shell.run_line_magic("sleeper", "use $session")
    shell.run_line_magic("sleeper", line.removeprefix("%sleeper "))
    done = (session.table("trips").history()[0].id, len(session.table("trips").savepoints()))
    assert done == ((5, 1) if name == "Roll back…" else (4, 2))


def test_a_handle_at_the_newest_version_follows_it(session):
    widget, table = at_once(session, "trips"), session.table("trips")
    table.ingest([{"city": "b", "note": None}])
    widget._again.click()
    assert (widget.before, widget.after) == (3, 5)
    table.maintenance.expire(dry_run=False, num_retained_min=1, num_retained_max=1)
    widget.after = 3
    table.delete_savepoint("half-year", force=True)
    widget._again.click()
    assert (widget.before, widget.after) == (5, 5)


def test_what_is_saved_is_a_picture_and_nothing_breaks_out(session, shell):
    widget = at_once(session, "trips")
    shell.push({"widget": widget})
    with capture_output() as said:
        shell.run_cell("widget").raise_error()
    kept, live = said.outputs
    assert "trips from snapshot 3 to 4" in kept.data["text/plain"]
    assert kept.data["text/html"].count("<svg") >= 1
    assert live.data["text/plain"] == "Timeline(table='trips', before=3, after=4)"
    assert "+ added" in kept.data["text/html"]
    assert "distinct values" in kept.data["text/html"]
    assert len(kept.data["text/html"]) < 65_536
    assert "<script" not in kept.data["text/html"] + shown(widget).replace("<style>", "")


def test_a_saved_picture_that_was_made_too_early_is_replaced(session, shell, monkeypatch):
    waiting, updated = [], []
    widget = Timeline(session, "trips", background=waiting.append)
    monkeypatch.setattr("sleeper_nb.widgets.timeline_widget._PATIENCE", 0)
    shell.push({"widget": widget})
    with capture_output() as said:
        shell.run_cell("widget").raise_error()
    assert "loading: comparing snapshot 3 with snapshot 4" in said.outputs[0].data["text/html"]
    monkeypatch.setattr(widget._kept[1], "update", lambda bundle, **_: updated.append(bundle))
    waiting.pop()()
    (bundle,) = updated
    assert "+ added" in bundle["text/html"]
    assert "loading" not in bundle["text/html"]


def test_a_large_change_is_saved_small_and_a_closed_timeline_reads_no_more(tmp_path):
    with sl.connect(tmp_path / "w") as session:
        names = [f"c{number}" for number in range(30)]
        table = session.create_table("wide", sl.Schema({"k": "int"}, values=dict.fromkeys(names, "string")))
        table.ingest([{"k": k, **dict.fromkeys(names, f"{k} {'x' * 500}")} for k in range(100)])
        waiting = []
        widget = Timeline(session, "wide", background=waiting.append)
        waiting.pop()()
        assert len(widget._static().html.encode()) < 65_536
        assert "first " in widget._static().html
        widget.refresh()
        widget.close()
        waiting.pop()()
        assert widget.change is None


def test_a_table_with_one_version_has_no_handles(tmp_path):
    with sl.connect(tmp_path / "w") as session:
        session.create_table("new", sl.Schema({"k": "string"}))
        widget = at_once(session, "new")
        assert (widget.before, widget.after) == (1, 1)
        assert widget._handles not in widget._travel.children
        assert widget._back.disabled
        with pytest.raises(sl.InvalidInput, match="nothing to roll back to"):
            widget.plan_rollback()
        assert "no row differs" in content(widget)
        session.table("new").ingest([{"k": "a"}])
        widget.refresh()
        assert not widget._back.disabled


def test_a_table_that_is_gone_leaves_nothing_that_looks_valid(session):
    widget = at_once(session, "trips")
    widget.plan_rollback()
    session.rename_table("trips", "rides")
    widget._again.click()
    assert "no table &#x27;trips&#x27; any more: it was renamed or deleted" in widget._error.value
    assert "%sleeper timeline NAME opens one" in widget._error.value
    assert (widget._page.children, widget._plan.children) == ((), ())
    assert (widget._travel.children, widget._back.disabled, widget._save.disabled) == ((), True, True)
    assert (widget.difference.line, widget.change, widget.rollback_line) == ("", None, "")
    session.rename_table("rides", "trips")
    widget._again.click()
    assert widget._error.value == ""
    assert widget.difference.line == "%sleeper diff trips 3 4 --images"
    assert widget._handles in widget._travel.children


def test_a_handle_that_is_moved_when_the_table_is_gone_says_so_too(session):
    widget = at_once(session, "trips")
    session.rename_table("trips", "rides")
    widget._handles.value = (1, 2)
    assert "any more" in widget._error.value
    assert (widget._page.children, widget._travel.children) == ((), ())


def test_it_is_the_value_of_its_command(shell, tmp_path):
    shell.run_line_magic("sleeper", "use ./w")
    shell.run_cell_magic("sleeper", "create t", "id LONG KEY")
    assert repr(shell.run_line_magic("sleeper", "timeline t")) == "Timeline(table='t', before=1, after=1)"


@pytest.mark.parametrize(("kind", "said"), [("all", "1 row differs"), ("changed", "1 changed row")])
def test_one_row_is_counted_as_one(kind, said):
    row = ShownRow("changed", (1,))
    assert ShownRows(("k",), 1, (row,), 1, kind).counts == said
