"""Two sessions whose clocks differ: nothing acknowledged is lost, and commits stay in one order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sleeper_nb as sl
from sleeper_nb.catalog.catalog_base import FileClaim
from sleeper_nb.clock import Clock, ManualClock
from sleeper_nb.errors import SleeperError
from sleeper_nb.maintain import compact as claimed_jobs
from sleeper_nb.maintain import compact as compaction
from sleeper_nb.maintain.compaction_plan import StrategySettings
from sleeper_nb.maintain.sweep_orphans import sweep_orphans
from sleeper_nb.progress import SILENT, Silent
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.aws import AwsTarget
from sleeper_nb.storage.filesystem import Storage, open_storage
from sleeper_nb.versions.leases import DURATION
from tests.servers.server import Server
from tests.support.builders import (
    EMBEDDED,
    KEYED,
    START,
    a_store,
    ingest,
    keys_in,
    reopened,
    rows_of,
    scan,
)
from tests.support.builders import compact as compact_store
from tests.support.faults import Trap, TrappedCatalog

APART = timedelta(hours=6)
SHORT = timedelta(minutes=1)


@dataclass(frozen=True)
class Two:
    """Two sessions on one warehouse, the clock of one hours ahead of the other's."""

    behind: sl.Session
    ahead: sl.Session

    def tables(self) -> tuple[sl.Table, sl.Table]:
        return self.behind.table("t"), self.ahead.table("t")

    def advance(self, by: timedelta) -> None:
        for session in (self.behind, self.ahead):
            session._components.clock.advance(by)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    with (
        sl.connect(tmp_path, clock=ManualClock(START, 1)) as behind,
        sl.connect(tmp_path, clock=ManualClock(START + APART, 2)) as ahead,
    ):
        yield Two(behind, ahead)


@pytest.mark.parametrize("kind", EMBEDDED)
@pytest.mark.parametrize("cleans", ["behind", "ahead"])
def test_versions_of_two_clocks_are_in_order_and_clean_ups_lose_none_that_is_kept(two: Two, kind: str, cleans: str):
    two.behind.create_table("t", KEYED, ["m"], state_store=kind)
    keys: list[str] = []
    for turn, table in zip(range(6), itertools.cycle(two.tables())):
        keys.append("abxyzc"[turn])
        table.ingest(rows_of(keys[-1]))
        table.create_savepoint(f"point-{turn}")
        if turn % 3 == 2:
            table.maintenance.compact("all", engine="local")
        two.advance(SHORT)
    table = two.tables()[0]
    history = table.history()
    assert [s.id for s in history] == list(range(len(history), 0, -1))
    times = [s.time for s in history]
    assert times == sorted(set(times), reverse=True)
    for version in history:
        rows = keys_in(two.ahead.table("t").at(version.id).scan().to_arrow())
        assert keys_in(two.behind.sql(f"select key from t timestamp as of '{version.time.isoformat()}' order by key",
                                      engine="duckdb").to_arrow()) == rows  # fmt: skip

    cleaner = getattr(two, cleans).table("t")
    cleaner.maintenance.expire(time_retained=timedelta(hours=1), num_retained_min=1, dry_run=False)
    cleaner.maintenance.collect_garbage(dry_run=False)
    for table in two.tables():
        assert keys_in(table.scan().to_arrow()) == sorted(keys)
        for turn in range(6):
            assert keys_in(table.at(f"savepoint.point-{turn}").scan().to_arrow()) == sorted(keys[: turn + 1])
        assert "all is well" in repr(table.maintenance.check(deep=True))
        table.ingest(rows_of("q"))
        keys.append("q")


@pytest.mark.parametrize("reads", ["behind", "ahead"])
@pytest.mark.parametrize("apart", [timedelta(minutes=9), APART])
def test_a_lease_holds_while_clocks_differ_by_less_than_it_lasts_and_no_read_is_ever_wrong(
    tmp_path: Path, reads: str, apart: timedelta
):
    with (
        sl.connect(tmp_path, clock=ManualClock(START, 1)) as behind,
        sl.connect(tmp_path, clock=ManualClock(START + apart, 2)) as ahead,
    ):
        behind.create_table("t", KEYED).ingest(rows_of("a"))
        behind.table("t").ingest(rows_of("b"))
        reader, other = (behind, ahead) if reads == "behind" else (ahead, behind)
        relation = reader.table("t").at(2).scan().to_duckdb()
        assert len(reader.table("t").inspect.leases()) == 1
        cleaner = other.table("t")
        cleaner.maintenance.compact("all", engine="local")
        cleaner.maintenance.expire(time_retained=timedelta(0), num_retained_min=1, num_retained_max=1, dry_run=False)
        cleaner.maintenance.collect_garbage(delay=timedelta(0), dry_run=False)
        if reads == "behind" and apart > DURATION:  # as if the reader had slept so long: an error, and no other rows
            with pytest.raises((SleeperError, duckdb.Error), match=r"\.parquet"):
                relation.fetchall()
        else:
            assert [row[0] for row in relation.fetchall()] == ["a"]
        assert keys_in(cleaner.scan().to_arrow()) == ["a", "b"]


