"""Checks a built site: each link leads to a page and an anchor that are there, and nothing is loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src",
          "embed": "src", "object": "data", "image": "href", "use": "href"}  # fmt: skip
"""The attribute with which each tag makes the browser load something."""
_LOADING_LINKS = {"stylesheet", "icon", "preload", "modulepreload", "prefetch", "preconnect", "dns-prefetch"}
_STYLE_LOADS = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


class _Reader(HTMLParser):
    """Collects the anchors, links and loads of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self._in_style = tag == "style"
        self.loads += style_loads(given.get("style", ""))
        if tag in _LOADS and _LOADS[tag] in given:
            self.loads.append(given[_LOADS[tag]])
        if tag == "link" and _LOADING_LINKS & set(given.get("rel", "").split()):
            self.loads.append(given.get("href", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.loads += style_loads(data)


def style_loads(text: str) -> list[str]:
    """Return the addresses that a style sheet loads."""
    return [one or other for one, other in _STYLE_LOADS.findall(text)]


def problems(site: Path) -> list[str]:
    """Return a line for each link that leads nowhere, and for each load from elsewhere or of a file that is missing."""
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    found = [
        f"{path.relative_to(site)}: {problem}"
        for path, page in pages.items()
        for problem in _of_page(path, page, pages)
    ]
    for sheet in sorted(site.rglob("*.css")):
        loads = style_loads(sheet.read_text(encoding="utf-8"))
        found += [f"{sheet.relative_to(site)}: {problem}" for problem in _of_loads(sheet, loads)]
    return found


def _read(path: Path) -> _Reader:
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader


def _of_page(path: Path, page: _Reader, pages: dict[Path, _Reader]) -> Iterator[str]:
    yield from _of_loads(path, page.loads)
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not target.is_file():
            yield f"a link to {link}, which is no file of the site"
        elif target in pages and parts.fragment and unquote(parts.fragment) not in pages[target].anchors:
            yield f"a link to {link}, but {target.name} has no such anchor"


def _of_loads(path: Path, loads: list[str]) -> Iterator[str]:
    for load in loads:
        parts = urlsplit(load)
        if parts.scheme == "data" or load.startswith("#"):
            continue
        if parts.scheme or parts.netloc:
            yield f"it loads {load} from the network"
        elif not (path.parent / unquote(parts.path)).is_file():
            yield f"it loads {load}, which is no file of the site"
