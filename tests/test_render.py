"""Pictures of partitions and history: what they say, that they are well formed, and how large they may become."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.render import MAX_BYTES, bounded, partition_map, timeline
from sleeper_nb.report import Grid

SNAPSHOT = Snapshot(
    id=1, commit_id="c", time=datetime(2026, 1, 1, tzinfo=UTC), operation="ingest", schema_id=1, files=1, rows=1,
    bytes=1, added_files=1, removed_files=0, added_rows=1, files_path="f", partitions_path="p",
    state_store="S3StateStore",
)  # fmt: skip
SAVEPOINT = Savepoint(
    id=1, saved_snapshot_id=2, schema_id=1, full_manifest_list="f", partitions_path="p", record_count=5,
    save_time=datetime(2026, 1, 1, tzinfo=UTC), snapshot_time=datetime(2026, 1, 1, tzinfo=UTC),
)  # fmt: skip


@pytest.fixture
def table(tmp_path):
    with sl.connect(tmp_path, clock=ManualClock()) as session:

        def make(leaves, *, kind="long", points=None):
            schema = sl.Schema(row_keys={"key": kind}, values={})
            return session.create_table("t", schema, points or [i * 10 for i in range(1, leaves)])

        yield make


def _parsed(picture):
    return ET.fromstring(picture)  # noqa: S314 - our own text; that it is well formed is what is tested


def _texts(picture):
    return [" ".join(element.itertext()).strip() for element in _parsed(picture).iter() if element.tag == "text"]


def test_each_leaf_shows_its_range_and_its_rows(table):
    t = table(3)
    t.ingest([{"key": k} for k in range(12)])
    assert _texts(partition_map(t)) == [
        "split at key = 20", "split at key = 10",
        "(-∞, 10)", "10 rows", "1 file", "[10, 20)", "2 rows", "1 file", "[20, ∞)", "0 rows", "0 files",
    ]  # fmt: skip


def test_a_picture_is_named_for_who_cannot_see_it(table):
    svg = _parsed(partition_map(table(2))).find("svg")
    assert svg.get("role") == "img"
    assert svg.find("title").text == "partitions of t at snapshot 1"


def test_more_leaves_than_fit_are_drawn_in_groups_and_the_picture_says_so(table):
    t = table(1000)
    t.ingest([{"key": k} for k in range(0, 10_000, 7)])
    picture = partition_map(t)
    assert "1,000 partitions by key · 1,429 rows" in picture
    assert "drawn as 63 groups of up to 16 neighbours" in picture
    assert picture.count("<rect") == 63
    assert len(picture.encode()) < MAX_BYTES


@pytest.mark.parametrize("leaves", [1, 2, 64, 65])
def test_a_map_of_any_size_is_well_formed_and_small(table, leaves):
    picture = partition_map(table(leaves))
    _parsed(picture)
    assert len(picture.encode()) < MAX_BYTES


def test_a_hostile_key_stays_text(table):
    picture = partition_map(table(2, kind="string", points=["</svg><script>alert(1)</script>" + "x" * 10_000]))
    assert "<script" not in picture
    assert "split at key = </svg><script>alert(1)</script>xxx" in _texts(picture)[0]
    assert len(picture.encode()) < MAX_BYTES


def test_bars_are_in_the_order_of_versions_and_expired_ones_that_savepoints_hold_are_among_them():
    hostile = dataclasses.replace(SAVEPOINT, message="</title><script>alert(1)</script>")
    snapshots = [dataclasses.replace(SNAPSHOT, id=i, rows=10 * i) for i in (5, 4, 3)]
    picture = timeline(snapshots, [hostile], 4)
    assert "rows at each of 4 versions · full bar: snapshot 4, 40 rows · ◆ savepoint 1 (snapshot 2)" in picture
    assert "<script" not in picture
    _parsed(picture)


def test_only_the_newest_thousand_versions_are_drawn_and_the_picture_says_so():
    picture = timeline([dataclasses.replace(SNAPSHOT, id=i, rows=10**12 + i) for i in range(5000)], [], 4999)
    assert "rows at the newest 1,000 of 5,000 versions" in picture
    assert len(picture.encode()) < MAX_BYTES


def test_a_table_without_rows_has_a_picture():
    _parsed(timeline([dataclasses.replace(SNAPSHOT, rows=0)], [], 1))


def test_a_grid_too_large_to_save_is_cut_and_says_so():
    grid = bounded(Grid(tuple(f"c{i}" for i in range(300)), (("x" * 10_000,) * 300,) * 20, footer="20 rows"))
    assert len(grid.html().encode()) <= MAX_BYTES
    assert grid.footer.startswith("20 rows · cut to 1 of 20 rows and ")
    assert grid.rows[0][0] == "x" * 199 + "…"


def test_a_small_grid_is_left_alone():
    grid = Grid(("a",), ((1,), (None,)), "title", "footer")
    assert bounded(grid) == grid
