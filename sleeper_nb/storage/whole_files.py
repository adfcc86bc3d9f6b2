"""Writes a file of this machine so that it appears whole: readers see all of its old content or all of the new."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

_ABANDONED: Final = timedelta(days=1)
"""No file takes so long to write."""


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield an empty file to write to; at the end it replaces the one at `path`.

    Nothing is replaced after an error, or when the file is still empty. Only this user may read it, unless its mode is
    changed before the end.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        if temporary.exists() and temporary.stat().st_size:
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def remove_abandoned(folder: Path, now: datetime) -> None:
    """Delete what processes that were killed while they wrote a `whole_file` have left in a folder, a day later."""
    for path in folder.glob(".*.tmp"):
        with contextlib.suppress(OSError):  # another process deleted it, or it is another user's
            if datetime.fromtimestamp(path.stat().st_mtime, UTC) < now - _ABANDONED:
                path.unlink()
