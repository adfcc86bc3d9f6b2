"""Pictures of partitions and history: what they say, that they are well formed, and how large they may become."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.display.partition_picture import partition_map
from sleeper_nb.display.preview import MAX_BYTES, bounded
from sleeper_nb.display.timeline_picture import timeline, timeline_lines
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.report import Grid
from tests.support.pictures import line_text, lines_of

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
    return [text for text in map(line_text, lines_of(_parsed(picture))) if text]


def test_each_leaf_shows_its_range_and_its_rows(table):
    t = table(3)
    t.ingest([{"key": k} for k in range(12)])
    assert _texts(partition_map(t.at())) == [
        "split at key = 20", "split at key = 10",
        "(-∞, 10)", "10 rows", "1 file", "[10, 20)", "2 rows", "1 file", "[20, ∞)", "0 rows", "0 files",
    ]  # fmt: skip


def test_a_picture_is_named_for_who_cannot_see_it(table):
    svg = _parsed(partition_map(table(2).at())).find(".//svg")
    assert svg.get("role") == "img"
    assert svg.find("title").text == "partitions of t at snapshot 1"


def test_more_leaves_than_fit_are_drawn_in_groups_and_the_picture_says_so(table):
    t = table(1000)
    t.ingest([{"key": k} for k in range(0, 10_000, 7)])
    picture = partition_map(t.at())
    assert "1,000 partitions by key · 1,429 rows" in picture
    assert "drawn as 63 groups of up to 16 neighbours" in picture
    assert picture.count("<rect") == 63
    assert len(picture.encode()) < MAX_BYTES


@pytest.mark.parametrize("leaves", [1, 2, 64, 65])
def test_a_map_of_any_size_is_well_formed_and_small(table, leaves):
    picture = partition_map(table(leaves).at())
    _parsed(picture)
    assert len(picture.encode()) < MAX_BYTES


def _within(picture):
    """Return the first line of each leaf's box that has one: its keys."""
    return [text for text in _texts(picture) if text[:1] in "[(≥≤<"]


def test_a_label_is_true_of_its_leaf_or_left_out(tmp_path):
    with sl.connect(tmp_path, clock=ManualClock()) as session:
        t = session.create_table("t", sl.Schema({"carrier": "string", "flight": "long"}, {}), ["B6", "EV", "UA", "WN"])
        t.maintenance.split(at=885, key="flight", partition=t.inspect.partitions()[1]["partition_id"])
        shown = _within(partition_map(t.at()))
        assert shown == ["(-∞, B6) × (-∞, ∞)", "[B6, EV) × [885, ∞)", *(
            f"[{low}, {high}) × (-∞, ∞)" for low, high in (("EV", "UA"), ("UA", "WN"), ("WN", "∞")))]  # fmt: skip
        t.maintenance.split(at=77, key="flight", partition=t.inspect.partitions()[-1]["partition_id"])
        t.maintenance.split(at="MQ", partition=t.inspect.partitions()[3]["partition_id"])
        picture = partition_map(t.at())
    assert _within(picture) == ["< B6", "≥ EV", "≥ MQ", "≥ UA"]
    assert "[WN, ∞) × [77, ∞) · 0 rows · 0 files" in _titles(picture)


@pytest.mark.parametrize(
    ("step", "labels"),
    [
        (10, ["(-∞, 10)", *(f"[{k}, {k + 10})" for k in range(10, 100, 10)), "[100, ∞)"]),
        (2500, ["< 2500", *(f"≥ {k}" for k in range(2500, 25_000, 2500)), "≥ 25000"]),
        (2_500_000, ["< 2500000", *(f"≥ {k}" for k in range(2_500_000, 10_000_000, 2_500_000))]),
    ],
)
def test_no_number_of_a_label_is_cut(table, step, labels):
    shown = _within(partition_map(table(0, points=[step * i for i in range(1, 11)]).at()))
    assert shown == labels


def test_a_text_is_cut_where_no_other_label_is_the_same(table):
    points = ["customer-000000001", "customer-000000002", "supplier-000000001"]
    shown = _within(partition_map(table(0, kind="string", points=[*points, *"wxyz"]).at()))
    assert shown == ["≤ customer-00…", "≥ supplier-00…", "[w, x)", "[x, y)", "[y, z)", "[z, ∞)"]


def test_a_hostile_key_stays_text(table):
    picture = partition_map(table(2, kind="string", points=["</svg><script>alert(1)</script>" + "x" * 10_000]).at())
    assert "<script" not in picture
    assert "split at key = </svg><script>alert(1)</script>xxx" in _texts(picture)[0]
    assert len(picture.encode()) < MAX_BYTES


def _history(*numbers, operation="ingest", rows=lambda number: 10 * number, **changes):
    return [dataclasses.replace(SNAPSHOT, id=n, rows=rows(n), operation=operation, **changes) for n in numbers]


def _titles(picture):
    return [element.text for element in _parsed(picture).iter("title")]


def test_a_timeline_says_what_it_shows_in_words():
    snapshots = [*_history(6, operation="compact"), *_history(5, 4), *_history(1, operation="create")]
    picture = timeline(snapshots, [SAVEPOINT], 4, name="trips")
    assert _titles(picture)[0] == "history of trips"
    assert (
        "rows at 5 versions, 5 to 60 · bar: snapshot 4, 40 rows · ● ingest 2 · ○ compact 1 · ■ create 1 · "
        "⚑ savepoint 1 (snapshot 2) · ┊ expired: 3" in picture
    )
    assert [text for text in _texts(picture) if text[-1] in "●■○"] == [
        f"snapshot 1 · 2026-01-01 00:00:00 UTC · create +1 row · 10 rows {'■'}",
        *(f"snapshot {n} · 2026-01-01 00:00:00 UTC · ingest +1 row · {10 * n} rows ●" for n in (4, 5)),
        "snapshot 6 · 2026-01-01 00:00:00 UTC · compact +1 row · 60 rows ○",
    ]