def pair(folder: Path) -> tuple[StateStore, StateStore]:
    """Return a table's store by a clock that is behind and one that is ahead; it has a leaf of two files."""
    behind = a_store(folder, clock=ManualClock(START, 1))
    for key in "ab":
        ingest(behind, rows_of(key))
    ahead = a_store(folder, clock=ManualClock(START + APART, 2), create=False)
    return behind, ahead


def compact_meanwhile(store: StateStore, other: StateStore) -> compaction.CompactionReport:
    """Compact with a store while the other compacts between this one's claim and its commit."""

    def runner(jobs: Any, schema: Any) -> Iterator[Any]:
        def run() -> Iterator[Any]:
            compact_store(other)
            yield from compaction.run_in_process(store.storage)(jobs, schema)

        return run()

    settings = StrategySettings()
    return compaction.compact(store, runner, strategy="all", settings=settings, dry_run=False, progress=SILENT)


@pytest.mark.parametrize("first", ["behind", "ahead"])
def test_of_two_compactions_by_clocks_apart_one_is_committed(tmp_path: Path, first: str):
    behind, ahead = pair(tmp_path)
    store, other = (behind, ahead) if first == "behind" else (ahead, behind)
    report = compact_meanwhile(store, other)
    # The clock ahead takes the claim of the one behind for ended: that job is refused, and its file deleted.
    assert (len(report.jobs), len(report.refused)) == ((0, 1) if first == "behind" else (1, 0))
    state = reopened(behind).load()
    assert [s.operation for s in behind.catalog.snapshots(behind.table_id)].count("compact") == 1
    assert keys_in(scan(reopened(behind))) == ["a", "b"]
    on_disk = {file.path for file in behind.storage.list("data")}
    assert on_disk == set(state.files.table["filename"].to_pylist())
    for each in (behind, ahead):
        assert not each.catalog.claims(each.table_id, START)


def test_a_claim_by_a_dead_process_ahead_ends_by_the_clock_behind_too(tmp_path: Path):
    behind, ahead = pair(tmp_path)
    names = tuple(ahead.load().files.active["filename"].to_pylist())
    claim = FileClaim("dead", ahead.load().tree.root.id, names, ahead.clock.now() + claimed_jobs.CLAIM_TIME)
    assert ahead.catalog.claim_files(ahead.table_id, claim, ahead.clock.now(), None)
    assert not compact_store(behind).jobs
    behind.clock.advance(APART + claimed_jobs.CLAIM_TIME)
    assert len(compact_store(behind).jobs) == 1
    assert keys_in(scan(behind)) == ["a", "b"]


def sweep_under_way(folder: Path, ahead: timedelta, storage: Storage | None = None) -> None:
    """Sweep by a clock that is ahead between the writing of an ingest and its commit; nothing may be deleted."""
    writer = a_store(folder, clock=Clock(), storage=storage)
    ingest(writer, rows_of("a"))
    sweeper = a_store(folder, clock=ManualClock(Clock().now() + ahead), create=False, storage=storage)
    swept: list[Any] = []

    def sweep() -> None:
        swept.append(sweep_orphans(sweeper, "table", older_than=timedelta(days=1), dry_run=False, progress=Silent()))

    ingest(reopened(writer, TrappedCatalog(writer.catalog, Trap(1, sweep, only=("commit",)))), rows_of("b"))
    assert [report.files for report in swept] == [()]
    assert keys_in(scan(reopened(writer))) == ["a", "b"]
    assert {file.path for file in writer.storage.list("data")} == set(
        reopened(writer).load().files.table["filename"].to_pylist()
    )


@pytest.mark.parametrize("days", [2, 400])
def test_a_sweep_by_a_clock_that_is_days_ahead_leaves_files_of_a_commit_under_way(tmp_path: Path, days: int):
    sweep_under_way(tmp_path, timedelta(days=days))


def test_a_sweep_of_a_bucket_by_a_clock_that_is_days_ahead_leaves_files_of_a_commit_under_way(
    tmp_path: Path, s3_server: Server
):
    address = f"s3://{s3_server.new_bucket()}/table"
    sweep_under_way(tmp_path, timedelta(days=2), open_storage(address, AwsTarget(endpoint_url=s3_server.endpoint_url)))
