from __future__ import annotations

import contextlib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.catalog.catalog_base import FileClaim
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import NotFound, OutcomeUnknown, StateRuleBroken, StorageError
from sleeper_nb.maintain import compact as claimed_jobs
from sleeper_nb.maintain import compact as compaction
from sleeper_nb.maintain.compact import CLAIM_TIME, RENEWED_EVERY, run_job
from sleeper_nb.maintain.compaction_plan import CompactionJob, StrategySettings
from sleeper_nb.model.jobs import Job
from sleeper_nb.model.schema import Schema
from sleeper_nb.progress import Silent
from sleeper_nb.read.scan_plan import PlannedFile
from sleeper_nb.state_store.state_store_base import StateStore
from tests.support.builders import (
    a_store,
    compact,
    in_order,
    ingest,
    keys_in,
    on_disk,
    reopened,
    rows_of,
    scan,
)
from tests.support.faults import Trap, TrappedCatalog, TrappedStorage, interrupt, lose_answer


@pytest.fixture
def table(tmp_path: Path, clock: ManualClock) -> StateStore:
    """Two leaves of three files each."""
    store = a_store(tmp_path, points=["m"], clock=clock)
    for number in range(3):
        ingest(store, rows_of(("a", number), ("z", number), ("é", 9), value=str(number)))
    return store


def claims(store: StateStore) -> tuple[FileClaim, ...]:
    return store.catalog.claims(store.table_id, store.clock.now())


def run(store: StateStore, runner: Any, strategy: str = "all") -> compaction.CompactionReport:
    return compaction.compact(
        store, runner, strategy=strategy, settings=StrategySettings(), dry_run=False, progress=Silent()
    )


def test_rows_are_conserved_and_each_leaf_has_one_sorted_file(table: StateStore):
    before = in_order(scan(table).to_pylist())
    done = compact(table)
    assert in_order(scan(reopened(table)).to_pylist()) == before
    assert [s.id for s in done.snapshots] == [5, 6]
    assert (done.rows, table.head().files, table.head().added_rows) == (9, 2, 0)
    assert (done.snapshots[0].removed_files, done.snapshots[0].added_files) == (3, 1)
    for name in table.load().files.active["filename"].to_pylist():
        rows = pq.read_table(table.storage.locate(name), partitioning=None).to_pylist()
        keys = [(row["key"], row["n"]) for row in rows]
        assert keys == sorted(keys)
    assert not claims(table)


def test_rows_of_equal_row_keys_are_sorted_by_their_sort_keys(tmp_path: Path):
    store = a_store(tmp_path, Schema({"k": "int"}, {"t": "timestamp", "b": "bytearray"}))
    for t, b in (("2026-01-02", b"\xff"), ("2026-01-01", b"\x7f"), ("2026-01-02", b"\x80")):
        ingest(store, store.load().schema.arrow.empty_table().from_pylist([{"k": 1, "t": t + "T00:00:00Z", "b": b}]))
    compact(store)
    (name,) = store.load().files.active["filename"].to_pylist()
    rows = pq.read_table(store.storage.locate(name), partitioning=None)
    assert rows["b"].to_pylist() == [b"\x7f", b"\x80", b"\xff"]


def test_a_dry_run_says_what_the_run_does_and_changes_nothing(table: StateStore):
    before, head = on_disk(table), table.head()
    planned = compact(table, dry_run=True)
    assert (on_disk(table), table.head(), claims(table)) == (before, head, ())
    done = compact(table)
    assert [(j.partition_id, j.inputs, j.rows) for j in planned.jobs] == [
        (j.partition_id, j.inputs, j.rows) for j in done.jobs
    ]
    assert "would merge 6 files into 2" in repr(planned)
    assert "merged 6 files into 2" in repr(done)


def test_a_second_run_finds_nothing(table: StateStore):
    compact(table)
    again = compact(table)
    assert (again.jobs, again.snapshots, table.head().id) == ((), (), 6)
    assert "nothing to merge" in repr(again)


def test_an_unknown_strategy_changes_nothing(table: StateStore):
    with pytest.raises(NotFound):
        compact(table, "fastest")
    assert not claims(table)


def test_files_that_another_job_claimed_are_left_alone_until_the_claim_ends(table: StateStore, clock: ManualClock):
    left = table.load().tree.leaves[0]
    mine = tuple(file.filename for file in table.load().files.active_in({left.id}))
    claim = FileClaim("other", left.id, mine[:1], clock.now() + CLAIM_TIME)
    assert table.catalog.claim_files(table.table_id, claim, clock.now())
    assert [len(job.inputs) for job in compact(table).jobs] == [2, 3]
    assert mine[0] in table.load().files.active["filename"].to_pylist()
    clock.advance(CLAIM_TIME)
    assert [len(job.inputs) for job in compact(table).jobs] == [2]


