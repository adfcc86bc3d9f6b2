"""The Spark that a session started is stopped when the last session of the process that uses it is closed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.spark import shared_spark

pytestmark = [pytest.mark.processes, pytest.mark.spark]

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("case", shared_spark.CASES)
def test_the_spark_of_several_sessions_ends_with_the_last_one(tmp_path, case):
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.spark.shared_spark", case, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
