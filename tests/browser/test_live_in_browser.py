"""The form and the watch of jobs in JupyterLab in Chromium: by keyboard and mouse, in both themes."""

from __future__ import annotations

import pytest

from tests.browser.lab import expect

pytestmark = pytest.mark.browser
OPEN = """
import tempfile
import sleeper_nb as sl
%load_ext sleeper_nb
session = sl.connect(tempfile.mkdtemp())
%sleeper use $session
table = session.create_table("trips", sl.Schema({"city": "string"}, values={"n": "int"}), ["g", "n"])
for i in range(2):
    table.ingest([{"city": city, "n": i} for city in ("athens", "lima", "rome") for i in range(20_000)])
"""


def test_the_form_says_what_is_wrong_and_writes_the_cell(in_theme):
    opened = in_theme(OPEN, "%sleeper create visits --form", "'the last cell'")
    page, form = opened.page, opened.page.locator(".sleeper-create")
    written = page.locator(".jp-InputArea-editor", has_text="%%sleeper create visits --splits=1,9")
    expect(form).to_contain_text("%%sleeper create visits")
    opened.look("form-empty")
    form.get_by_label("Split points").fill("9,1")
    expect(form.get_by_role("alert")).to_contain_text("split point 1 does not come after 9")
    expect(form.locator("button", has_text="Insert cell")).to_be_disabled()
    opened.look("form-wrong")
    form.get_by_label("Split points").fill("1,9")
    expect(form).to_contain_text("%%sleeper create visits --splits=1,9")
    form.locator("button", has_text="Add a column").click()
    form.get_by_label("Column 3").fill("day")
    form.get_by_label("Type").nth(2).select_option("date")
    expect(form).to_contain_text("day DATE NULL")
    form.get_by_title("Remove column 2").click()
    expect(form).not_to_contain_text("note STRING")

    form.get_by_label("Table name").focus()  # now as somebody without a mouse
    opened.press("Tab*5")  # name, type, role and Remove of the first column, which is a key; the second's name
    expect(form.get_by_label("Column 2")).to_be_focused()
    opened.press("End")
    page.keyboard.type("s")
    opened.press("Tab*3", "Space")  # type, role, nullable
    expect(form).to_contain_text("days DATE")
    expect(form).not_to_contain_text("days DATE NULL")
    opened.press("Tab*2", "Enter")  # Remove, Add a column
    expect(form.get_by_label("Column 3")).to_be_focused()
    page.keyboard.type("n")
    opened.press("Tab")
    page.keyboard.type("long")
    expect(form).to_contain_text("n LONG NULL")
    opened.look("form")
    form.locator("button", has_text="Insert cell").focus()
    opened.press("Enter")
    expect(form.get_by_role("status")).to_contain_text("below the next cell that you run")
    page.locator(".jp-Notebook-cell .jp-InputArea-editor").last.click()
    opened.press("Shift+Enter")
    expect(written).to_have_count(1)


def test_the_watch_of_jobs_says_when_they_are_done(in_theme):
    opened = in_theme(OPEN, "%sleeper compact trips --strategy all --engine local --watch")
    watch = opened.page.locator(".sleeper-watch")
    expect(watch).to_contain_text("3 of 3 jobs")
    expect(watch).to_contain_text("120,000 of 120,000 rows")
    expect(watch.locator("button")).to_be_disabled()
    opened.look("watch", watch)
    kept = [output["data"]["text/plain"] for output in opened.saved() if "data" in output]
    assert any("3 of 3 jobs · 120,000 of 120,000 rows" in text for text in kept)  # not how it began
