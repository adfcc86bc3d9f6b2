"""What changed between two versions, rollbacks and savepoints: what is answered, step by step, and what is done."""

from __future__ import annotations

from datetime import timedelta

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.progress import Watch
from sleeper_nb.widgets import change_answers
from sleeper_nb.widgets.action_answers import ActionAnswers
from sleeper_nb.widgets.change_answers import ChangeAnswers
from sleeper_nb.widgets.change_html import change_html
from sleeper_nb.widgets.open_tables import OpenTables
from tests.widgets.conftest import drained

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


def answers_of(session):
    return ChangeAnswers(OpenTables(session))


def actions_of(session):
    return ActionAnswers(OpenTables(session))


def changes(answers, before, after, table="fares", asked=()):
    """Return all answers to one request, as they go to the page."""
    request = {"table": table, "before": before, "after": after, "asked": list(asked)}
    return drained(answers.changes(request, Watch()))


def planned(answers, action, version, table="fares", name=""):
    return answers.plan({"table": table, "action": action, "version": version, "name": name}, Watch())


def done(answers, action, version, table="fares", name=""):
    return answers.act({"table": table, "action": action, "version": version, "name": name}, Watch())


def of_kind(answer, kind):
    return [row for row in answer["rows"] if row["kind"] == kind]


def test_metadata_comes_first_then_rows_then_columns(fares):
    first, with_rows, whole = changes(answers_of(fares), 2, 5)
    assert (first["counts"], first["rows"], first["statistics"]) == (None, [], None)
    assert (first["before"], first["after"], first["keys"], first["columns"]) == (2, 5, ["k"], ["k", "fare", "note"])
    assert first["line"] == "%sleeper diff fares 2 5 --rows --images"
    assert (with_rows["counts"], with_rows["statistics"]) == ({"added": 300, "removed": 1, "changed": 2}, None)
    assert [each["name"] for each in whole["statistics"]] == ["k", "fare", "note"]
    assert whole["unread"] == {"rows": "", "columns": ""}
    assert whole["rows"] == with_rows["rows"]


def test_rows_are_those_of_a_diff_in_key_order_with_the_cells_that_changed(fares):
    answer = changes(answers_of(fares), 2, 5)[-1]
    assert len(of_kind(answer, "added")) == answer["most"] == 200
    assert of_kind(answer, "removed") == [{"kind": "removed", "cells": ["8", "4", None]}]
    assert of_kind(answer, "changed") == [
        {"kind": "changed", "cells": ["3", "1.5", "ok"], "after": ["3", "-1.5", "ok"], "differs": [False, True, False]},
        {"kind": "changed", "cells": ["70", "35", "ok"], "after": ["70", "-35", "ok"], "differs": [False, True, False]},
    ]
    assert answer["cells"] == {"fare": 2}
    assert [row["cells"][0] for row in answer["rows"]][:3] == ["3", "8", "70"]
    assert of_kind(answer, "added")[0]["cells"] == ["200", None, HOSTILE]


def test_columns_are_counted_at_both_versions_with_the_same_bars(fares):
    fare, note = changes(answers_of(fares), 2, 5)[-1]["statistics"][1:]
    assert (fare["before"]["nulls"], fare["after"]["nulls"]) == (0, 300)
    assert (fare["before"]["distinct"], fare["after"]["distinct"]) == (100, 99)
    assert fare["before"]["bars"] == fare["after"]["bars"]
    assert (sum(fare["before"]["counts"]), sum(fare["after"]["counts"])) == (100, 99)
    assert dict(zip(note["after"]["bars"], note["after"]["counts"], strict=True))["ok"] == 75


def test_files_and_partitions_are_those_of_a_diff(fares):
    answer, diff = changes(answers_of(fares), 2, 5)[0], fares.table("fares").diff(2, 5)
    names = {kind: {each["name"] for each in answer["files"][kind]} for kind in ("added", "removed")}
    assert names["added"] == {each.filename.rpartition("/")[2] for each in diff.files_added}
    assert names["removed"] == {each.filename.rpartition("/")[2] for each in diff.files_removed}
    assert answer["filesOf"] == {"added": len(diff.files_added), "removed": len(diff.files_removed)}
    keys = ["k (-∞, 50)", "k [50, ∞)"]
    assert {each["partition"] for each in answer["files"]["added"]} == set(keys)
    assert [each["keys"] for each in answer["partitions"]] == keys
    assert [(each["rowsBefore"], each["rowsAfter"]) for each in answer["partitions"]] == [(50, 49), (50, 350)]
    assert (answer["partitionsChanged"], answer["partitionsOf"]) == (2, 2)


