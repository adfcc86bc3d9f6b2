"""A real cluster of Spark on this machine: its worker writes to a bucket, and into a folder that both can see."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.server import tool

ROOT = Path(__file__).parents[3]


@pytest.mark.spark
@pytest.mark.servers
def test_all_work_is_done_by_the_workers_of_a_cluster(tmp_path, moto):
    tool("java", "runs the worker, which needs more of it than the wheel has")
    environment = {**os.environ, **moto.environment(), "AWS_ENDPOINT_URL": moto.endpoint_url, "PYTHONPATH": str(ROOT)}
    bucket = f"s3://{moto.new_bucket()}/house"
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.spark.spark_on_cluster", str(tmp_path), bucket],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-3000:]
