"""A forked process reads rows, or says why it cannot; it never waits for threads that it does not have."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
REFUSED = "EngineError: this process was forked from one that has read rows, and lacks the threads that read"


def test_a_forked_process_reads_rows_or_says_why_it_cannot(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.whole.forked", str(tmp_path / "warehouse")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, after, here = json.loads(done.stdout).values()
    reads = {"scan": "10", "keys": "1", "where": "1", "inspect": "{'n': [2]}", "sql": "{'k': [9]}"}
    assert before == {**reads, "ingest": "11"}
    assert after.pop("ingest") == "12"
    assert set(after.values()) == {REFUSED}
    assert here == {**reads, "scan": "12", "inspect": "{'n': [4]}", "sql": "{'k': [20]}", "ingest": "13"}