def test_two_compactions_at_once_never_share_a_file(table: StateStore):
    inside: list[Any] = []

    def runner(jobs: Any, schema: Schema) -> Any:
        inside.append(compact(reopened(table)))  # another process, meanwhile
        return compaction.run_in_process(table.storage)(jobs, schema)

    done = run(table, runner)
    assert (len(done.jobs), inside[0].jobs) == (2, ())


def test_a_job_that_comes_too_late_is_refused_and_leaves_nothing(table: StateStore, clock: ManualClock):
    before = in_order(scan(table).to_pylist())

    def slow(jobs: Any, schema: Schema) -> Any:
        finished = list(compaction.run_in_process(table.storage)(jobs, schema))
        clock.advance(2 * CLAIM_TIME)  # the claims end, and another process does the work
        compact(reopened(table))
        yield from finished

    done = run(table, slow)
    assert (len(done.jobs), len(done.refused)) == (0, 2)
    assert "2 jobs came too late" in repr(done)
    assert in_order(scan(table).to_pylist()) == before
    tracked = set(table.load().files.table["filename"].to_pylist())
    assert {path for path in on_disk(table) if path.startswith("data/")} == tracked
    assert not claims(table)


def test_a_job_that_lost_its_claim_is_refused_even_when_nobody_did_its_work(table: StateStore, clock: ManualClock):
    before = on_disk(table), table.head()

    def slow(jobs: Any, schema: Schema) -> Any:
        finished = list(compaction.run_in_process(table.storage)(jobs, schema))
        clock.advance(CLAIM_TIME)
        yield from finished

    done = run(table, slow)
    assert (len(done.jobs), len(done.refused)) == (0, 2)
    assert (on_disk(table), table.head()) == before
    assert len(compact(table).jobs) == 2


def test_a_claim_that_cannot_be_released_ends_by_itself_and_what_is_committed_is_reported(table: StateStore):
    trap = Trap(1, lose_answer, only=("release_claim",))
    done = compact(reopened(table, TrappedCatalog(table.catalog, trap)))
    assert len(done.jobs) == len(done.snapshots) == 2
    assert len(claims(table)) == 1
    table.clock.advance(CLAIM_TIME)
    assert not claims(table)


FAULTS = [(n, after) for n in range(1, 10) for after in (False, True)]


@pytest.mark.parametrize(("number", "after"), FAULTS)
@pytest.mark.parametrize("fault", [interrupt, lose_answer])
def test_a_fault_at_any_step_loses_no_row_and_no_claim(table: StateStore, number: int, after: bool, fault: Any):
    before = in_order(scan(table).to_pylist())
    trap = Trap(number, fault, after=after, only=("claim_files", "output", "commit", "release_claim"))
    failing = reopened(table, TrappedCatalog(table.catalog, trap), TrappedStorage(table.storage, trap))
    with contextlib.suppress(KeyboardInterrupt, StorageError):
        compact(failing)
    assert in_order(scan(reopened(table)).to_pylist()) == before
    assert trap.calls[number - 1 : number] == ["release_claim"] or not claims(table)
    tracked = set(table.load().files.table["filename"].to_pylist())
    left = {path for path in on_disk(table) if path.startswith("data/")} - tracked
    assert tracked <= on_disk(table)
    assert not left
    table.clock.advance(CLAIM_TIME)
    compact(table)
    assert table.head().files == 2
    assert in_order(scan(reopened(table)).to_pylist()) == before


def test_an_unknown_outcome_keeps_the_output(table: StateStore):
    trap = Trap(1, lose_answer, after=True, only=("commit", "has_commit"))
    trap.spring = lambda: (setattr(trap, "at", 2), lose_answer())
    before = in_order(scan(table).to_pylist())
    with pytest.raises(OutcomeUnknown):
        compact(reopened(table, TrappedCatalog(table.catalog, trap)))
    assert in_order(scan(reopened(table)).to_pylist()) == before


def test_a_job_that_lost_rows_is_not_committed(table: StateStore):
    files = table.load().files.active_in({table.load().tree.leaves[0].id})
    inputs = tuple(PlannedFile(f.filename, f.rows + 1, f.bytes, None) for f in files)
    job = CompactionJob("job", files[0].partition_id, "", inputs, rows_exact=True)
    with pytest.raises(StateRuleBroken, match="read 6 rows but wrote 3"):
        run_job(job, table.load().schema, table.storage)
    assert job.output not in on_disk(table)


def test_a_compaction_leaves_older_versions_as_they_were(table: StateStore):
    versions = table.catalog.snapshots(table.table_id)
    before = [keys_in(scan(table, version)) for version in versions]
    compact(table)
    assert [keys_in(scan(reopened(table), version)) for version in versions] == before


