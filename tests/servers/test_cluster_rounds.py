"""One round of what ``python -m tests.servers.cluster_rounds`` does ten times."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.server import tool

ROOT = Path(__file__).parents[2]


@pytest.mark.servers
@pytest.mark.processes
@pytest.mark.long
def test_a_worker_and_both_servers_are_killed_and_nothing_acknowledged_is_lost():
    tool("java", "runs the workers")
    done = subprocess.run(
        [sys.executable, "-m", "tests.servers.cluster_rounds", "--rounds", "1", "--no-demo"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "'worker': 1" in done.stdout
