"""Advisory locks between the processes of one machine that commit to one table, so that fewer commits are lost.

Only the catalog's conditional update makes commits safe. A lock merely saves work: eight writers that try at the same
time do eight times the work for one commit. So no process waits long for a lock, and one that cannot get it continues.
"""

from __future__ import annotations

import contextlib
import logging
import os
import zlib
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path

from sleeper_nb.clock import Clock, Retry

try:
    import fcntl
except ImportError:  # Windows has no such locks: writers try at the same time
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

LONGEST_WAIT = timedelta(seconds=0.5)
"""After this a process commits without the lock: its holder was stopped, or its commit takes long."""
POLL = Retry(first_wait=0.0005, max_wait=0.01)


class CommitLocks:
    """Locks in one file, one byte for each table; the operating system releases them when their process ends.

    Parameters
    ----------
    path
        The file; it is created with the first lock, and stays empty.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @contextlib.contextmanager
    def hold(self, table_id: str, clock: Clock) -> Iterator[None]:
        """Run the block while holding the lock of a table, or after waiting long enough for it."""
        byte = zlib.crc32(table_id.encode())
        try:
            self._wait(byte, clock)
            yield
        finally:
            if self._file is not None:
                with contextlib.suppress(OSError):
                    fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)

    def _wait(self, byte: int, clock: Clock) -> None:
        """Return when the lock is held, after a while without it, and where there are no locks."""
        polls, end = count(), clock.now() + LONGEST_WAIT
        try:
            if self._file is None and fcntl is not None:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            while self._file is not None and not self._try_lock(self._file, byte):
                if clock.now() >= end:
                    logger.info(
                        "%s: another process has held the lock for %s; committing anyway", self._path, LONGEST_WAIT
                    )
                    return
                POLL.wait(clock, next(polls))
        except OSError as error:  # a full disk, or a network's file system without locks
            logger.info("%s: no advisory lock (%s); committing without it", self._path, error)

    def _try_lock(self, file: int, byte: int) -> bool:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except (BlockingIOError, PermissionError):  # systems differ in how they report a lock held by another process
            return False
        return True

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
