"""A quarter of a minute, and with `long` a whole one, of what ``python -m tests.servers.mixed_load`` does for ten."""

from __future__ import annotations

import pytest

from tests.servers import mixed_load


@pytest.mark.servers
@pytest.mark.parametrize("seconds", [14, pytest.param(60, marks=pytest.mark.long)])
def test_under_faults_nothing_acknowledged_is_lost_and_every_error_names_the_network(seconds: int):
    oracle, faults = mixed_load.run(seconds)
    assert not oracle.violations, mixed_load.summary(oracle, faults)
    assert faults.counts["cut"]
    assert oracle.done["ingest"]
    changes = ("update", "delete", "upsert", "merge", "overwrite")
    assert sum(oracle.done[name] for name in changes), mixed_load.summary(oracle, faults)
