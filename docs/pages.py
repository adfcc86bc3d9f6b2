"""Makes the pages of the site from the documents, notebooks and docstrings of the repository."""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from docs.markdown import promoted, relinked, sections, slug, with_blocks
from docs.notebook_pages import notebook_page
from docs.python_pages import PAGES as PYTHON
from docs.python_pages import python_pages

ROOT = Path(__file__).parents[1]
HOME = "index"
START, NOTEBOOKS, REFERENCE, PYTHON_GROUP, PROJECT = "Start", "Notebooks", "Reference", "Python", "Project"
FIRST_NOTEBOOK = "07_one_day"
"""Before the others, as it shows a whole day at work."""
GROUPS = (START, NOTEBOOKS, REFERENCE, PYTHON_GROUP, PROJECT)
"""The captions of the navigation, in order."""
DECISIONS = "Decisions"
"""The group of the pages that only their index leads to: so many would hide all others in the navigation."""
WHOLE = {
    "README.md": (HOME, START),
    "docs/tour.md": ("tour", START),
    "docs/guide.md": ("guide", START),
    "docs/faq.md": ("faq", START),
    "docs/other-engines.md": ("other-engines", START),
    "docs/running.md": ("running", START),
    "docs/aws-roles.md": ("aws-roles", START),
    "docs/costs.md": ("costs", START),
    "docs/sizing.md": ("sizing", START),
    "COMPARISON.md": ("comparison", START),
    "docs/types.md": ("reference/types", REFERENCE),
    "ARCHITECTURE.md": ("architecture", PROJECT),
    "docs/protocol.md": ("protocol", PROJECT),
    "docs/decisions/README.md": ("decisions/index", PROJECT),
    "benchmarks/README.md": ("benchmarks", PROJECT),
    "benchmarks/SITTING.md": ("sitting", PROJECT),
    "CONTRIBUTING.md": ("contributing", PROJECT),
    "tests/README.md": ("tests", PROJECT),
    "CHANGELOG.md": ("changes", PROJECT),
}
"""Documents that are a page each: the name of the page, and where the navigation has it."""
CUT = {
    "docs/reference.md": ("reference/index", "reference/", REFERENCE),
}
"""Documents whose sections are a page each: the page of what comes first, the folder of the others, the group."""
LICENSE = "LICENSE"
Draw = Callable[[str, str], str]
"""Draws a diagram: from Mermaid's text and the name of a theme of Mermaid to SVG."""
_OUTSIDE = re.compile(r"[a-z]+:")


class LostLinkError(Exception):
    """A link of a document leads to nothing that the site has."""


@dataclass(frozen=True)
class Page:
    """A page of the site.

    Parameters
    ----------
    name
        Its path in the site, without an ending.
    text
        Its Markdown, or reStructuredText.
    source
        The file that it was made from, by its path in the repository; links in the text are relative to it.
    group
        The caption under which the navigation has it.
    anchors
        The anchors of the headings on it that links to the source may name.
    kind
        The ending of its file: md or rst.
    """

    name: str
    text: str
    source: str
    group: str
    anchors: tuple[str, ...] = ()
    kind: str = "md"


@dataclass(frozen=True)
class Built:
    """All pages, with links that lead from page to page, and the files that they show, by path in the site."""

    pages: tuple[Page, ...]
    files: dict[str, bytes]

    def write(self, folder: Path) -> None:
        """Replace a folder by one with these pages and files."""
        shutil.rmtree(folder, ignore_errors=True)
        contents = {f"{page.name}.{page.kind}": page.text.encode() for page in self.pages} | self.files
        for name, content in contents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def drawn_by_mermaid(source: str, theme: str) -> str:
    """Draw a diagram with Mermaid itself, in a JavaScript engine of this process."""
    import mermaidx

    return f"{mermaidx.render(source, theme=theme).svg()}"


def built(root: Path = ROOT, draw: Draw = drawn_by_mermaid) -> Built:
    """Make all pages of the site from a copy of the repository.

    Raises
    ------
    LostLinkError
        When a document links to a file that is no page and no picture.
    """
    files: dict[str, bytes] = {}
    drafts = [*_documents(root), *_notebooks(root, files), *_python(), _license(root)]
    pages = [_finished(page, drafts, root, files, draw) for page in drafts]
    return Built(tuple(_with_navigation(page, pages) for page in pages), files)


def _documents(root: Path) -> Iterable[Page]:
    """Yield the pages of all documents: first those that are cut, in the order of their sections."""
    for source, (name, folder, group) in CUT.items():
        first, others = sections((root / source).read_text(encoding="utf-8"))
        yield Page(name, f"# {first.title}\n{first.body}", source, group, (slug(first.title),))
        for section in others:
            yield Page(folder + slug(section.title), promoted(section), source, group, section.anchors)
    for source, (name, group) in WHOLE.items():
        yield Page(name, (root / source).read_text(encoding="utf-8"), source, group)
    for path in sorted((root / "docs/decisions").glob("[0-9]*.md")):
        yield Page(f"decisions/{path.stem}", path.read_text(encoding="utf-8"), f"docs/decisions/{path.name}", DECISIONS)


