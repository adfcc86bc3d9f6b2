"""Bars of files over the keys of their leaves: what lies where, what merges together, and how many there may be."""

from __future__ import annotations

import pytest

import sleeper_nb as sl
from sleeper_nb.maintain.compaction_plan import StrategySettings, plan_compaction
from sleeper_nb.maintain.overlap import letters, overlap


@pytest.fixture
def table(tmp_path):
    with sl.connect(tmp_path) as session:
        schema = sl.Schema(row_keys={"key": "long"}, values={})
        yield lambda *splits: session.create_table("t", schema, list(splits))


def _add(table, *loads):
    for first, end in loads:
        table.ingest([{"key": key} for key in range(first, end)])


def _columns(table, strategy="size-ratio", **settings):
    plan = plan_compaction(table.at().state, strategy, StrategySettings(**settings), (), table._store.clock)
    return overlap(table.at().state, plan.jobs)


def _places(bars):
    return [(bar.letters, round(bar.begin, 2), round(bar.end, 2), bar.rows) for bar in bars]


def test_bars_overlap_where_keys_do(table):
    t = table()
    _add(t, (0, 10), (5, 20), (30, 40))
    (column,) = _columns(t, "basic")
    # the ends in order are 0 5 9 19 30 39, each a sixth of the axis
    assert _places(column.bars) == [("", 0, 0.5, 10), ("", 0.17, 0.67, 15), ("", 0.67, 1, 10)]


def test_what_one_job_merges_has_one_letter_and_comes_first(table):
    t = table(100)
    _add(t, (0, 50), *[(100, 110)] * 4)
    left, right = _columns(t)
    assert _places(left.bars) == [("", 0, 1, 50)]
    assert _places(right.bars) == [("A", 0, 1, 10)] * 4


def test_more_files_than_can_be_told_apart_are_one_bar_for_each_job(table):
    t = table()
    _add(t, *[(i, i + 10) for i in range(0, 140, 10)], (0, 1000))
    (column,) = _columns(t, batch_size=10)
    assert [(bar.letters, bar.files, bar.rows, bar.name) for bar in column.bars[:2]] == [
        ("A", 10, 100, ""),
        ("B", 4, 40, ""),
    ]
    assert [(bar.letters, bar.files, bar.rows) for bar in column.bars[2:]] == [("", 1, 1000)]


def test_the_last_of_very_many_jobs_are_one_bar(table):
    t = table()
    _add(t, *[(i, i + 1) for i in range(30)])
    (column,) = _columns(t, "basic", batch_size=2)
    assert [bar.letters for bar in column.bars] == [*"ABCDEFGHIJ", "K–O"]
    assert sum(bar.files for bar in column.bars) == 30


def test_many_leaves_are_columns_of_neighbours(table):
    t = table(*range(10, 400, 10))
    _add(t, (0, 400))
    columns = _columns(t)
    assert len(columns) == 14
    assert [len(column.leaves) for column in columns] == [3] * 13 + [1]
    assert sum(bar.rows for column in columns for bar in column.bars) == 400


def test_a_file_that_two_leaves_share_is_cut_to_each(table):
    t = table()
    _add(t, (0, 100), (40, 45))
    t.maintenance.split(at=50)
    left, right = _columns(t, "basic")
    # the ends on the left are 0, 40, 44 and the 50 where the leaf ends
    assert _places(left.bars) == [("", 0, 1, 50), ("", 0.25, 0.75, 5)]
    assert _places(right.bars) == [("", 0, 1, 50)]
    assert (right.bars[0].low, right.bars[0].high) == (0, 99)


def test_a_table_without_files_has_columns_without_bars(table):
    assert [column.bars for column in _columns(table(1))] == [(), ()]


def test_jobs_have_letters_like_columns_of_a_sheet():
    assert [letters(i) for i in (0, 25, 26, 701, 702)] == ["A", "Z", "AA", "ZZ", "AAA"]
