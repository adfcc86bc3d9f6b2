"""Turns of the processes of one machine that commit to one table: who waits for its turn loses no try.

Only the catalog's conditional update keeps commits apart. A turn merely saves work: eight writers that all try at once
do eight times the work for one commit. So nobody waits long for one, and where a turn cannot be had, work goes on.
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
except ImportError:  # Windows: writers try at once there
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

LONGEST_WAIT = timedelta(seconds=0.5)
"""Of a process that has been stopped in its turn, or whose commit takes long; then the next one tries all the same."""
POLL = Retry(first_wait=0.0005, max_wait=0.01)


class Turns:
    """A file of locks: one byte for each table. They are the operating system's, and end with their process.

    Parameters
    ----------
    path
        The file; it is made with the first turn, and stays empty.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @contextlib.contextmanager
    def turn(self, table_id: str, clock: Clock) -> Iterator[None]:
        """Do what is in the block when it is this process's turn, or when it has waited long enough."""
        byte = zlib.crc32(table_id.encode())
        try:
            self._wait(byte, clock)
            yield
        finally:
            if self._file is not None:
                with contextlib.suppress(OSError):
                    fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)

    def _wait(self, byte: int, clock: Clock) -> None:
        """Return when it is this process's turn; also after a while, and where there are no such locks."""
        polls, end = count(), clock.now() + LONGEST_WAIT
        try:
            if self._file is None and fcntl is not None:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            while self._file is not None and not self._taken(self._file, byte):
                if clock.now() >= end:
                    logger.info(
                        "%s: another process has held the lock for %s; committing anyway", self._path, LONGEST_WAIT
                    )
                    return
                POLL.wait(clock, next(polls))
        except OSError as error:  # a full disk, or a network's file system without locks
            logger.info("%s: no advisory lock (%s); committing without it", self._path, error)

    def _taken(self, file: int, byte: int) -> bool:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except (BlockingIOError, PermissionError):  # systems differ in how they say that another process has it
            return False
        return True

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
