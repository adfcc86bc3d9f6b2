"""What the contracts of state stores share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sleeper_nb.clock import ManualClock
from sleeper_nb.state_store.state_store_base import StateStore
from tests.support.backends import Tables


@pytest.fixture
def store(tables: Tables, clock: ManualClock) -> Iterator[StateStore]:
    """A new table in one of the stores that the test's module lists in `tables`."""
    made = tables.opened(clock=clock)
    yield made
    made.catalog.close()
