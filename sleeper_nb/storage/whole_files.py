"""Writes a file of this machine so that it appears whole: readers see all of its old content or all of the new."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


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