def test_the_line_of_a_timeline_is_broken_where_snapshots_have_expired():
    picture = timeline(_history(9, 8, 4, 3), [], name="t")
    assert [title for title in _titles(picture) if "expired" in title] == [
        "expired: snapshots 1–2", "expired: snapshots 5–7"]  # fmt: skip
    (line,) = [path.get("d") for path in _parsed(picture).iter("path") if path.get("stroke-width")]
    assert [piece.count("H") for piece in line.split("M")[1:]] == [2, 2]


def test_savepoints_are_flags_with_names_that_do_not_lie_on_each_other():
    points = [dataclasses.replace(SAVEPOINT, id=n, saved_snapshot_id=n, name=f"long-name-{n}") for n in range(1, 60)]
    picture = timeline(_history(*range(1, 61)), points, name="t")
    named = [text for text in _texts(picture) if text.startswith("long-name")]
    assert 5 <= len(named) <= 12
    assert named[0] == "long-name-59"
    assert "and 54 older" in picture


def test_of_near_savepoints_each_has_its_name_and_a_long_one_keeps_its_snapshot():
    points = [
        dataclasses.replace(SAVEPOINT, id=n, saved_snapshot_id=n, name=f"{'a-long-name' * 9}-{n}")
        for n in range(27, 31)
    ]
    picture = timeline(_history(*range(1, 61)), points, name="t")
    assert len([text for text in _texts(picture) if text.startswith("a-long-name")]) == 4
    assert picture.count("… (snapshot ") >= 4
    assert all(f"… (snapshot {n})" in picture.rpartition("⚑")[2] for n in range(27, 31))


def test_hostile_names_and_messages_stay_text_in_a_timeline():
    hostile = "</title><script>alert(1)</script>'\"&"
    point = dataclasses.replace(SAVEPOINT, message=hostile, name=hostile)
    snapshots = _history(*range(1, 81), message=hostile * 50, operation=hostile)
    points = [dataclasses.replace(point, id=n, saved_snapshot_id=n) for n in range(1, 81)]
    for drawn in (timeline(snapshots, points, name=hostile), timeline([], [point], name=hostile)):
        assert "<script" not in drawn
        assert len(drawn.encode()) < MAX_BYTES
        _parsed(drawn)


def test_thousands_of_versions_are_drawn_in_groups_and_the_timeline_says_so():
    snapshots = [
        *_history(*range(1, 4001), rows=lambda n: 10**12 + n),
        *_history(*range(4001, 5001), operation="split"),
    ]
    picture = timeline(snapshots, [], 5000, name="t")
    assert "rows at 5,000 versions" in picture
    assert "drawn as 80 groups of up to 63 neighbours" in picture
    assert "snapshots 1–63 · 63 ingest · 1,000,000,000,063 rows at the last" in _titles(picture)
    assert len(picture.encode()) < 20_000
    assert max(map(len, timeline_lines(snapshots, [], name="t").splitlines()[:-1])) == 80


def test_a_table_without_rows_and_one_without_versions_have_a_timeline():
    empty = timeline([dataclasses.replace(SNAPSHOT, rows=0)], [], 1, name="t")
    _parsed(empty)
    assert "0 rows at 1 version ·" in empty
    assert timeline_lines([], [], name="t").splitlines()[0] == "history of t"
    _parsed(timeline([], [], name="t"))


def test_the_lines_of_a_timeline_show_the_same():
    snapshots = [*_history(6, operation="compact"), *_history(5, 4), *_history(1, operation="create", rows=lambda _: 0)]
    lines = timeline_lines(snapshots, [SAVEPOINT], name="trips").splitlines()
    assert lines[0] == "history of trips"
    assert lines[1:4] == ["▁▁┊▅▆█", "■ ┊●●○", " ⚑┊"]
    assert lines[4].startswith("rows at 5 versions, 0 to 60 · ● ingest 2 · ○ compact 1 · ■ create 1 · ⚑ savepoint 1")


def test_history_has_its_picture_above_the_list(table):
    t = table(1)
    t.ingest([{"key": 1}], message="<b>bold</b>")
    t.create_savepoint("first")
    history = t.history()
    assert [snapshot.id for snapshot in history] == [2, 1]
    assert history._repr_html_().startswith("<div")
    assert "<svg" in history._repr_html_()
    assert "<b>bold" not in history._repr_html_()
    assert repr(history).splitlines()[:4] == ["history of t", "▁█", "■●", " ⚑"]
    assert history.to_dict()["snapshot"] == [2, 1]


def test_a_grid_too_large_to_save_is_cut_and_says_so():
    grid = bounded(Grid(tuple(f"c{i}" for i in range(300)), (("x" * 10_000,) * 300,) * 20, footer="20 rows"))
    assert len(grid.html().encode()) <= MAX_BYTES
    cut = "values cut to 200 characters (output limit) · showing 5 of 20 rows and "
    assert grid.footer.startswith(f"20 rows · {cut}")
    assert grid.rows[0][0] == "x" * 199 + "…"


def test_each_line_below_a_grid_is_a_line_in_html_too():
    shown = Grid((), (), "one\ntwo", "all files are deleted, too\nnothing was changed").html()
    assert [part in shown for part in (">One</div>", ">Two</div>")] == [True, True]
    assert "All files are deleted, too</div>" in shown
    assert ">Nothing was changed</div>" in shown


def test_a_small_grid_is_left_alone():
    grid = Grid(("a",), ((1,), (None,)), "title", "footer")
    assert bounded(grid) == grid
