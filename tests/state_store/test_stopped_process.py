"""A process that is stopped (SIGSTOP) right before its commit keeps nobody waiting, and then it commits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from sleeper_nb.clock import Clock
from sleeper_nb.maintain.check import check_table
from sleeper_nb.maintain.sweep_orphans import sweep_orphans
from sleeper_nb.progress import Silent
from sleeper_nb.versions.expire import Retention, expire_snapshots
from tests.support.builders import (
    a_store,
    collect,
    compact,
    ingest,
    keys_in,
    reopened,
    rows_of,
    save,
    scan,
)

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("work", "kind"), [("ingest", "S3StateStore"), ("compact", "TransactionLogStateStore")])
def test_others_go_on_while_a_writer_is_stopped_and_then_it_commits(tmp_path: Path, work: str, kind: str):
    store = a_store(tmp_path, clock=Clock(), kind=kind)
    for key in "ab":
        ingest(store, rows_of(key))
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.state_store.stopped_writer", str(tmp_path), kind, work],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        _, status = os.waitpid(writer.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        for key in "cd":
            ingest(store, rows_of(key))
        compact(store)
        saved = save(store, "meanwhile")
        ingest(store, rows_of("e"))
        expire_snapshots(store, Retention(timedelta(0), 1, 1), dry_run=False)
        collect(store)
        sweep_orphans(store, "table", older_than=timedelta(days=1), dry_run=False, progress=Silent())
        assert keys_in(scan(reopened(store))) == list("abcde")
    finally:
        writer.send_signal(signal.SIGCONT)
        code = writer.wait()
    assert code == 0
    late = ["late"] if work == "ingest" else []
    assert keys_in(scan(reopened(store))) == [*"abcde", *late]
    assert keys_in(scan(reopened(store), saved)) == list("abcd")
    report = check_table(reopened(store), "table", deep=True, progress=Silent())
    assert report.ok, report
