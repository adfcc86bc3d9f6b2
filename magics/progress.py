"""Whether and where a notebook shows progress."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from sleeper_nb.commands.line_progress import LineProgress

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def notebook_progress(shell: InteractiveShell, wanted: Callable[[], str]) -> LineProgress:
    """Return progress as one line of the cell's output, which front ends replace when it begins with a return.

    A widget would be lost when the notebook is saved, and ``clear_output`` would take the user's own output with it.

    Parameters
    ----------
    shell
        Where the cell runs.
    wanted
        Gives the setting: ``auto`` shows it where somebody watches, ``text`` always, ``off`` never. The environment's
        ``SLEEPER_PROGRESS`` goes before it.
    """

    def is_shown() -> bool:
        setting = os.environ.get("SLEEPER_PROGRESS") or wanted()
        if setting == "auto":
            return hasattr(shell, "kernel") or sys.stdout.isatty()
        return setting == "text"

    return LineProgress(lambda: sys.stdout, is_shown)
