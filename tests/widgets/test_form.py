"""The form for a new table without a browser: what it writes makes the table, and what is wrong is said at once."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pandas as pd
import pytest
from IPython.utils.capture import capture_output

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.widgets import _after_next_cell, create_form
from sleeper_nb.widgets.form import CreateForm
from sleeper_nb.widgets.table_draft import ROLES, TYPES, ColumnDraft, TableDraft
from tests.widgets.conftest import shown


@pytest.fixture
def session(tmp_path):
    with sl.connect(tmp_path / "w", clock=ManualClock()) as opened:
        opened.create_table("trips", sl.Schema({"city": "string"}))
        yield opened


def messages(form):
    return [error.message for error in form.problems]


def test_it_begins_with_a_table_that_can_be_made(session):
    form = create_form(session)
    assert form.problems == ()
    assert form.cell == "%%sleeper create my_table\nid LONG KEY\nnote STRING NULL"
    assert create_form(session, "visits").cell.startswith("%%sleeper create visits\n")
    assert "id LONG KEY" in shown(form)


def test_what_is_typed_is_in_the_cell_and_what_is_wrong_is_said_at_once(session):
    form = create_form(session)
    form._name.value = "TRIPS"
    assert messages(form) == ["table 'TRIPS' already exists"]
    form._name.value = "visits"
    first, second = form._columns
    first.name.value, first.type.value = "city", "string"
    form._splits.value = "m,g"
    assert messages(form) == ["split point g does not come after m"]
    assert "split point g does not come after m" in form._messages.value
    assert 'role="alert"' in form._messages.value
    form._splits.value = "g,m"
    second.nullable.value = False
    second.name.value = "CITY"
    assert messages(form) == ["field 'CITY' occurs twice"]
    second.name.value = "fare"
    second.type.value = "decimal(18,2)"
    assert form.problems == ()
    assert form.cell == "%%sleeper create visits --splits=g,m\ncity STRING KEY\nfare DECIMAL(18,2)"


def test_columns_come_and_go_and_a_key_is_not_nullable(session):
    form = create_form(session)
    form._add.click()
    third = form._columns[2]
    third.name.value, third.role.value = "day", "sort key"
    third.type.value = "date"
    assert (third.nullable.disabled, form.problems) == (True, ())
    assert [row.name.description for row in form._columns] == ["Column 1", "Column 2", "Column 3"]
    form._columns[1].remove.click()
    assert form.cell.splitlines()[1:] == ["id LONG KEY", "day DATE SORT"]
    assert len(form._rows.children) == 2
    form._columns[0].remove.click()
    assert messages(form) == ["a schema needs at least one row key"]


def test_a_column_without_a_name_is_still_to_be_filled_in_and_not_wrong(session):
    form = CreateForm(session, TableDraft("visits"), print)
    form._add.click()
    assert messages(form) == ["column 3 has no name"]
    assert "column 3 has no name: give the column a name, or remove it" in form._messages.value
    assert 'role="alert"' not in form._messages.value
    assert form._write.disabled
    with pytest.raises(sl.InvalidInput, match="column 3 has no name"):
        form.write()
    form._columns[2].name.value = "a b"
    assert messages(form) == ["column 3: 'a b' is not a valid field name"]
    assert 'role="alert"' in form._messages.value


def test_the_box_of_a_key_says_that_it_is_not_nullable(session):
    form = create_form(session)
    note = form._columns[1]
    assert note.nullable.value
    note.role.value = "row key"
    assert (note.nullable.value, note.nullable.disabled) == (False, True)
    assert "note STRING KEY" in form.cell
    form.draft = TableDraft("visits", (ColumnDraft("k", "int", "row key", nullable=True),))
    assert not form._columns[0].nullable.value


def test_what_the_button_says_goes_with_the_next_cell_or_change(session, shell):
    form = CreateForm(session, TableDraft("visits"), print, partial(_after_next_cell, shell.events))
    shell.push({"form": form})
    form.write()
    assert "below the next cell that you run" in form._messages.value
    with capture_output():
        shell.run_cell("1").raise_error()
    assert form._messages.value == ""
    form.write()
    form._name.value = "visitors"
    assert form._messages.value == ""


def test_every_control_has_a_label(session):
    form = create_form(session)
    controls = [form._name, form._splits, form._add]
    for row in form._columns:
        controls += row.children
    assert all(control.description for control in controls)


def test_a_draft_can_be_set_and_watched(session):
    form, seen = create_form(session), []
    form.observe(lambda change: seen.append(change["new"].cell), "draft")
    form.draft = TableDraft("visits", (ColumnDraft("n", "map<int,long>"), ColumnDraft("k", "int", "row key")), "-5,3")
    assert (form._name.value, form._splits.value) == ("visits", "-5,3")
    assert [row.type.value for row in form._columns] == ["map<int,long>", "int"]
    form._columns[1].name.value = "key"
    assert seen[-1] == "%%sleeper create visits --splits=-5,3\nn MAP<INT,LONG>\nkey INT KEY"


@pytest.mark.parametrize(
    "draft",
    [
        TableDraft("a", (ColumnDraft("k", "int", "row key"),), "-5, 0, 7"),
        TableDraft("b", (ColumnDraft("k", "string", "row key"), ColumnDraft("s", "timestamp", "sort key")), "a b,c'd"),
        TableDraft("c", (ColumnDraft("k", "string", "row key"),), '"with,comma",x'),
        TableDraft("d", (ColumnDraft("k", "bytearray", "row key"),), "AAA=,/w=="),
        TableDraft("e", (ColumnDraft("k", "long", "row key"), *(ColumnDraft(f"v{i}", t, nullable=bool(i % 2))
                                                               for i, t in enumerate(TYPES)))),
    ],
    ids=lambda draft: draft.name,
)  # fmt: skip
def test_the_cell_makes_the_table_that_was_filled_in(shell, draft):
    shell.run_line_magic("sleeper", "use ./w")
    form = shell.run_line_magic("sleeper", "create --form")
    form.draft = draft
    assert form.problems == ()
    with capture_output():
        shell.run_cell(form.cell).raise_error()
    made = shell.run_line_magic("sleeper", "tables")[0]
    assert (made.name, made.schema) == (draft.name, draft.schema())
    assert len(made.at().partition_tree.leaves) == 1 + bool(draft.splits) * len(
        draft.splits.replace("with,", "").split(",")
    )


@pytest.mark.parametrize(
    ("draft", "message"),
    [
        (TableDraft("1a"), "'1a' is not a valid table name"),
        (TableDraft("t", (ColumnDraft("k", "double", "row key"),)), "row key 'k' cannot be a double"),
        (TableDraft("t", (ColumnDraft("k", "int", "row key"),), "1,x"), "'x' is not a value of row key 'k'"),
        (TableDraft("t", (ColumnDraft("k", "int", "row key"), ColumnDraft("a b"))), "'a b' is not a valid field name"),
    ],
)
def test_the_same_is_wrong_with_the_draft_and_with_its_table(session, draft, message):
    (problem,) = draft.problems(session.table_names())
    assert problem.message.endswith(message)
    with pytest.raises(sl.InvalidInput, match=message):
        session.create_table(draft.name, draft.schema(), draft.splits.split(",") if draft.splits else ())


def test_a_button_writes_the_cell_and_makes_nothing(session):
    written = []
    form = CreateForm(session, TableDraft("visits"), written.append)
    assert form._write in form.children[5].children
    form._write.click()
    assert written == [form.cell]
    assert "below the next cell that you run" in form._messages.value
    form._name.value = "no name"
    assert form._write.disabled
    form._write.click()
    assert len(written) == 1
    assert "is not a valid table name" in form._messages.value
    assert [table.name for table in session.tables()] == ["trips"]


def test_a_button_creates_the_table_and_shows_it(session):
    form = CreateForm(session, TableDraft("visits", splits="5"))
    form._create.click()
    assert form._create.button_style == "primary"
    assert "Table visits" in form._messages.value
    assert 'role="status"' in form._messages.value
    assert form._create.disabled
    assert session.table("visits").at().schema == form.draft.schema()
    assert len(session.table("visits").at().partition_tree.leaves) == 2
    form._splits.value = "5,6"
    assert messages(form) == ["table 'visits' already exists"]
    assert form._create.disabled
    with pytest.raises(sl.AlreadyExists):
        form.create()


def test_an_error_of_the_creation_is_said_in_the_form(session):
    form = CreateForm(session, TableDraft("visits"))
    session.create_table("visits", sl.Schema({"id": "long"}))  # by somebody else, since the form was shown
    form._create.click()
    assert "already exists" in form._messages.value
    assert 'role="alert"' in form._messages.value


def test_the_cell_can_be_copied(session):
    form = create_form(session)
    form._name.value = "visits"
    assert form._copy.text == form.cell


def test_without_a_kernel_there_is_no_button_to_write(session, shell):
    form = create_form(session)
    assert form._write not in form.children[5].children
    with pytest.raises(sl.InvalidInput, match="no notebook"):
        form.write()


def test_nothing_that_is_typed_becomes_markup_and_a_picture_stays(session, shell):
    form = create_form(session)
    form._name.value = "<script>"
    form._columns[0].name.value = "<script>"
    assert "<script" not in form._messages.value + form._shown.value
    with capture_output() as said:
        shell.push({"form": form})
        shell.run_cell("form").raise_error()
    kept, live = said.outputs
    assert "<script" not in kept.data["text/html"]
    assert kept.data["text/plain"] == form.cell
    assert live.data["text/plain"] == "CreateForm('<script>')"


def test_a_table_still_needs_a_name_and_a_form_a_notebook(shell, tmp_path):
    shell.run_line_magic("sleeper", "use ./w")
    with pytest.raises(sl.InvalidInput, match="create needs a table"):
        shell.run_cell_magic("sleeper", "create", "id LONG KEY")
    assert shell.run_line_magic("sleeper", "create visits --form").draft.name == "visits"
    from sleeper_nb.cli import main

    assert main(["--warehouse", str(tmp_path / "other"), "create", "--form"]) == 1
    assert main(["--warehouse", str(tmp_path / "other"), "create"]) == 2
    assert not (tmp_path / "other").exists()


def test_roles_and_types_are_the_schemas(session):
    assert ROLES == ("row key", "sort key", "value")
    for kind in TYPES:
        assert str(ColumnDraft("v", kind).field().type) == kind


def test_a_form_begins_with_the_columns_of_data_and_its_cell_makes_the_table(shell):
    shell.run_cell("%sleeper use ./w").raise_error()
    shell.user_ns["df"] = pd.DataFrame({"city": ["rome", "oslo"], "n": [1, 2], "fare": [1.5, None]})
    form = shell.run_line_magic("sleeper", "create trips --form --from $df")
    assert form.cell == "%sleeper create trips --from $df --keys city"
    city, n, fare = form.draft.columns
    form.draft = replace(
        form.draft, columns=(replace(city, role="sort key"), replace(n, role="row key", type="int"), fare)
    )
    assert form.cell == "%sleeper create trips --from $df --keys n --sort city --types n=int"
    assert not form.problems
    form.create()
    assert "Table trips" in form._messages.value
    rows = shell.run_cell("%sleeper sql SELECT n, city, fare FROM trips").result
    assert rows.to_dict() == {"n": [1, 2], "city": ["rome", "oslo"], "fare": [1.5, None]}