def _notebooks(root: Path, files: dict[str, bytes]) -> Iterable[Page]:
    for path in sorted((root / "notebooks").glob("*.ipynb"), key=lambda path: (path.stem != FIRST_NOTEBOOK, path.name)):
        text, pictures = notebook_page(path)
        files |= {f"notebooks/{name}": content for name, content in pictures.items()}
        yield Page(f"notebooks/{path.stem}", text, f"notebooks/{path.name}", NOTEBOOKS)


def _python() -> Iterable[Page]:
    for name, text in python_pages().items():
        yield Page(f"python/{name}", text, f"the public names: {PYTHON[name][0]}", PYTHON_GROUP, kind="rst")


def _license(root: Path) -> Page:
    text = (root / LICENSE).read_text(encoding="utf-8")
    return Page("license", f"# License\n~~~text\n{text.rstrip()}\n~~~\n", LICENSE, PROJECT)


def _finished(page: Page, all_pages: list[Page], root: Path, files: dict[str, bytes], draw: Draw) -> Page:
    """Return a page with links to pages, pictures of its diagrams, and properties that search finds by name."""
    if page.kind != "md":
        return page
    text = relinked(page.text, _resolver(page, all_pages, root, files))
    if page.group != NOTEBOOKS:
        text = with_blocks(text, _block(page, files, draw))
    if page.name == "reference/properties":
        text = with_properties(text)
    return replace(page, text=text)


def _resolver(page: Page, all_pages: list[Page], root: Path, files: dict[str, bytes]) -> Callable[[str], str]:
    """Return what turns a link of a page's source into one of the site, relative to the page."""
    here = posixpath.dirname(page.name)

    def resolve(target: str) -> str:
        path, _, anchor = target.partition("#")
        if _OUTSIDE.match(target):
            return target
        source = posixpath.normpath(posixpath.join(posixpath.dirname(page.source), path)) if path else page.source
        found = _page_for(source, anchor, all_pages)
        if found:
            link = posixpath.relpath(f"{found.name}.{found.kind}", here or ".")
            return f"{link}#{anchor}" if anchor else link
        if source not in files and source.endswith((".png", ".svg")) and (root / source).is_file():
            files[source] = (root / source).read_bytes()
        if source in files:
            return posixpath.relpath(source, here or ".")
        raise LostLinkError(f"{page.source} links to {target}, which is no page: add it to WHOLE in docs/pages.py")

    return resolve


def _page_for(source: str, anchor: str, all_pages: list[Page]) -> Page | None:
    """Return the page made from a file, and of a file with several the one that has the anchor, or the first."""
    made = [page for page in all_pages if page.source == source]
    return next((page for page in made if anchor in page.anchors), made[0] if made else None)


def _block(page: Page, files: dict[str, bytes], draw: Draw) -> Callable[[str, str], str]:
    """Return what shows a code block: cells with magics in their colours, diagrams as a light and a dark picture."""

    def shown(language: str, content: str) -> str:
        if language == "mermaid":
            return _diagram(page, content, files, draw)
        magics = not language and any(line.startswith("%") for line in content.splitlines())
        return f"~~~~{'ipython3' if magics else language}\n{content}~~~~"

    return shown


def _diagram(page: Page, source: str, files: dict[str, bytes], draw: Draw) -> str:
    """Return the pictures of a diagram, of which the site shows one: Mermaid draws them here, not in the browser."""
    number = sum(name.startswith(f"diagrams/{page.name}-") for name in files) // 2 + 1
    parts = []
    for shade, theme in (("light", "default"), ("dark", "dark")):
        name = f"diagrams/{page.name}-{number}-{shade}.svg"
        files[name] = draw(source, theme).encode()
        link = posixpath.relpath(name, posixpath.dirname(page.name) or ".")
        alternative = f"Diagram {number} of this page, drawn from the text of {page.source}"
        parts.append(f"~~~{{image}} {link}\n:class: only-{shade}\n:alt: {alternative}\n~~~")
    return "\n\n".join(parts)


def with_properties(text: str) -> str:
    """Make each row of the tables of properties a definition with an anchor, which the search finds by its name."""
    out = []
    for line in text.splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and cells[0].startswith("`"):
            kind, default = cells[1], cells[2] or "none"
            out.append(f"~~~{{std:property}} {cells[0].strip('`')}\n{cells[3]}\n\n{kind}; default: {default}\n~~~\n")
        elif not line.startswith(("| property |", "|---")):
            out.append(line)
    return "\n".join(out) + "\n"


def _with_navigation(page: Page, all_pages: list[Page]) -> Page:
    """Return the first page with the tables of contents that the sidebar shows; others as they are."""
    if page.group == DECISIONS:
        return replace(page, text=f"---\norphan: true\n---\n{page.text}")
    if page.name != HOME:
        return page
    others = [other for other in _in_order(all_pages) if other is not page]
    return replace(page, text="\n".join([page.text, *(_contents(group, others) for group in GROUPS)]))


def _contents(group: str, pages: list[Page]) -> str:
    names = "\n".join(f"/{page.name}" for page in pages if page.group == group)
    return f"~~~{{toctree}}\n:hidden:\n:caption: {group}\n\n{names}\n~~~\n"


def _in_order(pages: list[Page]) -> list[Page]:
    """Return pages with the tour, the guide and the questions first; the rest stays as it is."""
    first = ("tour", "guide", "faq", "comparison")
    return sorted(pages, key=lambda page: first.index(page.name) if page.name in first else len(first))
