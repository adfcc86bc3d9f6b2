"""The cache folder: files that can be made again, kept from one session to the next."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

logger = logging.getLogger(__name__)


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the cache folder, which is created; a temporary folder if it cannot be written.

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
    # A new name: at a known one, another user could have prepared something.
    temporary = Path(tempfile.mkdtemp(prefix="sleeper_nb-cache-"))
    logger.warning("the cache folder %s cannot be written; %s is used instead", folder, temporary)
    return temporary
