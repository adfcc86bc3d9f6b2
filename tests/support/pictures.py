"""What can be read in a picture, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as ET

_XHTML = "{http://www.w3.org/1999/xhtml}"


def lines_of(picture: ET.Element) -> Iterator[ET.Element]:
    """Yield the elements of the lines of text, in their order."""
    for element in picture.iter():
        if element.tag == "text" or "sleeper-words" in (element.get("class") or "").split():
            yield element


def line_text(line: ET.Element) -> str:
    """Return a line of text, its parts with a space between."""
    parts = list(line.iter(f"{_XHTML}span"))
    return " ".join(part.text or "" for part in parts) if parts else " ".join(line.itertext()).strip()
