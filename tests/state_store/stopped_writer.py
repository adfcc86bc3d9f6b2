"""Stops itself by SIGSTOP right before a commit, and goes on once it is told to. Run by `test_stopped_process`.

``python -m tests.state_store.stopped_writer FOLDER KIND ingest|compact``
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from sleeper_nb.clock import Clock
from tests.support.builders import a_store, compact, ingest, reopened, rows_of
from tests.support.faults import Trap, TrappedCatalog


def main(folder: Path, kind: str, work: str) -> None:
    opened = a_store(folder, clock=Clock(), create=False, kind=kind)
    trap = Trap(1, lambda: os.kill(os.getpid(), signal.SIGSTOP), only=("commit",))
    store = reopened(opened, TrappedCatalog(opened.catalog, trap))
    if work == "ingest":
        ingest(store, rows_of("late"))
    else:
        assert len(compact(store).jobs) == 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
