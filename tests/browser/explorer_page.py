"""The explorer in a page, as its users find their way: by roles and names, wherever it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.browser.lab import expect

TABS: Final = ("Rows", "Changes", "Schema", "Partitions", "History", "SQL")
_AXE: Final = Path(__file__).parents[2] / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
_VIOLATIONS: Final = """async root => {
    const said = (rule, node) => `${rule.id}: ${rule.help}: ${node.html.slice(0, 200)} ${node.any[0]?.message ?? ""}`;
    const {violations} = await window.axe.run(root, {resultTypes: ["violations"]});
    return violations.flatMap(rule => rule.nodes.map(node => said(rule, node)));
}"""


@dataclass(frozen=True)
class ExplorerPage:
    """One explorer.

    Parameters
    ----------
    root
        The place of the whole of it.
    """

    root: Any

    @classmethod
    def of(cls, page: Any, number: int = -1) -> ExplorerPage:
        """Return the last explorer of a page, or that of a number, once it is drawn."""
        places = page.locator(".sx")
        root = places.last if number < 0 else places.nth(number)
        expect(root).to_be_visible()
        return cls(root)

    @property
    def page(self) -> Any:
        return self.root.page

    # What is there

    def tab(self, name: str) -> Any:
        return self.root.get_by_role("tab", name=name, exact=True)

    @property
    def panel(self) -> Any:
        return self.root.get_by_role("tabpanel")

    @property
    def tables(self) -> Any:
        return self.root.get_by_role("listbox", name="Tables")

    @property
    def version(self) -> Any:
        return self.root.get_by_role("slider", name="Version", exact=True)

    @property
    def compared(self) -> Any:
        return self.root.get_by_role("slider", name="Compared with version")

    @property
    def line(self) -> Any:
        """Return the place of the command for what is shown."""
        return self.root.get_by_label("Equivalent command").locator("code")

    @property
    def grid(self) -> Any:
        return self.root.get_by_role("grid").first

    @property
    def shown(self) -> Any:
        """Return the place that says which rows are seen of how many."""
        return self.root.locator(".sx-rows-shown")

    @property
    def where(self) -> Any:
        return self.root.locator(".sx-rows-where")

    @property
    def editor(self) -> Any:
        return self.root.get_by_role("textbox", name="SQL statement")

    def button(self, name: str, *, exact: bool = True) -> Any:
        return self.root.get_by_role("button", name=name, exact=exact)

    def header(self, name: str) -> Any:
        return self.root.get_by_role("columnheader", name=name, exact=True)

    def bars(self, name: str) -> Any:
        return self.root.get_by_role("slider", name=f"Filter {name}", exact=True)

    def cell(self, row: int, column: int) -> Any:
        """Return a cell of the first grid, both counted from 1."""
        return self.grid.locator(f'[role=row][aria-rowindex="{row + 1}"] [aria-colindex="{column}"]')

    # What is done

    def open(self, tab: str) -> None:
        self.tab(tab).click()
        expect(self.tab(tab)).to_have_attribute("aria-selected", "true")

    def travel_by_mouse(self, version: int, *, handle: Any = None) -> None:
        """Drag a handle to a version; those of these tests are numbered from 1 without a gap, and all in sight."""
        handle = handle or self.version
        handle.scroll_into_view_if_needed()
        begin, field = handle.bounding_box(), self.root.locator(".sx-time-field").bounding_box()
        many = int(self.version.get_attribute("aria-valuemax"))
        mouse, y = self.page.mouse, begin["y"] + begin["height"] / 2
        mouse.move(begin["x"] + begin["width"] / 2, y)
        mouse.down()
        x = field["x"] + field["width"] * (version - 0.5) / many
        mouse.move((begin["x"] + x) / 2, y)
        mouse.move(x, y)
        mouse.up()

    def brush(self, column: str, first: float, last: float) -> None:
        """Drag over the bars of a header, from one part of their width to another."""
        bars = self.bars(column)
        bars.scroll_into_view_if_needed()
        box, mouse = bars.bounding_box(), self.page.mouse
        y = box["y"] + box["height"] / 2
        mouse.move(box["x"] + box["width"] * first, y)
        mouse.down()
        for step in range(1, 9):
            mouse.move(box["x"] + box["width"] * (first + (last - first) * step / 8), y)
        mouse.up()

    def menu(self, column: str):
        """Open the menu of a column's header."""
        self.header(column).hover()
        self.button(f"Menu of {column}").click()
        return self.root.get_by_role("dialog", name=f"Column {column}")

    def filter(self, column: str, text: str) -> None:
        """Type a filter of a column into the menu of its header."""
        dialog = self.menu(column)
        dialog.get_by_role("textbox").fill(text)
        dialog.get_by_role("button", name="Apply").click()

    def write(self, statement: str) -> None:
        """Put a statement in place of what the editor has."""
        self.editor.click()
        self.page.keyboard.press("ControlOrMeta+A")
        self.page.keyboard.press("Delete")
        self.page.keyboard.insert_text(statement)
        self.page.keyboard.press("Escape")  # what is offered, if anything

    def run(self, statement: str) -> None:
        self.write(statement)
        self.page.keyboard.press("ControlOrMeta+Enter")


def accessible(root: Any) -> None:
    """Hold that axe-core finds nothing in a part of a page; skip the test where axe-core is not installed."""
    if not _AXE.exists():
        pytest.skip("axe-core is not there: run `npm ci` in the folder frontend")
    if root.page.evaluate("() => window.axe === undefined"):
        root.page.evaluate(_AXE.read_text())
    found = root.evaluate(_VIOLATIONS)
    assert found == [], "\n".join(found)
