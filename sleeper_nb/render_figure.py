"""A picture as HTML: drawn in the colours of the page, and as a still image where no stranger may draw."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from sleeper_nb.report import NO_MATHS

BRAND: Final = "fill:var(--jp-brand-color1,#1976d2)"
_MOST_STILL: Final = 24_000  # in bytes; the listing below a picture needs its room too
_SAFE: Final = " '=:/;,()-._+"  # of an address within double quotes

# Of a notebook that is not trusted JupyterLab takes the drawing away and leaves its words. Of styles it keeps what it
# knows: neither `flow-root`, so that the words stay hidden there; nor `contents`, with which no image is to be seen.
_DRAWING: Final = 'hidden="hidden" style="display:flow-root"'
_STILL: Final = "display:contents;background-color:#fff"


def figure(title: str, height: int, drawn: str, said: Sequence[str]) -> str:
    """Return a picture of some height in px: named for who cannot see it, and with what is to be said below it."""
    head = f'<svg role="img" width="100%" height="{height}" font-size="12" style="display:block" fill="currentColor">'
    drawing = f"{head}<title>{html.escape(title)}</title>\n{drawn}</svg>"
    below = f'<div style="opacity:0.75;margin-top:2px;">{html.escape(" · ".join(filter(None, said)))}</div>'
    parts = (f"<div {_DRAWING}>{drawing}</div>", _still(title, height, drawn), below)
    return f'<div class="{NO_MATHS}" style="max-width:1080px;">{"".join(parts)}</div>'


def _still(title: str, height: int, drawn: str) -> str:
    """Return the picture as an image, black on white; nothing when it would be large."""
    shapes = re.sub(r"<title>.*?</title>", "", drawn, flags=re.DOTALL).replace('"', "'")
    alone = f"<svg xmlns='http://www.w3.org/2000/svg' font-size='12' font-family='sans-serif'>{shapes}</svg>"
    address = f"data:image/svg+xml;charset=utf-8,{quote(alone, safe=_SAFE)}"
    style = (
        f"{_STILL};width:100%;height:{height}px"  # in style: a page's own may say that images are as high as they are
    )
    image = f'<img alt="{html.escape(title)}" style="{style}" src="{address}"/>'
    return image if len(image) <= _MOST_STILL else ""
