"""The timeline in JupyterLab in Chromium: both handles and its buttons by keyboard and by mouse, in both themes."""

from __future__ import annotations

import pytest

from tests.browser.lab import expect
from tests.browser.notebooks import SETUP

pytestmark = pytest.mark.browser


def test_two_handles_compare_two_versions_and_the_button_writes_the_way_back(in_theme):
    opened = in_theme(SETUP, 'x = timeline(session, "flights")\nx')
    line = opened.page.locator(".sleeper-timeline")
    label, difference = line.locator(".sleeper-version"), line.locator(".sleeper-difference")
    expect(label).to_contain_text("snapshot 8")
    expect(label).to_contain_text("→ snapshot 9")
    handles = line.locator(".noUi-handle")
    expect(handles).to_have_count(2)
    handles.nth(0).focus()
    opened.press("ArrowLeft*5")
    expect(difference).to_contain_text("%sleeper diff flights 3 9")
    handles.nth(1).focus()
    opened.press("ArrowLeft")
    expect(difference).to_contain_text("%sleeper diff flights 3 8")
    opened.look("timeline")
    line.locator("button", has_text="Roll back").click()
    expect(line).to_contain_text("%sleeper rollback flights 3 --dry-run")
    expect(opened.page.locator(".sleeper-static")).to_be_hidden()
    opened.look("timeline-back")
    width = line.locator(".noUi-base").bounding_box()["width"]

    handles.nth(0).drag_to(line.locator(".noUi-base"), target_position={"x": width * 3 / 8, "y": 1})
    expect(difference).to_contain_text("%sleeper diff flights 4 8")
    expect(line).not_to_contain_text("%sleeper rollback")
    for title, compared in (
        ("Previous version on the left", "3 8"),
        ("Next version on the left", "4 8"),
        ("Next version on the right", "4 9"),
        ("Previous version on the right", "4 8"),
    ):
        line.get_by_title(title).click()
        expect(difference).to_contain_text(f"%sleeper diff flights {compared}")
    handles.nth(1).focus()
    opened.press("Tab", "Enter")
    expect(difference).to_contain_text("%sleeper diff flights 3 8")
    opened.press("Tab*3", "Enter")
    expect(difference).to_contain_text("%sleeper diff flights 3 9")
    opened.press("Tab*2", "Enter")  # Refresh, Roll back
    expect(line).to_contain_text("%sleeper rollback flights 3 --dry-run")
