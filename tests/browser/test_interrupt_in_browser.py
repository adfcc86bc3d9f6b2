"""A compaction that is stopped half-way in JupyterLab: by the toolbar, by keys and by the watch's button."""

from __future__ import annotations

import pytest

from tests.browser.lab import expect
from tests.browser.notebooks import SLOW, notebook_of

pytestmark = pytest.mark.browser
COMPACT = "%sleeper compact trips --strategy all --engine"
LOOK = """
Path("begun").unlink()
print("as in the beginning:", (trips.at().resolved, trips.inspect.files().to_dict()) == begin)
%sleeper jobs trips
"""
FAST = 'Path("slow").unlink()'
ACTIVE = """
from pyspark.sql import SparkSession
print("active:", list(SparkSession.getActiveSession().sparkContext.statusTracker().getActiveJobsIds()))
"""


def interrupted(opened, stop):
    """Run the first two cells, of which the second compacts; stop it once it merges, and hold that it leaves nothing.

    What the user sees of it is one line: no stack.
    """
    opened.run_cell(0)
    opened.start_cell(1)
    opened.wait_for_file("begun")
    stop()
    expect(opened.output(1)).to_have_text(["", "KeyboardInterrupt: Interrupted. Earlier commits are kept."])
    opened.run_cell(2)
    expect(opened.output(2).first).to_contain_text("as in the beginning: True")
    expect(opened.output(2).last).to_contain_text("cancelled", ignore_case=True)


def test_the_stop_button_of_the_toolbar_leaves_nothing_of_a_compaction_and_the_next_succeeds(lab, tmp_path):
    cells = (SLOW, f"{COMPACT} local", LOOK, f"{FAST}\n{COMPACT} local")
    opened = lab(notebook_of(tmp_path / "local.ipynb", *cells, failing={1}))
    interrupted(opened, opened.page.locator('[data-command="notebook:interrupt-kernel"]').click)
    opened.run_cell(3)
    expect(opened.output(3)).to_contain_text(["merged 2 files into 1"])


def test_the_keys_that_interrupt_stop_the_job_in_spark_too(lab, tmp_path):
    cells = (SLOW, f"{COMPACT} spark", f"{ACTIVE}{LOOK}", f"{FAST}\n{COMPACT} spark")
    opened = lab(notebook_of(tmp_path / "spark.ipynb", *cells, failing={1}))
    interrupted(opened, lambda: opened.press("Escape", "i*2"))
    expect(opened.output(2).first).to_contain_text("active: []")
    opened.run_cell(3)
    expect(opened.output(3)).to_contain_text(["merged 2 files into 1"])


def test_the_button_of_either_watch_stops_a_compaction(lab, tmp_path, theme):
    compact, jobs = f"{COMPACT} local --watch", "%sleeper jobs trips --watch"
    beside = f"made = get_ipython().run_line_magic('sleeper', '{COMPACT.removeprefix('%sleeper ')} local --background')"
    cells = (SLOW, compact, LOOK, beside, jobs, LOOK, f"{FAST}\n{compact}")
    opened = lab(notebook_of(tmp_path / "watch.ipynb", *cells, failing={1}))
    opened.set_theme(theme)
    opened.run_cell(0)
    watches = opened.page.locator(".sleeper-watch")
    for cells, watch in (((1,), watches.nth(0)), ((3, 4), watches.nth(1))):
        for cell in cells[:-1]:
            opened.run_cell(cell)
        opened.start_cell(cells[-1])
        opened.wait_for_file("begun")
        expect(watch).to_contain_text("0 of 1,000,000 rows")
        opened.look("watch-running", watch)
        if cells == (1,):  # the cell goes on as long as the jobs
            expect(watch.get_by_role("button")).to_be_disabled()
            opened.press("Escape", "i*2")
            expect(opened.output(1).last).to_contain_text("The jobs continue; press Stop to cancel them.")
        watch.get_by_role("button").click()
        expect(watch).to_contain_text("cancelled", ignore_case=True)
        expect(watch.get_by_role("button")).to_be_disabled()
        opened.look("watch-stopped", watch)
        opened.run_cell(cells[-1] + 1)
        expect(opened.output(cells[-1] + 1).first).to_contain_text("as in the beginning: True")
    opened.run_cell(6)
    expect(watches.last).to_contain_text("1,000,000 of 1,000,000 rows")
