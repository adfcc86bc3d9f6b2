from __future__ import annotations

import contextlib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sleeper_nb.catalog.base import Assignment
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import NotFound, OutcomeUnknown, StateRuleBroken, StorageError
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations.compacting import compaction
from sleeper_nb.operations.compacting.compaction import ASSIGNMENT_TIME, run_job
from sleeper_nb.operations.compacting.job_plan import CompactionJob
from sleeper_nb.operations.compacting.strategies import StrategySettings
from sleeper_nb.operations.scanning.planning import PlannedFile
from sleeper_nb.progress import Silent
from sleeper_nb.state_store.base import StateStore
from tests.builders import a_store, compact, in_order, ingest, keys_in, on_disk, reopened, rows_of, scan
from tests.faults import Trap, TrappedCatalog, TrappedStorage, interrupt, lose_answer


@pytest.fixture
def table(tmp_path: Path, clock: ManualClock) -> StateStore:
    """Two leaves of three files each."""
    store = a_store(tmp_path, points=["m"], clock=clock)
    for number in range(3):
        ingest(store, rows_of(("a", number), ("z", number), ("é", 9), value=str(number)))
    return store


def claims(store: StateStore) -> tuple[Assignment, ...]:
    return store.catalog.assignments(store.table_id, store.clock.now())


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
    claim = Assignment("other", left.id, mine[:1], clock.now() + ASSIGNMENT_TIME)
    assert table.catalog.assign(table.table_id, claim, clock.now())
    assert [len(job.inputs) for job in compact(table).jobs] == [2, 3]
    assert mine[0] in table.load().files.active["filename"].to_pylist()
    clock.advance(ASSIGNMENT_TIME)
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
        clock.advance(2 * ASSIGNMENT_TIME)  # the claims end, and another process does the work
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
        clock.advance(ASSIGNMENT_TIME)
        yield from finished

    done = run(table, slow)
    assert (len(done.jobs), len(done.refused)) == (0, 2)
    assert (on_disk(table), table.head()) == before
    assert len(compact(table).jobs) == 2


FAULTS = [(n, after) for n in range(1, 10) for after in (False, True)]


@pytest.mark.parametrize(("number", "after"), FAULTS)
@pytest.mark.parametrize("fault", [interrupt, lose_answer])
def test_a_fault_at_any_step_loses_no_row_and_no_claim(table: StateStore, number: int, after: bool, fault: Any):
    before = in_order(scan(table).to_pylist())
    trap = Trap(number, fault, after=after, only=("assign", "output", "commit", "release"))
    failing = reopened(table, TrappedCatalog(table.catalog, trap), TrappedStorage(table.storage, trap))
    with contextlib.suppress(KeyboardInterrupt, StorageError):
        compact(failing)
    assert in_order(scan(reopened(table)).to_pylist()) == before
    assert trap.calls[number - 1 : number] == ["release"] or not claims(table)
    tracked = set(table.load().files.table["filename"].to_pylist())
    left = {path for path in on_disk(table) if path.startswith("data/")} - tracked
    assert tracked <= on_disk(table)
    assert not left
    table.clock.advance(ASSIGNMENT_TIME)
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


def test_a_claim_lasts_an_hour():
    assert timedelta(hours=1) == ASSIGNMENT_TIME