def test_columns_that_were_added_dropped_renamed_and_widened_are_named(session):
    table = session.table("trips")
    table.alter(add_columns={"n": "int?", "gone": "int?"})
    table.alter(rename_columns={"note": "remark"})
    table.alter(types={"n": "long"}, drop_columns=["gone"])
    answers = answers_of(session)
    assert changes(answers, 4, 7, "trips")[0]["schema"] == [
        {"name": "remark", "before": "note string?", "after": "string?"},
        {"name": "n", "before": "", "after": "long?"},
    ]
    assert {"name": "gone", "before": "int?", "after": ""} in changes(answers, 5, 7, "trips")[0]["schema"]
    assert changes(answers, 3, 4, "trips")[0]["schema"] == []


def test_of_many_columns_keys_and_changed_ones_are_first(tmp_path):
    names = [f"c{number}" for number in range(120)]
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("wide", sl.Schema({"k": "int"}, values=dict.fromkeys(names, "int?")))
        table.ingest([{"k": k, **dict.fromkeys(names, k)} for k in range(5)])
        table.update({"c117": "c117 + 1"}, "k = 2")
        answer = changes(answers_of(session), 2, 3, "wide")[-1]
    assert (answer["columns"][:3], len(answer["columns"]), answer["columnsOf"]) == (["k", "c117", "c0"], 100, 121)
    assert [each["name"] for each in answer["statistics"]] == answer["columns"][:24]
    assert of_kind(answer, "changed")[0]["differs"][:3] == [False, True, False]


def test_large_versions_are_read_when_the_user_asks_and_not_again(fares, monkeypatch):
    monkeypatch.setattr(change_answers, "READ_UNASKED", -1)
    answers = answers_of(fares)
    (metadata,) = changes(answers, 2, 5)
    assert metadata["counts"] is None
    assert all(metadata["unread"].values())
    with_rows = changes(answers, 2, 5, asked=["rows"])[-1]
    assert with_rows["counts"] == {"added": 300, "removed": 1, "changed": 2}
    assert (with_rows["unread"]["rows"], with_rows["statistics"]) == ("", None)
    monkeypatch.setattr("sleeper_nb.changes.Changes.summary", None)  # the rows that were read are kept
    whole = changes(answers, 2, 5, asked=["columns"])[-1]
    assert (whole["counts"], len(whole["statistics"])) == (with_rows["counts"], 3)


def test_a_cancelled_comparison_reads_no_further(fares):
    watch = Watch()
    steps = answers_of(fares).changes({"table": "fares", "before": 2, "after": 5, "asked": []}, watch)
    next(steps)
    watch.cancel()
    with pytest.raises(sl.Cancelled):
        list(steps)


def test_a_version_compared_with_itself_has_no_changes(session):
    answer = changes(answers_of(session), 3, 3, "trips")[-1]
    assert answer["counts"] == {"added": 0, "removed": 0, "changed": 0}
    assert (answer["files"], answer["partitions"]) == ({"added": [], "removed": []}, [])


def test_a_rollback_is_planned_first_then_done_and_can_be_undone(fares):
    answers, table = actions_of(fares), fares.table("fares")
    plan = planned(answers, "roll back", 2)
    assert (plan["title"], plan["line"]) == ("Roll back fares to snapshot 2", "%sleeper rollback fares 2")
    assert "Rows: 399 now, 100 after." in plan["sentences"]
    assert plan["sentences"][0] == "Undoes 3 snapshots, 3 to 5: the table loses 299 rows."
    undone = "They can still be read: 5 (ingest +300 rows), 4 (delete 1 row), 3 (update 2 rows)."
    assert undone in plan["sentences"]
    assert (plan["danger"], plan["possible"], table.history()[0].id) == (True, True, 5)
    found = done(answers, "roll back", 2)
    assert found == {
        "sentence": "fares has the rows of snapshot 2 again, as snapshot 6.",
        "undo": "%sleeper rollback fares 5",
    }
    assert [each.id for each in table.history()][:2] == [6, 5]
    assert changes(answers_of(fares), 2, 6)[-1]["counts"] == {"added": 0, "removed": 0, "changed": 0}


def test_a_rollback_that_was_planned_before_another_commit_is_not_done(fares):
    answers, table = actions_of(fares), fares.table("fares")
    planned(answers, "roll back", 2)
    table.ingest([{"k": 1, "fare": 1.0, "note": "new"}])
    with pytest.raises(sl.ConflictError, match="snapshot 6 was committed after this plan was made on snapshot 5"):
        done(answers, "roll back", 2)
    assert table.history()[0].id == 6
    assert "Rows: 400 now, 100 after." in planned(answers, "roll back", 2)["sentences"]
    done(answers, "roll back", 2)
    assert table.history()[0].id == 7


