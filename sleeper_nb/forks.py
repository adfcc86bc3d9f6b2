"""Refuse to read rows in a process that was forked from one that has: it lacks the threads of DuckDB and DataFusion."""

from __future__ import annotations

import os
from functools import cache

from sleeper_nb.errors import EngineError


def check_has_threads() -> None:
    """Raise `EngineError` in a forked process, if rows were read before the fork.

    DuckDB and DataFusion start threads with their first work, and wait for them for ever in a process that has the
    parent's memory and none of its threads. A process that is forked before has its own.
    """
    if _first_reader() != os.getpid():
        raise EngineError(
            "this process was forked from one that has read rows, and lacks the threads that read",
            hint='start processes with multiprocessing.get_context("spawn"), and connect in each',
        )


@cache
def _first_reader() -> int:
    """Return the process that first asked, also in the processes that are forked from it later."""
    return os.getpid()
