"""A file is a file, however many partitions refer to it: every place that counts files counts each one once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.maintain.compact import CompactionReport
from sleeper_nb.model.state import TableState
from sleeper_nb.report import Bytes
from sleeper_nb.state_store.state_store_base import StateStore
from tests.support.backends import Tables
from tests.support.builders import (
    EMBEDDED,
    NOW,
    collect,
    compact,
    forget_all_but_newest,
    ingest,
    reopened,
    rows_of,
    split,
)

LETTERS = "abcdefgh"


def data_files(state: TableState) -> dict[str, int]:
    return dict(zip(*(state.files.active[name].to_pylist() for name in ("filename", "bytes")), strict=True))


def hold_every_snapshot(store: StateStore) -> None:
    """Compare what each snapshot says with its state, and with the state before."""
    before: dict[str, int] = {}
    for snapshot in reversed(store.catalog.snapshots(store.table_id)):
        state = reopened(store).load(snapshot)
        here = data_files(state)
        assert (snapshot.files, snapshot.bytes) == (len(here), sum(here.values()))
        assert snapshot.references == state.files.active.num_rows
        assert snapshot.added_files == len(here.keys() - before.keys()), snapshot.operation
        assert snapshot.removed_files == len(before.keys() - here.keys()), snapshot.operation
        before = here


def test_each_commit_counts_data_files_once(tables: Tables):
    store = tables.opened()
    ingest(store, rows_of(*LETTERS))
    for point in "ecgb":
        split(store, at=point)
        ingest(store, rows_of("a", "h"))
    split(store, at="d")
    leaves = [leaf.id for leaf in store.load().tree.leaves]
    compact(store, partition_id=leaves[0])
    compact(store, partition_id=leaves[-1])
    hold_every_snapshot(store)
    compact(store)
    collect(store)
    hold_every_snapshot(store)
    store.catalog.close()


@pytest.fixture(params=EMBEDDED)
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sl.Table]:
    """A table with one file, to which eight partitions refer."""
    with sl.connect(tmp_path / "house") as session:
        table = session.create_table("t", sl.Schema({"key": "string"}, {}, {}), state_store=request.param)
        table.ingest([{"key": key} for key in LETTERS])
        for point in LETTERS[1:]:
            table.maintenance.split(at=point)
        yield table


def test_every_place_says_one_file(shared: sl.Table):
    size = sum(data_files(shared.at().state).values())
    newest = shared.history()[0]
    assert (newest.files, newest.bytes, newest.references) == (1, size, 8)
    assert (newest.added_files, newest.removed_files) == (0, 0)
    assert f"8 rows in 1 file (8 references), {Bytes(size)}" in repr(newest)
    history = shared.history().to_dict()
    assert history["files"][:8] == [1] * 8
    assert history["references"][:8] == [8, 7, 6, 5, 4, 3, 2, 1]
    assert history["+files"][:8] == [0, 0, 0, 0, 0, 0, 0, 1]
    assert history["−files"] == [0] * 9
    assert "split +" not in shared.history()._repr_html_()

    asked = shared.inspect.query(
        "SELECT files, bytes, file_references, added_files, removed_files FROM snapshots LIMIT 1"
    )
    assert list(asked.to_dict().values()) == [[1], [size], [8], [0], [0]]
    assert (shared.to_dict()["files"], shared.to_dict()["bytes"]) == (1, size)
    assert (shared.inspect.status().files, shared.inspect.status().references, shared.inspect.status().bytes) == (
        1,
        8,
        size,
    )
    assert "1 file (8 references)" in repr(shared.inspect.status())
    assert "1 of 1" in repr(shared.scan().plan()) or "1/1 files" in repr(shared.scan())
    listing = shared.inspect.files()
    assert "8 references to 1 file" in repr(listing)
    assert "8 references to 1 file" in listing._repr_html_()
    difference = shared.diff(2)
    assert (difference.before.files, difference.after.files, len(difference.files)) == (1, 1, 0)


def test_reports_of_compactions_count_inputs_once(shared: sl.Table):
    plan = shared.maintenance.compact("all", dry_run=True)
    assert isinstance(plan, CompactionReport)
    assert "would merge 1 file (8 references) into 8" in repr(plan)
    assert shared.maintain(dry_run=True)["compact"].jobs == ()
    done = shared.maintenance.compact("all", engine="local")
    assert isinstance(done, CompactionReport)
    assert "merged 1 file (8 references) into 8" in repr(done)
    snapshots = shared.history()
    assert [s.removed_files for s in snapshots[:8]] == [1, 0, 0, 0, 0, 0, 0, 0]
    assert [s.added_files for s in snapshots[:8]] == [1] * 8
    assert [s.files for s in snapshots[:8]] == [8, 8, 7, 6, 5, 4, 3, 2]


def test_a_check_holds_the_counts(shared: sl.Table):
    assert shared.maintenance.check(deep=True).findings == ()


def test_one_word_at_the_session(shared: sl.Table, tmp_path: Path):
    with sl.connect(tmp_path / "house") as session:
        assert session.tables().to_dict()["files"] == [1]


def test_what_expires_does_not_change_the_counts(store: StateStore):
    ingest(store, rows_of(*LETTERS))
    split(store, at="c")
    forget_all_but_newest(store)
    collect(store, NOW)
    assert (store.head().files, store.head().references) == (1, 2)
