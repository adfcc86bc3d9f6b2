"""Makes the pages of the Python reference: which names they have, found in the public API."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import sleeper_nb
from sleeper_nb.errors import SleeperError
from sleeper_nb.report import Report

ROOT = Path(__file__).parents[1]
PAGES = {
    "sessions": (
        "Sessions",
        ("connect", "open_warehouse", "deploy", "doctor", "Session", "SessionInspect", "Administration", "Warehouse"),
    ),
    "tables": ("Tables", ("Table", "TableInspect", "Maintenance", "SavepointManager")),
    "versions": ("Versions, scans and changes", ("TableAt", "Inspect", "Scan", "Changes")),
    "values": ("Schemas, snapshots, savepoints", ()),
    "results": ("Results", ("Report", "Tabular", "TableReport")),
    "errors": ("Errors", ()),
}
"""Titles, and the names that are on a page because it says so. All others find their page by what they are."""
_LISTS = r"(?:Listing|Pictured)\[(\w+)\]"
_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
_OTHERS = {
    *("Administration", "Inspect", "JobProgress", "Maintenance", "MergeBuilder", "RetainedVersions", "SessionInspect"),
    *("TableInspect", "Warehouse"),
}
"""What methods return that is neither a result nor the entry of a list."""


def python_pages() -> dict[str, str]:
    """Return the text of each page, as reStructuredText, by its name."""
    names: dict[str, list[str]] = {page: list(given) for page, (_, given) in PAGES.items()}
    placed = {name for given in names.values() for name in given}
    for name in sorted({*sleeper_nb.__all__, *results()} - placed):
        names[_page_of(name)].append(name)
    known = homes()
    return {page: _page(PAGES[page][0], found, known) for page, found in names.items()}


def homes() -> dict[str, str]:
    """Return the module of each class of the package; a class name occurs once in it."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "sleeper_nb").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found |= dict.fromkeys(_CLASS.findall(path.read_text(encoding="utf-8")), module)
    return found


def results() -> set[str]:
    """Return the classes of all values that public methods return: results, entries of lists, and what they give."""
    known = homes()
    seen: set[str] = set()
    waiting = [name for name in sleeper_nb.__all__ if name in known]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(_returned_by(_class(name, known), known))
    return seen


def _returned_by(cls: type, known: dict[str, str]) -> Iterator[str]:
    """Yield the classes of results, and of entries of lists, that the public methods of a class return."""
    for name, member in inspect.getmembers(cls):
        function = member.fget if isinstance(member, property) else member
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        annotation = str(function.__annotations__.get("return", ""))
        entries = set(re.findall(_LISTS, annotation))
        for word in re.findall(r"\w+", annotation):
            if word in known and (word in entries or word in _OTHERS or issubclass(_class(word, known), Report)):
                yield word


def _class(name: str, known: dict[str, str]) -> type:
    found: type = getattr(importlib.import_module(known[name]), name)
    return found


def _page_of(name: str) -> str:
    """Return the page of a name that no page claims."""
    public = getattr(sleeper_nb, name, None)
    if inspect.isclass(public) and issubclass(public, SleeperError):
        return "errors"
    return "values" if name in sleeper_nb.__all__ else "results"


def _page(title: str, names: list[str], known: dict[str, str]) -> str:
    parts = [f"{title}\n{'=' * len(title)}\n"]
    for name in names:
        home = "sleeper_nb" if name in sleeper_nb.__all__ else known[name]
        kind = "class" if name in known else "function"
        members = "   :members:\n   :show-inheritance:\n" if kind == "class" else ""
        parts.append(f"{name}\n{'-' * len(name)}\n\n.. auto{kind}:: {home}.{name}\n{members}")
    return "\n".join(parts)
