"""The cache folder: what can be made again, kept from one session to the next."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder for what can be made again, and create it; in the temporary folder if it cannot be written.

    It is ``$SLEEPER_CACHE``, or ``$XDG_CACHE_HOME/sleeper_nb``, or ``~/.cache/sleeper_nb``.
    """
    given = os.environ if environ is None else environ
    if chosen := given.get("SLEEPER_CACHE"):
        folder = Path(chosen)
    else:
        base = given.get("XDG_CACHE_HOME")
        folder = (Path(base) if base else Path("~/.cache").expanduser()) / "sleeper_nb"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder.absolute()
    except (OSError, RuntimeError):
        pass
    # A fresh name: another user could have put something at a known one.
    return Path(tempfile.mkdtemp(prefix="sleeper_nb-cache-"))
