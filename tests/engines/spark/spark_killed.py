"""Killed by SIGKILL while it imports into one table on Spark and compacts another. Run by `test_spark_killed`.

``python -m tests.engines.spark.spark_killed FOLDER writing|committing merged|unmerged``
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sleeper_nb.clock import Clock
from sleeper_nb.engines.spark.spark_load import run_on_spark
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.load.ingest import IngestSettings
from sleeper_nb.load.sources import find_sources
from sleeper_nb.maintain import compact as compaction
from sleeper_nb.maintain.compaction_plan import StrategySettings
from sleeper_nb.progress import SILENT, Silent
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.filesystem import Storage
from tests.engines.spark import imports
from tests.support.builders import a_store, reopened, rows_of
from tests.support.faults import Trap, TrappedCatalog, kill

NEW = rows_of(*"dwdwdwdw", value="new")
MERGE = {"merged": None, "unmerged": False}
"""What becomes of the sorted runs of the import."""
STEPS = {
    "writing": ("import holds", "one job is committed"),
    "committing": ("import has won", "compaction holds"),
}
"""For each case, what has happened to the import and to the compaction at the moment of the kill."""


class Held(Storage):
    """A folder in which a task stops for good when it has written a data file and not closed it.

    Parameters
    ----------
    place
        Where the files are.
    bell
        A pipe that the task rings before it stops.
    folders
        The partitions whose files stop their task.
    """

    def __init__(self, place: Any, bell: Path, folders: frozenset[str]) -> None:
        super().__init__(place)
        self.bell, self.folders = bell, folders

    @contextlib.contextmanager
    def output(self, path: str) -> Iterator[Any]:
        with super().output(path) as stream:
            yield stream
            if any(folder in path for folder in self.folders):
                ring(self.bell)
                signal.pause()


class Bell:
    """Progress that rings once one job of a compaction is committed."""

    def __init__(self, bell: Path) -> None:
        self.bell = bell

    def update(self, text: str, done: int = 0, total: int = 0) -> None:  # noqa: ARG002 - the watcher's own form
        if text.startswith("compacting") and done == 1:
            ring(self.bell)

    def finish(self, text: str = "") -> None:
        pass


def ring(bell: Path) -> None:
    """Wait for the listener, and tell it."""
    bell.write_text("here")


def opened(folder: Path, name: str, held: int) -> StateStore:
    """Open a table of which the tasks of the first `held` leaves stop; the leaf of the least keys is the last."""
    store = a_store(folder, table_id=name, create=False, clock=Clock())
    leaves = [leaf.id for leaf in reversed(store.load().tree.leaves)]
    storage = Held(store.storage.place, folder / f"{name}.bell", frozenset(leaves[:held]))
    return a_store(folder, table_id=name, create=False, clock=Clock(), storage=storage, catalog=store.catalog)


def bulk_import(engine: SparkRuntime, store: StateStore, runs: str) -> None:
    """Import some rows of each leaf, by a job that has an id; without a merge, each task writes a file of each leaf."""
    settings = IngestSettings(merge=MERGE[runs])
    imports.bulk_import(engine, store, find_sources(NEW), settings, job_id="import")


def compact(engine: SparkRuntime, store: StateStore, progress: Any = SILENT) -> compaction.CompactionReport:
    """Compact every leaf."""
    runner = run_on_spark(engine, store.storage)
    return compaction.compact(
        store, runner, strategy="all", settings=StrategySettings(), dry_run=False, progress=progress
    )


def main(folder: Path, case: str, runs: str) -> None:
    config = {"spark.master": "local[4]", "spark.driver.memory": "1g", "spark.sleeper.archive": "false"}
    engine = SparkRuntime(config=config, clock=Clock(), progress=Silent())
    engine.session()
    imported = opened(folder, "imported", held=1 if case == "writing" else 0)
    compacted = opened(folder, "compacted", held=1 if case == "writing" else 2)
    bells = [folder / "imported.bell", folder / "compacted.bell"]
    progress: Any = SILENT
    if case == "writing":
        bells.append(folder / "job.bell")
        progress = Bell(bells[-1])
    for bell in bells:
        os.mkfifo(bell)
    if case == "committing":

        def won() -> None:
            ring(bells[0])
            signal.pause()

        imported = reopened(imported, TrappedCatalog(imported.catalog, Trap(1, won, after=True, only=("commit",))))
    threads = [
        threading.Thread(target=bulk_import, args=(engine, imported, runs), daemon=True),
        threading.Thread(target=compact, args=(engine, compacted, progress), daemon=True),
    ]
    for thread in threads:
        thread.start()
    for bell in bells:
        bell.read_text()
    kill()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
