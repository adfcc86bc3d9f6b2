"""Paths as DuckDB opens them: it reads ``*``, ``?`` and ``[`` in them as wildcards, also where they name one file."""

from __future__ import annotations

import re
from typing import Final

_WILDCARD: Final = re.compile(r"[*?\[]")


def exact_path(path: str) -> str:
    """Return the pattern that a path, and no other, matches."""
    return _WILDCARD.sub(r"[\g<0>]", path)
