"""The frame of our own pictures as HTML: SVG in the colours of the page, text that fits its box, labels of keys.

JupyterLab removes SVG from notebooks that are not trusted and keeps its text; there, an image of the same is shown.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from sleeper_nb.model.keys import KeyValue, key_text
from sleeper_nb.model.partitions import Range
from sleeper_nb.report import NO_MATHS, cell_text

BRAND: Final = "fill:var(--jp-brand-color1,#1976d2)"
_MOST_STILL: Final = 24_000  # bytes; the listing below a picture needs room too
_SAFE: Final = " '=:/;,()-._+"  # in an address within double quotes

# In an untrusted notebook JupyterLab removes the SVG, keeps its text, and drops values of `display` that it does not
# know: without `flow-root` the text stays hidden, and without `contents` the image is shown.
_DRAWING: Final = 'hidden="hidden" style="display:flow-root"'
WORDS: Final = "sleeper-words"
"""The CSS class of each line of text."""
_PAD: Final = 6  # px
_XHTML: Final = "http://www.w3.org/1999/xhtml"
_WORDS_STYLE: Final = (
    f".{WORDS}-box{{height:100%;padding-left:{_PAD}px;box-sizing:border-box;font-size:12px;line-height:17px;white-space:nowrap}}"
    f".{WORDS}{{display:flex;flex-wrap:wrap;height:17px;overflow:hidden;column-gap:4px}}"
    f".{WORDS}>i{{height:17px;margin-right:-4px}}"
    f".{WORDS}.ends{{justify-content:flex-end;margin-right:6px}}"
    f".{WORDS}.clipped{{display:block;text-overflow:ellipsis}}"
    f".{WORDS}.upright{{height:100%;column-gap:0}}"
    f".{WORDS}.upright>i{{height:100%}}"
    f".{WORDS}.upright>span{{writing-mode:vertical-rl;line-height:12px}}"
)
_STILL: Final = "display:contents;background-color:#fff"


def figure(title: str, height: int, drawn: str, notes: Sequence[str]) -> str:
    """Return a picture as HTML: its height in px, a title for screen readers, and notes below it."""
    head = f'<svg role="img" width="100%" height="{height}" font-size="12" style="display:block" fill="currentColor">'
    drawn = f"<style>{_WORDS_STYLE}</style>{drawn}" if WORDS in drawn else drawn
    drawing = f"{head}<title>{html.escape(title)}</title>\n{drawn}</svg>"
    below = f'<div style="opacity:0.75;margin-top:2px;">{html.escape(" · ".join(filter(None, notes)))}</div>'
    parts = (f"<div {_DRAWING}>{drawing}</div>", _still(title, height, drawn), below)
    return f'<div class="{NO_MATHS}" style="max-width:1080px;">{"".join(parts)}</div>'


def words(place: str, lines: Sequence[Sequence[str]], *, ends: bool = False) -> str:
    """Return lines of text in a box whose width is known only to the page; parts that do not fit are left out whole.

    Such a part wraps to a line that is hidden: a number that is cut would be read as another number. `place` is the
    position of the box as SVG attributes, each line is 17 px high, and with `ends` they are aligned to the right.
    """
    kind = f"{WORDS} ends" if ends else WORDS
    held = (
        f'<div class="{kind}"><i></i>{"".join(f"<span>{html.escape(part)}</span>" for part in line)}</div>'
        for line in lines
    )
    return _box(place, "".join(held))


def clipped_words(place: str, text: str, align: str = "left", *, pad: int = _PAD) -> str:
    """Return a text in a box whose width is known only to the page; what does not fit becomes an ellipsis."""
    look = f' style="text-align:{align}"' if align != "left" else ""
    return _box(place, f'<div class="{WORDS} clipped"{look}>{html.escape(text)}</div>', pad)


def upright_words(place: str, text: str) -> str:
    """Return a text from top to bottom, for a narrow box; nothing when it does not fit."""
    return _box(place, f'<div class="{WORDS} upright"><i></i><span>{html.escape(text)}</span></div>', 0)


def _box(place: str, held: str, pad: int = _PAD) -> str:
    look = f' style="padding-left:{pad}px"' if pad != _PAD else ""
    return f'<foreignObject {place}><div xmlns="{_XHTML}" class="{WORDS}-box"{look}>{held}</div></foreignObject>\n'


def _still(title: str, height: int, drawn: str) -> str:
    """Return the picture as an image, black on white; nothing when the image would be large."""
    shapes = re.sub(r"<title>.*?</title>", "", drawn, flags=re.DOTALL).replace('"', "'")
    alone = f"<svg xmlns='http://www.w3.org/2000/svg' font-size='12' font-family='sans-serif'>{shapes}</svg>"
    address = f"data:image/svg+xml;charset=utf-8,{quote(alone, safe=_SAFE)}"
    style = (
        f"{_STILL};width:100%;height:{height}px"  # in style: a page's own may say that images are as high as they are
    )
    image = f'<img alt="{html.escape(title)}" style="{style}" src="{address}"/>'
    return image if len(image) <= _MOST_STILL else ""


# Labels of key ranges: shortened only where the short form is still true, otherwise left out.

_MOST_LETTERS = 60  # of a bound, which may be a text of any length


def clip(text: str, room: int) -> str:
    """Return a text cut to one line; nothing when there is room for less than a few letters."""
    text = cell_text(text)
    return text if len(text) <= room else f"{text[: room - 1]}…" if room > 3 else ""


def range_text(ranges: Sequence[Range]) -> str:
    """Return the ranges of some row keys; long texts are cut, numbers are never that long."""
    return " × ".join(str(Range(_short(each.min), _short(each.max))) for each in ranges)


def range_labels(boxes: Sequence[Sequence[Range]], room: int) -> list[str]:
    """Return a label for each box of neighbours: its ranges, or one bound of them, or nothing."""
    whole = list(map(range_text, boxes))
    shown = [text if len(text) <= room else _bound(box, room) for text, box in zip(whole, boxes, strict=True)]
    return told_apart(shown, whole)


def point_label(value: KeyValue, room: int, before: str = "") -> str:
    """Return a key after a word; without room a text is cut, and any other key left out: a part is another key."""
    text = f"{before}{key_text(value)}"
    return clip(text, room) if isinstance(value, str) else text if len(text) <= room else ""


def told_apart(shown: Sequence[str], whole: Sequence[str]) -> list[str]:
    """Return labels without shortened ones that equal another label."""
    seen = Counter(shown)
    return [text if text == full or seen[text] == 1 else "" for text, full in zip(shown, whole, strict=True)]


def _short(bound: KeyValue | None) -> KeyValue | None:
    return None if bound is None else clip(key_text(bound), _MOST_LETTERS)


def _bound(ranges: Sequence[Range], room: int) -> str:
    """Return the least key of a box, or the end of the first one, if only one row key bounds it and it fits."""
    first, *others = ranges
    if any(each != Range() for each in others):
        return ""
    if first.min is not None:
        return point_label(first.min, room, "≥ ")
    if first.max is None:
        return ""
    whole = f"< {cell_text(key_text(first.max))}"
    # Texts below a long one are below its beginning, or begin with it: "<" before the beginning would not be true.
    return whole if len(whole) <= room else point_label(first.max, room, "≤ ")
