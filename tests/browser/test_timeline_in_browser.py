"""The timeline in JupyterLab in Chromium: both handles by keyboard, its button by mouse, in both themes."""

from __future__ import annotations

import pytest

from tests.browser.notebooks import SETUP, notebook_of

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_two_handles_compare_two_versions_and_the_button_writes_the_way_back(lab, tmp_path, theme):
    from playwright.sync_api import expect

    opened = lab(notebook_of(tmp_path / "timeline.ipynb", SETUP, 'x = timeline(session, "flights")\nx'))
    opened.theme(theme)
    opened.run_all(seconds=60)
    page, short = opened.page, theme.rpartition(" ")[2].lower()
    label = page.locator(".sleeper-timeline .sleeper-version")
    difference = page.locator(".sleeper-timeline .sleeper-difference")
    expect(label).to_contain_text("snapshot 8")
    expect(label).to_contain_text("→ snapshot 9")
    handles = page.locator(".sleeper-timeline .noUi-handle")
    expect(handles).to_have_count(2)
    handles.nth(0).focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    expect(difference).to_contain_text("%sleeper diff flights 3 9")
    handles.nth(1).focus()
    page.keyboard.press("ArrowLeft")
    expect(difference).to_contain_text("%sleeper diff flights 3 8")
    opened.shot(f"timeline-{short}")
    page.locator(".sleeper-timeline button", has_text="Roll back").click()
    expect(page.locator(".sleeper-timeline")).to_contain_text("%sleeper rollback flights 3 --dry-run")
    expect(page.locator(".sleeper-static")).to_be_hidden()
    opened.shot(f"timeline-{short}-back")
    assert page.title() != "broken"
    assert opened.hosts == {"127.0.0.1"}
    assert opened.unexpected() == []