def test_what_a_rollback_leaves_as_it_is_is_named(session):
    table = session.table("trips")
    table.alter(drop_columns=["note"])
    table.ingest([{"city": "q"}])
    sentences = planned(actions_of(session), "roll back", 4, "trips")["sentences"]
    assert "Stays in effect: alter (snapshot 5)." in sentences
    assert "Columns are not rolled back. Dropped columns stay dropped: note." in sentences


def test_a_rollback_to_what_the_table_has_already_is_not_possible(session):
    answers = actions_of(session)
    plan = planned(answers, "roll back", 4, "trips")
    assert (plan["possible"], len(plan["sentences"])) == (False, 1)
    assert done(answers, "roll back", 4, "trips")["undo"] == ""
    assert session.table("trips").history()[0].id == 4


def test_a_savepoint_is_planned_first_and_then_made(session):
    answers, table = actions_of(session), session.table("trips")
    plan = planned(answers, "save", 3, "trips", " before-fix ")
    assert plan["line"] == "%sleeper create-savepoint trips@3 --name before-fix"
    assert plan["sentences"][0].startswith("Snapshot 3 is kept: 6 rows in 4 files, ")
    assert (plan["danger"], plan["possible"], len(table.savepoints())) == (False, True, 1)
    found = done(answers, "save", 3, "trips", " before-fix ")
    assert found["sentence"] == "Savepoint before-fix keeps snapshot 3 of trips."
    assert found["undo"] == "%sleeper delete-savepoint trips before-fix --force"
    assert [(each.name, each.saved_snapshot_id) for each in table.savepoints()] == [("half-year", 3), ("before-fix", 3)]
    assert done(answers, "save", 4, "trips")["undo"] == "%sleeper delete-savepoint trips --id 3 --force"
    assert table.savepoints()[-1].name is None


@pytest.mark.parametrize(("name", "says"), [("v1", "'v1' is not a valid savepoint name"), (HOSTILE, "savepoint name")])
def test_a_name_that_no_savepoint_can_have_makes_no_plan(session, name, says):
    plan = planned(actions_of(session), "save", 3, "trips", name)
    assert (plan["possible"], plan["line"]) == (False, "")
    assert says in plan["sentences"][0]


def test_a_name_that_was_used_before_is_refused(session):
    with pytest.raises(sl.AlreadyExists, match="was used before"):
        done(actions_of(session), "save", 3, "trips", "half-year")
    with pytest.raises(sl.InvalidInput, match="no action 'drop'"):
        done(actions_of(session), "drop", 3, "trips")


@pytest.mark.parametrize("action", ["roll back", "save"])
def test_the_line_of_a_plan_does_what_its_button_does_and_its_undo_undoes_it(session, shell, action):
    answers, table = actions_of(session), session.table("trips")
    line = planned(answers, action, 2, "trips")["line"]
    shell.push({"session": session})
    shell.run_line_magic("sleeper", "use $session")
    shell.run_line_magic("sleeper", line.removeprefix("%sleeper "))
    assert (table.history()[0].id, len(table.savepoints())) == ((5, 1) if action == "roll back" else (4, 2))
    undo = done(answers, action, 3, "trips")["undo"]
    shell.run_line_magic("sleeper", undo.removeprefix("%sleeper "))
    if action == "roll back":
        assert table.at().scan().count() == table.at(2).scan().count()
    else:
        assert len(table.savepoints()) == 2


def test_a_change_as_html_has_rows_columns_and_files_and_nothing_breaks_out(fares):
    html = change_html(changes(answers_of(fares), 2, 5)[-1], 48_000)
    for part in (
        "+300 added",
        "−1 removed",
        "~2 changed",
        "~ changed",
        "Distinct values",
        "2 partitions with other files",
    ):
        assert part in html
    assert ">1.5</del> → " in html
    assert ">-1.5</ins>" in html
    assert "first 20 of 303 rows that differ" in html
    assert "<script" not in html


def test_a_large_change_is_saved_small_and_an_unread_one_says_so(tmp_path, monkeypatch):
    with sl.connect(tmp_path / "w") as session:
        names = [f"c{number}" for number in range(30)]
        table = session.create_table("wide", sl.Schema({"k": "int"}, values=dict.fromkeys(names, "string")))
        table.ingest([{"k": k, **dict.fromkeys(names, f"{k} {'x' * 500}")} for k in range(100)])
        html = change_html(changes(answers_of(session), 1, 2, "wide")[-1], 48_000)
        assert len(html.encode()) < 65_536
        assert "first " in html
        monkeypatch.setattr(change_answers, "READ_UNASKED", -1)
        assert "The rows were not compared" in change_html(changes(answers_of(session), 1, 2, "wide")[-1], 48_000)
        assert "No row differs" in change_html(changes(answers_of(session), 2, 2, "wide", ["rows"])[-1], 48_000)