def test_claims_are_renewed_as_long_as_their_jobs_run(table: StateStore, clock: ManualClock, monkeypatch: Any):
    renewing: list[Any] = []
    monkeypatch.setattr(claimed_jobs.Renewing, "begin", lambda self: renewing.append(self._renew))

    def slow(jobs: Any, schema: Schema) -> Any:
        for result in compaction.run_in_process(table.storage)(jobs, schema):
            for _ in range(30):
                clock.advance(RENEWED_EVERY)
                held = {claim.job_id: claim.until - clock.now() for claim in claims(table)}
                assert held[result[0].id] >= timedelta(minutes=15)
                renewing[-1]()
            assert compact(reopened(table)).jobs == ()
            yield result

    assert len(run(table, slow).jobs) == 2
    renewing[-1]()
    assert claims(table) == ()


def test_a_claim_that_another_job_took_over_is_not_renewed(table: StateStore, clock: ManualClock, monkeypatch: Any):
    renewing: list[Any] = []
    monkeypatch.setattr(claimed_jobs.Renewing, "begin", lambda self: renewing.append(self._renew))

    def asleep(jobs: Any, schema: Schema) -> Any:
        clock.advance(CLAIM_TIME)
        names, now = {job.partition_id: job.filenames for job in jobs}, clock.now()
        for leaf, files in names.items():
            other = FileClaim(f"other {leaf}", leaf, files, now + CLAIM_TIME)
            assert table.catalog.claim_files(table.table_id, other, now)
        renewing[-1]()
        assert {claim.job_id for claim in claims(table)} == {f"other {leaf}" for leaf in names}
        yield from compaction.run_in_process(table.storage)(jobs, schema)

    assert len(run(table, asleep).refused) == 2


def test_an_unknown_outcome_ends_renewals_and_so_claims(table: StateStore, clock: ManualClock, monkeypatch: Any):
    renewing: list[Any] = []
    monkeypatch.setattr(claimed_jobs.Renewing, "begin", lambda self: renewing.append(self._renew))
    trap = Trap(1, lose_answer, after=True, only=("commit", "has_commit"))
    trap.spring = lambda: (setattr(trap, "at", 2), lose_answer())
    with pytest.raises(OutcomeUnknown):
        compact(reopened(table, TrappedCatalog(table.catalog, trap)))
    assert claims(table)
    clock.advance(CLAIM_TIME)
    renewing[-1]()
    assert claims(table) == ()


def test_what_finds_nothing_to_merge_because_of_claims_says_so(tmp_path: Path):
    clock = ManualClock()
    with sl.connect(tmp_path, clock=clock) as session:
        trips = session.create_table("trips", sl.Schema({"city": "string"}))
        trips.set_properties(
            {"sleeper.table.compaction.files.batch.size": "3", "sleeper.table.compaction.strategy.class": "basic"}
        )
        for city in ("athens", "rome", "lima"):
            trips.ingest([{"city": city}])
        store, leaf = trips._store, trips.at().state.tree.root.id
        names = tuple(trips.at().state.files.active["filename"].to_pylist())
        now = clock.now()
        job = Job(id="lost", kind="compaction", state="RUNNING", created=now, started=now)
        assert store.catalog.claim_files(store.table_id, FileClaim("lost", leaf, names, now + CLAIM_TIME), now, job)
        said = f"3 files are claimed by compaction job lost until {now + CLAIM_TIME:%H:%M:%S} UTC"
        for report in (
            trips.maintenance.compact("all"),
            trips.maintenance.compact("all", dry_run=True),
            trips.inspect.status(),
            trips.maintain(),
        ):
            assert said in repr(report)
        assert "nothing to do until the claims" in repr(trips.inspect.status())
        assert not trips.maintain(dry_run=True).due
        assert [one.id for one in trips.inspect.jobs("running")] == ["lost"]
        clock.advance(CLAIM_TIME)
        assert [one.id for one in trips.inspect.jobs("failed")] == ["lost"]
        assert said not in repr(trips.inspect.status())
        done = trips.maintenance.compact("all")
        assert len(done.jobs) == 1
        assert "claimed" not in repr(done)


def test_a_claim_on_files_that_need_no_merge_is_not_called_the_reason(table: StateStore, clock: ManualClock):
    compact(table)
    leaf = table.load().tree.leaves[0]
    names = tuple(file.filename for file in table.load().files.active_in({leaf.id}))
    assert table.catalog.claim_files(
        table.table_id, FileClaim("other", leaf.id, names, clock.now() + CLAIM_TIME), clock.now()
    )
    assert compact(table).blocked_by == ()
