"""What the tests of operations share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import sleeper_nb as sl


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sl.Session]:
    """A session on a new warehouse."""
    with sl.connect(tmp_path / "warehouse") as opened:
        yield opened
