"""Whether and where a notebook shows progress."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from sleeper_nb.commands.line_progress import LineProgress

if TYPE_CHECKING:
    from magics.sleeper import SleeperMagics


def notebook_progress(magics: SleeperMagics) -> LineProgress:
    """Return progress as one line of the cell's output, which front ends replace when it begins with a return.

    A widget would be lost when the notebook is saved, and ``clear_output`` would take the user's own output with it.
    """
    return LineProgress(lambda: sys.stdout, lambda: is_shown(magics))


def is_shown(magics: SleeperMagics) -> bool:
    """Tell whether somebody watches: a notebook's kernel or a terminal, unless a setting says otherwise."""
    wanted = os.environ.get("SLEEPER_PROGRESS") or magics.progress
    if wanted == "auto":
        return hasattr(magics.shell, "kernel") or sys.stdout.isatty()
    return wanted == "text"
