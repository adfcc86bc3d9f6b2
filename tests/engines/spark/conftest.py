"""What the tests of the Spark engine share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import sleeper_nb as sl


@pytest.fixture
def session(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[sl.Session]:
    """A session on an instance that is not the default one, with the Spark session of the test process.

    A test without the mark `spark` is about what Spark's processes run, and runs that itself: without Spark.
    """
    spark = request.getfixturevalue("spark") if request.node.get_closest_marker("spark") else None
    with sl.connect(tmp_path / "w", instance="demo", spark=spark) as opened:
        yield opened
