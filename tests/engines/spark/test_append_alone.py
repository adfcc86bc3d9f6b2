import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.processes, pytest.mark.spark]

ROOT = Path(__file__).parents[3]


def test_an_append_adds_each_row_once_whatever_befalls_its_tasks(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.spark.append_alone", str(tmp_path), "retry", "twice", "killed"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
