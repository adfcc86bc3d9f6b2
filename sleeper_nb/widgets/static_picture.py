"""What stays of a widget in a saved notebook: HTML without scripts that needs no kernel, and the same as text."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, repr=False)
class StaticPicture:
    """What a widget shows, as HTML and as text."""

    html: str
    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


def static_bundle(kept: StaticPicture) -> dict[str, str]:
    """Return the output that stays in a saved notebook; it is hidden while the live widget is on the page."""
    return {"text/html": f'<div class="sleeper-static">{kept.html}</div>', "text/plain": kept.text}


def failure_picture(failure: Mapping[str, str]) -> StaticPicture:
    """Return an error in place of what could not be read."""
    hint = f"<div>hint: {html.escape(failure['hint'])}</div>" if failure["hint"] else ""
    shown = f'<div role="alert"><b>{html.escape(failure["message"])}</b>{hint}</div>'
    return StaticPicture(shown, failure["message"])
