"""Room on disk that the embedded catalog keeps in reserve, so that a full disk can still be cleaned up.

To forget a snapshot or a table is to write, and a full disk has no room for that. A file that holds nothing takes the
room beforehand. Only work that frees space gives it up, a part at a time, and takes it again from what it has freed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

LEAST, MOST = 256 << 10, 4 << 20
"""Bytes in reserve: as many as the catalog has, as one transaction can rewrite all of it, within these bounds."""
PART = 64 << 10
"""Given up at a time, at least; it is enough to open a catalog, which needs 32 KiB."""


class Reserve:
    """A file beside the catalog that takes up room. Without it, all works as before until the disk is full.

    Parameters
    ----------
    catalog
        The file of the catalog.
    """

    def __init__(self, catalog: Path) -> None:
        self._catalog, self._path = catalog, catalog.with_name(f"{catalog.name}-reserve")

    def keep(self) -> None:
        """Take the room, or what is missing of it; of little free space not more than half."""
        with contextlib.suppress(OSError):  # a folder to read in only, or a disk that has filled up meanwhile
            held = self._path.stat().st_size if self._path.exists() else 0
            missing = min(max(self._catalog.stat().st_size, LEAST), MOST) - held
            size = held + min(missing, self.free() // 2)
            if size <= held:
                return
            with self._path.open("ab") as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), held, size - held)
                else:  # not Linux
                    file.write(bytes(size - held))

    def give_up(self) -> bool:
        """Give up a part of the room; return False when nothing is left of it."""
        try:
            held = self._path.stat().st_size
            os.truncate(self._path, max(0, held - max(PART, held // 4)))
        except OSError:
            return False
        return held > 0

    def free(self) -> int:
        """Return how many bytes of the disk are free."""
        return shutil.disk_usage(self._catalog.parent).free
