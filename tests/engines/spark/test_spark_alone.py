import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.spark import spark_alone

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[3]


@pytest.mark.spark
@pytest.mark.parametrize("case", spark_alone.CONFIGS)
def test_an_import_is_whole_whatever_befalls_its_tasks(tmp_path, case):
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.spark.spark_alone", str(tmp_path), case],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
