"""The form, the pager and the watch of jobs in JupyterLab in Chromium: by keyboard and mouse, to their end."""

from __future__ import annotations

import pytest

from tests.browser.notebooks import notebook_of

pytestmark = pytest.mark.browser
OPEN = """
import sleeper_nb as sl
%load_ext sleeper_nb
%sleeper use ./live
session = sl.connect("./live")
table = session.create_table("trips", sl.Schema({"city": "string"}, values={"n": "int"}), ["g", "n"])
for i in range(2):
    table.ingest([{"city": city, "n": i} for city in ("athens", "lima", "rome") for i in range(20_000)])
"""


def test_the_form_the_pager_and_the_watch_do_what_they_say(lab, tmp_path):
    from playwright.sync_api import expect

    path = notebook_of(
        tmp_path / "live.ipynb",
        OPEN,
        "%sleeper create visits --form",
        "%sleeper sql --interactive --engine duckdb SELECT city, n FROM trips ORDER BY city, n",
        "%sleeper compact trips --strategy all --engine local --watch",
        "'the last cell'",
    )
    opened = lab(path)
    opened.run_all(seconds=90)
    page = opened.page
    watch = page.locator(".sleeper-watch")
    expect(watch).to_contain_text("3 of 3 jobs · 120,000 of 120,000 rows", timeout=60_000)
    expect(watch.locator("button")).to_be_disabled()

    form = page.locator(".sleeper-create")
    expect(form).to_contain_text("%%sleeper create visits")
    form.get_by_label("Split points").fill("9,1")
    expect(form.get_by_role("alert")).to_contain_text("split point 1 does not come after 9")
    expect(form.locator("button", has_text="Write the cell")).to_be_disabled()
    form.get_by_label("Split points").fill("1,9")
    expect(form).to_contain_text("%%sleeper create visits --splits=1,9")
    form.locator("button", has_text="Add a column").focus()
    page.keyboard.press("Enter")
    form.get_by_label("Column 3").fill("day")
    form.get_by_label("Type").nth(2).select_option("date")
    expect(form).to_contain_text("day DATE NULL")
    opened.shot("form", ".sleeper-create")

    form.locator("button", has_text="Write the cell").click()
    expect(form.get_by_role("status")).to_contain_text("below the next cell that you run")
    page.locator(".jp-Notebook-cell .jp-InputArea-editor").last.click()
    page.keyboard.press("Shift+Enter")
    expect(page.locator(".jp-InputArea-editor", has_text="%%sleeper create visits --splits=1,9")).to_have_count(1)

    pager = page.locator(".sleeper-pager")
    expect(pager).to_contain_text("rows 1–20 of at least 21 · trips at snapshot 3 · duckdb")
    pager.locator("button", has_text="Next").focus()
    page.keyboard.press("Enter")
    expect(pager).to_contain_text("rows 21–40 of at least 41")
    opened.shot("pager", ".sleeper-pager")

    kept = [output["data"]["text/plain"] for output in opened.saved() if "data" in output]
    assert any("3 of 3 jobs · 120,000 of 120,000 rows" in text for text in kept)  # not how it began
    assert page.title() != "broken"
    assert opened.hosts == {"127.0.0.1"}
    assert opened.unexpected() == []
