"""A notebook that is open in a browser: what a user does with it, and what must hold of it whatever was done."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat

from tests.browser.legible import hard_to_read, nameless

_SIZE = {"width": 1280, "height": 1000}
_OPEN = """name => {
    const widget = window.jupyterapp?.shell.currentWidget;
    return widget?.context?.path === name && widget.sessionContext?.session?.kernel?.status === 'idle';
}"""
# No command is awaited inside the page: waiting for it has no time limit there.
_DO = """command => {
    window.done = false;
    void window.jupyterapp.commands.execute(command).then(() => { window.done = true; });
}"""
_SAVE = """() => {
    window.done = false;
    void window.jupyterapp.shell.currentWidget.context.save().then(() => { window.done = true; });
}"""
_STOP = """() => {
    window.done = false;
    void window.jupyterapp.shell.currentWidget.sessionContext.shutdown().then(() => { window.done = true; });
}"""
_SHOW = "path => { void window.jupyterapp.commands.execute('docmanager:open', {path}); }"
# Nobody is asked whether to save it first.
_CLOSE = "() => window.jupyterapp.shell.currentWidget.dispose()"
_BOX = """e => {
    e.scrollIntoView({block: "center", behavior: "instant"});
    const {x, y, width, height} = e.getBoundingClientRect();
    return {x, y, width, height};
}"""
LONGEST_WAIT = 120_000
"""In milliseconds, for whatever a page should show or do."""
_THEME = "name => { void window.jupyterapp.commands.execute('apputils:change-theme', {theme: name}); }"


def expect(place: Any) -> Any:
    """Return playwright's assertions about a place, which wait for what they say; imported only by who runs them.

    They wait as long as pages do: playwright's 5 seconds are too few where eight others use the machine.
    """
    from playwright.sync_api import expect as wait_for

    wait_for.set_options(timeout=LONGEST_WAIT)
    return wait_for(place)


def keep_shot(page: Any, name: str) -> None:
    """Keep a picture of a page for people, in the folder ``shots`` or the one that ``SLEEPER_SHOTS`` names."""
    folder = Path(os.environ.get("SLEEPER_SHOTS") or Path(__file__).parents[2] / "shots")
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{name.lower().replace(' ', '-')}.png")


@dataclass(frozen=True)
class Server:
    """A running JupyterLab: its address, its token and the folder that it shows."""

    url: str
    token: str
    folder: Path


@dataclass
class Pages:
    """A page with JupyterLab, for one test after the other; a new one after a test that failed."""

    server: Server
    browser: Any
    page: Any = None

    def ready(self) -> Any:
        """Return the page as a user has it who just began, but for the theme."""
        if self.page is None:
            self.page = self.browser.new_page()
            self.page.set_default_timeout(LONGEST_WAIT)
        self.page.context.clear_permissions()
        self.page.set_viewport_size(_SIZE)
        return self.page

    def discard(self) -> None:
        if self.page is not None:
            self.page.close()
        self.page = None


@dataclass
class Lab:
    """A notebook open in a page."""

    page: Any
    server: Server
    name: str
    theme: str = ""
    hosts: set[str] = field(default_factory=set)

    def open(self) -> None:
        if self.page.url == "about:blank":
            self.page.goto(f"{self.server.url}/doc/tree/{self.name}?reset&token={self.server.token}")
        else:
            self.page.evaluate(_SHOW, self.name)
        self.page.wait_for_function(_OPEN, arg=self.name)

    def run_all(self, *, seconds: float = LONGEST_WAIT / 1000) -> None:
        self.start("notebook:run-all-cells")
        self.page.wait_for_function("window.done", timeout=seconds * 1000)

    def run_cell(self, number: int) -> None:
        """Run one cell to its end."""
        self.start_cell(number)
        self.page.wait_for_function("window.done", timeout=LONGEST_WAIT)

    def start_cell(self, number: int) -> None:
        self.page.evaluate("n => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = n; }", number)
        self.start("notebook:run-cell")

    def output(self, number: int) -> Any:
        """Return the place of what a cell gave."""
        return self.page.locator(".jp-CodeCell").nth(number).locator(".jp-OutputArea-output")

    def wait_for_file(self, name: str) -> None:
        """Wait until the folder of the notebook has a file."""
        path = f"/api/contents/{self.name.rpartition('/')[0]}/{name}?content=0&token={self.server.token}"
        self.page.evaluate("window.there = false")
        asked = f"() => {{ fetch('{path}').then(answer => {{ window.there = answer.ok; }}); return window.there; }}"
        self.page.wait_for_function(asked, polling=200)

    def start(self, command: str) -> None:
        """Begin what a menu, a button of the toolbar or a key of JupyterLab begins."""
        self.page.evaluate(_DO, command)

    def set_theme(self, name: str) -> None:
        self.page.evaluate(_THEME, f"JupyterLab {name}")
        self.page.wait_for_function("name => document.body.dataset.jpThemeName === `JupyterLab ${name}`", arg=name)
        self.theme = name

    def press(self, *keys: str) -> None:
        """Press one key after the other, wherever the focus is; ``"ArrowLeft*5"`` is five times."""
        for key in keys:
            name, _, times = key.partition("*")
            for _ in range(int(times or 1)):
                self.page.keyboard.press(name)

    def unexpected(self) -> list[dict[str, Any]]:
        """Return the errors in the page, but for those of cells that are there to show one, and what is on stderr."""
        text = self.page.evaluate("() => JSON.stringify(window.jupyterapp.shell.currentWidget.content.model.toJSON())")
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        return [
            output
            for cell in cells
            if "raises-exception" not in cell["metadata"].get("tags", ())
            for output in cell["outputs"]
            if output["output_type"] == "error" or output.get("name") == "stderr"
        ]

    def check(self) -> None:
        """Hold what must be so at the end of whatever was done: no error, no code of data run, nobody else asked."""
        assert self.unexpected() == []
        assert self.page.title() != "broken"
        assert self.hosts == {"127.0.0.1"}

    def saved(self) -> list[dict[str, Any]]:
        """Save the notebook and return the outputs in the file."""
        self.page.evaluate(_SAVE)
        self.page.wait_for_function("window.done")
        cells = nbformat.read(self.server.folder / self.name, as_version=4)["cells"]  # joins what the file has in lines
        return [output for cell in cells for output in cell.get("outputs", ())]

    def box_of(self, place: Any) -> dict[str, float]:
        """Scroll to a place, and return where it is then; in one step, as a widget may draw it again at any time."""
        return dict(place.evaluate(_BOX))

    def stop_kernel(self) -> None:
        self.page.evaluate(_STOP)
        self.page.wait_for_function("window.done")

    def close(self) -> None:
        self.page.evaluate(_CLOSE)

    def look(self, name: str, widget: Any = None) -> None:
        """Hold that a widget, the last when none is said, can be read and its controls have names; keep a picture."""
        widget = widget or self.page.locator(".sleeper-live, .sx").last
        self.shot(name, widget)
        wrong = hard_to_read(widget) + nameless(widget)
        assert not wrong, f"{name} in {self.theme}: {wrong}"

    def shot(self, name: str, widget: Any) -> None:
        """Keep a picture of the page, scrolled to the widget."""
        widget.evaluate("e => e.scrollIntoView()")
        keep_shot(self.page, f"{name}-{self.theme}")
