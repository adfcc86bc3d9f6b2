"""Spark's own S3 file system, where it is there, gives the answers of Python workers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.s3a import s3a_jars

ROOT = Path(__file__).parents[3]


@pytest.mark.spark
@pytest.mark.servers
def test_both_readers_of_a_bucket_give_the_same_answers_and_the_footer_says_which(dynamodb_local, versitygw):
    s3a_jars()
    environment = {
        **os.environ, **versitygw.environment(), "AWS_ENDPOINT_URL_DYNAMODB": dynamodb_local.endpoint_url,
        "AWS_ENDPOINT_URL_S3": versitygw.endpoint_url, "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    place = f"s3://{versitygw.new_bucket()}/house"
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.spark.s3a_alone", place, versitygw.endpoint_url],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-4000:]
