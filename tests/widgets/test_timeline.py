"""The timeline without a browser: what its handles compare, what it says, and that nothing in a table can break out."""

from __future__ import annotations

from datetime import timedelta

import pytest
from IPython.utils.capture import capture_output

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.widgets import explorer_model as model
from sleeper_nb.widgets import timeline
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


def test_it_begins_with_the_last_two_versions(session):
    widget = timeline(session, "TRIPS")
    assert (widget.table, widget.before, widget.after) == ("trips", 3, 4)
    assert widget.difference.line == "%sleeper diff trips 3 4"
    assert session.table("trips").diff(3, 4).grid().text() == widget.difference.text
    assert widget.preview.line == "%sleeper scan trips@4"
    assert "savepoint half-year → snapshot 4" in shown(widget)
    assert "outline: snapshot 3" in shown(widget)


def test_handles_and_names_move_it_and_traits_can_be_watched(session):
    widget = timeline(session, "trips")
    seen = []
    widget.observe(lambda change: seen.append(change["new"].line), "difference")
    widget._handles.value = (2, 3)
    assert (widget.before, widget.after, seen[-1]) == (2, 3, "%sleeper diff trips 2 3")
    widget.after = "savepoint.half-year"
    widget.before = 1
    assert (widget.before, widget.after, widget._handles.value) == (1, 3, (1, 3))
    with pytest.raises(sl.NotFound, match="available: 1–4"):
        widget.after = 9


def test_buttons_that_have_names_move_each_handle_as_far_as_the_other_and_the_ends(session):
    widget = timeline(session, "trips")
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


def test_the_button_writes_the_line_that_rolls_back_and_changes_nothing(session):
    widget = timeline(session, "trips")
    widget.before = 2
    widget._back.click()
    assert widget.rollback_line == "%sleeper rollback trips 2"
    assert "%sleeper rollback trips 2 --dry-run" in shown(widget)
    assert session.table("trips").snapshots()[0].id == 4
    widget.before = 3
    assert widget.rollback_line == ""


def test_a_handle_at_the_newest_version_follows_it(session):
    widget, table = timeline(session, "trips"), session.table("trips")
    table.ingest([{"city": "b", "note": None}])
    widget._again.click()
    assert (widget.before, widget.after) == (3, 5)
    table.expire_snapshots(dry_run=False, num_retained_min=1, num_retained_max=1)
    widget.after = 3
    table.delete_savepoint("half-year", force=True)
    widget._again.click()
    assert (widget.before, widget.after) == (5, 5)


def test_large_versions_are_compared_only_when_somebody_asks(session, monkeypatch):
    monkeypatch.setattr(model, "COMPARED_BYTES", 1)
    widget = timeline(session, "trips")
    assert "may have to be read" in widget.difference.text
    assert "%sleeper diff trips 3 4" in shown(widget)


def test_what_is_saved_is_a_picture_and_nothing_breaks_out(session, shell):
    widget = timeline(session, "trips")
    shell.push({"widget": widget})
    with capture_output() as said:
        shell.run_cell("widget").raise_error()
    kept, live = said.outputs
    assert "trips from snapshot 3 to 4" in kept.data["text/plain"]
    assert kept.data["text/html"].count("<svg") >= 1
    assert live.data["text/plain"] == "Timeline(table='trips', before=3, after=4)"
    assert "<script" not in kept.data["text/html"] + shown(widget).replace("<style>", "")


def test_a_table_with_one_version_has_no_handles(tmp_path):
    with sl.connect(tmp_path / "w") as session:
        session.create_table("new", sl.Schema({"k": "string"}))
        widget = timeline(session, "new")
        assert (widget.before, widget.after) == (1, 1)
        assert widget._handles not in widget._travel.children
        assert widget._back.disabled
        with pytest.raises(sl.InvalidInput, match="nothing to roll back to"):
            widget.write_rollback()
        session.table("new").ingest([{"k": "a"}])
        widget.refresh()
        assert not widget._back.disabled


def test_a_table_that_is_gone_leaves_nothing_that_looks_valid(session):
    widget = timeline(session, "trips")
    widget.write_rollback()
    session.rename_table("trips", "rides")
    widget._again.click()
    assert "no table &#x27;trips&#x27; any more: it was renamed or deleted" in widget._error.value
    assert "%sleeper timeline NAME opens one" in widget._error.value
    assert (widget._between.value, widget._rows.value, widget._line.value) == ("", "", "")
    assert (widget._travel.children, widget._back.disabled) == ((), True)
    assert (widget.difference.line, widget.preview.line, widget.rollback_line) == ("", "", "")
    session.rename_table("rides", "trips")
    widget._again.click()
    assert widget._error.value == ""
    assert widget.difference.line == "%sleeper diff trips 3 4"
    assert widget._handles in widget._travel.children


def test_a_handle_that_is_moved_when_the_table_is_gone_says_so_too(session):
    widget = timeline(session, "trips")
    session.rename_table("trips", "rides")
    widget._handles.value = (1, 2)
    assert "any more" in widget._error.value
    assert (widget._between.value, widget._travel.children) == ("", ())


def test_it_is_the_value_of_its_command(shell, tmp_path):
    shell.run_line_magic("sleeper", "use ./w")
    shell.run_cell_magic("sleeper", "create t", "id LONG KEY")
    assert repr(shell.run_line_magic("sleeper", "timeline t")) == "Timeline(table='t', before=1, after=1)"
