"""Eight processes change overlapping keys of one table, beside upkeep: no key twice, no change lost, on every store."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from pathlib import Path

import pytest

from sleeper_nb.model.properties import STATE_STORES
from tests.servers import mixed_load
from tests.support.builders import EMBEDDED
from tests.support.changes_at_once import SCHEMA, Team, change_rows, judge, keep_up
from tests.support.combinations import each_value_once

WRITERS = 8
UNIQUE = pytest.mark.parametrize("unique", [True, False], ids=["unique keys", "any keys"])


def race(team: Team, kind: str, least_bytes: int) -> None:
    """Let writers and upkeep work at once on a new table, and judge it."""
    with team.session() as session:
        table = session.create_table(
            "t", SCHEMA, state_store=kind,
            properties={"sleeper.table.deletion.vector.file.bytes.min": str(least_bytes),
                        "sleeper.table.deletion.vector.percent.max": "100"},
        )  # fmt: skip
        table.alter(unique_keys=team.unique, comment="changed by many")
        first = table._store.head().id
        assert first == 2
    work = [*((change_rows, team, number) for number in range(1, WRITERS + 1)), (keep_up, team, 0)]
    with multiprocessing.get_context("spawn").Pool(len(work)) as pool:
        answers = [each.get(200) for each in [pool.apply_async(what, with_what) for what, *with_what in work]]
    acknowledged = [done for each, _ in answers for done in each]
    failed = Counter(text.split(":")[1] for _, errors in answers for text in errors)
    assert len(acknowledged) > WRITERS * team.changes / 3, [errors for _, errors in answers]
    with team.session() as session:
        table = session.table("t")
        judge(table, acknowledged)
        if team.unique:
            keys = table.scan(columns=["k"]).to_arrow()["k"].to_pylist()
            assert len(keys) == len(set(keys))
        report = table.maintenance.check(deep=True)
        assert report.ok, report
    assert set(failed) <= {" ConflictError", " InvalidInput", " NotFound", " StateRuleBroken"}, failed


@pytest.mark.processes
@UNIQUE
@pytest.mark.parametrize("kind", EMBEDDED)
def test_processes_that_change_rows_at_once_lose_none(tmp_path: Path, kind: str, unique: bool):
    writes_vectors = unique == (kind == EMBEDDED[0])
    race(Team((str(tmp_path),), unique, changes=6), kind, 0 if writes_vectors else 1 << 30)


@pytest.mark.servers
@pytest.mark.parametrize(
    ("kind", "unique"),
    each_value_once(
        [pytest.param(kind, marks=() if kind == "DynamoDBStateStore" else pytest.mark.long) for kind in STATE_STORES],
        [True, False],
    ),
)
def test_processes_that_change_rows_on_servers_at_once_lose_none(tmp_path: Path, kind: str, unique: bool):
    with mixed_load.servers(tmp_path):
        race(Team(("s3://mixed/house", "mixed"), unique, changes=3), kind, 0)
