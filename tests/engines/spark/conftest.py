"""What the tests of the Spark engine share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sleeper_nb as sl


@pytest.fixture
def session(tmp_path: Path, spark: SparkSession) -> Iterator[sl.Session]:
    """A session on an instance that is not the default one, with the Spark session of the test process."""
    with sl.connect(tmp_path / "w", instance="demo", spark=spark) as opened:
        yield opened
