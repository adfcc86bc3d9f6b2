"""Cuts Markdown into sections, and rewrites its links and code blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_LINK = re.compile(r"`[^`]*`|\]\((?P<target>[^)\s]+)\)")
"""Inline code, which is passed over, or the target of a link."""
_FENCE = re.compile(r"(`{3,}|~{3,}) *([^\s`]*)[^`]*$")
"""A line of backticks or tildes, the language, and what else follows on the line, such as an argument."""


@dataclass(frozen=True)
class Section:
    """A heading and what is below it, up to the next heading of its level.

    Parameters
    ----------
    title
        The text of the heading.
    body
        The lines below it, with the headings of lower levels.
    """

    title: str
    body: str

    @property
    def anchors(self) -> tuple[str, ...]:
        """The anchors of this heading and of all below it, as links name them."""
        return (slug(self.title), *(slug(title) for title in _titles(self.body)))


def slug(title: str) -> str:
    """Return the anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")


def sections(text: str) -> tuple[Section, tuple[Section, ...]]:
    """Cut a document at its headings of level 2; what comes before them has the document's title."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    for line, in_code in _lines(text):
        if not in_code and line.startswith(("# ", "## ")):
            parts.append((line.lstrip("#").strip(), []))
        else:
            parts[-1][1].append(line)
    first, *others = (Section(title, "\n".join(lines).strip("\n") + "\n") for title, lines in parts[1:])
    return first, tuple(others)


def promoted(section: Section) -> str:
    """Return a section of level 2 as a document: each heading goes up one level."""
    lines = (line[1:] if not in_code and line.startswith("###") else line for line, in_code in _lines(section.body))
    return f"# {section.title}\n" + "\n".join(lines) + "\n"


def relinked(text: str, resolve: Callable[[str], str]) -> str:
    """Replace the target of each link and picture outside code by what `resolve` returns for it."""

    def replaced(match: re.Match[str]) -> str:
        target = match["target"]
        return match[0] if target is None else f"]({resolve(target)})"

    return "\n".join(line if in_code else _LINK.sub(replaced, line) for line, in_code in _lines(text)) + "\n"


def with_blocks(text: str, replace: Callable[[str, str], str]) -> str:
    """Replace each code block by what `replace` returns for its language and content."""
    out: list[str] = []
    block: list[str] = []
    for line, in_code in _lines(text):
        if in_code:
            block.append(line)
            if len(block) > 1 and _closes(block[0], line):
                opening = _FENCE.match(block[0].strip())
                content = "\n".join(block[1:-1]) + "\n"
                out.append(replace(opening[2] if opening else "", content))
                block = []
        else:
            out.append(line)
    return "\n".join([*out, *block]) + "\n"


def code_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the language and content of each code block, in order."""
    found: list[tuple[str, str]] = []

    def noted(language: str, content: str) -> str:
        found.append((language, content))
        return ""

    with_blocks(text, noted)
    yield from found


def _titles(text: str) -> Iterator[str]:
    for line, in_code in _lines(text):
        if not in_code and re.match(r"#+ ", line):
            yield line.lstrip("#").strip()


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it is in a code block; its fences are in it."""
    opened = ""
    for line in text.rstrip("\n").split("\n"):
        if opened:
            yield line, True
            opened = "" if _closes(opened, line) else opened
        else:
            opened = line if _FENCE.match(line.strip()) else ""
            yield line, bool(opened)


def _closes(opening: str, line: str) -> bool:
    """Whether a line ends the block that an opening fence began: the same character, as often or more."""
    fence = _FENCE.match(opening.strip())
    closing = line.strip()
    return fence is not None and set(closing) == {fence[1][0]} and len(closing) >= len(fence[1])
